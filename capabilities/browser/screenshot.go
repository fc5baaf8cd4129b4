package browser

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	_ "image/jpeg" // to read the size of what Chrome returns
	_ "image/png"
	"math"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// Bounds of one image: Chrome's own limit for a surface's side, what a picture may
// hold of pixels, and what fits the blob limit.
const (
	maxSide   = 16384
	maxPixels = 64 << 20
	maxBlob   = 32 << 20
)

type shotArgs struct {
	Ref      string `json:"ref"`
	Selector string `json:"selector"`
	FullPage bool   `json:"full_page"`
	Format   string `json:"format"`
	Quality  int64  `json:"quality"`
	Clip     *struct {
		X      float64 `json:"x"`
		Y      float64 `json:"y"`
		Width  float64 `json:"width"`
		Height float64 `json:"height"`
	} `json:"clip"`
	Scale    float64 `json:"scale"`
	Annotate bool    `json:"annotate"`
	KeepAs   string  `json:"keep_as"`
}

// bounds are those of one picture.
type bounds struct {
	side  int // pixels
	bytes int
	tall  float64 // of a full page, in its pixels; 0: no bound
}

// A model takes no picture with a longer side, nor one of more than 5 MB, which are counted
// in base64.
var forModels = bounds{side: 8000, bytes: 5_000_000 / 4 * 3}

var forFiles = bounds{side: maxSide, bytes: maxBlob}

// screenshot carries out tyrum.browser.screenshot: the viewport, a part of it, an
// element, or the whole page. A clip is in the pixels that clicks by x and y use;
// with full_page it is in those of the page. A picture that is too large for a model comes
// smaller, of a whole page as much as fits, and the result says so; one that is kept as a
// file does not come at all.
func screenshot(c *call) (capabilities.Output, error) {
	args := shotArgs{Format: "png", Quality: 80, Scale: 1}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if args.Annotate && args.Format == "webp" {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "An annotated image cannot be webp.").
			WithHint("Use png or jpeg.")
	}
	if err := c.keeps(args.KeepAs); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	b, asked := forModels, args.Scale
	if args.KeepAs != "" {
		b = forFiles
	}
	var s shot
	for tries := 0; ; tries++ {
		var err error
		if s, err = c.shoot(args, b); err != nil {
			return capabilities.Output{}, err
		}
		side, size := max(s.Width, s.Height), len(s.data)
		if side <= b.side && size <= b.bytes {
			break
		}
		if tries == 8 {
			return capabilities.Output{}, errImageTooLarge
		}
		share := 0.9 * float64(b.bytes) / float64(size) // of the pixels
		if tall := math.Floor(s.part.Height * share); args.FullPage && side <= b.side && tall >= s.viewHeight {
			b.tall = tall // a tile that can be read, rather than a whole that cannot
			continue
		}
		args.Scale = s.scale * min(1, float64(b.side)/float64(side), math.Sqrt(share))
	}
	var told []string
	if args.KeepAs == "" && s.scale < asked {
		s.Scale = math.Round(s.scale*1e4) / 1e4
		told = append(told, fmt.Sprintf(
			"the picture is smaller than asked, at scale %g: a model takes %d pixels on a side and 5 MB; keep_as keeps it whole", s.Scale, b.side))
	}
	if s.LeftOut != nil {
		told = append(told, fmt.Sprintf("the page goes on: clip from y %g on shows the rest", s.LeftOut.Y))
	}
	out := capabilities.Output{Result: s.shotResult, Evidence: strings.Join(told, "; "), Untrusted: true}
	if args.KeepAs != "" {
		return out, c.keep(&out, args.KeepAs, s.MIME, bytes.NewReader(s.data))
	}
	out.Blobs = []capabilities.Blob{{Field: "bytesBase64", MIME: s.MIME, Bytes: s.data}}
	return out, nil
}

// shot is one picture that was taken.
type shot struct {
	shotResult
	data       []byte
	part       page.Viewport // what it shows, in the viewport's coordinates
	viewHeight float64
	scale      float64
}

