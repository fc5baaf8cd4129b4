//go:build unix

package console

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// corpus is what a hostile node, agent, page or tool would call itself.
var corpus = []string{
	`<script>window.pwned=1</script>`,
	`"><img src=x onerror=window.pwned=1>`,
	`'><svg/onload=window.pwned=1>`,
	"`${window.pwned=1}`",
	`</textarea></title></style></noscript><script>window.pwned=1</script>`,
	`javascript:window.pwned=1`,
	`<iframe srcdoc="<script>parent.pwned=1</script>">`,
	`<form action=https://evil.example><input name=csrf>`,
	`<base href=https://evil.example/><meta http-equiv=refresh content="0;url=https://evil.example">`,
	`{{constructor.constructor('window.pwned=1')()}}`,
	"<scr\u0000ipt>window.pwned=1</scr\u0000ipt>",
	"\u202egnp.exe\u202c \u200b\u2066hidden\u2069",
	`&lt;script&gt;window.pwned=1&lt;/script&gt; &#60;b&#62;`,
	`<!--<img src="--><img src=x onerror=window.pwned=1>">`,
	`<math><mtext><table><mglyph><style><img src=x onerror=window.pwned=1>`,
	strings.Repeat("W", 3000),
}

// session opens a session as a client that is no browser, and returns what its requests carry.
func (d *desk) session(role principal.Role) http.Header {
	d.t.Helper()
	_, token, err := d.Tokens.Create(context.Background(), principal.Site, principal.Spec{Principal: "eve", Role: role})
	must(d.t, err)
	who, err := d.Tokens.Authenticate(token.Reveal())
	must(d.t, err)
	code, _, err := d.Tokens.Login(who, "")
	must(d.t, err)
	status, got := send(d.t, "POST", d.URL()+"/console/login", http.Header{"Origin": {d.URL()}}, url.Values{"code": {code.Reveal()}})
	if status != http.StatusSeeOther {
		d.t.Fatalf("login: %d", status)
	}
	cookie, _, _ := strings.Cut(got.Get("Set-Cookie"), ";")
	if set := got.Get("Set-Cookie"); !strings.Contains(set, "HttpOnly") || !strings.Contains(set, "SameSite=Strict") || !strings.Contains(set, "Path=/console/") {
		d.t.Errorf("the cookie: %s", set)
	}
	return http.Header{"Cookie": {cookie}}
}

func with(h http.Header, pairs ...string) http.Header {
	h = h.Clone()
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// Requests that another page, a rebound name or a guess can send change nothing.
func TestForgedRequestsChangeNothing(t *testing.T) {
	d := startSite(t)
	me := d.session(principal.RoleAdmin)
	form := url.Values{"reason": {"forged"}}
	evil := "https://evil.example"
	for name, h := range map[string]http.Header{
		"no csrf":                  with(me, "Origin", d.URL()),
		"wrong csrf":               with(me, "Origin", d.URL(), front.CSRFHeader, "AAAA"),
		"no origin":                with(me, front.CSRFHeader, "AAAA"),
		"foreign origin":           with(me, "Origin", evil),
		"null origin":              with(me, "Origin", "null"),
		"other port":               with(me, "Origin", "http://127.0.0.1:1"),
		"cross-site":               with(me, "Origin", d.URL(), "Sec-Fetch-Site", "cross-site"),
		"no cookie":                {"Origin": {d.URL()}},
		"a token in the cookie":    {"Origin": {d.URL()}, "Cookie": {front.SessionCookie + "=" + d.MustToken("boss", principal.RoleAdmin)}},
		"a guess in the cookie":    {"Origin": {d.URL()}, "Cookie": {front.SessionCookie + "=hrs_" + strings.Repeat("A", 43)}},
		"two cookies":              {"Origin": {d.URL()}, "Cookie": {me.Get("Cookie") + "; " + me.Get("Cookie")}},
		"the cookie as a bearer":   {"Origin": {d.URL()}, "Authorization": {"Bearer " + strings.TrimPrefix(me.Get("Cookie"), front.SessionCookie+"=")}},
		"a forwarded host":         with(me, "Origin", evil, "X-Forwarded-Host", "evil.example", "Forwarded", "host=evil.example"),
		"a method in a header":     with(me, "Origin", d.URL(), "X-HTTP-Method-Override", "GET"),
		"an admin's bearer beside": with(me, "Origin", evil, "Authorization", "Bearer "+d.MustToken("chief", principal.RoleAdmin)),
	} {
		for _, path := range []string{"/console/stop", "/console/tokens", "/console/policies/draft", "/console/resume", "/console/logout", "/console/session", "/console/approvals/a-x", "/console//stop", "/console/./stop", "/CONSOLE/stop"} {
			status, _ := send(t, "POST", d.URL()+path, h.Clone(), form)
			if status < 300 {
				t.Errorf("%s: POST %s answered %d", name, path, status)
			}
		}
	}
	if _, on := d.Switch.Now(); on {
		t.Fatal("a forged request stopped the site")
	}
	// A change is no matter of a GET, nor of a HEAD.
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		_, _ = send(t, method, d.URL()+"/console/stop?reason=x", with(me, "Origin", d.URL()), nil)
	}
	if _, on := d.Switch.Now(); on {
		t.Fatal("another method stopped the site")
	}
	for _, host := range []string{"evil.example", "localhost.evil.example", "10.0.0.1"} {
		req, err := http.NewRequest("GET", d.URL()+"/console/stop", nil)
		must(t, err)
		req.Host, req.Header = host, me.Clone()
		resp, err := http.DefaultTransport.RoundTrip(req)
		must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("a page for the Host %s: %d", host, resp.StatusCode)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	_, h := send(t, "GET", d.URL()+"/console/stop", me.Clone(), nil)
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'", "script-src 'self'"} {
		if !strings.Contains(h.Get("Content-Security-Policy"), want) {
			t.Errorf("the policy lacks %s", want)
		}
	}
	if strings.Contains(h.Get("Content-Security-Policy"), "unsafe") || h.Get("X-Frame-Options") != "DENY" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("headers: %v", h)
	}
}

