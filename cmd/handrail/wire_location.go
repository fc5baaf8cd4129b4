package main

import (
	"log/slog"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/location"
	"github.com/handrail-dev/handrail/platform"
)

// locationConfig is what node.json says about location.
type locationConfig struct {
	Enabled bool `json:"enabled"`
	// Fixed is where the device is, whatever the system's sources would say.
	Fixed *fixedPosition `json:"fixed,omitempty"`
}

// fixedPosition is a position as a person writes it down.
type fixedPosition struct {
	Latitude  float64  `json:"latitude"`
	Longitude float64  `json:"longitude"`
	Accuracy  float64  `json:"accuracy_m"`
	Altitude  *float64 `json:"altitude_m,omitempty"`
}

// openLocation makes the location family; nil if the owner does not offer it.
func openLocation(c locationConfig, log *slog.Logger) (capabilities.Handler, error) {
	if !c.Enabled {
		return nil, nil
	}
	from := localPosition()
	if f := c.Fixed; f != nil {
		if f.Latitude < -90 || f.Latitude > 90 || f.Longitude < -180 || f.Longitude > 180 || f.Accuracy < 0 {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest,
				"node.json: location.fixed needs latitude (-90 to 90), longitude (-180 to 180) and accuracy_m (at least 0)")
		}
		from = location.Fixed{
			Position: platform.Position{Latitude: f.Latitude, Longitude: f.Longitude, Accuracy: f.Accuracy, Altitude: f.Altitude},
		}
	}
	return location.New(location.Options{Locator: from, Log: log})
}
