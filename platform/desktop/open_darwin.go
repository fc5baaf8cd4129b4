package desktop

import (
	"context"
	"errors"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/capture"
	"github.com/handrail-dev/handrail/platform/darwin"
)

// open puts the desktop together. A permission that a person has not given is missing, with the
// page of the settings, and takes nothing else with it.
func open(_ context.Context, o Options) (*session, error) {
	if err := darwin.Visible(); err != nil {
		return nil, err
	}
	desk := &platform.Desktop{Name: "macOS", Missing: map[platform.DesktopPart]*platform.MissingError{}}
	var closers []func() error
	s := &session{desk: desk, close: func() {
		for i := len(closers) - 1; i >= 0; i-- {
			if err := closers[i](); err != nil {
				o.Log.Debug("a part of the desktop did not close", "error", err)
			}
		}
	}}
	// part judges the error of a part: what is missing is noted, all else ends it.
	var failed error
	part := func(p platform.DesktopPart, err error) bool {
		var missing *platform.MissingError
		switch {
		case err == nil:
			return true
		case errors.As(err, &missing):
			desk.Missing[p] = missing
		default:
			failed = errors.Join(failed, err)
		}
		return false
	}
	allowed := darwin.Allowed()
	if screen, err := darwin.NewScreen(); part(platform.PartScreen, err) {
		bus := capture.New(screen)
		closers = append(closers, screen.Close, bus.Close)
		desk.Screen = bus
	}
	if input, err := darwin.NewInput(); part(platform.PartInput, err) {
		closers = append(closers, input.Close)
		desk.Input = input
	}
	if person, err := darwin.NewPerson(); part(platform.PartPerson, err) {
		desk.Person = person
	}
	if clipboard, err := darwin.NewClipboard(); part(platform.PartClipboard, err) {
		closers = append(closers, func() error { clipboard.Close(); return nil })
		desk.Clipboard = clipboard
	}
	windows, err := darwin.NewWindows()
	if part(platform.PartWindows, err) {
		desk.Windows = windows
		if elements, err := darwin.NewAccessibility(windows); part(platform.PartAccessibility, err) {
			closers = append(closers, func() error { elements.Close(); return nil })
			desk.Accessibility = elements
			desk.Name = "macOS, AX"
		}
	}
	if failed != nil {
		s.close()
		return nil, failed
	}
	if len(desk.Missing) > 0 {
		s.better = func(context.Context) bool { return darwin.Allowed() > allowed }
	}
	return s, nil
}

func newLockWatch(Options) *lockWatch {
	return &lockWatch{ask: func(context.Context) string { return darwin.Locked() }, end: func() {}}
}
