package desktop

import (
	"context"
	"errors"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/capture"
	"github.com/handrail-dev/handrail/platform/win32"
)

func open(_ context.Context, o Options) (*session, error) {
	if !win32.Visible() {
		return nil, &platform.MissingError{
			What: "This process has no desktop that a person can see: it runs as a service.", Fix: "Run the node in the person's logon session.",
		}
	}
	win32.AwareOfScale()
	screen := win32.NewScreen()
	bus := capture.New(screen)
	input, clipboard := win32.NewInput(), win32.NewClipboard()
	desk := &platform.Desktop{
		Name: "Windows", Screen: bus, Input: input, Person: win32.Person{}, Windows: win32.Windows{}, Clipboard: clipboard,
		Missing: map[platform.DesktopPart]*platform.MissingError{},
	}
	elements, err := win32.NewAccessibility()
	var missing *platform.MissingError
	switch {
	case err == nil:
		desk.Accessibility = elements
		desk.Name = "Windows, UI Automation"
	case errors.As(err, &missing):
		desk.Missing[platform.PartAccessibility] = missing
	default:
		// Pixels, mouse and keyboard do not need it.
		o.Log.Warn("the elements of applications cannot be read", "error", err)
		desk.Missing[platform.PartAccessibility] = &platform.MissingError{
			What: "UI Automation did not start: " + err.Error() + ".", Fix: "Log out and in again; until then work by screenshot, mouse and keyboard.",
		}
	}
	return &session{desk: desk, close: func() {
		if elements != nil {
			elements.Close()
		}
		_ = errors.Join(input.Release(context.Background()), bus.Close(), screen.Close())
		clipboard.Close()
	}}, nil
}

func newLockWatch(Options) *lockWatch {
	return &lockWatch{ask: func(context.Context) string { return win32.Locked() }, end: func() {}}
}
