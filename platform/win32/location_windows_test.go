package win32

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/handrail-dev/handrail/platform"
)

// fakeRuntime is the location service as its documentation has it.
type fakeRuntime struct {
	*fakeUIA

	mu        sync.Mutex
	access    int32 // DeviceAccessStatus
	status    int32 // PositionStatus
	start     uintptr
	outcome   int32  // AsyncStatus that an operation comes to
	code      uint32 // and why
	looks     int    // until it does
	stale     int    // positions that are of before
	asked     int
	age, left int64 // of the latest question, in units of 100 ns
	precise   bool
	cancelled int
	closed    int
}

var asked = time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC)

// fractions are what references hold; the pairs tell which.
var fractions = map[string]float64{"get_Altitude": 35.5, "get_AltitudeAccuracy": 4, "get_Heading": math.NaN()}

func newFakeRuntime(t *testing.T) *fakeRuntime {
	f := &fakeRuntime{fakeUIA: &fakeUIA{t: t, tables: map[string][]uintptr{}, objects: map[uintptr]*fakeObject{}, put: map[string]uintptr{}}, access: 1, status: 4, outcome: 1}
	order, ids := runtimeOrder(t)
	made := map[string]fakeMethod{}
	locked := func(do fakeMethod) fakeMethod {
		return func(o *fakeObject, a, b, c uintptr) uintptr {
			f.mu.Lock()
			defer f.mu.Unlock()
			return do(o, a, b, c)
		}
	}
	for of, as := range map[string]string{"IActivationFactory": "", "IGeolocator": "IGeolocator", "IAsyncOperation": "IAsyncInfo"} {
		made[of+".QueryInterface"] = func(o *fakeObject, id, out, _ uintptr) uintptr {
			if as == "" || *at[windows.GUID](id) != guid(ids[as]) {
				return 0x80004002
			}
			return write(out, f.object(as, o.node))
		}
	}
	give := func(of string) fakeMethod {
		return func(_ *fakeObject, out, _, _ uintptr) uintptr { return write(out, f.object(of, nil)) }
	}
	made["IActivationFactory.ActivateInstance"] = give("IGeolocator")
	made["IDeviceAccessInformationStatics.CreateFromDeviceClass"] = func(_ *fakeObject, class, out, _ uintptr) uintptr {
		if class != 6 {
			t.Errorf("device class %d", class)
		}
		return write(out, f.object("IDeviceAccessInformation", nil))
	}
	made["IDeviceAccessInformation.get_CurrentStatus"] = locked(func(_ *fakeObject, out, _, _ uintptr) uintptr { return write(out, f.access) })
	made["IGeolocator.put_DesiredAccuracy"] = locked(func(_ *fakeObject, a, _, _ uintptr) uintptr { f.precise = a == 1; return 0 })
	made["IGeolocator.get_LocationStatus"] = locked(func(_ *fakeObject, out, _, _ uintptr) uintptr { return write(out, f.status) })
	made["IGeolocator.GetGeopositionAsyncWithAgeAndTimeout"] = locked(func(_ *fakeObject, age, left, out uintptr) uintptr {
		f.asked++
		f.age, f.left = int64(age), int64(left)
		if f.start != 0 {
			return f.start
		}
		return write(out, f.object("IAsyncOperation", nil))
	})
	made["IAsyncInfo.get_Status"] = locked(func(_ *fakeObject, out, _, _ uintptr) uintptr {
		if f.looks > 0 {
			f.looks--
			return write(out, int32(0))
		}
		return write(out, f.outcome)
	})
	made["IAsyncInfo.get_ErrorCode"] = locked(func(_ *fakeObject, out, _, _ uintptr) uintptr { return write(out, f.code) })
	made["IAsyncInfo.Cancel"] = locked(func(*fakeObject, uintptr, uintptr, uintptr) uintptr { f.cancelled++; return 0 })
	made["IAsyncInfo.Close"] = locked(func(*fakeObject, uintptr, uintptr, uintptr) uintptr { f.closed++; return 0 })
	made["IAsyncOperation.GetResults"] = give("IGeoposition")
	made["IGeoposition.get_Coordinate"] = give("IGeocoordinate")
	for name, v := range map[string]float64{"get_Latitude": 48.8566, "get_Longitude": 2.3522, "get_Accuracy": 12} {
		made["IGeocoordinate."+name] = func(_ *fakeObject, out, _, _ uintptr) uintptr { return write(out, v) }
	}
	for name, v := range fractions {
		made["IGeocoordinate."+name] = func(_ *fakeObject, out, _, _ uintptr) uintptr {
			return write(out, f.object("IReference", &fakeNode{number: v}))
		}
	}
	made["IGeocoordinate.get_Speed"] = func(_ *fakeObject, out, _, _ uintptr) uintptr { return write[uintptr](out, 0) }
	made["IReference.get_Value"] = func(o *fakeObject, out, _, _ uintptr) uintptr { return write(out, o.node.number) }
	made["IGeocoordinate.get_Timestamp"] = locked(func(_ *fakeObject, out, _, _ uintptr) uintptr {
		at := asked
		if f.stale > 0 {
			f.stale--
			at = at.Add(-time.Hour)
		}
		return write(out, at.Unix()*10_000_000+116_444_736_000_000_000)
	})
	f.lay(order, made)
	return f
}

