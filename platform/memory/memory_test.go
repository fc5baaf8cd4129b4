package memory

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		rooted, headroom uint64
		want             int
	}{
		{0, 24 * mib, mostPercent},
		{1 * mib, 24 * mib, mostPercent},
		{6 * mib, 24 * mib, 400},
		{24 * mib, 24 * mib, 100},
		{48 * mib, 24 * mib, 50},
		{1000 * mib, 24 * mib, leastPercent},
	} {
		if got := percent(c.rooted, c.headroom); got != c.want {
			t.Errorf("%d MiB live, %d MiB headroom: %d, want %d", c.rooted/mib, c.headroom/mib, got, c.want)
		}
	}
}

// Headroom comes with work, and goes when what is live grows.
func TestHeadroom(t *testing.T) {
	const mib = 1 << 20
	h := headroom{o: Options{Least: 8 * mib, Most: 64 * mib}, now: 8 * mib}
	for i, step := range []struct {
		rooted uint64
		since  time.Duration
		want   uint64
	}{
		{10 * mib, 100 * time.Millisecond, 8 * mib},  // it grew from nothing
		{10 * mib, 100 * time.Millisecond, 16 * mib}, // busy
		{10 * mib, 5 * time.Second, 16 * mib},        // not busy
		{9 * mib, 100 * time.Millisecond, 32 * mib},
		{9 * mib, 100 * time.Millisecond, 64 * mib},
		{9 * mib, 100 * time.Millisecond, 64 * mib}, // no more than that
		{12 * mib, 100 * time.Millisecond, 8 * mib}, // it grows
		{10 * mib, 100 * time.Millisecond, 16 * mib},
		{12 * mib, 100 * time.Millisecond, 32 * mib}, // as much as there was a moment ago
		{10 * mib, 100 * time.Millisecond, 64 * mib},
		{13 * mib, 100 * time.Millisecond, 8 * mib},
	} {
		if h.collected(step.rooted, step.since); h.now != step.want {
			t.Errorf("step %d: %d MiB, want %d", i, h.now/mib, step.want/mib)
		}
	}
}

// Nodes that join make much live data larger by little from one collection to the
// next; it grows for all that, for as long as it goes on.
func TestHeadroomOfSlowGrowth(t *testing.T) {
	const mib = 1 << 20
	h := headroom{o: Options{Least: 3 * mib, Most: 64 * mib}, now: 3 * mib}
	rooted := uint64(40 * mib)
	for i := range 50 {
		if h.collected(rooted, 100*time.Millisecond); h.now != 3*mib {
			t.Fatalf("%d MiB of headroom after %d collections", h.now/mib, i)
		}
		rooted += rooted / 80
	}
	for range 2*held + 5 {
		h.collected(rooted, 100*time.Millisecond)
	}
	if h.now != 64*mib {
		t.Errorf("%d MiB of headroom when it has stopped", h.now/mib)
	}
}

// Nodes that join, part and connect again leave as much live as before for a while. What
// comes after that is growth again, though none of its steps is a large one.
func TestHeadroomOfGrowthThatPaused(t *testing.T) {
	const mib = 1 << 20
	h := headroom{o: Options{Least: 3 * mib, Most: 64 * mib}, now: 3 * mib}
	rooted := uint64(30 * mib)
	for range held + 2 {
		h.collected(rooted, 100*time.Millisecond)
	}
	if h.now == 3*mib {
		t.Fatal("no headroom while nothing grows: the test shows nothing")
	}
	most := h.now
	for range 20 {
		rooted += rooted / 80
		h.collected(rooted, 100*time.Millisecond)
		most = max(most, h.now)
	}
	if h.now != 3*mib || most > 24*mib {
		t.Errorf("%d MiB of headroom while it grows again, %d at most", h.now/mib, most/mib)
	}

	for range 100 { // they all leave
		h.collected(12*mib, 100*time.Millisecond)
	}
	if h.now != 64*mib {
		t.Errorf("%d MiB of headroom after nodes left", h.now/mib)
	}
	rooted = 12 * mib
	for rooted < 48*mib { // and come back
		rooted += rooted / 20
		h.collected(rooted, 100*time.Millisecond)
	}
	if h.now != 3*mib {
		t.Errorf("%d MiB of headroom while nodes come back", h.now/mib)
	}
}

// Calls in flight come and go. The first time there are more of them is growth; after
// that their most is known, and the headroom comes.
func TestHeadroomOfMuchInFlight(t *testing.T) {
	const mib = 1 << 20
	h := headroom{o: Options{Least: 3 * mib, Most: 64 * mib}, now: 3 * mib}
	small := 0
	for i := range 400 {
		h.collected(uint64(40*mib)+uint64(i%8)*mib/4, 100*time.Millisecond)
		if h.now < 64*mib {
			small++
		}
	}
	if small > 400/5 {
		t.Errorf("less than all of the headroom at %d of 400 collections under constant load", small)
	}
}

// What is not used goes when there is nothing to do, and when there is little to do
// all but what the next collection will find.
func TestRested(t *testing.T) {
	const mib = 1 << 20
	for i, c := range []struct {
		now, cycles, rooted, unused uint64
		want                        bool
		then                        uint64
	}{
		{64 * mib, 0, 50 * mib, 3 * mib, false, 8 * mib},
		{64 * mib, 0, 50 * mib, 5 * mib, true, 8 * mib},
		{8 * mib, 2, 50 * mib, 11 * mib, false, 8 * mib}, // 8 may lie there
		{8 * mib, 2, 50 * mib, 12 * mib, true, 8 * mib},
		{8 * mib, 2, 200 * mib, 18 * mib, false, 8 * mib}, // 8 %
		{8 * mib, 2, 200 * mib, 20 * mib, true, 8 * mib},
		{64 * mib, 2, 50 * mib, 60 * mib, false, 64 * mib}, // it was busy lately
		{8 * mib, 40, 50 * mib, 60 * mib, false, 8 * mib},  // it is
	} {
		h := headroom{o: Options{Least: 8 * mib, Most: 64 * mib}, now: c.now}
		if got := h.rested(c.cycles, c.rooted, c.unused); got != c.want || h.now != c.then {
			t.Errorf("%d: %v, %d MiB; want %v, %d", i, got, h.now/mib, c.want, c.then/mib)
		}
	}
}

// The setting follows what is live and is put back at the end.
func TestRunFollowsWhatIsLive(t *testing.T) {
	t.Setenv("GOGC", "")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, Options{Least: 16 << 20}) }()
	await(t, "a generous setting while little is live", func(percent uint64) bool { return percent > 150 })
	held := make([]byte, 256<<20)
	await(t, "a tight setting while much is live", func(percent uint64) bool { return percent == leastPercent })
	runtime.KeepAlive(held)
	held = nil
	await(t, "a generous setting again", func(percent uint64) bool { return percent > 150 })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("GOGC is %d at the end", got)
	}
}

func TestGOGCDecidesAlone(t *testing.T) {
	t.Setenv("GOGC", "77")
	ctx, cancel := context.WithCancel(t.Context())
	was := gogc()
	cancel()
	if err := Run(ctx, Options{}); err != nil || gogc() != was {
		t.Errorf("GOGC %d, was %d; %v", gogc(), was, err)
	}
}

func gogc() uint64 {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// await collects until the setting is what is expected.
func await(t *testing.T, what string, ok func(percent uint64) bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(gogc()); runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s; GOGC is %d", what, gogc())
		}
		runtime.Gosched()
	}
}
