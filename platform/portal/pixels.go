package portal

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// Bounds of an image of the portal's.
const (
	maxFile   = 256 << 20
	maxPixels = 1 << 26
)

// load reads the image that a URI names, and removes the file: it was made for this
// one answer, since then.
func load(uri string, since time.Time) (image.Image, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Path == "" {
		return nil, errors.New("portal: the screenshot is in no file")
	}
	f, err := os.Open(u.Path)
	if err != nil {
		return nil, fmt.Errorf("portal: the screenshot cannot be read: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, errors.New("portal: the screenshot is no file of a fitting size")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	img, err := decode(data)
	if err == nil && !info.ModTime().Before(since.Add(-time.Minute)) { // never an older file of the person's
		_ = os.Remove(u.Path)
	}
	return img, err
}

// decode reads a PNG of bounded size.
func decode(data []byte) (image.Image, error) {
	c, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil || c.Width <= 0 || c.Height <= 0 || c.Width > maxPixels/c.Height {
		return nil, errors.New("portal: the screenshot is no PNG of a fitting size")
	}
	return png.Decode(bytes.NewReader(data))
}

// Place is where a display is: in pixels, and in the units that the compositor
// arranges displays in.
type Place struct {
	Physical, Logical platform.Rect
}

// unpack copies the pixels of area out of an image of all displays. An image is made
// in the compositor's units times one scale for all, so displays of a smaller scale
// are enlarged in it.
func unpack(pix []byte, area platform.Rect, img image.Image, places []Place) {
	clear(pix[:area.Width*area.Height*4])
	var whole platform.Rect
	for _, p := range places {
		whole = whole.Union(p.Logical)
	}
	size := img.Bounds()
	if whole.Empty() || size.Empty() {
		return
	}
	// at returns the image's pixel for the middle of one of the display's.
	at := func(i, physical, logical, from, units, pixels int) int {
		unit := float64(from) + (float64(i)+0.5)*float64(logical)/float64(physical)
		return min(max(int(unit*float64(pixels)/float64(units)), 0), pixels-1)
	}
	for _, p := range places {
		part := area.Intersect(p.Physical)
		xs := make([]int, max(part.Width, 0))
		for i := range xs {
			xs[i] = size.Min.X + at(part.X-p.Physical.X+i, p.Physical.Width, p.Logical.Width, p.Logical.X-whole.X, whole.Width, size.Dx())
		}
		for i := range max(part.Height, 0) {
			y := size.Min.Y + at(part.Y-p.Physical.Y+i, p.Physical.Height, p.Logical.Height, p.Logical.Y-whole.Y, whole.Height, size.Dy())
			row := pix[((part.Y-area.Y+i)*area.Width+part.X-area.X)*4:]
			for k, x := range xs {
				r, g, b := colour(img, x, y)
				row[k*4], row[k*4+1], row[k*4+2], row[k*4+3] = b, g, r, 255
			}
		}
	}
}

// colour reads one pixel, of the kinds of image that screenshots are without a
// conversion for each.
func colour(img image.Image, x, y int) (r, g, b byte) {
	switch m := img.(type) {
	case *image.NRGBA:
		p := m.Pix[m.PixOffset(x, y):]
		return p[0], p[1], p[2]
	case *image.RGBA:
		p := m.Pix[m.PixOffset(x, y):]
		return p[0], p[1], p[2]
	}
	r16, g16, b16, _ := img.At(x, y).RGBA()
	return byte(r16 >> 8), byte(g16 >> 8), byte(b16 >> 8)
}
