package desktop

import (
	"context"
	"errors"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/portal"
	"github.com/handrail-dev/handrail/platform/wayland"
)

// portals open the session's portal when the first part needs it.
type portals struct {
	address string
	seat    *wayland.Conn
	outputs *wayland.Outputs
	closers *[]func() error

	tried  bool
	portal *portal.Portal
	err    error
}

func (p *portals) open(ctx context.Context) (*portal.Portal, error) {
	if !p.tried {
		p.tried = true
		if p.portal, p.err = portal.Dial(ctx, p.address); p.err == nil {
			*p.closers = append(*p.closers, p.portal.Close)
		}
	}
	return p.portal, p.err
}

// sessionBus returns the address of the session's bus; "" if there is none.
func sessionBus(o Options) string {
	if address := o.Getenv("DBUS_SESSION_BUS_ADDRESS"); address != "" {
		return address
	}
	if runtime := o.Getenv("XDG_RUNTIME_DIR"); runtime != "" {
		return "unix:path=" + runtime + "/bus"
	}
	return ""
}

func (p *portals) displays(ctx context.Context) (platform.Layout, []portal.Place, error) {
	all, err := p.outputs.Places(ctx)
	if err != nil {
		return platform.Layout{}, nil, err
	}
	places := make([]portal.Place, len(all.Logical))
	for i, l := range all.Logical {
		places[i] = portal.Place{Physical: all.Displays[i].Bounds, Logical: l}
	}
	return all.Layout, places, nil
}

func (p *portals) screen(ctx context.Context) (*portal.Screen, error) {
	to, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	return portal.NewScreen(ctx, to, p.displays)
}

func (p *portals) input(ctx context.Context) (*portal.Input, error) {
	to, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	return portal.NewInput(ctx, to, portal.InputOptions{Displays: p.displays, Keycode: wayland.Keycode,
		Runes: func(ctx context.Context) (map[rune]bool, error) { return wayland.Runes(ctx, p.seat) }})
}

// both joins what is missing in the compositor with what is missing in the portal,
// for either of them would do. Another error of the portal's is that.
func both(compositor, portal error) error {
	var first, second *platform.MissingError
	if !errors.As(compositor, &first) || !errors.As(portal, &second) {
		return portal
	}
	return &platform.MissingError{What: first.What + " " + second.What, Fix: first.Fix}
}
