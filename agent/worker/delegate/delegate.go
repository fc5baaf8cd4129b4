package delegate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/capabilities"
)

// Harness is the harness. It is safe for concurrent use.
type Harness struct {
	Tool capabilities.ToolID // the sub-agent; required
}

var (
	_ worker.Harness = Harness{}
	_ worker.Planner = Harness{}
)

// Plan returns the sub-agent.
func (h Harness) Plan(worker.Turn) []capabilities.ToolID { return []capabilities.ToolID{h.Tool} }

// Next calls the sub-agent once, and then says what it said.
func (h Harness) Next(_ context.Context, t worker.Turn) (worker.Answer, error) {
	if done := worker.Made(t); len(done) > 0 {
		return said(done[len(done)-1].Result), nil
	}
	if !slices.ContainsFunc(t.Tools, func(o worker.Tool) bool { return o.ID == h.Tool }) {
		return worker.Answer{Undone: true, Text: fmt.Sprintf(
			"%s is not offered for %s: there is none of that name, policy hides it, or it may call more than that allows.", h.Tool, t.Intent)}, nil
	}
	args, err := json.Marshal(map[string]string{"task": t.Messages[0].Text})
	return worker.Answer{Calls: []worker.ToolCall{{Tool: h.Tool, Args: args}}}, err
}

func said(r *capabilities.Result) worker.Answer {
	if withheld := worker.Withheld(r); withheld || r.Status != capabilities.StatusOK {
		return worker.Answer{Text: strings.TrimSpace(r.Message + "\n" + r.Hint), Undone: withheld}
	}
	var out struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(r.Output, &out); err != nil {
		return worker.Answer{Undone: true, Text: "The summary cannot be read."}
	}
	return worker.Answer{Text: capabilities.EscapeBut(out.Text, map[rune]string{'\n': "\n", '\t': "\t"})}
}
