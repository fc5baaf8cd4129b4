package desktop

import (
	"context"
	"errors"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/capture"
	"github.com/handrail-dev/handrail/platform/win32"
)

func open(context.Context, Options) (*session, error) {
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
		Missing: map[platform.DesktopPart]*platform.MissingError{platform.PartAccessibility: {
			What: "This program can not read the elements of Windows' applications yet.", Fix: "Work by screenshot, mouse and keyboard.",
		}},
	}
	return &session{desk: desk, close: func() {
		_ = errors.Join(input.Release(context.Background()), bus.Close(), screen.Close())
		clipboard.Close()
	}}, nil
}

func newLockWatch(Options) *lockWatch {
	return &lockWatch{ask: func(context.Context) string { return win32.Locked() }, end: func() {}}
}
