package outline

import (
	"slices"
	"strings"
	"sync"
)

// View says which part of a page a snapshot shows, and how.
type View struct {
	Ref         string `json:"ref,omitzero"`
	Selector    string `json:"selector,omitzero"`
	Interactive bool   `json:"interactive"`
	Boxes       bool   `json:"boxes"`
}

// Shot is a snapshot that was given: what a delta compares with, and what tells the role and
// name behind a ref whose document is gone.
type Shot struct {
	ID        string
	Tab       string
	Documents int // of the tab, then
	View      View
	Address   string // with its fragment or without
	Lines     []string

	size int
}

// Bounds of what is remembered.
const (
	maxShots     = 24
	maxShotBytes = 1 << 20
)

// Memory keeps the latest snapshots of a conversation. The zero value is ready; its methods
// may be called at the same time.
type Memory struct {
	mu    sync.Mutex
	shots []*Shot // oldest first
	size  int
}

// Keep keeps a snapshot and drops the oldest over the bounds. The shot is the memory's then.
func (m *Memory) Keep(s *Shot) {
	s.Address = withoutFragment(s.Address)
	for _, line := range s.Lines {
		s.size += len(line) + 16
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shots = append(m.shots, s)
	m.size += s.size
	for len(m.shots) > 1 && (len(m.shots) > maxShots || m.size > maxShotBytes) {
		m.size -= m.shots[0].size
		m.shots = m.shots[1:]
	}
}

// Find returns a snapshot of a tab by its ID; "last" is the latest of that tab with the given
// view. nil: it is not known any more.
func (m *Memory) Find(tab, id string, view View) *Shot {
	return m.last(func(s *Shot) bool { return s.Tab == tab && (s.ID == id || id == "last" && s.View == view) })
}

// Latest returns the tab's last snapshot, nil if none was given.
func (m *Memory) Latest(tab string) *Shot {
	return m.last(func(s *Shot) bool { return s.Tab == tab })
}

// last returns the latest snapshot that is meant, nil if none is.
func (m *Memory) last(meant func(*Shot) bool) *Shot {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range slices.Backward(m.shots) {
		if meant(s) {
			return s
		}
	}
	return nil
}

// Former is what a ref stood for.
type Former struct {
	Role string `json:"role"`
	Name string `json:"name"`
}

// Former returns what a ref stood for when the tab showed that address, nil if it is not
// known. A ref never means something on another page.
func (m *Memory) Former(tab, ref, address string) (was *Former) {
	address = withoutFragment(address)
	m.last(func(s *Shot) bool {
		if s.Tab != tab || s.Address != address {
			return false
		}
		known := false
		was, known = s.former(ref)
		return known
	})
	return was
}

// former returns what a ref stands for in the snapshot, nil if several are alike: which of
// them it was, nobody can tell. known: the snapshot has it.
func (s *Shot) former(ref string) (was *Former, known bool) {
	for _, line := range s.Lines {
		if !strings.Contains(line, "[ref="+ref+"]") {
			continue
		}
		role, name, own := Read(line).Parts()
		if own != ref || name == "" {
			continue
		}
		alike := func(other string) bool {
			r, n, own := Read(other).Parts()
			return own != "" && r == role && n == name
		}
		if i := slices.IndexFunc(s.Lines, alike); slices.ContainsFunc(s.Lines[i+1:], alike) {
			return nil, true
		}
		return &Former{role, name}, true
	}
	return nil, false
}

func withoutFragment(address string) string {
	address, _, _ = strings.Cut(address, "#")
	return address
}
