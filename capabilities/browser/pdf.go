package browser

import (
	"fmt"
	"io"

	cdpio "github.com/chromedp/cdproto/io"
	"github.com/chromedp/cdproto/page"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// maxPDF bounds one file.
const maxPDF = 64 << 20

// papers are sizes in inches.
var papers = map[string][2]float64{
	"a3": {11.69, 16.54}, "a4": {8.27, 11.69}, "a5": {5.83, 8.27}, "letter": {8.5, 11}, "legal": {8.5, 14}, "tabloid": {11, 17},
}

// pdf carries out tyrum.browser.pdf: the page as it prints, kept as an artifact.
func pdf(c *call) (capabilities.Output, error) {
	args := struct {
		KeepAs     string  `json:"keep_as"`
		Paper      string  `json:"paper"`
		Landscape  bool    `json:"landscape"`
		Background bool    `json:"background"`
		Scale      float64 `json:"scale"`
		Pages      string  `json:"pages"`
		CSSSize    bool    `json:"css_page_size"`
	}{KeepAs: "page.pdf", Paper: "a4", Background: true, Scale: 1}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.keeps(args.KeepAs); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	paper := papers[args.Paper]
	made, err := devtools.Do(c.ctx, c.tab.s, page.PrintToPDF, page.PrintToPDFParams{
		Landscape: &args.Landscape, PrintBackground: &args.Background, Scale: args.Scale, PaperWidth: paper[0], PaperHeight: paper[1],
		PageRanges: args.Pages, PreferCSSPageSize: &args.CSSSize, TransferMode: page.PrintToPDFTransferModeReturnAsStream,
	})
	if err != nil {
		return capabilities.Output{}, notPrinted(c, err)
	}
	defer devtools.Start(c.outer, c.tab.s, cdpio.Close, cdpio.CloseParams{Handle: made.Stream})
	file := &counting{from: &printedStream{c: c, handle: made.Stream}}
	var out capabilities.Output
	if err := c.keep(&out, args.KeepAs, "application/pdf", file); err != nil {
		return capabilities.Output{}, err
	}
	address, title, err := c.tab.locationOf(c.ctx, c.tab.askLocation(c.ctx))
	if err != nil {
		return capabilities.Output{}, err
	}
	out.Result = struct {
		URL   string `json:"url"`
		Title string `json:"title,omitempty"`
		Bytes int64  `json:"file_bytes"`
	}{record.PlainURL(address), clipText(title, 300), file.n}
	out.Untrusted = true
	return out, nil
}

// notPrinted words why Chrome printed nothing.
func notPrinted(c *call, err error) error {
	if c.ctx.Err() != nil {
		return err
	}
	return capabilities.Wrap(capabilities.CodeExecutionFailed, err, "Chrome did not print the page.").
		WithHint("See that pages names pages that there are, such as 1-3, and that the paper is not smaller than its margins.")
}

// printedStream reads what Chrome printed, part by part.
type printedStream struct {
	c      *call
	handle cdpio.StreamHandle
	part   []byte
	eof    bool
}

// Read implements io.Reader.
func (s *printedStream) Read(into []byte) (int, error) {
	for len(s.part) == 0 {
		if s.eof {
			return 0, io.EOF
		}
		res, err := devtools.Do(s.c.ctx, s.c.tab.s, cdpio.Read, cdpio.ReadParams{Handle: s.handle, Size: 512 << 10})
		if err != nil {
			return 0, err
		}
		s.eof, s.part = res.EOF, res.Data
	}
	n := copy(into, s.part)
	s.part = s.part[n:]
	return n, nil
}

// counting counts what is read, and ends what is too large.
type counting struct {
	from io.Reader
	n    int64
}

// Read implements io.Reader.
func (r *counting) Read(into []byte) (int, error) {
	n, err := r.from.Read(into)
	if r.n += int64(n); r.n > maxPDF {
		return n, capabilities.Errorf(capabilities.CodeResultTooLarge, "The printed page is larger than %d MiB.", maxPDF>>20).
			WithHint(fmt.Sprintf("Print a part of it: pages, such as %q.", "1-20"))
	}
	return n, err
}
