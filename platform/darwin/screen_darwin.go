package darwin

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/ebitengine/purego/objc"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// Screen reads the pixels of the session's displays. It implements
// platform.Grabber; macOS tells nothing about damage this way, so Damage is nil.
type Screen struct {
	a *api

	mu    sync.Mutex // above what follows
	epoch uint64
	last  layout
}

// NewScreen returns a Screen. *platform.MissingError without the permission.
func NewScreen() (*Screen, error) {
	a, err := load()
	if err != nil {
		return nil, err
	}
	if a.mayRecord != nil && !a.mayRecord() {
		return nil, lacks(screenRecording)
	}
	return &Screen{a: a}, nil
}

const maxDisplays = 32

// arrangement asks for the displays, the main one first.
func (a *api) arrangement() (layout, error) {
	var ids [maxDisplays]uint32
	var n uint32
	if code := a.displays(maxDisplays, &ids[0], &n); code != 0 {
		return nil, &AnswerError{What: "CGGetActiveDisplayList", Code: code}
	}
	var l layout
	for _, id := range ids[:min(n, maxDisplays)] {
		s := screen{id: id, points: a.displayBounds(id)}
		s.width, s.height = int(s.points.Width), int(s.points.Height)
		if mode := a.displayMode(id); mode != 0 {
			s.width, s.height = int(a.modeWidth(mode)), int(a.modeHeight(mode))
			a.release(mode)
			// The mode may be that of the panel, which stands on its side.
			if (s.width > s.height) != (s.points.Width > s.points.Height) {
				s.width, s.height = s.height, s.width
			}
		}
		if s.width > 0 && s.height > 0 {
			l = append(l, s)
		}
	}
	if len(l) == 0 {
		return nil, &platform.MissingError{What: "There is no display that is on.", Fix: "Wake the Mac, or connect a display."}
	}
	return l, nil
}

// Layout returns the displays.
func (s *Screen) Layout(context.Context) (platform.Layout, error) {
	l, err := s.a.arrangement()
	if err != nil {
		return platform.Layout{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(l, s.last) {
		s.epoch++
		s.last = l
	}
	main := s.a.mainDisplay()
	out := platform.Layout{Epoch: s.epoch}
	for _, d := range l {
		id := "display-" + strconv.FormatUint(uint64(d.id), 10)
		out.Displays = append(out.Displays, platform.Display{ID: id, Name: id, Primary: d.id == main, Bounds: l.bounds(d), Scale: d.scale()})
	}
	return out, nil
}

// Grab copies the pixels of area.
func (s *Screen) Grab(ctx context.Context, area platform.Rect, cursor bool, pix []byte) error {
	if area.Empty() || len(pix) < area.Width*area.Height*4 {
		return fmt.Errorf("darwin: the buffer is too small for the area")
	}
	l, err := s.a.arrangement()
	if err != nil {
		return err
	}
	space := s.a.colorSpace()
	defer s.a.drop(space)
	clear(pix)
	for _, d := range l {
		bounds := l.bounds(d)
		part := bounds.Intersect(area)
		if part.Empty() {
			continue
		}
		if err := s.grab(ctx, l, d, part, area, cursor, space, pix); err != nil {
			return err
		}
	}
	return nil
}

// grab draws the part of one display into the buffer of area.
func (s *Screen) grab(ctx context.Context, l layout, d screen, part, area platform.Rect, cursor bool, space ref, pix []byte) error {
	a, bounds, stride := s.a, l.bounds(d), area.Width*4
	first := (part.Y-area.Y)*stride + (part.X-area.X)*4
	var shot ref
	if a.displayImage != nil {
		shot = a.displayImage(d.id)
	}
	if shot == 0 {
		return s.shoot(ctx, d, bounds, part, area, pix)
	}
	defer a.release(shot)
	// Blue, green, red, unused: 32 bits with the lowest byte first and no alpha.
	const noAlphaFirst, littleEndian32 = 6, 2 << 12
	onto := a.bitmapMake(&pix[first], uint(part.Width), uint(part.Height), 8, uint(stride), space, noAlphaFirst|littleEndian32)
	if onto == 0 {
		return fmt.Errorf("darwin: CGBitmapContextCreate failed")
	}
	defer a.release(onto)
	// The lower left corner is the origin, and up is positive.
	flip := func(top, height float64) float64 { return float64(part.Y+part.Height) - (top + height) }
	a.drawImage(onto, rect{
		float64(bounds.X - part.X), flip(float64(bounds.Y), float64(bounds.Height)), float64(bounds.Width), float64(bounds.Height),
	}, shot)
	if !cursor {
		return nil
	}
	event := a.eventMake(0)
	if event == 0 {
		return nil
	}
	defer a.release(event)
	p := a.eventLocation(event)
	if on, ok := l.at(p); !ok || on.id != d.id {
		return nil
	}
	// The picture of the pointer is AppKit's, in points.
	a.pooled(func() {
		now := objc.ID(objc.GetClass("NSCursor")).Send(objc.RegisterName("currentSystemCursor"))
		if now == 0 {
			return
		}
		picture := now.Send(objc.RegisterName("image"))
		if picture == 0 {
			return
		}
		hot := objc.Send[point](now, objc.RegisterName("hotSpot"))
		size := objc.Send[point](picture, objc.RegisterName("size"))
		shape := ref(picture.Send(objc.RegisterName("CGImageForProposedRect:context:hints:"), uintptr(0), uintptr(0), uintptr(0)))
		if shape == 0 {
			return
		}
		by := d.scale()
		x, y := float64(bounds.X)+(p.X-hot.X-d.points.X)*by, float64(bounds.Y)+(p.Y-hot.Y-d.points.Y)*by
		a.drawImage(onto, rect{x - float64(part.X), flip(y, size.Y*by), size.X * by, size.Y * by}, shape)
	})
	return nil
}

// shoot has the system's own program take the picture, where the function is gone.
func (s *Screen) shoot(ctx context.Context, d screen, bounds, part, area platform.Rect, pix []byte) error {
	dir, err := os.MkdirTemp("", "handrail-screen-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := s.a.arrangement()
	if err != nil {
		return err
	}
	main := s.a.mainDisplay()
	// Its displays are numbered from 1, the main one first.
	number, others := 1, 2
	for _, one := range l {
		switch {
		case one.id == main:
			continue
		case one.id == d.id:
			number = others
		}
		others++
	}
	file := filepath.Join(dir, "screen.png")
	if out, err := exec.CommandContext(ctx, "/usr/sbin/screencapture", "-x", "-t", "png", "-D", strconv.Itoa(number), file).
		CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("darwin: screencapture: %w: %s", err, capabilities.Clip(string(bytes.TrimSpace(out)), 200))
	}
	f, err := os.Open(file)
	if err != nil {
		return lacks(screenRecording) // without it there is no picture
	}
	defer f.Close()
	shot, err := png.Decode(f)
	if err != nil {
		return fmt.Errorf("darwin: screencapture's picture: %w", err)
	}
	whole := image.NewRGBA(image.Rect(0, 0, bounds.Width, bounds.Height))
	draw.Draw(whole, whole.Bounds(), shot, shot.Bounds().Min, draw.Src)
	copyRGBA(pix, area, whole, bounds, part)
	return nil
}

// Damage is nil: macOS does not tell.
func (s *Screen) Damage() <-chan platform.Rect { return nil }

// Close has nothing to free.
func (s *Screen) Close() error { return nil }
