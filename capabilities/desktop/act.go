package desktop

import (
	"context"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

// How an act is carried out. It has the hands for its time, so that acts and input
// of other lanes do not mix and the person can stop it. It finds its element or
// window anew, begins to look for effects (evidence.go), and takes the first of
// these routes that the element offers:
//
//  1. accessibility: the element does it itself; neither pointer nor focus moves.
//  2. window_manager and system_api, for windows and for starting applications.
//  3. synthetic_input: real events of mouse and keyboard. The window comes to the
//     front if it is covered; the pointer and the window that had the focus are put
//     back where they were, and the result says that they moved.
//
// The result that was asked for is read back (a value, a state, a selection); where nothing
// particular is expected, as of a click, the first sign of any effect counts. An act whose goal
// holds already does nothing and says so.

// actArgs are the arguments of tyrum.desktop.act.
type actArgs struct {
	Target json.RawMessage `json:"target"`
	Action action          `json:"action"`
	Then   *waitArgs       `json:"then_wait"`
}

type action struct {
	Kind      string   `json:"kind"`
	To        string   `json:"to"`
	X         *float64 `json:"x"`
	Y         *float64 `json:"y"`
	FrameID   string   `json:"frame_id"`
	Width     int      `json:"width"`
	Height    int      `json:"height"`
	Direction string   `json:"direction"`
	Lines     int      `json:"lines"`
	Pages     int      `json:"pages"`
	IntoView  bool     `json:"into_view"`
	Value     *string  `json:"value"`
	Text      *string  `json:"text"`
	Path      []string `json:"path"`
	App       string   `json:"app"`
	Args      []string `json:"args"`
}

type actResult struct {
	Target  json.RawMessage `json:"target,omitempty"`
	Action  actKind         `json:"action"`
	Ref     string          `json:"resolved_element_ref,omitempty"`
	Mode    string          `json:"mode"`
	X       *float64        `json:"x,omitempty"`
	Y       *float64        `json:"y,omitempty"`
	Route   string          `json:"route"`
	Moved   bool            `json:"moved_pointer,omitempty"`
	Focused bool            `json:"took_focus,omitempty"`
	Node    *summary        `json:"node,omitempty"`
	Window  *windowResult   `json:"window,omitempty"`
	PID     int             `json:"pid,omitempty"`
	Wait    *actWaited      `json:"wait,omitempty"`
}

// actKind says what was done, and never with which text.
type actKind struct {
	Kind string `json:"kind"`
}

type actWaited struct {
	Status  string        `json:"status"`
	Elapsed int64         `json:"elapsed_ms"`
	Match   *match        `json:"match,omitempty"`
	Window  *windowResult `json:"window,omitempty"`
	Nearest []string      `json:"nearest,omitempty"`
}

// windowResult is a window as results of act and wait-for have it.
type windowResult struct {
	Ref     string `json:"ref"`
	Title   string `json:"title,omitempty"`
	Bounds  rect   `json:"bounds"`
	Focused bool   `json:"focused,omitempty"`
}

func windowOf(w platform.Window) *windowResult {
	return &windowResult{
		Ref: capabilities.Clip(w.Ref, 256), Title: capabilities.Clip(w.Title, 512), Bounds: rectOf(w.Bounds), Focused: w.Focused,
	}
}

// The routes.
const (
	routeElement = "accessibility"
	routeInput   = "synthetic_input"
	routeWindow  = "window_manager"
	routeSystem  = "system_api"
	routeNone    = "none"
)

// deed is one act under way.
type deed struct {
	h    *call
	d    *platform.Desktop
	in   platform.Input // nil: this desktop has none
	a    action
	sel  *selector.Selector
	seen *trace
	e    platform.Element // the target; empty for windows
	spot *platform.Point  // where it acts, for what was found by its pixels

	windows []platform.Window // as they were before
	route   string
	moved   bool   // the pointer moved
	fronted bool   // another window had the focus before
	aloof   string // a window that was asked to take the focus, and did not
	keep    bool   // pointer and focus stay where the act put them
	quiet   bool   // the element is not told: it may hold what the caller typed
	window  *platform.Window
	pid     int
	verdict verdict
}

// windowKinds arrange windows.
var windowKinds = []string{"activate", "move", "resize", "minimize", "close"}

// act carries out tyrum.desktop.act.
func (h *call) act(ctx context.Context) (capabilities.Output, error) {
	var args actArgs
	if err := h.decode(&args); err != nil {
		return capabilities.Output{}, err
	}
	sel, err := args.check()
	if err != nil {
		return capabilities.Output{}, err
	}
	d, err := h.desktop(ctx)
	if err != nil {
		return capabilities.Output{}, err
	}
	var then *waiter
	if args.Then != nil {
		if then, err = h.waiter(ctx, d, args.Then, args.Action.Kind == "launch"); err != nil {
			return capabilities.Output{}, err
		}
		defer then.close()
	}
	c := &deed{h: h, d: d, a: args.Action, sel: sel, route: routeElement}
	if err := h.acting(ctx, d, c.perform); err != nil {
		return capabilities.Output{}, err
	}
	result := c.result(args)
	if then != nil {
		then.launched(c.pid)
		w, err := then.run(ctx)
		if err != nil {
			return capabilities.Output{}, err
		}
		result.Wait = &actWaited{Status: w.status, Elapsed: w.elapsed.Milliseconds(), Match: w.match, Window: w.window, Nearest: w.nearest}
		c.judgeByWait(w)
	}
	return capabilities.Output{Result: result, Effect: c.verdict.effect, Evidence: c.verdict.evidence, Untrusted: true, Did: c.did()}, nil
}

// did says which application the act was in, and how much it typed where that is no secret.
func (c *deed) did() *capabilities.Did {
	did := &capabilities.Did{App: c.e.App}
	for _, w := range c.windows {
		if w.Ref == c.e.Window && w.App != "" {
			did.App = w.App
		}
	}
	text := c.a.Text
	if text == nil {
		text = c.a.Value
	}
	if text != nil && (c.a.Kind == "type" || c.a.Kind == "set_value") && plain(&c.e) && !strings.ContainsFunc(*text, unicode.IsControl) {
		did.Typed = utf8.RuneCountInString(*text)
	}
	return did
}

// judgeByWait lets what was waited for speak for the act, where nothing else did.
func (c *deed) judgeByWait(w waited) {
	if w.status == waitSatisfied && !w.already && c.verdict.effect != capabilities.EffectConfirmed {
		c.verdict = sure("what was waited for came after it")
	}
}

func (c *deed) result(args actArgs) actResult {
	r := actResult{
		Target: args.Target, Action: actKind{c.a.Kind}, Mode: "a11y", Route: c.route, Moved: c.moved, Focused: c.fronted, PID: c.pid,
	}
	e := c.e
	if c.seen != nil {
		if c.seen.after != nil {
			e = *c.seen.after
		}
		if c.window == nil {
			c.window = c.seen.appeared
		}
	}
	if e.Ref != "" {
		r.Ref = c.h.refs.name(e)
		r.Node = summarize(e)
		if c.quiet {
			r.Node.Value = ""
		}
	}
	if c.spot != nil {
		r.Mode = "pixel"
		x, y := float64(c.spot.X), float64(c.spot.Y)
		r.X, r.Y = &x, &y
	}
	if c.window != nil {
		r.Window = windowOf(*c.window)
	}
	return r
}

// acting returns fn the hands. Without an input device, acts that need none work
// all the same.
func (h *call) acting(ctx context.Context, d *platform.Desktop, fn func(ctx context.Context, in platform.Input) error) error {
	if d.Input != nil {
		return h.input(ctx, fn)
	}
	if err := h.hands.take(ctx, h.inv.Lane); err != nil {
		return err
	}
	defer h.hands.giveBack()
	return fn(ctx, nil)
}

// perform finds the target and does what was asked with it.
func (c *deed) perform(ctx context.Context, in platform.Input) error {
	c.in = in
	var err error
	if c.windows, err = c.h.list(ctx, c.d); err != nil {
		return err
	}
	switch {
	case c.a.Kind == "launch":
		return c.launch(ctx)
	case has(windowKinds, c.a.Kind):
		return c.arrange(ctx)
	case c.a.Kind == "menu":
		return c.menu(ctx)
	}
	if err := c.find(ctx); err != nil {
		return err
	}
	switch {
	case c.spot != nil:
		c.h.acts(pixel(*c.spot))
	case selector.Visible(&c.e) && !c.e.Bounds.Empty():
		c.h.acts(c.e.Bounds)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.seen = c.h.trace(ctx, c.d, c.e, c.windows)
	defer c.seen.stop()
	err = c.do(ctx)
	if back := c.putBack(ctx); err == nil {
		err = back
	}
	return err
}

// find reads the target, and refuses what cannot be acted on.
func (c *deed) find(ctx context.Context) error {
	if c.sel.OCR != nil {
		return c.findSeen(ctx)
	}
	if c.d.Accessibility == nil {
		return missing(c.d, platform.PartAccessibility)
	}
	e, err := c.h.resolve(ctx, c.d, c.sel)
	if err != nil {
		return err
	}
	if isOwn(c.windows, e) {
		return errOwnWindow
	}
	c.e = e
	switch c.a.Kind {
	case "hover", "focus", "scroll", "show_menu", "right_click":
	default:
		if !is(&e, "enabled") && !is(&e, "focused") {
			return capabilities.Errorf(capabilities.CodeElementDisabled, "The element is disabled.").
				WithDetails(map[string]any{"element": c.h.refs.name(e), "states": short(e.States)})
		}
	}
	return nil
}

func (c *deed) do(ctx context.Context) error {
	switch c.a.Kind {
	case "click":
		return c.click(ctx)
	case "double_click":
		return c.doubleClick(ctx)
	case "right_click", "show_menu":
		return c.contextMenu(ctx)
	case "middle_click":
		return c.pointer(ctx, platform.ButtonMiddle, 1)
	case "hover":
		return c.hover(ctx)
	case "focus":
		return c.focus(ctx)
	case "drag":
		return c.drag(ctx)
	case "scroll":
		return c.scroll(ctx)
	case "set_value":
		return c.setValue(ctx, *c.a.Value)
	case "type":
		return c.typeInto(ctx, *c.a.Text)
	case "clear":
		return c.setText(ctx, "")
	case "select":
		return c.selects(ctx)
	case "toggle", "check", "uncheck":
		return c.toggle(ctx)
	case "expand", "collapse":
		return c.expand(ctx)
	case "increment", "decrement":
		return c.count(ctx)
	}
	return unsupported("There is no action %q.", c.a.Kind)
}

// try has the element do something itself and looks for the effect meanwhile:
// some applications answer only when the dialog they open is closed again.
func (c *deed) try(ctx context.Context, goal func(e *platform.Element) string, fn func(ctx context.Context) error) error {
	c.seen.forget()
	done, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		done <- fn(ctx)
	}()
	v, err := c.seen.await(ctx, goal, done)
	if err == nil {
		// An effect that showed may be older than the order, which has to have gone out before the
		// call ends: fn ends soon, whatever the application waits for.
		select {
		case <-over:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		if isHung(err) {
			return c.h.hungApp(ctx, c.e.PID)
		}
		return err
	}
	c.route, c.verdict = routeElement, v
	return nil
}

// done says that the goal held before.
func (c *deed) done(already string) error {
	c.route, c.verdict = routeNone, sure(already+"; nothing was done")
	return nil
}

// unsupported says what an element cannot do.
func unsupported(format string, args ...any) *capabilities.Error {
	return capabilities.Errorf(capabilities.CodeActionUnsupported, format, args...).
		WithHint("Look at the element's role, states and actions with query, and choose another kind; click works on whatever shows.")
}
