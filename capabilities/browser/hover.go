package browser

import (
	"context"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// hover carries out tyrum.browser.hover: the pointer goes over an element or a
// point, and the wheel is turned there if asked.
func hover(c *call) (capabilities.Output, error) {
	var args struct {
		which
		WheelX   float64 `json:"wheel_x"`
		WheelY   float64 `json:"wheel_y"`
		Snapshot string  `json:"snapshot"`
	}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := args.check(true); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	c.wants = args.Snapshot
	turn := args.WheelX != 0 || args.WheelY != 0
	aim := args.aim("hover")
	if turn {
		aim.Kind = "wheel"
	}
	m := mouse{t: c.tab.tab}
	v, err := c.perform(aim, func(ctx context.Context, at aimed) ([]*devtools.Pending, error) {
		sent := []*devtools.Pending{m.move(ctx, at.X, at.Y)}
		if turn {
			sent = append(sent, devtools.Start(ctx, c.tab.s, turnWheel, wheel{"mouseWheel", at.X, at.Y, args.WheelX, args.WheelY}).Pending)
		}
		return sent, nil
	})
	if err != nil {
		return capabilities.Output{}, err
	}
	return c.result(v)
}

// wheel is a turn of the wheel; unlike cdproto's, it says zero, which Chrome wants.
type wheel struct {
	Type   string  `json:"type"`
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
	DeltaX float64 `json:"deltaX"`
	DeltaY float64 `json:"deltaY"`
}

var turnWheel = cdp.Command[wheel, cdp.Empty]{Method: input.CommandDispatchMouseEvent}
