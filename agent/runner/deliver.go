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

// computes is the key of tools whose result is whatever a script makes of a page.
const computes = "execution.browser.script"

// looks reports whether a tool gives more of a place than its texts.
func looks(d *catalog.Descriptor) bool {
	return (d.Limits.MaxBlobBytes > 0 || d.Limits.MaxArtifactBytes > 0) && slices.Contains(d.Tags, shows) || slices.Contains(d.Manifest.Keys(), computes)
}

// withheld gives why a call may not even look: a picture or a script would show what texts
// are kept free of.
func withheld(seen *withhold.Call, d *catalog.Descriptor, shown func(capabilities.Place) bool, screen bool) *capabilities.Error {
	if screen {
		if err := seen.RefusesAll(shown); err != nil {
			return err
		}
	}
	if looks(d) {
		return seen.Refuses(shown)
	}
	return nil
}

// shownBy gives what a lane can look at by a tool of a handler: everything, unless it says
// or looks at the room.
func shownBy(h capabilities.Handler, d *catalog.Descriptor, lane capabilities.LaneID) func(capabilities.Place) bool {
	if sensing(d) {
		return func(capabilities.Place) bool { return false }
	}
	s, tells := h.(capabilities.Shower)
	return func(p capabilities.Place) bool { return !tells || s.Shows(lane, p) }
}

// showsScreen reports whether a tool of a handler says anything of places: deliveries say
// nothing, and neither does what looks at the room or at no place at all.
func showsScreen(h capabilities.Handler, d *catalog.Descriptor) bool {
	_, tells := h.(capabilities.Shower)
	return tells && !sensing(d) && d.Delivery == nil
}

// coded makes an error of a handler's what a nil one is, too.
func coded(e *capabilities.Error) error {
	if e == nil {
		return nil
	}
	return e
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
	if err := seen.Opens(); err != nil {
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

// refit makes an answer whose result does not fit its schema any more, because a value
// was taken out of it, one that does: words of closed lists are put back, else it says so.
func refit(d *catalog.Descriptor, a *wire.Answer, seen *withhold.Call, original []byte) {
	if a.Status != capabilities.StatusOK {
		return
	}
	bad := d.ValidateResult(a.Output)
	if len(bad) == 0 {
		return
	}
	paths := make([]string, len(bad))
	for i, v := range bad {
		paths[i] = v.Path
	}
	if clean := seen.Restore(original, a.Output, paths); len(d.ValidateResult(clean)) == 0 {
		a.Output = clean
		return
	}
	e := capabilities.Errorf(capabilities.CodeSecretHeld, "The result holds a secret that was delivered to that device, and cannot be given without it.")
	*a = wire.Answer{
		Status: statusOf(e.Code), Code: e.Code, Message: e.PublicMessage(), Hint: e.PublicHint(),
		Effect: a.Effect, Isolation: a.Isolation, Observed: a.Observed, DurationUS: a.DurationUS,
	}
}
