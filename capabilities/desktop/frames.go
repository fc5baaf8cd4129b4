package desktop

import (
	"context"
	"crypto/rand"
	"math"
	"strconv"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// maxFrames is how many images a node remembers.
const maxFrames = 256

// shown is what an image showed: the desktop's pixels of area, in the layout of
// epoch, as an image of width by height.
type shown struct {
	id            string
	display       string // its ID, or "all"
	area          platform.Rect
	width, height int
	scale         float64 // of the display; 0 if it is not one display
	epoch, seq    uint64
	cursor        bool
}

// frameTable remembers what the last images showed, for every lane.
type frameTable struct {
	tag string // tells the frames of this process from those of one before

	mu   sync.Mutex
	next uint64
	byID map[string]shown
	ring [maxFrames]string
}

func newFrameTable() *frameTable {
	return &frameTable{tag: rand.Text()[:4], byID: make(map[string]shown, maxFrames)}
}

// add remembers an image and sets its ID.
func (t *frameTable) add(s shown) shown {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := &t.ring[t.next%maxFrames]
	delete(t.byID, *slot)
	t.next++
	s.id = "f" + strconv.FormatUint(t.next, 10) + "-" + t.tag
	*slot, t.byID[s.id] = s.id, s
	return s
}

// keep returns the frame that showed the same if it was among the last ones, so that
// an unchanged screen does not push others out; else it adds s.
func (t *frameTable) keep(s shown) shown {
	t.mu.Lock()
	for back := range min(uint64(8), t.next) {
		if had := t.byID[t.ring[(t.next-1-back)%maxFrames]]; had.same(s) {
			t.mu.Unlock()
			return had
		}
	}
	t.mu.Unlock()
	return t.add(s)
}

func (t *frameTable) get(id string) (shown, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.byID[id]
	return s, ok
}

// frame finds the image that a call quotes, in the layout it was taken in.
func (h *Handler) frame(id string, layout platform.Layout) (shown, error) {
	s, ok := h.frames.get(id)
	if !ok {
		return shown{}, capabilities.Errorf(capabilities.CodeStaleFrame, "The node does not remember that image.").
			WithHint("Take a new screenshot and use its frame_id; the last 256 are remembered.")
	}
	if s.epoch != layout.Epoch {
		return shown{}, &capabilities.Error{Code: capabilities.CodeStaleFrame}
	}
	return s, nil
}

// layout returns the displays as they are now.
func (h *Handler) layout(ctx context.Context, d *platform.Desktop) (platform.Layout, error) {
	if d.Screen == nil {
		return platform.Layout{}, missing(d, platform.PartScreen)
	}
	return d.Screen.Layout(ctx)
}

// point returns the pixel of the desktop that x and y mean: the middle of that
// pixel in the image of frameID, or, without one, the desktop's own pixel. It
// refuses what is on no display.
func (h *call) point(ctx context.Context, frameID string, x, y float64) (platform.Point, error) {
	d, err := h.desktop(ctx)
	if err != nil {
		return platform.Point{}, err
	}
	layout, err := h.layout(ctx, d)
	if err != nil {
		return platform.Point{}, err
	}
	return h.pointIn(layout, frameID, x, y)
}

func (h *Handler) pointIn(layout platform.Layout, frameID string, x, y float64) (platform.Point, error) {
	if math.IsNaN(x) || math.IsNaN(y) || math.Abs(x) > 1<<20 || math.Abs(y) > 1<<20 {
		return platform.Point{}, capabilities.Errorf(capabilities.CodeOutsideDesktop, "x and y are no pixels of a desktop.")
	}
	p := platform.Point{X: int(math.Floor(x)), Y: int(math.Floor(y))}
	if frameID != "" {
		s, err := h.frame(frameID, layout)
		if err != nil {
			return platform.Point{}, err
		}
		if p.X < 0 || p.Y < 0 || p.X >= s.width || p.Y >= s.height {
			return platform.Point{},
				capabilities.Errorf(capabilities.CodeOutsideDesktop, "That image has %d by %d pixels; x and y are not in it.", s.width, s.height).
					WithHint("Give x and y in the pixels of the image whose frame_id you quote.")
		}
		p = s.desktop(p)
	}
	for _, display := range layout.Displays {
		if display.Bounds.Has(p) {
			return p, nil
		}
	}
	return platform.Point{}, capabilities.Errorf(capabilities.CodeOutsideDesktop, "There is no display at %d, %d.", p.X, p.Y).
		WithDetails(map[string]any{"displays": boundsOf(layout)})
}

// desktop returns the desktop's pixel under the middle of an image's pixel.
func (s shown) desktop(p platform.Point) platform.Point {
	return platform.Point{X: s.area.X + along(p.X, s.width, s.area.Width), Y: s.area.Y + along(p.Y, s.height, s.area.Height)}
}

// same reports whether two images show the same pixels of the same place.
func (s shown) same(o shown) bool {
	o.id = s.id
	return s == o
}

// part returns the desktop's pixels that a part of the image shows; empty if it is
// not in the image.
func (s shown) part(r platform.Rect) platform.Rect {
	r = r.Intersect(platform.Rect{Width: s.width, Height: s.height})
	if r.Empty() {
		return r
	}
	x, y := r.X*s.area.Width/s.width, r.Y*s.area.Height/s.height
	right := ((r.X+r.Width)*s.area.Width + s.width - 1) / s.width
	bottom := ((r.Y+r.Height)*s.area.Height + s.height - 1) / s.height
	return platform.Rect{X: s.area.X + x, Y: s.area.Y + y, Width: right - x, Height: bottom - y}
}

// along maps the middle of pixel i of from onto a pixel of to, in whole numbers.
func along(i, from, to int) int { return (2*i + 1) * to / (2 * from) }

func boundsOf(layout platform.Layout) []rect {
	all := make([]rect, 0, len(layout.Displays))
	for _, d := range layout.Displays {
		if len(all) < 16 {
			all = append(all, rectOf(d.Bounds))
		}
	}
	return all
}

// rect is a platform.Rect as results have it.
type rect struct {
	X      int `json:"x"`
	Y      int `json:"y"`
	Width  int `json:"width"`
	Height int `json:"height"`
}

func rectOf(r platform.Rect) rect {
	return rect{X: r.X, Y: r.Y, Width: max(r.Width, 0), Height: max(r.Height, 0)}
}