// Every change that the server itself says there is, is refused to whoever cannot
// know the session's value or does not come from a page of ours; the ledger, which
// records every change, is the judge.
func TestEveryChangeNeedsTheSessionsValue(t *testing.T) {
	d := startSite(t)
	me := d.session(principal.RoleAdmin)
	d.call("robot", string(site.ToolPress), `{"text":"x"}`)
	d.waiting(1)
	body := read(t, d.URL()+"/console/approvals", me)
	_, after, _ := strings.Cut(body, `data-csrf="`)
	csrf, _, _ := strings.Cut(after, `"`)
	if len(csrf) < 20 {
		t.Fatalf("the page has no value: %.300s", body)
	}
	param := regexp.MustCompile(`\{[a-z]+\}`)
	form := url.Values{"answer": {"call"}, "acknowledged": {"1"}, "do": {"approve"}, "role": {"admin"}, "principal": {"mallory"}, "days": {"0"}, "effect": {"permit"}, "base": {"active"}, "new-name": {"evil.cedar"}, "new": {"permit (principal, action, resource);"}, "code": {"x"}}
	changes := 0
	tip := func() uint64 { seq, _ := d.Ledger.Tip(); return seq }
	before, question := tip(), d.Consent.Approvals()[0].ID
	routes := d.Front.Routes()
	for _, r := range routes {
		method, path, named := strings.Cut(r.Pattern, " ")
		if !named || method == http.MethodGet {
			continue
		}
		path = param.ReplaceAllStringFunc(path, func(p string) string {
			switch p {
			case "{approval}":
				return question
			case "{node}":
				return string(d.node.ID)
			}
			return "x"
		})
		attempts := map[string]http.Header{
			"no value":         with(me, "Origin", d.URL()),
			"a guess":          with(me, "Origin", d.URL(), front.CSRFHeader, strings.Repeat("A", len(csrf))),
			"no origin":        with(me, front.CSRFHeader, csrf),
			"another origin":   with(me, front.CSRFHeader, csrf, "Origin", "https://evil.example"),
			"the null origin":  with(me, front.CSRFHeader, csrf, "Origin", "null"),
			"a page elsewhere": with(me, front.CSRFHeader, csrf, "Origin", d.URL(), "Sec-Fetch-Site", "same-site"),
		}
		switch r.Access {
		case front.Bearer: // a cookie opens nothing here
			attempts["the cookie and the value"] = with(me, "Origin", d.URL(), front.CSRFHeader, csrf)
		case front.Open, front.Shared:
			delete(attempts, "no value") // who signs in has no session yet
			delete(attempts, "a guess")
			// OAuth clients come without a session, and with a code or token of their own; workers
			// elsewhere with a code that an admin made, or by the key that it let in.
			if !strings.HasPrefix(path, "/console/login") && !strings.HasPrefix(path, "/oauth/") && path != "/v1/workers/join" {
				t.Errorf("%s changes something for strangers", r.Pattern)
			}
		}
		changes++
		for name, h := range attempts {
			if status, _ := send(t, method, d.URL()+path, h, form); status < 400 {
				t.Errorf("%s with %s answered %d", r.Pattern, name, status)
			}
		}
	}
	if changes < 20 {
		t.Errorf("only %d of %d routes change something", changes, len(routes))
	}
	list, err := d.Ledger.Packets(t.Context(), ledger.Query{After: before})
	must(t, err)
	for _, p := range list {
		if p.Principal != "robot" { // whose question is written down while it waits
			t.Errorf("something was changed: %s by %s", p.Kind, p.Principal)
		}
	}
	// With both it is taken: what was refused above was refused for lacking them.
	if status, _ := send(t, "POST", d.URL()+"/console/stop", with(me, "Origin", d.URL(), front.CSRFHeader, csrf), url.Values{}); status != http.StatusSeeOther {
		t.Errorf("a form of ours answered %d", status)
	}
	if _, on := d.Switch.Now(); !on || tip() == before {
		t.Error("a form of ours changed nothing")
	}
}

