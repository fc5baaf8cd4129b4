//go:build linux

package browser

import (
	"net/url"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// In a person's own Chrome no way of an attached lane reaches the gateway, whatever its
// address is called; pages of others are reached as ever.
func TestAttachedDoesNotReachTheGateway(t *testing.T) {
	const secret = "CONSOLE"
	gateway := newSite(t, map[string]string{"/console": html(secret), "/x": html(secret)})
	u, err := url.Parse(gateway.URL)
	if err != nil {
		t.Fatal(err)
	}
	links := ""
	hosts := []string{"127.0.0.1", "localhost", "127.1", "0x7f000001", "2130706433", "017700000001", "[::ffff:127.0.0.1]", "a.localhost", "127.0.0.1."}
	for _, host := range hosts {
		links += `<a href="http://` + host + ":" + u.Port() + `/console">x</a>`
	}
	s := newSite(t, map[string]string{"/": html(links + "<iframe id=f></iframe>"), "/fine": html("<p>fine</p>")})
	origin, _ := person(t, s.URL+"/fine")
	n := stateful(t, "", func(o *Options) { o.Attach, o.Gateway = origin, []string{gateway.URL} }, s.URL, gateway.URL)
	n.must("launch", obj{"attach": true})
	n.goTo(s.URL + "/fine") // the control
	for _, host := range hosts {
		n.refused(capabilities.CodeURLBlocked, "navigate", obj{"url": "http://" + host + ":" + u.Port() + "/console"})
	}
	look := func(what string) {
		t.Helper()
		for i := range n.must("tabs", obj{}).m["tabs"].([]any) {
			n.must("tabs", obj{"action": "select", "index": i})
			if a, err := n.try("snapshot", obj{}); err == nil && strings.Contains(a.json, secret) {
				t.Errorf("%s: the gateway's page is read: %s", what, a.json)
			}
		}
	}
	for i := range hosts {
		for _, how := range []obj{{}, {"modifiers": []string{"Control"}}} {
			n.goTo(s.URL + "/")
			how["ref"] = n.must("snapshot", obj{}).refAt(i)
			n.try("click", how)
			look(hosts[i])
		}
	}
	for _, script := range []string{
		"document.getElementById('f').src = X", "location = X", "fetch(X, {mode: 'no-cors'}).catch(() => 0)", "location = '" + s.URL + "/redirect?to=' + encodeURIComponent(X)",
		"document.getElementById('f').src = 'data:text/html,<iframe src=' + X + '></iframe>'", "navigator.sendBeacon(X)",
	} {
		n.goTo(s.URL + "/")
		n.try("evaluate", obj{"expression": strings.ReplaceAll(script, "X", "'"+gateway.URL+"/x'") + ", 1", "timeout_ms": 3000})
		look(script)
	}
	// Chrome may have asked for a new tab's first document before the lane is told of the
	// tab; nobody reads it.
	n.goTo(s.URL + "/")
	n.try("evaluate", obj{"expression": "open('" + gateway.URL + "/console'), 1"})
	look("open")
	if seen := gateway.count("/x"); seen != 0 {
		t.Errorf("the gateway was asked %d times", seen)
	}
}

// refAt gives the ref of the nth link of a snapshot.
func (a answer) refAt(n int) string {
	for line := range strings.SplitSeq(a.m["snapshot"].(string), "\n") {
		if !strings.Contains(line, "link") {
			continue
		}
		if n == 0 {
			_, after, _ := strings.Cut(line, "[ref=")
			ref, _, _ := strings.Cut(after, "]")
			return ref
		}
		n--
	}
	return ""
}
