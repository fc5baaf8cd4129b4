package desktop

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/picture"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

const (
	// maxBlob is what a result may carry of an image; see the catalog.
	maxBlob = 64 << 20
	// maxPixels bounds an image before any of it is read.
	maxPixels = 1 << 26
	// keptImages and keptBytes bound the encoded images that are kept, so that a
	// screen that did not change is not encoded again.
	keptImages = 6
	keptBytes  = 16 << 20
)

type shotArgs struct {
	Display   display     `json:"display"`
	Window    string      `json:"window"`
	Region    *regionArgs `json:"region"`
	Format    string      `json:"format"`
	Quality   int         `json:"quality"`
	MaxWidth  int         `json:"max_width"`
	Cursor    bool        `json:"cursor"`
	ChangedAt string      `json:"if_changed_since"`
}

type regionArgs struct {
	selector.Area
	FrameID string `json:"frame_id"`
}

// display is "primary", "all" or {"id": …}.
type display struct{ word, id string }

// UnmarshalJSON reads either form.
func (d *display) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &d.word) == nil {
		return nil
	}
	var named struct{ ID string }
	err := json.Unmarshal(data, &named)
	d.id = named.ID
	return err
}

type shotResult struct {
	FrameID   string     `json:"frame_id,omitempty"`
	Frame     *frameInfo `json:"frame,omitempty"`
	Unchanged bool       `json:"unchanged,omitempty"`
	MIME      string     `json:"mime"`
	Width     int        `json:"width"`
	Height    int        `json:"height"`
	Timestamp time.Time  `json:"timestamp"`
}

// frameInfo is what an image showed, as results have it.
type frameInfo struct {
	Display     string  `json:"display"`
	X           int     `json:"x"`
	Y           int     `json:"y"`
	Width       int     `json:"width"`
	Height      int     `json:"height"`
	ImageWidth  int     `json:"image_width"`
	ImageHeight int     `json:"image_height"`
	Scale       float64 `json:"scale,omitempty"`
	Epoch       uint64  `json:"layout_epoch"`
}

func (s shown) info() *frameInfo {
	return &frameInfo{
		Display: capabilities.Clip(s.display, 256), X: s.area.X, Y: s.area.Y, Width: s.area.Width, Height: s.area.Height,
		ImageWidth: s.width, ImageHeight: s.height, Scale: s.scale, Epoch: s.epoch,
	}
}

// screenshot carries out tyrum.desktop.screenshot: a display, all of them, a
// window as it shows on the screen, or a region.
func (h *call) screenshot(ctx context.Context) (capabilities.Output, error) {
	args := shotArgs{Format: "png", Quality: 80}
	if err := h.decode(&args); err != nil {
		return capabilities.Output{}, err
	}
	var out capabilities.Output
	err := h.reading(ctx, func(d *platform.Desktop) (err error) {
		out, err = h.shoot(ctx, d, args)
		return err
	})
	return out, err
}

// reading runs what only looks at the desktop, once more if the desktop was lost
// meanwhile and could be opened anew.
func (h *call) reading(ctx context.Context, look func(d *platform.Desktop) error) error {
	d, err := h.desktop(ctx)
	if err != nil {
		return err
	}
	if err = look(d); !errors.Is(err, platform.ErrLost) {
		return err
	}
	again, openErr := h.desktop(ctx)
	if openErr != nil || again == d {
		return err
	}
	return look(again)
}

func (h *call) shoot(ctx context.Context, d *platform.Desktop, args shotArgs) (capabilities.Output, error) {
	layout, err := h.layout(ctx, d)
	if err != nil {
		return capabilities.Output{}, err
	}
	want := shot{quality: args.Quality, maxWidth: args.MaxWidth, cursor: args.Cursor, jpeg: args.Format == "jpeg"}
	if want.area, err = h.areaOf(ctx, layout, args); err != nil {
		return capabilities.Output{}, err
	}
	if args.Region != nil || args.Window != "" {
		h.acts(want.area)
	}
	took, err := h.grab(ctx, d, layout, want, args.ChangedAt)
	if err != nil {
		return capabilities.Output{}, err
	}
	out := capabilities.Output{Result: took.result(), Untrusted: true}
	for _, b := range took.blobs() {
		if err := h.inv.Give(&out, b, "screenshot."+strings.TrimPrefix(b.MIME, "image/")); err != nil {
			return capabilities.Output{}, err
		}
	}
	return out, nil
}

// areaOf says which of the desktop's pixels are wanted.
func (h *call) areaOf(ctx context.Context, layout platform.Layout, args shotArgs) (area platform.Rect, err error) {
	switch {
	case args.Region != nil:
		r := args.Region
		part := r.Pixels()
		if r.FrameID != "" {
			s, err := h.frame(r.FrameID, layout)
			if err != nil {
				return area, err
			}
			if part = s.part(part); part.Empty() {
				return area, capabilities.Errorf(capabilities.CodeOutsideDesktop, "That image has %d by %d pixels; the region is not in it.", s.width,
					s.height)
			}
		}
		area = part.Intersect(layout.Whole())
	case args.Window != "":
		w, err := h.window(ctx, args.Window)
		if err != nil {
			return area, err
		}
		if w.Minimized {
			return area, capabilities.Errorf(capabilities.CodeWindowNotFound, "That window is minimized, so it shows nothing.").
				WithHint("Activate it with act, then look.")
		}
		area = w.Bounds.Intersect(layout.Whole())
	case args.Display.word == "all":
		area = layout.Whole()
	default:
		area = displayOf(layout, args.Display).Bounds
	}
	if area.Empty() {
		ids := make([]string, 0, len(layout.Displays))
		for _, d := range layout.Displays[:min(len(layout.Displays), 16)] {
			ids = append(ids, capabilities.Clip(d.ID, 64))
		}
		return area, capabilities.Errorf(capabilities.CodeOutsideDesktop, "That area is on no display.").
			WithHint("Use primary, all, or the id of a display from the details.").
			WithDetails(map[string]any{"displays": ids, "bounds": boundsOf(layout)})
	}
	if area.Width > maxPixels/area.Height {
		return area, capabilities.Errorf(capabilities.CodeResultTooLarge, "That would be an image of %d by %d pixels.", area.Width, area.Height).
			WithHint("Take one display, a window or a region.")
	}
	return area, nil
}

