package desktop

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

// How waiting works: the condition is looked at, and then again whenever the
// applications, the windows or the screen tell of a change; poll_ms is a net below
// that, for what tells nobody. Not in time is an answer, not an error. Waiting
// does not hold the hands: other calls may bring about what is waited for.

// waitArgs are the arguments of tyrum.desktop.wait-for, and of then_wait.
type waitArgs struct {
	Selector json.RawMessage `json:"selector"`
	Window   string          `json:"window"`
	Region   *waitRegion     `json:"region"`
	State    string          `json:"state"`
	Value    *string         `json:"value"`
	StableMS int64           `json:"stable_ms"`
	Timeout  *int64          `json:"timeout_ms"`
	PollMS   int64           `json:"poll_ms"`
}

type waitRegion struct {
	selector.Area
	FrameID string `json:"frame_id"`
}

type waitResult struct {
	Selector json.RawMessage `json:"selector,omitempty"`
	State    string          `json:"state"`
	Status   string          `json:"status"`
	Elapsed  int64           `json:"elapsed_ms"`
	Match    *match          `json:"match,omitempty"`
	Window   *windowResult   `json:"window,omitempty"`
	Region   *rect           `json:"region,omitempty"`
	Nearest  []string        `json:"nearest,omitempty"`
	Hung     []string        `json:"hung,omitempty"`
}

const (
	waitSatisfied = "satisfied"
	waitTimeout   = "timeout"
)

// The states that are waited for, and of what.
var (
	elementStates = []string{"exists", "visible", "hidden", "gone", "enabled", "disabled", "checked", "unchecked", "focused", "value"}
	windowStates  = []string{"exists", "visible", "hidden", "gone", "focused"}
	pixelStates   = []string{"stable", "changed"}
)

// waiter waits for one condition.
type waiter struct {
	h     *call
	d     *platform.Desktop
	args  waitArgs
	sel   *selector.Selector
	state string
	stop  context.CancelFunc

	launch bool // the window of the application that was started
	pid    int
	before []platform.Window

	events  <-chan platform.ElementEvent
	changes <-chan struct{}
	pixels  <-chan platform.Rect
	area    platform.Rect

	last   *platform.Frame   // pixels: what it looked like
	calm   time.Time         // pixels: since when
	found  *platform.Element // in the state; or else what matches in another one
	window *platform.Window
	hung   []string
	looked *selector.Scene // the last look; nil if a ref was asked for
}

// waited is how it ended.
type waited struct {
	status  string
	elapsed time.Duration
	already bool   // it held at the first look
	match   *match // in vain: what matches, as it is
	window  *windowResult
	nearest []string // in vain, and nothing matches
}

// waitFor carries out tyrum.desktop.wait-for.
func (h *call) waitFor(ctx context.Context) (capabilities.Output, error) {
	var args waitArgs
	if err := h.decode(&args); err != nil {
		return capabilities.Output{}, err
	}
	d, err := h.desktop(ctx)
	if err != nil {
		return capabilities.Output{}, err
	}
	if args.Timeout == nil {
		most := int64(30_000)
		args.Timeout = &most
	}
	w, err := h.waiter(ctx, d, &args, false)
	if err != nil {
		return capabilities.Output{}, err
	}
	defer w.close()
	end, err := w.run(ctx)
	if err != nil {
		return capabilities.Output{}, err
	}
	result := waitResult{
		Selector: args.Selector, State: w.state, Status: end.status, Elapsed: end.elapsed.Milliseconds(),
		Match: end.match, Window: end.window, Nearest: end.nearest, Hung: w.hung,
	}
	if !w.area.Empty() {
		r := rectOf(w.area)
		result.Region = &r
	}
	evidence := "it was so when it was looked at"
	if end.status == waitTimeout {
		evidence = "it was not so in time"
	}
	return capabilities.Output{Result: result, Untrusted: true, Evidence: evidence}, nil
}

