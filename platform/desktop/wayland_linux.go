package desktop

import (
	"context"
	"errors"
	"strings"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/apps"
	"github.com/handrail-dev/handrail/platform/capture"
	"github.com/handrail-dev/handrail/platform/wayland"
)

// isWayland tells whether the session's desktop is a Wayland compositor. An X
// server that one has beside it (Xwayland) shows and reaches only a part of the
// desktop, so it counts for nothing.
func isWayland(o Options) bool {
	return o.Getenv("WAYLAND_DISPLAY") != "" || strings.EqualFold(o.Getenv("XDG_SESSION_TYPE"), "wayland")
}

// openWayland adds the parts of the compositor. The end of any connection is the end of all.
func openWayland(ctx context.Context, o Options, s *session, closers *[]func() error,
	part func(error, ...platform.DesktopPart) error) (name string, err error) {
	where := wayland.Options{Display: o.Getenv("WAYLAND_DISPLAY"), Runtime: o.Getenv("XDG_RUNTIME_DIR")}
	all := []platform.DesktopPart{platform.PartScreen, platform.PartInput, platform.PartPerson, platform.PartWindows, platform.PartClipboard}
	var conns []*wayland.Conn
	dial := func() (*wayland.Conn, error) {
		c, err := wayland.Dial(ctx, where)
		if err == nil {
			conns = append(conns, c)
			*closers = append(*closers, c.Close)
		}
		return c, err
	}
	c, err := dial()
	if err != nil {
		return "", part(err, all...)
	}
	hands, err := dial()
	if err != nil {
		return "", err
	}
	clip, err := dial()
	if err != nil {
		return "", err
	}
	s.lost = wayland.AnyLost(conns...)
	outputs, err := wayland.NewOutputs(ctx, c)
	if err != nil {
		return "", err
	}
	desk := s.desk
	ways := &portals{address: sessionBus(o), seat: c, outputs: outputs, closers: closers}
	var lacks *platform.MissingError
	var grabber platform.Grabber
	if grabber, err = wayland.NewScreen(ctx, outputs); errors.As(err, &lacks) {
		var other error
		if grabber, other = ways.screen(ctx); other == nil {
			err = nil
		} else {
			err = both(lacks, other)
		}
	}
	if err := part(err, platform.PartScreen); err != nil {
		return "", err
	}
	if err == nil {
		bus := capture.New(grabber)
		*closers = append(*closers, bus.Close)
		desk.Screen = bus
	}
	person, err := wayland.NewPerson(ctx, hands, o.Getenv, where.Runtime)
	if err := part(err, platform.PartPerson); err != nil {
		return "", err
	}
	if err == nil {
		*closers = append(*closers, person.Close)
		desk.Person = person
	}
	input, err := wayland.NewInput(ctx, hands, outputs, person)
	switch {
	case err == nil:
		desk.Input = input
	case errors.As(err, &lacks):
		other, lacking := ways.input(ctx)
		if lacking == nil {
			*closers = append(*closers, other.Close)
			desk.Input = other
			break
		}
		if err := part(both(lacks, lacking), platform.PartInput); err != nil {
			return "", err
		}
	default:
		return "", err
	}
	if ways.portal != nil {
		s.lost = wayland.EitherLost(s.lost, ways.portal.Lost())
	}
	windows, err := wayland.NewWindows(ctx, wayland.WindowsOptions{Options: where, Getenv: o.Getenv, Find: apps.Find}, outputs)
	if err := part(err, platform.PartWindows); err != nil {
		return "", err
	}
	if err == nil {
		desk.Windows = windows
		if input != nil {
			input.TellFocus(windows.FocusedPID)
		}
	}
	clipboard, err := wayland.NewClipboard(ctx, clip)
	if err := part(err, platform.PartClipboard); err != nil {
		return "", err
	}
	if err == nil {
		*closers = append(*closers, clipboard.Close)
		desk.Clipboard = clipboard
	}
	if ways.portal != nil {
		return "Wayland " + c.Name + ", portals", nil
	}
	return "Wayland " + c.Name, nil
}
