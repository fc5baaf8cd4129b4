package capture

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// Teller is a Grabber that can say exactly what changed. Without it each frame is
// read and compared; with it an unchanged one costs a question.
type Teller interface {
	// Changed returns the areas that were painted since it was last called, up to the
	// moment of this call, and whether the layout changed. It works beside Damage,
	// which tells the same once more.
	Changed(ctx context.Context) (areas []platform.Rect, layout bool, err error)
}

// Knower is a Teller that knows the layout without asking for it.
type Knower interface {
	Teller
	// Known returns the layout as it was when Changed, Pointed or Grab last had an answer.
	Known(ctx context.Context) (platform.Layout, error)
}

// Pointer is a Grabber that can say where the pointer's image is. Without it each frame
// with the pointer is read and compared, for nobody tells of a pointer that moves.
type Pointer interface {
	// Pointed returns the area that the pointer's image covers now, and a number that
	// changes with the image.
	Pointed(ctx context.Context) (at platform.Rect, image uint32, err error)
	// Drawn returns the same of the pointer as the last Grab drew it.
	Drawn() (at platform.Rect, image uint32)
}

// Lender is a Grabber with memory of its own, which Grab fills without a copy.
type Lender interface {
	// Lend returns size bytes that nobody else has, until back is called, from any
	// goroutine, once; nil if there are none to give. They stay readable when the
	// Grabber is closed.
	Lend(ctx context.Context, size int) (pix []byte, back func())
	// Trim returns what is not lent back to the system.
	Trim()
}

const (
	maxViews  = 8        // areas that are remembered
	maxBytes  = 96 << 20 // of their frames together; the newest one is kept anyway
	maxPixels = 1 << 27  // of one frame
	idle      = 30 * time.Second
	leastLent = 1 << 18 // bytes of a frame that memory is lent for; a smaller one is as quickly copied
	// trust is how long is believed that nothing was painted before the pixels are
	// read to see: some drivers paint past what tells of it.
	trust = 2 * time.Second
)

// Bus is a platform.Screen over a Grabber. Its methods are safe for concurrent
// use.
type Bus struct {
	g     platform.Grabber
	idle  time.Duration // after which pixels are forgotten
	trust time.Duration

	// own is held by who uses g and what follows; a channel, so that waiting for a
	// slow display ends with the caller's context.
	own   chan struct{}
	tell  Teller  // nil if g is none, or once it missed something
	know  Knower  // nil if g is none
	point Pointer // nil if g is none
	lend  Lender  // nil if g is none
	views []*view // the last used first
	seq   uint64
	epoch uint64
	spare *room // that nobody else has
	drop  *time.Timer
	ended bool

	watch watch
}

var (
	_ platform.Screen  = (*Bus)(nil)
	_ platform.Alerter = (*Bus)(nil)
)

// view is what is known of an area that somebody looked at.
type view struct {
	area   platform.Rect
	cursor bool
	frame  *platform.Frame // its Pix is nil after a while without use
	room   *room           // where its Pix is; nil as that is
	gone   bool            // the bus does not know it any more
	dirty  platform.Rect   // what may have changed since
	read   time.Time       // when its pixels were last read as a whole
	// The pointer as it is in the frame; good with cursor, once something was read.
	at    platform.Rect
	image uint32
}

// repaint makes what a pointer left and what it covers dirty, if it has moved or
// changed.
func (v *view) repaint(at platform.Rect, image uint32) (moved platform.Rect) {
	if at == v.at && image == v.image {
		return platform.Rect{}
	}
	return v.at.Intersect(v.area).Union(at.Intersect(v.area))
}

// New makes a bus that owns g. It starts nothing.
func New(g platform.Grabber) *Bus {
	tell, _ := g.(Teller)
	know, _ := g.(Knower)
	point, _ := g.(Pointer)
	lend, _ := g.(Lender)
	return &Bus{
		g: g, tell: tell, know: know, point: point, lend: lend, idle: idle, trust: trust, own: make(chan struct{}, 1), watch: newWatch(),
	}
}

