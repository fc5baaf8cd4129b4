//go:build linux

package wayland

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// locateWithin bounds how long the compositor may take to show the surfaces.
const locateWithin = 2 * time.Second

// locate finds the pointer. A compositor tells where it is only to the window
// beneath, so for a moment there is one of ours, which nobody sees through nor
// notices: a transparent surface above each display, that takes no keys. It is used
// when a person may have moved the pointer since this program did.
func (in *Input) locate(ctx context.Context, places []place) (at platform.Point, err error) {
	c := in.c
	lacking := fmt.Errorf("wayland: this compositor tells nobody where the pointer is before it was moved: %w", platform.ErrCannot)
	if c.Offers(layerShell.name) == 0 || c.Offers(wlCompositor.name) == 0 || c.Offers(wlShm.name) == 0 {
		return at, lacking
	}
	if in.finder == nil {
		f := &finder{in: in}
		if f.compositor, err = c.bindOne(wlCompositor, nil); err == nil {
			if f.shell, err = c.bindOne(layerShell, nil); err == nil {
				f.shm, err = c.bindOne(wlShm, nil)
			}
		}
		if err != nil {
			return at, err
		}
		in.finder = f
	}
	ctx, cancel := context.WithTimeoutCause(ctx, locateWithin, lacking)
	defer cancel()
	at, err = in.finder.find(ctx, places)
	if err != nil && errors.Is(context.Cause(ctx), platform.ErrCannot) {
		err = lacking
	}
	return at, err
}

// finder has what locate needs.
type finder struct {
	in                     *Input
	compositor, shell, shm *object
}

// veil is a transparent surface above one display.
type veil struct {
	place          place
	output         *object
	surface, layer *object
	shown          chan struct{} // closed when it was configured
	serial         uint32
	width, height  int
	pool, buffer   *object
	mem            *memory
}

