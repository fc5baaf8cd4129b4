package browser

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/input"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// drag carries out tyrum.browser.drag: from one element to another, or along a
// path of points. Both kinds that pages know work: what follows the pointer's
// events (sliders, canvases, sortable lists), and the drag and drop of HTML, which
// the browser takes over once the page lets it start. Chrome then hands it to us
// (Input.setInterceptDrags) and we carry on with drag events.
func drag(c *call) (capabilities.Output, error) {
	var args struct {
		SourceRef      string     `json:"source_ref"`
		SourceSelector string     `json:"source_selector"`
		TargetRef      string     `json:"target_ref"`
		TargetSelector string     `json:"target_selector"`
		Path           []position `json:"path"`
		Data           *dropped   `json:"data"`
		DurationMS     int        `json:"duration_ms"`
		Snapshot       string     `json:"snapshot"`
	}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	source := which{Ref: args.SourceRef, Selector: args.SourceSelector}
	goal := which{Ref: args.TargetRef, Selector: args.TargetSelector}
	if args.Data != nil {
		if source != (which{}) || len(args.Path) > 0 || goal == (which{}) || *args.Data == (dropped{}) {
			return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments,
				"data needs a target, and a text, html or uri in it; it has no source or path.")
		}
		c.wants = args.Snapshot
		return c.dropData(goal, *args.Data)
	}
	if elements := source != (which{}) ||
		goal != (which{}); elements == (len(args.Path) > 0) || elements && (source == (which{}) || goal == (which{})) {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "Give either a source and a target, or path.")
	}
	if len(args.Path) == 1 {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "path needs two points at least.")
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	c.wants = args.Snapshot
	d := &dragging{c: c, m: mouse{t: c.tab.tab, button: "left"}, spread: time.Duration(args.DurationMS) * time.Millisecond, path: args.Path}
	if err := d.m.isUp(); err != nil {
		return capabilities.Output{}, err
	}
	v, err := d.run(source, goal)
	if err == nil && (v.effect == capabilities.EffectSuspectNoop || d.stayed) && len(args.Path) == 0 && !d.taken {
		// Some lists begin a drag only after the pointer rested on what is dragged.
		first := d.w
		d = &dragging{c: c, m: d.m, spread: d.spread, hold: holdFor}
		first.put(c.ctx, inpage.Unselect, struct{}{}).get(c.ctx, nil)
		v, err = d.run(source, goal)
		switch {
		case err != nil:
		case d.stayed && v.effect == capabilities.EffectConfirmed:
			v = of(draggedStayed)
		case v.effect == capabilities.EffectConfirmed:
			v = v.with(evidence{cause: heldStill})
		}
	}
	if err != nil {
		return capabilities.Output{}, err
	}
	return c.result(v)
}

// dropped is data as another program lets it be dropped.
type dropped struct {
	Text *string `json:"text"`
	HTML *string `json:"html"`
	URI  *string `json:"uri"`
}

// droppable are the schemes of addresses that Chrome drops as they are.
var droppable = []string{"http", "https", "mailto", "tel"}

// dropData drops data on an element that takes it.
func (c *call) dropData(goal which, d dropped) (capabilities.Output, error) {
	var scheme string
	if d.URI != nil {
		scheme, _, _ = strings.Cut(*d.URI, ":")
	}
	if d.URI != nil && !slices.Contains(droppable, strings.ToLower(scheme)) {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments,
			"uri: Chrome gives pages no dropped address of the scheme %q.", capabilities.Clip(scheme, 40)).
			WithHint("Give an address of http, https, mailto or tel, or give it as text.")
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	data := &input.DragData{Items: []*input.DragDataItem{}}
	for _, x := range []struct {
		mime string
		said *string
	}{{"text/plain", d.Text}, {"text/html", d.HTML}, {"text/uri-list", d.URI}} {
		if x.said != nil {
			data.Items = append(data.Items, &input.DragDataItem{MimeType: x.mime, Data: *x.said})
		}
	}
	w, at, err := c.aim(goal.aim("data"))
	if err != nil {
		return capabilities.Output{}, naming("target", err)
	}
	v, err := c.dropOn(w, at, data, func() {})
	if err != nil {
		return capabilities.Output{}, err
	}
	return c.result(v)
}

// dragging is one drag on its way.
type dragging struct {
	c      *call
	m      mouse
	w      world // of the source's document
	spread time.Duration
	path   []position
	hold   time.Duration // between the press and the first move

	at    position
	moved float64 // how far from where it was pressed, at most
	from  position
	data  *input.DragData // not nil: the browser took it over
	taken bool            // it did so
	// stayed: nothing changed but how what is dragged is marked.
	stayed bool
	over   bool // nothing more to find out about how it goes
	apart  bool // source and goal do not show together
}

