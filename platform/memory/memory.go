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
	// Headroom is how much may be allocated between two collections while there is
	// little live data, in bytes; default 64 MiB.
	Headroom uint64
}

const (
	defaultHeadroom = 64 << 20
	leastPercent    = 40  // of the live data, when that is much more than the headroom
	mostPercent     = 800 // when there is next to none
	// calm is how long no collection has been needed before memory is given back,
	// and slack how much it must be to be worth one.
	calm  = 10 * time.Second
	slack = 8 << 20
)

// Run adjusts the collector until ctx ends and then leaves it as it was.
func Run(ctx context.Context, o Options) error {
	if os.Getenv("GOGC") != "" {
		<-ctx.Done()
		return nil
	}
	if o.Headroom == 0 {
		o.Headroom = defaultHeadroom
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as it was
	tick := time.NewTicker(calm)
	defer tick.Stop()
	u := newUsage()
	now, before := 100, uint64(0)
	for {
		cycle := nextCycle()
		u.read()
		if want := percent(u.rooted(), o.Headroom); want > now+now/8 || want < now-now/8 {
			now = want
			debug.SetGCPercent(now)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-cycle:
		case <-tick.C:
			u.read()
			if u.cycles() == before && u.unused() > slack {
				debug.FreeOSMemory()
			}
			u.read()
			before = u.cycles()
		}
	}
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
