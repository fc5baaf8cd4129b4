package link

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// A gateway that sends held tickets and says no word gets no more than so many of
// them held, and what else it says instead of the word lets nothing run.
func TestHeldAndNoWord(t *testing.T) {
	g := newFakeGateway(t)
	lies, said := make(chan struct{}, 2*maxHeld), make(chan error, 2*maxHeld)
	l := g.node(func(o *Options) {
		o.Serve = func(ctx context.Context, tk *wire.Ticket, sink Sink) {
			if !tk.Held {
				t.Error("a ticket that is not held")
			}
			lies <- struct{}{}
			err := sink.Go(ctx)
			said <- err
			if err == nil {
				sink.Answer(wire.Answer{Status: capabilities.StatusOK}, nil)
			}
		}
	})
	g.run(l)
	conn, control := g.accept()
	must(t, wire.Write(control, ack))
	held := ticket()
	held.Held = true
	open := func() *quic.Stream {
		s, err := conn.OpenStream()
		must(t, err)
		must(t, wire.Write(s, held))
		_ = s.SetReadDeadline(time.Now().Add(patience))
		return s
	}
	refused := func(s *quic.Stream) {
		t.Helper()
		var reset *quic.StreamError
		if _, err := s.Read(make([]byte, 1)); !errors.As(err, &reset) || reset.ErrorCode != wire.ResetRefused {
			t.Errorf("%v, want reset %d", err, wire.ResetRefused)
		}
	}
	var all []*quic.Stream
	for range maxHeld {
		all = append(all, open())
		<-lies
	}
	refused(open())
	for i, instead := range [][]byte{frame(t, ticket()), frame(t, held), {0}, append(header(wire.KindGo, 9), bytes.Repeat([]byte{0}, 9)...), append(header(wire.KindGo, 1), 0)} {
		_, err := all[i].Write(instead)
		must(t, err)
		_ = all[i].Close()
		if err := <-said; err == nil {
			t.Errorf("%x let it run", instead)
		}
		refused(all[i])
	}
	all[5].CancelWrite(wire.ResetCancelled)
	if err := <-said; err == nil {
		t.Error("a reset let it run")
	}
	refused(all[5])
	must(t, wire.Write(all[6], &wire.Go{}))
	must(t, <-said)
	m, err := wire.NewReader(all[6], wire.KindAnswer).Next()
	if err != nil || m.(*wire.Answer).Status != capabilities.StatusOK {
		t.Errorf("%+v %v", m, err)
	}
	// There is room again.
	must(t, wire.Write(open(), &wire.Go{}))
	<-lies
	must(t, <-said)
	_ = conn.CloseWithError(0, "")
	for range maxHeld - 7 {
		if err := <-said; err == nil {
			t.Error("the end of the connection let it run")
		}
	}
}
