package execution

import (
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// Asker is whose a call is. A person and an agent of the same name are two.
type Asker struct {
	Principal capabilities.PrincipalID
	Person    bool
}

// Key is what a retry is recognised by (S4-28's fallback request_uuid, scoped to its
// asker so that nobody can meet another's calls).
type Key struct {
	Asker
	Request capabilities.RequestID
	// Same is a sum over all that was asked, of a call without a request ID whose result may
	// be used again (S4-28's thread, tool and arguments); zero for others.
	Same [32]byte
}

// Asked is what was asked under a key, with the execution that answers it.
type Asked struct {
	Execution *Execution
	Call      capabilities.CallID
	Tool      capabilities.ToolID
	Lane      capabilities.LaneID
	Node      capabilities.NodeID // where it goes
	Target    capabilities.NodeID // the requested node: part of what was asked
	Args      [32]byte            // SHA-256 of the canonical arguments: memory only, never stored
	Canonical []byte              // the arguments, for Earlier
	// Earlier compares by the keyed digest, for a call of which only its row is left. nil
	// for calls of this process.
	Earlier func(other *Asked) bool
}

// Same reports whether both were asked for the same thing.
func (a *Asked) Same(other *Asked) bool {
	if a.Earlier != nil {
		return a.Earlier(other)
	}
	return a.Tool == other.Tool && a.Lane == other.Lane && a.Target == other.Target && a.Args == other.Args
}

// Table is the executions that a retry can join. All methods are safe for concurrent use.
type Table struct {
	mu    sync.Mutex
	byKey map[Key]*Asked
}

// NewTable makes an empty table.
func NewTable() *Table { return &Table{byKey: make(map[Key]*Asked)} }

// Claim registers a under key if nobody holds it. It returns the holder and whether that
// is a itself.
func (t *Table) Claim(key Key, a *Asked) (holder *Asked, mine bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h, ok := t.byKey[key]; ok {
		return h, false
	}
	t.byKey[key] = a
	return a, true
}

// Replace registers a under key in place of any holder.
func (t *Table) Replace(key Key, a *Asked) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byKey[key] = a
}

// Get returns the holder of key; nil if there is none.
func (t *Table) Get(key Key) *Asked {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[key]
}

// Release forgets key if a still holds it.
func (t *Table) Release(key Key, a *Asked) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byKey[key] == a {
		delete(t.byKey, key)
	}
}
