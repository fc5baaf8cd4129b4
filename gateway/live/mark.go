package live

import (
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
)

// maxMarks bounds the marks of a session, maxMarkedCall a call's ID in one, in bytes.
const maxMarks, maxMarkedCall = 8, 128

// Marks are the places where calls act on what one session shows, the newest last.
type Marks struct {
	Node    capabilities.NodeID
	Session string
	Marks   []capabilities.Mark
	// Version differs from that of any other marks of the session.
	Version uint64
}

// onPicture reports whether m is a place on a picture.
func onPicture(m *capabilities.Mark) bool {
	part := func(v float64) bool { return v >= 0 && v <= 1 }
	return m.Call != "" && len(m.Call) <= maxMarkedCall && part(m.X) && part(m.Y) && part(m.Width) && part(m.Height)
}

// mark takes a node's word about where calls act; a word that is none changes nothing.
func (s *Sessions) mark(one *session, data json.RawMessage) {
	var word struct {
		Marks []capabilities.Mark `json:"marks"`
	}
	if json.Unmarshal(data, &word) != nil || word.Marks == nil || len(word.Marks) > maxMarks {
		return
	}
	for i := range word.Marks {
		if !onPicture(&word.Marks[i]) {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one.marks.Marks = word.Marks
	one.marks.Version++
	if news := s.marked[one.Principal]; news != nil {
		close(news)
		delete(s.marked, one.Principal)
	}
}

// Marks returns where calls act on what a principal watches now, for each session that was
// told of any, and a channel that is closed at the next change. Nobody else is told: who
// does not see the picture has no use of it.
func (s *Sessions) Marks(who capabilities.PrincipalID) ([]Marks, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Marks
	for _, one := range s.open {
		if one.Principal == who && one.marks.Version > 0 {
			all = append(all, one.marks)
		}
	}
	news := s.marked[who]
	if news == nil {
		news = make(chan struct{})
		s.marked[who] = news
	}
	return all, news
}
