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
	const ticking = `let last = performance.now(), gap = 0, n = 0; setInterval(() => { let now = performance.now(); gap = Math.max(gap, now - last); last = now; n++; `
	s := newSite(t, map[string]string{
		"/": html(`<script>` + ticking + `fetch("/beat") }, 5);
			let worker = 0; const w = new Worker(URL.createObjectURL(new Blob(["` + ticking + `postMessage(gap) }, 5)"])));
			w.onmessage = (e) => { worker = e.data }</script>`),
		"/beat": "",
	})
	n := newNodeAlone(t, s.URL)
	n.goTo(s.URL + "/")
	n.until("the page to be busy", func() bool { return s.count("/beat") > 2 && n.eval("worker > 0") == true })
	ctx, cancel := context.WithCancel(t.Context())
	busy := n.inBackground(ctx, "evaluate", obj{"expression": "fetch('/began'), new Promise(() => {})", "timeout_ms": 60000})
	n.until("the call to run", func() bool { return s.count("/began") > 0 })
	cancel()
	n.h.Pause(true)
	n.h.Pause(true)
	if _, err := busy(); err == nil {
		t.Error("the call went on")
	}
	// What was on its way arrives; then nothing does, for as long as one looks.
	const look = 700 * time.Millisecond // 140 times what the page takes if it is not paused
	n.until("the page to stop", func() bool {
		before := s.count("/beat")
		time.Sleep(look)
		return s.count("/beat") == before
	})
	held := s.count("/beat")
	n.h.Pause(false)
	n.until("the page to go on", func() bool { return s.count("/beat") > held+2 })
	for _, what := range []string{"gap", "worker"} {
		n.until(what+" to tell of the pause", func() bool { return n.eval(what+" > 500") == true })
	}
	if v := n.eval("n > 3"); v != true {
		t.Errorf("the page is not what it was: %v", v)
	}
	var _ capabilities.Pauser = n.h
}
