//go:build linux

package wayland

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// Screen reads the pixels of the displays by wlr-screencopy. It is the
// platform.Grabber of the capture bus, which alone calls it. A compositor copies a
// display when it has composed its next frame, so a grab takes up to one frame's
// time.
type Screen struct {
	c       *Conn
	outputs *Outputs
	shm     *object
	manager *object

	buffers map[uint32]*buffer // of each display; only Grab uses them

	//lint:ignore containedctx the life of the screen
	over   context.Context // ends with Close
	finish context.CancelFunc
	out    chan platform.Rect // what Damage returns; nil if the compositor cannot tell
	pump   sync.Once
	pumps  sync.WaitGroup
}

var _ platform.Grabber = (*Screen)(nil)

// The formats of wl_shm that are read: 32 bits a pixel, blue or red first.
const (
	formatARGB = 0
	formatXRGB = 1
	formatABGR = 0x34324241
	formatXBGR = 0x34324258
)

// NewScreen prepares reading the displays over c, which is the connection of
// outputs. An error is a *platform.MissingError, platform.ErrLost, or that of ctx.
func NewScreen(ctx context.Context, outputs *Outputs) (*Screen, error) {
	c := outputs.c
	if c.Offers(screencopyManager.name) == 0 {
		return nil, missing("gives its pixels", screencopyManager.name)
	}
	s := &Screen{c: c, outputs: outputs, buffers: map[uint32]*buffer{}}
	var err error
	if s.shm, err = c.bindOne(wlShm, nil); err != nil {
		return nil, err
	}
	if s.shm == nil {
		return nil, missing("gives its pixels", wlShm.name)
	}
	if s.manager, err = c.bindOne(screencopyManager, nil); err != nil {
		return nil, err
	}
	if err := c.Sync(ctx); err != nil {
		return nil, err
	}
	s.over, s.finish = context.WithCancel(context.Background())
	if s.manager.version >= 2 {
		s.out = make(chan platform.Rect)
	}
	return s, nil
}

// Layout returns the displays as they are now.
func (s *Screen) Layout(ctx context.Context) (platform.Layout, error) { return s.outputs.Layout(ctx) }

// buffer is memory that the compositor copies a display's pixels into.
type buffer struct {
	c    *Conn
	mem  *memory
	pool *object
	id   *object
	shape
}

// shape is how pixels lie in a buffer.
type shape struct {
	format                uint32
	width, height, stride int
}

func (b *buffer) close() {
	if b == nil {
		return
	}
	b.c.destroy(b.id, bufferDestroy)
	b.c.destroy(b.pool, poolDestroy)
	b.mem.close()
}

const maxBuffer = 1 << 29 // bytes: 4 times what 8K has

func (s *Screen) newBuffer(sh shape) (*buffer, error) {
	if sh.width <= 0 || sh.height <= 0 || sh.stride < sh.width*4 || sh.height > maxBuffer/sh.stride {
		return nil, fmt.Errorf("wayland: no image is %d x %d pixels of %d bytes a row", sh.width, sh.height, sh.stride)
	}
	mem, err := newMemory("handrail-screen", sh.height*sh.stride)
	if err != nil {
		return nil, err
	}
	b := &buffer{c: s.c, mem: mem, shape: sh}
	if b.pool, err = s.c.create(s.shm.id, shmCreatePool, wlShmPool, 1, nil, fd(mem.fd), int32(len(mem.mem))); err == nil {
		b.id, err = s.c.create(b.pool.id, poolCreateBuffer, wlBuffer, 1, nil, int32(0), int32(sh.width), int32(sh.height), int32(sh.stride),
			sh.format)
	}
	if err != nil {
		mem.close()
		return nil, err
	}
	return b, nil
}

// frame is one copy that was asked for.
type frame struct {
	object *object
	shapes chan struct{} // closed when shape is known
	done   chan struct{} // closed when the pixels are there, or will not be

	// Set before the channel that tells of them closes.
	shape    shape
	can      bool
	inverted bool
	failed   bool
	damage   []platform.Rect // of the buffer
}

var errNotCopied = errors.New("wayland: the compositor did not copy the display")

// begin asks for a copy; region is nil for the whole display.
func (s *Screen) begin(at place, cursor bool, region *platform.Rect) (*frame, error) {
	f := &frame{shapes: make(chan struct{}), done: make(chan struct{})}
	told := func() {
		select {
		case <-f.shapes:
		default:
			close(f.shapes)
		}
	}
	ended := false
	handle := func(m *message) {
		if ended {
			return
		}
		switch m.opcode {
		case frameBuffer:
			sh := shape{m.uint(), m.int(), m.int(), m.int()}
			switch sh.format {
			case formatARGB, formatXRGB, formatABGR, formatXBGR:
				if !f.can {
					f.shape, f.can = sh, true
				}
			default:
				if !f.can {
					f.shape = sh
				}
			}
			if s.manager.version < 3 {
				told()
			}
		case frameBufferDone:
			told()
		case frameFlags:
			f.inverted = m.uint()&frameInverted != 0
		case frameDamage:
			if len(f.damage) < 1000 {
				f.damage = append(f.damage, platform.Rect{X: m.int(), Y: m.int(), Width: m.int(), Height: m.int()})
			}
		case frameReady, frameFailed:
			ended, f.failed = true, m.opcode == frameFailed
			if f.failed {
				told()
			}
			close(f.done)
		}
	}
	with := int32(0)
	if cursor {
		with = 1
	}
	var err error
	if region == nil {
		f.object, err = s.c.create(s.manager.id, screencopyOutput, screencopyFrame, s.manager.version, handle, with, at.output.id)
	} else {
		f.object, err = s.c.create(s.manager.id, screencopyOutputRegion, screencopyFrame, s.manager.version, handle, with, at.output.id,
			int32(region.X), int32(region.Y), int32(region.Width), int32(region.Height))
	}
	return f, err
}