// A drag begins for the browser after some pixels, at most so many (a link's).
const hysteresis = 48

// leave is how far the first step goes. Pages that take it for where the drag began lose no more
// of the way, as with a hand.
const leave = 6

// beside is how far from the middle of a goal it is entered: lists that ask on which side of the
// middle the pointer is find no answer in the middle itself.
const beside = 2

// holdFor is longer than lists wait until a press begins a drag.
const holdFor = 700 * time.Millisecond

func (d *dragging) run(source, goal which) (verdict, error) {
	c := d.c
	intercept := devtools.Start(c.ctx, c.tab.s, input.SetInterceptDrags, input.SetInterceptDragsParams{Enabled: true})
	defer devtools.Start(c.whole, c.tab.s, input.SetInterceptDrags, input.SetInterceptDragsParams{Enabled: false})
	aim := aimArgs{Ref: source.Ref, Selector: source.Selector, Kind: "drag", Button: "left", Count: 1}
	if len(d.path) > 0 {
		aim.X, aim.Y = &d.path[0].X, &d.path[0].Y
	} else if _, _, err := c.aim(goal.aim("place")); err != nil {
		return verdict{}, naming("target", err) // before anything is picked up
	}
	w, at, err := c.aim(aim)
	if err != nil {
		return verdict{}, naming("source", err)
	}
	if _, err := intercept.Wait(c.ctx); err != nil {
		return verdict{}, err
	}
	d.w, d.at, d.apart = w, position{at.X, at.Y}, at.Moved
	d.from = d.at
	ctx := c.input()
	c.tab.takeDrag() // what an earlier one left
	sent := []*devtools.Pending{d.m.move(ctx, at.X, at.Y), d.m.down(ctx, at.X, at.Y, 1)}
	for _, p := range sent {
		if _, err = p.Wait(ctx); err != nil {
			break
		}
	}
	if err == nil && d.hold > 0 {
		err = c.pause(d.hold)
	}
	if err == nil {
		err = d.carry(goal)
	}
	if err != nil {
		d.letGo()
		return verdict{}, err
	}
	last, err := d.drop()
	if err != nil {
		d.letGo()
		return verdict{}, err
	}
	v, missed, err := c.conclude(w, last)
	now, _ := c.tab.look()
	d.stayed = c.stayed && now.requests == c.before.requests
	if missed {
		err = capabilities.Errorf(capabilities.CodeElementObscured, "The element moved away or was covered before it could be picked up.").
			WithHint("Wait until the page has come to rest, with tool.browser.wait-for, and try again.")
	}
	return v, err
}

// carry moves to the goal, in steps: pages that drag by pointer events want to see
// it leave, come near and arrive.
func (d *dragging) carry(goal which) error {
	if len(d.path) == 0 {
		if d.apart {
			// The browser looks for what is dragged where it was pressed: it has to begin
			// before the page is scrolled to the goal.
			for _, step := range []float64{hysteresis / 8, hysteresis / 2} {
				if err := d.moveTo(position{d.from.X + step, d.from.Y + step}); err != nil {
					return err
				}
			}
		}
		return d.toGoal(goal)
	}
	way := d.path[1:]
	if first := d.towards(way[0]); first != way[0] {
		way = append([]position{first}, way...)
	}
	return d.along(way, d.spread)
}

// towards is where the first step to p ends.
func (d *dragging) towards(p position) position {
	far := math.Hypot(p.X-d.from.X, p.Y-d.from.Y)
	if far <= leave {
		return p
	}
	return position{d.from.X + (p.X-d.from.X)*leave/far, d.from.Y + (p.Y-d.from.Y)*leave/far}
}

// near is beside the middle of a goal, on the side that the drag comes from.
func (d *dragging) near(p position) position {
	side := func(from, to float64) float64 {
		if from > to {
			return to + beside
		}
		return to - beside
	}
	return position{side(d.from.X, p.X), side(d.from.Y, p.Y)}
}

// toGoal leaves, comes near and arrives. On the way lists make room, which may move the
// goal, and while they do they hear nothing: so it is aimed at anew where they came to
// rest, and told of the arrival once more.
func (d *dragging) toGoal(goal which) error {
	_, to, err := d.c.aim(goal.aim("place"))
	if err != nil {
		return naming("target", err)
	}
	most := position{d.from.X + (to.X-d.from.X)*0.6, d.from.Y + (to.Y-d.from.Y)*0.6}
	if err := d.along([]position{d.towards(most), most}, d.spread/2); err != nil {
		return err
	}
	end := position{to.X, to.Y}
	taken, err := d.rest(&end)
	if err != nil {
		return err
	}
	if _, again, err := d.c.aim(goal.aim("place")); err == nil && !taken {
		end = position{again.X, again.Y}
	}
	if err := d.along([]position{d.near(end), end}, d.spread/4); err != nil {
		return err
	}
	if _, err := d.rest(nil); err != nil {
		return err
	}
	if err := d.along([]position{end}, d.spread/4); err != nil {
		return err
	}
	_, err = d.rest(nil)
	return err
}

