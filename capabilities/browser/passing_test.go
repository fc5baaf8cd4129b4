//go:build linux

package browser

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Calls wait out what stands in the way for some tenths of a second: they follow each other
// at once here, as in a script. The test goes by the clock, so that no other test runs
// beside it.
func TestWhatPassesIsWaitedOut(t *testing.T) {
	const next = `<button id=next style="position:fixed;left:20px;top:100px" onclick="document.title='next'">Next</button>`
	const cover = `const d=document.createElement('div');d.id='cover';d.textContent='Saved!';d.style='position:fixed;inset:0;background:#cfc';document.body.append(d);`
	pages := map[string]string{
		"/toast": html(next + `<button id=b onclick="` + cover + `setTimeout(()=>d.remove(),800)">Save</button>`),
		"/fade": html(`<style>#cover{transition:opacity .4s;opacity:1}</style>` + next + `<button id=b onclick="` + cover +
			`d.onclick=()=>{d.style.opacity=0;d.ontransitionend=()=>d.remove()};this.onclick=()=>0;b.remove()">Open</button>`),
		"/enabled": html(`<label>Name <input id=name oninput="setTimeout(()=>{next.disabled=!this.value},400)"></label>` + next + `<script>next.disabled=true</script>`),
		"/loaded":  html(next + `<script>next.disabled=true;addEventListener('load',()=>setTimeout(()=>{next.disabled=false},400))</script>`),
		"/scrolls": html(`<div id=list style="height:200px;overflow:auto"><div id=in style="height:2000px"><div style="height:300px"></div>` + strings.Replace(next, "position:fixed;", "", 1) + `</div></div>
<script>let t;list.onscroll=()=>{list.firstElementChild.style.pointerEvents='none';clearTimeout(t);t=setTimeout(()=>{list.firstElementChild.style.pointerEvents=''},300)}</script>`),
		"/opens": html(`<style>@keyframes open{from{transform:scale(0)}60%{transform:scale(0)}}#menu{display:none;animation:open .6s}</style>
<button id=b onclick="menu.style.display='block'">Menu</button><div id=menu><button id=next onclick="document.title='next'">Next</button></div>`),
		"/view":  html(`<style>::view-transition-group(root){animation-duration:.3s}</style><button id=b onclick="document.startViewTransition(()=>{o.innerHTML='<button id=next onclick=document.title=&quot;next&quot;>Next</button>'})">Swap</button><div id=o></div>`),
		"/field": html(`<button id=b onclick="setTimeout(()=>{f.disabled=false},400);this.textContent='Wait'">Go</button><input id=f disabled aria-label=F oninput="document.title='next'">`),
	}
	for path := range pages { // each notes how long the machine had no time for it
		pages[path] += `<script>let gap=0,last=performance.now();setInterval(()=>{const now=performance.now();gap=Math.max(gap,now-last);last=now},20)</script>`
	}
	s, n := newPage(t, pages)
	for _, tc := range []struct {
		path  string
		first func(n *node)
		tool  string
		args  obj
	}{
		{"/toast", func(n *node) { n.must("click", obj{"selector": "#b"}) }, "click", obj{"selector": "#next"}},
		{"/fade", func(n *node) {
			n.must("click", obj{"selector": "#b"})
			n.must("click", obj{"selector": "#cover"})
		}, "click", obj{"selector": "#next"}},
		{"/enabled", func(n *node) { n.must("fill-form", obj{"selector": "#name", "value": "Ann"}) }, "click", obj{"selector": "#next"}},
		{"/loaded", func(*node) {}, "click", obj{"selector": "#next"}},
		{"/scrolls", func(n *node) { n.must("hover", obj{"selector": "#list", "wheel_y": 100}) }, "click", obj{"selector": "#next"}},
		{"/opens", func(n *node) { n.must("click", obj{"selector": "#b"}) }, "click", obj{"selector": "#next"}},
		{"/view", func(n *node) {
			n.must("click", obj{"selector": "#b"})
			n.must("wait-for", obj{"selector": "#next", "state": "attached"})
		}, "click", obj{"selector": "#next"}},
		{"/field", func(n *node) { n.must("click", obj{"selector": "#b"}) }, "fill-form", obj{"selector": "#f", "value": "x"}},
		{"/field", func(n *node) { n.must("click", obj{"selector": "#b"}) }, "type", obj{"selector": "#f", "text": "x"}},
	} {
		t.Run(tc.path[1:]+" "+tc.tool, func(t *testing.T) {
			n := *n
			n.t = t
			var a answer
			for end := time.Now().Add(patience); ; {
				n.goTo(s.URL + tc.path)
				tc.first(&n)
				var err *capabilities.Error
				if a, err = n.try(tc.tool, tc.args); err == nil {
					break
				}
				if n.eval("gap > 100") != true || time.Now().After(end) {
					t.Fatal(err)
				}
				t.Logf("the page had no time: %v", err)
			}
			if n.eval("document.title") != "next" {
				t.Errorf("%s (%s): title %v", a.Effect, a.Evidence, n.eval("document.title"))
			}
		})
	}
}

