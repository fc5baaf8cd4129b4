//go:build linux

package browser

import (
	"context"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// While the node is stopped no page goes on: not its timers, not its workers, not its
// requests; then it goes on where it was. A call that ran ends.
func TestPauseHoldsPages(t *testing.T) {
	t.Parallel()
	// A running page tells of the longest time in which it did not run.
	const ticking = `let last = performance.now(), gap = 0, n = 0; setInterval(() => { let now = performance.now(); gap = Math.max(gap, now - last); last = now; n++; `
	tell := func(name string) string {
		return `const tell = new BroadcastChannel("gap");` + ticking + `tell.postMessage(["` + name + `", gap]) }, 5)`
	}
	s := newSite(t, map[string]string{
		"/": html(`<script>` + ticking + `fetch("/beat") }, 5);
			let gaps = {}; new BroadcastChannel("gap").onmessage = (e) => { gaps[e.data[0]] = e.data[1] };
			new Worker("/dedicated.js"); new SharedWorker("/shared.js"); navigator.serviceWorker.register("/service.js")</script>`),
		"/dedicated.js": `new Worker("/nested.js");` + tell("dedicated"), "/nested.js": tell("nested"), "/shared.js": tell("shared"), "/service.js": tell("service"),
		"/beat": "",
	})
	n := newNodeAlone(t, s.URL)
	n.goTo(s.URL + "/")
	n.until("the page to be busy", func() bool { return s.count("/beat") > 2 && n.eval("Object.keys(gaps).length") == 4.0 })
	ctx, cancel := context.WithCancel(t.Context())
	busy := n.inBackground(ctx, "evaluate", obj{"expression": "fetch('/began'), new Promise(() => {})", "timeout_ms": 60000})
	n.until("the call to run", func() bool { return s.count("/began") > 0 })
	cancel()
	n.h.Pause(true)
	n.h.Pause(true)
	if _, err := busy(); err == nil {
		t.Error("the call went on")
	}
	// Messages on their way arrive; then nothing does, for as long as one looks.
	const look = 700 * time.Millisecond // 140 times what the page takes if it is not paused
	n.until("the page to stop", func() bool {
		before := s.count("/beat")
		time.Sleep(look)
		return s.count("/beat") == before
	})
	held := s.count("/beat")
	n.h.Pause(false)
	n.until("the page to go on", func() bool { return s.count("/beat") > held+2 })
	for _, what := range []string{"gap", "gaps.dedicated", "gaps.nested", "gaps.shared", "gaps.service"} {
		n.until(what+" to tell of the pause", func() bool { return n.eval(what+" > 500") == true })
	}
	n.until("the stop's own sessions to end", func() bool {
		for _, c := range n.h.chromium.Running() {
			if len(c.Workers()) > 0 {
				return false
			}
		}
		return true
	})
	if v := n.eval("n > 3"); v != true {
		t.Errorf("the page is not what it was: %v", v)
	}
	var _ capabilities.Pauser = n.h
}
