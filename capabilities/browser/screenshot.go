package browser

import (
	"bytes"
	"encoding/base64"
	"image"
	_ "image/jpeg" // to read the size of what Chrome gives
	_ "image/png"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"github.com/handrail-dev/handrail/capabilities"
)

// maxPixels bounds one image: Chrome's own limit for a surface's side, and what
// fits the blob limit.
const (
	maxSide = 16384
	maxBlob = 32 << 20
)

// screenshot carries out tyrum.browser.screenshot.
func screenshot(c *call) (capabilities.Output, error) {
	args := struct {
		Ref      string `json:"ref"`
		Selector string `json:"selector"`
		FullPage bool   `json:"full_page"`
		Format   string `json:"format"`
		Quality  int64  `json:"quality"`
	}{Format: "png", Quality: 80}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	p := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormat(args.Format), OptimizeForSpeed: ptr(true)}
	if args.Format == "jpeg" {
		p.Quality = &args.Quality
	}
	switch {
	case args.Ref != "" || args.Selector != "":
		_, at, err := c.aim(aimArgs{Ref: args.Ref, Selector: args.Selector, Kind: "rect"})
		if err != nil {
			return capabilities.Output{}, err
		}
		if at.Width < 1 || at.Height < 1 {
			return capabilities.Output{}, capabilities.Errorf(capabilities.CodeElementNotFound, "The element has no area to show.").
				WithHint("Choose another element, or take the viewport.")
		}
		p.Clip = &page.Viewport{X: at.X, Y: at.Y, Width: min(at.Width, maxSide), Height: min(at.Height, maxSide), Scale: 1}
		p.CaptureBeyondViewport = ptr(true)
	case args.FullPage:
		m, err := do(c.ctx, c.tab.s, page.GetLayoutMetrics, cdp.Empty{})
		if err != nil {
			return capabilities.Output{}, err
		}
		if m.CSSContentSize != nil {
			p.Clip = &page.Viewport{Width: min(m.CSSContentSize.Width, maxSide), Height: min(m.CSSContentSize.Height, maxSide), Scale: 1}
			p.CaptureBeyondViewport = ptr(true)
		}
	}
	shot := start(c.ctx, c.tab.s, page.CaptureScreenshot, p)
	url, _, err := c.tab.placeOf(c.ctx, c.tab.where(c.ctx))
	if err != nil {
		return capabilities.Output{}, err
	}
	raw, err := shot.wait(c.ctx)
	if err != nil {
		return capabilities.Output{}, err
	}
	data, err := imageBytes(raw)
	if err != nil {
		return capabilities.Output{}, err
	}
	size, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The browser gave no readable image.").
			WithHint("Try again, or take a smaller part.")
	}
	result := struct {
		MIME   string `json:"mime"`
		Width  int    `json:"width"`
		Height int    `json:"height"`
		URL    string `json:"url,omitempty"`
	}{"image/" + args.Format, size.Width, size.Height, url}
	return capabilities.Output{
		Result: result, Untrusted: true,
		Blobs: []capabilities.Blob{{Field: "bytesBase64", MIME: result.MIME, Bytes: data}},
	}, nil
}

// imageBytes takes the image out of the raw answer in one pass.
func imageBytes(raw []byte) (out []byte, err error) {
	err = scanObject(raw, func(key string, value []byte) error {
		if key != "data" || len(value) < 2 {
			return nil
		}
		encoded := value[1 : len(value)-1]
		if base64.StdEncoding.DecodedLen(len(encoded)) > maxBlob {
			return capabilities.Errorf(capabilities.CodeResultTooLarge, "The image is larger than %d MiB.", maxBlob>>20).
				WithHint("Take one element or the viewport, or use jpeg.")
		}
		out = make([]byte, base64.StdEncoding.DecodedLen(len(encoded)))
		n, err := base64.StdEncoding.Decode(out, encoded)
		out = out[:n]
		return err
	})
	if err == nil && len(out) == 0 {
		err = errMessage
	}
	return out, err
}
