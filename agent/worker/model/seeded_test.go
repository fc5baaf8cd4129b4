package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

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

func (s *seen) Covers(context.Context, capabilities.ToolID) (worker.Cover, error) {
	return worker.Cover{By: "rule"}, nil
}

func (s *seen) CallCovered(ctx context.Context, tool capabilities.ToolID, args json.RawMessage) (capabilities.Result, worker.Cover, error) {
	r, err := s.Call(ctx, tool, args)
	return r, worker.Cover{By: "rule"}, err
}

func (s *seen) Call(_ context.Context, tool capabilities.ToolID, _ json.RawMessage) (capabilities.Result, error) {
	s.tools = append(s.tools, tool)
	return capabilities.Result{Call: "c", Tool: tool, Status: capabilities.StatusOK, Output: json.RawMessage(`{}`)}, nil
}

// step is an answer by the dice: sound, slow, broken, forbidden, the same again, or cut off.
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
	case 4, 5:
		s.Slow = time.Tick(time.Millisecond)
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

// slowly is an engine whose model answers a word at a time and never ends.
func slowly(t *testing.T, api API, within time.Duration, tell func(string)) (w *worker.Engine, gone <-chan struct{}) {
	t.Helper()
	r, err := router.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	e := modeltest.Start(t, "", func(int, modeltest.Request) modeltest.Step {
		return modeltest.Step{Text: "and so on ", Slow: time.Tick(time.Millisecond), Again: true, Ended: func() { close(ended) }}
	})
	w, err = worker.New(worker.Options{
		Gateway: &seen{}, Router: r, Within: within, Harness: open(t, e, api, func(o *Options) { o.Tell = tell }),
	})
	if err != nil {
		t.Fatal(err)
	}
	return w, ended
}

// TestASlowAnswerStreams: each word of a slow answer is shown before the next is written.
func TestASlowAnswerStreams(t *testing.T) {
	for _, api := range both {
		const text = "The rent is 700 a month."
		due, told := make(chan time.Time, 1), []string{}
		e := modeltest.Start(t, "", func(int, modeltest.Request) modeltest.Step { return modeltest.Step{Text: text, Slow: due} })
		a, err := open(t, e, api, func(o *Options) {
			o.Tell = func(word string) {
				told = append(told, word)
				due <- time.Time{}
			}
		}).Next(t.Context(), turn)
		if err != nil || a.Text != text || len(told) != 6 || strings.Join(told, "") != text {
			t.Errorf("%s: %+v %v, told %q", api, a, err, told)
		}
	}
}

// TestASlowTurnIsCancelled: a turn whose model is in the middle of an answer ends with its context,
// and so does the request; test/bench/worker measures how fast.
func TestASlowTurnIsCancelled(t *testing.T) {
	for _, api := range both {
		ctx, cancel := context.WithCancel(t.Context())
		words := 0
		w, gone := slowly(t, api, 0, func(string) {
			if words++; words == 5 {
				cancel()
			}
		})
		if out, err := w.Run(ctx, "/chat tell me a story"); !errors.Is(err, context.Canceled) || words < 5 {
			t.Errorf("%s: %+v %v after %d words", api, out, err, words)
		}
		<-gone
	}
}

// TestASlowTurnKeepsItsTime: words that go on and on are no silence, and the turn is cut off when
// its time is over: that is no error, and the turn says why.
func TestASlowTurnKeepsItsTime(t *testing.T) {
	for _, api := range both {
		words := 0
		w, gone := slowly(t, api, 100*time.Millisecond, func(string) { words++ })
		out, err := w.Run(t.Context(), "/chat tell me a story")
		if err != nil || !strings.Contains(out.Stopped, "enough for one turn") || words == 0 {
			t.Errorf("%s: %+v %v after %d words", api, out, err, words)
		}
		<-gone
	}
}
