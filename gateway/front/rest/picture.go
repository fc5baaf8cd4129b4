package rest

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	_ "image/jpeg" // decoded
	"image/png"
	"math"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
)

// Bounds of a picture that is cut for a question.
const (
	maxPixels = 40 << 20 // of what is decoded
	cutWidth  = 640      // of what is shown
	cutHeight = 360
	ring      = 18 // the radius around a place
)

// picture returns the part of the picture that a question quotes around the places that it
// names, with those marked. No new picture is taken for it, and only who may watch that
// screen sees it.
func (s *Server) picture(c *visit) error {
	id := c.r.PathValue("approval")
	a, err := s.opts.Consent.Approval(id)
	if err != nil {
		return err
	}
	if s.opts.Sees == nil || !s.opts.Sees(c.who, a.Node) {
		return capabilities.Errorf(capabilities.CodeForbidden, "this picture is of a screen that you may not watch")
	}
	data, spots, err := s.opts.Consent.Picture(id)
	if err != nil {
		return err
	}
	s.drawing <- struct{}{} // one at a time: a picture takes its pixels' memory
	defer func() { <-s.drawing }()
	out, err := cutOut(data, spots)
	if err != nil {
		return capabilities.Wrap(capabilities.CodeNotFound, err, "the picture of this question cannot be read")
	}
	h := c.w.Header()
	h.Set("Content-Type", "image/png")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "no-store")
	c.began = true
	_, _ = c.w.Write(out) // the client went away: there is nobody to tell
	return nil
}

// cutOut returns a part of a picture around places, which are ringed, and joined in order.
func cutOut(data []byte, spots []consent.Spot) ([]byte, error) {
	head, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if head.Width <= 0 || head.Height <= 0 || head.Width > maxPixels/head.Height {
		return nil, capabilities.Errorf(capabilities.CodeResultTooLarge, "the picture has %d by %d pixels", head.Width, head.Height)
	}
	whole, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	part := around(whole.Bounds(), spots)
	out := image.NewRGBA(image.Rect(0, 0, part.Dx(), part.Dy()))
	draw.Draw(out, out.Bounds(), whole, part.Min, draw.Src)
	for i, at := range spots {
		p := image.Pt(int(at.X)-part.Min.X, int(at.Y)-part.Min.Y)
		if i > 0 {
			line(out, image.Pt(int(spots[i-1].X)-part.Min.X, int(spots[i-1].Y)-part.Min.Y), p)
		}
		circle(out, p)
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, out); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// around returns the part of a picture that shows all places if it can, the first at least.
func around(whole image.Rectangle, spots []consent.Spot) image.Rectangle {
	if len(spots) == 0 {
		return whole
	}
	box := image.Rectangle{}
	for i, at := range spots {
		p := image.Pt(clamp(at.X, whole.Max.X), clamp(at.Y, whole.Max.Y))
		one := image.Rect(p.X-2*ring, p.Y-2*ring, p.X+2*ring, p.Y+2*ring)
		if i == 0 {
			one = image.Rect(p.X-cutWidth/2, p.Y-cutHeight/2, p.X+cutWidth/2, p.Y+cutHeight/2)
		}
		box = box.Union(one)
	}
	// At the edge of the screen it is moved in, and stays as large.
	shift := image.Pt(max(0, whole.Min.X-box.Min.X)-max(0, box.Max.X-whole.Max.X), max(0, whole.Min.Y-box.Min.Y)-max(0, box.Max.Y-whole.Max.Y))
	return box.Add(shift).Intersect(whole)
}

func clamp(v float64, most int) int { return int(math.Max(0, math.Min(v, float64(most)))) }

var (
	inner = color.RGBA{R: 0xe0, G: 0x10, B: 0x30, A: 0xff}
	outer = color.RGBA{R: 0xff, G: 0xff, B: 0xff, A: 0xff}
)

// circle rings a place, in red with white beside it, so that it shows on every ground.
func circle(m *image.RGBA, at image.Point) {
	for y := -ring - 3; y <= ring+3; y++ {
		for x := -ring - 3; x <= ring+3; x++ {
			switch d := math.Hypot(float64(x), float64(y)); {
			case math.Abs(d-ring) <= 1.5:
				m.SetRGBA(at.X+x, at.Y+y, inner)
			case math.Abs(d-ring) <= 3:
				m.SetRGBA(at.X+x, at.Y+y, outer)
			}
		}
	}
}

// line joins two places. The part outside is left out.
func line(m *image.RGBA, from, to image.Point) {
	d := to.Sub(from)
	n := max(abs(d.X), abs(d.Y))
	for i := 0; i <= min(n, 4*(cutWidth+cutHeight)*4); i++ {
		x, y := from.X+d.X*i/max(n, 1), from.Y+d.Y*i/max(n, 1)
		m.SetRGBA(x, y, inner)
		m.SetRGBA(x, y+1, outer)
	}
}

func abs(n int) int { return max(n, -n) }
