package egress

import (
	"context"
	"sync"
)

// gate holds requests back while the node is stopped.
type gate struct {
	mu   sync.Mutex
	held chan struct{} // closed when it opens; nil while it is open
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case shut && g.held == nil:
		g.held = make(chan struct{})
	case !shut && g.held != nil:
		close(g.held)
		g.held = nil
	}
}

func (g *gate) shut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held != nil
}

// pass waits until the gate is open; false if ctx ended first.
func (g *gate) pass(ctx context.Context) bool {
	for {
		g.mu.Lock()
		held := g.held
		g.mu.Unlock()
		if held == nil {
			return true
		}
		select {
		case <-held:
		case <-ctx.Done():
			return false
		}
	}
}