// shoot takes one picture.
func (c *call) shoot(args shotArgs, b bounds) (s shot, err error) {
	p := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormat(args.Format), OptimizeForSpeed: ptr(true)}
	if args.Format != "png" {
		p.Quality = &args.Quality
	}
	if err := c.frameShot(args, b, &s, &p); err != nil {
		return s, err
	}
	var marks []mark
	if args.Annotate {
		if marks, err = c.marks(); err != nil {
			return s, err
		}
		p.Format, p.Quality = "png", nil // it is encoded anew
	}
	c.framesPainted()
	taken := devtools.Start(c.ctx, c.tab.s, page.CaptureScreenshot, p)
	if s.URL, _, err = c.tab.locationOf(c.ctx, c.tab.askLocation(c.ctx)); err != nil {
		return s, err
	}
	image, err := taken.Get(c.ctx)
	switch {
	case err != nil:
		return s, err
	case len(image.Data) == 0:
		return s, devtools.ErrMessage
	case len(image.Data) > maxBlob:
		return s, errImageTooLarge
	}
	s.data = image.Data
	s.MIME = "image/" + args.Format
	if args.Annotate {
		if s.data, s.Legend, err = annotate(s.data, s.part, marks, args); err != nil {
			return s, err
		}
	}
	size, ok := imageSize(s.data)
	if !ok {
		return s, capabilities.Errorf(capabilities.CodeExecutionFailed, "The browser returned no readable image.").
			WithHint("Try again, or take a smaller part.")
	}
	s.Width, s.Height = size.X, size.Y
	return s, nil
}

// paintWait bounds what a picture waits for frames of other processes.
const paintWait = 300 * time.Millisecond

// painted holds once a young document was shown for the first time. One that shows
// nothing, or is out of sight, is not waited for when it has had its time.
const painted = `performance.now() > 2000 || performance.getEntriesByType("paint").length > 0 || new Promise((done) => {
	new PerformanceObserver(() => done(true)).observe({type: "paint", buffered: true});
	setTimeout(done, 250);
})`

// framesPainted waits for the frames of other processes that have just come: Chrome
// takes the picture of the page when the page's own process has drawn, and leaves them
// white.
func (c *call) framesPainted() {
	frames := c.tab.unpainted()
	if len(frames) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, paintWait)
	defer cancel()
	asked := make([]devtools.Reply[runtime.EvaluateResult], 0, len(frames))
	for _, f := range frames {
		asked = append(asked,
			devtools.Start(ctx, f.Session, runtime.Evaluate,
				runtime.EvaluateParams{Expression: painted, AwaitPromise: ptr(true), ReturnByValue: ptr(true)}))
	}
	for i, a := range asked {
		if _, err := a.Get(ctx); err == nil { // a frame that is gone, or says nothing, is none to wait for
			c.tab.sawPainted(frames[i])
		}
	}
}

type shotResult struct {
	MIME   string        `json:"mime"`
	Width  int           `json:"width"`
	Height int           `json:"height"`
	URL    string        `json:"url,omitempty"`
	Legend []legendEntry `json:"legend,omitempty"`
	// LeftOut is what of a full page did not fit into one image.
	LeftOut *leftOut `json:"left_out,omitempty"`
	// Scale is the one it was taken at, where that is smaller than the asked one.
	Scale float64 `json:"scale,omitempty"`
}

// leftOut is a part of the page, over its whole width, in the page's pixels: a clip
// from there on returns the next image.
type leftOut struct {
	Y      float64 `json:"y"`
	Height float64 `json:"height"`
}

