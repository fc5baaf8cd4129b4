//go:build unix

package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
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

// session opens a session as a client that is no browser, and gives what its requests
// carry.
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

// What another page, a rebound name or a guess can send changes nothing.
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
		for _, path := range []string{"/console/stop", "/console/resume", "/console/logout", "/console/session", "/console/approvals/a-x", "/console//stop", "/console/./stop", "/CONSOLE/stop"} {
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

// Whatever calls itself whatever is text.
func TestHostileStringsAreText(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	harmless := func(page string) {
		t.Helper()
		if got := d.value("window.pwned"); got != "undefined" {
			t.Fatalf("%s ran what it was given", page)
		}
		if got := d.value(`[...document.querySelectorAll("script")].filter(s => !s.src.includes("/console/static/") || s.textContent).length + document.querySelectorAll("iframe,base,img,svg,math,meta[http-equiv],[onerror],[onload]").length + [...document.forms].filter(f => new URL(f.action).origin !== location.origin).length`); got != "0" {
			t.Errorf("%s: %s foreign elements: %s", page, got, d.value("document.body.innerHTML"))
		}
	}
	asked := 0
	for i, s := range corpus {
		args, err := json.Marshal(map[string]string{"text": s})
		must(t, err)
		refused := d.call(fmt.Sprintf("robot-%d", i), string(site.ToolPress), string(args))
		for late := time.After(within); len(d.Consent.Approvals()) == asked; {
			changed := d.Consent.Changed()
			if len(d.Consent.Approvals()) > asked {
				break
			}
			select {
			case <-changed:
			case r := <-refused:
				t.Fatalf("%q: %+v", s, r)
			case <-late:
				t.Fatalf("%q: no question", s)
			}
		}
		asked++
	}
	d.goTo("/console/approvals")
	harmless("approvals")
	page := d.value("document.body.innerText")
	if !strings.Contains(page, `\u{202e}`) && !strings.Contains(page, `onerror=`) {
		t.Errorf("what was said is not shown:\n%s", page)
	}
	reasons := []string{""} // as many together as a reason holds
	for _, s := range corpus {
		last := len(reasons) - 1
		switch {
		case len(s) > 500:
		case len(reasons[last])+len(s) > 499:
			reasons = append(reasons, s)
		default:
			reasons[last] += " " + s
		}
	}
	for _, s := range reasons {
		if _, err := d.Stop(t.Context(), "ann", s); err != nil {
			t.Fatal(err)
		}
		d.goTo("/console/stop")
		harmless("stop")
		if _, err := d.Resume(t.Context(), "ann", s); err != nil {
			t.Fatal(err)
		}
	}
	d.goTo("/console/approvals?done=" + url.QueryEscape(corpus[0]))
	harmless("an address")
	d.goTo("/console/" + url.PathEscape(corpus[1]))
	harmless("an address that is none")
	for _, asked := range d.requested() {
		if !strings.HasPrefix(asked, d.URL()) && asked != "about:blank" {
			t.Errorf("a page asked for %s", asked)
		}
	}
}
