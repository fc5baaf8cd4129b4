package console

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/oidc"
	"github.com/handrail-dev/handrail/gateway/passkey"
	"github.com/handrail-dev/handrail/gateway/principal"
)

//go:embed static/*.css static/*.js static/*.svg static/*.png
var static embed.FS

// API is the REST surface inside the process; front/rest implements it.
type API interface {
	Ask(r *http.Request, method, target string, in, out any) error
	Pass(w http.ResponseWriter, r *http.Request, target string)
	Relay(w http.ResponseWriter, r *http.Request, method, target string)
	Offers(who principal.Identity, route string) bool
}

// Sessions opens and ends sessions; gateway/principal implements it.
type Sessions interface {
	Redeem(ctx context.Context, code string) (principal.Token, principal.Secret, error)
	NumberWaits() bool
	RedeemNumber(ctx context.Context, typed string) (principal.Token, principal.Secret, error)
	SignIn(ctx context.Context, name string, p principal.Password) (principal.Token, principal.Secret, error)
	EndSession(context.Context, principal.Identity) error
	ExtendSession(context.Context, principal.Identity) (principal.Token, error)
	Get(tokenID string) (principal.Token, error)
}

// Passkeys signs in by passkey; gateway/passkey implements it.
type Passkeys interface {
	Some(at passkey.Place) bool
	BeginSignIn(at passkey.Place) passkey.GetOptions
	SignIn(ctx context.Context, at passkey.Place, answer []byte) (principal.Token, principal.Secret, error)
}

// Elsewhere signs in at an OpenID provider; gateway/oidc implements it.
type Elsewhere interface {
	Host() string
	Begin(ctx context.Context, back string) (oidc.Begun, error)
	Finish(context.Context, oidc.Answer) (principal.Token, principal.Secret, error)
}

// Options of New; all required unless a default is named.
type Options struct {
	API      API
	Sessions Sessions
	Passkeys Passkeys
	// Elsewhere is the OpenID provider at which people sign in; default: there is none.
	Elsewhere Elsewhere
	Site      capabilities.SiteID
	Version   string           // of the gateway; empty: not shown
	Log       *slog.Logger     // default: discards
	Now       func() time.Time // default time.Now
}

// Console is the pages.
type Console struct {
	opts   Options
	front  *front.Server
	assets map[string]asset // by file name
	pages  *pages
}

// asset is a file of the pages, below a digest so that browsers may keep it.
type asset struct {
	mime, address string
	plain         []byte
	packed        func() []byte // by gzip, once somebody asks: a start does not wait for it; nil if it cannot be
}

