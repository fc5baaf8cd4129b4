//go:build linux

package browser

import (
	"fmt"
	"strings"
	"testing"
)

// A file that came after its click was answered is told of by whatever call comes next.
func TestLateDownloadsAreTold(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<p>Body</p><button id=b onclick="later = () => { const a = document.createElement('a'); a.href = window.URL.createObjectURL(new Blob(['a,b'])); a.download = 'export.csv'; a.click(); }">Export</button><script>let later</script>`)})
	n := newNode(t, s.URL)
	for _, c := range []struct {
		tool string
		args obj
	}{
		{"snapshot", obj{}}, {"wait-for", obj{"text": "Body"}}, {"tabs", obj{}}, {"evaluate", obj{"expression": "1"}}, {"screenshot", obj{}}, {"console-messages", obj{}},
		{"network-requests", obj{}}, {"resize", obj{"width": 700, "height": 500}}, {"hover", obj{"selector": "p"}}, {"run-code", obj{"code": "return 1"}}, {"navigate", obj{"url": s.URL + "/"}},
	} {
		n.goTo(s.URL + "/")
		n.must("click", obj{"selector": "#b"})
		ds := &n.h.lanes[n.lane].downloads
		count := func() (done int) {
			ds.mu.Lock()
			defer ds.mu.Unlock()
			for _, d := range ds.list {
				if d.state == downloadComplete {
					done++
				}
			}
			return done
		}
		had := count()
		func() { // the page itself begins it, and no call tells
			n.h.lanes[n.lane].active.quietly(t, "later()")
		}()
		n.until("the file is there", func() bool { return count() == had+1 })
		a := n.must(c.tool, c.args)
		if !strings.Contains(a.json, `"name":"export`) || !strings.Contains(a.json, `"state":"completed"`) || c.tool != "hover" && c.tool != "navigate" && !strings.Contains(a.Evidence, "which an earlier action started: completed") {
			t.Errorf("%s: %s (%s)", c.tool, a.json, a.Evidence)
		}
		if a := n.must("snapshot", obj{}); strings.Contains(a.json, "export") {
			t.Errorf("%s: told twice: %s", c.tool, a.json)
		}
	}
}

// The same of a window that comes some time after the click.
func TestLateTabsAreTold(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<p>Body</p><button onclick="1">Other</button>`), "/dest": html("<h1>Sign in</h1>")})
	n := newNode(t, s.URL)
	for _, c := range []struct {
		tool string
		args obj
	}{
		{"snapshot", obj{}}, {"wait-for", obj{"text": "Body"}}, {"click", obj{"selector": "button"}}, {"evaluate", obj{"expression": "1"}}, {"screenshot", obj{}}, {"run-code", obj{"code": "return 1"}}, {"tabs", obj{}},
	} {
		n.goTo(s.URL + "/")
		l := n.h.lanes[n.lane]
		before, _ := l.list()
		l.active.quietly(t, "window.open('/dest')")
		n.until("the window is there", func() bool { now, _ := l.list(); return len(now) == len(before)+1 })
		a := n.must(c.tool, c.args)
		index := len(before)
		if !strings.Contains(a.json, "/dest") || c.tool != "tabs" && (!strings.Contains(a.json, `"opened_tabs":[`) || !strings.Contains(a.Evidence, fmt.Sprintf("tab %d was opened by a page", index))) {
			t.Errorf("%s: %s (%s)", c.tool, a.json, a.Evidence)
		}
		if c.tool == "click" && a.Effect == "confirmed" {
			t.Errorf("what a page did before is no effect of a click: %s", a.Evidence)
		}
		if a := n.must("snapshot", obj{}); strings.Contains(a.json, "/dest") {
			t.Errorf("%s: told twice: %s", c.tool, a.json)
		}
	}
}

// quietly runs a script in the page, as a timer of its own would.
func (t *tab) quietly(tb testing.TB, expression string) {
	tb.Helper()
	raw, err := t.s.Send(t.life, "Runtime.evaluate", obj{"expression": expression, "userGesture": true}).Wait(t.life)
	if err != nil || strings.Contains(string(raw), "exceptionDetails") {
		tb.Fatal(err, string(raw))
	}
}
