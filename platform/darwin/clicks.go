package darwin

import (
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// clicks counts how often a button was clicked at one place: on macOS who makes
// an event says whether it is the second click of a double one.
type clicks struct {
	button platform.Button
	at     point
	when   time.Time
	n      int64
}

// The system's own bounds for a double click, if nobody changed them.
const (
	doubleWithin = 500 * time.Millisecond
	doubleNear   = 4 // points
)

// down returns the count for a press.
func (c *clicks) down(b platform.Button, at point, now time.Time) int64 {
	near := func(a, b float64) bool { return a-b < doubleNear && b-a < doubleNear }
	if c.button != b || now.Sub(c.when) >= doubleWithin || !near(c.at.X, at.X) || !near(c.at.Y, at.Y) {
		c.n = 0
	}
	c.button, c.at, c.when = b, at, now
	c.n++
	return c.n
}

// buttonKinds are the types of the events (kCGEvent…) of a button, and its number.
type buttonKinds struct {
	down, up, dragged uint32
	number            uint32
}

var buttons = map[platform.Button]buttonKinds{
	platform.ButtonLeft: {1, 2, 6, 0}, platform.ButtonRight: {3, 4, 7, 1}, platform.ButtonMiddle: {25, 26, 27, 2},
	platform.ButtonBack: {25, 26, 27, 3}, platform.ButtonForward: {25, 26, 27, 4},
}
