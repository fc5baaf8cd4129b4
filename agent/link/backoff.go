package link

import (
	"context"
	"time"

	retry "github.com/cenkalti/backoff/v5"

	"github.com/handrail-dev/handrail/capabilities"
)

// Backoff is how long to wait between attempts: a random time up to a bound that
// doubles. All nodes of a site lose their gateway at the same moment; full jitter
// keeps them from coming back at the same moment.
type Backoff struct {
	Min time.Duration // first bound; default 500 ms
	Max time.Duration // last bound; default 30 s
}

type backoff struct{ retry.ExponentialBackOff }

// middle and spread make the library's "this much around the middle" into "from a tenth
// of the bound up to the bound", so that no attempt follows at once.
const (
	middle = 0.55
	spread = 0.45 / middle
)

func (b Backoff) start() *backoff {
	if b.Min <= 0 {
		b.Min = 500 * time.Millisecond
	}
	if b.Max < b.Min {
		b.Max = max(30*time.Second, b.Min)
	}
	scaled := func(d time.Duration) time.Duration { return time.Duration(middle * float64(d)) }
	return &backoff{retry.ExponentialBackOff{
		InitialInterval: scaled(b.Min), MaxInterval: scaled(b.Max), Multiplier: 2, RandomizationFactor: spread,
	}}
}

func (b *backoff) reset() { b.Reset() }

// slow makes the next wait one of the longest.
func (b *backoff) slow() {
	first := b.InitialInterval
	b.InitialInterval = b.MaxInterval
	b.Reset()
	b.InitialInterval = first
}

// pause waits; false if ctx ended first.
func (b *backoff) pause(ctx context.Context) bool {
	return capabilities.Sleep(ctx, b.NextBackOff()) == nil
}
