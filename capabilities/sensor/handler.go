package sensor

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// The capabilities that this family implements.
const (
	capPhoto capabilities.CapabilityID = "tyrum.camera.capture-photo"
	capVideo capabilities.CapabilityID = "tyrum.camera.capture-video"
	capSound capabilities.CapabilityID = "tyrum.audio.record"
)

// The keys of what is captured.
const (
	keyCamera = "data.capture.camera"
	keyAudio  = "data.capture.audio"
)

// DefaultMaxBytes bounds one capture: five minutes of film take about a third.
const DefaultMaxBytes = 256 << 20

// Options of New.
type Options struct {
	// Backends are tried in this order: the first that can do a call does it. At least
	// one is required.
	Backends []platform.Sensors
	// MaxBytes bounds the output of one call. Default: DefaultMaxBytes.
	MaxBytes int
	Log      *slog.Logger     // default: discards
	Now      func() time.Time // default time.Now
}

// Handler implements capabilities.Handler for camera and microphone.
type Handler struct {
	o   Options
	log *slog.Logger

	mu     sync.Mutex
	closed bool
	inUse  map[platform.SensorKind]bool
	ails   map[capabilities.CapabilityID]ailment
}

var (
	_ capabilities.Handler = (*Handler)(nil)
	_ capabilities.Pauser  = (*Handler)(nil)
)

// New makes a Handler; it starts nothing.
func New(o Options) (*Handler, error) {
	if len(o.Backends) == 0 {
		return nil, errors.New("sensor: at least one backend is required")
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Handler{o: o, log: o.Log, inUse: map[platform.SensorKind]bool{}, ails: map[capabilities.CapabilityID]ailment{}}, nil
}

// tools are what is implemented.
var tools = capabilities.Tools[func(*Handler, context.Context, capabilities.Invocation) (capabilities.Output, error)]{
	{Capability: capPhoto, Run: (*Handler).photo},
	{Capability: capVideo, Run: (*Handler).video},
	{Capability: capSound, Run: (*Handler).sound},
}

// Capabilities lists what this handler implements.
func (h *Handler) Capabilities() []capabilities.CapabilityID { return tools.Capabilities() }

// Handle carries out one call.
func (h *Handler) Handle(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	run, err := tools.Find(inv.Capability)
	if err != nil {
		return capabilities.Output{}, err
	}
	ctx, inv, cancel := capabilities.Prepare(ctx, inv)
	defer cancel(nil)
	out, err := run(h, ctx, inv)
	if ctx.Err() == nil {
		h.remember(inv.Capability, err)
	}
	if err != nil {
		if ctx.Err() == nil {
			h.log.Warn("sensor.failed", "call", inv.Call, "capability", inv.Capability, "err", err)
		}
		return capabilities.Output{}, explain(ctx, err)
	}
	return out, nil
}

// CloseLane has nothing to free: no lane holds a device between its calls.
func (h *Handler) CloseLane(capabilities.LaneID) {}

// Pause ends, with a stop, what is kept running for the next capture.
func (h *Handler) Pause(on bool) {
	if !on {
		return
	}
	var wait sync.WaitGroup
	for _, b := range h.o.Backends {
		wait.Go(b.Rest)
	}
	wait.Wait()
}

// Close ends every backend.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	var errs []error
	for _, b := range h.o.Backends {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// take claims devices for one call. While it is held, no other call of this node uses
// one of their kind.
func (h *Handler) take(kinds ...platform.SensorKind) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, capabilities.Errorf(capabilities.CodeSensorMissing, "The node is shutting down.").
			WithHint("Try again when it is back, or choose another node.")
	}
	for _, k := range kinds {
		if h.inUse[k] {
			return nil, capabilities.Errorf(capabilities.CodeSensorBusy, "Another call is using the %s of this device.", k)
		}
	}
	for _, k := range kinds {
		h.inUse[k] = true
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, k := range kinds {
			delete(h.inUse, k)
		}
	}, nil
}

// each calls do with the backends that make format, best first, until one did it or
// failed for a reason that another would not change.
func (h *Handler) each(ctx context.Context, kind platform.SensorKind, format platform.MediaFormat,
	do func(b platform.Sensors, l platform.SensorLook) error) error {
	var last error
	for _, b := range h.o.Backends {
		if !b.Gives(kind, format) {
			continue
		}
		err := do(b, b.Look(ctx, kind))
		var missing *platform.MissingError
		if err == nil || !errors.As(err, &missing) && !errors.Is(err, platform.ErrSensorCannot) {
			return err
		}
		last = err
	}
	if last == nil {
		last = platform.ErrSensorCannot
	}
	return last
}

// explain words an error of a backend.
func explain(ctx context.Context, err error) error {
	var coded *capabilities.Error
	var missing *platform.MissingError
	var none *platform.NoSensorError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &coded):
		return coded
	case errors.As(err, &none):
		return noSensor(none)
	case errors.As(err, &missing) && missing.Permission:
		return capabilities.Errorf(capabilities.CodeSensorRefused, "%s", missing.What).WithHint(missing.Fix)
	case errors.As(err, &missing):
		return capabilities.Errorf(capabilities.CodeNotSupported, "%s", missing.What).WithHint(missing.Fix)
	case errors.Is(err, platform.ErrNoSensor):
		return capabilities.Wrap(capabilities.CodeSensorMissing, err, "")
	case errors.Is(err, platform.ErrSensorBusy):
		return capabilities.Wrap(capabilities.CodeSensorBusy, err, "")
	case errors.Is(err, platform.ErrSensorRefused):
		return capabilities.Wrap(capabilities.CodeSensorRefused, err, "")
	case errors.Is(err, platform.ErrSensorCannot):
		return capabilities.Wrap(capabilities.CodeFormatUnsupported, err, "")
	case errors.Is(err, platform.ErrSensorLost):
		return capabilities.Wrap(capabilities.CodeCaptureBroken, err, "")
	}
	return capabilities.Wrap(capabilities.CodeExecutionFailed, err, "")
}

// noSensor says what there is instead of the device that was asked for.
func noSensor(e *platform.NoSensorError) error {
	if len(e.Have) == 0 {
		return capabilities.Errorf(capabilities.CodeSensorMissing, "No %s is connected to this device.", e.Kind).
			WithHint("Connect one, or choose another node.")
	}
	names := make([]string, 0, maxDevices)
	for _, d := range e.Have[:min(len(e.Have), maxDevices)] {
		names = append(names, d.ID)
	}
	hint := "Give one of these as device_id, or leave it out: " + strings.Join(names, ", ") + "."
	if e.Device != "" {
		return capabilities.Errorf(capabilities.CodeSensorMissing, "No %s of this device has that device_id.", e.Kind).WithHint(hint)
	}
	way := "looks at the person"
	if e.Facing == platform.FacingEnvironment {
		way = "looks away from the person"
	}
	return capabilities.Errorf(capabilities.CodeSensorMissing, "Of no camera of this device is it known that it %s.", way).WithHint(hint)
}

// named is a device as results tell it.
type named struct {
	ID     string          `json:"id"`
	Label  string          `json:"label,omitempty"`
	Facing platform.Facing `json:"facing_mode,omitempty"`
}

func name(d platform.SensorDevice) named { return named{d.ID, d.Label, d.Facing} }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
