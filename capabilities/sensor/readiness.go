package sensor

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// maxDevices bounds how many devices readiness and hints name.
const maxDevices = capabilities.MaxDevices

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
// why it does not.
func (h *Handler) Readiness(ctx context.Context) []capabilities.Readiness {
	all := make([]capabilities.Readiness, 0, len(formats))
	for _, f := range formats {
		all = append(all, h.ready(ctx, f.capability, f.kind, f.formats))
	}
	return all
}

func (h *Handler) ready(ctx context.Context, id capabilities.CapabilityID, kind platform.SensorKind, formats []platform.MediaFormat) capabilities.Readiness {
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
				r.Fix = clip(l.Missing.What+" "+l.Missing.Fix, 300)
				switch {
				case l.Confined:
					r.Reason = capabilities.ReasonIsolationMissing
				case l.Missing.Permission:
					r.Reason = capabilities.ReasonPermission
				}
			}
		case l.Listed && len(l.Devices) == 0:
			none = true
		default:
			ready := capabilities.Readiness{
				Capability: id, Isolation: capabilities.ClassSession, Degraded: l.Degraded, Backend: clip(l.Backend, 100), Fake: l.Fake,
			}
			for _, d := range l.Devices[:min(len(l.Devices), maxDevices)] {
				ready.Devices = append(ready.Devices, capabilities.Device{
					ID: d.ID, Label: clip(d.Label, capabilities.MaxDeviceText), Facing: string(d.Facing), Default: d.Default,
				})
			}
			return ready
		}
	}
	if none { // what to do about that comes first
		r.Reason, r.Fix = capabilities.ReasonDeviceMissing, "No "+string(kind)+" is connected to this device. Connect one; it is found within seconds."
	}
	return r
}

// clip shortens s to at most max bytes at a rune's edge.
func clip(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && s[max]&0xC0 == 0x80 {
		max--
	}
	return s[:max]
}
