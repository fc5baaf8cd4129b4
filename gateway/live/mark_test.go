package live

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

type noCalls struct{ Calls }

// A node's word about places is taken as a whole or not at all, and told to whoever watches it,
// nobody else.
func TestMarks(t *testing.T) {
	s, err := New(Options{Calls: noCalls{}})
	if err != nil {
		t.Fatal(err)
	}
	ann := &session{View: View{ID: "one", Node: "n1", Source: "screen", Principal: "ann"}, marks: Marks{Node: "n1", Session: "one"}}
	s.open["one"] = ann
	told, news := s.Marks("ann")
	_, others := s.Marks("ben")
	if len(told) != 0 {
		t.Errorf("before anything was said: %+v", told)
	}
	for _, bad := range []string{
		`{}`, `{"taken":true}`, `{"marks":7}`, `{"marks":[{"call_id":"c","x":1.01,"y":0}]}`, `{"marks":[{"call_id":"c","x":-1,"y":0}]}`,
		`{"marks":[{"call_id":"c","x":0,"y":0,"width":2}]}`, `{"marks":[{"x":0,"y":0}]}`, `{"marks":[{"call_id":"` + strings.Repeat("c", maxMarkedCall+1) + `"}]}`,
		`{"marks":[` + strings.Repeat(`{"call_id":"c"},`, maxMarks) + `{"call_id":"c"}]}`,
	} {
		s.mark(ann, []byte(bad))
	}
	select {
	case <-news:
		t.Fatalf("what is none was taken: %+v", ann.marks)
	default:
	}
	s.mark(ann, []byte(`{"marks":[{"call_id":"c","x":0.25,"y":1,"width":0,"height":0}]}`))
	select {
	case <-news:
	default:
		t.Error("whoever waits for it was not told")
	}
	select {
	case <-others:
		t.Error("somebody was told who does not watch")
	default:
	}
	told, news = s.Marks("ann")
	want := capabilities.Mark{Call: "c", X: .25, Y: 1}
	if len(told) != 1 || told[0].Session != "one" || told[0].Node != "n1" || len(told[0].Marks) != 1 || told[0].Marks[0] != want {
		t.Errorf("told %+v", told)
	}
	if told, _ := s.Marks("ben"); len(told) != 0 {
		t.Errorf("ben, who does not watch, is told %+v", told)
	}
	s.mark(ann, []byte(`{"marks":[]}`))
	<-news
	if told, _ = s.Marks("ann"); len(told) != 1 || told[0].Marks == nil || len(told[0].Marks) != 0 {
		t.Errorf("after the end: %+v", told)
	}
}
