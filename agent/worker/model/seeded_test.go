package model

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/agent/worker/model/modeltest"
	"github.com/handrail-dev/handrail/agent/worker/router"
	"github.com/handrail-dev/handrail/capabilities"
)

// seen is a gateway that keeps the tools that were called.
type seen struct{ tools []capabilities.ToolID }

func (s *seen) Tools(context.Context) ([]worker.Tool, error) {
	return []worker.Tool{read, {ID: "tool.fs.list"}, {ID: "tool.fs.bash"}, {ID: "tool.desktop.mouse"}}, nil
}

func (s *seen) Covers(context.Context, capabilities.ToolID, json.RawMessage) (worker.Cover, error) {
	return worker.Cover{By: "rule"}, nil
}

func (s *seen) Call(_ context.Context, tool capabilities.ToolID, _ json.RawMessage) (capabilities.Result, error) {
	s.tools = append(s.tools, tool)
	return capabilities.Result{Call: "c", Tool: tool, Status: capabilities.StatusOK, Output: json.RawMessage(`{}`)}, nil
}

// step is an answer by the dice: sound, broken, forbidden, the same again, or cut off.
func step(dice *rand.Rand, n int) modeltest.Step {
	names := []string{"tool_fs_read", "tool_fs_list", "tool_fs_bash", "tool_desktop_mouse", "tool_secret_copy", "", "rm -rf /", "tool.fs.read"}
	args := []string{`{"path":"a"}`, fmt.Sprintf(`{"path":"%d"}`, n), `{"path":`, `[]`, "", `{"path":"a","path":"b"}`, "\x00", `{"x":1e999}`}
	s := modeltest.Step{Text: strings.Repeat("So. ", dice.IntN(20))}
	for range dice.IntN(5) {
		s.Calls = append(s.Calls, modeltest.Call{Name: names[dice.IntN(len(names))], Args: args[dice.IntN(len(args))]})
	}
	switch dice.IntN(12) {
	case 0:
		s.Break = true
	case 1:
		s.Length = true
	case 2:
		return modeltest.Step{Raw: "data: {\"choices\":[{\"delta\":{\"content\":\"ha"}
	case 3:
		return modeltest.Step{Status: 500, Text: "broken"}
	}
	return s
}

// TestAnyEndpointIsBorne: an endpoint may answer anything by HTTP: a turn ends, within its bounds,
// and no tool is called that its intent does not open (S2-02, S2-47).
func TestAnyEndpointIsBorne(t *testing.T) {
	r, err := router.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	called := 0
	for seed := range uint64(60) {
		dice := rand.New(rand.NewPCG(seed, 35))
		e := modeltest.Start(t, "", func(n int, _ modeltest.Request) modeltest.Step { return step(dice, n) })
		g := &seen{}
		w, err := worker.New(worker.Options{Gateway: g, Router: r, Harness: open(t, e, both[seed%2], nil)})
		if err != nil {
			t.Fatal(err)
		}
		out, err := w.Run(t.Context(), "/file read a")
		if err == nil && out.Text == "" && out.Stopped == "" && len(out.Calls) == 0 {
			t.Errorf("seed %d: the turn says nothing: %+v", seed, out)
		}
		if len(g.tools) > worker.MaxCalls || len(e.Requests()) > worker.MaxRounds+8 {
			t.Errorf("seed %d: %d calls in %d requests", seed, len(g.tools), len(e.Requests()))
		}
		for _, tool := range g.tools {
			if !slices.Contains([]capabilities.ToolID{"tool.fs.read", "tool.fs.list"}, tool) {
				t.Errorf("seed %d: %s was called in a turn of %s", seed, tool, intent.FileTask)
			}
		}
		called += len(g.tools)
	}
	if called == 0 {
		t.Error("no honest call was made")
	}
}
