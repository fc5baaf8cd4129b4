package darwin

import (
	"math"

	"github.com/handrail-dev/handrail/platform"
)

// rect and point are CGRect and CGPoint, flat: purego hands structures on by their
// fields, and a rectangle is four numbers to both processors.
type (
	rect  struct{ X, Y, Width, Height float64 }
	point struct{ X, Y float64 }
)

// screen is a display: macOS measures in points, of which one is one pixel, or two
// on a Retina display, or something between.
type screen struct {
	id            uint32
	points        rect
	width, height int // in pixels
}

func (s screen) scale() float64 {
	if s.points.Width <= 0 || s.width <= 0 {
		return 1
	}
	return float64(s.width) / s.points.Width
}

// layout places displays of different scales in one space of pixels. A display's
// size is its own in pixels; its place is its place in points times the largest
// scale, so that none lies over another. Between displays of different scales
// there may be gaps, which are no pixels of anything.
type layout []screen

func (l layout) largest() float64 {
	most := 1.0
	for _, s := range l {
		most = max(most, s.scale())
	}
	return most
}

// bounds returns a display's pixels.
func (l layout) bounds(s screen) platform.Rect {
	by := l.largest()
	return platform.Rect{X: int(math.Round(s.points.X * by)), Y: int(math.Round(s.points.Y * by)), Width: s.width, Height: s.height}
}

// toPoint returns the middle of a pixel in points; ok is false for one that is on no
// display.
func (l layout) toPoint(p platform.Point) (point, bool) {
	for _, s := range l {
		if b := l.bounds(s); b.Has(p) {
			by := s.scale()
			return point{s.points.X + (float64(p.X-b.X)+0.5)/by, s.points.Y + (float64(p.Y-b.Y)+0.5)/by}, true
		}
	}
	return point{}, false
}

// at finds the display that a point is on, or the nearest.
func (l layout) at(p point) (screen, bool) {
	var best screen
	least := math.Inf(1)
	for _, s := range l {
		dx := max(s.points.X-p.X, 0, p.X-(s.points.X+s.points.Width))
		dy := max(s.points.Y-p.Y, 0, p.Y-(s.points.Y+s.points.Height))
		if p.X == s.points.X+s.points.Width || p.Y == s.points.Y+s.points.Height {
			dx = max(dx, math.SmallestNonzeroFloat64) // its edge belongs to the next
		}
		if d := dx + dy; d < least {
			best, least = s, d
		}
	}
	return best, len(l) > 0
}

// toPixel returns the pixel that a point is in.
func (l layout) toPixel(p point) platform.Point {
	s, ok := l.at(p)
	if !ok {
		return platform.Point{X: whole(p.X), Y: whole(p.Y)}
	}
	b, by := l.bounds(s), s.scale()
	return platform.Point{X: b.X + whole((p.X-s.points.X)*by), Y: b.Y + whole((p.Y-s.points.Y)*by)}
}

// toPixels returns a rectangle's pixels, by the display that its middle is on.
func (l layout) toPixels(r rect) platform.Rect {
	if !(r.Width > 0 && r.Height > 0) { // numbers that are none, too
		return platform.Rect{}
	}
	s, ok := l.at(point{r.X + r.Width/2, r.Y + r.Height/2})
	if !ok {
		return platform.Rect{}
	}
	b, by := l.bounds(s), s.scale()
	x0, y0 := b.X+round((r.X-s.points.X)*by), b.Y+round((r.Y-s.points.Y)*by)
	x1, y1 := b.X+round((r.X+r.Width-s.points.X)*by), b.Y+round((r.Y+r.Height-s.points.Y)*by)
	return platform.Rect{X: x0, Y: y0, Width: max(x1-x0, 1), Height: max(y1-y0, 1)}
}

// toPoints returns a rectangle of pixels in points, by the display that its middle
// is on.
func (l layout) toPoints(r platform.Rect) rect {
	for _, s := range l {
		b, by := l.bounds(s), s.scale()
		if b.Has(r.Center()) {
			return rect{
				s.points.X + float64(r.X-b.X)/by, s.points.Y + float64(r.Y-b.Y)/by, float64(r.Width) / by, float64(r.Height) / by,
			}
		}
	}
	by := l.largest()
	return rect{float64(r.X) / by, float64(r.Y) / by, float64(r.Width) / by, float64(r.Height) / by}
}

// Applications say what they like about where they are.
const farthest = 1 << 24

func whole(v float64) int { return round(math.Floor(v)) }

func round(v float64) int {
	if math.IsNaN(v) {
		return 0
	}
	return int(math.Round(min(max(v, -farthest), farthest)))
}
