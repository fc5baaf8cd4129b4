//go:build linux

package browser

import (
	"net"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// An action whose page goes where the node does not let it says so, as navigate does.
func TestActionsToBlockedAddresses(t *testing.T) {
	other := newSite(t, map[string]string{"/": html("internal")})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shut := "http://" + l.Addr().String()
	l.Close()
	s := newSite(t, map[string]string{"/": html(`<a id=a href="` + other.URL + `/">Go</a><a id=r href="/redirect?to=` + other.URL + `/">Round</a><a id=s href="` + shut + `/">Shut</a><form action="` + other.URL + `/"><input id=f><button>Send</button></form>`)})
	n := newNode(t, s.URL, shut)
	const blocked, hint = "127.0.0.1 may not be reached: its address is loopback.", "ask the node's owner to allow this origin by name"
	for _, tc := range []struct {
		tool string
		args obj
		want []string
	}{
		{"click", obj{"selector": "#a"}, []string{blocked, hint}},
		{"click", obj{"selector": "#a", "snapshot": "full"}, []string{blocked, hint}},
		{"click", obj{"selector": "#r"}, []string{blocked, hint}},
		{"click", obj{"selector": "button"}, []string{blocked, hint}},
		{"click", obj{"selector": "#s"}, []string{"does not answer"}},
		{"type", obj{"selector": "#f", "text": "x", "submit": true}, []string{"the field holds the text", blocked, hint}},
	} {
		n.goTo(s.URL + "/")
		a := n.must(tc.tool, tc.args)
		if a.Effect != capabilities.EffectPartial {
			t.Errorf("%s %v: %s (%s) %s", tc.tool, tc.args, a.Effect, a.Evidence, a.json)
		}
		if url, _ := a.m["url"].(string); strings.HasPrefix(url, "chrome-error:") {
			t.Errorf("%s %v: the address is %s", tc.tool, tc.args, url)
		}
		for _, want := range tc.want {
			if !strings.Contains(a.Evidence, want) {
				t.Errorf("%s %v: no %q in %q", tc.tool, tc.args, want, a.Evidence)
			}
		}
	}
	if other.count("/") != 0 {
		t.Error("the blocked address was reached")
	}
}
