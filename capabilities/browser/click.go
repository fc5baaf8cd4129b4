package browser

import (
	"context"
	"time"

	"github.com/chromedp/cdproto/input"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// click carries out tyrum.browser.click: on an element, or at a point of the
// viewport. With action down or up it is half a click, so that a caller can hold a
// button over several calls.
func click(c *call) (capabilities.Output, error) {
	args := struct {
		which
		Button    string    `json:"button"`
		Modifiers []string  `json:"modifiers"`
		Position  *position `json:"position"`
		Count     int       `json:"count"`
		HoldMS    int       `json:"hold_ms"`
		Action    string    `json:"action"`
		Snapshot  string    `json:"snapshot"`
	}{Button: "left", Count: 1, Action: "click"}
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
	aim := args.aim("click")
	aim.Button, aim.Count, aim.Position = args.Button, args.Count, args.Position
	if args.Action != "click" {
		aim.Kind = args.Action
	}
	m := mouse{c.tab.tab, modifiers(args.Modifiers), input.MouseButton(args.Button)}
	if args.Action != "up" {
		if err := m.isUp(); err != nil {
			return capabilities.Output{}, err
		}
	}
	missed := false
	v, err := c.perform(aim, func(ctx context.Context, at aimed) (sent []*devtools.Pending, err error) {
		if missed && args.Action == "down" {
			sent = append(sent, m.up(ctx, at.X, at.Y, 1)) // of the press that hit something else
		}
		missed = true
		sent = append(sent, m.move(ctx, at.X, at.Y))
		for i := 1; i <= args.Count; i++ {
			if args.Action != "up" {
				sent = append(sent, m.down(ctx, at.X, at.Y, i))
			}
			if args.HoldMS > 0 && args.Action == "click" {
				if err := c.hold(sent[len(sent)-1], time.Duration(args.HoldMS)*time.Millisecond); err != nil {
					m.up(c.whole, at.X, at.Y, i)
					return nil, err
				}
			}
			if args.Action != "down" {
				sent = append(sent, m.up(ctx, at.X, at.Y, i))
			}
		}
		return sent, nil
	})
	if err != nil {
		return capabilities.Output{}, err
	}
	return c.result(v)
}

// hold leaves pressed down what was pressed, as long as the caller asked for and
// from when the page had it: on a busy machine that is well after it was sent.
func (c *call) hold(pressed *devtools.Pending, d time.Duration) error {
	pressed.Wait(c.ctx) // a press that failed shows in the outcome
	return c.pause(d)
}

// pause waits as long as the caller asked for.
func (c *call) pause(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// mouse sends what the pointer of a tab does. Which buttons are down is the tab's
// state: a button can be held over several calls.
type mouse struct {
	t         *tab
	modifiers int64
	button    input.MouseButton
}

// isUp refuses to press a button that a call before left down: no mouse can, and letting
// go of it would end the hold unsaid.
func (m mouse) isUp() error {
	if m.t.holdButtons(0, 0)&buttonBits[string(m.button)] == 0 {
		return nil
	}
	return capabilities.Errorf(capabilities.CodeConflict,
		"The %s button is down in this tab since an earlier click with the action down; nothing was pressed.", m.button).
		WithHint("Let it go first, with click and the action up; what it holds is moved with hover.")
}

func (m mouse) send(ctx context.Context, kind input.DispatchMouseEventType, x, y float64, count int) *devtools.Pending {
	p := input.DispatchMouseEventParams{
		Type: kind, X: x, Y: y, Modifiers: m.modifiers, PointerType: input.DispatchMouseEventPointerTypeMouse, ClickCount: int64(count),
	}
	bit := buttonBits[string(m.button)]
	switch kind {
	case input.DispatchMouseEventTypeMousePressed:
		p.Buttons, p.Button = m.t.holdButtons(bit, 0), m.button
	case input.DispatchMouseEventTypeMouseReleased:
		p.Buttons, p.Button = m.t.holdButtons(0, bit), m.button
	default:
		p.Buttons = m.t.holdButtons(0, 0)
		for name, b := range buttonBits {
			if p.Buttons&b != 0 && (p.Button == "" || name == "left") {
				p.Button = input.MouseButton(name)
			}
		}
	}
	return devtools.Start(ctx, m.t.s, input.DispatchMouseEvent, p).Pending
}

func (m mouse) move(ctx context.Context, x, y float64) *devtools.Pending {
	return m.send(ctx, input.DispatchMouseEventTypeMouseMoved, x, y, 0)
}

func (m mouse) down(ctx context.Context, x, y float64, count int) *devtools.Pending {
	return m.send(ctx, input.DispatchMouseEventTypeMousePressed, x, y, count)
}

func (m mouse) up(ctx context.Context, x, y float64, count int) *devtools.Pending {
	return m.send(ctx, input.DispatchMouseEventTypeMouseReleased, x, y, count)
}

var buttonBits = map[string]int64{"left": 1, "right": 2, "middle": 4}

// which is how a caller names what to act on.
type which struct {
	Ref      string   `json:"ref"`
	Selector string   `json:"selector"`
	X        *float64 `json:"x"`
	Y        *float64 `json:"y"`
}

// check refuses what names nothing, or a point and more; see reach, too.
func (t which) check(needed bool) error {
	point := t.X != nil || t.Y != nil
	switch {
	case (t.X == nil) != (t.Y == nil):
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "A point needs x and y.")
	case point && (t.Ref != "" || t.Selector != ""):
		return errTwoNames
	case needed && !point && t.Ref == "" && t.Selector == "":
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "Nothing says which element is meant.").
			WithHint("Give ref (from a snapshot) or selector.")
	}
	return nil
}

func (t which) aim(kind string) aimArgs {
	return aimArgs{Ref: t.Ref, Selector: t.Selector, X: t.X, Y: t.Y, Kind: kind}
}
