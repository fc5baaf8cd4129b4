package browser

import (
	"context"

	"github.com/chromedp/cdproto/input"

	"github.com/handrail-dev/handrail/capabilities"
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
	m := mouse{t: c.tab}
	v, err := c.perform(aim, func(ctx context.Context, at aimed) ([]*pending, error) {
		sent := []*pending{m.move(ctx, at.X, at.Y)}
		if turn {
			sent = append(sent, start(ctx, c.tab.s, input.DispatchMouseEvent, input.DispatchMouseEventParams{
				Type: input.DispatchMouseEventTypeMouseWheel, X: at.X, Y: at.Y, DeltaX: args.WheelX, DeltaY: args.WheelY,
				PointerType: input.DispatchMouseEventPointerTypeMouse,
			}).pending)
		}
		return sent, nil
	})
	if err != nil {
		return capabilities.Output{}, err
	}
	return c.result(v)
}
