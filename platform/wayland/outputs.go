//go:build linux

package wayland

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// Outputs are the displays. A compositor arranges them in units of its own, of
// which a display shows each with one pixel or more (its scale); this program
// counts physical pixels. A display's pixels begin where its place, enlarged by the
// largest scale of all, is: no two overlap, and with one scale nothing is bent.
type Outputs struct {
	c   *Conn
	xdg *object // nil: places are those of wl_output

	following sync.Mutex // held while displays are taken and let go

	mu     sync.Mutex // above what follows
	all    []*output
	layout platform.Layout
	places []place // of layout.Displays
	stale  bool
	next   []func()
}

// output is one display as events told.
type output struct {
	global  uint32
	object  *object
	xdg     *object
	now     outputFacts // as of the last "done"
	pending outputFacts
	known   bool // "done" came
}

type outputFacts struct {
	name, description      string
	x, y, width, height    int // in the compositor's units
	mode                   [2]int
	transform, scale       int
	placed, sized, hasName bool
}

// place is where a display is, for both ways of counting.
type place struct {
	output    *object
	global    uint32
	bounds    platform.Rect // physical
	logical   platform.Rect
	transform int
	version   uint32
}

// NewOutputs reads the displays.
func NewOutputs(ctx context.Context, c *Conn) (*Outputs, error) {
	o := &Outputs{c: c, stale: true}
	// The first epoch is later than any of an earlier connection, so that they never
	// repeat, and small enough for every JSON reader.
	o.layout.Epoch = uint64(time.Now().UnixMicro())
	var err error
	if o.xdg, err = c.bindOne(xdgOutputManager, nil); err != nil {
		return nil, err
	}
	c.onGlobals(o.follow)
	o.follow()
	for range 2 { // the second answers what the first made known
		if err := c.Sync(ctx); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// follow takes displays that came, and lets go of those that went.
func (o *Outputs) follow() {
	o.following.Lock()
	defer o.following.Unlock()
	globals := o.c.list(wlOutput.name)
	o.mu.Lock()
	var fresh []global
	for _, g := range globals {
		if !slices.ContainsFunc(o.all, func(out *output) bool { return out.global == g.name }) {
			fresh = append(fresh, g)
		}
	}
	o.all = slices.DeleteFunc(o.all, func(out *output) bool {
		if slices.ContainsFunc(globals, func(g global) bool { return g.name == out.global }) {
			return false
		}
		if out.xdg != nil {
			o.c.destroy(out.xdg, xdgOutputDestroy)
		}
		if out.object.version >= 3 {
			o.c.destroy(out.object, outputRelease)
		}
		o.stale = true
		return true
	})
	changed := o.stale
	o.mu.Unlock()
	for _, g := range fresh {
		out := &output{global: g.name}
		out.pending.scale = 1
		object, err := o.c.bind(g, wlOutput, func(m *message) { o.told(out, m) })
		if err != nil {
			return
		}
		o.mu.Lock()
		out.object = object
		o.all = append(o.all, out)
		o.mu.Unlock()
		if o.xdg != nil {
			xdg, err := o.c.create(o.xdg.id, xdgManagerGetOutput, xdgOutput, o.xdg.version, func(m *message) { o.toldMore(out, m) }, object.id)
			if err != nil {
				return
			}
			o.mu.Lock()
			out.xdg = xdg
			o.mu.Unlock()
		}
	}
	if changed {
		o.tell()
	}
}

func (o *Outputs) told(out *output, m *message) {
	o.mu.Lock()
	p := &out.pending
	done := false
	switch m.opcode {
	case outputGeometry:
		x, y := m.int(), m.int()
		m.int()
		m.int()
		m.int()
		brand, model := m.string(), m.string()
		p.transform = m.int()
		if !p.placed {
			p.x, p.y = x, y
		}
		if !p.hasName {
			p.name = brand + " " + model
		}
	case outputMode:
		if flags, w, h := m.uint(), m.int(), m.int(); flags&outputModeCurrent != 0 {
			p.mode = [2]int{w, h}
		}
	case outputScale:
		p.scale = max(1, m.int())
	case outputName:
		p.name, p.hasName = m.string(), true
	case outputDescription:
		p.description = m.string()
	case outputDone:
		out.now, out.known, o.stale = *p, true, true
		done = true
	}
	o.mu.Unlock()
	if done {
		o.tell()
	}
}

func (o *Outputs) toldMore(out *output, m *message) {
	o.mu.Lock()
	p := &out.pending
	done := false
	switch m.opcode {
	case xdgOutputPosition:
		p.x, p.y, p.placed = m.int(), m.int(), true
	case xdgOutputSize:
		p.width, p.height, p.sized = m.int(), m.int(), true
	case xdgOutputName:
		p.name, p.hasName = m.string(), true
	case xdgOutputDescription:
		p.description = m.string()
	case xdgOutputDone:
		out.now, out.known, o.stale = *p, true, true
		done = true
	}
	// The compositor need not say "done" for these after the first time.
	if out.known && !done {
		out.now, o.stale, done = *p, true, true
	}
	o.mu.Unlock()
	if done {
		o.tell()
	}
}

// onChange has f called where the connection is read.
func (o *Outputs) onChange(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next = append(o.next, f)
}

func (o *Outputs) tell() {
	o.mu.Lock()
	next := o.next
	o.mu.Unlock()
	for _, f := range next {
		f()
	}
}

// Layout returns the displays as they are now.
func (o *Outputs) Layout(ctx context.Context) (platform.Layout, error) {
	if err := o.c.Sync(ctx); err != nil {
		return platform.Layout{}, err
	}
	l, _ := o.known()
	return l, nil
}

// known returns the layout by what was told so far.
func (o *Outputs) known() (platform.Layout, []place) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.stale {
		return o.layout, o.places
	}
	o.stale = false
	type one struct {
		out    *output
		facts  outputFacts
		factor float64
	}
	var all []one
	most := 1.0
	for _, out := range o.all {
		f := out.now
		if !out.known || f.mode[0] <= 0 || f.mode[1] <= 0 {
			continue
		}
		if f.transform&1 != 0 { // a quarter turn
			f.mode[0], f.mode[1] = f.mode[1], f.mode[0]
		}
		if !f.sized || f.width <= 0 || f.height <= 0 {
			f.width, f.height = f.mode[0]/f.scale, f.mode[1]/f.scale
		}
		factor := float64(f.mode[0]) / float64(f.width)
		most = max(most, factor)
		all = append(all, one{out, f, factor})
	}
	// From left to right: compositors tell of them in whatever order.
	sort.SliceStable(all, func(i, j int) bool {
		a, b := &all[i].facts, &all[j].facts
		return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.y, b.y)) < 0
	})
	displays, places := []platform.Display{}, []place{}
	primary := -1
	for i, a := range all {
		f := a.facts
		d := platform.Display{ID: f.name, Name: f.name, Scale: math.Round(a.factor*100) / 100, Bounds: platform.Rect{
			X: int(math.Round(float64(f.x) * most)), Y: int(math.Round(float64(f.y) * most)), Width: f.mode[0], Height: f.mode[1]}}
		if f.description != "" && f.description != f.name {
			d.Name = f.name + ", " + f.description
		}
		if len(d.ID) > 256 {
			d.ID = d.ID[:256]
		}
		// No protocol names a primary one: it is the one at the origin.
		if primary < 0 || f.x == 0 && f.y == 0 {
			primary = i
		}
		displays = append(displays, d)
		places = append(places, place{
			a.out.object, a.out.global, d.Bounds, platform.Rect{X: f.x, Y: f.y, Width: f.width, Height: f.height}, f.transform, a.out.object.version,
		})
	}
	if primary >= 0 {
		displays[primary].Primary = true
	}
	if !slices.Equal(displays, o.layout.Displays) {
		o.layout = platform.Layout{Epoch: o.layout.Epoch + 1, Displays: displays}
	}
	o.places = places
	return o.layout, o.places
}

