package media

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities/browser/process"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/chrome"
	"github.com/handrail-dev/handrail/platform/procguard"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func newBackend(t *testing.T, o Options) *Backend {
	t.Helper()
	finder := chrome.New(chrome.Options{})
	found, err := finder.Find(t.Context())
	if err != nil {
		t.Fatalf("these tests need a real Chrome: %v", err)
	}
	o.Finder, o.Launcher, o.Fake = finder, procguard.New(procguard.Options{}), &Fake{}
	if found.NoSandbox != "" {
		o.Sandbox = process.SandboxOff
	}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// open asks the page itself how many captures hold a device.
func open(t *testing.T, b *Backend) (n int) {
	t.Helper()
	p, leave, err := b.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	var got struct{ Result struct{ Value int } }
	if err := p.browser.Call(t.Context(), "Runtime.evaluate", object{"expression": "running.size", "returnByValue": true}, &got); err != nil {
		t.Fatal(err)
	}
	return got.Result.Value
}

// A system that refuses a camera has a word of its own; and a page that was given no
// answer in time, because it hangs, loses its browser and so the device.
func TestRefusedAndHung(t *testing.T) {
	b := newBackend(t, Options{})
	order := platform.PhotoOrder{MIME: "image/jpeg", Quality: 0.9}
	if _, err := b.Photo(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	if n := open(t, b); n != 0 {
		t.Error(n, "captures hold a device after a photo")
	}
	p, leave, err := b.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	setting := func(to string) {
		t.Helper()
		if err := p.browser.CallBrowser(t.Context(), "Browser.setPermission", object{"origin": origin, "permission": object{"name": "camera"}, "setting": to}, nil); err != nil {
			t.Fatal(err)
		}
	}
	setting("denied")
	if _, err := b.Photo(t.Context(), order); !errors.Is(err, platform.ErrSensorRefused) {
		t.Error(err)
	}
	setting("granted")
	ctx, cancel := context.WithCancel(t.Context())
	began := false
	_, err = b.Record(ctx, platform.RecordOrder{
		Kind: platform.SensorMicrophone, Format: platform.FormatPCM, Duration: time.Hour, Write: func([]byte) error { return nil },
		Progress: func(time.Duration) {
			if !began {
				began = true
				p.browser.Send(ctx, "Runtime.evaluate", object{"expression": "for (;;) {}"})
				cancel()
			}
		},
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case <-p.browser.Gone():
	case <-time.After(30 * time.Second):
		t.Error("the page hangs, and still has the microphone")
	}
	leave()
	if _, err := b.Photo(t.Context(), order); err != nil {
		t.Error(err)
	}
}

// resting is a launcher that has b rest as soon as the browser was started.
type resting struct {
	platform.Launcher
	b *Backend
}

func (r resting) Start(ctx context.Context, c platform.Command) (platform.Process, error) {
	p, err := r.Launcher.Start(ctx, c)
	r.b.Rest()
	return p, err
}

// Rest also ends a browser that is not up yet, and the next use has one of its own.
func TestRestWhileItStarts(t *testing.T) {
	b := newBackend(t, Options{})
	launcher := b.o.Launcher
	b.o.Launcher = resting{launcher, b}
	if _, _, err := b.enter(t.Context()); !errors.Is(err, platform.ErrSensorLost) {
		t.Errorf("what was told to rest is used: %v", err)
	}
	b.mu.Lock()
	left, using := b.page, b.using
	b.mu.Unlock()
	if left != nil || using != 0 {
		t.Errorf("a browser is left: %v, used by %d", left != nil, using)
	}
	b.o.Launcher = launcher
	if n := open(t, b); n != 0 {
		t.Errorf("%d captures hold a device", n)
	}
}

// The browser goes some time after its last use.
func TestWarm(t *testing.T) {
	b := newBackend(t, Options{Warm: time.Millisecond})
	p, leave, err := b.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leave()
	select {
	case <-p.browser.Gone():
	case <-time.After(30 * time.Second):
		t.Error("the browser stays for good")
	}
}
