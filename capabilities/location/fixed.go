package location

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// Fixed is a position that the owner set; it is always at hand.
type Fixed struct{ Position platform.Position }

// Name implements platform.Locator.
func (Fixed) Name() string { return "fixed" }

// Usable implements platform.Locator.
func (f Fixed) Usable(context.Context) error { return sane(f.Position) }

// Locate implements platform.Locator.
func (f Fixed) Locate(context.Context, bool, time.Time) (platform.Position, error) {
	p := f.Position
	p.At = time.Now()
	return p, nil
}

// None is a host without a source of positions.
type None struct{ Why platform.MissingError }

// Name implements platform.Locator.
func (None) Name() string { return "none" }

// Usable implements platform.Locator.
func (n None) Usable(context.Context) error { return &n.Why }

// Locate implements platform.Locator.
func (n None) Locate(context.Context, bool, time.Time) (platform.Position, error) {
	return platform.Position{}, &n.Why
}
