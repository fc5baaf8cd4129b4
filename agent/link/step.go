package link

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// orders hands what the gateway says about steps to those who asked.
type orders struct {
	mu     sync.Mutex
	asked  map[uint32]chan *wire.StepOrder
	broken error         // why nothing comes any more
	ended  chan struct{} // closed when nobody reads any more
}

// Step asks the gateway for a step and waits for its order, at most until ctx ends.
// CodeNodeDisconnected: the gateway went away, and no other step will be ordered.
func (s *sink) Step(ctx context.Context, m wire.Step) (*wire.StepOrder, error) {
	order := make(chan *wire.StepOrder, 1)
	if err := s.askStep(&m, order); err != nil {
		return nil, err
	}
	select {
	case o := <-order:
		if o != nil {
			return o, nil
		}
		return nil, s.orders.lost()
	case <-ctx.Done():
		return nil, capabilities.Wrap(capabilities.CodeCancelled, ctx.Err(), "")
	}
}

func (s *sink) askStep(m *wire.Step, order chan *wire.StepOrder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered || !s.steps {
		return capabilities.Errorf(capabilities.CodeInternal, "this call takes no steps")
	}
	if s.numbered >= wire.MaxSteps {
		return capabilities.Errorf(capabilities.CodeOverloaded, "A call takes at most %d steps.", wire.MaxSteps)
	}
	s.numbered++
	m.Number = s.numbered
	if s.orders == nil {
		s.orders = &orders{asked: map[uint32]chan *wire.StepOrder{}, ended: make(chan struct{})}
		_ = s.stream.SetReadDeadline(time.Time{})
		s.reader.Accept(wire.KindStepOrder)
		go s.orders.hear(s.reader)
	}
	if !s.orders.add(m.Number, order) {
		return s.orders.lost()
	}
	_ = s.stream.SetWriteDeadline(time.Now().Add(writeTimeout))
	err := wire.Write(s.stream, m)
	var refused *capabilities.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused): // not a step that a frame can carry, and nothing was written
		return err
	}
	return gatewayGone(err)
}

// StepEnded tells the gateway how a step ended that it had ordered.
func (s *sink) StepEnded(m wire.StepEnd) {
	m.Answer.Clip()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered {
		return
	}
	_ = s.stream.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err := wire.Write(s.stream, &m); err != nil {
		s.log(err) // the journal has it
	}
}

// endSteps waits until nobody reads the gateway's direction any more, which ends soon
// after the answer.
func (s *sink) endSteps() {
	if s.orders == nil {
		return
	}
	_ = s.stream.SetReadDeadline(time.Now().Add(writeTimeout))
	<-s.orders.ended
}

func gatewayGone(cause error) *capabilities.Error {
	return capabilities.Wrap(capabilities.CodeNodeDisconnected, cause, "The gateway went away, and without its word no step is taken.")
}

func (o *orders) lost() *capabilities.Error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return gatewayGone(o.broken)
}

func (o *orders) add(number uint32, order chan *wire.StepOrder) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken != nil {
		return false
	}
	o.asked[number] = order
	return true
}

// hear reads orders until the gateway says no more. One that nobody waits for is left:
// its ticket does not run.
func (o *orders) hear(r *wire.Reader) {
	defer close(o.ended)
	for {
		m, err := r.Next()
		o.mu.Lock()
		if err != nil {
			o.broken = err
			for _, order := range o.asked {
				order <- nil
			}
			clear(o.asked)
			o.mu.Unlock()
			return
		}
		order := m.(*wire.StepOrder)
		if asked := o.asked[order.Number]; asked != nil {
			delete(o.asked, order.Number)
			asked <- order
		}
		o.mu.Unlock()
	}
}
