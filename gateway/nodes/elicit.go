package nodes

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Converse is Dispatch for a call for which people may be asked: elicit returns the answer to each
// form that the node sends (t.Elicits), host to each host that it asks about (t.AsksHosts); nil
// where there are none. They run beside others, end soon after their context, and are not called
// after Converse has returned. A node whose hello does not say that it takes answers gets the
// ticket as by Dispatch.
func (n *Nodes) Converse(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress),
	elicit func(context.Context, *wire.Elicit) *wire.Elicited,
	host func(context.Context, *wire.HostAsk) *wire.HostAnswer) (wire.Answer, []capabilities.Blob, error) {
	s := n.reach(node)
	if s == nil {
		return wire.Answer{}, nil, disconnected(nil)
	}
	t.Elicits, t.AsksHosts = elicit != nil && s.elicits, host != nil && s.asksHosts
	if !t.Elicits && !t.AsksHosts {
		return n.Dispatch(ctx, node, t, progress)
	}
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
	counts := func(number uint32) bool { // each is the next, so there are as many as a number can be
		ok := number > last
		last = number
		return ok
	}
	say := func(said wire.Message) {
		if asking.Err() != nil {
			return
		}
		writing.Lock()
		defer writing.Unlock()
		_ = c.stream.SetWriteDeadline(time.Now().Add(writeTimeout))
		// A stream that cannot be written cannot be read on either: the loop finds out.
		_ = wire.Write(c.stream, said)
	}
	kinds := []wire.Kind{wire.KindProgress, wire.KindAnswer}
	if t.Elicits {
		kinds = append(kinds, wire.KindElicit)
	}
	if t.AsksHosts {
		kinds = append(kinds, wire.KindHostAsk)
	}
	c.reader.Accept(kinds...)
	for {
		m, err := c.reader.Next()
		if err != nil {
			return wire.Answer{}, nil, c.lost(ctx, err)
		}
		switch m := m.(type) {
		case *wire.Elicit:
			if !counts(m.Number) {
				return wire.Answer{}, nil, c.lost(ctx, errors.New("the node numbers its forms wrongly"))
			}
			running.Go(func() { say(elicit(asking, m)) })
		case *wire.HostAsk:
			if !counts(m.Number) {
				return wire.Answer{}, nil, c.lost(ctx, errors.New("the node numbers its hosts wrongly"))
			}
			running.Go(func() { say(host(asking, m)) })
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
