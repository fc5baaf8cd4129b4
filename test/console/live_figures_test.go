//go:build linux

package console

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/bench/figures"
	x "github.com/handrail-dev/handrail/test/desk"
)

// relayed has Chrome watch through a relay.
func (w *watched) relayed() (r *relay) {
	w.t.Helper()
	w.playBy(func(answer string) string {
		r, answer = startRelay(w.t, answer)
		return answer
	})
	return r
}

// shows waits until the picture shows a time after that moment, and returns how long after it that
// was shown.
func (w *watched) shows(after time.Time) time.Duration {
	w.t.Helper()
	w.await(fmt.Sprintf("clock.latest > %d", after.UnixMilli()))
	return time.Since(after)
}

// startRelayed watches a screen with a clock on it over a way that can be made bad.
func startRelayed(t *testing.T) (*watched, *relay) {
	t.Helper()
	w := startWatched(t, "800x608")
	w.browser = startChrome(t)
	w.Grant("ann", w.node, "tool.live.screen")
	startClock(t, w.screen, 20*time.Millisecond)
	way := w.relayed()
	must(t, w.run(clockReader, nil))
	w.shows(time.Now())
	return w, way
}

// A way that loses, holds up and reorders packets shows the screen all the same, and one that was
// dark for two seconds shows the present again, and nothing of what was.
func TestLiveOverABadWay(t *testing.T) {
	w, way := startRelayed(t)
	way.tune(0.05, 20*time.Millisecond, 20*time.Millisecond)
	w.shows(time.Now())
	x.Await(t, "a packet to overtake another", func() bool {
		way.mu.Lock()
		defer way.mu.Unlock()
		return way.overtaken > 0
	})
	w.shows(time.Now())
	way.tune(0, 0, 0)
	way.dark.Store(true)
	before := w.value("clock.frames")
	<-time.After(2 * time.Second) // the blackout itself
	way.dark.Store(false)
	light := time.Now()
	w.shows(light)
	// One frame is in flight: the next one is of after the blackout, never a queue of those that
	// were shown during it.
	var stale int
	must(t, w.run(fmt.Sprintf("clock.ages.slice(%s).filter((age) => age > 60000).length", before), &stale))
	if stale != 0 {
		t.Errorf("%d frames were nonsense", stale)
	}
	if watching := w.Live.Watching(w.node.ID); len(watching) != 1 {
		t.Errorf("the session did not outlive the blackout: %+v", watching)
	}
}

// A viewer that comes from another address in the middle of it sees on, in the same
// session.
func TestLiveOnTheMove(t *testing.T) {
	w, way := startRelayed(t)
	for range 3 {
		way.move()
		w.shows(time.Now())
	}
	if watching := w.Live.Watching(w.node.ID); len(watching) != 1 {
		t.Errorf("the session did not move along: %+v", watching)
	}
}

