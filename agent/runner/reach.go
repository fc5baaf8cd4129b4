package runner

import (
	"context"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// reach is what one call asked about hosts, each once.
type reach struct {
	s *started
	//lint:ignore containedctx the life of what was permitted
	life    context.Context
	running sync.WaitGroup

	mu    sync.Mutex
	asked map[string]*hostAsked // by "host:port"
}

// hostAsked is one question. err is valid once done is closed.
type hostAsked struct {
	done chan struct{}
	err  error
}

// reaching is Invocation.Reach of a call. over ends what was permitted, and waits for questions.
func (s *started) reaching(ctx context.Context) (ask func(context.Context, string) (context.Context, error), over func()) {
	life, end := context.WithCancel(ctx)
	r := &reach{s: s, life: life, asked: map[string]*hostAsked{}}
	return r.ask, func() { end(); r.running.Wait() }
}

// ask joins the question about a target. It is the call's, and stays open when the connection that
// wanted it first does not wait for it.
func (r *reach) ask(ctx context.Context, target string) (context.Context, error) {
	r.mu.Lock()
	one := r.asked[target]
	switch {
	case one != nil:
	case r.life.Err() != nil:
		r.mu.Unlock()
		return nil, context.Cause(r.life)
	case len(r.asked) >= wire.MaxHostAsks:
		r.mu.Unlock()
		return nil, capabilities.Errorf(capabilities.CodeConsentDenied, "a person is asked about %d hosts at most for one call", wire.MaxHostAsks)
	default:
		one = &hostAsked{done: make(chan struct{})}
		r.asked[target] = one
		r.running.Go(func() {
			defer close(one.done)
			one.err = r.s.mayReach(r.life, target)
		})
	}
	r.mu.Unlock()
	select {
	case <-one.done:
		return r.life, one.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// mayReach has a person asked about a target, unless the device's owner is against it. Their yes
// comes as the call's envelope with the target as a one-time addition (S1-38).
func (s *started) mayReach(ctx context.Context, target string) error {
	if no := s.r.opts.Guard.Reaches(s.t, s.ready, target); no != nil {
		return no
	}
	s.log.Info("call.asks_host", "hop", capabilities.HopRun, "target", target)
	got, err := s.sink.AskHost(ctx, wire.HostAsk{Target: target})
	if err != nil {
		return err
	}
	if len(got.Envelope) > 0 {
		return s.widened(got.Envelope, target)
	}
	switch got.Code {
	case capabilities.CodeConsentDenied:
		return capabilities.Errorf(got.Code, "a person who was asked said no")
	case capabilities.CodeDeniedByPolicy:
		return capabilities.Errorf(capabilities.CodeConsentDenied, "policy lets nobody be asked about it")
	}
	return &capabilities.Error{Code: capabilities.CodeConsentUnavailable}
}

// widened checks that an envelope is this call's with one more host, in one hop.
func (s *started) widened(data []byte, target string) error {
	before, err := policy.OpenEnvelope(s.t.Envelope)
	if err != nil {
		return err
	}
	now, err := policy.OpenEnvelope(data)
	if err != nil {
		return err
	}
	if !now.Widens(before, capabilities.NarrowDomains+target) {
		return capabilities.Errorf(capabilities.CodeTicketInvalid, "the envelope is not this call's with that host")
	}
	s.log.Info("call.host_granted", "hop", capabilities.HopRun, "target", target, "envelope", now.HashHex())
	return nil
}
