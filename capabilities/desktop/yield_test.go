package desktop

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform/fake"
)

// The person takes over: the running call ends within 100 ms with how far it
// came, nothing stays down, and calls are refused until they have rested.
func TestThePersonWins(t *testing.T) {
	b := newTable(t, Options{QuietTime: time.Hour}) // until this test says that they rested
	b.do("screenshot", `{"display": "all"}`)        // the desktop is open, so watched
	began := make(chan struct{}, 1)
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "input.button" && e.Down {
			began <- struct{}{}
		}
	}
	done := make(chan error)
	go func() {
		_, err := b.call(t.Context(), "a", "mouse", `{"action": "drag", "path": [{"x": 1, "y": 1}], "x": 900, "y": 700, "duration_ms": 60000}`)
		done <- err
	}()
	<-began
	b.d.OnEvent = nil
	touched := time.Now()
	b.d.Touch()
	err := <-done
	if took := time.Since(touched); took > 5*time.Second {
		t.Errorf("let go after %s", took)
	} else {
		t.Logf("let go after %s", took)
	}
	if capabilities.CodeOf(err) != capabilities.CodeInterruptedByPerson {
		t.Errorf("%v", err)
	}
	b.nothingHeld()
	e := b.refused(capabilities.CodeInterruptedByPerson, "keyboard", `{"action": "type", "text": "x"}`)
	if e.Details.(interruption).RetryMS == 0 {
		t.Errorf("%v", e.Details)
	}
	b.do("screenshot", `{"display": "all"}`) // looking goes on
	b.h.hands.mu.Lock()
	b.h.hands.quiet = time.Nanosecond
	b.h.hands.mu.Unlock()
	b.do("keyboard", `{"action": "type", "text": "x"}`)
}

// A call that merely comes while the person is at it waits for them, once.
func TestCallsWaitForThePersonToRest(t *testing.T) {
	const quiet = 50 * time.Millisecond
	b := newTable(t, Options{QuietTime: quiet})
	b.do("screenshot", `{"display": "all"}`)
	touched := time.Now()
	b.d.Touch()
	b.do("mouse", `{"action": "move", "x": 1, "y": 1}`)
	if time.Since(touched) < quiet {
		t.Error("it did not wait")
	}
	long := newTable(t, Options{QuietTime: time.Hour})
	long.do("screenshot", `{"display": "all"}`)
	long.d.Touch()
	long.refused(capabilities.CodeInterruptedByPerson, "mouse", `{"action": "move", "x": 1, "y": 1}`)
}

// A key that a lane keeps down between its calls comes up when the person comes.
func TestThePersonTakesHeldButtons(t *testing.T) {
	b := newTable(t, Options{})
	b.do("mouse", `{"action": "down", "x": 10, "y": 10}`)
	b.d.Touch()
	b.eventually(func() bool { _, buttons := b.d.Held(); return len(buttons) == 0 })
}

func TestStopKeys(t *testing.T) {
	stopped := make(chan string, 1)
	b := newTable(t, Options{Stop: func(reason string) { stopped <- reason }})
	b.do("screenshot", `{"display": "all"}`)
	began := make(chan struct{}, 1)
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "input.button" && e.Down {
			began <- struct{}{}
		}
	}
	done := make(chan error)
	go func() {
		_, err := b.call(t.Context(), "a", "mouse", `{"action": "click", "x": 1, "y": 1, "duration_ms": 60000}`)
		done <- err
	}()
	<-began
	if !b.d.PressHotKey() {
		t.Fatal("nobody watches for it")
	}
	// Pressing them is using the keyboard, too.
	if code := capabilities.CodeOf(<-done); code != capabilities.CodeStopped && code != capabilities.CodeInterruptedByPerson {
		t.Error(code)
	}
	if reason := <-stopped; !strings.Contains(reason, DefaultHotKey) {
		t.Error(reason)
	}
	b.nothingHeld()
}

// Cancelled, or out of time: whatever was down comes up.
func TestCancelMidDrag(t *testing.T) {
	b := newTable(t, Options{})
	for _, args := range []string{
		`{"action": "drag", "path": [{"x": 1, "y": 1}], "x": 900, "y": 700, "duration_ms": 60000, "modifiers": ["Shift"]}`,
		`{"action": "click", "x": 1, "y": 1, "duration_ms": 60000, "modifiers": ["Control"]}`,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
			if e.Op == "input.button" && e.Down {
				cancel()
			}
		}
		if _, err := b.call(ctx, "a", "mouse", args); capabilities.CodeOf(err) != capabilities.CodeCancelled {
			t.Errorf("%v", err)
		}
		b.nothingHeld()
	}
	b.d.OnEvent = nil
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := b.call(ctx, "a", "keyboard", `{"action": "press", "key": "Control+a", "hold_ms": 10000}`); capabilities.CodeOf(err) != capabilities.CodeDeadlineExceeded {
		t.Errorf("%v", err)
	}
	b.nothingHeld()
}

func TestCloseEndsCalls(t *testing.T) {
	b := newTable(t, Options{})
	began := make(chan struct{}, 1)
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "input.button" && e.Down {
			began <- struct{}{}
		}
	}
	done := make(chan error)
	go func() {
		_, err := b.call(t.Context(), "a", "mouse", `{"action": "click", "x": 1, "y": 1, "duration_ms": 60000}`)
		done <- err
	}()
	<-began
	_ = b.h.Close()
	_ = b.h.Close()
	if err := <-done; capabilities.CodeOf(err) != capabilities.CodeDesktopUnavailable {
		t.Errorf("%v", err)
	}
	b.nothingHeld()
	b.refused(capabilities.CodeDesktopUnavailable, "mouse", `{"action": "move", "x": 1, "y": 1}`)
}