// waiter checks a condition and begins to listen.
func (h *call) waiter(ctx context.Context, d *platform.Desktop, args *waitArgs, launch bool) (*waiter, error) {
	w := &waiter{h: h, d: d, args: *args}
	if err := w.read(launch); err != nil {
		return nil, err
	}
	ctx, w.stop = context.WithCancel(ctx)
	if err := w.listen(ctx); err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// read makes out what is waited for.
func (w *waiter) read(launch bool) error {
	bad := func(hint, format string, args ...any) error {
		return capabilities.Errorf(capabilities.CodeInvalidArguments, format, args...).WithHint(hint)
	}
	a := &w.args
	given := 0
	for _, is := range []bool{len(a.Selector) > 0, a.Window != "", a.Region != nil} {
		if is {
			given++
		}
	}
	if given > 1 {
		return bad("Give one of them; a selector can name its window: window:\"…\" >> …",
			"Only one of selector, window and region can be waited for.")
	}
	w.state = a.State
	pixels := has(pixelStates, a.State)
	if w.state == "" {
		switch {
		case a.Region != nil || given == 0 && a.StableMS > 0:
			w.state, pixels = "stable", true
		case a.Value != nil:
			w.state = "value"
		default:
			w.state = "exists"
		}
	}
	w.launch = launch && given == 0 && !pixels
	known := elementStates
	if a.Window != "" || w.launch {
		known = windowStates
	}
	if a.Region != nil {
		known = nil
	}
	switch {
	case given == 0 && !pixels && !w.launch:
		return bad("Give selector, window or region, or the state stable or changed.", "There is nothing to wait for.")
	case !pixels && !has(known, w.state):
		return bad("Use "+strings.Join(append(slices.Clone(known), pixelStates...), ", ")+".", "The state %q cannot be waited for here.",
			capabilities.Clip(w.state, 16))
	case (w.state == "value") != (a.Value != nil):
		return bad("Give both, or neither.", "The state value and the field value go together.")
	case a.StableMS > 0 && w.state != "stable":
		return bad("Leave it out, or wait for the state stable.", "stable_ms goes with the state stable.")
	}
	if len(a.Selector) > 0 {
		var err error
		if w.sel, err = selector.Decode(a.Selector); err != nil {
			return err
		}
		if w.sel.OCR != nil && !has([]string{"exists", "visible", "hidden", "gone"}, w.state) {
			return bad("Use exists or gone.", "Text that is seen has no state %s.", w.state)
		}
	}
	if a.Timeout == nil {
		most := int64(5000)
		a.Timeout = &most
	}
	if a.StableMS == 0 {
		a.StableMS = 500
	}
	if a.PollMS == 0 {
		a.PollMS = 250
	}
	return nil
}

// listen begins to hear of changes, before anything is looked at.
func (w *waiter) listen(ctx context.Context) (err error) {
	if has(pixelStates, w.state) || w.sel != nil && w.sel.OCR != nil {
		if w.d.Screen == nil {
			return missing(w.d, platform.PartScreen)
		}
	}
	if w.sel != nil && w.sel.OCR == nil {
		if w.d.Accessibility == nil {
			return missing(w.d, platform.PartAccessibility)
		}
		w.events, _ = w.d.Accessibility.Events(ctx)
	}
	if w.args.Window != "" || w.launch {
		if w.d.Windows == nil {
			return missing(w.d, platform.PartWindows)
		}
		w.before, err = w.h.list(ctx, w.d)
	}
	if w.d.Windows != nil {
		w.changes, _ = w.d.Windows.Changes(ctx)
	}
	switch {
	case has(pixelStates, w.state):
		return w.listenPixels(ctx)
	case w.sel != nil && w.sel.OCR != nil:
		layout, err := w.d.Screen.Layout(ctx)
		if err != nil {
			return err
		}
		w.pixels, _ = w.d.Screen.Changes(ctx, layout.Whole())
	}
	return err
}

// listenPixels finds the area that is meant and takes its picture.
func (w *waiter) listenPixels(ctx context.Context) error {
	layout, err := w.d.Screen.Layout(ctx)
	if err != nil {
		return err
	}
	switch {
	case w.args.Region != nil:
		w.area, err = w.h.regionOf(layout, *w.args.Region)
	case w.args.Window != "":
		var win platform.Window
		if win, err = w.h.window(ctx, w.args.Window); err == nil {
			w.area = win.Bounds
		}
	case w.sel != nil:
		var e platform.Element
		if e, err = w.h.resolve(ctx, w.d, w.sel); err == nil {
			w.area = e.Bounds
		}
	default:
		w.area = layout.Whole()
	}
	if err != nil {
		return err
	}
	if w.area = w.area.Intersect(layout.Whole()); w.area.Empty() {
		return &capabilities.Error{
			Code: capabilities.CodeOutsideDesktop, Message: "The region or element to wait for has no area on any display.",
		}
	}
	w.pixels, _ = w.d.Screen.Changes(ctx, w.area)
	w.h.observe(keyScreen, "")
	if w.last, err = w.d.Screen.Frame(ctx, w.area, false); err != nil {
		return err
	}
	w.calm = time.Now()
	return nil
}

// regionOf returns the desktop's pixels that a region means: those that its pixels
// in the image of frame_id show, or, without one, the desktop's own.
func (h *Handler) regionOf(layout platform.Layout, r waitRegion) (platform.Rect, error) {
	if r.FrameID == "" {
		return r.Pixels(), nil
	}
	s, err := h.frame(r.FrameID, layout)
	if err != nil {
		return platform.Rect{}, err
	}
	part := r.Pixels().Intersect(platform.Rect{Width: s.width, Height: s.height})
	if part.Empty() {
		return platform.Rect{}, capabilities.Errorf(capabilities.CodeOutsideDesktop, "That image has %d by %d pixels; the region is not in it.",
			s.width, s.height)
	}
	x, y := part.X*s.area.Width/s.width, part.Y*s.area.Height/s.height
	right := ((part.X+part.Width)*s.area.Width + s.width - 1) / s.width
	bottom := ((part.Y+part.Height)*s.area.Height + s.height - 1) / s.height
	return platform.Rect{X: s.area.X + x, Y: s.area.Y + y, Width: right - x, Height: bottom - y}, nil
}

func (w *waiter) close() {
	w.stop()
	w.last.Release()
}

// launched says which process was started.
func (w *waiter) launched(pid int) { w.pid = pid }

const (
	// margin is left of a call's own time to give its answer.
	margin = 250 * time.Millisecond
	// firstLook is how long the first look may take, whatever timeout_ms says.
	firstLook = 2 * time.Second
)

// run waits.
func (w *waiter) run(ctx context.Context) (waited, error) {
	began := time.Now()
	end := began.Add(time.Duration(*w.args.Timeout) * time.Millisecond)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-margin).Before(end) {
		end = deadline.Add(-margin)
	}
	// A look that is under way when the time is over ends with it, but the first one
	// gets time enough.
	most := end
	if least := began.Add(firstLook); most.Before(least) {
		most = least
	}
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-margin/2).Before(most) {
		most = deadline.Add(-margin / 2)
	}
	looking, cancel := context.WithDeadline(ctx, most)
	defer cancel()
	for first := true; ; first = false {
		looked := time.Now()
		ok, wake, err := w.holds(looking)
		switch {
		case err != nil && looking.Err() != nil && ctx.Err() == nil:
			return w.ended(waitTimeout, time.Since(began), false), nil
		case err != nil && !(isHung(err) || capabilities.CodeOf(err) == capabilities.CodeAppHung):
			return waited{}, err
		case ok:
			return w.ended(waitSatisfied, time.Since(began), first), nil
		case !time.Now().Before(end):
			return w.ended(waitTimeout, time.Since(began), false), nil
		}
		// A look may be dear: the node does not spend its time with looking.
		cost := time.Since(looked)
		if wake.IsZero() {
			wake = time.Now().Add(max(time.Duration(w.args.PollMS)*time.Millisecond, 10*cost))
		}
		if err := w.sleep(ctx, min(2*cost, 100*time.Millisecond), earlier(wake, end)); err != nil {
			return waited{}, err
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// sleep returns at the next change, but not before rest, or at until.
func (w *waiter) sleep(ctx context.Context, rest time.Duration, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	began := time.Now()
	select {
	case <-timer.C:
		return nil
	case _, ok := <-w.events:
		if !ok {
			w.events = nil
		}
	case _, ok := <-w.changes:
		if !ok {
			w.changes = nil
		}
	case _, ok := <-w.pixels:
		if !ok {
			w.pixels = nil
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	err := capabilities.Sleep(ctx, min(rest-time.Since(began), time.Until(until)))
	drop(w.events) // the next look sees what they told
	drop(w.changes)
	drop(w.pixels)
	return err
}

func (w *waiter) ended(status string, took time.Duration, already bool) waited {
	e := waited{status: status, elapsed: took, already: already}
	if w.found != nil {
		m := w.h.match(*w.found)
		e.match = &m
	} else if status == waitTimeout && w.looked != nil && w.state != "gone" && w.state != "hidden" {
		if near := w.looked.Nearest(w.sel); len(near) > 0 {
			e.nearest = w.h.outlines(w.looked, near)
		}
	}
	if w.window != nil {
		e.window = windowOf(*w.window)
	}
	return e
}

// holds looks whether the condition holds. wake, if not zero, is when it is to be
// looked at again although nothing changed.
func (w *waiter) holds(ctx context.Context) (ok bool, wake time.Time, err error) {
	switch {
	case has(pixelStates, w.state):
		return w.holdsPixels(ctx)
	case w.launch:
		ok, err = w.holdsLaunched(ctx)
	case w.args.Window != "":
		ok, err = w.holdsWindow(ctx)
	case w.sel.OCR != nil:
		ok, err = w.holdsSeen(ctx)
	default:
		ok, err = w.holdsElement(ctx)
	}
	return ok, wake, err
}
