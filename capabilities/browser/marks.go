package browser

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/chromedp/cdproto/cdp"

	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// Where things are: boxes of elements in the tab's viewport, whatever frame they are
// in, and the marks that a screenshot shows.

// boxPattern finds the boxes that the page script marked.
var boxPattern = regexp.MustCompile("\x02(-?\\d+),(-?\\d+),(\\d+),(\\d+)\x02")

// mapping takes points of a frame's viewport to the tab's, as a matrix
// [a b c d e f]: x' = a·x + c·y + e, y' = b·x + d·y + f.
type mapping [6]float64

var unmoved = mapping{1, 0, 0, 1, 0, 0}

func (m mapping) point(x, y float64) (float64, float64) {
	return m[0]*x + m[2]*y + m[4], m[1]*x + m[3]*y + m[5]
}

// after returns the mapping that applies inner first.
func (m mapping) after(inner mapping) mapping {
	e, f := m.point(inner[4], inner[5])
	return mapping{
		m[0]*inner[0] + m[2]*inner[1], m[1]*inner[0] + m[3]*inner[1],
		m[0]*inner[2] + m[2]*inner[3], m[1]*inner[2] + m[3]*inner[3], e, f,
	}
}

// rect maps a box to the box around it.
func (m mapping) rect(x, y, w, h float64) (float64, float64, float64, float64) {
	ax, ay := m.point(x, y)
	bx, by := m.point(x+w, y+h)
	cx, cy := m.point(x+w, y)
	dx, dy := m.point(x, y+h)
	left, top := min(ax, bx, cx, dx), min(ay, by, cy, dy)
	return left, top, max(ax, bx, cx, dx) - left, max(ay, by, cy, dy) - top
}

// box words a box that the page script marked.
func (m mapping) box(marked string) string {
	var n [4]float64
	for i, s := range boxPattern.FindStringSubmatch(marked)[1:] {
		n[i], _ = strconv.ParseFloat(s, 64)
	}
	x, y, w, h := m.rect(n[0], n[1], n[2], n[3])
	return fmt.Sprintf(" [box=%.0f,%.0f,%.0f,%.0f]", x, y, w, h)
}

// framePlace is where a frame is in the document around it.
type framePlace struct {
	Map mapping    `json:"map"`
	Box [4]float64 `json:"box"` // x, y, width, height
}

// placesOf asks a document where its foreign frames are.
func (w world) placesOf(ctx context.Context, list []*frame) map[cdp.FrameID]framePlace {
	args := struct {
		Frames []cdp.FrameID `json:"frames"`
	}{[]cdp.FrameID{}}
	for _, f := range list {
		if f != nil {
			args.Frames = append(args.Frames, f.id)
		}
	}
	var answer struct {
		Maps map[cdp.FrameID]framePlace `json:"maps"`
	}
	if len(args.Frames) > 0 {
		_ = w.put(ctx, inpage.PlaceOfFrames, args).get(ctx, &answer) // none: their boxes stay their own
	}
	return answer.Maps
}

// mark is an interactive element in view, to be drawn on a screenshot. Its box is
// in CSS pixels of the tab's viewport.
type mark struct {
	Ref    string  `json:"ref"`
	Role   string  `json:"role"`
	Name   string  `json:"name"`
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
}

// maxMarks bounds the elements that are marked.
const maxMarks = 300

// marks lists the interactive elements in view, in all frames.
func (c *call) marks() ([]mark, error) {
	type place struct {
		f    *frame
		m    mapping
		clip [4]float64 // what is seen of the frame
	}
	var all []mark
	list := []place{{m: unmoved, clip: [4]float64{-1e6, -1e6, 2e6, 2e6}}}
	for n := 0; n < len(list) && n < maxFrames; n++ {
		p := list[n]
		var answer struct {
			Marks     []mark        `json:"marks"`
			Slots     []cdp.FrameID `json:"slots"`
			Strangers int           `json:"strangers"`
			Next      int           `json:"next"`
		}
		base := 0
		if p.f == nil {
			base = c.lane.takeRefs()
		}
		w, err := c.tab.askAny(c.ctx, p.f, inpage.Marks, question{view: view{Interactive: true}, Base: base}, &answer)
		if err == nil && w.listen(c.ctx).hear(c.ctx) {
			w, err = c.tab.askAny(c.ctx, p.f, inpage.Marks, question{view: view{Interactive: true}, Base: base}, &answer)
		}
		if err != nil {
			if p.f == nil {
				return nil, err
			}
			continue
		}
		if p.f == nil {
			c.lane.putRefs(answer.Next)
		}
		for _, x := range answer.Marks {
			x.X, x.Y, x.Width, x.Height = p.m.rect(x.X, x.Y, x.Width, x.Height)
			right, bottom := min(x.X+x.Width, p.clip[0]+p.clip[2]), min(x.Y+x.Height, p.clip[1]+p.clip[3])
			x.X, x.Y = max(x.X, p.clip[0]), max(x.Y, p.clip[1])
			x.Width, x.Height = right-x.X, bottom-x.Y
			if x.Width >= 1 && x.Height >= 1 && len(all) < maxMarks {
				all = append(all, x)
			}
		}
		if len(answer.Slots) == 0 {
			continue
		}
		below := c.tab.slots(c.ctx, w, answer.Slots, answer.Strangers)
		places := w.placesOf(c.ctx, below)
		for _, f := range below {
			if f == nil {
				continue
			}
			if at, ok := places[f.id]; ok {
				x, y, width, height := p.m.rect(at.Box[0], at.Box[1], at.Box[2], at.Box[3])
				list = append(list, place{f, p.m.after(at.Map), [4]float64{x, y, width, height}})
			}
		}
	}
	return all, nil
}
