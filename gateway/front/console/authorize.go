package console

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
)

// A client that speaks OAuth sends a person's browser to front.AuthorizePath, without the session:
// the cookie goes with what pages of our own ask for. That page does nothing but have the browser
// ask for consentPath, behind the sign-in, where the person is asked.

const (
	consentPath = "/console/authorize"
	// nextCookie remembers during the sign-in what a client asked.
	nextCookie = "handrail_next"
	maxNext    = 3 << 10
)

// authorizeHere takes a browser that a client sent.
func (c *Console) authorizeHere(w http.ResponseWriter, r *http.Request) {
	query := r.URL.RawQuery
	if len(query) > 2*maxNext || strings.ContainsFunc(query, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		front.WriteError(w, capabilities.Errorf(capabilities.CodeInvalidRequest, "the client's request is too large, or not well formed"))
		return
	}
	w.Header().Set("Refresh", "0; url="+consentPath+"?"+query)
	c.write(w, r, http.StatusOK, "back", nil)
}

// keepNext has the browser remember what a client asked while the person signs in.
func keepNext(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != consentPath || len(r.URL.RawQuery) > maxNext || r.URL.RawQuery == "" {
		return
	}
	http.SetCookie(w, next(r, base64.RawURLEncoding.EncodeToString([]byte(r.URL.RawQuery)), 600))
}

func next(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: nextCookie, Value: value, Path: front.SessionPath, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: strings.HasPrefix(front.Origin(r), "https:"), MaxAge: age,
	}
}

// enteredPath leads a browser that has just signed in to what waits, or else to the first page.
const enteredPath = front.SessionPath + "entered"

// goNext is where a browser goes that has just signed in: to what a client asked, if that is why.
func goNext(w http.ResponseWriter, r *http.Request) string {
	kept, err := r.Cookie(nextCookie)
	if err != nil {
		return enteredPath
	}
	http.SetCookie(w, next(r, "", -1))
	query, err := base64.RawURLEncoding.DecodeString(kept.Value)
	if err != nil || len(query) > maxNext {
		return enteredPath
	}
	asked, err := url.ParseQuery(string(query))
	if err != nil {
		return enteredPath
	}
	return consentPath + "?" + asked.Encode()
}

// consentPage is what a client asks, and what a person can answer.
type consentPage struct {
	*visit
	api.ClientAsk
	Request  string
	Families []family
	Face     choice
	Days     choice
}

type family struct {
	api.ToolFamily
	Does, Policy string
	Chosen       bool
}

// familyWords says what a client can do by a family of tools.
var familyWords = map[string]string{
	"audio":    "record sound from a microphone",
	"browser":  "use web pages in a browser of its own",
	"camera":   "take photos and films with a camera",
	"catalog":  "search for tools",
	"desktop":  "see the screen, and use mouse and keyboard",
	"fs":       "read and write files of the workspace, and run commands there",
	"location": "learn where a device is",
	"macro":    "run the macros that are set up here",
	"node":     "see which devices there are, and what they can do",
	"secret":   "have secrets delivered that you allowed it",
	"skill":    "read the skills that are set up here",
	"subagent": "give tasks to workers",
	"web":      "fetch web pages",
}

func (c *Console) authorize(v *visit) {
	if v.r.URL.RawQuery == "" { // no client sent anybody here
		v.seeOther("/console/clients", "")
		return
	}
	c.showConsent(v, nil)
}

func (c *Console) showConsent(v *visit, problem error) {
	request := v.r.URL.RawQuery
	if v.r.Method == http.MethodPost {
		request = v.r.PostForm.Get("request")
	}
	var ask api.ClientAsk
	if err := v.get("/v1/clients/asked?"+url.Values{"request": {request}}.Encode(), &ask); err != nil {
		v.show(page{name: "problem", title: "Let a client in", here: "/console/tokens", fault: err})
		return
	}
	if ask.Refused != "" {
		v.goBack(ask.Back, leavingClient{ask.Name, ask.Place, ask.Refused, ""})
		return
	}
	p := consentPage{visit: v, ClientAsk: ask, Request: request}
	for _, f := range ask.Families {
		one := family{ToolFamily: f, Does: orElse(familyWords[f.Name], "use the tools of "+f.Name), Chosen: f.Name == "node"}
		switch {
		case f.Runs > 0 && f.Asks > 0:
			one.Policy = "a person is asked before " + strconv.Itoa(f.Asks) + " of " + count(f.Runs+f.Asks, "tool", "tools")
		case f.Runs > 0:
			one.Policy = "without asking anybody"
		case f.Asks > 0:
			one.Policy = "a person is asked each time"
		default:
			one.Policy = "policy permits none of it now"
		}
		if problem != nil {
			one.Chosen = slices.Contains(v.r.PostForm["tool"], f.Name)
		}
		p.Families = append(p.Families, one)
	}
	p.Face = choose("a-face", "face", "Its list of tools begins with", "", "", "all of these", "search", "the search for tools", "whole",
		"all of these, rarely used ones included")
	p.Days = choose("a-days", "days", "For how long", "30", "1", "a day", "7", "a week", "30", "30 days", "365", "a year", "0",
		"until it is revoked")
	v.show(page{
		name: "authorize", title: "Let a client in", here: "/console/tokens", fault: problem,
		remedy: v.remedy(problem, "POST /v1/clients", consentConfirm), modules: []string{"passkey"}, data: p,
	})
}