// into finishes a copy into a buffer that is at hand or made for it.
func (s *Screen) into(ctx context.Context, f *frame, old *buffer, opcode uint16) (b *buffer, err error) {
	defer func() { s.c.destroy(f.object, frameDestroy) }()
	if err := s.c.wait(ctx, f.shapes); err != nil {
		return old, err
	}
	select {
	case <-f.done:
		return old, errNotCopied
	default:
	}
	if !f.can {
		return old, fmt.Errorf("wayland: the compositor returns pixels in the format %#x, which is not read here", f.shape.format)
	}
	b = old
	if b == nil || b.shape != f.shape {
		old.close()
		if b, err = s.newBuffer(f.shape); err != nil {
			return nil, err
		}
	}
	if err := s.c.send(f.object, opcode, b.id.id); err != nil {
		return b, err
	}
	if err := s.c.wait(ctx, f.done); err != nil {
		// The compositor may still write into it: it is not used again.
		b.close()
		return nil, err
	}
	if f.failed {
		return b, errNotCopied
	}
	return b, nil
}

// tries bounds how often a copy that failed is asked for again: displays may
// change while they are read.
const tries = 5

// Grab copies the pixels of area into pix. A part of area that is on no display is black.
func (s *Screen) Grab(ctx context.Context, area platform.Rect, cursor bool, pix []byte) error {
	if area.Empty() || len(pix) < area.Width*area.Height*4 {
		return fmt.Errorf("wayland: %d bytes do not hold %d x %d pixels", len(pix), area.Width, area.Height)
	}
	_, places := s.outputs.known()
	covered := 0
	for _, at := range places {
		part := area.Intersect(at.bounds)
		covered += max(0, part.Width) * max(0, part.Height)
	}
	if covered < area.Width*area.Height {
		clear(pix[:area.Width*area.Height*4])
	}
	for _, at := range places {
		part := area.Intersect(at.bounds)
		if part.Empty() {
			continue
		}
		if err := s.grab(ctx, at, part, cursor, area, pix); err != nil {
			return err
		}
	}
	return nil
}

func (s *Screen) grab(ctx context.Context, at place, part platform.Rect, cursor bool, area platform.Rect, pix []byte) error {
	for try := 1; ; try++ {
		// The compositor counts parts in its own units: only where those are pixels can
		// it copy exactly the part.
		var region *platform.Rect
		from := platform.Point{X: part.X - at.bounds.X, Y: part.Y - at.bounds.Y}
		size := [2]int{at.bounds.Width, at.bounds.Height}
		if at.transform == 0 && at.logical.Width == at.bounds.Width && at.logical.Height == at.bounds.Height && part != at.bounds {
			region = &platform.Rect{X: from.X, Y: from.Y, Width: part.Width, Height: part.Height}
			size, from = [2]int{part.Width, part.Height}, platform.Point{}
		}
		f, err := s.begin(at, cursor, region)
		if err != nil {
			return err
		}
		b, err := s.into(ctx, f, s.buffers[at.output.id], frameCopy)
		if b == nil {
			delete(s.buffers, at.output.id)
		} else {
			s.buffers[at.output.id] = b
		}
		if err == nil {
			if got := turned(b.shape, at.transform); got != size {
				err = errNotCopied // the display is not what it was
			} else {
				unpack(pix[((part.Y-area.Y)*area.Width+part.X-area.X)*4:], area.Width*4, part.Width, part.Height,
					b.mem.mem, b.shape, at.transform, f.inverted, from)
				return nil
			}
		}
		if !errors.Is(err, errNotCopied) || try == tries {
			return err
		}
		// The caller looks at the layout again, and asks anew if it is another.
		before := at
		_, places := s.outputs.known()
		found := false
		for _, p := range places {
			if p.output == before.output {
				at, found = p, true
			}
		}
		if !found || at.bounds != before.bounds {
			clear(pix[:area.Width*area.Height*4])
			return nil
		}
		if err := s.c.Sync(ctx); err != nil {
			return err
		}
	}
}

// turned returns the size that a display of a buffer's shape has for who looks at it.
func turned(sh shape, transform int) [2]int {
	if transform&1 != 0 {
		return [2]int{sh.height, sh.width}
	}
	return [2]int{sh.width, sh.height}
}

