package nodes

import (
	"golang.org/x/time/rate"

	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Bounds of what one node may say on its control stream. A node that keeps to the
// protocol says little: a heartbeat now and then, and what changed.
const (
	frameRate  = 100 // a second
	frameBurst = 300
)

// frameCost is how much of its allowance a frame takes: what makes every caller's
// view anew, or is certified and written down, takes more than a heartbeat.
func frameCost(m wire.Message) int {
	switch m.(type) {
	case *wire.Readiness, *wire.Stop:
		return 5
	case *wire.Rotate:
		return 50
	case *wire.Verdict: // a person presses few keys
		return 20
	}
	return 1
}

func newFrames() *rate.Limiter { return rate.NewLimiter(frameRate, frameBurst) }