// A cover that stays is named, whether something moves or not; what does not move is looked
// at no longer than it takes to see that.
func TestWhatStaysIsRefused(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<div style="height:3000px"></div><button id=b onclick="document.title='pressed'">B</button><div id=cover style="position:fixed;inset:0"></div>
<button id=moves style="position:fixed;top:0" onclick="setInterval(()=>{this.dataset.n=Math.random()},16)">M</button>`)})
	n.goTo(s.URL + "/")
	look := func() float64 {
		t.Helper()
		before := n.eval("performance.now()").(float64)
		if err := n.refused(capabilities.CodeElementObscured, "click", obj{"selector": "#b"}); !strings.Contains(err.Message, "cover") {
			t.Error(err)
		}
		return n.eval("performance.now()").(float64) - before
	}
	rest := look()
	n.must("click", obj{"selector": "#moves"})
	moves := look()
	if rest >= moves || n.eval("document.title") == "pressed" {
		t.Errorf("at rest %.0f ms, while something moves %.0f ms", rest, moves)
	}
}

// A view transition is waited out however long it runs, as long as the call has time; one that
// never ends is named.
func TestViewTransitionsAreWaitedOut(t *testing.T) {
	t.Parallel()
	const swap = `<button id=b onclick="document.startViewTransition(()=>{o.innerHTML='<button id=next onclick=document.title=&quot;next&quot;>Next</button>'})">Swap</button><div id=o></div>`
	s, n := newPage(t, map[string]string{
		"/long":    html(`<style>::view-transition-group(root){animation-duration:2.5s}</style>` + swap),
		"/endless": html(`<style>::view-transition-group(root){animation:x 1s infinite}@keyframes x{}</style>` + swap),
	})
	begin := func(path string) {
		n.goTo(s.URL + path)
		n.must("click", obj{"selector": "#b"})
		n.must("wait-for", obj{"selector": "#next", "state": "attached"})
	}
	for _, by := range []string{"selector", "place"} {
		begin("/long")
		args := obj{"selector": "#next"}
		if by == "place" {
			args = obj{"x": n.eval(`r = next.getBoundingClientRect(); r.left + r.width / 2`), "y": n.eval(`r.top + r.height / 2`)}
		}
		if a := n.must("click", args); n.eval("document.title") != "next" {
			t.Errorf("by %s: %s (%s): title %v", by, a.Effect, a.Evidence, n.eval("document.title"))
		}
	}
	begin("/endless")
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	if _, err := n.within(ctx, "click", obj{"selector": "#next"}); err == nil || err.Code != capabilities.CodeElementObscured ||
		!strings.Contains(err.Message, "view transition") {
		t.Errorf("a view transition that never ends: %v", err)
	}
}