func (f *finder) find(ctx context.Context, places []place) (at platform.Point, err error) {
	c := f.in.c
	var (
		mu    sync.Mutex // above found
		found *platform.Point
		veils []*veil
	)
	// The answer is asked for with the veils' removal, whatever happens.
	defer func() {
		for _, v := range veils {
			v.remove(c)
		}
		if err == nil {
			err = c.Sync(ctx)
		}
		if err == nil { // the window beneath learns that it has the pointer again, by a motion of nothing
			err = f.in.make(ctx, request{f.in.pointer, pointerMotion, []any{now(), fixed(0), fixed(0)}}, request{f.in.pointer, pointerFrame, nil})
		}
	}()
	pointer, err := c.create(f.in.seat.id, seatGetPointer, wlPointer, f.in.seat.version, func(m *message) {
		if m.opcode != pointerEnter {
			return
		}
		m.uint()
		surface, x, y := m.uint(), m.fixed(), m.fixed()
		mu.Lock()
		defer mu.Unlock()
		for _, v := range veils {
			if v.surface != nil && v.surface.id == surface && v.width > 0 && v.height > 0 {
				b := v.place.bounds
				found = &platform.Point{
					X: b.X + min(b.Width-1, max(0, int(math.Floor(x*float64(b.Width)/float64(v.width))))),
					Y: b.Y + min(b.Height-1, max(0, int(math.Floor(y*float64(b.Height)/float64(v.height)))))}
			}
		}
	})
	if err != nil {
		return at, err
	}
	if pointer.version >= 3 {
		defer c.destroy(pointer, wlPointerRelease)
	}
	for _, p := range places {
		v := &veil{place: p, shown: make(chan struct{})}
		mu.Lock()
		veils = append(veils, v)
		mu.Unlock()
		if err := f.veil(v, &mu); err != nil {
			return at, err
		}
	}
	for _, v := range veils {
		if err := c.wait(ctx, v.shown); err != nil {
			return at, err
		}
	}
	for _, v := range veils {
		if err := f.show(v, &mu); err != nil {
			return at, err
		}
	}
	// Newer compositors look what is beneath a pointer only when it moves: by nothing.
	if err := f.in.make(ctx, request{f.in.pointer, pointerMotion, []any{now(), fixed(0), fixed(0)}},
		request{f.in.pointer, pointerFrame, nil}); err != nil {
		return at, err
	}
	for range 2 { // the pointer is there when a surface is shown, or never
		if err := c.Sync(ctx); err != nil {
			return at, err
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if found == nil {
		return at, fmt.Errorf("wayland: the pointer is on no display, or held by a window: %w", platform.ErrCannot)
	}
	return *found, nil
}

// veil makes a surface, which is shown once the compositor said how large.
func (f *finder) veil(v *veil, mu *sync.Mutex) (err error) {
	c := f.in.c
	// Outputs are of another connection: here they have other numbers.
	for _, g := range c.list(wlOutput.name) {
		if g.name == v.place.global {
			if v.output, err = c.bind(g, wlOutput, nil); err != nil {
				return err
			}
		}
	}
	if v.output == nil {
		return fmt.Errorf("wayland: a display went away: %w", platform.ErrCannot)
	}
	surface, err := c.create(f.compositor.id, compositorCreateSurface, wlSurface, f.compositor.version, nil)
	if err != nil {
		return err
	}
	mu.Lock()
	v.surface = surface
	mu.Unlock()
	once := false
	v.layer, err = c.create(f.shell.id, shellGetSurface, layerSurface, f.shell.version, func(m *message) {
		if m.opcode != layerConfigure {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		v.serial, v.width, v.height = m.uint(), m.int(), m.int()
		if !once {
			once = true
			close(v.shown)
		}
	}, surface.id, v.output.id, uint32(layerOverlay), "handrail-pointer")
	if err != nil {
		return err
	}
	return c.sendAll(
		request{v.layer, layerSetAnchor, []any{uint32(layerAllEdges)}},
		request{v.layer, layerSetExclusive, []any{int32(-1)}}, // also above panels
		request{surface, surfaceCommit, nil})
}

// show returns the surface its pixels, none of which is seen: memory that nobody
// wrote to is 0 throughout, and takes no room.
func (f *finder) show(v *veil, mu *sync.Mutex) (err error) {
	c := f.in.c
	mu.Lock()
	defer mu.Unlock()
	if v.width <= 0 || v.height <= 0 || v.height > maxBuffer/4/v.width {
		return fmt.Errorf("wayland: no surface is %d x %d: %w", v.width, v.height, platform.ErrCannot)
	}
	if v.mem, err = newMemory("handrail-pointer", v.width*v.height*4); err != nil {
		return err
	}
	if v.pool, err = c.create(f.shm.id, shmCreatePool, wlShmPool, 1, nil, fd(v.mem.fd), int32(len(v.mem.mem))); err != nil {
		return err
	}
	if v.buffer, err = c.create(v.pool.id, poolCreateBuffer, wlBuffer, 1, nil, int32(0), int32(v.width), int32(v.height), int32(v.width*4),
		uint32(formatARGB)); err != nil {
		return err
	}
	return c.sendAll(
		request{v.layer, layerAck, []any{v.serial}},
		request{v.surface, surfaceAttach, []any{v.buffer.id, int32(0), int32(0)}},
		request{v.surface, surfaceDamage, []any{int32(0), int32(0), int32(v.width), int32(v.height)}},
		request{v.surface, surfaceCommit, nil})
}

func (v *veil) remove(c *Conn) {
	if v.layer != nil {
		c.destroy(v.layer, layerDestroy)
	}
	if v.surface != nil {
		c.destroy(v.surface, surfaceDestroy)
	}
	if v.buffer != nil {
		c.destroy(v.buffer, bufferDestroy)
	}
	if v.pool != nil {
		c.destroy(v.pool, poolDestroy)
	}
	if v.mem != nil {
		v.mem.close()
	}
	if v.output != nil && v.output.version >= 3 {
		c.destroy(v.output, outputRelease)
	}
}
