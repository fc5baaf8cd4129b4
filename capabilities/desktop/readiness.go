package desktop

import (
	"context"
	"errors"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// readyFor is how long an answer of Readiness is good.
const readyFor = 2 * time.Second

// maxFix is the bound of capabilities.Readiness.Fix.
const maxFix = 300

// DegradedPerson is the Readiness.Degraded of what uses mouse and keyboard where
// the system cannot tell the person's own from the agent's: then the agent can
// not yield, which policy has to accept by name.
const DegradedPerson = "person_watch"

type cachedReadiness struct {
	at  time.Time
	all []capabilities.Readiness
}

// needs are the parts that a capability cannot do without. (A snapshot has
// windows, elements or both to tell.)
var needs = map[capabilities.CapabilityID][]platform.DesktopPart{
	"tyrum.desktop.screenshot":      {platform.PartScreen},
	"tyrum.desktop.snapshot":        {platform.PartWindows},
	"tyrum.desktop.query":           {platform.PartAccessibility},
	"tyrum.desktop.act":             {platform.PartAccessibility},
	"tyrum.desktop.mouse":           {platform.PartInput, platform.PartScreen},
	"tyrum.desktop.keyboard":        {platform.PartInput},
	"tyrum.desktop.wait-for":        {platform.PartAccessibility},
	"tyrum.desktop.clipboard-write": {platform.PartClipboard},
	controlID:                       {platform.PartInput, platform.PartScreen},
}

// openTime is how long an answer of Readiness waits for a desktop to open. It goes
// on opening, and a later answer tells more.
const openTime = 2 * time.Second

// uses are the capabilities that use mouse and keyboard.
var uses = map[capabilities.CapabilityID]bool{
	"tyrum.desktop.act": true, "tyrum.desktop.mouse": true, "tyrum.desktop.keyboard": true, controlID: true,
}

// Readiness returns the present truth for each capability. It opens the desktop,
// which changes nothing on it, and answers from a cache for two seconds.
func (h *Handler) Readiness(ctx context.Context) []capabilities.Readiness {
	h.mu.Lock()
	cached := h.ready
	h.mu.Unlock()
	if time.Since(cached.at) < readyFor && cached.all != nil {
		return append([]capabilities.Readiness(nil), cached.all...)
	}
	soon, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	d, err := h.o.Opener.Open(soon)
	locked := ""
	if err == nil {
		h.watch(d)
		locked = h.o.Opener.Locked(ctx)
	}
	h.mu.Lock()
	unwatched := h.unwatched
	h.mu.Unlock()
	offered := h.Capabilities()
	all := make([]capabilities.Readiness, len(offered))
	for i, id := range offered {
		all[i] = readiness(id, d, err, locked, unwatched)
	}
	if ctx.Err() == nil {
		h.mu.Lock()
		h.ready = cachedReadiness{time.Now(), all}
		h.mu.Unlock()
	}
	return append([]capabilities.Readiness(nil), all...)
}

func readiness(id capabilities.CapabilityID, d *platform.Desktop, err error, locked string, unwatched error) capabilities.Readiness {
	r := capabilities.Readiness{Capability: id}
	if err != nil {
		return notReady(r, err)
	}
	r.Backend = capabilities.Clip(d.Name, 100)
	for _, part := range needs[id] {
		if part == platform.PartWindows && d.Accessibility != nil {
			continue
		}
		if !hasPart(d, part) {
			return notReady(r, missing(d, part))
		}
	}
	if d.Input != nil && unwatched != nil && uses[id] {
		r.Degraded = DegradedPerson
	}
	if locked != "" {
		r.Reason, r.Fix = capabilities.ReasonSessionLocked, capabilities.Clip(locked+" Ask the person to unlock it.", maxFix)
		return r
	}
	r.Isolation = capabilities.ClassSession
	return r
}

func notReady(r capabilities.Readiness, err error) capabilities.Readiness {
	var lacks *platform.MissingError
	if !errors.As(err, &lacks) {
		r.Reason, r.Fix = capabilities.ReasonBackendFailing, "A person has to see what is wrong on the node."
		r.Action = capabilities.Action{Key: capabilities.ActionExamineNode}
		return r
	}
	r.Reason, r.Fix = capabilities.ReasonBackendMissing, capabilities.Clip(lacks.Error(), maxFix)
	if lacks.Permission {
		r.Reason = capabilities.ReasonPermission
	}
	return r
}

func hasPart(d *platform.Desktop, part platform.DesktopPart) bool {
	switch part {
	case platform.PartScreen:
		return d.Screen != nil
	case platform.PartInput:
		return d.Input != nil
	case platform.PartPerson:
		return d.Person != nil
	case platform.PartWindows:
		return d.Windows != nil
	case platform.PartAccessibility:
		return d.Accessibility != nil
	case platform.PartClipboard:
		return d.Clipboard != nil
	}
	return false
}
