package runner

import (
	"context"
	"crypto/sha256"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

const runCode = capabilities.CapabilityID("tyrum.browser.run-code")

// script returns a runner whose run-code takes one step, evaluate, and says what came of it.
func script(t *testing.T, guard guardFunc, order func(wire.Step) (*wire.StepOrder, error)) (*bench, *wire.Ticket, *sink) {
	t.Helper()
	b := newBench(t, guard, func(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
		if inv.Capability != runCode {
			return ok(ctx, inv)
		}
		out, err := inv.Step(ctx, capabilities.StepCall{Tool: evaluate.Tool(), Args: inv.Args[len(`{"code":`) : len(inv.Args)-1]})
		if err != nil {
			return capabilities.Output{}, err
		}
		return capabilities.Output{Result: map[string]any{"result": out.Result}}, nil
	})
	if err := b.journal.Close(); err != nil {
		t.Fatal(err)
	}
	b.h.offers = append(b.h.offers, runCode)
	b.open(guard)
	args := []byte(`{"code":"{\"expression\":\"1\"}"}`)
	tk := b.ticket()
	tk.Tool, tk.Capability, tk.Args, tk.ArgsDigest, tk.Steps = runCode.Tool(), runCode, args, sha256.Sum256(args), true
	return b, tk, &sink{order: order}
}

// stepTicket is what a gateway orders for a step of parent.
func stepTicket(b *bench, parent *wire.Ticket, number uint32) *wire.Ticket {
	t := b.ticket()
	t.Parent, t.Step = parent.Call, number
	return t
}

// A step runs by an order of its own, is in the journal like a call, and its output stays
// on the device.
func TestAStepIsACall(t *testing.T) {
	var b *bench
	var parent *wire.Ticket
	var given *wire.Ticket
	b, parent, s := script(t, admit, func(m wire.Step) (*wire.StepOrder, error) {
		given = stepTicket(b, parent, m.Number)
		return &wire.StepOrder{Number: m.Number, Ticket: given}, nil
	})
	want(t, b.serveTo(t.Context(), parent, s), capabilities.StatusOK, "")
	if len(s.asked) != 1 || s.asked[0].Tool != evaluate.Tool() || len(s.ends) != 1 {
		t.Fatalf("%+v %+v", s.asked, s.ends)
	}
	sum := sha256.Sum256([]byte(`{"result":1}`))
	end := s.ends[0].Answer
	if end.Status != capabilities.StatusOK || end.Output != nil || string(end.OutputSum) != string(sum[:]) {
		t.Errorf("%+v", end)
	}
	st := b.state(given.Call)
	if st.State != wire.StateFinished || st.Answer == nil || st.Answer.Output != nil || string(st.Answer.OutputSum) != string(sum[:]) {
		t.Errorf("%+v", st)
	}
	if string(s.answers[0].Output) != `{"result":{"result":1}}` {
		t.Errorf("%s", s.answers[0].Output)
	}
}

// A message that is no order for the step that was asked for runs nothing, nor does one that the
// guard or the gateway refuses.
func TestAStepNeedsItsOrder(t *testing.T) {
	for name, tt := range map[string]struct {
		guard  guardFunc
		change func(t *wire.Ticket, o *wire.StepOrder)
		code   capabilities.Code
	}{
		"another parent": {admit, func(t *wire.Ticket, _ *wire.StepOrder) { t.Parent = "c99" }, capabilities.CodeTicketInvalid},
		"another tool": {admit, func(t *wire.Ticket, _ *wire.StepOrder) {
			t.Tool, t.Capability = screenshot.Tool(), screenshot
		}, capabilities.CodeTicketInvalid},
		"another lane":      {admit, func(t *wire.Ticket, _ *wire.StepOrder) { t.Lane = "other" }, capabilities.CodeTicketInvalid},
		"the parent's call": {admit, func(t *wire.Ticket, _ *wire.StepOrder) { t.Call = t.Parent }, capabilities.CodeTicketReplayed},
		"the guard": {func(t *wire.Ticket, _ capabilities.Readiness) *capabilities.Error {
			if t.Parent == "" {
				return nil
			}
			return &capabilities.Error{Code: capabilities.CodeDeniedByNode}
		}, func(*wire.Ticket, *wire.StepOrder) {}, capabilities.CodeDeniedByNode},
		"the gateway": {admit, func(_ *wire.Ticket, o *wire.StepOrder) { o.Ticket, o.Code = nil, capabilities.CodeDeniedByPolicy }, capabilities.CodeDeniedByPolicy},
	} {
		t.Run(name, func(t *testing.T) {
			var b *bench
			var parent *wire.Ticket
			b, parent, s := script(t, tt.guard, func(m wire.Step) (*wire.StepOrder, error) {
				tk := stepTicket(b, parent, m.Number)
				o := &wire.StepOrder{Number: m.Number, Ticket: tk}
				tt.change(tk, o)
				return o, nil
			})
			a := b.serveTo(t.Context(), parent, s)
			if a.Code != tt.code || b.h.ran() != 1 {
				t.Errorf("%s, %d handlers ran", a.Code, b.h.ran())
			}
			if refused := len(s.ends) == 1; refused != (tt.code != capabilities.CodeDeniedByPolicy) {
				t.Errorf("%d ends were told", len(s.ends))
			}
		})
	}
}

// A step's ticket that no call asked for runs nothing.
func TestAStepThatNobodyAskedFor(t *testing.T) {
	b := newBench(t, admit, ok)
	tk := b.ticket()
	tk.Parent, tk.Step = "c77", 1
	want(t, b.serve(t.Context(), tk), capabilities.StatusError, capabilities.CodeTicketInvalid)
	b.neverStarted(tk)
}
