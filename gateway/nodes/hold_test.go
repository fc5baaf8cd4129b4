package nodes

import (
	"context"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

func heldTicket(id capabilities.NodeID) *wire.Ticket {
	return &wire.Ticket{Call: "c1", Tool: "tool.a.b", Capability: "tyrum.a.b", Node: id, Args: []byte("{}"), LifetimeMS: 1000, DeadlineMS: 1000}
}

// A node that does not say that it holds, as older ones, gets no held ticket.
func TestOlderNodeHoldsNothing(t *testing.T) {
	p := newPlane(t, nil)
	f := p.connected()
	if word, _ := p.Hold(context.Background(), f.id, heldTicket(f.id)); word != nil {
		t.Error("held at a node that does not know how")
	}
}

// What goes out ahead is marked, whole, and followed by nothing but the word.
func TestHeldOnTheWire(t *testing.T) {
	p := newPlane(t, nil)
	id, key := p.enrolled()
	f := p.fake(id, key)
	must(t, wire.Write(f.control, &wire.Hello{Version: 1, MinVersion: 1, Node: id, Holds: true}))
	_, err := f.reader.Next()
	must(t, err)
	must(t, wire.Write(f.control, &wire.Readiness{}))
	p.awaitConnected(id)
	word, _ := p.Hold(context.Background(), id, heldTicket(id))
	if word == nil {
		t.Fatal("not held")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := f.conn.AcceptStream(ctx)
	must(t, err)
	_ = stream.SetReadDeadline(time.Now().Add(patience))
	r := wire.NewReader(stream, wire.KindTicket)
	m, err := r.Next()
	must(t, err)
	if tk := m.(*wire.Ticket); !tk.Held || tk.Sequence == 0 {
		t.Errorf("%+v", tk)
	}
	ended := make(chan error, 1)
	go func() { _, _, err := word(context.Background(), nil); ended <- err }()
	r.Accept(wire.KindGo)
	_, err = r.Next()
	must(t, err)
	must(t, wire.Write(stream, &wire.Answer{Status: capabilities.StatusOK}))
	_ = stream.Close()
	must(t, <-ended)

	// A node that has answered before the word is heard all the same.
	word, _ = p.Hold(context.Background(), id, heldTicket(id))
	if word == nil {
		t.Fatal("not held")
	}
	stream, err = f.conn.AcceptStream(ctx)
	must(t, err)
	must(t, wire.Write(stream, &wire.Answer{Status: capabilities.StatusDenied, Code: capabilities.CodeStopped}))
	_ = stream.Close()
	answer, _, err := word(context.Background(), nil)
	if err != nil || answer.Code != capabilities.CodeStopped {
		t.Errorf("%+v %v", answer, err)
	}
}