// New makes the pages; it starts nothing.
func New(o Options) (*Console, error) {
	if o.API == nil || o.Sessions == nil || o.Passkeys == nil {
		return nil, errors.New("console: an Options field that is required is missing")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	pages, err := templates()
	if err != nil {
		return nil, err
	}
	c := &Console{opts: o, assets: map[string]asset{}, pages: pages}
	files, err := static.ReadDir("static")
	if err != nil {
		return nil, err
	}
	sum := sha256.New() // of all together: modules name each other without a digest
	for _, f := range files {
		data, err := static.ReadFile("static/" + f.Name())
		if err != nil {
			return nil, err
		}
		sum.Write(data)
		c.assets[f.Name()] = newAsset(f.Name(), data)
	}
	folder := "/console/static/" + hex.EncodeToString(sum.Sum(nil)[:6]) + "/"
	for name, a := range c.assets {
		a.address = folder + name
		c.assets[name] = a
	}
	return c, nil
}

func newAsset(name string, data []byte) asset {
	a := asset{plain: data}
	switch {
	case strings.HasSuffix(name, ".css"):
		a.mime = "text/css; charset=utf-8"
	case strings.HasSuffix(name, ".js"):
		a.mime = "text/javascript; charset=utf-8"
	case strings.HasSuffix(name, ".png"):
		a.mime = "image/png"
	default:
		a.mime = "image/svg+xml"
	}
	a.packed = sync.OnceValue(func() []byte {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := w.Write(data)
		if errors.Join(err, w.Close()) != nil {
			return nil
		}
		return packed.Bytes()
	})
	return a
}

// Mount puts the pages at their addresses.
func (c *Console) Mount(f *front.Server) {
	c.front = f
	f.Handle("GET /{$}", front.Open, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/console/", http.StatusSeeOther)
	}))
	f.Handle("GET /console/static/{digest}/{name}", front.Open, http.HandlerFunc(c.serveAsset))
	f.Handle("GET /console/app.webmanifest", front.Open, http.HandlerFunc(c.serveManifest))
	f.Handle("GET /console/worker.js", front.Open, http.HandlerFunc(c.serveWorker))
	f.Handle("GET /console/login", front.Open, http.HandlerFunc(c.loginPage))
	f.Handle("POST /console/login", front.Open, http.HandlerFunc(c.login))
	f.Handle("POST /console/login/number", front.Open, http.HandlerFunc(c.loginNumber))
	f.Handle("POST /console/login/password", front.Open, http.HandlerFunc(c.loginPassword))
	f.Handle("POST /console/login/passkey/options", front.Open, http.HandlerFunc(c.askPasskey))
	f.Handle("POST /console/login/passkey", front.Open, http.HandlerFunc(c.loginPasskey))
	if c.opts.Elsewhere != nil {
		f.Handle("POST /console/login/elsewhere", front.Open, http.HandlerFunc(c.loginElsewhere))
		f.Handle("GET "+front.LoginBackPath, front.Open, http.HandlerFunc(c.vouchedFor))
		f.Handle("GET "+finishPath, front.Open, http.HandlerFunc(c.finishLogin))
	}
	f.Handle("GET "+front.SignInPath+"{place}", front.Open, http.HandlerFunc(c.sentBack))
	f.Handle("GET "+front.AuthorizePath, front.Open, http.HandlerFunc(c.authorizeHere))
	signedOut := http.HandlerFunc(c.signedOut)
	for pattern, page := range map[string]func(*visit){
		"GET /console/{$}":                                    c.home,
		"GET " + enteredPath:                                  c.entered,
		"POST /console/logout":                                c.logout,
		"POST /console/session":                               c.extend,
		"GET /console/events":                                 c.events,
		"GET /console/approvals":                              c.approvals,
		"POST /console/approvals":                             c.answerTogether,
		"POST /console/confirm/answers":                       c.approvalsPasskey,
		"POST /console/confirm/{what}":                        c.confirm,
		"GET /console/approvals/{approval}":                   c.oneApproval,
		"GET /console/approvals/{approval}/frame":             c.approvalFrame,
		"POST /console/approvals/{approval}":                  c.answer,
		"GET /console/account":                                c.account,
		"POST /console/account/password":                      c.setPassword,
		"POST /console/account/passkeys/options":              c.passkeyOptions,
		"POST /console/account/passkeys":                      c.addPasskey,
		"POST /console/account/passkeys/{passkey}":            c.removePasskey,
		"POST /console/account/push":                          c.subscribe,
		"POST /console/account/push/{subscription}":           c.unsubscribe,
		"POST /console/account/sessions":                      c.endSessions,
		"POST /console/account/sessions/{session}":            c.endSession,
		"POST /console/approvals/{approval}/passkey":          c.approvalPasskey,
		"POST /console/approvals/{approval}/extend":           c.moreTime,
		"POST /console/approvals/{approval}/override":         c.override,
		"GET /console/calls":                                  c.callsPage,
		"GET /console/calls/{call}":                           c.callPage,
		"POST /console/calls/{call}":                          c.cancelCall,
		"GET /console/tools":                                  c.toolsPage,
		"GET /console/tools/{tool}":                           c.toolPage,
		"POST /console/tools/{tool}":                          c.upload,
		"GET /console/nodes":                                  c.nodes,
		"POST /console/nodes/{node}":                          c.changeNode,
		"GET /console/live/{node}":                            c.watchPage,
		"GET /console/live/{node}/watching":                   c.watching,
		"POST /console/live/{node}/{source}/whep":             c.whep,
		"PATCH /console/live/{node}/{source}/whep/{session}":  c.whep,
		"DELETE /console/live/{node}/{source}/whep/{session}": c.whep,
		"POST /console/recordings":                            c.whep,
		"GET /console/recordings/{recording}":                 c.whep,
		"DELETE /console/recordings/{recording}":              c.whep,
		"GET /console/artifacts/{artifact}":                   c.whep,
		"POST /console/control/{node}":                        c.control,
		"PUT /console/control/{node}/{session}":               c.control,
		"POST /console/control/{node}/{session}/{with}":       c.control,
		"DELETE /console/control/{node}/{session}":            c.control,
		// somebody reloads what is shown once
		"GET /console/pair":                    func(v *visit) { v.seeOther("/console/nodes", "") },
		"POST /console/pair":                   c.pair,
		"GET /console/grants":                  c.grants,
		"POST /console/grants":                 c.giveGrant,
		"POST /console/grants/{grant}":         c.endGrant,
		"GET /console/policies":                c.policies,
		"GET /console/policies/edit":           c.editPolicy,
		"POST /console/policies/draft":         c.draft,
		"GET /console/policies/explain":        func(v *visit) { v.seeOther("/console/policies", "") },
		"POST /console/policies/explain":       c.explain,
		"GET /console/policies/{set}":          c.policySet,
		"POST /console/policies/{set}":         c.changePolicy,
		"GET /console/providers":               c.providers,
		"POST /console/providers/{provider}":   c.changeProvider,
		"POST /console/satellites/{satellite}": c.changeSatellite,
		"POST /console/sign-ins":               c.beginSignIn,
		"GET /console/sign-ins/{place}/finish": c.finishSignIn,
		"POST /console/sign-ins/{name}/end":    c.endSignIn,
		"GET /console/secrets":                 c.secrets,
		"POST /console/secrets/{secret}":       c.changeSecret,
		"GET /console/tokens":                  c.tokens,
		"POST /console/tokens":                 c.newTokenMade,
		"POST /console/tokens/{token}":         c.revokeToken,
		"GET /console/connect":                 func(v *visit) { v.seeOther("/console/tokens", "") }, // somebody reloads what is shown once
		"POST /console/connect":                c.connected,
		"GET /console/connect/{client}":        func(v *visit) { v.seeOther("/console/tokens", "") }, // likewise
		"POST /console/connect/{client}":       c.connectHere,
		"GET /console/try":                     func(v *visit) { v.seeOther("/console/", "") },
		"POST /console/try":                    c.try,
		"GET " + consentPath:                   c.authorize,
		"POST " + consentPath:                  c.authorized,
		"GET /console/clients":                 c.clientSteps,
		"GET /console/jobs":                    c.jobsPage,
		"POST /console/jobs":                   c.addJob,
		"GET /console/jobs/{job}":              c.jobPage,
		"POST /console/jobs/{job}":             c.cancelJob,
		"POST /console/workers/{worker}":       c.changeWorker,
		"GET /console/turns":                   c.turnsPage,
		"GET /console/turns/{turn}":            c.turnPage,
		"GET /console/memory":                  c.memoryPage,
		"GET /console/memory/export":           c.exportMemory,
		"GET /console/memory/{fact}":           c.factPage,
		"POST /console/memory/{fact}":          c.changeFact,
		"GET /console/people":                  c.people,
		"POST /console/people":                 c.addPerson,
		"POST /console/people/{user}":          c.changePerson,
		"GET /console/people/{user}":           func(v *visit) { v.seeOther("/console/people", "") }, // somebody reloads what is shown once
		"GET /console/governance":              c.governancePage,
		"GET /console/governance/report":       c.governanceReport,
		"GET /console/governance/{view}":       c.governanceView,
		"GET /console/governance/csv/{view}":   c.governanceCSV,
		"GET /console/governance/json/{view}":  c.governanceJSON,
		"GET /console/drift":                   c.driftPage,
		"POST /console/drift":                  c.resolveDrift,
		"POST /console/drift/{what}/{id}":      c.endDrift,
		"GET /console/ledger":                  c.ledgerPage,
		"GET /console/ledger/export":           c.exportLedger,
		"GET /console/ledger/verify":           func(v *visit) { v.seeOther("/console/ledger", "") },
		"POST /console/ledger/verify":          c.verifyLedger,
		"GET /console/ledger/compare":          func(v *visit) { v.seeOther("/console/ledger", "") },
		"POST /console/ledger/compare":         c.compareLedger,
		"POST /console/surfaced":               c.surfaced,
		"GET /console/stop":                    c.showSwitch,
		"POST /console/stop":                   c.stop,
		"POST /console/resume":                 c.resume,
		"GET /console/":                        c.nothing,
	} {
		f.HandleSession(pattern, signedOut, c.visited(page))
	}
}