// rest waits until the page has done what the drag made it do; it reports whether what is
// dragged stands at a place then.
func (d *dragging) rest(place *position) (own bool, err error) {
	question := map[string]float64{}
	if place != nil {
		question["x"], question["y"] = place.X, place.Y
	}
	var answer struct {
		Own bool `json:"own"`
	}
	if err := d.w.put(d.c.ctx, inpage.ComeToRest, question).get(d.c.ctx, &answer); err != nil && !contextLost(err) {
		return false, err
	}
	return answer.Own, nil
}

// along moves from point to point, in the time given.
func (d *dragging) along(path []position, spread time.Duration) error {
	pause := spread / time.Duration(len(path))
	for _, p := range path {
		began := time.Now()
		if err := d.moveTo(p); err != nil {
			return err
		}
		if left := pause - time.Since(began); left > 0 {
			if err := d.c.pause(left); err != nil {
				return err
			}
		}
	}
	return nil
}

// moveTo is one step; each has a frame of its own, or the browser would join
// several into one event.
func (d *dragging) moveTo(p position) error {
	c := d.c
	d.at = p
	if d.data != nil {
		_, err := d.send(c.ctx, input.DispatchDragEventTypeDragOver).Wait(c.ctx)
		return err
	}
	if _, err := d.m.move(c.ctx, p.X, p.Y).Wait(c.ctx); err != nil {
		return err
	}
	d.moved = max(d.moved, math.Hypot(p.X-d.from.X, p.Y-d.from.Y))
	if d.over {
		return nil
	}
	var page dragState
	if err := d.w.put(c.ctx, inpage.Dragging, struct{}{}).get(c.ctx, &page); err != nil {
		if !contextLost(err) {
			return err
		}
		d.over = true
		return nil
	}
	d.over = page.Refused || !page.Started && d.moved > hysteresis
	if !page.Started || page.Refused {
		return nil
	}
	// The page lets it start: the browser's own word comes right after.
	c.tab.awaitFor(c.ctx, boundToCome, func(s tabState) bool { return s.drag != nil })
	d.over = true
	if d.data = c.tab.takeDrag(); d.data == nil {
		return c.ctx.Err()
	}
	d.taken = true
	for _, kind := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver} {
		if _, err := d.send(c.ctx, kind).Wait(c.ctx); err != nil {
			return err
		}
	}
	return nil
}

// dragState is what the page made of the drag.
type dragState struct {
	Started bool `json:"started"`
	Refused bool `json:"refused"`
}

func (d *dragging) send(ctx context.Context, kind input.DispatchDragEventType) *devtools.Pending {
	return devtools.Start(ctx, d.c.tab.s, input.DispatchDragEvent,
		input.DispatchDragEventParams{Type: kind, X: d.at.X, Y: d.at.Y, Data: d.data}).
		Pending
}

func (d *dragging) drop() (sent []*devtools.Pending, err error) {
	if d.data != nil {
		p := d.send(d.c.ctx, input.DispatchDragEventTypeDrop)
		if _, err := p.Wait(d.c.ctx); err != nil {
			return nil, err
		}
		d.data = nil
	}
	return []*devtools.Pending{d.m.up(d.c.ctx, d.at.X, d.at.Y, 1)}, nil
}

// letGo ends a drag that cannot be carried on, without a drop. The browser may be
// about to take it over just now, and would keep it.
func (d *dragging) letGo() {
	if d.data == nil && !d.over && d.c.tab.life.Err() == nil {
		ctx, cancel := context.WithTimeout(d.c.tab.life, 500*time.Millisecond)
		defer cancel()
		var page dragState
		d.w.put(ctx, inpage.Dragging, struct{}{}).get(ctx, &page)
		if page.Started && !page.Refused {
			d.c.tab.awaitFor(ctx, 500*time.Millisecond, func(s tabState) bool { return s.drag != nil })
		}
		d.data = d.c.tab.takeDrag()
	}
	if d.data != nil {
		d.send(d.c.whole, input.DispatchDragEventTypeDragCancel)
	}
	d.m.up(d.c.whole, d.at.X, d.at.Y, 1)
}

// naming says which of the two elements an error is about.
func naming(which string, err error) error {
	var e *capabilities.Error
	if !errors.As(err, &e) || e.Code == capabilities.CodeDialogOpen {
		return err
	}
	named := *e
	named.Message = which + ": " + e.PublicMessage()
	return &named
}
