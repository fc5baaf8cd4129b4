package rest_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front/rest"
	"github.com/handrail-dev/handrail/gateway/live"
)

// marking is a gateway on which somebody watches: it tells where calls act, and can do
// nothing else.
type marking struct {
	rest.Live

	mu   sync.Mutex
	all  map[capabilities.PrincipalID][]live.Marks
	news chan struct{}
}

// Marks returns what was set.
func (m *marking) Marks(who capabilities.PrincipalID) ([]live.Marks, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.news == nil {
		m.news = make(chan struct{})
	}
	return m.all[who], m.news
}

func (m *marking) set(who capabilities.PrincipalID, all ...live.Marks) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = map[capabilities.PrincipalID][]live.Marks{who: all}
	if m.news != nil {
		close(m.news)
		m.news = nil
	}
}

// Where calls act is an event for whoever watches, after the call's own and once for each
// change, and none for others.
func TestEventsOfMarks(t *testing.T) {
	a := start(t)
	watches, other := a.events(a.operator, ""), a.events(a.admin, "")
	next := func(s *sse) string {
		t.Helper()
		e, ok := s.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		if (e.name == "mark") != (e.id == "") {
			t.Errorf("%+v", e)
		}
		return e.name + " " + e.data
	}
	here := func(x float64) live.Marks {
		return live.Marks{Node: "n1", Session: "one", Version: 1, Marks: []capabilities.Mark{{Call: "c1", X: x, Y: .5}}}
	}
	recordCall(t, a, "alice", "c1")
	a.live.set("op", here(.25))
	for range 4 {
		if got := next(watches); !strings.HasPrefix(got, "call ") {
			t.Errorf("before the call's own events: %s", got)
		}
	}
	if got := next(watches); got != `mark {"node_id":"n1","session_id":"one","marks":[{"call_id":"c1","x":0.25,"y":0.5,"width":0,"height":0}]}` {
		t.Errorf("told %s", got)
	}
	a.live.set("op", here(.25)) // as it was
	a.live.set("op", live.Marks{Node: "n1", Session: "one", Version: 2, Marks: []capabilities.Mark{}})
	if got := next(watches); !strings.HasSuffix(got, `"marks":[]}`) {
		t.Errorf("told %s", got)
	}
	recordCall(t, a, "alice", "c2")
	for range 4 {
		if got := next(watches); !strings.Contains(got, `"c2"`) {
			t.Errorf("told %s", got)
		}
	}
	for range 8 {
		if got := next(other); !strings.HasPrefix(got, "call ") {
			t.Errorf("who watches nothing is told %s", got)
		}
	}
}
