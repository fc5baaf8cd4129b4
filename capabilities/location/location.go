package location

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

const get capabilities.CapabilityID = "tyrum.location.get"

const (
	// fresh is how old a position may be that a source reports as its present one: they report in a
	// rhythm of seconds.
	fresh = 5 * time.Second
	// ailing is how long readiness tells what was in the way of the last call.
	ailing = 15 * time.Second
)

// Options of New.
type Options struct {
	Locator platform.Locator // required
	Log     *slog.Logger     // default: discards
	Now     func() time.Time // default time.Now
}

// Handler carries out the location family.
type Handler struct {
	o Options

	mu      sync.Mutex
	last    *platform.Position // the latest that a call returned
	precise bool               // last was asked for with high accuracy
	ailment error              // what was in the way of the latest call
	since   time.Time          // of ailment
}

// New makes the handler; it asks for nothing yet.
func New(o Options) (*Handler, error) {
	if o.Locator == nil {
		return nil, errors.New("location: Locator is required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Handler{o: o}, nil
}

// Capabilities lists the family.
func (h *Handler) Capabilities() []capabilities.CapabilityID {
	return []capabilities.CapabilityID{get}
}

// Readiness says whether a position may be had, and what was in the way lately.
func (h *Handler) Readiness(ctx context.Context) []capabilities.Readiness {
	r := capabilities.Readiness{Capability: get, Isolation: capabilities.ClassSession, Backend: h.o.Locator.Name()}
	h.mu.Lock()
	err := h.ailment
	if h.o.Now().Sub(h.since) > ailing {
		err = nil
	}
	h.mu.Unlock()
	if err == nil {
		err = h.o.Locator.Usable(ctx)
	}
	if err != nil {
		_, r.Reason, r.Fix = explain(err)
	}
	return []capabilities.Readiness{r}
}

// explain returns what an error of a locator is for callers, for readiness and for the
// person who can mend it.
func explain(err error) (code capabilities.Code, reason capabilities.Reason, fix string) {
	var missing *platform.MissingError
	switch {
	case errors.As(err, &missing) && missing.Permission, errors.Is(err, platform.ErrLocationRefused):
		fix = "Allow location for handrail in the system's privacy settings."
		if missing != nil {
			fix = missing.Fix
		}
		return capabilities.CodeLocationRefused, capabilities.ReasonPermission, fix
	case errors.As(err, &missing):
		return capabilities.CodeLocationUnavailable, capabilities.ReasonBackendMissing, missing.Fix
	case errors.Is(err, platform.ErrNoLocationAgent):
		return capabilities.CodeLocationUnavailable, capabilities.ReasonLocationAgent,
			"Log in to a desktop that has a location agent (GNOME has), start /usr/libexec/geoclue-2.0/demos/agent, " + platform.OrFixed
	case errors.Is(err, platform.ErrNoFix):
		return capabilities.CodeLocationTimeout, capabilities.ReasonLocationNoFix,
			"Turn on Wi-Fi or a GPS receiver, give a larger timeout_ms, " + platform.OrFixed
	}
	return capabilities.CodeLocationUnavailable, capabilities.ReasonBackendFailing, "See the node's log; " + platform.OrFixed
}

type args struct {
	Precise   bool  `json:"enable_high_accuracy"`
	TimeoutMS int64 `json:"timeout_ms"`
	MaxAgeMS  int64 `json:"maximum_age_ms"`
}

type coords struct {
	Latitude         float64  `json:"latitude"`
	Longitude        float64  `json:"longitude"`
	Accuracy         float64  `json:"accuracy_m"`
	Altitude         *float64 `json:"altitude_m,omitempty"`
	AltitudeAccuracy *float64 `json:"altitude_accuracy_m,omitempty"`
	Heading          *float64 `json:"heading_deg,omitempty"`
	Speed            *float64 `json:"speed_mps,omitempty"`
}

type result struct {
	Coords    coords `json:"coords"`
	Timestamp string `json:"timestamp"`
	Source    string `json:"source"`
}

// Handle carries out tyrum.location.get.
func (h *Handler) Handle(ctx context.Context, call capabilities.Invocation) (capabilities.Output, error) {
	ctx, call, cancel := capabilities.Prepare(ctx, call)
	defer cancel(nil)
	a := args{TimeoutMS: 30_000}
	if err := json.Unmarshal(call.Args, &a); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "")
	}
	now := h.o.Now()
	age := time.Duration(a.MaxAgeMS) * time.Millisecond
	p, ok := h.remembered(now.Add(-age), a.Precise)
	if !ok {
		bound, cancel := context.WithTimeout(ctx, time.Duration(a.TimeoutMS)*time.Millisecond)
		defer cancel()
		var err error
		p, err = h.o.Locator.Locate(bound, a.Precise, now.Add(-max(age, fresh)))
		if err == nil {
			err = sane(p)
		}
		if ctx.Err() != nil {
			return capabilities.Output{}, context.Cause(ctx)
		}
		h.remember(p, a.Precise, err)
		if err != nil {
			code, _, fix := explain(err)
			h.o.Log.Info("location.none", "call", call.Call, "source", h.o.Locator.Name(), "code", code, "err", err)
			return capabilities.Output{}, capabilities.Wrap(code, err, "").WithHint(fix)
		}
	}
	call.Observe("data.read.location", h.o.Locator.Name())
	return capabilities.Output{Result: result{
		Coords:    coords{p.Latitude, p.Longitude, p.Accuracy, p.Altitude, p.AltitudeAccuracy, p.Heading, p.Speed},
		Timestamp: p.At.UTC().Format(time.RFC3339Nano), Source: h.o.Locator.Name(),
	}}, nil
}

// remembered returns the latest position, if it is young and good enough.
func (h *Handler) remembered(since time.Time, precise bool) (platform.Position, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == nil || h.last.At.Before(since) || precise && !h.precise {
		return platform.Position{}, false
	}
	return *h.last, true
}

func (h *Handler) remember(p platform.Position, precise bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ailment, h.since = err, h.o.Now()
	if err == nil {
		h.last, h.precise = &p, precise
	}
}

var errNowhere = errors.New("the source returned what is no position")

// sane refuses what is no position, whatever its source says.
func sane(p platform.Position) error {
	within := func(f, most float64) bool { return !math.IsNaN(f) && math.Abs(f) <= most }
	if !within(p.Latitude, 90) || !within(p.Longitude, 180) || !within(p.Accuracy, math.MaxFloat64) || p.Accuracy < 0 {
		return errNowhere
	}
	for _, f := range []*float64{p.Altitude, p.AltitudeAccuracy, p.Heading, p.Speed} {
		if f != nil && !within(*f, math.MaxFloat64) {
			return errNowhere
		}
	}
	return nil
}

// CloseLane has nothing to free.
func (h *Handler) CloseLane(capabilities.LaneID) {}

// Close ends the source, if it has an end.
func (h *Handler) Close() error {
	if c, ok := h.o.Locator.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}
