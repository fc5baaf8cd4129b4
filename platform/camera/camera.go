package camera

import (
	"context"
	"log/slog"

	"github.com/handrail-dev/handrail/platform"
)

// Options of New.
type Options struct {
	Log *slog.Logger // default: discards
	// root is what /sys and /dev are below, for tests.
	root string
}

// Backend implements platform.Sensors for the photos of cameras.
type Backend struct {
	o   Options
	log *slog.Logger
}

var _ platform.Sensors = (*Backend)(nil)

// New makes a Backend; it opens nothing.
func New(o Options) *Backend {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Backend{o: o, log: o.Log}
}

// Gives reports true for photos.
func (b *Backend) Gives(kind platform.SensorKind, format platform.MediaFormat) bool {
	return kind == platform.SensorCamera && format == platform.FormatPhoto
}

// Record is not what it does.
func (b *Backend) Record(context.Context, platform.RecordOrder) (platform.Recording, error) {
	return platform.Recording{}, platform.ErrSensorCannot
}

// Rest has nothing to end: a photo ends with its call.
func (b *Backend) Rest() {}

// Close has nothing to end.
func (b *Backend) Close() error { return nil }
