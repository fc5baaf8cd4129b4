package browser

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestFirstSteps(t *testing.T) {
	s := newSite(t, map[string]string{"/": html(`<h1>Hello</h1><button onclick="document.querySelector('h1').textContent='clicked'">Press</button><input aria-label=Name>`)})
	n := newNode(t, s.URL)
	if a := n.must("launch", obj{}); a.m["browser"] != "chromium" || a.m["headless"] != true {
		t.Fatal(a.json)
	}
	a := n.goTo(s.URL + "/")
	if a.m["url"] != s.URL+"/" || a.m["title"] != "Test page" || a.m["status"] != 200.0 || a.Effect != capabilities.EffectConfirmed {
		t.Fatal(a.json, a.Effect)
	}
	t.Log(n.snap())
	c := n.must("click", obj{"ref": n.ref("button", "Press")})
	t.Log(c.json, c.Effect, c.Evidence)
	if n.eval("document.querySelector('h1').textContent") != "clicked" {
		t.Fatal("not clicked")
	}
	ty := n.must("type", obj{"selector": "input", "text": "Ada Lovelace"})
	t.Log(ty.json, ty.Effect, ty.Evidence)
	if n.eval("document.querySelector('input').value") != "Ada Lovelace" {
		t.Fatal("not typed")
	}
	sh := n.must("screenshot", obj{})
	t.Log(sh.json, len(sh.Blobs[0].Bytes))
	t.Log(n.must("tabs", obj{}).json)
	n.must("close", obj{})
}
