//go:build linux

package browser

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestNavigateBack(t *testing.T) {
	s := newSite(t, map[string]string{
		"/1": html(`<p id=p>one</p><script>var kept='no'</script>`), "/2": html(`<p>two</p><button onclick="history.pushState(0,'','/2/inner');document.title='inner'">Push</button>`),
	})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/1")
	n.eval("kept='yes'; p.textContent='changed'")
	n.goTo(s.URL + "/2")
	n.must("click", obj{"selector": "button"})
	for _, step := range []struct {
		args obj
		path string
		text string
	}{
		{obj{}, "/2", "two"}, {obj{"direction": "back"}, "/1", ""}, {obj{"direction": "forward"}, "/2", "two"}, {obj{"direction": "forward"}, "/2/inner", "two"},
		{obj{"direction": "back"}, "/2", "two"}, {obj{"direction": "back"}, "/1", ""}, {obj{"direction": "reload"}, "/1", "one"},
	} {
		a := n.must("navigate-back", step.args)
		if a.m["url"] != s.URL+step.path || a.Effect != "confirmed" || n.eval("location.pathname") != step.path || a.m["status"] != nil {
			t.Errorf("%v: %s (%s %s), want %s", step.args, a.json, a.Effect, a.Evidence, step.path)
		}
		if step.text != "" && n.eval("document.querySelector('p').textContent") != step.text {
			t.Errorf("%v: the page shows %v", step.args, n.eval("document.body.textContent"))
		}
	}
	if s.count("/1") < 2 {
		t.Error("reload did not ask the server")
	}
	if a := n.must("navigate-back", obj{"direction": "reload", "snapshot": "full"}); a.m["snapshot"] == nil {
		t.Errorf("no snapshot: %s", a.json)
	}
	fresh := n.on("lane-2")
	fresh.must("tabs", obj{"action": "new"})
	fresh.refused(capabilities.CodeNavigationFailed, "navigate-back", obj{})
	fresh.refused(capabilities.CodeNavigationFailed, "navigate-back", obj{"direction": "forward"})
	// Reloading what can not be loaded any more says so.
	s.Close()
	n.refused(capabilities.CodeNavigationFailed, "navigate-back", obj{"direction": "reload"})
}

// The list of tabs waits a moment for the address of one that a page just opened.
func TestTabsOfPopups(t *testing.T) {
	s := newSite(t, map[string]string{"/": html(`<button onclick="window.open('/2')">Open</button>`), "/2": html(`two`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	n.must("click", obj{"selector": "button"})
	a := n.must("tabs", obj{})
	if list := a.m["tabs"].([]any); len(list) != 2 || list[1].(obj)["url"] != s.URL+"/2" {
		t.Errorf("%s", a.json)
	}
}
