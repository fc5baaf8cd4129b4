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

// closer is what is open, and ends at once when the node is stopped.
type closer interface{ cut() }

// hold is a gate that knows what went through it and is open still.
type hold struct {
	gate gate

	mu   sync.Mutex
	open map[closer]bool
}

// Hold keeps what goes out back until it is called with false: the node is stopped. All that is
// open ends at once, in every lane: a tunnel carries what nobody here can hold back.
func (h *hold) Hold(on bool) {
	h.gate.set(on)
	if !on {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.open {
		c.cut()
	}
}

// Held reports whether requests are kept back.
func (h *hold) Held() bool { return h.gate.shut() }

// serve takes c among those that Hold cuts, or out of them.
func (h *hold) serve(c closer, on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !on {
		delete(h.open, c)
		return
	}
	if h.open == nil {
		h.open = map[closer]bool{}
	}
	h.open[c] = true
}
