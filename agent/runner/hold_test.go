package runner

import (
	"context"
	"errors"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

func (b *bench) heldTicket() *wire.Ticket {
	t := b.ticket()
	t.Held = true
	return t
}

// hold serves a held ticket; word is what Go does.
func (b *bench) hold(t *wire.Ticket, word func(context.Context) error) wire.Answer {
	b.t.Helper()
	return b.serveTo(context.Background(), t, &sink{word: word})
}

// Until the word nothing is asked, shown or run, and the journal knows of the ticket;
// after it the call goes as any other.
func TestHeldRunsAtTheWord(t *testing.T) {
	asked := 0
	b := newBench(t, func(*wire.Ticket, capabilities.Readiness) *capabilities.Error { asked++; return nil }, ok)
	tk := b.heldTicket()
	a := b.hold(tk, func(context.Context) error {
		if asked != 0 || b.h.ran() != 0 {
			t.Error("the guard or the handler was asked before the word")
		}
		if st := b.state(tk.Call); st.State != wire.StateRunning {
			t.Errorf("while held it is %s", st.State)
		}
		return nil
	})
	want(t, a, capabilities.StatusOK, "")
	if asked != 1 || b.h.ran() != 1 {
		t.Errorf("asked %d times, ran %d times", asked, b.h.ran())
	}
	if st := b.state(tk.Call); st.State != wire.StateFinished {
		t.Errorf("%+v", st)
	}
	// The same order again, held or not, runs nothing.
	want(t, b.hold(tk, func(context.Context) error { return nil }), capabilities.StatusError, capabilities.CodeTicketReplayed)
	tk.Held = false
	want(t, b.serve(t.Context(), tk), capabilities.StatusError, capabilities.CodeTicketReplayed)
	if b.h.ran() != 1 {
		t.Errorf("ran %d times", b.h.ran())
	}
}

func TestHeldAndWithdrawnNeverRuns(t *testing.T) {
	b := newBench(t, admit, ok)
	tk := b.heldTicket()
	a := b.hold(tk, func(context.Context) error { return &capabilities.Error{Code: capabilities.CodeCancelled} })
	want(t, a, capabilities.StatusError, capabilities.CodeCancelled)
	if st := b.state(tk.Call); st.State != wire.StateNeverStarted {
		t.Errorf("%+v", st)
	}
	want(t, b.hold(tk, func(context.Context) error { return nil }), capabilities.StatusError, capabilities.CodeTicketReplayed)
	tk.Held = false
	want(t, b.serve(t.Context(), tk), capabilities.StatusError, capabilities.CodeTicketReplayed)
	b.restart() // nor in the life of the next process
	want(t, b.serve(t.Context(), tk), capabilities.StatusError, capabilities.CodeTicketReplayed)
	b.neverStarted(tk)
}

// What the device refuses after the word never started, and the journal says so.
func TestHeldAndRefused(t *testing.T) {
	no := &capabilities.Error{Code: capabilities.CodeDeniedByNode}
	b := newBench(t, func(*wire.Ticket, capabilities.Readiness) *capabilities.Error { return no }, ok)
	tk := b.heldTicket()
	want(t, b.hold(tk, func(context.Context) error { return nil }), capabilities.StatusDenied, capabilities.CodeDeniedByNode)
	b.neverStarted(tk)
}

// The stop switch ends a held call as any other, and the gateway is told why.
func TestStopWhileHeld(t *testing.T) {
	b := newBench(t, admit, ok)
	tk := b.heldTicket()
	a := b.hold(tk, func(ctx context.Context) error {
		b.StopAll()
		<-ctx.Done()
		return capabilities.Wrap(capabilities.CodeCancelled, errors.New("the deadline of a read"), "")
	})
	want(t, a, capabilities.StatusDenied, capabilities.CodeStopped)
	b.neverStarted(tk)
}

// The word that comes together with the stop is too late.
func TestStopAtTheWord(t *testing.T) {
	b := newBench(t, admit, ok)
	tk := b.heldTicket()
	a := b.hold(tk, func(context.Context) error { b.StopAll(); return nil })
	want(t, a, capabilities.StatusError, capabilities.CodeCancelled)
	b.neverStarted(tk)
}

// What dies with its process while it is held cannot be told from what ran.
func TestProcessEndsWhileHeld(t *testing.T) {
	b := newBench(t, admit, ok)
	tk := b.heldTicket()
	if err := b.journal.Held(t.Context(), tk); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if st := b.state(tk.Call); st.State != wire.StateUnknown {
		t.Errorf("%+v", st)
	}
	want(t, b.hold(tk, func(context.Context) error { return nil }), capabilities.StatusError, capabilities.CodeTicketReplayed)
}
