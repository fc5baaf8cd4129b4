package nodes

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Dispatch sends a ticket on a stream of its own and waits for the answer. It
// fills in Sequence if that is 0, and raises StopEpoch to the node's latest.
// progress may be nil; it is called on this goroutine.
//
// Errors: CodeNodeDisconnected only if no handler can have started; the code of
// ctx's cause, CodeDeadlineExceeded or CodeCancelled if ctx ended first (the node
// then saw both directions of the stream reset); otherwise CodeUnknownOutcome.
func (n *Nodes) Dispatch(ctx context.Context, node capabilities.NodeID, t *wire.Ticket,
	progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	return n.Deliver(ctx, node, t, progress, nil)
}

// Deliver is Dispatch for a ticket that needs a secret: once the node has accepted
// it, seal is called, at most once, with the key that the node made for this call.
// seal's error ends the call and is given back. A nil seal accepts no such word.
func (n *Nodes) Deliver(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress),
	seal func(key []byte) ([]byte, error)) (wire.Answer, []capabilities.Blob, error) {
	s := n.reach(node)
	if s == nil {
		return wire.Answer{}, nil, disconnected(nil)
	}
	c, err := n.start(ctx, s, t)
	if err != nil {
		return wire.Answer{}, nil, err
	}
	defer c.end()
	return c.await(ctx, progress, seal)
}

// start sends a ticket on a stream of its own.
func (n *Nodes) start(ctx context.Context, s *session, t *wire.Ticket) (*exchange, error) {
	c, err := n.begin(ctx, s, t)
	if err != nil {
		return nil, err
	}
	if err := wire.Write(c, t); err != nil {
		defer c.end()
		if ended := ending(ctx); ended != nil {
			return nil, ended
		}
		var refused *capabilities.Error
		if errors.As(err, &refused) {
			return nil, err // not a ticket that a frame can carry
		}
		if !c.whole {
			return nil, disconnected(err) // a part of a ticket starts nothing
		}
		return nil, c.lost(ctx, err)
	}
	return c, nil
}

// begin opens the stream of a ticket, and fills in what the ticket has of the connection.
func (n *Nodes) begin(ctx context.Context, s *session, t *wire.Ticket) (*exchange, error) {
	if !s.traces {
		t.Trace = "" // an older node would refuse it
	}
	if s.far != nil {
		c, grant, err := n.openFar(ctx, s, farAsk{Call: t.Call})
		if err == nil {
			t.Sequence, t.StopEpoch = grant.Sequence, max(t.StopEpoch, grant.StopEpoch)
		}
		return c, err
	}
	if t.Sequence == 0 {
		t.Sequence = n.sequence.Add(1)
	}
	t.StopEpoch = max(t.StopEpoch, s.stopEpoch.Load())
	return open(ctx, s.conn)
}

// open opens a stream to a node that is no ticket's.
func (n *Nodes) open(ctx context.Context, s *session) (*exchange, error) {
	if s.far != nil {
		c, _, err := n.openFar(ctx, s, farAsk{})
		return c, err
	}
	return open(ctx, s.conn)
}

// await reads what the node says about a ticket that may run, up to its answer.
func (c *exchange) await(ctx context.Context, progress func(capabilities.Progress),
	seal func(key []byte) ([]byte, error)) (wire.Answer, []capabilities.Blob, error) {
	c.reader.Accept(wire.KindProgress, wire.KindAnswer)
	if seal == nil {
		// The end of our direction usually shares the ticket's packet.
		_ = c.stream.Close()
	} else {
		c.reader.Accept(wire.KindAccept, wire.KindAnswer) // a refusal needs no secret
	}
	for {
		m, err := c.reader.Next()
		if err != nil {
			return wire.Answer{}, nil, c.lost(ctx, err)
		}
		switch m := m.(type) {
		case *wire.Accept:
			if err := c.hand(ctx, m.Key, seal); err != nil {
				return wire.Answer{}, nil, err
			}
			c.reader.Accept(wire.KindProgress, wire.KindAnswer)
		case *wire.Progress:
			if progress != nil {
				progress(capabilities.Progress{Done: m.Done, Total: m.Total, Message: m.Message, Data: m.Data})
			}
		case *wire.Answer:
			blobs, err := c.blobs(m.Blobs)
			if err != nil {
				return wire.Answer{}, nil, c.lost(ctx, err)
			}
			c.done = true
			return *m, blobs, nil
		}
	}
}

// Ask asks a node's journal what became of calls, at most wire.MaxJournal. It returns one state for
// each, in the order asked.
func (n *Nodes) Ask(ctx context.Context, node capabilities.NodeID, ask *wire.JournalAsk) ([]wire.JournalState, error) {
	if len(ask.Calls) == 0 {
		return nil, nil
	}
	s := n.reach(node)
	if s == nil {
		return nil, disconnected(nil)
	}
	if s.far == nil {
		return n.askHere(ctx, s, ask)
	}
	c, _, err := n.openFar(ctx, s, farAsk{Journal: true})
	if err != nil {
		return nil, err
	}
	return c.ask(ctx, ask)
}

