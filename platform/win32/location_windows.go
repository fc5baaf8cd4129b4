package win32

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/handrail-dev/handrail/platform"
)

var (
	combase = windows.NewLazySystemDLL("combase.dll")

	procGetActivationFactory = combase.NewProc("RoGetActivationFactory")
	procCreateString         = combase.NewProc("WindowsCreateString")
	procDeleteString         = combase.NewProc("WindowsDeleteString")
)

const (
	usableWait  = time.Second            // for what readiness asks
	asyncLook   = 5 * time.Millisecond   // between two looks at an answer under way
	askAgain    = 250 * time.Millisecond // after a position of before
	maxLocating = 4                      // calls under way at once, those given up counted
)

// ask calls a method of an interface of Windows Runtime, and returns its HRESULT. Of memory behind
// args holds what call says.
//
//go:uintptrescapes
func (o object) ask(m int, args ...uintptr) uint32 {
	if o == 0 {
		return resultNoInterface
	}
	table := *at[uintptr](uintptr(o))
	hr, _, _ := syscall.SyscallN(*at[uintptr](table + runtimeMethods[m].slot*unsafe.Sizeof(table)), append([]uintptr{uintptr(o)}, args...)...)
	return uint32(hr)
}

// as returns the object's interface of that ID; release it.
func (o object) as(id string) (object, uint32) {
	if o == 0 {
		return 0, resultNoInterface
	}
	i := guid(id)
	var to object
	hr, _, _ := syscall.SyscallN(o.function(unknownQuery), uintptr(o), uintptr(unsafe.Pointer(&i)), uintptr(unsafe.Pointer(&to)))
	return to, uint32(hr)
}

// factory returns what makes objects of a class of Windows Runtime, by the interface
// of that ID; release it. The thread is in an apartment.
func factory(class, as string) (object, uint32) {
	for _, p := range []*windows.LazyProc{procGetActivationFactory, procCreateString, procDeleteString} {
		if p.Find() != nil {
			return 0, resultNoProcedure // Windows 7
		}
	}
	units, err := windows.UTF16FromString(class)
	if err != nil {
		return 0, resultBadArgument
	}
	var name uintptr
	if hr, _, _ := procCreateString.Call(uintptr(unsafe.Pointer(&units[0])), uintptr(len(units)-1),
		uintptr(unsafe.Pointer(&name))); uint32(hr) != 0 {
		return 0, uint32(hr)
	}
	defer procDeleteString.Call(name)
	i := guid(as)
	var o object
	hr, _, _ := procGetActivationFactory.Call(name, uintptr(unsafe.Pointer(&i)), uintptr(unsafe.Pointer(&o)))
	return o, uint32(hr)
}

// Locator asks Windows where the device is. It implements platform.Locator.
type Locator struct {
	calls chan struct{} // a token for each call under way
	// How the system's objects are found; release them.
	locator, access func() (object, uint32) // IActivationFactory, IDeviceAccessInformationStatics
}

var _ platform.Locator = (*Locator)(nil)

// NewLocator returns a Locator; it asks for nothing yet.
func NewLocator() *Locator {
	return &Locator{
		calls:   make(chan struct{}, maxLocating),
		locator: func() (object, uint32) { return factory(classGeolocator, idActivationFactory) },
		access:  func() (object, uint32) { return factory(classAccess, idAccessStatics) },
	}
}

// Name implements platform.Locator.
func (*Locator) Name() string { return "geolocator" }

// Usable implements platform.Locator: whether there is a service, and the person
// lets this program use it. It asks the person nothing.
func (l *Locator) Usable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, usableWait)
	defer cancel()
	_, err := apart(ctx, l.calls, func() (struct{}, error) {
		maker, hr := l.locator()
		maker.release()
		if err := locationError(classGeolocator, hr); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, l.allowed()
	})
	return err
}

// Locate implements platform.Locator.
func (l *Locator) Locate(ctx context.Context, precise bool, since time.Time) (platform.Position, error) {
	p, err := apart(ctx, l.calls, func() (platform.Position, error) { return l.locate(ctx, precise, since) })
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = platform.ErrNoFix
	}
	return p, err
}

// apart has work done on a thread of the multithreaded apartment, and waits for it
// until ctx ends: what hangs in the system then holds up nobody.
func apart[T any](ctx context.Context, calls chan struct{}, work func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	var none T
	select {
	case calls <- struct{}{}:
	case <-ctx.Done():
		return none, fmt.Errorf("win32: the location service does not answer: %w", ctx.Err())
	}
	done := make(chan answer, 1)
	go func() {
		defer func() { <-calls }()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := enter(); err != nil {
			done <- answer{err: err}
			return
		}
		defer windows.CoUninitialize()
		v, err := work()
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
		return none, fmt.Errorf("win32: the location service does not answer: %w", ctx.Err())
	}
}

