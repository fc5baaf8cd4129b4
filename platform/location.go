package platform

import (
	"context"
	"time"
)

// Position is where the device is, as a source says.
type Position struct {
	Latitude  float64 // degrees, -90 to 90
	Longitude float64 // degrees, -180 to 180
	Accuracy  float64 // metres, at least 0: the radius that the device is within
	// Nil where the source does not know.
	Altitude         *float64 // metres
	AltitudeAccuracy *float64 // metres
	Heading          *float64 // degrees clockwise from north
	Speed            *float64 // metres a second
	At               time.Time
}

// LocationError says why there is no position.
type LocationError string

// Error returns the text.
func (e LocationError) Error() string { return string(e) }

// Reasons why a location cannot be had; sources wrap these, or return a *MissingError.
const (
	ErrNoLocationAgent LocationError = "no location agent answers for this session"
	ErrLocationRefused LocationError = "the person or the system refuses to give the position"
	ErrNoFix           LocationError = "no source knew the position in time"
)

// Locator is one source of positions. All methods are safe for concurrent use and
// bounded by ctx.
type Locator interface {
	// Name is what results call the source, such as "geoclue".
	Name() string
	// Usable says, quickly and without asking for a position, why there can be none;
	// nil if there may be one.
	Usable(ctx context.Context) error
	// Locate returns a position taken after since. It waits for one until ctx ends, and
	// is ErrNoFix then.
	Locate(ctx context.Context, precise bool, since time.Time) (Position, error)
}

// Fixed says how an owner tells a device where it is, for a device that nothing else tells;
// OrFixed is the same at the end of another fix.
const (
	Fixed   = "Set " + fixed
	OrFixed = "or set " + fixed

	fixed = `location.fixed in node/node.json, such as "fixed": {"latitude": 48.86, "longitude": 2.35, "accuracy_m": 20}, and restart the node.`
)
