package desktop

import (
	"strconv"
	"sync"

	"github.com/handrail-dev/handrail/platform"
)

// maxRefs bounds the table; the oldest go first.
const maxRefs = 16384

// refTable gives elements short refs ("e12") that models copy without error, and
// keeps them for the node's life.
type refTable struct {
	mu    sync.Mutex
	next  int
	long  map[string]string // by short
	short map[string]string // by long
	ring  []string          // short ones, oldest first
}

func newRefTable() *refTable {
	return &refTable{long: map[string]string{}, short: map[string]string{}}
}

// name gives the element's short ref, made now if it has none.
func (t *refTable) name(e platform.Element) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.short[e.Ref]; ok {
		return s
	}
	t.next++
	s := "e" + strconv.Itoa(t.next)
	t.short[e.Ref], t.long[s] = s, e.Ref
	t.ring = append(t.ring, s)
	if len(t.ring) > maxRefs {
		delete(t.short, t.long[t.ring[0]])
		delete(t.long, t.ring[0])
		t.ring = t.ring[1:]
	}
	return s
}

// full gives the platform's ref for a short one; others pass as they are.
func (t *refTable) full(ref string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l, ok := t.long[ref]; ok {
		return l
	}
	return ref
}