// logical returns the compositor's place of a pixel; false if it is on no display.
func logical(places []place, p platform.Point) (x, y float64, ok bool) {
	for _, at := range places {
		if at.bounds.Has(p) {
			fx := float64(at.logical.Width) / float64(at.bounds.Width)
			fy := float64(at.logical.Height) / float64(at.bounds.Height)
			// The middle of the pixel.
			return float64(at.logical.X) + (float64(p.X-at.bounds.X)+0.5)*fx, float64(at.logical.Y) + (float64(p.Y-at.bounds.Y)+0.5)*fy, true
		}
	}
	return 0, 0, false
}

// physical returns the pixels of an area in the compositor's units, by the display
// that holds its middle.
func physical(places []place, r platform.Rect) platform.Rect {
	mid := r.Center()
	var at place
	for i, p := range places {
		if i == 0 || p.logical.Has(mid) {
			at = p
		}
	}
	if at.logical.Empty() {
		return r
	}
	f := float64(at.bounds.Width) / float64(at.logical.Width)
	x := func(v, from, to int) int { return to + int(math.Round(float64(v-from)*f)) }
	x0, y0 := x(r.X, at.logical.X, at.bounds.X), x(r.Y, at.logical.Y, at.bounds.Y)
	x1, y1 := x(r.X+r.Width, at.logical.X, at.bounds.X), x(r.Y+r.Height, at.logical.Y, at.bounds.Y)
	return platform.Rect{X: x0, Y: y0, Width: x1 - x0, Height: y1 - y0}
}

// units is the other way round.
func units(places []place, r platform.Rect) platform.Rect {
	mid := r.Center()
	var at place
	for i, p := range places {
		if i == 0 || p.bounds.Has(mid) {
			at = p
		}
	}
	if at.bounds.Empty() {
		return r
	}
	f := float64(at.logical.Width) / float64(at.bounds.Width)
	x := func(v, from, to int) int { return to + int(math.Round(float64(v-from)*f)) }
	x0, y0 := x(r.X, at.bounds.X, at.logical.X), x(r.Y, at.bounds.Y, at.logical.Y)
	return platform.Rect{X: x0, Y: y0, Width: int(math.Round(float64(r.Width) * f)), Height: int(math.Round(float64(r.Height) * f))}
}