// read returns a page as a client that is no browser gets it.
func read(t *testing.T, address string, header http.Header) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, address, nil)
	must(t, err)
	req.Header = header.Clone()
	var client http.Client
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(body)
}

// A client that opens the console's streams without end is told where it ends, and the
// pages go on.
func TestStreamsOfASessionAreCapped(t *testing.T) {
	d := startSite(t)
	me := d.session(principal.RoleViewer)
	var client http.Client
	defer client.CloseIdleConnections()
	held := 0
	for {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL()+"/console/events", nil)
		must(t, err)
		req.Header = me.Clone()
		resp, err := client.Do(req)
		must(t, err)
		if resp.StatusCode == http.StatusOK {
			t.Cleanup(func() { _ = resp.Body.Close() })
			if held++; held > 1000 {
				t.Fatal("there is no end to it")
			}
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != capabilities.CodeOverloaded.Info().HTTP || !strings.Contains(string(body), "event streams open") {
			t.Errorf("refused with %d %s", resp.StatusCode, body)
		}
		break
	}
	if held != 32 {
		t.Errorf("%d streams were opened", held)
	}
	if page := read(t, d.URL()+"/console/approvals", me); !strings.Contains(page, "No approvals pending") {
		t.Errorf("the page is gone: %.300s", page)
	}
}

// Guessing at the login is limited, whatever it fails on, and a code that is good
// passes all the same: a stranger on the same address locks nobody out.
func TestGuessingIsLimited(t *testing.T) {
	d := startSite(t)
	own := http.Header{"Origin": {d.URL()}}
	limited := 0
	for i := range 40 {
		form := url.Values{"code": {fmt.Sprintf("hrl_%043d", i)}}
		h := own.Clone()
		switch i % 4 {
		case 1:
			form = url.Values{"code": {""}}
		case 2:
			h = http.Header{"Origin": {d.URL()}, "Sec-Fetch-Site": {"none"}} // a bogus field skips nothing
		case 3:
			h.Set("X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i))
		}
		status, _ := send(t, "POST", d.URL()+"/console/login", h, form)
		if status < 400 {
			t.Fatalf("guess %d: %d", i, status)
		}
		if status == capabilities.CodeOverloaded.Info().HTTP {
			limited++
		}
	}
	if limited < 20 {
		t.Errorf("%d of 40 guesses were limited", limited)
	}
	d.session(principal.RoleViewer)
}

// A session that was put into the browser before is not the one after signing in.
func TestSignInMakesANewSession(t *testing.T) {
	d := startSite(t)
	first := d.session(principal.RoleViewer)
	second := d.session(principal.RoleViewer)
	if first.Get("Cookie") == second.Get("Cookie") {
		t.Error("two sessions are one")
	}
	if status, _ := send(t, "GET", d.URL()+"/console/approvals?session="+url.QueryEscape(second.Get("Cookie")), http.Header{}, nil); status != http.StatusSeeOther {
		t.Errorf("a session in the address: %d", status)
	}
}