// ask asks about calls, one after the other, and ends the exchange.
func (c *exchange) ask(ctx context.Context, ask *wire.JournalAsk) ([]wire.JournalState, error) {
	defer c.end()
	fail := func(err error) ([]wire.JournalState, error) {
		if ended := ending(ctx); ended != nil {
			return nil, ended
		}
		return nil, disconnected(err)
	}
	if err := wire.Write(c, ask); err != nil {
		return fail(err)
	}
	_ = c.stream.Close()
	c.reader.Accept(wire.KindJournalState)
	states := make([]wire.JournalState, 0, len(ask.Calls))
	for _, call := range ask.Calls {
		m, err := c.reader.Next()
		if err != nil {
			return fail(err)
		}
		state := m.(*wire.JournalState)
		if state.Call != call {
			return fail(errors.New("the node answered about another call than was asked"))
		}
		states = append(states, *state)
	}
	c.done = true
	return states, nil
}

// Scene asks a node what a call would meet there; the zero value where it does not say.
func (n *Nodes) Scene(ctx context.Context, node capabilities.NodeID, ask wire.SceneAsk) (wire.Scene, error) {
	s := n.reach(node)
	if s == nil {
		return wire.Scene{}, disconnected(nil)
	}
	c, err := n.open(ctx, s)
	if err != nil {
		return wire.Scene{}, err
	}
	defer c.end()
	if err := wire.Write(c, &ask); err != nil {
		return wire.Scene{}, err
	}
	_ = c.stream.Close()
	c.reader.Accept(wire.KindScene)
	m, err := c.reader.Next()
	if err != nil {
		return wire.Scene{}, err // a node that is older than the question, say
	}
	c.done = true
	return *m.(*wire.Scene), nil
}

// exchange is one call stream, seen from the gateway.
type exchange struct {
	stream *quic.Stream
	reader *wire.Reader
	stop   func() bool
	whole  bool // all we wrote was taken over by the connection
	eof    bool // the node's direction was read to its end
	done   bool // all we wanted was read
}

// open opens a stream whose both directions are reset when ctx ends.
func open(ctx context.Context, conn *quic.Conn) (*exchange, error) {
	if ended := ending(ctx); ended != nil {
		return nil, ended
	}
	stream, err := conn.OpenStream()
	var limit *quic.StreamLimitReachedError
	if errors.As(err, &limit) {
		stream, err = conn.OpenStreamSync(ctx)
	}
	if err != nil {
		if ended := ending(ctx); ended != nil {
			return nil, ended
		}
		return nil, disconnected(err)
	}
	c := &exchange{stream: stream}
	c.reader = wire.NewReader(c)
	c.stop = context.AfterFunc(ctx, func() { c.reset(wire.ResetCancelled) })
	return c, nil
}

// Write counts what the connection took over, because a ticket that is not whole
// cannot start anything.
func (c *exchange) Write(p []byte) (int, error) {
	written, err := c.stream.Write(p)
	c.whole = written == len(p)
	return written, err
}

func (c *exchange) Read(p []byte) (int, error) {
	read, err := c.stream.Read(p)
	if err == io.EOF {
		c.eof = true
	}
	return read, err
}

func (c *exchange) reset(code quic.StreamErrorCode) {
	c.stream.CancelRead(code)
	c.stream.CancelWrite(code)
}

// end frees the stream. Mostly the end came with the answer; if it is still on
// its way somebody has to read it, or the stream would stay.
func (c *exchange) end() {
	stopped := c.stop()
	switch {
	case !stopped || c.eof && c.done:
	case !c.done:
		c.reset(wire.ResetProtocol)
	default:
		go c.drain()
	}
}

// drain reads the end of the node's direction. More than the end is refused.
func (c *exchange) drain() {
	_ = c.stream.SetReadDeadline(time.Now().Add(writeTimeout))
	var b [1]byte
	if _, err := c.stream.Read(b[:]); err != io.EOF {
		c.stream.CancelRead(wire.ResetDone)
	}
}

func (c *exchange) blobs(heads []wire.BlobHead) ([]capabilities.Blob, error) {
	if len(heads) == 0 {
		return nil, nil
	}
	blobs := make([]capabilities.Blob, len(heads))
	for i, h := range heads {
		b, err := c.reader.Blob(int(h.Size))
		if err != nil {
			return nil, err
		}
		if sha256.Sum256(b) != h.SHA256 {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the bytes of %q are not those that were announced", h.Field)
		}
		blobs[i] = capabilities.Blob{Field: h.Field, MIME: h.MIME, Bytes: b}
	}
	return blobs, nil
}

// lost says what is known about a call whose ticket may have arrived.
func (c *exchange) lost(ctx context.Context, err error) error {
	if ended := ending(ctx); ended != nil {
		return ended
	}
	var reset *quic.StreamError
	if errors.As(err, &reset) && reset.Remote {
		switch reset.ErrorCode {
		case wire.ResetRefused: // the node's word that it never started
			return disconnected(err)
		case wire.ResetProtocol: // it could not read the ticket
			return capabilities.Wrap(capabilities.CodeTicketInvalid, err, "")
		}
	}
	return capabilities.Wrap(capabilities.CodeUnknownOutcome, err, "")
}

func disconnected(cause error) error {
	return capabilities.Wrap(capabilities.CodeNodeDisconnected, cause, "")
}

// ending returns the error for a context that ended, nil for one that did not.
func ending(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(ctx)
	var coded *capabilities.Error
	switch {
	case errors.As(cause, &coded):
		return coded
	case errors.Is(cause, context.DeadlineExceeded):
		return capabilities.Wrap(capabilities.CodeDeadlineExceeded, cause, "")
	}
	return capabilities.Wrap(capabilities.CodeCancelled, cause, "")
}