// frameShot sets what part of the page is taken and at which scale, so that it is within
// the bounds. The plain viewport needs no question.
func (c *call) frameShot(args shotArgs, b bounds, s *shot, p *page.CaptureScreenshotParams) (err error) {
	s.scale = args.Scale
	element := args.Ref != "" || args.Selector != ""
	if !element && !args.FullPage && args.Clip == nil && args.Scale == 1 && !args.Annotate {
		return nil
	}
	var at aimed
	if element {
		if _, at, err = c.aim(aimArgs{Ref: args.Ref, Selector: args.Selector, Kind: "rect"}); err != nil {
			return err
		}
		if at.Width < 1 || at.Height < 1 {
			return capabilities.Errorf(capabilities.CodeElementNotFound, "The element has no area to show.").
				WithHint("Choose another element, or take the viewport.")
		}
	}
	m, err := devtools.Do(c.ctx, c.tab.s, page.GetLayoutMetrics, cdp.Empty{})
	if err != nil {
		return err
	}
	if m.CSSVisualViewport == nil || m.CSSContentSize == nil {
		return devtools.ErrMessage
	}
	view := page.Viewport{
		X: m.CSSVisualViewport.PageX, Y: m.CSSVisualViewport.PageY, Width: m.CSSVisualViewport.ClientWidth,
		Height: m.CSSVisualViewport.ClientHeight,
	}
	part := view
	switch {
	case element:
		part = page.Viewport{X: at.X, Y: at.Y, Width: at.Width, Height: at.Height}
	case args.FullPage:
		part = page.Viewport{Width: m.CSSContentSize.Width, Height: m.CSSContentSize.Height}
	}
	if k := args.Clip; k != nil {
		whole := part
		part = page.Viewport{X: whole.X + k.X, Y: whole.Y + k.Y, Width: k.Width, Height: k.Height}
		right, bottom := min(part.X+part.Width, whole.X+whole.Width), min(part.Y+part.Height, whole.Y+whole.Height)
		part.X, part.Y = max(part.X, whole.X), max(part.Y, whole.Y)
		part.Width, part.Height = right-part.X, bottom-part.Y
		if part.Width < 1 || part.Height < 1 {
			return capabilities.Errorf(capabilities.CodeInvalidArguments, "The clip holds nothing: there are %.0f by %.0f pixels.", whole.Width,
				whole.Height).
				WithHint("Give x, y, width and height within them; with full_page, of the whole page.")
		}
	}
	c.lane.mu.Lock()
	ratio := c.lane.emulated.Scale
	c.lane.mu.Unlock()
	device := 1.0
	if ratio != nil {
		device = *ratio
	}
	side := float64(b.side) / device // in pixels of the scale
	if args.FullPage {
		s.scale = min(s.scale, side/part.Width)
		most := math.Floor(min(side, maxPixels/(part.Width*s.scale*device*device)) / s.scale)
		if b.tall > 0 {
			most = min(most, b.tall)
		}
		if part.Height > most {
			s.LeftOut = &leftOut{Y: part.Y + most, Height: math.Ceil(part.Height - most)}
			part.Height = most
		}
	} else {
		s.scale = min(s.scale, side/max(part.Width, part.Height), math.Sqrt(maxPixels/(part.Width*part.Height))/device)
	}
	part.Scale = s.scale
	p.Clip = &part
	// A part in view is taken as it is; only for the rest the page is laid out anew.
	beyond := part.X < view.X || part.Y < view.Y || part.X+part.Width > view.X+view.Width+1 || part.Y+part.Height > view.Y+view.Height+1
	p.CaptureBeyondViewport = ptr(beyond)
	s.part = page.Viewport{X: part.X - view.X, Y: part.Y - view.Y, Width: part.Width, Height: part.Height}
	s.viewHeight = view.Height
	return nil
}

var errImageTooLarge = capabilities.Errorf(capabilities.CodeResultTooLarge, "The image is larger than %d MiB.", maxBlob>>20).
	WithHint("Take one element or the viewport, give a smaller scale, or use jpeg.")

// imageSize reads the size from an image's head.
func imageSize(data []byte) (image.Point, bool) {
	if c, _, err := image.DecodeConfig(bytes.NewReader(data)); err == nil {
		return image.Point{X: c.Width, Y: c.Height}, true
	}
	return webpSize(data)
}

// webpSize reads the first chunk of a WebP file:
//
//	"RIFF" size "WEBP" | "VP8X" size flags(4) width-1(3) height-1(3)
//	                   | "VP8L" size 0x2f, then 14 bits width-1, 14 bits height-1
//	                   | "VP8 " size frame(3) 9d 01 2a width(2) height(2), 14 bits each
func webpSize(b []byte) (image.Point, bool) {
	if len(b) < 30 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WEBP" {
		return image.Point{}, false
	}
	three := func(p []byte) int { return int(p[0]) | int(p[1])<<8 | int(p[2])<<16 }
	switch string(b[12:16]) {
	case "VP8X":
		return image.Point{X: three(b[24:]) + 1, Y: three(b[27:]) + 1}, true
	case "VP8L":
		bits := binary.LittleEndian.Uint32(b[21:])
		return image.Point{X: int(bits&0x3fff) + 1, Y: int(bits>>14&0x3fff) + 1}, b[20] == 0x2f
	case "VP8 ":
		return image.Point{X: int(binary.LittleEndian.Uint16(b[26:]) & 0x3fff), Y: int(binary.LittleEndian.Uint16(b[28:]) & 0x3fff)}, true
	}
	return image.Point{}, false
}
