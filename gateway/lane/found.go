package lane

import (
	"context"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// maxFound is how many tools that were found a lane keeps; beyond that the one unused for longest
// leaves.
const maxFound = 40

// working is what a lane found by searching.
type working struct {
	tools   []capabilities.ToolID // the latest found or called first; replaced, never changed in place
	version uint64                // another after each change of which tools they are
}

// Found returns the tools that searches of a lane found, the latest used first, and a number that
// is another once they are others. The slice is shared: read only.
func (l *Lanes) Found(lane capabilities.LaneID) (tools []capabilities.ToolID, version uint64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if s := l.byName[lane]; s != nil {
		return s.working.tools, s.working.version
	}
	return nil, 0
}

// FoundChanged is closed at the next change of what any lane found; ask again for the one after.
func (l *Lanes) FoundChanged() <-chan struct{} {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.foundChanged
}

// Find keeps tools that a search of a lane found, durably. CodeNotFound for a lane that nobody
// entered.
func (l *Lanes) Find(ctx context.Context, lane capabilities.LaneID, tools []capabilities.ToolID) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	have, _ := l.Found(lane)
	next := front(have, tools)
	if slices.Equal(have, next) {
		return nil
	}
	err := l.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`DELETE FROM lane_tool WHERE lane = $1`, string(lane)); err != nil {
			return err
		}
		for i, tool := range next {
			if _, err := tx.Exec(`INSERT INTO lane_tool (lane, tool, place) SELECT lane, $1, $2 FROM lane WHERE lane = $3`, string(tool), i,
				string(lane)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.byName[lane]
	if s == nil {
		return capabilities.Errorf(capabilities.CodeNotFound, "there is no lane %.128q", lane)
	}
	others := len(s.working.tools) != len(next) ||
		slices.ContainsFunc(next, func(t capabilities.ToolID) bool { return !slices.Contains(s.working.tools, t) })
	s.working.tools = next
	if others {
		l.turnLocked(s)
	}
	return nil
}

// turnLocked says that a lane has other tools now. Versions are of all lanes together, so that a
// lane that was forgotten and came back has another one, too.
func (l *Lanes) turnLocked(s *state) {
	l.turns++
	s.working.version = l.turns
	close(l.foundChanged)
	l.foundChanged = make(chan struct{})
}

// Used notes that a lane called a tool: one of those that it found stays longer. The order is kept
// in memory, and written down with the next search.
func (l *Lanes) Used(lane capabilities.LaneID, tool capabilities.ToolID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.byName[lane]; s != nil && slices.Contains(s.working.tools, tool) {
		s.working.tools = front(s.working.tools, []capabilities.ToolID{tool})
	}
}

// front returns a new list that begins with tools and goes on with those of have that are not
// among them, at most maxFound.
func front(have, tools []capabilities.ToolID) []capabilities.ToolID {
	next := make([]capabilities.ToolID, 0, len(have)+len(tools))
	for _, t := range slices.Concat(tools, have) {
		if !slices.Contains(next, t) && len(next) < maxFound {
			next = append(next, t)
		}
	}
	return next
}
