package link

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is how long to wait between attempts: a random time up to a bound that
// doubles. All nodes of a site lose their gateway at the same moment; full jitter
// keeps them from coming back at the same moment.
type Backoff struct {
	Min time.Duration // first bound; default 500 ms
	Max time.Duration // last bound; default 30 s
}

type backoff struct {
	Backoff
	bound time.Duration
}

func (b Backoff) start() *backoff {
	if b.Min <= 0 {
		b.Min = 500 * time.Millisecond
	}
	if b.Max < b.Min {
		b.Max = max(30*time.Second, b.Min)
	}
	return &backoff{Backoff: b}
}

// next gives the time to wait: at least a tenth of the bound, so that no attempt
// follows at once.
func (b *backoff) next() time.Duration {
	b.bound = min(max(b.bound*2, b.Min), b.Max)
	floor := b.bound / 10
	return floor + rand.N(b.bound-floor+1)
}

func (b *backoff) reset() { b.bound = 0 }

// slow makes the next wait one of the longest.
func (b *backoff) slow() { b.bound = b.Max }

// pause waits; false if ctx ended first.
func (b *backoff) pause(ctx context.Context) bool { return sleep(ctx, b.next()) }

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
