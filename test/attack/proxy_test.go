package attack

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/test/site"
)

// Behind a real TLS proxy on the same machine, with an agent's hands on that machine:
// no header and no spelling of a path makes a request come from elsewhere, reach
// another route, or pass without its token.
func TestNoHeaderAndNoPathPassesTheProxy(t *testing.T) {
	a := enter(t, site.Options{ApprovalWait: time.Millisecond, Rules: site.Rules, Door: func(o *gateway.Options) {
		o.Proxies, o.Hosts = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, []string{"handrail.example"}
	}})
	back, err := url.Parse(a.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = back.Scheme, back.Host
		r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"] // it adds to what came, as most do
		r.SetXForwarded()
		r.Out.Host = r.In.Host
	}})
	defer proxy.Close()
	if r := a.press(caller("agent", "agent"), `{"text":"wanted"}`); r.Code != capabilities.CodeApprovalPending {
		t.Fatalf("%+v", r)
	}
	w := a.waiting()
	a.Grant("agent", a.node, "tool.fixture.press") // it holds mouse and keyboard of this machine
	send := func(target, token string, header ...string) int {
		t.Helper()
		c, err := tls.Dial("tcp", proxy.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(site.Within))
		body := `{"answer":"allow","acknowledged":true}`
		text := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: handrail.example\r\nContent-Length: %d\r\nConnection: close\r\n", target, len(body))
		if token != "" {
			text += "Authorization: Bearer " + token + "\r\n"
		}
		for i := 0; i+1 < len(header); i += 2 {
			text += header[i] + ": " + header[i+1] + "\r\n"
		}
		if _, err := io.WriteString(c, text+"\r\n"+body); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		if err != nil || len(answer) < 12 {
			return 0
		}
		var status int
		_, _ = fmt.Sscanf(string(answer[9:12]), "%d", &status)
		return status
	}
	still := func(about string, status int) {
		t.Helper()
		got, err := a.Consent.Approval(w.ID)
		if err != nil || got.State != consent.StatePending || a.h.Runs("wanted") != 0 || status/100 == 2 { // a redirect leads to the address as it is written properly
			t.Errorf("%s: answered %d; %s %v", about, status, got.State, err)
		}
	}
	at := "/v1/approvals/" + w.ID
	for _, lie := range []string{"203.0.113.9", "203.0.113.9, 127.0.0.1", "127.0.0.1, 203.0.113.9", "::ffff:203.0.113.9", "203.0.113.9:80", "unknown", "", strings.Repeat("203.0.113.9,", 300) + "203.0.113.9"} {
		still("X-Forwarded-For: "+lie[:min(len(lie), 40)], send(at, a.operator, "X-Forwarded-For", lie))
	}
	for _, h := range [][2]string{{"Forwarded", "for=203.0.113.9;proto=https"}, {"X-Real-IP", "203.0.113.9"}, {"True-Client-IP", "203.0.113.9"}, {"CF-Connecting-IP", "203.0.113.9"}, {"X-Client-IP", "203.0.113.9"},
		{"X-Forwarded-Host", "127.0.0.1"}, {"Connection", "X-Forwarded-For"}, {"X-Forwarded-For\t", "203.0.113.9"}, {"x_forwarded_for", "203.0.113.9"}} {
		still(h[0], send(at, a.operator, h[0], h[1]))
	}
	for _, path := range []string{"/console/.." + at, "/console/%2e%2e" + at, "/" + at, "/healthz/.." + at, "/healthz;" + at, "/healthz%2f.." + at, "/v1//approvals/" + w.ID, "/V1/approvals/" + w.ID, at + "/", at + "%00", at + "?x=/healthz", "http://handrail.example" + at, "/console/static/../.." + at} {
		for _, token := range []string{"", a.agent} {
			still("path "+path, send(path, token, "X-Original-URL", at, "X-Rewrite-URL", at, "X-HTTP-Method-Override", "POST"))
		}
	}
	// The controls: somebody elsewhere, as the proxy would tell it, and the same request
	// past the proxy with the same words.
	direct := func(hops string) int {
		t.Helper()
		req, err := http.NewRequest("POST", a.URL()+at, strings.NewReader(`{"answer":"allow","acknowledged":true}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+a.operator)
		req.Header.Set("X-Forwarded-For", hops)
		resp, err := a.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	still("from this machine, by the proxy", direct("203.0.113.9, 127.0.0.1"))
	still("from afar, where this machine may come by as well", direct("203.0.113.9"))
	next, ok := neighbour(t)
	if !ok {
		t.Log("this host is in no network with room for another machine: nothing is known to be elsewhere")
		return
	}
	if got := direct(next.String()); got != http.StatusOK {
		t.Errorf("from %s, another machine of this network: %d", next, got)
	}
}

// neighbour returns an address of a network that this host is in, and that nobody has that
// is known here.
func neighbour(t *testing.T) (netip.Addr, bool) {
	t.Helper()
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().Is4() || p.Addr().IsLoopback() || p.Bits() > 28 {
			continue
		}
		for next := p.Masked().Addr().Next().Next(); p.Contains(next); next = next.Next() {
			if !slices.ContainsFunc(list, func(o net.Addr) bool { return strings.HasPrefix(o.String(), next.String()+"/") }) {
				return next, true
			}
		}
	}
	return netip.Addr{}, false
}