// consentConfirm is where the page asks what the passkey of the person is asked.
const consentConfirm = "/console/confirm/oauth"

// leavingClient is the page from which the browser goes back to a client.
type leavingClient struct{ Name, Place, Refused, As string }

// goBack sends the browser back to a client. A form may not lead it elsewhere (form-action of
// pagePolicy): the page that answers does.
func (v *visit) goBack(to string, l leavingClient) {
	v.w.Header().Set("Refresh", "1; url="+to)
	v.show(page{name: "clientback", title: "Back to the client", here: "/console/tokens", data: l})
}

// authorized takes the person's answer.
func (c *Console) authorized(v *visit) {
	f := v.r.PostForm
	var done api.AnsweredClient
	if f.Get("answer") != "allow" {
		if err := v.ask(http.MethodPost, v1("clients", "refuse"), api.RefuseClient{Request: f.Get("request")}, &done); err != nil {
			v.show(page{name: "problem", title: "Let a client in", here: "/console/tokens", fault: err})
			return
		}
		v.goBack(done.Redirect, leavingClient{Place: done.Place})
		return
	}
	if err := v.sends("oauth", &done); err != nil {
		c.showConsent(v, err)
		return
	}
	v.goBack(done.Redirect, leavingClient{Place: done.Place, As: strings.TrimSpace(f.Get("principal"))})
}

// oauthWanted is what a person lets a client do.
func oauthWanted(f url.Values) (request, error) {
	days, err := strconv.Atoi(orElse(f.Get("days"), "30"))
	if err != nil || days < 0 || days > 3650 {
		return request{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "days must be a number from 0 to 3650")
	}
	return request{v1("clients"), api.AllowClient{
		Request: f.Get("request"), Principal: capabilities.PrincipalID(strings.TrimSpace(f.Get("principal"))),
		Lane: capabilities.LaneID(strings.TrimSpace(f.Get("lane"))), Face: f.Get("face"), TTLSeconds: int64(days) * 24 * 3600, Tools: f["tool"],
	}}, nil
}

// clientSteps shows how clients got on, on their way in.
func (c *Console) clientSteps(v *visit) {
	var list struct {
		Steps []api.ClientStep `json:"steps"`
	}
	err := v.get(v1("clients", "steps"), &list)
	var all []clientStep
	for _, s := range list.Steps {
		all = append(all, clientStep{s, stepWords[s.What]})
	}
	v.show(page{
		name: "clients", title: "Attempts of clients", here: "/console/tokens", fault: err,
		data: clientsPage{v, all, front.Origin(v.r) + "/mcp"},
	})
}

type clientsPage struct {
	*visit
	Steps   []clientStep
	Address string
}

type clientStep struct {
	api.ClientStep
	Words string
}

// Good reports whether the step went as it should.
func (s clientStep) Good() bool { return s.Fault == "" }

// stepWords are the steps in words, in their order.
var stepWords = map[string]string{
	"challenged": "called without a token, and was told where to begin",
	"resource":   "read where its tokens come from",
	"server":     "read how tokens are got",
	"registered": "registered itself",
	"asked":      "sent a person here, who was shown what it asks",
	"allowed":    "a person let it in",
	"denied":     "was not let in",
	"fetched":    "fetched its tokens",
	"refreshed":  "got new tokens",
	"called":     "called for the first time since the gateway started",
	"refused":    "called with a token that is not good",
	"revoked":    "gave its tokens up",
}
