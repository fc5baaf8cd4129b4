package browser

import (
	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/input"
	cdpio "github.com/chromedp/cdproto/io"
	"github.com/chromedp/cdproto/tracing"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// This file is about notes of calls on a tab, and about things that a page holds ready for one.

// announce notes that a caller is told of the tab; it reports whether one was before.
func (t *tab) announce() (before bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, t.known = t.known, true
	return before
}

// dragIntercepted takes the browser's drag, on the reading goroutine.
func (t *tab) dragIntercepted(params []byte) {
	var e struct {
		Data *input.DragData `json:"data"`
	}
	if jsonv2.Unmarshal(params, &e, jsonv2.AllowInvalidUTF8(true)) == nil && e.Data != nil {
		t.change(func(s *tabState) { s.drag = e.Data })
	}
}

func (t *tab) takeDrag() (d *input.DragData) {
	t.change(func(s *tabState) { d, s.drag = s.drag, nil })
	return d
}

// chooser is a file chooser that a page opened; nobody sees it, and it waits for
// upload-file.
type chooser struct {
	s        *devtools.Session // of the document that opened it
	node     cdp.BackendNodeID
	multiple bool
}

// chooserOpened takes it, on the reading goroutine.
func (t *tab) chooserOpened(by *devtools.Session, params []byte) {
	var e struct {
		Mode string            `json:"mode"`
		Node cdp.BackendNodeID `json:"backendNodeId"`
	}
	if !decodeEvent(params, &e) {
		return
	}
	t.change(func(s *tabState) {
		s.choosers++
		s.chooser = nil
		if e.Node != 0 {
			s.chooser = &chooser{by, e.Node, e.Mode == "selectMultiple"}
		}
	})
}

// traceComplete takes what Chrome says when a trace is complete. It runs on the reading goroutine.
func (t *tab) traceComplete(params []byte) {
	var e tracing.EventTracingComplete
	t.mu.Lock()
	to := t.traced
	t.traced = nil
	t.mu.Unlock()
	if to != nil && decodeEvent(params, &e) {
		to <- e.Stream
	}
}

// isKnown reports whether a caller was told that the tab is there.
func (t *tab) isKnown() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known
}

// traceInto has the tab tell where its trace lies when that is complete; nil: nobody asks.
func (t *tab) traceInto(complete chan<- cdpio.StreamHandle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.traced = complete
}

// holdButtons notes which buttons of the mouse go down or come up, as bits of the protocol, and
// returns those that are down.
func (t *tab) holdButtons(down, up int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buttons = t.buttons&^up | down
	return t.buttons
}