// source returns a Locator that asks this service.
func (f *fakeRuntime) source() *Locator {
	l := NewLocator()
	l.locator = func() (object, uint32) { return object(f.object("IActivationFactory", nil)), 0 }
	l.access = func() (object, uint32) { return object(f.object("IDeviceAccessInformationStatics", nil)), 0 }
	return l
}

func TestLocate(t *testing.T) {
	f := newFakeRuntime(t)
	l := f.source()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	f.looks, f.stale = 2, 1
	if err := l.Usable(ctx); err != nil {
		t.Fatal(err)
	}
	p, err := l.Locate(ctx, true, asked.Add(-time.Second))
	if err != nil || p.Latitude != 48.8566 || p.Longitude != 2.3522 || p.Accuracy != 12 || !p.At.Equal(asked) {
		t.Fatalf("%+v, %v", p, err)
	}
	if p.Altitude == nil || *p.Altitude != 35.5 || p.AltitudeAccuracy == nil || *p.AltitudeAccuracy != 4 || p.Heading != nil || p.Speed != nil {
		t.Errorf("%+v", p)
	}
	if !f.precise || f.asked != 2 || f.closed != 2 || f.left < 5*60*10_000_000 || f.left > 10*60*10_000_000 {
		t.Errorf("precise %v, asked %d times, closed %d, %d left", f.precise, f.asked, f.closed, f.left)
	}
	if left := f.leaks(); len(left) != 0 {
		t.Errorf("still held: %v", left)
	}

	for _, c := range []struct {
		what    string
		access  int32
		start   uintptr
		outcome int32
		code    uint32
		status  int32
		want    error // ErrNoFix, or none of the seam's
		missing bool
		refused bool
	}{
		{what: "the person refuses", access: 2, refused: true},
		{what: "the system refuses", access: 3, refused: true},
		{what: "it is off at the start", access: 1, start: 0x80070005, refused: true},
		{what: "it is off later", access: 1, outcome: 3, code: 0x80070005, refused: true},
		{what: "an error that its status explains", access: 1, outcome: 3, code: 0x8000FFFF, status: 3, refused: true},
		{what: "a stub", access: 1, start: 0x80004001, missing: true},
		{what: "no sensor", access: 1, outcome: 3, code: 0x8000FFFF, status: 5, missing: true},
		{what: "no fix", access: 1, outcome: 3, code: 0x800705B4, want: platform.ErrNoFix},
		{what: "no data", access: 1, outcome: 3, code: 0x8000FFFF, status: 2, want: platform.ErrNoFix},
		{what: "cancelled by the system", access: 1, outcome: 2, want: platform.ErrNoFix},
	} {
		f.mu.Lock()
		f.access, f.start, f.outcome, f.code, f.status = c.access, c.start, c.outcome, c.code, c.status
		f.mu.Unlock()
		_, err := l.Locate(ctx, false, time.Now())
		var m *platform.MissingError
		if missing := errors.As(err, &m); missing != (c.missing || c.refused) || missing && m.Permission != c.refused || c.want != nil && !errors.Is(err, c.want) || err == nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if err := l.Usable(ctx); (err != nil) != (c.access > 1) {
			t.Errorf("%s: usable: %v", c.what, err)
		}
		if left := f.leaks(); len(left) != 0 {
			t.Errorf("%s: still held: %v", c.what, left)
		}
	}

	// A caller who gives it up has an answer, and the service is told.
	f.mu.Lock()
	f.access, f.start, f.outcome, f.status = 1, 0, 0, 1
	before := f.asked
	f.mu.Unlock()
	given := func(begun func() bool) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		answer := make(chan error, 1)
		go func() {
			_, err := l.Locate(ctx, false, time.Now())
			answer <- err
		}()
		await(t, "it is under way", begun)
		cancel()
		if err := <-answer; !errors.Is(err, platform.ErrNoFix) {
			t.Errorf("%v", err)
		}
	}
	given(func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.asked > before
	})
	await(t, "the service is told that nobody waits", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.cancelled == 1
	})
	await(t, "everything is let go", func() bool { return len(f.leaks()) == 0 })

	// A service that hangs holds up nobody, and not ever more threads.
	hang := make(chan struct{})
	defer close(hang)
	var begun atomic.Int32
	l.access = func() (object, uint32) { begun.Add(1); <-hang; return 0, resultNoClass }
	for i := range maxLocating {
		given(func() bool { return int(begun.Load()) > i })
	}
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := l.Locate(short, false, time.Now()); !errors.Is(err, platform.ErrNoFix) || begun.Load() != maxLocating {
		t.Errorf("%v; %d under way", err, begun.Load())
	}
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Error("times are handed over in one word of 64 bits")
	}
}

// This Windows has a service, or the error says exactly what is missing.
func TestOwnLocation(t *testing.T) {
	l := NewLocator()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	usable := l.Usable(ctx)
	_, err := l.Locate(ctx, false, time.Now().Add(-time.Hour))
	var m *platform.MissingError
	if err != nil && !errors.Is(err, platform.ErrNoFix) && (!errors.As(err, &m) || m.Fix == "") {
		t.Errorf("%v", err)
	}
	if usable != nil && (!errors.As(usable, &m) || !strings.Contains(m.Fix, "location.fixed")) {
		t.Errorf("%v", usable)
	}
	t.Logf("usable: %v; location: %v", usable, err)
}
