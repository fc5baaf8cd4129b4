package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/router"
	"github.com/handrail-dev/handrail/capabilities"
)

// instant is a gateway that answers at once.
type instant struct{}

func (instant) Tools(context.Context) ([]Tool, error) { return []Tool{{ID: "tool.fs.read"}}, nil }

func (instant) Covers(context.Context, capabilities.ToolID) (Cover, error) {
	return Cover{By: "rule"}, nil
}

func (i instant) CallCovered(ctx context.Context, tool capabilities.ToolID, args json.RawMessage) (capabilities.Result, Cover, error) {
	r, err := i.Call(ctx, tool, args)
	return r, Cover{By: "rule"}, err
}

func (instant) Call(context.Context, capabilities.ToolID, json.RawMessage) (capabilities.Result, error) {
	return capabilities.Result{Call: "c", Status: capabilities.StatusOK, Output: json.RawMessage(`{"content":"x"}`)}, nil
}

// BenchmarkEngineCall is a turn of 24 calls, and the same calls without an engine.
func BenchmarkEngineCall(b *testing.B) {
	var calls []ToolCall
	for i := range 24 {
		calls = append(calls, one("tool.fs.read", fmt.Sprintf(`{"path":"%d"}`, i))...)
	}
	r, err := router.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("engine", func(b *testing.B) {
		for b.Loop() {
			e, err := New(Options{Gateway: instant{}, Router: r, Harness: &gullible{script: [][]ToolCall{calls}}})
			if err != nil {
				b.Fatal(err)
			}
			if out, err := e.Run(b.Context(), "/file read"); err != nil || len(out.Calls) != len(calls) {
				b.Fatal(out, err)
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			for _, c := range calls {
				_, _, _ = instant{}.CallCovered(b.Context(), c.Tool, c.Args)
			}
		}
	})
}
