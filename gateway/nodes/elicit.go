package nodes

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Converse is Dispatch for a call whose program may ask people (t.Elicits): elicit returns the
// answer to each form that the node sends. It runs beside others, ends soon after its context, and
// is not called after Converse has returned. A node whose hello does not say that it takes answers
// gets the ticket as by Dispatch.
func (n *Nodes) Converse(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress),
	elicit func(context.Context, *wire.Elicit) *wire.Elicited) (wire.Answer, []capabilities.Blob, error) {
	s := n.session(node)
	if s == nil {
		return wire.Answer{}, nil, disconnected(nil)
	}
	if !s.elicits {
		return n.Dispatch(ctx, node, t, progress)
	}
	t.Elicits = true
	c, err := n.start(ctx, s, t)
	if err != nil {
		return wire.Answer{}, nil, err
	}
	defer c.end()
	asking, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	var writing sync.Mutex
	var last uint32
	c.reader.Accept(wire.KindProgress, wire.KindAnswer, wire.KindElicit)
	for {
		m, err := c.reader.Next()
		if err != nil {
			return wire.Answer{}, nil, c.lost(ctx, err)
		}
		switch m := m.(type) {
		case *wire.Elicit:
			if m.Number <= last { // at most wire.MaxElicits, then
				return wire.Answer{}, nil, c.lost(ctx, errors.New("the node numbers its forms wrongly"))
			}
			last = m.Number
			running.Go(func() {
				said := elicit(asking, m)
				if asking.Err() != nil {
					return
				}
				writing.Lock()
				defer writing.Unlock()
				_ = c.stream.SetWriteDeadline(time.Now().Add(writeTimeout))
				// A stream that cannot be written cannot be read on either: the loop finds out.
				_ = wire.Write(c.stream, said)
			})
		case *wire.Progress:
			if progress != nil {
				progress(capabilities.Progress{Done: m.Done, Total: m.Total, Message: m.Message, Data: m.Data})
			}
		case *wire.Answer:
			stop()
			running.Wait()
			_ = c.stream.Close()
			blobs, err := c.blobs(m.Blobs)
			if err != nil {
				return wire.Answer{}, nil, c.lost(ctx, err)
			}
			c.done = true
			return *m, blobs, nil
		}
	}
}
