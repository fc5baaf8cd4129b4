package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Kind is one way to break something.
type Kind string

// The kinds. Of those that take two subjects the second is a gateway, too.
const (
	KillGateway   Kind = "kill a gateway"
	EndGateway    Kind = "end a gateway"
	FreezeGateway Kind = "have a gateway stand still"
	StartBeside   Kind = "start a gateway beside one that stands still"
	SplitGateways Kind = "part two gateways"
	CutDatabase   Kind = "cut a gateway off from the database"
	CutNodes      Kind = "cut nodes off from a gateway"
	Lossy         Kind = "lose and delay what nodes and a gateway send"
	KillNode      Kind = "kill a node"
	FreezeNode    Kind = "have a node stand still"
	FillNode      Kind = "fill a node's disk"
	EndDatabase   Kind = "end the database"
	KillDatabase  Kind = "kill the database"
	StopAll       Kind = "stop everything"
	CalmStop      Kind = "stop everything in calm times"
)

// weights are how often each kind comes, of their sum.
var weights = []struct {
	kind  Kind
	often int
}{
	{KillGateway, 6}, {EndGateway, 2}, {FreezeGateway, 5}, {StartBeside, 2}, {SplitGateways, 5}, {CutDatabase, 4}, {CutNodes, 5}, {Lossy, 4},
	{KillNode, 6}, {FreezeNode, 5}, {FillNode, 3}, {EndDatabase, 1}, {KillDatabase, 2}, {StopAll, 2}, {CalmStop, 1},
}

// Fault is one step of a schedule.
type Fault struct {
	At     time.Duration // since the beginning
	Lasts  time.Duration
	Kind   Kind
	First  int // which gateway or node
	Second int // which other gateway
	Share  int // of 100: how many packets or nodes
}

func (f Fault) String() string {
	return fmt.Sprintf("%6.1fs %s for %.1fs (%d, %d, %d %%)", f.At.Seconds(), f.Kind, f.Lasts.Seconds(), f.First+1, f.Second+1, f.Share)
}

// Plan returns the schedule that a seed makes: the same each time. Faults overlap, and each kind
// comes once before any comes by chance. long: those that may outlast the leases of gateways do.
func Plan(seed uint64, length time.Duration, gateways, nodes int, has func(Kind) bool, long bool) []Fault {
	rng := rand.New(rand.NewPCG(seed, 0x68616e64))
	var kinds []Kind
	sum := 0
	for _, w := range weights {
		if has(w.kind) {
			kinds = append(kinds, w.kind)
			sum += w.often
		}
	}
	draw := func() Kind {
		n := rng.IntN(sum)
		for _, w := range weights {
			if !has(w.kind) {
				continue
			}
			if n -= w.often; n < 0 {
				return w.kind
			}
		}
		return kinds[0]
	}
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	var all []Fault
	var calm time.Duration // when everything was stopped in calm times
	for at := 2 * time.Second; at < length; {
		f := Fault{At: at, Kind: draw(), Lasts: between(rng, 300*time.Millisecond, 5*time.Second)}
		if i := len(all); i < len(kinds) {
			f.Kind = kinds[i]
		}
		if f.Kind == CalmStop && calm > 0 && at < calm+everyCalm && has(StopAll) {
			f.Kind = StopAll
		}
		if f.Kind == CalmStop {
			calm = at
		}
		f.First, f.Share = rng.IntN(gateways), 5+rng.IntN(96)
		f.Second = (f.First + 1 + rng.IntN(max(1, gateways-1))) % gateways
		switch f.Kind {
		case StartBeside: // for less than a lease, after which it says nothing more
			f.Lasts = between(rng, 2*time.Second, 3500*time.Millisecond)
		case KillNode, FreezeNode, FillNode:
			f.First = rng.IntN(nodes)
		case Lossy:
			f.Share = 3 + rng.IntN(28)
		}
		switch f.Kind {
		case FreezeGateway, SplitGateways, CutDatabase, CutNodes, FreezeNode:
			if rng.IntN(3) == 0 || long { // longer than the leases of gateways, which are five and six seconds
				f.Lasts = between(rng, 6*time.Second, 12*time.Second)
			}
		}
		all = append(all, f)
		at += between(rng, 500*time.Millisecond, 7*time.Second)
	}
	return all
}

// everyCalm is how often everything is left alone for a stop, at most: meanwhile nothing breaks.
const everyCalm = 2 * time.Minute

func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	return least + below(rng, most-least)
}

func below(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(most)))
}
