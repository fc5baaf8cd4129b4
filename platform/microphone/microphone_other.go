//go:build !linux

package microphone

import (
	"context"

	"github.com/handrail-dev/handrail/platform"
)

type backend struct{}

var missing = &platform.MissingError{
	What: "There is no PulseAudio on this system.", Fix: "Install Chrome or Chromium: sound is recorded with it here.",
}

// Look says that it is not there.
func (b *Backend) Look(context.Context, platform.SensorKind) platform.SensorLook {
	return platform.SensorLook{Missing: missing}
}

// Photo is not what it does.
func (b *Backend) Photo(context.Context, platform.PhotoOrder) (platform.Photo, error) {
	return platform.Photo{}, platform.ErrSensorCannot
}

// Record says that it is not there.
func (b *Backend) Record(context.Context, platform.RecordOrder) (platform.Recording, error) {
	return platform.Recording{}, missing
}

// Rest has nothing to end.
func (b *Backend) Rest() {}

// Close has nothing to end.
func (b *Backend) Close() error { return nil }

// List does not know the microphones of this system.
func (b *Backend) List(context.Context) (list []platform.SensorDevice, ok bool) { return nil, false }
