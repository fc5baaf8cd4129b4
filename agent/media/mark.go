package media

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

const (
	// maxMarks bounds the calls whose places are shown at a time, and maxPlaces the places
	// of one.
	maxMarks, maxPlaces = 4, 2
	// markTime is how long a place is shown at least: most calls take milliseconds, which
	// nobody sees.
	markTime = 500 * time.Millisecond
	// tellEvery is the least time between two words about them to one viewer.
	tellEvery = 50 * time.Millisecond
)

// Marked is the word of a session that says where calls act on what it shows: all of
// them, the newest last.
type Marked struct {
	Marks []capabilities.Mark `json:"marks"`
}

// marks are the places where calls act on this desktop, the newest last.
type marks struct {
	mu    sync.Mutex
	calls []marked
	news  chan struct{} // closed at the next change; nil: nobody waits for it
}

type marked struct {
	call  capabilities.CallID
	at    []platform.Rect
	since time.Time
	over  bool // the call acts there no more
}

// Acting is told where on the desktop a call acts; nowhere is its end. The newest word
// about a call counts. It does not block.
func (h *Handler) Acting(call capabilities.CallID, at ...platform.Rect) {
	h.marks.set(call, at, time.Now())
}

func (m *marks) set(call capabilities.CallID, at []platform.Rect, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	had := -1
	for i := range m.calls {
		if m.calls[i].call == call {
			had = i
		}
	}
	switch {
	case len(at) == 0 && (had < 0 || m.calls[had].over):
		return
	case len(at) == 0:
		m.calls[had].over = true
	case had >= 0 && slices.Equal(m.calls[had].at, at):
		return
	default:
		left := m.calls[:0]
		for i, c := range m.calls {
			if !c.over && i != had {
				left = append(left, c)
			}
		}
		if len(left) == maxMarks {
			left = left[:copy(left, left[1:])]
		}
		m.calls = append(left, marked{call: call, at: slices.Clone(at[:min(len(at), maxPlaces)]), since: now})
	}
	if m.news != nil {
		close(m.news)
		m.news = nil
	}
}

// on returns the marks on a part of the desktop, a channel that is closed when they change,
// and how long until one of them is to go by itself; 0: none is.
func (m *marks) on(area platform.Rect, now time.Time) (all []capabilities.Mark, news <-chan struct{}, next time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all = []capabilities.Mark{}
	for _, c := range m.calls {
		left := markTime - now.Sub(c.since)
		if c.over && left <= 0 {
			continue // the next call takes its place
		}
		if c.over && (next == 0 || left < next) {
			next = left
		}
		for _, at := range c.at {
			if one, shows := markOn(area, at); shows {
				one.Call = c.call
				all = append(all, one)
			}
		}
	}
	if m.news == nil {
		m.news = make(chan struct{})
	}
	return all, m.news, next
}

// markOn returns what shows of a place on a part of the desktop.
func markOn(area, at platform.Rect) (capabilities.Mark, bool) {
	at = at.Intersect(area)
	if at.Empty() {
		return capabilities.Mark{}, false
	}
	w, h := float64(area.Width), float64(area.Height)
	x, y := float64(at.X-area.X), float64(at.Y-area.Y)
	if at.Width == 1 && at.Height == 1 {
		return capabilities.Mark{X: (x + .5) / w, Y: (y + .5) / h}, true
	}
	return capabilities.Mark{X: x / w, Y: y / h, Width: float64(at.Width) / w, Height: float64(at.Height) / h}, true
}

// tell says to a viewer of src where calls act there, until ctx ends: always the newest,
// and what comes too fast not at all.
func (h *Handler) tell(ctx context.Context, src *source, inv capabilities.Invocation) {
	told := `{"marks":[]}`
	for {
		all, news, next := h.marks.on(src.shows(), time.Now())
		var gone <-chan time.Time
		if next > 0 {
			gone = time.After(next)
		}
		word, err := json.Marshal(Marked{all})
		if err != nil {
			return
		}
		if string(word) != told {
			told = string(word)
			inv.Progress(capabilities.Progress{Message: "marked", Data: word})
			if capabilities.Sleep(ctx, tellEvery) != nil {
				return
			}
		}
		select {
		case <-news:
		case <-gone:
		case <-ctx.Done():
			return
		}
	}
}
