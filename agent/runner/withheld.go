package runner

import (
	"context"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// withholding is a wrapper round the handler of every call: pictures, bytes and files leave
// only if no delivered secret can be in them. A secret may have been pasted since admit asked.
func (s *started) withholding(do handle) handle {
	return func(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
		out, err := do(ctx, inv)
		if err == nil {
			err = coded(s.withheld())
		}
		if clean, no := s.seen.Blobs(out.Blobs); err == nil && no != nil {
			err = no
		} else {
			out.Blobs = clean
		}
		// Nothing here reads files. A tool that looks at the room never holds the clipboard.
		if err == nil && len(out.Artifacts) > 0 && !sensing(s.tool) {
			err = coded(s.seen.Refuses())
		}
		return out, err
	}
}

// redact takes what is withheld out of every text of an answer. A result that does not fit
// its schema any more gets the words of closed lists back, or the answer says why it cannot
// be had.
func (a *admitted) redact(answer *wire.Answer) {
	original := answer.Output
	if !a.seen.Answer(answer) || answer.Status != capabilities.StatusOK {
		return
	}
	bad := a.tool.ValidateResult(answer.Output)
	if len(bad) == 0 {
		return
	}
	paths := make([]string, len(bad))
	for i, v := range bad {
		paths[i] = v.Path
	}
	if clean := a.seen.Restore(original, answer.Output, paths); len(a.tool.ValidateResult(clean)) == 0 {
		answer.Output = clean
		return
	}
	e := capabilities.Errorf(capabilities.CodeSecretHeld,
		"The result holds a secret that was delivered to that device, and cannot be given without it.")
	*answer = wire.Answer{
		Status: e.Code.Info().Status, Code: e.Code, Message: e.PublicMessage(), Hint: e.PublicHint(), Action: e.PublicAction(),
		Effect: answer.Effect, Isolation: answer.Isolation, Observed: answer.Observed, Lost: answer.Lost, Ran: answer.Ran,
		DurationUS: answer.DurationUS,
	}
}

// withheld says why a call may not even look, or nil: a picture or a script would show what
// texts are kept free of.
func (a *admitted) withheld() *capabilities.Error {
	if a.screen {
		if err := a.seen.RefusesAll(); err != nil {
			return err
		}
	}
	if looks(a.tool) {
		return a.seen.Refuses()
	}
	return nil
}

// principalOf returns whom a ticket is carried out for, as its envelope says. The
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

// sensors are the keys of what looks at the room and not at the device: a secret in
// the clipboard is in none of it.
var sensors = []string{"data.capture.camera", "data.capture.audio"}

func sensing(d *catalog.Descriptor) bool {
	return slices.ContainsFunc(d.Manifest.Keys(), func(key string) bool { return slices.Contains(sensors, key) })
}

// looks reports whether a tool returns more of a place than its texts.
func looks(d *catalog.Descriptor) bool {
	return (d.Limits.MaxBlobBytes > 0 || d.Limits.MaxArtifactBytes > 0) && slices.Contains(d.Tags, shows) ||
		slices.Contains(d.Manifest.Keys(), computes)
}

// shownBy returns what a lane can look at by a tool of a handler: everything, unless it says
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
