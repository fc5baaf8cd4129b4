package sensor

import (
	"context"
	"errors"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// maxDevices bounds how many devices readiness and hints name.
const maxDevices = capabilities.MaxDevices

// ailing is how long readiness tells what was in the way of the latest call: only
// using a device tells that another program has it.
const ailing = 15 * time.Second

// ailment is what was in the way of a call.
type ailment struct {
	reason capabilities.Reason
	fix    string
	action capabilities.Action
	since  time.Time
}

// remember notes what was in the way of a call that just ended; err nil: nothing.
func (h *Handler) remember(id capabilities.CapabilityID, err error) {
	var missing *platform.MissingError
	a := ailment{since: h.o.Now()}
	switch {
	case errors.Is(err, platform.ErrSensorBusy):
		a.reason, a.fix = capabilities.ReasonDeviceBusy, capabilities.Wrap(capabilities.CodeSensorBusy, err, "").PublicHint()
	case errors.As(err, &missing) && missing.Permission:
		a.reason, a.fix = capabilities.ReasonPermission, capabilities.Clip(missing.What+" "+missing.Fix, 300)
	case errors.Is(err, platform.ErrSensorRefused):
		refused := &capabilities.Error{Code: capabilities.CodeSensorRefused}
		a.reason, a.fix, a.action = capabilities.ReasonPermission, refused.PublicHint(), refused.PublicAction()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ails[id] = a; a.reason == "" {
		delete(h.ails, id)
	}
}

// ailment returns what was in the way of the latest call of a capability, if that is not
// long ago.
func (h *Handler) ailment(id capabilities.CapabilityID) (ailment, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, ok := h.ails[id]
	return a, ok && h.o.Now().Sub(a.since) <= ailing
}

// formats says which formats each capability can be done with.
var formats = []struct {
	capability capabilities.CapabilityID
	kind       platform.SensorKind
	formats    []platform.MediaFormat
}{
	{capPhoto, platform.SensorCamera, []platform.MediaFormat{platform.FormatPhoto}},
	{capVideo, platform.SensorCamera, []platform.MediaFormat{platform.FormatWebM}},
	{capSound, platform.SensorMicrophone, []platform.MediaFormat{platform.FormatPCM, platform.FormatWebM}},
}

// Readiness says for each capability by which backend it works, with which devices, or
// why it does not; also that another program had the device a moment ago.
func (h *Handler) Readiness(ctx context.Context) []capabilities.Readiness {
	all := make([]capabilities.Readiness, 0, len(formats))
	for _, f := range formats {
		all = append(all, h.ready(ctx, f.capability, f.kind, f.formats))
	}
	return all
}

func (h *Handler) ready(ctx context.Context, id capabilities.CapabilityID, kind platform.SensorKind,
	formats []platform.MediaFormat) capabilities.Readiness {
	r := capabilities.Readiness{Capability: id, Reason: capabilities.ReasonBackendMissing}
	none := false
	for _, b := range h.o.Backends {
		gives := false
		for _, f := range formats {
			gives = gives || b.Gives(kind, f)
		}
		if !gives {
			continue
		}
		l := b.Look(ctx, kind)
		switch {
		case l.Missing != nil:
			if r.Fix == "" {
				r.Fix = capabilities.Clip(l.Missing.What+" "+l.Missing.Fix, 300)
				switch {
				case l.Confined:
					r.Reason, r.Action = capabilities.ReasonIsolationMissing, capabilities.Action{Key: capabilities.ActionAcceptBare}
				case l.Missing.Permission:
					r.Reason = capabilities.ReasonPermission
				}
			}
		case l.Listed && len(l.Devices) == 0:
			none = true
		default:
			ready := capabilities.Readiness{
				Capability: id, Isolation: capabilities.ClassSession, Degraded: l.Degraded, Backend: capabilities.Clip(l.Backend, 100), Fake: l.Fake,
			}
			for _, d := range l.Devices[:min(len(l.Devices), maxDevices)] {
				ready.Devices = append(ready.Devices, capabilities.Device{
					ID: d.ID, Label: capabilities.Clip(d.Label, capabilities.MaxDeviceText), Facing: string(d.Facing), Default: d.Default,
				})
			}
			if a, ok := h.ailment(id); ok {
				ready.Reason, ready.Fix, ready.Action = a.reason, a.fix, a.action
			}
			return ready
		}
	}
	if none { // what to do about that comes first
		r.Reason, r.Fix = capabilities.ReasonDeviceMissing,
			"No "+string(kind)+" is connected to this device. Connect one; it is found within seconds."
	}
	return r
}
