package link

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// replies hands what the gateway says about steps, or forms and hosts, to those who asked. A call
// asks for the one or the others.
type replies struct {
	mu     sync.Mutex
	asked  map[uint32]chan wire.Message
	broken error         // why nothing comes any more
	ended  chan struct{} // closed when nobody reads any more
}

// Step asks the gateway for a step and waits for its order, at most until ctx ends.
// CodeNodeDisconnected: the gateway went away, and no other step will be ordered.
func (s *sink) Step(ctx context.Context, m wire.Step) (*wire.StepOrder, error) {
	if !s.steps {
		return nil, capabilities.Errorf(capabilities.CodeInternal, "this call takes no steps")
	}
	o, err := s.ask(ctx, &m, &m.Number, wire.MaxSteps)
	if err != nil {
		return nil, err
	}
	return o.(*wire.StepOrder), nil
}

// Elicit has the gateway put a form to a person, and waits for the answer, at most until ctx ends.
func (s *sink) Elicit(ctx context.Context, m wire.Elicit) (*wire.Elicited, error) {
	if !s.elicits {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "nobody can be asked for this call")
	}
	o, err := s.ask(ctx, &m, &m.Number, wire.MaxElicits)
	if err != nil {
		return nil, err
	}
	return o.(*wire.Elicited), nil
}

// AskHost has the gateway ask a person about a host, and waits for the answer, at most until ctx
// ends.
func (s *sink) AskHost(ctx context.Context, m wire.HostAsk) (*wire.HostAnswer, error) {
	if !s.hosts {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "nobody can be asked about hosts for this call")
	}
	o, err := s.ask(ctx, &m, &m.Number, wire.MaxHostAsks)
	if err != nil {
		return nil, err
	}
	return o.(*wire.HostAnswer), nil
}

// ask writes m with the next number, of its kind at most most, and returns what the gateway replies
// to it.
func (s *sink) ask(ctx context.Context, m wire.Message, number *uint32, most uint32) (wire.Message, error) {
	reply := make(chan wire.Message, 1)
	if err := s.write(m, number, most, reply); err != nil {
		return nil, err
	}
	select {
	case o := <-reply:
		if o != nil {
			return o, nil
		}
		return nil, s.replies.lost()
	case <-ctx.Done():
		return nil, capabilities.Wrap(capabilities.CodeCancelled, ctx.Err(), "")
	}
}

func (s *sink) write(m wire.Message, number *uint32, most uint32, reply chan wire.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered {
		return capabilities.Errorf(capabilities.CodeInternal, "this call has ended")
	}
	asked := s.numbered
	switch m.Kind() {
	case wire.KindElicit:
		asked = s.forms
	case wire.KindHostAsk:
		asked = s.numbered - s.forms
	}
	if asked >= most {
		if m.Kind() != wire.KindStep {
			return capabilities.Errorf(capabilities.CodeOverloaded, "A person is asked at most %d times for one call.", most)
		}
		return capabilities.Errorf(capabilities.CodeOverloaded, "A call takes at most %d steps.", most)
	}
	if m.Kind() == wire.KindElicit {
		s.forms++
	}
	s.numbered++
	*number = s.numbered
	if s.replies == nil {
		s.replies = &replies{asked: map[uint32]chan wire.Message{}, ended: make(chan struct{})}
		_ = s.stream.SetReadDeadline(time.Time{})
		if s.steps {
			s.reader.Accept(wire.KindStepOrder)
		} else {
			s.reader.Accept(wire.KindElicited, wire.KindHostAnswer)
		}
		go s.replies.hear(s.reader)
	}
	if !s.replies.add(*number, reply) {
		return s.replies.lost()
	}
	_ = s.stream.SetWriteDeadline(time.Now().Add(writeTimeout))
	err := wire.Write(s.stream, m)
	var refused *capabilities.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused): // nothing that a frame can carry, and nothing was written
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

// endReplies waits until nobody reads the gateway's direction any more, which ends soon
// after the answer.
func (s *sink) endReplies() {
	if s.replies == nil {
		return
	}
	_ = s.stream.SetReadDeadline(time.Now().Add(writeTimeout))
	<-s.replies.ended
}

func gatewayGone(cause error) *capabilities.Error {
	return capabilities.Wrap(capabilities.CodeNodeDisconnected, cause, "The gateway went away, and without its word the call does not go on.")
}

func (o *replies) lost() *capabilities.Error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return gatewayGone(o.broken)
}

func (o *replies) add(number uint32, reply chan wire.Message) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken != nil {
		return false
	}
	o.asked[number] = reply
	return true
}

// hear reads replies until the gateway says no more. One that nobody waits for is left: the ticket
// in it does not run.
func (o *replies) hear(r *wire.Reader) {
	defer close(o.ended)
	for {
		m, err := r.Next()
		o.mu.Lock()
		if err != nil {
			o.broken = err
			for _, reply := range o.asked {
				reply <- nil
			}
			clear(o.asked)
			o.mu.Unlock()
			return
		}
		var number uint32
		switch m := m.(type) {
		case *wire.StepOrder:
			number = m.Number
		case *wire.Elicited:
			number = m.Number
		case *wire.HostAnswer:
			number = m.Number
		}
		if asked := o.asked[number]; asked != nil {
			delete(o.asked, number)
			asked <- m
		}
		o.mu.Unlock()
	}
}
