package nodes

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// maxStepsAtOnce bounds the steps of one call that are judged at the same time.
const maxStepsAtOnce = 16

// Conduct is Dispatch for a call that takes steps (t.Steps): order returns the answer to each step
// that the node asks for, and ended takes how those with a ticket ended. order runs beside others
// and ends soon after its context; ended comes in the order of the node's words. Neither is called
// after Conduct has returned.
func (n *Nodes) Conduct(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress),
	order func(context.Context, *wire.Step) *wire.StepOrder, ended func(*wire.StepEnd)) (wire.Answer, []capabilities.Blob, error) {
	s := n.reach(node)
	if s == nil {
		return wire.Answer{}, nil, disconnected(nil)
	}
	if !s.steps {
		return wire.Answer{}, nil, capabilities.Errorf(capabilities.CodeNodeNotReady, "%s", outdated).WithHint(outdatedFix)
	}
	c, err := n.start(ctx, s, t)
	if err != nil {
		return wire.Answer{}, nil, err
	}
	defer c.end()
	stepCtx, stop := context.WithCancel(ctx)
	conductor := &conductor{exchange: c, order: order, number: func(o *wire.Ticket) {
		o.StopEpoch = max(o.StopEpoch, s.stopEpoch.Load())
		if s.far != nil {
			o.Sequence = n.farSequence(stepCtx, s)
			return
		}
		o.Sequence = n.sequence.Add(1)
	}}
	defer conductor.running.Wait()
	defer stop()
	c.reader.Accept(wire.KindProgress, wire.KindAnswer, wire.KindStep, wire.KindStepEnd)
	for {
		m, err := c.reader.Next()
		if err != nil {
			return wire.Answer{}, nil, c.lost(ctx, err)
		}
		switch m := m.(type) {
		case *wire.Step:
			if err := conductor.answerStep(stepCtx, m); err != nil {
				return wire.Answer{}, nil, c.lost(ctx, err)
			}
		case *wire.StepEnd:
			ended(m)
		case *wire.Progress:
			if progress != nil {
				progress(capabilities.Progress{Done: m.Done, Total: m.Total, Message: m.Message, Data: m.Data})
			}
		case *wire.Answer:
			stop()
			conductor.running.Wait()
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

// conductor answers the steps of one call.
type conductor struct {
	*exchange
	order   func(context.Context, *wire.Step) *wire.StepOrder
	number  func(*wire.Ticket)
	last    uint32 // step that was asked for
	running sync.WaitGroup
	slots   chan struct{}
	writing sync.Mutex
}

// answerStep has a step answered beside what follows it.
func (c *conductor) answerStep(ctx context.Context, m *wire.Step) error {
	if m.Number <= c.last {
		return errors.New("the node numbers its steps wrongly")
	}
	c.last = m.Number
	if c.slots == nil {
		c.slots = make(chan struct{}, maxStepsAtOnce)
	}
	select {
	case c.slots <- struct{}{}:
	default:
		return c.write(&wire.StepOrder{Number: m.Number, Code: capabilities.CodeOverloaded, Message: "Too many steps of this call run at once."})
	}
	c.running.Go(func() {
		defer func() { <-c.slots }()
		if o := c.order(ctx, m); o != nil && ctx.Err() == nil {
			// A stream that cannot be written cannot be read on either: the loop finds out.
			_ = c.write(o)
		}
	})
	return nil
}

func (c *conductor) write(o *wire.StepOrder) error {
	o.Clip()
	c.writing.Lock()
	defer c.writing.Unlock()
	if o.Ticket != nil {
		c.number(o.Ticket)
	}
	_ = c.stream.SetWriteDeadline(time.Now().Add(writeTimeout))
	err := wire.Write(c.stream, o)
	var refused *capabilities.Error
	if errors.As(err, &refused) { // not an order that a frame can carry, and nothing was written
		err = wire.Write(c.stream, &wire.StepOrder{Number: o.Number, Code: capabilities.CodeInternal})
	}
	return err
}

const (
	outdated    = "The program on this device is too old to ask for each step of such a call, and policy must see them."
	outdatedFix = "Update Handrail on this device and start its node again."
)

// outdate says of what takes steps that a node which does not ask for them is not ready.
func (n *Nodes) outdate(s *session, m *wire.Readiness) {
	if s.steps || n.opts.TakesSteps == nil {
		return
	}
	for i := range m.Capabilities {
		if r := &m.Capabilities[i]; r.Ready() && n.opts.TakesSteps(r.Capability) {
			r.Reason, r.Fix = capabilities.ReasonNodeOutdated, outdatedFix
		}
	}
}