// unpack copies width x height pixels that a person sees from the place from on
// out of a buffer, which holds them as the display does: turned and mirrored.
//
// A transform is a turn by as many quarters as its two low bits say, counter
// clockwise, after a mirroring of the columns if bit 2 is set.
func unpack(dst []byte, pitch, width, height int, src []byte, sh shape, transform int, inverted bool, from platform.Point) {
	swap := sh.format == formatABGR || sh.format == formatXBGR
	h := sh.height
	size := turned(sh, transform)
	for y := range height {
		row := dst[y*pitch:]
		row = row[:width*4]
		if transform == 0 {
			line := from.Y + y
			if inverted {
				line = h - 1 - line
			}
			copy(row, src[line*sh.stride+from.X*4:][:width*4])
		} else {
			for x := range width {
				bx, by := untransform(from.X+x, from.Y+y, size[0], size[1], transform)
				if inverted {
					by = h - 1 - by
				}
				copy(row[x*4:][:4], src[by*sh.stride+bx*4:][:4])
			}
		}
		if swap {
			for i := 0; i+3 < len(row); i += 4 {
				row[i], row[i+2] = row[i+2], row[i]
			}
		}
	}
}

// untransform returns the place in the display's own buffer of a pixel of the image,
// width x height, that a person sees.
func untransform(x, y, width, height, transform int) (bx, by int) {
	switch transform {
	case 1:
		return y, width - 1 - x
	case 2:
		return width - 1 - x, height - 1 - y
	case 3:
		return height - 1 - y, x
	case 4:
		return width - 1 - x, y
	case 5:
		return y, x
	case 6:
		return x, height - 1 - y
	case 7:
		return height - 1 - y, width - 1 - x
	}
	return x, y
}

// Damage reports areas in which something was painted, and the empty Rect for a
// new layout. While nobody receives, the compositor is asked for nothing.
func (s *Screen) Damage() <-chan platform.Rect {
	if s.out != nil {
		s.pump.Do(func() {
			s.pumps.Add(1)
			go s.deliver()
		})
	}
	return s.out
}

// deliver follows the displays: one goroutine for each waits for what is painted
// on it.
func (s *Screen) deliver() {
	defer s.pumps.Done()
	defer close(s.out)
	wake := make(chan struct{}, 1)
	s.outputs.onChange(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	var all sync.WaitGroup
	defer all.Wait()
	following := map[*object]context.CancelFunc{}
	epoch := uint64(0)
	for {
		layout, places := s.outputs.known()
		now := map[*object]bool{}
		for _, at := range places {
			now[at.output] = true
			if layout.Epoch == epoch && following[at.output] != nil {
				continue
			}
			if end := following[at.output]; end != nil {
				end()
			}
			ctx, end := context.WithCancel(s.over)
			following[at.output] = end
			all.Add(1)
			go func() {
				defer all.Done()
				s.followOne(ctx, at)
			}()
		}
		for out, end := range following {
			if !now[out] {
				end()
				delete(following, out)
			}
		}
		if epoch != 0 && layout.Epoch != epoch && !s.give(s.over, platform.Rect{}) {
			return
		}
		epoch = layout.Epoch
		select {
		case <-wake:
		case <-s.over.Done():
			return
		case <-s.c.Lost():
			s.finish()
			return
		}
	}
}

// give hands one area to who receives.
func (s *Screen) give(ctx context.Context, r platform.Rect) bool {
	select {
	case s.out <- r:
		return true
	case <-ctx.Done():
	case <-s.c.Lost():
	}
	return false
}

// followOne asks for a copy with the next thing that is painted, which costs
// nothing until there is something.
func (s *Screen) followOne(ctx context.Context, at place) {
	var b *buffer
	defer func() { b.close() }()
	for {
		f, err := s.begin(at, false, nil)
		if err == nil {
			b, err = s.into(ctx, f, b, frameCopyWithDamage)
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, platform.ErrLost):
			return
		case err != nil: // a display that is off, say
			if !s.give(ctx, at.bounds) {
				return
			}
			select {
			case <-time.After(time.Second):
				continue
			case <-ctx.Done():
				return
			}
		}
		var hurt platform.Rect
		if at.transform == 0 && !f.inverted {
			for _, d := range f.damage {
				hurt = hurt.Union(platform.Rect{X: at.bounds.X + d.X, Y: at.bounds.Y + d.Y, Width: d.Width, Height: d.Height}.Intersect(at.bounds))
			}
		}
		if hurt.Empty() {
			hurt = at.bounds
		}
		if !s.give(ctx, hurt) {
			return
		}
	}
}

// Close ends what NewScreen began; the connection stays. Idempotent.
func (s *Screen) Close() error {
	s.finish()
	s.pump.Do(func() {
		if s.out != nil {
			close(s.out)
		}
	})
	s.pumps.Wait()
	for _, b := range s.buffers {
		b.close()
	}
	clear(s.buffers)
	return nil
}