// displayOf finds a display; one without pixels if there is none.
func displayOf(layout platform.Layout, want display) platform.Display {
	i := slices.IndexFunc(layout.Displays, func(d platform.Display) bool {
		return want.id != "" && d.ID == want.id || want.id == "" && d.Primary
	})
	switch {
	case i >= 0:
		return layout.Displays[i]
	case want.id == "" && len(layout.Displays) > 0:
		return layout.Displays[0] // nothing says which one is the main one
	}
	return platform.Display{}
}

// shot is what an image is to be.
type shot struct {
	area     platform.Rect
	maxWidth int
	cursor   bool
	jpeg     bool
	quality  int
}

func (s shot) mime() string {
	if s.jpeg {
		return "image/jpeg"
	}
	return "image/png"
}

// taken is an image that was taken; data is nil if the caller has it already.
type taken struct {
	shown
	mime string
	at   time.Time
	data []byte
	same bool
}

func (t taken) result() shotResult {
	return shotResult{FrameID: t.id, Frame: t.info(), Unchanged: t.same, MIME: t.mime, Width: t.width, Height: t.height, Timestamp: t.at.UTC()}
}

func (t taken) blobs() []capabilities.Blob {
	if t.same {
		return nil
	}
	return []capabilities.Blob{{Field: "bytesBase64", MIME: t.mime, Bytes: t.data}}
}

// grab returns the image, encoded now or before. since is an image that the caller
// has: if nothing changed, it is told so.
func (h *call) grab(ctx context.Context, d *platform.Desktop, layout platform.Layout, want shot, since string) (taken, error) {
	h.observe(keyScreen, "pixels")
	frame, err := d.Screen.Frame(ctx, want.area, want.cursor)
	if err != nil {
		return taken{}, err
	}
	defer frame.Release()
	m := picture.Image{Pix: frame.Pix, Stride: frame.Stride, Width: frame.Area.Width, Height: frame.Area.Height}
	s := shown{area: frame.Area, epoch: frame.Epoch, seq: frame.Seq, cursor: want.cursor, display: "all"}
	s.width, s.height = m.Fit(want.maxWidth, 0)
	for _, each := range layout.Displays {
		if each.Bounds.Intersect(s.area) == s.area {
			s.display, s.scale = each.ID, each.Scale
		}
	}
	t := taken{shown: s, mime: want.mime(), at: frame.At}
	if had, ok := h.frames.get(since); ok && had.same(s) {
		t.id, t.same = had.id, true
		return t, nil
	}
	key := imageKey{area: s.area, epoch: s.epoch, seq: s.seq, width: s.width, cursor: s.cursor, jpeg: want.jpeg}
	if want.jpeg {
		key.quality = want.quality
	}
	if t.data, err = h.images.get(ctx, key, func() []byte { return encode(m, s, want) }); err != nil {
		return taken{}, err
	}
	if len(t.data) > maxBlob {
		return taken{}, capabilities.Errorf(capabilities.CodeResultTooLarge, "The image is larger than %d MiB.", maxBlob>>20).
			WithHint("Give max_width, a region, or format jpeg.")
	}
	t.id = h.frames.keep(s).id
	return t, nil
}

func encode(m picture.Image, s shown, want shot) []byte {
	if s.width != m.Width || s.height != m.Height {
		m = m.Scale(s.width, s.height)
	}
	if want.jpeg {
		return picture.JPEG(m, want.quality)
	}
	return picture.PNG(m)
}

// imageKey tells encoded images apart.
type imageKey struct {
	area       platform.Rect
	epoch, seq uint64
	width      int
	quality    int
	cursor     bool
	jpeg       bool
}

// imageCache keeps the last encoded images. A call that asks for one that is being
// encoded waits for it, and one at a time is encoded: that takes every processor.
type imageCache struct {
	turn chan struct{} // one token

	mu   sync.Mutex
	list []encoded // the last used first
}

type encoded struct {
	key  imageKey
	data []byte
}

func newImageCache() *imageCache {
	c := &imageCache{turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

func (c *imageCache) get(ctx context.Context, key imageKey, encode func() []byte) ([]byte, error) {
	if data := c.find(key); data != nil {
		return data, nil
	}
	select {
	case <-c.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { c.turn <- struct{}{} }()
	if data := c.find(key); data != nil {
		return data, nil
	}
	data := encode()
	c.put(encoded{key, data})
	return data, nil
}

func (c *imageCache) find(key imageKey) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.list, func(m encoded) bool { return m.key == key })
	if i < 0 {
		return nil
	}
	m := c.list[i]
	c.list = slices.Insert(slices.Delete(c.list, i, i+1), 0, m)
	return m.data
}

func (c *imageCache) put(m encoded) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.Insert(c.list, 0, m)
	size := 0
	for i, each := range c.list {
		if size += len(each.data); i == keptImages || size > keptBytes {
			c.list = slices.Delete(c.list, i, len(c.list))
			return
		}
	}
}
