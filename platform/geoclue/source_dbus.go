//go:build unix && !darwin

package geoclue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/platform"
)

const (
	service   = "org.freedesktop.GeoClue2"
	manager   = service + ".Manager"
	client    = service + ".Client"
	location  = service + ".Location"
	rootPath  = dbus.ObjectPath("/org/freedesktop/GeoClue2/Manager")
	desktopID = "handrail" // what the person's settings and geoclue.conf know us by

	// agentWait bounds the wait for the session's agent: GeoClue holds the call until
	// one registers, or for a minute.
	agentWait = 3 * time.Second
)

// Accuracy levels of GeoClue.
const (
	levelStreet uint32 = 6
	levelExact  uint32 = 8
)

// Source is GeoClue as a platform.Locator. The zero value is the system's.
type Source struct {
	Bus string // address of the system bus; default: as the environment says
}

// Name implements platform.Locator.
func (s *Source) Name() string { return "geoclue" }

func (s *Source) dial(ctx context.Context) (*dbus.Conn, error) {
	address := s.Bus
	if address == "" {
		address = os.Getenv("DBUS_SYSTEM_BUS_ADDRESS")
	}
	if address == "" {
		address = "unix:path=/run/dbus/system_bus_socket"
	}
	conn, err := dbus.Dial(address, dbus.WithContext(ctx))
	if err == nil {
		if err = conn.Auth(nil); err == nil {
			err = conn.Hello()
		}
		if err != nil {
			_ = conn.Close()
		}
	}
	if err != nil && ctx.Err() != nil {
		return nil, platform.ErrNoFix
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%v)", &platform.MissingError{
			What: "There is no system bus to reach GeoClue by.", Fix: "Start D-Bus, " + platform.OrFixed,
		}, err)
	}
	return conn, nil
}

var notInstalled = platform.MissingError{
	What: "GeoClue is not installed.", Fix: "Install it (Debian: apt-get install geoclue-2.0), " + platform.OrFixed,
}

// Usable implements platform.Locator: whether the service is there or can be started.
func (s *Source) Usable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, list := range []string{"ListActivatableNames", "ListNames"} {
		var names []string
		if err := conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus."+list, 0).Store(&names); err != nil {
			return fmt.Errorf("geoclue: %w", err)
		}
		if slices.Contains(names, service) {
			return nil
		}
	}
	missing := notInstalled
	return &missing
}

// Locate implements platform.Locator. A call is a connection of its own: with it ends
// what GeoClue did for us.
func (s *Source) Locate(ctx context.Context, precise bool, since time.Time) (platform.Position, error) {
	var none platform.Position
	conn, err := s.dial(ctx)
	if err != nil {
		return none, err
	}
	defer conn.Close()
	path, err := getClient(ctx, conn)
	if err != nil {
		return none, err
	}
	c := conn.Object(service, path)
	level := levelStreet
	if precise {
		level = levelExact
	}
	for name, value := range map[string]any{"DesktopId": desktopID, "RequestedAccuracyLevel": level, "DistanceThreshold": uint32(0)} {
		if err := c.CallWithContext(ctx, "org.freedesktop.DBus.Properties.Set", 0, client, name, dbus.MakeVariant(value)).Err; err != nil {
			return none, told(ctx, err)
		}
	}
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	if err := conn.AddMatchSignalContext(ctx, dbus.WithMatchObjectPath(path), dbus.WithMatchInterface(client),
		dbus.WithMatchMember("LocationUpdated")); err != nil {
		return none, told(ctx, err)
	}
	if err := c.CallWithContext(ctx, client+".Start", 0).Err; err != nil {
		return none, told(ctx, err)
	}
	for {
		select {
		case <-ctx.Done():
			return none, platform.ErrNoFix
		case sig, ok := <-signals:
			if !ok {
				return none, told(ctx, errors.New("the connection ended"))
			}
			if sig.Path != path || len(sig.Body) != 2 {
				continue
			}
			at, ok := sig.Body[1].(dbus.ObjectPath)
			if !ok || at == "/" {
				continue
			}
			p, err := read(ctx, conn, at)
			if err != nil {
				return none, told(ctx, err)
			}
			if p.At.Before(since) {
				continue // of before: the next one is on its way
			}
			return p, nil
		}
	}
}

// getClient asks for our client object, which takes an agent.
func getClient(ctx context.Context, conn *dbus.Conn) (dbus.ObjectPath, error) {
	bound, cancel := context.WithTimeout(ctx, agentWait)
	defer cancel()
	var path dbus.ObjectPath
	err := conn.Object(service, rootPath).CallWithContext(bound, manager+".GetClient", 0).Store(&path)
	if err != nil && bound.Err() != nil && ctx.Err() == nil {
		return "", platform.ErrNoLocationAgent
	}
	return path, told(ctx, err)
}

// told turns an error of the bus into one that says what is in the way.
func told(ctx context.Context, err error) error {
	var refused dbus.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return platform.ErrNoFix
	case errors.As(err, &refused) && refused.Name == "org.freedesktop.DBus.Error.AccessDenied":
		return fmt.Errorf("%w (%v)", platform.ErrLocationRefused, err)
	case errors.As(err, &refused) &&
		(refused.Name == "org.freedesktop.DBus.Error.ServiceUnknown" || refused.Name == "org.freedesktop.DBus.Error.NameHasNoOwner"):
		missing := notInstalled
		return fmt.Errorf("%w (%v)", &missing, err)
	case errors.As(err, &refused) &&
		(refused.Name == "org.freedesktop.DBus.Error.NoReply" || refused.Name == "org.freedesktop.DBus.Error.Timeout"):
		return fmt.Errorf("%w (%v)", platform.ErrNoLocationAgent, err)
	}
	return fmt.Errorf("geoclue: %w", err)
}

// read takes the properties of one location object.
func read(ctx context.Context, conn *dbus.Conn, at dbus.ObjectPath) (platform.Position, error) {
	var all map[string]dbus.Variant
	if err := conn.Object(service, at).CallWithContext(ctx, "org.freedesktop.DBus.Properties.GetAll", 0, location).Store(&all); err != nil {
		return platform.Position{}, err
	}
	number := func(name string) float64 {
		f, ok := all[name].Value().(float64)
		if !ok {
			return math.NaN()
		}
		return f
	}
	// Unknown is the least number for the altitude, and less than nothing for the rest.
	known := func(name string, least float64) *float64 {
		f := number(name)
		if math.IsNaN(f) || f < least {
			return nil
		}
		return &f
	}
	p := platform.Position{
		Latitude: number("Latitude"), Longitude: number("Longitude"), Accuracy: number("Accuracy"),
		Altitude: known("Altitude", -math.MaxFloat32), Heading: known("Heading", 0), Speed: known("Speed", 0), At: time.Now(),
	}
	if stamp, ok := all["Timestamp"].Value().([]any); ok && len(stamp) == 2 {
		sec, _ := stamp[0].(uint64)
		usec, _ := stamp[1].(uint64)
		if sec > 0 && sec < math.MaxInt32*8 && usec < 1_000_000 {
			p.At = time.Unix(int64(sec), int64(usec)*1000)
		}
	}
	return p, nil
}
