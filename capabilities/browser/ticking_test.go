//go:build linux

package browser

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// On a page that changes all the time by itself, only what the input started counts. It
// goes by the clock, so that no other test runs beside it.
func TestActionsOnPagesThatTick(t *testing.T) {
	const page = `<p id=clock>0</p><div id=dots><i></i><i></i><i></i><i></i></div><button id=dead>Dead</button>
<button id=sync onclick="clock.textContent='pressed'">Sync</button><button id=late onclick="setTimeout(()=>document.title='late '+this.dataset.n,20)">Late</button>
<button id=micro onclick="Promise.resolve().then(()=>clock.textContent='pressed')">Micro</button><script>var n=0;`
	ticks := map[string]string{
		"/text":   `setInterval(()=>clock.textContent=++n,16)`,
		"/slower": `setInterval(()=>clock.dataset.n=++n,50)`,
		"/frames": `(function f(){clock.style.opacity=1/++n;requestAnimationFrame(f)})()`,
		"/anew":   `setInterval(()=>{clock.innerHTML='';const b=document.createElement('b');clock.append(b);b.className='x';b.append(++n)},16)`,
		"/dots":   `setInterval(()=>{const d=dots.children;d[n%4].className='';d[++n%4].className='on'},30)`,
		"/two":    `setInterval(()=>clock.textContent=++n,16);setInterval(()=>dots.dataset.n=++n,45)`,
	}
	pages := map[string]string{}
	for path, tick := range ticks {
		pages[path] = html(page + tick + `</script>`)
	}
	s, n := newPage(t, pages)
	for path := range ticks {
		t.Run(path[1:], func(t *testing.T) {
			n := *n
			n.t = t
			n.goTo(s.URL + path)
			for _, dead := range []struct {
				tool string
				args obj
			}{
				{"click", obj{"selector": "#dead"}},
				{"click", obj{"selector": "#dead", "button": "right"}},
				{"click", obj{"selector": "#dead", "action": "down"}},
				{"click", obj{"selector": "#dead", "action": "up"}},
				{"hover", obj{"selector": "#dead", "wheel_x": 50}},
				{"press-key", obj{"selector": "#dead", "key": "x"}},
			} {
				a := n.must(dead.tool, dead.args)
				if a.Effect != capabilities.EffectSuspectNoop && a.Effect != capabilities.EffectUnverifiable || a.Evidence == "the page did not report the event in time" {
					t.Errorf("%s %v: %s (%s)", dead.tool, dead.args, a.Effect, a.Evidence)
				}
			}
			n.checks([]check{
				{"at once", "click", obj{"selector": "#sync"}, "confirmed", "the page changed", "", nil},
				{"in a microtask", "click", obj{"selector": "#micro"}, "confirmed", "the page changed", "", nil},
				{"later", "click", obj{"selector": "#late"}, "confirmed", "the page changed", "document.title.slice(0,4)", "late"},
				{"later, the same again", "click", obj{"selector": "#late"}, "confirmed", "the page changed", "", nil},
			})
		})
	}
	// It was seen before the press: certain.
	n.goTo(s.URL + "/text")
	n.until("a change before the press", func() bool {
		a := n.must("click", obj{"selector": "#dead"})
		return a.Effect == capabilities.EffectSuspectNoop && strings.Contains(a.Evidence, "all the time")
	})
}

// A request that the page sends is evidence of the input that started it; one that
// Chrome sends by itself, as for the page's icon, is not, whenever it comes.
func TestActionsCountThePagesOwnRequests(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<button id=dead>Dead</button><button id=ask onclick="fetch('/asked')">Ask</button>
<button id=ping onclick="navigator.sendBeacon('/beacon')">Ping</button><button id=image onclick="new Image().src='/image.png'">Image</button>`)})
	n.goTo(s.URL + "/")
	for _, id := range []string{"#ask", "#ping", "#image"} {
		if a := n.must("click", obj{"selector": id}); a.Effect != capabilities.EffectConfirmed || a.Evidence != "the page sent a request" {
			t.Errorf("%s: %s (%s)", id, a.Effect, a.Evidence)
		}
	}
	n.must("click", obj{"selector": "#dead"}) // what comes now is marked as the person's
	before, _ := n.tabOf().look()
	n.eval(`const l = document.createElement('link'); l.rel = 'icon'; l.href = '/icon.png'; document.head.append(l); 1`)
	n.until("the icon is recorded", func() bool {
		return strings.Contains(n.must("network-requests", obj{}).json, "/icon.png")
	})
	n.eval("1") // its answer comes after all that the event does
	if now, _ := n.tabOf().look(); now.requests != before.requests {
		t.Error("the page's icon counts as a request of the page")
	}
}
