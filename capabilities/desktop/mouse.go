package desktop

import (
	"context"
	"math"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

const (
	// dragTime is how long a drag takes if the call does not say: a browser hands what
	// is dragged from the page's process to its own, and applications have to answer
	// each other about it. One that is not ready when the button comes up forgets it.
	dragTime = 600 * time.Millisecond
	// lagTimes is how many times as long as an application was behind a drag takes at
	// least: on its way it is pressed, noticed, announced, looked at and agreed to. mostDrag
	// bounds that.
	lagTimes = 16
	mostDrag = 5 * time.Second
	// clickGap is between the clicks of a double one: systems count in milliseconds,
	// and two presses in one of them are one to Chrome.
	clickGap = 3 * time.Millisecond
	// stride is the time between two motions of a movement that takes time.
	stride = 8 * time.Millisecond
	// nearby is the size of the area around a point without a window in which
	// effects are looked for.
	nearby = 400
)

type mouseArgs struct {
	Action     string   `json:"action"`
	X          float64  `json:"x"`
	Y          float64  `json:"y"`
	FrameID    string   `json:"frame_id"`
	Button     string   `json:"button"`
	Count      int      `json:"count"`
	Modifiers  []string `json:"modifiers"`
	Path       []spot   `json:"path"`
	DurationMS *int64   `json:"duration_ms"`
	ScrollX    int      `json:"scroll_x"`
	ScrollY    int      `json:"scroll_y"`
}

type spot struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

type mouseResult struct {
	Action  string            `json:"action"`
	X       float64           `json:"x"`
	Y       float64           `json:"y"`
	Pointer *place            `json:"pointer,omitempty"`
	Unbound bool              `json:"unbound,omitempty"`
	Held    []platform.Button `json:"held,omitempty"`
}

type place struct {
	X int `json:"x"`
	Y int `json:"y"`
}

// mouse carries out tyrum.desktop.mouse.
func (h *call) mouse(ctx context.Context) (capabilities.Output, error) {
	args := mouseArgs{Button: string(platform.ButtonLeft), Count: 1}
	if err := h.decode(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := args.check(); err != nil {
		return capabilities.Output{}, err
	}
	m := gesture{h: h, args: args, lane: h.inv.Lane}
	err := h.input(ctx, func(ctx context.Context, in platform.Input) error { return m.perform(ctx, in) })
	if err != nil {
		return capabilities.Output{}, err
	}
	return capabilities.Output{
		Result: mouseResult{
			Action: args.Action, X: args.X, Y: args.Y, Pointer: m.at, Unbound: args.FrameID == "", Held: h.hands.held(h.inv.Lane),
		},
		Effect: m.effect, Evidence: m.evidence, Did: &capabilities.Did{App: m.app},
	}, nil
}

// check refuses what the schema cannot.
func (a *mouseArgs) check() error {
	bad := func(text, hint string) error {
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "%s", text).WithHint(hint)
	}
	switch {
	case a.Action == "scroll" && a.ScrollX == 0 && a.ScrollY == 0:
		return bad("scroll turns the wheel by nothing.", "Give scroll_y (down is positive) or scroll_x, in clicks of the wheel.")
	case a.Action != "scroll" && (a.ScrollX != 0 || a.ScrollY != 0):
		return bad("scroll_x and scroll_y belong to the action scroll.", "Leave them out, or scroll.")
	case a.Action != "drag" && a.Action != "move" && len(a.Path) > 0:
		return bad("A path belongs to the actions drag and move.", "Leave it out.")
	case a.Action != "click" && a.Count > 1:
		return bad("count belongs to the action click.", "Leave it out.")
	}
	return nil
}

// gesture is one use of the mouse.
type gesture struct {
	h        *call
	args     mouseArgs
	lane     capabilities.LaneID
	at       *place // where the pointer was read back
	app      string // the application under its end; empty: none known, or a plain move
	effect   capabilities.Effect
	evidence string
}

// perform moves to the place and does there what was asked. The layout and the
// windows are looked at now, in the call's own turn, not when it was sent.
func (m *gesture) perform(ctx context.Context, in platform.Input) error {
	d, err := m.h.desktop(ctx)
	if err != nil {
		return err
	}
	layout, err := m.h.layout(ctx, d)
	if err != nil {
		return err
	}
	to, err := m.h.pointIn(layout, m.args.FrameID, m.args.X, m.args.Y)
	if err != nil {
		return err
	}
	way := make([]platform.Point, 0, len(m.args.Path)+1)
	for _, s := range m.args.Path {
		p, err := m.h.pointIn(layout, m.args.FrameID, s.X, s.Y)
		if err != nil {
			return err
		}
		way = append(way, p)
	}
	way = append(way, to)
	if m.args.Action == "move" && len(m.h.hands.held(m.lane)) == 0 {
		m.h.acts(pixel(to))
		if err := m.travel(ctx, in, way, m.duration(0)); err != nil {
			return err
		}
		m.effect, m.evidence = capabilities.EffectConfirmed, "the pointer was read back there"
		return nil
	}
	return m.press(ctx, d, in, way)
}

// press is every action but a plain move: what is at its ends must not be ours.
func (m *gesture) press(ctx context.Context, d *platform.Desktop, in platform.Input, way []platform.Point) error {
	b := platform.Button(m.args.Button)
	if has([]string{"click", "down", "drag"}, m.args.Action) {
		if err := m.h.hands.isUp(b); err != nil {
			return err
		}
	}
	to := way[len(way)-1]
	ends := []platform.Point{way[0], to}
	if m.args.Action == "drag" && len(way) == 1 {
		from, err := in.Pointer(ctx)
		if err != nil {
			return err
		}
		ends[0] = from
	}
	area := platform.Rect{X: to.X - nearby/2, Y: to.Y - nearby/2, Width: nearby, Height: nearby}
	for _, p := range ends {
		window, err := mayTouch(ctx, d, p)
		if err != nil {
			return err
		}
		area = area.Union(window.Bounds)
		m.app = window.App
	}
	if ends[0] != to && m.args.Action == "drag" {
		m.h.acts(pixel(ends[0]), pixel(to))
	} else {
		m.h.acts(pixel(to))
	}
	seen := watchArea(ctx, d, area)
	defer seen.close()
	held, err := m.hold(ctx, in)
	if err != nil {
		return err
	}
	switch m.args.Action {
	case "move":
		err = m.travel(ctx, in, way, m.duration(0))
	case "click":
		if err = m.travel(ctx, in, way, 0); err == nil {
			seen.drain()
			err = m.click(ctx, in, b)
		}
	case "down":
		if err = m.travel(ctx, in, way, m.duration(0)); err == nil {
			seen.drain()
			if err = in.Button(ctx, b, true); err == nil {
				m.h.keepDown(m.lane, in, b, true)
			}
		}
	case "up":
		if err = m.travel(ctx, in, way, m.duration(0)); err == nil {
			seen.drain()
			if err = in.Button(ctx, b, false); err == nil {
				m.h.keepDown(m.lane, in, b, false)
			}
		}
	case "scroll":
		if err = m.travel(ctx, in, way, 0); err == nil {
			seen.drain()
			err = in.Scroll(ctx, m.args.ScrollX, m.args.ScrollY)
		}
	case "drag":
		seen.drain()
		err = m.drag(ctx, in, b, way)
	}
	if err == nil {
		err = m.unhold(ctx, in, held)
	}
	if err != nil {
		return err
	}
	m.effect, m.evidence = seen.verdict(ctx, "the pointer was read back there")
	return nil
}

// hold presses the modifier keys; what it pressed comes up again even if one
// fails, with everything else.
func (m *gesture) hold(ctx context.Context, in platform.Input) (held []string, err error) {
	for _, name := range m.args.Modifiers {
		if err := in.Key(ctx, name, true); err != nil {
			return held, err
		}
		held = append(held, name)
	}
	return held, nil
}

func (m *gesture) unhold(ctx context.Context, in platform.Input, held []string) error {
	for i := len(held) - 1; i >= 0; i-- {
		if err := in.Key(ctx, held[i], false); err != nil {
			return err
		}
	}
	return nil
}

func (m *gesture) click(ctx context.Context, in platform.Input, b platform.Button) error {
	if several, ok := in.(platform.Clicker); ok && m.args.Count > 1 && m.duration(0) == 0 {
		return several.Click(ctx, b, m.args.Count, clickGap)
	}
	for i := range m.args.Count {
		if i > 0 {
			if err := capabilities.Sleep(ctx, clickGap); err != nil {
				return err
			}
		}
		if err := in.Button(ctx, b, true); err != nil {
			return err
		}
		if err := capabilities.Sleep(ctx, m.duration(0)/time.Duration(m.args.Count)); err != nil {
			return err
		}
		if err := in.Button(ctx, b, false); err != nil {
			return err
		}
	}
	return nil
}

// drag presses at the first point of the way, or where the pointer is if it has
// only one, and lets go at the last. Most of its time is spent on the way, where
// whatever begins with the first motion comes about; a third at the end, for the
// target to agree, or as many as an application that is behind needs.
func (m *gesture) drag(ctx context.Context, in platform.Input, b platform.Button, way []platform.Point) error {
	if len(way) > 1 {
		if err := m.travel(ctx, in, way[:1], 0); err != nil {
			return err
		}
		way = way[1:]
	}
	if err := in.Button(ctx, b, true); err != nil {
		return err
	}
	slow, err := behind(ctx, in)
	if err != nil {
		return err
	}
	// A process behind the application (a page's own, say) tells nothing; it is as late as
	// everybody is on this machine.
	for range 3 {
		began := time.Now()
		if err := capabilities.Sleep(ctx, stride); err != nil {
			return err
		}
		slow = max(slow, time.Since(began)-stride)
	}
	least := dragTime
	if _, told := in.(platform.Follower); !told {
		least *= 2 // nothing tells how late the application is, as on Wayland
	}
	whole := m.duration(min(max(least, lagTimes*slow), mostDrag))
	if err := m.travel(ctx, in, way, whole*2/3); err != nil {
		return err
	}
	if err := m.linger(ctx, in, way[len(way)-1], whole/3); err != nil {
		return err
	}
	return in.Button(ctx, b, false)
}

// linger stays at the end of a drag for a while in which the application was awake. One
// that slept through it comes to the press only now: what begins with the first motion
// begins then, and wants another motion to find its target.
func (m *gesture) linger(ctx context.Context, in platform.Input, at platform.Point, while time.Duration) error {
	const asleep = 50 * time.Millisecond // at least
	for until := time.Now().Add(mostDrag); ; {
		if err := capabilities.Sleep(ctx, while); err != nil {
			return err
		}
		late, err := behind(ctx, in)
		if err != nil || late <= max(while/2, asleep) || time.Now().After(until) {
			return err
		}
		_ = in.Move(ctx, platform.Point{X: at.X - 1, Y: at.Y}) // at an edge it stays, which the next one does not mind
		if err := m.travel(ctx, in, []platform.Point{at}, 0); err != nil {
			return err
		}
	}
}

// behind waits for the application under the pointer, and tells how slow it is, where
// that can be told.
func behind(ctx context.Context, in platform.Input) (time.Duration, error) {
	if f, ok := in.(platform.Follower); ok {
		return f.Behind(ctx)
	}
	return 0, nil
}

func (m *gesture) duration(otherwise time.Duration) time.Duration {
	if m.args.DurationMS == nil {
		return otherwise
	}
	return time.Duration(*m.args.DurationMS) * time.Millisecond
}

// travel takes the pointer along the way in the given time and reads back where
// it ended. Without time it goes from point to point at once.
func (m *gesture) travel(ctx context.Context, in platform.Input, way []platform.Point, whole time.Duration) error {
	if whole > 0 {
		from, err := in.Pointer(ctx)
		if err != nil {
			return err
		}
		if err := glide(ctx, in, append([]platform.Point{from}, way...), whole, m.args.Action == "drag"); err != nil {
			return err
		}
	}
	var at platform.Point
	var err error
	p, sees := in.(platform.Placer)
	for _, to := range way[lastOf(way, whole > 0):] {
		if sees {
			at, err = p.MoveTo(ctx, to)
		} else {
			err = in.Move(ctx, to)
		}
		if err != nil {
			return err
		}
	}
	if !sees {
		if at, err = in.Pointer(ctx); err != nil {
			return err
		}
	}
	m.at = &place{at.X, at.Y}
	if to := way[len(way)-1]; at != to {
		return capabilities.Errorf(capabilities.CodeExecutionFailed, "The pointer went to %d, %d instead of %d, %d; nothing was pressed there.",
			at.X, at.Y, to.X, to.Y).
			WithHint("An application or the person holds the pointer. Take a screenshot, and try again.")
	}
	return nil
}

func lastOf(way []platform.Point, only bool) int {
	if only {
		return len(way) - 1
	}
	return 0
}

// glide moves along the line through the points, evenly over the given time, however
// late it is at each: no corner is left out. In a drag the application comes by each
// corner before the pointer goes on: one that is busy makes a single motion of all
// that came meanwhile.
func glide(ctx context.Context, in platform.Input, line []platform.Point, whole time.Duration, drags bool) error {
	total := 0.0
	for i := 1; i < len(line); i++ {
		total += span(line[i-1], line[i])
	}
	begin := time.Now()
	corner, until := 1, span(line[0], line[min(1, len(line)-1)])
	for {
		if err := capabilities.Sleep(ctx, min(stride, whole)); err != nil {
			return err
		}
		part := float64(time.Since(begin)) / float64(whole)
		for ; corner < len(line)-1 && part*total >= until; corner++ {
			if err := in.Move(ctx, line[corner]); err != nil {
				return err
			}
			if drags {
				if _, err := behind(ctx, in); err != nil {
					return err
				}
			}
			until += span(line[corner], line[corner+1])
		}
		if part >= 1 {
			return nil // the caller goes to the end itself
		}
		if err := in.Move(ctx, onLine(line, part*total)); err != nil {
			return err
		}
	}
}

func span(a, b platform.Point) float64 {
	return math.Hypot(float64(b.X-a.X), float64(b.Y-a.Y))
}

// onLine returns the point at that distance from the line's start.
func onLine(line []platform.Point, along float64) platform.Point {
	for i := 1; i < len(line); i++ {
		a, b := line[i-1], line[i]
		step := span(a, b)
		if along <= step && step > 0 {
			part := along / step
			return platform.Point{X: a.X + int(math.Round(part*float64(b.X-a.X))), Y: a.Y + int(math.Round(part*float64(b.Y-a.Y)))}
		}
		along -= step
	}
	return line[len(line)-1]
}
