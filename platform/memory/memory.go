package memory

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Options of Run.
type Options struct {
	// Least and Most bound the headroom: how many bytes may be allocated between
	// two collections. Default 3 and 64 MiB.
	Least, Most uint64
}

const (
	defaultLeast = 3 << 20
	defaultMost  = 64 << 20
	leastPercent = 8   // of the live data, when that is much more than the headroom
	mostPercent  = 800 // when there is next to none
	// busy is the time between collections below which headroom pays.
	busy = time.Second
	// calm is how long no collection has been needed before memory is given back,
	// and slack how much it must be to be worth one.
	calm  = 10 * time.Second
	slack = 3 << 20
	// seldom is how many collections in that time are next to none.
	seldom = 4
	// held is how many collections headroom stays small after growth was seen, where
	// live data is that much of the least headroom: nodes that join make it larger by
	// one or two hundredths from one collection to the next. With less live data what
	// is in flight does that, too.
	held = 6
	much = 8
)

// Run adjusts the collector until ctx ends and then leaves it as it was.
func Run(ctx context.Context, o Options) error {
	if os.Getenv("GOGC") != "" {
		<-ctx.Done()
		return nil
	}
	if o.Least == 0 {
		o.Least = defaultLeast
	}
	if o.Most == 0 {
		o.Most = defaultMost
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as it was
	tick := time.NewTicker(calm)
	defer tick.Stop()
	u := newUsage()
	h := headroom{o: o, now: o.Least}
	set, before, last, begun := 100, uint64(0), time.Now(), false
	for {
		cycle := nextCycle()
		u.read()
		if want := percent(u.rooted(), h.now); want > set+set/8 || want < set-set/8 {
			set = want
			debug.SetGCPercent(set)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-cycle:
			u.read()
			now := time.Now()
			h.collected(u.rooted(), now.Sub(last))
			last = now
		case <-tick.C:
			u.read()
			cycles := u.cycles() - before
			rested := h.rested(cycles, u.rooted(), u.unused())
			if rested {
				debug.FreeOSMemory()
			}
			if rested || !begun && cycles <= seldom {
				begun = true // what the start touched is not needed any more
				unmapOwnPages()
			}
			u.read()
			before = u.cycles()
		}
	}
}

// headroom follows what the process does. While live data grows it stays small:
// what is allocated to stay would lie scattered among garbage, and the gaps are
// not given back. While the process is busy and its live data is not growing, it
// doubles with every collection.
type headroom struct {
	o      Options
	now    uint64
	rooted uint64 // the most that was live lately
	level  uint64 // what was live when it was last seen to grow
	held   int    // for so many collections after that it stays small
}

// collected takes note of a collection, the given time after the one before.
func (h *headroom) collected(rooted uint64, since time.Duration) {
	large := rooted >= much*h.o.Least
	switch {
	case rooted > h.rooted+h.rooted/16, large && rooted > h.level+h.level/32:
		h.now, h.level, h.held = h.o.Least, rooted, 0
		if large {
			h.held = held
		}
	case h.held > 0:
		h.held--
	case since < busy:
		h.now = min(2*h.now, h.o.Most)
	}
	// What is in flight comes and goes: live data grows when there is more of it than
	// there was lately.
	h.rooted = max(rooted, h.rooted-h.rooted/32)
	if rooted < h.level-h.level/16 {
		h.level -= h.level / 64 // nodes have left; less than that is what is in flight
	}
}

// rested takes note of a calm's worth of time with so many collections, and says
// whether memory has to be given back. A process with a thousand idle nodes is never
// without work: where collections are seldom, what the next one will find may lie, and
// what lies beyond it may not.
func (h *headroom) rested(cycles, rooted, unused uint64) bool {
	if cycles == 0 {
		h.now = h.o.Least
		return unused > slack
	}
	may := rooted / 100 * uint64(percent(rooted, h.now))
	return cycles <= seldom && unused > may+slack
}

// percent is the GOGC that lets as much as headroom be allocated until the next
// collection; see https://go.dev/doc/gc-guide for what it is a percentage of.
func percent(rooted, headroom uint64) int {
	return int(min(max(100*headroom/max(rooted, 1), leastPercent), mostPercent))
}

// nextCycle gives a channel that is closed when a collection has ended.
func nextCycle() <-chan struct{} {
	ended := make(chan struct{})
	garbage := new([16]byte)
	runtime.AddCleanup(garbage, func(c chan struct{}) { close(c) }, ended)
	return ended
}

// usage is what the runtime says about itself.
type usage []metrics.Sample

func newUsage() usage {
	u := usage{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
	return u
}

func (u usage) read() { metrics.Read(u) }

func (u usage) at(i int) uint64 {
	if u[i].Value.Kind() != metrics.KindUint64 {
		return 0 // a runtime without that figure
	}
	return u[i].Value.Uint64()
}

// rooted is what GOGC is a percentage of: what survived the last collection, and
// its roots.
func (u usage) rooted() uint64 { return u.at(0) + u.at(1) + u.at(2) }

// unused is what a collection now would give back to the system, about: what was
// allocated since the last one, and what is free but kept.
func (u usage) unused() uint64 {
	since := uint64(0)
	if u.at(3) > u.at(0) {
		since = u.at(3) - u.at(0)
	}
	return since + u.at(4)
}

func (u usage) cycles() uint64 { return u.at(5) }
