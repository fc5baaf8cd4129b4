//go:build !linux

package camera

import (
	"context"

	"github.com/handrail-dev/handrail/platform"
)

var missing = &platform.MissingError{
	What: "There is no Video4Linux on this system.", Fix: "Install Chrome or Chromium: cameras are used by it here.",
}

// Look says that it is not there.
func (b *Backend) Look(context.Context, platform.SensorKind) platform.SensorLook {
	return platform.SensorLook{Missing: missing}
}

// List does not know the cameras of this system.
func (b *Backend) List() (list []platform.SensorDevice, ok bool) { return nil, false }

// Photo says that it is not there.
func (b *Backend) Photo(context.Context, platform.PhotoOrder) (platform.Photo, error) {
	return platform.Photo{}, missing
}
