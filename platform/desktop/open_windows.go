package desktop

import (
	"context"
	"errors"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/capture"
	"github.com/handrail-dev/handrail/platform/screenshot"
	"github.com/handrail-dev/handrail/platform/win32"
)

func open(ctx context.Context, o Options) (*session, error) {
	if !win32.Visible() {
		return nil, &platform.MissingError{
			What: "This process has no desktop that a person can see: it runs as a service.", Fix: "Run the node in the person's logon session.",
		}
	}
	win32.AwareOfScale()
	grabber, why := pixels(ctx, win32.NewScreen())
	bus := capture.New(grabber)
	input, clipboard := win32.NewInput(), win32.NewClipboard()
	desk := &platform.Desktop{
		Name: "Windows", Screen: bus, Input: input, Person: win32.Person{}, Windows: win32.Windows{}, Clipboard: clipboard,
		Missing: map[platform.DesktopPart]*platform.MissingError{},
	}
	if why != nil {
		desk.Name += o.standIn(desk, why)
	}
	elements, err := win32.NewAccessibility()
	var missing *platform.MissingError
	switch {
	case err == nil:
		desk.Accessibility = elements
		desk.Name += ", UI Automation"
	case errors.As(err, &missing):
		desk.Missing[platform.PartAccessibility] = missing
	default:
		// Pixels, mouse and keyboard do not need it.
		o.Log.Warn("the elements of applications cannot be read", "error", err)
		desk.Missing[platform.PartAccessibility] = &platform.MissingError{
			What: "UI Automation did not start: " + err.Error() + ".",
			Fix:  "Log out and in again; until then work by screenshot, mouse and keyboard.",
		}
	}
	return &session{desk: desk, close: func() {
		if elements != nil {
			elements.Close()
		}
		_ = errors.Join(input.Release(context.Background()), bus.Close(), grabber.Close())
		clipboard.Close()
	}}, nil
}

// pixels returns what reads the screen: our own grabber, or kbinani/screenshot and why ours
// gives nothing. A screen that is locked gives neither anything; ours says so.
func pixels(ctx context.Context, own *win32.Screen) (g platform.Grabber, why error) {
	all, err := own.Layout(ctx)
	if err == nil {
		whole := all.Whole()
		err = own.Grab(ctx, platform.Rect{X: whole.X, Y: whole.Y, Width: 1, Height: 1}, false, make([]byte, 4))
	}
	var missing *platform.MissingError
	if err == nil || errors.As(err, &missing) || ctx.Err() != nil {
		return own, nil
	}
	other, lacks := screenshot.New(ctx, own.Layout)
	if lacks != nil {
		return own, nil
	}
	return other, err
}

func newLockWatch(Options) *lockWatch {
	return &lockWatch{ask: func(context.Context) string { return win32.Locked() }, end: func() {}}
}
