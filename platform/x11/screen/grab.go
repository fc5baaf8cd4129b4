package screen

import (
	"context"
	"errors"
	"fmt"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/shm"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// Grab returns the pixels of area in pix, without a copy where that was lent. A part of area that
// is not on the screen is black: the screen may shrink at any time.
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
	// The server writes rows without a gap, in its own format.
	g := s.shm.of(dst)
	direct := g != nil && s.format.same && stride == pitch && stride == area.Width*4
	if !direct {
		g = s.shm.take(ctx, area.Height*pitch, true)
	}
	if g == nil {
		r, err := wire.Ask(ctx, s.c, func() (*xproto.GetImageReply, error) {
			return xproto.GetImage(s.c.X, xproto.ImageFormatZPixmap, xproto.Drawable(s.c.Root()),
				int16(area.X), int16(area.Y), uint16(area.Width), uint16(area.Height), 0xffffffff).Reply()
		})
		if err != nil {
			return err
		}
		if len(r.Data) < area.Height*pitch {
			return errors.New("x11: the server returned a part of the image")
		}
		s.format.convert(dst, stride, r.Data, pitch, area.Width, area.Height)
		return nil
	}
	// One request: the server writes the whole image before it paints anything else.
	_, err := wire.Ask(ctx, s.c, func() (*shm.GetImageReply, error) {
		return shm.GetImage(s.c.X, xproto.Drawable(s.c.Root()), int16(area.X), int16(area.Y), uint16(area.Width), uint16(area.Height),
			0xffffffff, xproto.ImageFormatZPixmap, g.id, 0).Reply()
	})
	if answered := xgb.Error(nil); err != nil && !errors.As(err, &answered) {
		s.shm.doubt(g)
	}
	if direct {
		return err
	}
	if err == nil {
		s.format.convert(dst, stride, g.mem, pitch, area.Width, area.Height)
	}
	s.shm.give(g)
	return err
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

// pointer returns the pointer's image and where it is; nil if there is none.
func (s *Screen) pointer(ctx context.Context) (*xfixes.GetCursorImageReply, platform.Rect, error) {
	cur, err := wire.Ask(ctx, s.c, func() (*xfixes.GetCursorImageReply, error) { return xfixes.GetCursorImage(s.c.X).Reply() })
	if err != nil {
		if _, refused := errors.AsType[xproto.CursorError](err); refused {
			return nil, platform.Rect{}, nil // no pointer, or one without an image
		}
		return nil, platform.Rect{}, err
	}
	return cur, platform.Rect{
		X: int(cur.X) - int(cur.Xhot), Y: int(cur.Y) - int(cur.Yhot), Width: int(cur.Width), Height: int(cur.Height),
	}, nil
}

// Pointed returns the area that the pointer's image covers now, and a number that changes
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

// Drawn returns the same of the pointer as the last Grab drew it.
func (s *Screen) Drawn() (platform.Rect, uint32) { return s.drawnAt, s.drawnImage }