// allowed says that the person or an administrator refuses; nil, too, where Windows
// does not tell.
func (l *Locator) allowed() error {
	statics, hr := l.access()
	defer statics.release()
	if hr != 0 {
		return nil
	}
	var info object
	if hr := statics.ask(accessOfClass, deviceLocation, uintptr(unsafe.Pointer(&info))); hr != 0 {
		return nil
	}
	defer info.release()
	var status int32
	if hr := info.ask(accessStatus, uintptr(unsafe.Pointer(&status))); hr != 0 {
		return nil
	}
	return accessError(status)
}

// locate is Locate on a thread of the apartment.
func (l *Locator) locate(ctx context.Context, precise bool, since time.Time) (platform.Position, error) {
	var none platform.Position
	if err := l.allowed(); err != nil {
		return none, err
	}
	maker, hr := l.locator()
	defer maker.release()
	if err := locationError(classGeolocator, hr); err != nil {
		return none, err
	}
	var made object
	if err := locationError("ActivateInstance", maker.ask(factoryActivate, uintptr(unsafe.Pointer(&made)))); err != nil {
		return none, err
	}
	defer made.release()
	locator, hr := made.as(idGeolocator)
	defer locator.release()
	if err := locationError("QueryInterface", hr); err != nil {
		return none, err
	}
	accuracy := uintptr(accuracyDefault)
	if precise {
		accuracy = accuracyHigh
	}
	locator.ask(locatorPutAccuracy, accuracy) // one that does not take it gives a position, too
	for {
		p, err := next(ctx, locator, since)
		if odd := (*ResultError)(nil); errors.As(err, &odd) || errors.Is(err, platform.ErrNoFix) {
			// Its status may say why.
			var status int32
			if locator.ask(locatorStatus, uintptr(unsafe.Pointer(&status))) == 0 {
				if why := statusError(status); why != nil {
					err = why
				}
			}
		}
		if err != nil {
			return none, err
		}
		if !p.At.Before(since) {
			return p, nil
		}
		select {
		case <-ctx.Done():
			return none, platform.ErrNoFix
		case <-time.After(askAgain):
		}
	}
}

// next waits for one position, which may be as old as since.
func next(ctx context.Context, locator object, since time.Time) (platform.Position, error) {
	var none platform.Position
	left := time.Hour
	if end, ok := ctx.Deadline(); ok {
		left = time.Until(end)
	}
	var operation object
	hr := locator.ask(locatorPosition, uintptr(span(time.Since(since))), uintptr(span(left)), uintptr(unsafe.Pointer(&operation)))
	if err := locationError("GetGeopositionAsync", hr); err != nil {
		return none, err
	}
	defer operation.release()
	info, hr := operation.as(idAsyncInfo)
	if err := locationError("QueryInterface", hr); err != nil {
		return none, err
	}
	defer info.release()
	defer info.ask(asyncClose)
	look := time.NewTicker(asyncLook)
	defer look.Stop()
	for {
		var status int32
		if err := locationError("get_Status", info.ask(asyncStatus, uintptr(unsafe.Pointer(&status)))); err != nil {
			return none, err
		}
		switch status {
		case asyncStarted:
		case asyncCompleted:
			var position object
			if err := locationError("GetResults", operation.ask(operationResults, uintptr(unsafe.Pointer(&position)))); err != nil {
				return none, err
			}
			defer position.release()
			return readPosition(position)
		case asyncFailed:
			var code uint32
			hr := info.ask(asyncErrorCode, uintptr(unsafe.Pointer(&code)))
			if hr == 0 {
				hr = code
			}
			if err := locationError("GetGeopositionAsync", hr); err != nil {
				return none, err
			}
			return none, platform.ErrNoFix
		default: // asyncCanceled
			return none, platform.ErrNoFix
		}
		select {
		case <-ctx.Done():
			info.ask(asyncCancel)
			return none, platform.ErrNoFix
		case <-look.C:
		}
	}
}

// readPosition takes what a Geoposition says.
func readPosition(position object) (platform.Position, error) {
	var c object
	if err := locationError("get_Coordinate", position.ask(positionCoordinate, uintptr(unsafe.Pointer(&c)))); err != nil {
		return platform.Position{}, err
	}
	defer c.release()
	number := func(m int) float64 {
		var f float64
		if c.ask(m, uintptr(unsafe.Pointer(&f))) != 0 {
			return math.NaN()
		}
		return f
	}
	reference := func(m int) *float64 {
		var r object
		if c.ask(m, uintptr(unsafe.Pointer(&r))) != 0 || r == 0 {
			return nil
		}
		defer r.release()
		var f float64
		hr := r.ask(referenceValue, uintptr(unsafe.Pointer(&f)))
		return known(f, hr == 0)
	}
	p := platform.Position{
		Latitude: number(coordinateLatitude), Longitude: number(coordinateLongitude), Accuracy: number(coordinateAccuracy),
		Altitude: reference(coordinateAltitude), AltitudeAccuracy: reference(coordinateAltitudeAccuracy),
		Heading: reference(coordinateHeading), Speed: reference(coordinateSpeed), At: time.Now(),
	}
	var units int64
	if c.ask(coordinateTimestamp, uintptr(unsafe.Pointer(&units))) == 0 && units > 0 {
		p.At = moment(units)
	}
	return p, nil
}
