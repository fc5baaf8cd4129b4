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
	t.Parallel()
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

// So does one that opens a tab, or has a frame show what may not be reached.
func TestTabsAndFramesToBlockedAddresses(t *testing.T) {
	t.Parallel()
	other := newSite(t, map[string]string{"/": html("internal")})
	s := newSite(t, map[string]string{
		"/in": html(`<a id=in href="` + other.URL + `/">Go</a><a id=round href="/redirect?to=` + other.URL + `/">Round</a><button id=pop onclick="window.open('` + other.URL + `/')">Pop</button>`),
		"/": html(`<a id=fine target=fr href="/in?2">Fine</a><a id=part target=fr href="/in?2#x">Part</a><a id=named target=fr href="` + other.URL + `/">Go</a><a id=blank target=_blank href="` + other.URL + `/">Go</a><button id=open onclick="window.open('` + other.URL + `/')">O</button>
<button id=add onclick="const f=document.createElement('iframe');f.src='` + other.URL + `/';document.body.append(f)">A</button><form target=_blank action="` + other.URL + `/"><button id=form>F</button></form>
<button id=good onclick="window.open('/in')">Good</button><iframe id=fr name=fr src="/in"></iframe>`),
	})
	n := newNode(t, s.URL)
	const blocked, hint = "127.0.0.1 may not be reached: its address is loopback.", "ask the node's owner to allow this origin by name"
	for _, tc := range []struct {
		selector string
		effect   capabilities.Effect
		what     string
	}{
		{"#blank", "partial", "a new tab was opened, tab 1; the page of a new tab did not open. " + blocked}, {"#open", "partial", "the page of a new tab did not open. " + blocked},
		{"#form", "partial", "the page of a new tab did not open. " + blocked}, {"#pop", "partial", "the page of a new tab did not open. " + blocked},
		{"#named", "partial", "a frame's page did not open. " + blocked}, {"#in", "partial", "a frame's page did not open. " + blocked},
		{"#round", "partial", "a frame's page did not open. " + blocked}, {"#add", "confirmed", "the page changed; a frame's page did not open. " + blocked},
	} {
		n.goTo(s.URL + "/")
		a := n.must("click", obj{"selector": tc.selector})
		if a.Effect != tc.effect || !strings.Contains(a.Evidence, tc.what) || !strings.Contains(a.Evidence, hint) || strings.Contains(a.Evidence, of(newFrameDocument).words()) {
			t.Errorf("%s: %s (%s)", tc.selector, a.Effect, a.Evidence)
		}
	}
	n.goTo(s.URL + "/")
	n.checks([]check{
		{"a frame that opens", "click", obj{"selector": "#fine"}, "confirmed", of(newFrameDocument).words(), "document.querySelector('#fr').contentDocument.URL.slice(-3)", "n?2"},
		{"a place in it", "click", obj{"selector": "#part"}, "confirmed", "the address in a frame changed", "document.querySelector('#fr').contentDocument.URL.slice(-3)", "2#x"},
		{"a tab that opens", "click", obj{"selector": "#good"}, "confirmed", "", "", nil},
	})
	if a := n.must("click", obj{"selector": "#good"}); strings.Contains(a.Evidence, "did not open") {
		t.Error(a.Evidence)
	}
	if other.count("/") != 0 {
		t.Error("the blocked address was reached")
	}
}
