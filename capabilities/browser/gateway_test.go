//go:build linux

package browser

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// In a person's own Chrome no way of an attached lane reaches the gateway, whatever its
// address is called; pages of others are reached as ever.
func TestAttachedDoesNotReachTheGateway(t *testing.T) {
	attachedDoesNotReachTheGateway(t, "2130706433")
}

// Links to every one of its names are clicked.
func TestAttachedDoesNotReachTheGatewayAtLength(t *testing.T) { attachedDoesNotReachTheGateway(t) }

// attachedDoesNotReachTheGateway clicks links to those names of the gateway; none: to all.
func attachedDoesNotReachTheGateway(t *testing.T, clicked ...string) {
	t.Parallel()
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
		if !among(clicked, hosts[i]) {
			continue
		}
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

// refAt returns the ref of the nth link of a snapshot.
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

// Nor do its workers, of any kind; told of where it is when the node starts, or by the
// gateway later, while the lane is attached. Others are reached as ever.
func TestWorkersOfAnAttachedLaneDoNotReachTheGateway(t *testing.T) {
	t.Run("told later", func(t *testing.T) { workersDoNotReachTheGateway(t, true) })
}

func TestWorkersOfAnAttachedLaneDoNotReachTheGatewayAtLength(t *testing.T) {
	t.Run("told at the start", func(t *testing.T) { workersDoNotReachTheGateway(t, false) })
}

func workersDoNotReachTheGateway(t *testing.T, late bool) {
	t.Parallel()
	gateway, fine := newSite(t, nil), newSite(t, nil)
	u, err := url.Parse(gateway.URL)
	if err != nil {
		t.Fatal(err)
	}
	all := func(who string) (code string) { // one after the other: the control is the last
		for _, base := range []string{gateway.URL, "http://localhost:" + u.Port(), fine.URL} {
			code += "await fetch('" + base + "/" + who + "', {mode: 'no-cors'}).catch(() => 0);"
		}
		return "(async () => {" + code + "})();"
	}
	s := newSite(t, map[string]string{
		"/": html("<p>page</p>"), "/dedicated.js": all("dedicated"), "/shared.js": "onconnect = () => { " + all("shared") + " };", "/service.js": all("service"),
		"/nested.js": "new Worker('/dedicated.js');",
	})
	origin, _ := person(t, s.URL+"/")
	n := stateful(t, "", func(o *Options) {
		if o.Attach = origin; !late {
			o.Gateway = []string{gateway.URL, "https://gateway.invalid", "http://[fe80::1]"}
		}
	}, s.URL, gateway.URL, fine.URL)
	n.must("launch", obj{"attach": true})
	n.goTo(s.URL + "/")
	if late {
		n.h.AvoidGateway([]string{"no origin", gateway.URL})
		n.refused(capabilities.CodeURLBlocked, "navigate", obj{"url": "http://localhost:" + u.Port() + "/page"})
	}
	n.must("evaluate", obj{"expression": all("page") + `
		new Worker('/dedicated.js'); new Worker('/nested.js'); new SharedWorker('/shared.js'); navigator.serviceWorker.register('/service.js'); 1`})
	for _, who := range []string{"/page", "/dedicated", "/shared", "/service"} {
		for end := time.Now().Add(patience); fine.count(who) == 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("what %s asks for never came", who)
			}
		}
		if seen := gateway.count(who); seen != 0 {
			t.Errorf("late %v: the gateway was asked %d times by %s", late, seen, who)
		}
	}
}

// In a shared worker Chrome blocks what it takes the patterns for.
func TestBlockedPatterns(t *testing.T) {
	t.Parallel()
	at, err := readGateway([]string{"http://127.0.0.1:7480", "https://gateway.invalid", "http://[fe80::1]"})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, map[string]string{"/": html("<p>page</p>")})
	n := stateful(t, "", nil, s.URL)
	n.must("launch", obj{})
	n.goTo(s.URL + "/")
	for i, urls := range [][2]string{
		{"http://localhost:7480/x", "http://localhost:7481/x"}, {"https://gateway.invalid/x?y", "https://other.invalid/x"}, {"http://[fe80::1]/x", "http://[fe80::2]/x"},
	} {
		pattern, _ := json.Marshal(at.blocked()[i].URLPattern)
		n.must("evaluate", obj{"expression": fmt.Sprintf("(() => { const p = new URLPattern(%s); if (!p.test(%q) || p.test(%q)) throw new Error(%s); return 1 })()", pattern, urls[0], urls[1], pattern)})
	}
}

// At a port that every site may have it is the name that counts, and what it leads to.
func TestGatewayAtAPortOfTheWeb(t *testing.T) {
	at, err := readGateway([]string{"https://127.0.0.1", "https://gateway.invalid", "http://10.0.0.5:80"})
	if err != nil {
		t.Fatal(err)
	}
	var names resolved
	for url, want := range map[string]bool{
		"https://127.0.0.1/console": true, "https://127.1/": true, "https://0x7f000001/": true, "https://[::ffff:127.0.0.1]/": true, "https://localhost/": true,
		"https://gateway.invalid/": true, "https://GATEWAY.invalid./": true, "http://10.0.0.5/": true, "http://167772165/": true,
		"https://127.0.0.2/": false, "https://10.0.0.5/": false, "http://127.0.0.1/": false, "https://127.0.0.1:8443/": false, "https://192.0.2.1/": false,
	} {
		if got := at.leads(t.Context(), &names, url); got != want {
			t.Errorf("%s leads there: %v", url, got)
		}
	}
}
