package runner

import (
	"context"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/sealed"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// delivering is a wrapper round the handler of a call that delivers a secret: do gets it, and
// the caller an acknowledgement in place of what do returns.
func (s *started) delivering(do handle) handle {
	return func(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
		if err := s.receive(ctx, &inv); err != nil {
			s.log.Warn("call.refused", "hop", capabilities.HopRun, "code", err.Code, "err", err)
			return capabilities.Output{}, err
		}
		out, err := do(ctx, inv)
		if err != nil {
			return out, err
		}
		// That it was done, and which reference it was (S0-42).
		reference, _ := s.tool.Delivery.Selector(s.t.Args)
		out.Result, out.Blobs, out.Untrusted = map[string]string{"status": "ok", s.tool.Delivery.Reference: reference}, nil, false
		return out, nil
	}
}

// receive gets the secret of a call that the guard has accepted and the journal has
// recorded: only now does the gateway resolve it, sealed to a key of this call alone.
// inv goes on with it.
func (s *started) receive(ctx context.Context, inv *capabilities.Invocation) *capabilities.Error {
	reference, _ := s.tool.Delivery.Selector(s.t.Args)
	if !slices.Contains(s.t.Grants, capabilities.KeySecret) { // it is not asked for (S1-46)
		s.recorder.Refused(capabilities.KeySecret, reference)
		return capabilities.Errorf(capabilities.CodeDriftCritical, "The call wanted a secret that it was never granted. It was ended.")
	}
	key, err := sealed.NewKey()
	if err != nil {
		return capabilities.AsError(err)
	}
	got, err := s.sink.Accept(ctx, wire.Accept{Key: key.Public()})
	if err != nil {
		return capabilities.AsError(err)
	}
	secret, err := key.Open(s.binding(), got.Bytes)
	if err != nil {
		return capabilities.AsError(err)
	}
	s.recorder.Observe(capabilities.KeySecret, reference)
	inv.Args, inv.Secret, inv.Cleared = s.tool.Delivery.Carried(s.t.Args), secret, func() {}
	if !s.tool.Delivery.Clipboard {
		return nil
	}
	if err := s.seen.Opens(); err != nil {
		return capabilities.AsError(err)
	}
	// Kept back before it is anywhere that somebody could look.
	release := s.seen.Hold(secret)
	if err := s.r.keepClipboard(ctx); err != nil {
		release()
		return capabilities.AsError(err)
	}
	inv.Cleared = func() {
		release()
		if err := s.r.keepClipboard(context.WithoutCancel(ctx)); err != nil {
			s.log.Warn("secret.clipboard", "err", err)
		}
	}
	return nil
}

// keepClipboard tells every handler that can read the clipboard whether a secret
// lies there.
func (r *Runner) keepClipboard(ctx context.Context) error {
	r.keeping.Lock()
	defer r.keeping.Unlock()
	keep := r.withhold.Held() > 0
	for _, h := range r.opts.Handlers {
		if k, ok := h.(capabilities.ClipboardKeeper); ok {
			if err := k.KeepClipboard(ctx, keep); err != nil {
				return err
			}
		}
	}
	return nil
}
