package delegate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/agent/worker/delegate"
	"github.com/handrail-dev/handrail/capabilities"
)

// One call with the message alone, then its summary or its failure; none of a sub-agent that is not
// offered (S3-04, S3-16).
func TestATaskIsHandedOn(t *testing.T) {
	h := delegate.Harness{Tool: "tool.sub-agent.reader"}
	turn := worker.Turn{Intent: "file_task", Before: []worker.Said{{Person: true, Text: "earlier"}}, Messages: []worker.Message{{Text: "read a.txt"}}}
	next := func() worker.Answer {
		t.Helper()
		a, err := h.Next(t.Context(), turn)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := next(); !a.Undone || len(a.Calls) != 0 || !strings.Contains(a.Text, "is not offered for file_task") {
		t.Errorf("%+v", a)
	}
	turn.Tools = []worker.Tool{{ID: h.Tool}}
	shown := capabilities.Result{Status: capabilities.StatusOK, Output: json.RawMessage(`{}`)}
	turn.Messages = append(turn.Messages, worker.Message{Result: &shown})
	a := next()
	turn.Messages = turn.Messages[:1]
	if len(a.Calls) != 1 || a.Calls[0].Tool != h.Tool || string(a.Calls[0].Args) != `{"task":"read a.txt"}` {
		t.Fatalf("%+v", a)
	}
	for _, c := range []struct {
		result capabilities.Result
		text   string
	}{
		{capabilities.Result{Status: capabilities.StatusOK, Output: json.RawMessage(`{"text":"It says\n700.\u001b[2J"}`)}, "It says\n700."},
		{capabilities.Result{Status: capabilities.StatusDenied, Code: capabilities.CodeDeniedByPolicy, Message: "no", Hint: "ask"}, "no\nask"},
		{capabilities.Result{Status: capabilities.StatusOK, Output: json.RawMessage(`[]`)}, "cannot be read"},
		{capabilities.Result{Status: capabilities.StatusOK, Message: "a hook keeps the result back: seen"}, "a hook keeps the result back: seen"},
	} {
		turn.Messages = append(turn.Messages[:1], worker.Message{Call: &a.Calls[0], Result: &c.result, Round: 1})
		if a := next(); len(a.Calls) != 0 || !strings.Contains(a.Text, c.text) || strings.Contains(a.Text, "\x1b") {
			t.Errorf("%+v", a)
		}
	}
}
