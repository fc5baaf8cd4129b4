package darwin

import (
	"math"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// Values of CLAuthorizationStatus.
const (
	statusUndecided  = 0
	statusRestricted = 1
	statusDenied     = 2
)

// errorDenied is kCLErrorDenied: the person refuses.
const errorDenied = 1

//lint:file-ignore U1000 used in files for macOS only

// Values of CLLocationAccuracy that are asked for, in metres.
const (
	accuracyBest   = -1.0 // kCLLocationAccuracyBest
	accuracyStreet = 100  // kCLLocationAccuracyHundredMeters
)

// permitted returns what an authorization is in the way of a position; nil if it is
// not: an undecided one is asked about when a position is.
func permitted(status int32) error {
	if status == statusRestricted || status == statusDenied {
		return lacks(locationServices)
	}
	return nil
}

// failing returns what a failure means; nil for one after which CoreLocation goes on
// looking, as it does without a network.
func failing(code int) error {
	if code == errorDenied {
		return lacks(locationServices)
	}
	return nil
}

// unanswered returns what it means that no position came in time: of a question that
// the person was asked and did not answer, that they have not allowed it.
func unanswered(status int32) error {
	if status == statusUndecided {
		return lacks(locationServices)
	}
	return platform.ErrNoFix
}

// sighting is what a CLLocation says: degrees, metres, metres a second, seconds
// since 1970. Less than nothing is unknown, but in degrees and altitudes.
type sighting struct {
	latitude, longitude, horizontal float64
	altitude, vertical              float64
	course, speed                   float64
	at                              float64
}

// position translates it; ok is false for one without a place.
func (r sighting) position() (p platform.Position, ok bool) {
	if !(r.horizontal >= 0) || math.IsNaN(r.latitude) || math.IsNaN(r.longitude) {
		return platform.Position{}, false
	}
	known := func(f float64, is bool) *float64 {
		if !is || math.IsNaN(f) {
			return nil
		}
		return &f
	}
	p = platform.Position{
		Latitude: r.latitude, Longitude: r.longitude, Accuracy: r.horizontal,
		Altitude: known(r.altitude, r.vertical > 0), AltitudeAccuracy: known(r.vertical, r.vertical > 0),
		Heading: known(r.course, r.course >= 0), Speed: known(r.speed, r.speed >= 0), At: time.Now(),
	}
	if r.at > 0 && r.at < math.MaxInt32*8 {
		whole, part := math.Modf(r.at)
		p.At = time.Unix(int64(whole), int64(part*1e9))
	}
	return p, true
}
