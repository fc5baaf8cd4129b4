package desktop

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/atspi"
	"github.com/handrail-dev/handrail/platform/capture"
	"github.com/handrail-dev/handrail/platform/screenshot"
	"github.com/handrail-dev/handrail/platform/x11/clipboard"
	"github.com/handrail-dev/handrail/platform/x11/input"
	"github.com/handrail-dev/handrail/platform/x11/person"
	"github.com/handrail-dev/handrail/platform/x11/screen"
	"github.com/handrail-dev/handrail/platform/x11/windows"
	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// open puts the desktop together: pixels, windows, input and clipboard from the X
// server, elements from AT-SPI, which works without one.
func open(ctx context.Context, o Options) (*session, error) {
	desk := &platform.Desktop{Missing: map[platform.DesktopPart]*platform.MissingError{}}
	var names []string
	var closers []func() error
	s := &session{desk: desk, close: func() {
		for i := len(closers) - 1; i >= 0; i-- {
			if err := closers[i](); err != nil {
				o.Log.Debug("a part of the desktop did not close", "error", err)
			}
		}
	}}
	done := false
	defer func() {
		if !done {
			s.close()
		}
	}()
	// part judges the error of a part: what is missing is noted, all else ends it.
	part := func(err error, parts ...platform.DesktopPart) error {
		var missing *platform.MissingError
		if errors.As(err, &missing) {
			for _, p := range parts {
				desk.Missing[p] = missing
			}
			return nil
		}
		return err
	}
	var err error
	onWayland := isWayland(o)
	if onWayland {
		var name string
		if name, err = openWayland(ctx, o, s, &closers, part); err == nil && name != "" {
			names = append(names, name)
		}
	} else {
		var name string
		if name, err = openX(ctx, o, s, &closers, part); err == nil && name != "" {
			names = append(names, name)
		}
	}
	if err != nil {
		return nil, err
	}

	tree := atspi.New(atspi.Options{Windows: desk.Windows, InWindows: onWayland, SessionBus: o.Getenv("DBUS_SESSION_BUS_ADDRESS"), Log: o.Log})
	closers = append(closers, tree.Close)
	if err := part(tree.Check(ctx), platform.PartAccessibility); err != nil {
		return nil, err
	}
	if desk.Missing[platform.PartAccessibility] == nil {
		desk.Accessibility, s.handled = tree, tree.Handled
		names = append(names, "AT-SPI")
	} else {
		s.better = func(ctx context.Context) bool { return tree.Check(ctx) == nil }
	}
	if len(names) == 0 {
		return nil, desk.Missing[platform.PartScreen]
	}
	desk.Name = strings.Join(names, ", ")
	done = true
	return s, nil
}

// openX adds the parts of the X server.
func openX(ctx context.Context, o Options, s *session, closers *[]func() error,
	part func(error, ...platform.DesktopPart) error) (name string, err error) {
	all := []platform.DesktopPart{platform.PartScreen, platform.PartInput, platform.PartPerson, platform.PartWindows, platform.PartClipboard}
	server := wire.Options{Display: o.Getenv("DISPLAY"), Authority: o.Getenv("XAUTHORITY")}
	if server.Display == "" {
		return "", part(&platform.MissingError{What: "There is no desktop here: neither DISPLAY nor WAYLAND_DISPLAY is set.",
			Fix: "Start the node within the desktop session, set DISPLAY for it, such as DISPLAY=:0, or start a desktop without a screen (apt " +
				"install xvfb; Xvfb :99)."}, all...)
	}
	c, err := wire.Dial(ctx, server)
	if err != nil {
		return "", part(err, all...)
	}
	*closers = append(*closers, c.Close)
	s.lost = c.Lost()
	desk := s.desk
	name = "X11 " + c.Name
	grabber, why, err := pixels(ctx, c)
	if err := part(err, platform.PartScreen); err != nil {
		return "", err
	}
	if err == nil {
		bus := capture.New(grabber)
		*closers = append(*closers, bus.Close)
		desk.Screen = bus
		if why != nil {
			name += o.standIn(desk, why)
		}
	}
	list, err := windows.New(ctx, c)
	if err := part(err, platform.PartWindows); err != nil {
		return "", err
	}
	if err == nil {
		desk.Windows = list
	}
	hands, err := input.New(ctx, server, func(ctx context.Context, pid int) error {
		if s.handled == nil {
			return nil
		}
		return s.handled(ctx, pid)
	})
	if err := part(err, platform.PartInput); err != nil {
		return "", err
	}
	if err == nil {
		*closers = append(*closers, hands.Close)
		desk.Input = hands
	}
	watch, err := person.New(ctx, server)
	if err := part(err, platform.PartPerson); err != nil {
		return "", err
	}
	if err == nil {
		*closers = append(*closers, watch.Close)
		desk.Person = watch
	}
	text, err := clipboard.New(ctx, server)
	if err := part(err, platform.PartClipboard); err != nil {
		return "", err
	}
	if err == nil {
		*closers = append(*closers, text.Close)
		desk.Clipboard = text
	}
	return name, nil
}

// pixels returns what reads the screen: our own grabber, or kbinani/screenshot and why ours
// did not open. The other lacks what ours finds missing, too.
func pixels(ctx context.Context, c *wire.Conn) (g platform.Grabber, why, err error) {
	own, err := screen.New(ctx, c)
	var missing *platform.MissingError
	switch {
	case err == nil:
		return own, nil, nil
	case errors.As(err, &missing), errors.Is(err, platform.ErrLost), ctx.Err() != nil, screen.ByEnvironment(c) != nil:
		return nil, nil, err
	}
	other, lacks := screenshot.New(ctx, screen.RootLayout(c))
	if lacks != nil {
		return nil, nil, fmt.Errorf("%w; %w", err, lacks)
	}
	return other, err, nil
}
