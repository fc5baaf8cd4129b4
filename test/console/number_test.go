//go:build unix

package console

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/principal"
)

// showsNumber has the terminal show a number, as the first start does.
func (d *desk) showsNumber() principal.Number {
	d.t.Helper()
	_, token, err := d.Tokens.Create(d.t.Context(), principal.Site, principal.Spec{Principal: "admin", Role: principal.RoleAdmin})
	must(d.t, err)
	who, err := d.Tokens.Authenticate(token.Reveal())
	must(d.t, err)
	n, err := d.Tokens.Number(who)
	must(d.t, err)
	return n
}

// The person who has just started Handrail types the number of the terminal, and is in. The page
// asks for it where there is one alone.
func TestTheFirstBrowserSignsInByANumber(t *testing.T) {
	d := startSite(t)
	d.browser = startChromeAt(t, byName)
	d.open(d.named() + "/console/login")
	if d.value(`document.getElementById("by-number") === null`) != "true" {
		t.Error("it asks for a number that nobody shows")
	}
	n := d.showsNumber()
	d.open(d.named() + "/console/login")
	d.await(`document.activeElement.id === "number"`)
	d.shots("login-number")
	d.typed("0")
	d.key("Enter")
	d.await(`document.querySelector("main").innerText.includes("That is not the number")`)
	must(t, d.run(`document.getElementById("number").focus()`, nil))
	d.typed(n.Show())
	d.key("Enter")
	d.await(`location.pathname === "/console/" && document.readyState === "complete"`)
	d.says("Set up", "Add a passkey")
	if !<-n.Over {
		t.Error("the terminal is not told")
	}
	for _, asked := range d.requested() {
		if strings.Contains(asked, n.Digits.Reveal()) {
			t.Errorf("the number went out in an address: %s", asked)
		}
	}
}

// A number lets nobody in who guesses at it, who sends it from another page, under another name or
// from another machine.
func TestANumberIsForThisMachineAndFewTries(t *testing.T) {
	d := startSite(t)
	n := d.showsNumber()
	form := url.Values{"number": {n.Show()}}
	for name, h := range map[string]http.Header{
		"another origin":   {"Origin": {"https://evil.example"}},
		"the null origin":  {"Origin": {"null"}},
		"no origin":        {},
		"a page elsewhere": {"Origin": {d.URL()}, "Sec-Fetch-Site": {"cross-site"}},
	} {
		if status, _ := send(t, "POST", d.URL()+"/console/login/number", h, form); status < 400 {
			t.Errorf("%s: %d", name, status)
		}
	}
	if !d.Tokens.NumberWaits() {
		t.Error("requests of other pages ended it")
	}
	for i := range 5 {
		if status, _ := send(t, "POST", d.URL()+"/console/login/number", http.Header{"Origin": {d.URL()}}, url.Values{"number": {fmt.Sprint(i)}}); status < 400 {
			t.Errorf("guess %d: %d", i, status)
		}
	}
	if status, _ := send(t, "POST", d.URL()+"/console/login/number", http.Header{"Origin": {d.URL()}}, form); status < 400 {
		t.Errorf("the number after five guesses: %d", status)
	}
	if used := <-n.Over; used {
		t.Error("it is said to be used")
	}
}

// The name localhost leads to the gateway by either address, so that nobody else takes its place.
func TestLocalhostIsTheGateway(t *testing.T) {
	d := startSite(t)
	if !d.Front.Localhost() {
		t.Error("another program is said to answer")
	}
	_, port, err := net.SplitHostPort(d.Front.Addr().String())
	must(t, err)
	l, err := net.Listen("tcp6", net.JoinHostPort("::1", port))
	if err == nil {
		l.Close()
		t.Fatal("another program can listen there")
	}
	if strings.Contains(err.Error(), "assign") {
		t.Skip("no IPv6 here:", err)
	}
	resp, err := http.Get("http://" + net.JoinHostPort("::1", port) + "/console/login")
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%d", resp.StatusCode)
	}
}
