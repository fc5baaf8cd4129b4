package device

import (
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// A call that was given up from outside is told apart from one that failed, and both from one that
// was carried out.
func TestReportTellsWhatEndedEarly(t *testing.T) {
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	l := &journal.Log{First: 1}
	add := func(r journal.Record) {
		at = at.Add(time.Second)
		r.TimeUS = at.UnixMicro()
		l.Records = append(l.Records, r)
	}
	for call, end := range map[capabilities.CallID]journal.Record{
		"c1": {Status: capabilities.StatusOK},
		"c2": {Status: capabilities.StatusError, Code: capabilities.CodeCancelled},
		"c3": {Status: capabilities.StatusError, Code: capabilities.CodeCancelled},
		"c4": {Status: capabilities.StatusError, Code: capabilities.CodeExecutionFailed},
	} {
		add(journal.Record{Kind: journal.KindStarted, Call: call, Tool: "tool.desktop.mouse", Principal: "bot"})
		end.Kind, end.Call = journal.KindFinished, call
		add(end)
	}
	r := makeReport(l, cat, at.Add(-time.Hour), at.Add(time.Hour))
	if len(r.Users) != 1 || len(r.Users[0].Uses) != 1 {
		t.Fatalf("%+v", r.Users)
	}
	use := r.Users[0].Uses[0]
	if use.Count != 4 || use.Failed != 1 || use.Ended != 2 {
		t.Errorf("%+v", use)
	}
	if says := aside(use); says != " (1 failed, 2 ended early)" {
		t.Errorf("%q", says)
	}
}
