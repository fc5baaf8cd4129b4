package browser

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/outline"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
	"github.com/handrail-dev/handrail/capabilities/markdown"
)

const (
	// maxRead is how many characters a reading has if its caller says nothing.
	maxRead = 20000
	// maxReadFrames is after how many bytes no further frame is read.
	maxReadFrames = 8 << 20
	maxReadLinks  = 200
)

// readResult is what a page says, as Markdown.
type readResult struct {
	URL     string          `json:"url"`
	Title   string          `json:"title,omitempty"`
	Content string          `json:"content"`
	Total   int             `json:"total_chars"`
	Next    int             `json:"next_index,omitempty"` // where the text goes on; 0: it does not
	Links   []markdown.Link `json:"links,omitempty"`
	Cut     bool            `json:"page_cut,omitempty"` // the page was longer than what is read
}

// readable is what the page script answers.
type readable struct {
	HTML    string `json:"html"`
	URL     string `json:"url"`
	Title   string `json:"title"`
	Base    string `json:"base"`
	Cut     bool   `json:"cut"`
	Foreign int    `json:"foreign"` // frames of other origins, which are left out
	Hid     bool   `json:"hid"`
}

// read carries out tyrum.browser.read: what the page shown says, as Markdown of its main content.
// The page script takes what is shown; the room markdown makes text of it. It has no refs: to act,
// there are snapshots.
func read(c *call) (capabilities.Output, error) {
	args := struct {
		Ref      string `json:"ref"`
		Selector string `json:"selector"`
		Main     bool   `json:"main_content"`
		Start    int    `json:"start_index"`
		Max      int    `json:"max_chars"`
		Links    bool   `json:"links"`
	}{Main: true, Max: maxRead}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	var page readable
	_, err := c.reach(reaching{ref: args.Ref, selector: args.Selector, function: inpage.Readable, into: &page,
		ask: func(known *outline.Former) any {
			return struct {
				Ref      string          `json:"ref,omitempty"`
				Selector string          `json:"selector,omitempty"`
				Was      *outline.Former `json:"was,omitempty"`
				Read     bool            `json:"read"`
			}{args.Ref, args.Selector, known, true}
		}})
	if err != nil {
		return capabilities.Output{}, err
	}
	if page.Hid {
		c.hidIn("content")
	}
	at, err := url.Parse(page.Base)
	if err != nil {
		at = &url.URL{}
	}
	// A part that was asked for is all main content.
	text := markdown.Convert(page.HTML, at, args.Main && args.Ref+args.Selector == "")
	if !args.Main && args.Ref+args.Selector == "" && page.Foreign > 0 {
		page.Foreign -= c.readFrames(&text)
	}
	whole := []rune(c.lane.hider().text(text.Text)) // before it is cut
	from := min(args.Start, len(whole))
	to := min(from+args.Max, len(whole))
	r := readResult{
		URL: record.PlainURL(page.URL), Title: clipText(page.Title, 300), Content: string(whole[from:to]), Total: len(whole),
		Cut: page.Cut || text.Cut,
	}
	if to < len(whole) {
		r.Next = to
	}
	if args.Links {
		r.Links = text.Links
	}
	var told []string
	switch {
	case page.Foreign > 0 && !args.Main && args.Ref+args.Selector == "":
		told = append(told, fmt.Sprintf("%d frames of other origins did not answer", page.Foreign))
	case page.Foreign > 0:
		told = append(told, fmt.Sprintf(
			"%d frames of other origins are left out: main_content false has them, a ref of a snapshot in one reads it", page.Foreign))
	}
	if r.Cut {
		told = append(told, "the page is longer than what is read: a ref or selector reads a part")
	}
	return capabilities.Output{Result: r, Evidence: strings.Join(told, "; "), Untrusted: true}, nil
}

// readFrames puts what the frames of other origins say behind a page's text, each below its
// address, and returns how many of the page's own it read.
func (c *call) readFrames(into *markdown.Page) (direct int) {
	c.tab.everyFrame(c.ctx, func(f *frame) bool {
		var inner readable
		asked := struct {
			Read bool `json:"read"`
		}{true}
		if _, err := c.tab.askFrame(c.ctx, f, inpage.Readable, asked, &inner); err != nil {
			return c.ctx.Err() != nil
		}
		if f.parent == nil {
			direct++
		}
		if inner.Hid {
			c.hidIn("content")
		}
		at, err := url.Parse(inner.Base)
		if err != nil {
			at = &url.URL{}
		}
		if part := markdown.Convert(inner.HTML, at, false); part.Text != "" {
			into.Text += "\n\n---\n\nFrame " + record.PlainURL(inner.URL) + ":\n\n" + part.Text
			into.Links, into.Cut = append(into.Links, part.Links...), into.Cut || part.Cut || inner.Cut
		}
		return len(into.Text) > maxReadFrames
	})
	into.Links = into.Links[:min(len(into.Links), maxReadLinks)]
	return direct
}