// visit is one request of somebody who is signed in.
type visit struct {
	w    http.ResponseWriter
	r    *http.Request
	who  principal.Identity
	csrf string
	con  *Console
	// watched is the device whose live page is shown; "" on other pages.
	watched capabilities.NodeID
	// owners are those whose device one can be, once a page wants them.
	owners []string
}

func (c *Console) visited(page func(*visit)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page(&visit{w: w, r: r, who: front.From(r.Context()), csrf: front.CSRF(r.Context()), con: c})
	})
}

// ask asks the REST surface as the visitor.
func (v *visit) ask(method, target string, in, out any) error {
	return v.con.opts.API.Ask(v.r, method, target, in, out)
}

// get reads from the REST surface as the visitor.
func (v *visit) get(target string, out any) error { return v.ask(http.MethodGet, target, nil, out) }

// v1 joins segments into an address of the REST surface, each escaped.
func v1(segments ...string) string {
	var b strings.Builder
	b.WriteString("/v1")
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

// at joins segments into an address of the console.
func at(segments ...string) string {
	return "/console" + strings.TrimPrefix(v1(segments...), "/v1")
}

// seeOther ends a change: the browser asks for the page with the outcome, which is
// one of the names that outcomes knows.
func (v *visit) seeOther(address, outcome string) {
	if outcome != "" {
		sep := "?"
		if strings.Contains(address, "?") {
			sep = "&"
		}
		address += sep + "done=" + url.QueryEscape(outcome)
	}
	v.w.Header().Set("Cache-Control", "no-store")
	http.Redirect(v.w, v.r, address, http.StatusSeeOther)
}

// pagePolicy is what a browser lets the pages do: nothing that is not ours, no script or
// style inside a page, no frame around it.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types handrail"

func guardHeaders(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Frame-Options", "DENY")
	// With no-referrer browsers would send the pages' own forms without an Origin.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), usb=(), serial=(), clipboard-read=()")
}

func (c *Console) serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := c.assets[r.PathValue("name")]
	if !ok || a.address != r.URL.Path {
		front.WriteError(w, capabilities.Errorf(capabilities.CodeNotFound, "there is no such file"))
		return
	}
	guardHeaders(w)
	h := w.Header()
	h.Set("Content-Type", a.mime)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := a.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		if packed := a.packed(); packed != nil {
			h.Set("Content-Encoding", "gzip")
			body = packed
		}
	}
	_, _ = w.Write(body)
}

// events is the REST surface's stream, under the session.
func (c *Console) events(v *visit) {
	guardHeaders(v.w)
	c.opts.API.Pass(v.w, v.r, v1("events"))
}