func (b *Bus) acquire(ctx context.Context) error {
	select {
	case b.own <- struct{}{}:
		if !b.ended {
			return nil
		}
		<-b.own
		return platform.ErrLost
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *Bus) release() { <-b.own }

// Layout returns the displays as they are now.
func (b *Bus) Layout(ctx context.Context) (platform.Layout, error) {
	if err := b.acquire(ctx); err != nil {
		return platform.Layout{}, err
	}
	defer b.release()
	return b.g.Layout(ctx)
}

// Frame returns the pixels of area as they are now. An area that did not change has
// the frame, and the Seq, that it had.
func (b *Bus) Frame(ctx context.Context, area platform.Rect, cursor bool) (*platform.Frame, error) {
	if area.Empty() || area.Width > maxPixels/area.Height {
		return nil, fmt.Errorf("capture: no image is %d x %d pixels", area.Width, area.Height)
	}
	if err := b.acquire(ctx); err != nil {
		return nil, err
	}
	defer b.release()
	defer b.forgetLater()
	for {
		before, err := b.refresh(ctx)
		if err != nil {
			return nil, err
		}
		v := b.view(area, cursor)
		if err := b.update(ctx, v); err != nil {
			return nil, err
		}
		if v.gone { // while it was updated: the layout is another
			v.forget()
			continue
		}
		// A frame has pixels of one layout only.
		after, err := b.layout(ctx)
		if err != nil {
			return nil, err
		}
		if after.Epoch == before {
			f := *v.frame
			v.room.uses.Add(1)
			f.Free = v.room.drop
			return &f, nil
		}
	}
}

// refresh learns what changed since the last time.
func (b *Bus) refresh(ctx context.Context) (epoch uint64, err error) {
	var areas []platform.Rect
	if b.tell != nil {
		if areas, _, err = b.tell.Changed(ctx); err != nil {
			// Changes may have been taken and not told: nothing known holds any more.
			b.forgetAll()
			return 0, err
		}
	}
	l, err := b.layout(ctx)
	if err != nil {
		return 0, err
	}
	if l.Epoch != b.epoch {
		b.forgetAll()
		b.epoch = l.Epoch
	}
	var at platform.Rect
	var image uint32
	if b.tell != nil && b.point != nil && slices.ContainsFunc(b.views, func(v *view) bool { return v.cursor }) {
		if at, image, err = b.point.Pointed(ctx); err != nil {
			b.forgetAll() // what was told of changes is lost
			return 0, err
		}
	}
	for _, v := range b.views {
		switch {
		case b.tell == nil || v.cursor && b.point == nil:
			v.dirty = v.area
		case v.cursor:
			v.dirty = v.dirty.Union(v.repaint(at, image))
		}
		for _, a := range areas {
			v.dirty = v.dirty.Union(a.Intersect(v.area))
		}
	}
	return l.Epoch, nil
}

// layout returns the layout after what g was asked last, which costs no question where it
// tells of changes.
func (b *Bus) layout(ctx context.Context) (platform.Layout, error) {
	if b.tell != nil && b.know != nil {
		return b.know.Known(ctx)
	}
	return b.g.Layout(ctx)
}

// forgetAll lets what is known go. The next frames have a new Seq.
func (b *Bus) forgetAll() {
	for _, v := range b.views {
		v.forget()
	}
	b.views = nil
}

// forget lets v go, which the bus does not know any more.
func (v *view) forget() {
	v.gone = true
	v.room.drop()
	v.room = nil
}

// view finds or makes what is known of an area, and puts it first.
func (b *Bus) view(area platform.Rect, cursor bool) *view {
	i := slices.IndexFunc(b.views, func(v *view) bool { return v.area == area && v.cursor == cursor })
	var v *view
	if i >= 0 {
		v = b.views[i]
		b.views = slices.Delete(b.views, i, i+1)
	} else {
		v = &view{area: area, cursor: cursor, dirty: area}
	}
	b.views = slices.Insert(b.views, 0, v)
	size := 0
	for i, each := range b.views {
		size += each.area.Width * each.area.Height * 4
		if i > 0 && (i >= maxViews || size > maxBytes) {
			for _, old := range b.views[i:] {
				old.forget()
			}
			b.views = slices.Delete(b.views, i, len(b.views))
			break
		}
	}
	return v
}

// update brings v's frame up to date.
func (b *Bus) update(ctx context.Context, v *view) error {
	now := time.Now()
	old, part := v.frame, v.dirty
	doubt := part.Empty() && now.Sub(v.read) > b.trust // what is told is put to the test
	if part.Empty() && old.Pix != nil && !doubt {
		old.At = now // v.frame itself is never handed out
		return nil
	}
	if old == nil || old.Pix == nil || doubt {
		part = v.area
	}
	if b.lend != nil && part.Width*part.Height > v.area.Width*v.area.Height/2 {
		part = v.area // reading the rest costs less than copying it
	}
	if part == v.area {
		v.read = now
	}
	room := b.room(ctx, part)
	defer func() { b.save(room) }() // which is another one by then, if this is kept
	pix := room.pix
	known := v.dirty.Empty() // its pixels were forgotten; they are still those of its Seq
	v.dirty = platform.Rect{}
	if err := b.read(ctx, v, part, pix); err != nil {
		v.dirty = v.area
		return err
	}
	var moved platform.Rect // while it was read
	if v.cursor && b.point != nil {
		at, image := b.point.Drawn()
		moved = v.repaint(at, image)
		v.at, v.image = at, image
		if !moved.Empty() && moved.Intersect(part) != moved {
			v.dirty = moved // a part of it is not as it was drawn
		}
	}
	fresh := &platform.Frame{Area: v.area, Epoch: b.epoch, At: now, Pix: pix, Stride: v.area.Width * 4}
	same := false
	switch {
	case old == nil:
	case old.Pix == nil && known:
		if _, err := b.refresh(ctx); err != nil {
			return err
		}
		same = v.dirty.Empty() // nothing was painted while they were read
	case old.Pix == nil:
	default:
		same = alike(part, pix, part.Width*4, old)
		if doubt && !same {
			unlike := differ(part, pix, part.Width*4, old)
			if _, err := b.refresh(ctx); err != nil {
				return err
			}
			if v.dirty.Union(moved).Intersect(unlike).Empty() { // nor was it painted just now
				b.tell = nil
				b.watch.distrust()
			}
		}
		if !same && part != v.area {
			whole := b.room(ctx, v.area)
			copy(whole.pix, old.Pix)
			for y := range part.Height {
				at := (part.Y-v.area.Y+y)*fresh.Stride + (part.X-v.area.X)*4
				copy(whole.pix[at:], pix[y*part.Width*4:][:part.Width*4])
			}
			b.save(room)
			room = whole
		}
	}
	if same {
		fresh.Seq = old.Seq
	} else {
		b.seq++
		fresh.Seq = b.seq
	}
	if !same || old.Pix == nil {
		v.room, room = room, v.room
	}
	fresh.Pix = v.room.pix
	v.frame = fresh
	return nil
}

// room is memory with the pixels of a frame. A view and everybody who was handed the
// frame use it; it is written to only before that.
type room struct {
	pix  []byte
	back func() // nil: it is the collector's
	uses atomic.Int32
}

// drop ends one use; the last one returns the memory.
func (r *room) drop() {
	if r != nil && r.uses.Add(-1) == 0 && r.back != nil {
		r.back()
	}
}

// room returns room for the pixels of area, with one use: memory of the Grabber for a
// large one, or the spare if it is large enough, for most of what is read turns out to
// be known.
func (b *Bus) room(ctx context.Context, area platform.Rect) *room {
	size := area.Width * area.Height * 4
	r := &room{}
	if b.lend != nil && size >= leastLent {
		r.pix, r.back = b.lend.Lend(ctx, size)
	}
	switch {
	case r.pix != nil:
	case b.spare != nil && cap(b.spare.pix) >= size && cap(b.spare.pix) <= 2*size:
		r.pix, b.spare = b.spare.pix[:size], nil
	default:
		r.pix = make([]byte, size)
	}
	r.uses.Store(1)
	return r
}

// save ends the bus's use of a room, which becomes the spare if nobody else has it.
func (b *Bus) save(r *room) {
	if r == nil {
		return
	}
	if r.back == nil && r.uses.Load() == 1 && (b.spare == nil || cap(r.pix) > cap(b.spare.pix)) {
		b.spare = r
		return
	}
	r.drop()
}

// read reads part of v's area, from a frame that is up to date if there is one.
func (b *Bus) read(ctx context.Context, v *view, part platform.Rect, pix []byte) error {
	for _, o := range b.views {
		fresh := time.Since(o.read) <= b.trust
		if fresh && o != v && !v.cursor && !o.cursor && o.dirty.Empty() && o.frame != nil && o.frame.Pix != nil &&
			part.Intersect(o.area) == part {
			for y := range part.Height {
				at := (part.Y-o.area.Y+y)*o.frame.Stride + (part.X-o.area.X)*4
				copy(pix[y*part.Width*4:][:part.Width*4], o.frame.Pix[at:])
			}
			if part == v.area {
				v.read = o.read
			}
			return nil
		}
	}
	return b.g.Grab(ctx, part, v.cursor, pix)
}

// forgetLater returns the pixels back when nobody has looked for a while.
func (b *Bus) forgetLater() {
	if b.drop != nil {
		b.drop.Reset(b.idle)
		return
	}
	b.drop = time.AfterFunc(b.idle, func() {
		b.own <- struct{}{}
		defer b.release()
		b.spare = nil
		for _, v := range b.views {
			if v.frame != nil {
				v.frame = &platform.Frame{Area: v.area, Epoch: v.frame.Epoch, Seq: v.frame.Seq, Stride: v.frame.Stride}
				v.room.drop()
				v.room = nil
			}
		}
		if b.lend != nil && !b.ended {
			b.lend.Trim()
		}
	})
}

// Close ends every subscription and closes the Grabber. Idempotent.
func (b *Bus) Close() error {
	b.own <- struct{}{}
	defer b.release()
	if b.ended {
		return nil
	}
	b.ended = true
	b.forgetAll()
	if b.drop != nil {
		b.drop.Stop()
	}
	b.watch.close()
	return b.g.Close()
}
