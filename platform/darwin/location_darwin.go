package darwin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"

	"github.com/handrail-dev/handrail/platform"
)

const coreLocation = "/System/Library/Frameworks/CoreLocation.framework/CoreLocation"

// place is CLLocationCoordinate2D.
type place struct{ latitude, longitude float64 }

// asker is what is handed on of one manager's messages; who does not keep up
// loses some.
type asker struct {
	sightings chan sighting
	failures  chan error
}

func (l *asker) fail(err error) {
	if err == nil {
		return
	}
	select {
	case l.failures <- err:
	default:
	}
}

// askers are those of the delegates in use, by delegate (objc.ID, *asker).
var askers sync.Map

// delegates makes the class of the objects that CoreLocation tells of positions, once.
var delegates = sync.OnceValues(func() (objc.Class, error) {
	if _, err := purego.Dlopen(coreLocation, purego.RTLD_NOW|purego.RTLD_GLOBAL); err != nil {
		return 0, fmt.Errorf("darwin: %w", err)
	}
	return objc.RegisterClass("HandrailLocationDelegate", objc.GetClass("NSObject"), nil, nil, []objc.MethodDef{
		{Cmd: sel("locationManager:didUpdateLocations:"), Fn: func(self objc.ID, _ objc.SEL, _, locations objc.ID) {
			if l, ok := askers.Load(self); ok {
				select {
				case l.(*asker).sightings <- sight(locations.Send(sel("lastObject"))):
				default:
				}
			}
		}},
		{Cmd: sel("locationManager:didFailWithError:"), Fn: func(self objc.ID, _ objc.SEL, _, err objc.ID) {
			if l, ok := askers.Load(self); ok {
				l.(*asker).fail(failing(objc.Send[int](err, sel("code"))))
			}
		}},
	})
})

func sel(name string) objc.SEL { return objc.RegisterName(name) }

// sight takes what a CLLocation says.
func sight(at objc.ID) sighting {
	if at == 0 {
		return sighting{horizontal: -1}
	}
	p := objc.Send[place](at, sel("coordinate"))
	return sighting{
		latitude: p.latitude, longitude: p.longitude, horizontal: objc.Send[float64](at, sel("horizontalAccuracy")),
		altitude: objc.Send[float64](at, sel("altitude")), vertical: objc.Send[float64](at, sel("verticalAccuracy")),
		course: objc.Send[float64](at, sel("course")), speed: objc.Send[float64](at, sel("speed")),
		at: objc.Send[float64](at.Send(sel("timestamp")), sel("timeIntervalSince1970")),
	}
}

// Locator asks CoreLocation where the device is. It implements platform.Locator.
type Locator struct{}

var _ platform.Locator = Locator{}

// Name implements platform.Locator.
func (Locator) Name() string { return "corelocation" }

// open finds what is needed.
func (Locator) open() (*api, objc.Class, error) {
	a, err := load()
	if err != nil {
		return nil, 0, noLocation(err)
	}
	class, err := delegates()
	if err != nil {
		return nil, 0, noLocation(err)
	}
	return a, class, nil
}

func noLocation(err error) error {
	return &platform.MissingError{
		What: "This macOS has no CoreLocation: " + err.Error() + ".", Fix: platform.Fixed,
	}
}

// authorization is the person's word about this program, as CLAuthorizationStatus.
func authorization() int32 {
	return objc.Send[int32](objc.ID(objc.GetClass("CLLocationManager")), sel("authorizationStatus"))
}

// Usable implements platform.Locator: whether the person lets this program know. It
// asks the person nothing.
func (l Locator) Usable(ctx context.Context) error {
	a, _, err := l.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	told := make(chan error, 1)
	go func() { // the system may take its time over the first answer
		a.pooled(func() {
			if !objc.Send[bool](objc.ID(objc.GetClass("CLLocationManager")), sel("locationServicesEnabled")) {
				told <- lacks(locationServices)
				return
			}
			told <- permitted(authorization())
		})
	}()
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return fmt.Errorf("darwin: CoreLocation does not answer: %w", ctx.Err())
	}
}

// Locate implements platform.Locator. The person is asked when a program first does
// this; until they answer there is no position.
func (l Locator) Locate(ctx context.Context, precise bool, since time.Time) (platform.Position, error) {
	var none platform.Position
	a, class, err := l.open()
	if err != nil {
		return none, err
	}
	if err := l.Usable(ctx); err != nil {
		if ctx.Err() != nil {
			return none, platform.ErrNoFix
		}
		return none, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard := &asker{sightings: make(chan sighting, 16), failures: make(chan error, 1)}
	var manager, delegate objc.ID
	accuracy := float64(accuracyStreet)
	if precise {
		accuracy = accuracyBest
	}
	set := func(ref) error {
		a.pooled(func() {
			delegate = objc.ID(class).Send(sel("new"))
			manager = objc.ID(objc.GetClass("CLLocationManager")).Send(sel("new"))
			askers.Store(delegate, heard)
			manager.Send(sel("setDelegate:"), delegate)
			manager.Send(sel("setDesiredAccuracy:"), accuracy)
			if ask := sel("requestWhenInUseAuthorization"); objc.Send[bool](manager, sel("respondsToSelector:"), ask) {
				manager.Send(ask) // since macOS 10.15
			}
			manager.Send(sel("startUpdatingLocation"))
		})
		return nil
	}
	clean := func(ref) {
		a.pooled(func() {
			manager.Send(sel("stopUpdatingLocation"))
			manager.Send(sel("setDelegate:"), objc.ID(0))
			manager.Send(sel("release"))
			askers.Delete(delegate)
			delegate.Send(sel("release"))
		})
	}
	if err := a.looped(ctx, set, func() { heard.fail(permitted(authorization())) }, clean); err != nil {
		return none, err
	}
	for {
		select {
		case <-ctx.Done():
			return none, unanswered(authorization())
		case err := <-heard.failures:
			return none, err
		case r := <-heard.sightings:
			if p, ok := r.position(); ok && !p.At.Before(since) {
				return p, nil
			}
		}
	}
}
