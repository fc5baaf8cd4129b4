package capabilities

import "context"

// Warmer is a Handler whose first call waits for something to start, such as a browser.
type Warmer interface {
	// Warm starts it ahead of a call. A part that no call comes to use ends as it does after the
	// last one. It returns once the start is over, however it went (the call that needs it will say
	// so), or when ctx ends.
	Warm(ctx context.Context)
}
