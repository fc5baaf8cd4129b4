package lane

import (
	"context"
	"errors"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
)

// Tables are those that the room keeps in memory, and reads again once another gateway wrote them.
var Tables = []string{"lane", "lane_node", "lane_tool"}

// attempts is how often a change is tried whose lane another gateway changed meanwhile.
const attempts = 5

// errOld: what a change was made of is not what holds any more.
var errOld = errors.New("lane: another gateway changed it meanwhile")

// Again reads the lanes as they stand now. OnClosed is told what they lost.
func (l *Lanes) Again(ctx context.Context) error {
	now, err := New(l.opts)
	if err != nil {
		return err
	}
	if err := now.Load(ctx); err != nil {
		return err
	}
	type lost struct {
		lane capabilities.LaneID
		node capabilities.NodeID
	}
	var gone []lost
	l.mu.Lock()
	for name, was := range l.byName {
		s := now.byName[name]
		if s == nil {
			gone = append(gone, lost{name, ""})
			continue
		}
		s.lastUsed.Store(max(s.lastUsed.Load(), was.lastUsed.Load()))
		for _, node := range was.nodes {
			if !slices.Contains(s.nodes, node) {
				gone = append(gone, lost{name, node})
			}
		}
		found := s.working.tools
		if s.working = was.working; !slices.Equal(found, was.working.tools) {
			s.working.tools = found
			l.turnLocked(s)
		}
	}
	l.byName, l.owned = now.byName, now.owned
	for _, s := range l.byName {
		if s.working.version == 0 && len(s.working.tools) > 0 || s.working.version == 1 {
			l.turnLocked(s)
		}
	}
	l.mu.Unlock()
	if len(gone) > 0 {
		go func() { // it may wait for a node
			for _, g := range gone {
				l.opts.OnClosed(g.lane, g.node)
			}
		}()
	}
	return nil
}

// same returns errOld within a write if a lane is not the one any more that it was made of: the
// writer read it again where another gateway changed it.
func (l *Lanes) same(lane capabilities.LaneID, s *state) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.byName[lane] != s {
		return errOld
	}
	return nil
}

// anew tries a change again whose lane was read again meanwhile.
func anew(try func() error) error {
	err := try()
	for n := 1; n < attempts && errors.Is(err, errOld); n++ {
		err = try()
	}
	if errors.Is(err, errOld) {
		return capabilities.Wrap(capabilities.CodeConflict, err, "Another gateway of the site changes this lane.").WithHint("Repeat it.")
	}
	return err
}
