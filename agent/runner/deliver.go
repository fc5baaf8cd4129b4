package runner

import (
	"context"
	"slices"

	"github.com/handrail-dev/handrail/agent/withhold"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/sealed"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// principalOf gives whom a ticket is carried out for, as its envelope says. The
// guard has checked that envelope.
func principalOf(t *wire.Ticket) func() capabilities.PrincipalID {
	return func() capabilities.PrincipalID {
		e, err := policy.OpenEnvelope(t.Envelope)
		if err != nil {
			return ""
		}
		return e.Principal
	}
}

// shows is the tag of tools whose result is nothing but a picture of the screen.
const shows = "screenshot"

// withheld gives why a call may not even look: a picture would show what texts are
// kept free of.
func withheld(seen *withhold.Call, d *catalog.Descriptor) *capabilities.Error {
	if (d.Limits.MaxBlobBytes > 0 || d.Limits.MaxArtifactBytes > 0) && slices.Contains(d.Tags, shows) {
		return seen.Refuses()
	}
	return nil
}

// receive gets the secret of a call that the guard has accepted and the journal has
// recorded: only now does the gateway resolve it, sealed to a key of this call alone
// (DESIGN section 14). inv goes on with it.
func (r *Runner) receive(ctx context.Context, t *wire.Ticket, d *catalog.Descriptor, seen *withhold.Call, sink Sink, inv *capabilities.Invocation) *capabilities.Error {
	key, err := sealed.NewKey()
	if err != nil {
		return capabilities.AsError(err)
	}
	got, err := sink.Accept(ctx, wire.Accept{Key: key.Public()})
	if err != nil {
		return capabilities.AsError(err)
	}
	secret, err := key.Open(sealed.Binding{Node: t.Node, Call: t.Call, Tool: t.Tool, Envelope: t.Envelope, Grants: t.Grants}, got.Bytes)
	if err != nil {
		return capabilities.AsError(err)
	}
	// Kept back before it is anywhere that somebody could look.
	release := seen.Hold(secret)
	if err := r.keepClipboard(ctx); err != nil {
		release()
		return capabilities.AsError(err)
	}
	inv.Args, inv.Secret = d.Delivery.Args, secret
	inv.Cleared = func() {
		release()
		if err := r.keepClipboard(context.WithoutCancel(ctx)); err != nil {
			r.opts.Log.Warn("secret.clipboard", "call", t.Call, "err", err)
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

// acknowledged is what the caller of a delivery gets: that it was done, and which
// reference it was (S0-42).
func acknowledged(d *catalog.Descriptor, t *wire.Ticket, out capabilities.Output) capabilities.Output {
	reference, _ := d.Delivery.Selector(t.Args)
	out.Result, out.Blobs, out.Untrusted = map[string]string{"status": "ok", d.Delivery.Reference: reference}, nil, false
	return out
}

// refit makes an answer whose result does not fit its schema any more, because a
// value was taken out of it, one that says so.
func refit(d *catalog.Descriptor, a *wire.Answer) {
	if a.Status != capabilities.StatusOK || len(d.ValidateResult(a.Output)) == 0 {
		return
	}
	e := capabilities.Errorf(capabilities.CodeSecretHeld, "The result holds a secret that lies in that device's clipboard, and can not be given without it.")
	*a = wire.Answer{
		Status: statusOf(e.Code), Code: e.Code, Message: e.PublicMessage(), Hint: e.PublicHint(),
		Effect: a.Effect, Isolation: a.Isolation, Observed: a.Observed, DurationUS: a.DurationUS,
	}
}
