package task

import (
	"maps"
	"sync"
)

// notice says when a task has changed, and which tasks are seen to now.
type notice struct {
	mu      sync.Mutex
	changed chan struct{}
	busy    map[string]bool
}

func (n *notice) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.changed
}

func (n *notice) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// begin notes that a task is seen to: asked about anew or carried out. end takes that back
// and tells.
func (n *notice) begin(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.busy == nil {
		n.busy = map[string]bool{}
	}
	n.busy[id] = true
}

func (n *notice) end(id string) {
	n.mu.Lock()
	delete(n.busy, id)
	n.mu.Unlock()
	n.tell()
}

// seenTo returns the tasks that somebody sees to now.
func (n *notice) seenTo() map[string]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.busy)
}
