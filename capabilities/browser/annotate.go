package browser

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"math"
	"slices"

	"github.com/chromedp/cdproto/page"
)

// Annotated screenshots: the refs of what can be worked with, drawn on the decoded
// image, so that the page itself is not touched.

// legendEntry says what a drawn ref is.
type legendEntry struct {
	Ref  string `json:"ref"`
	Role string `json:"role"`
	Name string `json:"name"`
}

var markColors = []color.RGBA{
	{200, 20, 20, 255}, {20, 70, 200, 255}, {0, 120, 40, 255}, {150, 20, 160, 255}, {170, 85, 0, 255}, {0, 115, 125, 255},
}

// annotate draws the marks that the picture shows; shown is its place in the
// viewport, in CSS pixels.
func annotate(data []byte, shown page.Viewport, marks []mark, args shotArgs) (out []byte, legend []legendEntry, err error) {
	decoded, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, nil, err
	}
	b := decoded.Bounds()
	picture, ok := decoded.(*image.RGBA)
	if !ok {
		picture = image.NewRGBA(b)
		draw.Draw(picture, b, decoded, b.Min, draw.Src)
	}
	ratio := float64(b.Dx()) / shown.Width
	unit := max(1, int(math.Round(ratio))) // of lines and letters
	box := func(m mark) image.Rectangle {
		at := func(v float64) int { return int(math.Round(v * ratio)) }
		return image.Rect(at(m.X-shown.X), at(m.Y-shown.Y), at(m.X-shown.X+m.Width), at(m.Y-shown.Y+m.Height)).Add(b.Min)
	}
	var boxes, labels []image.Rectangle
	var inks []image.Image
	for i, m := range marks {
		r := box(m)
		if r.Intersect(b).Empty() {
			continue
		}
		ink := image.NewUniform(markColors[i%len(markColors)])
		for _, side := range []image.Rectangle{
			{r.Min, image.Pt(r.Max.X, r.Min.Y+unit)}, {image.Pt(r.Min.X, r.Max.Y-unit), r.Max},
			{r.Min, image.Pt(r.Min.X+unit, r.Max.Y)}, {image.Pt(r.Max.X-unit, r.Min.Y), r.Max},
		} {
			draw.Draw(picture, side.Intersect(b), ink, image.Point{}, draw.Src)
		}
		boxes, inks = append(boxes, r.Intersect(b)), append(inks, ink)
		labels = append(labels, putLabel(r, b, labelSize(m.Ref, unit), labels))
		legend = append(legend, legendEntry{m.Ref, m.Role, m.Name})
	}
	for i, label := range labels {
		lead(picture, label, boxes[i], inks[i], unit)
	}
	for i, label := range labels { // over all lines
		draw.Draw(picture, label.Intersect(b), inks[i], image.Point{}, draw.Src)
		letters(picture, label.Min.Add(image.Pt(unit, unit)), legend[i].Ref, unit)
	}
	var buf bytes.Buffer
	if args.Format == "jpeg" {
		err = jpeg.Encode(&buf, picture, &jpeg.Options{Quality: int(args.Quality)})
	} else {
		err = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&buf, picture)
	}
	if err == nil && buf.Len() > maxBlob {
		err = errImageTooLarge
	}
	return buf.Bytes(), legend, err
}

// putLabel puts a label at its box where it covers no other: above, inside, or
// at another corner; else at the nearest place that is free.
func putLabel(r, all image.Rectangle, size image.Point, taken []image.Rectangle) image.Rectangle {
	free := func(at image.Point) bool {
		label := image.Rectangle{at, at.Add(size)}
		return label.In(all) && !slices.ContainsFunc(taken, label.Overlaps)
	}
	left, right, above := r.Min.X, r.Max.X-size.X, r.Min.Y-size.Y
	for _, at := range []image.Point{
		{left, above}, {left, r.Min.Y}, {right, above}, {right, r.Max.Y - size.Y}, {left, r.Max.Y}, {right, r.Max.Y}, {r.Max.X, r.Min.Y},
		{left - size.X, r.Min.Y},
	} {
		if free(at) {
			return image.Rectangle{at, at.Add(size)}
		}
	}
	for far := size.Y; far <= 16*size.Y; far += size.Y {
		for along := -far; along <= far; along += size.Y {
			for _, by := range []image.Point{{along, far}, {far, along}, {along, -far}, {-far, along}} {
				if at := image.Pt(left, above).Add(by); free(at) {
					return image.Rectangle{at, at.Add(size)}
				}
			}
		}
	}
	// Everywhere is one: into the picture at least.
	at := image.Pt(max(all.Min.X, min(left, all.Max.X-size.X)), max(all.Min.Y, min(above, all.Max.Y-size.Y)))
	return image.Rectangle{at, at.Add(size)}
}

// lead draws the line from a label to its box, if they are apart.
func lead(picture *image.RGBA, label, box image.Rectangle, ink image.Image, unit int) {
	if label.Inset(-unit).Overlaps(box) {
		return
	}
	middle := func(r image.Rectangle) image.Point { return r.Min.Add(r.Max).Div(2) }
	from := middle(label)
	way := middle(box).Sub(from)
	for n, i := max(way.X, -way.X, way.Y, -way.Y), 0; i < n; i++ {
		dot := image.Rect(0, 0, unit, unit).Add(from).Add(way.Mul(i).Div(n))
		if dot.Overlaps(box) {
			return
		}
		draw.Draw(picture, dot, ink, image.Point{}, draw.Src)
	}
}

// A ref is made of these; each glyph has seven rows of five bits, the highest bit
// to the left.
var glyphs = map[rune][7]byte{
	'0': {14, 17, 19, 21, 25, 17, 14}, '1': {4, 12, 4, 4, 4, 4, 14}, '2': {14, 17, 1, 6, 8, 16, 31}, '3': {14, 17, 1, 6, 1, 17, 14},
	'4': {2, 6, 10, 18, 31, 2, 2}, '5': {31, 16, 30, 1, 1, 17, 14}, '6': {6, 8, 16, 30, 17, 17, 14}, '7': {31, 1, 2, 4, 8, 8, 8},
	'8': {14, 17, 17, 14, 17, 17, 14}, '9': {14, 17, 17, 15, 1, 2, 12}, 'e': {0, 0, 14, 17, 31, 16, 14}, 'f': {6, 9, 8, 28, 8, 8, 8},
}

func labelSize(ref string, unit int) image.Point {
	return image.Pt((len(ref)*6+1)*unit, 9*unit)
}

func letters(picture *image.RGBA, at image.Point, ref string, unit int) {
	b := picture.Bounds()
	for _, r := range ref {
		for y, row := range glyphs[r] {
			for x := range 5 {
				if row>>(4-x)&1 == 1 {
					dot := image.Rect(0, 0, unit, unit).Add(at).Add(image.Pt(x*unit, y*unit)).Intersect(b)
					draw.Draw(picture, dot, image.White, image.Point{}, draw.Src)
				}
			}
		}
		at.X += 6 * unit
	}
}
