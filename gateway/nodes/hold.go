package nodes

import (
	"context"
	"errors"
	"runtime"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// maxHeld bounds the tickets that a node holds at once; it bears more itself.
const maxHeld = 8

// held is a ticket that lies at its node and runs at its word, not before.
type held struct {
	c *exchange
	s *session
}

// Hold sends a ticket ahead of its commit, so that the node gets ready meanwhile: it
// reads the ticket and writes it down, and that is all. It never waits. Either word or
// withdraw follows, once. Both are nil where nothing was sent and the ticket has to go
// the usual way: the node is away, or too old to hold, or holds maxHeld already, or the
// ticket is too large to leave at once.
//
// word lets it run and waits for the answer, as Dispatch does from there on, with the
// same errors; the call is durable before. withdraw takes it back, and so does the end
// of ctx: it never runs. The node gives up by itself after ten seconds
// (CodeTicketExpired).
func (n *Nodes) Hold(ctx context.Context, node capabilities.NodeID, t *wire.Ticket) (word func(context.Context, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error), withdraw func()) {
	s := n.session(node)
	if s == nil || !s.holds || len(t.Args) > wire.MaxHeld || ctx.Err() != nil {
		return nil, nil
	}
	if s.held.Add(1) > maxHeld {
		s.held.Add(-1)
		return nil, nil
	}
	h := held{s: s}
	if h.c = h.send(ctx, n, t); h.c == nil {
		s.held.Add(-1)
		return nil, nil
	}
	return h.word, h.withdraw
}

// send gives nil where the ticket did not leave whole.
func (h held) send(ctx context.Context, n *Nodes, t *wire.Ticket) *exchange {
	t.Held, t.Sequence, t.StopEpoch = true, n.sequence.Add(1), max(t.StopEpoch, h.s.stopEpoch.Load())
	frame, err := wire.Encode(t)
	if err != nil {
		return nil
	}
	stream, err := h.s.conn.OpenStream()
	if err != nil {
		return nil
	}
	c := exchangeOn(ctx, stream)
	if err := stream.TryWriteAll(frame); err != nil {
		c.end()
		return nil
	}
	// The connection's goroutine sends it now, on this thread: another would have to be
	// woken, and the node would sync when we do.
	runtime.Gosched()
	return c
}

func (h held) withdraw() {
	h.s.held.Add(-1)
	h.c.end()
}

func (h held) word(ctx context.Context, progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	h.s.held.Add(-1)
	c := h.c
	defer c.end()
	followed := c.follow(ctx)
	if ended := ending(ctx); ended != nil {
		return wire.Answer{}, nil, ended
	}
	if !followed {
		return wire.Answer{}, nil, disconnected(nil) // the end of Hold's context withdrew it
	}
	if err := wire.Write(c, &wire.Go{}); err != nil && !answered(err) {
		if ended := ending(ctx); ended != nil {
			return wire.Answer{}, nil, ended
		}
		if !c.whole {
			return wire.Answer{}, nil, disconnected(err) // a part of it lets nothing run
		}
		return wire.Answer{}, nil, c.lost(ctx, err)
	}
	return c.await(ctx, progress, nil)
}

// answered reports that the node has answered without waiting for the word: it refused.
func answered(err error) bool {
	var reset *quic.StreamError
	return errors.As(err, &reset) && reset.Remote && reset.ErrorCode == wire.ResetDone
}