// TestLiveFigures measures the live view; `make bench-media` runs it.
func TestLiveFigures(t *testing.T) {
	if !*measure {
		t.Skip("measures only with -figures")
	}
	load := figures.Load()
	w := startWatched(t, "1280x720")
	w.browser = startChrome(t)
	w.Grant("ann", w.node, "tool.live.screen")
	stop := startClock(t, w.screen, 10*time.Millisecond)
	way := w.relayed()
	must(t, w.run(clockReader, nil))
	w.shows(time.Now())
	var lines []string
	line := func(what string, value float64, unit, target string, met bool, note string) {
		verdict := "missed"
		if met {
			verdict = "met"
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%-62s %8s %-10s %-8s %-6s %s", what, strconv.FormatFloat(value, 'g', 3, 64), unit, target, verdict, note), " "))
	}

	// The floor: the same clock, read in this process from the capture bus.
	var bare []float64
	d, err := w.opener.Open(w.ctx)
	must(t, err)
	for range 100 {
		f, err := d.Screen.Frame(w.ctx, platform.Rect{Width: clockBits * clockSide, Height: clockSide}, false)
		must(t, err)
		n, b := int64(0), int64(0)
		for i := clockBits - 1; i >= 0; i-- {
			if f.Pix[f.Stride*clockSide/2+(i*clockSide+clockSide/2)*4] > 127 {
				b ^= 1
			}
			n = n*2 + b
		}
		f.Release()
		bare = append(bare, float64((time.Now().UnixMilli()-n)&(1<<clockBits-1)))
		<-time.After(13 * time.Millisecond)
	}
	must(t, w.run("clock.ages.length = 0", nil))
	w.await("clock.ages.length > 600")
	var ages []float64
	must(t, w.run("clock.ages", &ages))
	slices.Sort(ages)
	at := func(list []float64, q float64) float64 { return list[int(q*float64(len(list)-1))] }
	slices.Sort(bare)
	floor := fmt.Sprintf("the same clock in the node's own frames %.0f ms", at(bare, 0.5))
	line("glass to glass, median of 600 frames", at(ages, 0.5), "ms", "≤ 80", at(ages, 0.5) <= 80, floor)
	line("glass to glass, 95 of 100", at(ages, 0.95), "ms", "≤ 150", at(ages, 0.95) <= 150, "")

	var dark []float64
	for range 5 {
		way.dark.Store(true)
		<-time.After(2 * time.Second) // the blackout itself
		way.dark.Store(false)
		light := time.Now()
		dark = append(dark, float64(w.shows(light).Milliseconds()))
		<-time.After(3 * time.Second)
	}
	line("after a blackout of 2 s until the present is shown, median", figures.Median(dark), "ms", "≤ 1000", figures.Median(dark) <= 1000, fmt.Sprintf("%.0f", dark))
	stop()

	// Text that scrolls.
	must(t, w.run("clock.ages.length = 0", nil))
	text := w.screen.App("xterm", "-geometry", "200x54+0+0", "-e", "/usr/bin/python3", "-c", `import time
i = 0
while True:
    i += 1
    print(i, "the quick brown fox jumps over the lazy dog while it scrolls,", i, "lines so far and more to come", flush=True)
    time.sleep(0.025)`)
	<-time.After(3 * time.Second)
	span := func(took time.Duration) (frames, bytes, busy float64) {
		read := func() (n, b float64) {
			var v []float64
			must(t, w.run(`whep.pc.getStats().then((s) => { for (const x of s.values()) if (x.type === "inbound-rtp") return [x.framesDecoded, x.bytesReceived + x.headerBytesReceived]; return [0, 0] })`, &v))
			return v[0], v[1]
		}
		n, b := read()
		began, work := time.Now(), processor()
		<-time.After(took)
		n2, b2 := read()
		s := time.Since(began).Seconds()
		return (n2 - n) / s, (b2 - b) * 8 / 1000 / s, (processor() - work).Seconds() / s
	}
	frames, rate, busy := span(15 * time.Second)
	line("720p of text that scrolls 40 times a second", frames, "frames/s", "≥ 24", frames >= 24, fmt.Sprintf("%.0f kb/s", rate))
	line("processor of that, gateway and node", 100*busy, "% of core", "≤ 100", busy <= 1, "")
	text.Kill()
	<-time.After(8 * time.Second) // until what is there is sharp
	_, rate, busy = span(20 * time.Second)
	line("a screen at rest: processor of gateway and node", 100*busy, "% of core", "≤ 2", busy <= 0.02, "")
	line("a screen at rest: what is sent", rate, "kb/s", "≤ 20", rate <= 20, "")

	var out bytes.Buffer
	fmt.Fprintf(&out, "```\n%s, %d cores, %s\n", figures.Machine(), runtime.NumCPU(), runtime.Version())
	fmt.Fprintf(&out, "%s; load average at the start %s; Chromium on the same machine draws and decodes in software.\n\n%s\n```", time.Now().Format(time.DateOnly), load, strings.Join(lines, "\n"))
	t.Log("\n" + out.String())
	if *into != "" {
		must(t, figures.Save(*into, "<!-- figures of the live view: written by test/console -->", "<!-- end of the figures of the live view -->", out.Bytes()))
	}
}

// TestLiveGrowth watches a screen that moves for -minutes and compares the first with the
// last: nothing may pile up. `make bench-media MINUTES=10` runs it.
func TestLiveGrowth(t *testing.T) {
	if *minutes < 2 {
		t.Skip("measures only with -minutes 2 or more")
	}
	load := figures.Load()
	w := startWatched(t, "1280x720")
	w.browser = startChrome(t)
	w.Grant("ann", w.node, "tool.live.screen")
	began := time.Now()
	startClock(t, w.screen, 20*time.Millisecond)
	w.play()
	must(t, w.run(clockReader, nil))
	w.shows(time.Now())
	type state struct{ age, heap, routines float64 }
	// look measures for the last quarter of a minute.
	look := func(minute int) (s state) {
		<-time.After(time.Until(began.Add(time.Duration(minute)*time.Minute - 15*time.Second)))
		must(t, w.run("clock.ages.length = 0", nil))
		<-time.After(time.Until(began.Add(time.Duration(minute) * time.Minute)))
		var ages []float64
		must(t, w.run("clock.ages", &ages))
		if len(ages) == 0 {
			t.Fatalf("nothing was shown at the end of minute %d", minute)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s = state{figures.Median(ages), float64(m.HeapAlloc) / (1 << 20), float64(runtime.NumGoroutine())}
		t.Logf("minute %d: %d frames, %.0f ms old, %.1f MiB, %.0f goroutines", minute, len(ages), s.age, s.heap, s.routines)
		return s
	}
	first, last := look(1), look(*minutes)
	t.Logf("load average at the start %s", load)
	if last.age > 2*first.age+20 {
		t.Errorf("frames are %.0f ms old at the end, and were %.0f", last.age, first.age)
	}
	if last.heap > first.heap+8 {
		t.Errorf("gateway and node hold %.1f MiB at the end, and %.1f before", last.heap, first.heap)
	}
	if last.routines > first.routines+20 {
		t.Errorf("%.0f goroutines at the end, and %.0f before", last.routines, first.routines)
	}
}
