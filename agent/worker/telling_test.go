package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/handrail-dev/handrail/agent/worker/router"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/turn"
)

// hearing is a gateway's record that hears of turns that run; each with how it takes a word.
type hearing struct {
	kept
	words []turn.Claim
	take  func(ctx context.Context) (time.Duration, error)
}

func (h *hearing) TellTurn(ctx context.Context, c turn.Claim) (time.Duration, error) {
	h.words = append(h.words, c)
	return h.take(ctx)
}

// thinking is a harness that takes its time.
type thinking struct{ gullible }

func (h *thinking) Next(ctx context.Context, t Turn) (Answer, error) {
	time.Sleep(50 * time.Second)
	return h.gullible.Next(ctx, t)
}

func tellsOf(t *testing.T, h *hearing, harness Harness) *Engine {
	t.Helper()
	r, err := router.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Options{Gateway: &listed{tools: everything}, Router: r, Harness: harness, Record: h, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestATurnIsToldWhileItRuns: the gateway hears of a turn at its beginning, after its stages, and
// three times in each lease; of its end once, and of nothing after that (S2-43).
func TestATurnIsToldWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hearing{take: func(context.Context) (time.Duration, error) { return 60 * time.Second, nil }}
		e := tellsOf(t, h, &thinking{gullible{script: [][]ToolCall{one("tool.fs.read", `{"path":"canary.txt"}`)}}})
		began := time.Now()
		if out, err := e.Run(t.Context(), "/file read canary.txt"); err != nil || out.Unrecorded != nil {
			t.Fatal(err, out.Unrecorded)
		}
		if took := time.Since(began); took != 100*time.Second {
			t.Errorf("the turn waited: it took %s", took)
		}
		time.Sleep(time.Hour)
		var stages []int
		for _, c := range h.words {
			if err := c.Validate(); err != nil || c.State != turn.Running || c.Turn != h.claims[0].Turn || !c.Started.Equal(h.claims[0].Started) {
				t.Errorf("%+v: %v", c, err)
			}
			stages = append(stages, len(c.Stages))
		}
		// Those of one moment are told together, or one after the other.
		if n := len(stages); n < 6 || n > 9 || !slices.IsSorted(stages) || stages[0] > 2 || !slices.Contains(stages, 2) || stages[n-1] != 4 {
			t.Errorf("words with %v stages", stages)
		}
		if len(h.claims) != 1 || h.claims[0].Validate() != nil || strings.Contains(fmt.Sprintf("%+v", h.words), "canary") {
			t.Errorf("%+v", h.claims)
		}
	})
}

// TestAGatewayOfBeforeIsNoFailure: one that knows no turns that run is asked once, and the turn is
// recorded as ever.
func TestAGatewayOfBeforeIsNoFailure(t *testing.T) {
	h := &hearing{take: func(context.Context) (time.Duration, error) {
		return 0, capabilities.Errorf(capabilities.CodeInvalidRequest, "there is no field state here")
	}}
	e := tellsOf(t, h, &gullible{})
	for range 2 {
		if out, err := e.Run(t.Context(), "/file read canary.txt"); err != nil || out.Unrecorded != nil {
			t.Fatal(err, out.Unrecorded)
		}
	}
	if len(h.words) > 1 || len(h.claims) != 2 {
		t.Errorf("%d words, %d claims", len(h.words), len(h.claims))
	}
}

// TestATurnDoesNotWaitForItsWords: a gateway that does not answer holds up no stage of a turn, and
// its end by one word's time at most.
func TestATurnDoesNotWaitForItsWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hearing{take: func(ctx context.Context) (time.Duration, error) { <-ctx.Done(); return 0, ctx.Err() }}
		e := tellsOf(t, h, &gullible{script: [][]ToolCall{one("tool.fs.read", `{"path":"canary.txt"}`)}})
		began := time.Now()
		e.opts.Tell = func(ev Event) {
			if waited := time.Since(began); waited != 0 {
				t.Errorf("%s after %s", ev.Stage, waited)
			}
		}
		if _, err := e.Run(t.Context(), "/file read canary.txt"); err != nil || time.Since(began) > tellWithin {
			t.Error(err, time.Since(began))
		}
		if len(h.claims) != 1 {
			t.Errorf("%+v", h.claims)
		}
	})
}
