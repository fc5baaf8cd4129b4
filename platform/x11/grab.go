package x11

import (
	"context"
	"errors"
	"fmt"

	"github.com/jezek/xgb/shm"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
)

// Grab copies the pixels of area into pix. What of area is not on the screen is
// black: the screen may shrink at any time.
func (s *Screen) Grab(ctx context.Context, area platform.Rect, cursor bool, pix []byte) error {
	if area.Empty() || len(pix) < area.Width*area.Height*4 {
		return fmt.Errorf("x11: %d bytes do not hold %d x %d pixels", len(pix), area.Width, area.Height)
	}
	for try := 0; ; try++ {
		if _, err := s.known(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		seen := area.Intersect(s.root)
		s.mu.Unlock()
		if seen != area {
			clear(pix[:area.Width*area.Height*4])
		}
		if seen.Empty() {
			return nil
		}
		stride := area.Width * 4
		err := s.copyPixels(ctx, seen, pix[(seen.Y-area.Y)*stride+(seen.X-area.X)*4:], stride)
		if _, small := errors.AsType[xproto.MatchError](err); small && try < 5 {
			s.doubt() // the screen became smaller in between
			continue
		}
		if err == nil && cursor && s.cursor {
			err = s.drawCursor(ctx, area, pix)
		}
		return err
	}
}

// copyPixels reads area, which is on the screen, into dst.
func (s *Screen) copyPixels(ctx context.Context, area platform.Rect, dst []byte, stride int) error {
	pitch := s.format.pitch(area.Width)
	if !s.shm.fits(ctx, area.Height*pitch) {
		r, err := Ask(ctx, s.c, func() (*xproto.GetImageReply, error) {
			return xproto.GetImage(s.c.X, xproto.ImageFormatZPixmap, xproto.Drawable(s.c.Root()),
				int16(area.X), int16(area.Y), uint16(area.Width), uint16(area.Height), 0xffffffff).Reply()
		})
		if err != nil {
			return err
		}
		if len(r.Data) < area.Height*pitch {
			return errors.New("x11: the server gave a part of the image")
		}
		s.format.convert(dst, stride, r.Data, pitch, area.Width, area.Height)
		return nil
	}
	// One request: the server writes the whole image before it paints anything else.
	if _, err := Ask(ctx, s.c, func() (*shm.GetImageReply, error) {
		return shm.GetImage(s.c.X, xproto.Drawable(s.c.Root()), int16(area.X), int16(area.Y), uint16(area.Width), uint16(area.Height),
			0xffffffff, xproto.ImageFormatZPixmap, s.shm.id, 0).Reply()
	}); err != nil {
		return err
	}
	s.format.convert(dst, stride, s.shm.mem, pitch, area.Width, area.Height)
	return nil
}

// drawCursor draws the pointer's image, whose colours come multiplied by its
// alpha.
func (s *Screen) drawCursor(ctx context.Context, area platform.Rect, pix []byte) error {
	s.drawnAt, s.drawnImage = platform.Rect{}, 0
	cur, at, err := s.pointer(ctx)
	if err != nil || cur == nil {
		return err
	}
	s.drawnAt, s.drawnImage = at, cur.CursorSerial
	seen := at.Intersect(area)
	for y := seen.Y; y < seen.Y+seen.Height; y++ {
		for x := seen.X; x < seen.X+seen.Width; x++ {
			i := (y-at.Y)*at.Width + x - at.X
			if i >= len(cur.CursorImage) {
				return nil
			}
			p := cur.CursorImage[i]
			keep := 255 - p>>24
			d := pix[((y-area.Y)*area.Width+x-area.X)*4:][:3]
			for c := range d {
				d[c] = byte(min(255, p>>(8*c)&0xff+(uint32(d[c])*keep+127)/255))
			}
		}
	}
	return nil
}

// pointer gives the pointer's image and where it is; nil if there is none.
func (s *Screen) pointer(ctx context.Context) (*xfixes.GetCursorImageReply, platform.Rect, error) {
	cur, err := Ask(ctx, s.c, func() (*xfixes.GetCursorImageReply, error) { return xfixes.GetCursorImage(s.c.X).Reply() })
	if err != nil {
		if _, refused := errors.AsType[xproto.CursorError](err); refused {
			return nil, platform.Rect{}, nil // no pointer, or one without an image
		}
		return nil, platform.Rect{}, err
	}
	return cur, platform.Rect{X: int(cur.X) - int(cur.Xhot), Y: int(cur.Y) - int(cur.Yhot), Width: int(cur.Width), Height: int(cur.Height)}, nil
}

// Pointed gives the area that the pointer's image covers now, and a number that changes
// with the image.
func (s *Screen) Pointed(ctx context.Context) (platform.Rect, uint32, error) {
	if !s.cursor {
		return platform.Rect{}, 0, nil
	}
	cur, at, err := s.pointer(ctx)
	if err != nil || cur == nil {
		return platform.Rect{}, 0, err
	}
	return at, cur.CursorSerial, nil
}

// Drawn gives the same of the pointer as the last Grab drew it.
func (s *Screen) Drawn() (platform.Rect, uint32) { return s.drawnAt, s.drawnImage }

// shared is memory that the server writes images into.
type shared struct {
	c   *Conn
	off bool // there is none
	id  shm.Seg
	mem []byte
	// unmap gives mem back.
	unmap func()
}

func newShared(ctx context.Context, c *Conn) (*shared, error) {
	e, err := c.Extension(ctx, "MIT-SHM")
	if err != nil {
		return nil, err
	}
	c.wire.mu.Lock()
	c.wire.shm = e.Major
	c.wire.mu.Unlock()
	return &shared{c: c, off: !e.Present || !c.wire.local()}, nil
}

// fits reports whether mem holds size bytes, having made it larger if it could.
func (s *shared) fits(ctx context.Context, size int) bool {
	if s.off || len(s.mem) >= size {
		return !s.off
	}
	s.close()
	for _, attach := range []func(context.Context, int) error{s.attachFd, s.attachID} {
		if err := attach(ctx, size); err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false // says nothing about the server
		}
	}
	s.off = true
	return false
}

// attachFd passes the server a descriptor: nothing is left behind by a crash, and
// nobody else can reach the memory.
func (s *shared) attachFd(ctx context.Context, size int) error {
	fd, mem, unmap, err := newMemory(size)
	if err != nil {
		return err
	}
	return s.attach(ctx, mem, unmap, func() error {
		s.c.wire.sendAlong(fd)
		defer s.c.wire.sendAlong(-1) // closes what was not sent
		return shm.AttachFdChecked(s.c.X, s.id, false).Check()
	})
}

// attachID is for servers older than the passing of descriptors.
func (s *shared) attachID(ctx context.Context, size int) error {
	id, mem, unmap, err := newSysvMemory(size)
	if err != nil {
		return err
	}
	defer removeSysv(id) // from then on it lives as long as its users
	return s.attach(ctx, mem, unmap, func() error { return shm.AttachChecked(s.c.X, s.id, uint32(id), false).Check() })
}

func (s *shared) attach(ctx context.Context, mem []byte, unmap func(), request func() error) error {
	id, err := shm.NewSegId(s.c.X)
	if err == nil {
		s.id = id
		err = s.c.Do(ctx, request)
	}
	if err != nil {
		unmap()
		return err
	}
	s.mem, s.unmap = mem, unmap
	return nil
}

func (s *shared) close() {
	if s.mem != nil {
		shm.Detach(s.c.X, s.id)
		s.unmap()
		s.mem, s.unmap = nil, nil
	}
}
