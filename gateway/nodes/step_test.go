package nodes

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

func takesSteps(c capabilities.CapabilityID) bool { return c == "tyrum.a.script" }

func scriptTicket(id capabilities.NodeID) *wire.Ticket {
	return &wire.Ticket{Call: "c1", Tool: "tool.a.script", Capability: "tyrum.a.script", Node: id, Args: []byte("{}"), LifetimeMS: 1000, DeadlineMS: 1000, Steps: true}
}

// A node that does not say that it asks for steps, as older ones, is not ready for what
// takes them, and gets no such ticket.
func TestAnOldNodeTakesNoSteps(t *testing.T) {
	for _, asks := range []bool{false, true} {
		p := newPlane(t, func(o *Options) { o.TakesSteps = takesSteps })
		id, key := p.enrolled()
		f := p.fake(id, key)
		must(t, wire.Write(f.control, &wire.Hello{Version: 1, MinVersion: 1, Node: id, Steps: asks}))
		_, err := f.reader.Next()
		must(t, err)
		must(t, wire.Write(f.control, &wire.Readiness{Capabilities: []capabilities.Readiness{{Capability: "tyrum.a.script"}, {Capability: "tyrum.a.b"}}}))
		p.awaitConnected(id)
		ready := p.Snapshot()[0].Readiness
		want := capabilities.ReasonNodeOutdated
		if asks {
			want = capabilities.ReasonReady
		}
		if ready["tyrum.a.script"].Reason != want || ready["tyrum.a.b"].Reason != capabilities.ReasonReady {
			t.Errorf("asks %v: %+v", asks, ready)
		}
		if asks {
			continue
		}
		if _, _, err := p.Conduct(t.Context(), id, scriptTicket(id), nil, nil, nil); capabilities.CodeOf(err) != capabilities.CodeNodeNotReady {
			t.Errorf("an old node got a call that takes steps: %v", err)
		}
	}
}

// Steps are answered side by side, ends are told in order, and a node that numbers its
// steps wrongly is not served on.
func TestStepsOnTheWire(t *testing.T) {
	p := newPlane(t, func(o *Options) { o.TakesSteps = takesSteps })
	id, key := p.enrolled()
	f := p.fake(id, key)
	must(t, wire.Write(f.control, &wire.Hello{Version: 1, MinVersion: 1, Node: id, Steps: true}))
	_, err := f.reader.Next()
	must(t, err)
	must(t, wire.Write(f.control, &wire.Readiness{}))
	p.awaitConnected(id)

	slow := make(chan struct{})
	var ends []uint32
	conduct := func() chan error {
		done := make(chan error, 1)
		go func() {
			_, _, err := p.Conduct(context.Background(), id, scriptTicket(id), nil, func(ctx context.Context, s *wire.Step) *wire.StepOrder {
				if s.Number == 1 {
					select {
					case <-slow:
					case <-ctx.Done():
					}
					return &wire.StepOrder{Number: 1, Code: capabilities.CodeDeniedByPolicy}
				}
				t := scriptTicket(id)
				t.Steps, t.Parent, t.Step = false, "c1", s.Number
				return &wire.StepOrder{Number: s.Number, Ticket: t}
			}, func(e *wire.StepEnd) { ends = append(ends, e.Number) })
			done <- err
		}()
		return done
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	done := conduct()
	stream, err := f.conn.AcceptStream(ctx)
	must(t, err)
	_ = stream.SetReadDeadline(time.Now().Add(patience))
	r := wire.NewReader(stream, wire.KindTicket)
	_, err = r.Next()
	must(t, err)
	r.Accept(wire.KindStepOrder)
	for n := range uint32(2) {
		must(t, wire.Write(stream, &wire.Step{Number: n + 1, Tool: "tool.a.b", Args: []byte("{}")}))
	}
	m, err := r.Next()
	must(t, err)
	if o := m.(*wire.StepOrder); o.Number != 2 || o.Ticket == nil || o.Ticket.Sequence == 0 {
		t.Errorf("%+v", o)
	}
	close(slow)
	m, err = r.Next()
	must(t, err)
	if o := m.(*wire.StepOrder); o.Number != 1 || o.Code != capabilities.CodeDeniedByPolicy {
		t.Errorf("%+v", o)
	}
	must(t, wire.Write(stream, &wire.StepEnd{Number: 2, Answer: wire.Answer{Status: capabilities.StatusOK, OutputSum: bytes.Repeat([]byte{1}, 32)}}))
	must(t, wire.Write(stream, &wire.Answer{Status: capabilities.StatusOK}))
	_ = stream.Close()
	must(t, <-done)
	if len(ends) != 1 || ends[0] != 2 {
		t.Errorf("told the ends %v", ends)
	}

	done = conduct()
	stream, err = f.conn.AcceptStream(ctx)
	must(t, err)
	for _, n := range []uint32{5, 5} {
		must(t, wire.Write(stream, &wire.Step{Number: n, Tool: "tool.a.b", Args: []byte("{}")}))
	}
	if err := <-done; capabilities.CodeOf(err) != capabilities.CodeUnknownOutcome {
		t.Errorf("one number twice: %v", err)
	}
}
