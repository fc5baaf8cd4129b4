package browser

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// Where a tab is, by Chrome's word.

// askLocation returns the tab's address and title from the browser process: it answers
// even while the page hangs, and a page cannot forge it.
func (t *tab) askLocation(ctx context.Context) devtools.Reply[page.GetNavigationHistoryResult] {
	return devtools.Start(ctx, t.s, page.GetNavigationHistory, cdp.Empty{})
}

// locationOf waits for the answer of askLocation, and asks again, bounded, while that is not
// the answer yet: while one document replaces another Chrome refuses; and the page's
// process tells of its new document before the browser's own has taken it in, and
// would still name the one before.
func (t *tab) locationOf(ctx context.Context, first devtools.Reply[page.GetNavigationHistoryResult]) (url, title string, err error) {
	h, err := first.Get(ctx)
	for began := time.Now(); (swapping(err) || err == nil && t.behind(h)) && time.Since(began) < boundToCome; {
		if !t.nextChange(ctx) {
			return "", "", ctx.Err()
		}
		h, err = t.askLocation(ctx).Get(ctx)
	}
	if err == nil {
		t.mu.Lock()
		h.CurrentIndex = t.shownLocked(h)
		t.placed = placed{addressIn(h), t.state.documents, t.state.inPage}
		t.mu.Unlock()
	}
	url, title = place(h)
	return t.host.fileAddress(url), title, err
}

// shownLocked returns the entry of the document that is shown: while one of the history is
// on its way, or the page is asked whether it may be left for it, Chrome names that one.
func (t *tab) shownLocked(h page.GetNavigationHistoryResult) int64 {
	told := record.WithoutUser(t.state.url)
	leaving := t.state.open != nil && t.state.open.Type == "beforeunload"
	if t.state.navigating == "" && !leaving || addressIn(h) == told {
		return h.CurrentIndex
	}
	for away := range int64(len(h.Entries)) {
		for _, i := range []int64{h.CurrentIndex + away, h.CurrentIndex - away} {
			if i >= 0 && i < int64(len(h.Entries)) && record.WithoutUser(h.Entries[i].URL) == told {
				return i
			}
		}
	}
	return h.CurrentIndex
}

// nextChange waits for the tab's next change, or a moment, since not all that Chrome
// does is told; it reports whether ctx goes on.
func (t *tab) nextChange(ctx context.Context) bool {
	_, changed := t.look()
	select {
	case <-changed:
	case <-time.After(5 * time.Millisecond):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// behind reports that an answer of where is of before the address the page told last.
func (t *tab) behind(h page.GetNavigationHistoryResult) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	told := t.state.url
	if t.state.failed != "" {
		told = t.state.failed
	}
	told = record.WithoutUser(told)
	now := addressIn(h)
	heard := t.state.documents != t.placed.documents || t.state.inPage != t.placed.inPage
	return heard && now != told && (now == "" || now == t.placed.url)
}

func swapping(err error) bool {
	var refused *devtools.ProtocolError
	return errors.As(err, &refused) && strings.Contains(refused.Message, "Not attached to an active page")
}

// place reads the answer of where, as hider.place is to have it.
func place(h page.GetNavigationHistoryResult) (url, title string) {
	url = addressIn(h)
	if i := int(h.CurrentIndex); i >= 0 && i < len(h.Entries) {
		title = h.Entries[i].Title
	}
	return clipText(url, maxURL+record.Slack), clipText(title, maxTitle+record.Slack)
}

// addressIn is the address of the entry that is shown; empty for none. The history keeps
// the user name and password that an address was opened with; the page does not tell them
// when it is asked for its address, and nobody here does.
func addressIn(h page.GetNavigationHistoryResult) string {
	if i := int(h.CurrentIndex); i >= 0 && i < len(h.Entries) {
		return record.WithoutUser(h.Entries[i].URL)
	}
	return ""
}

// Bounds of what a page may put into an address or title of a result.
const (
	maxURL   = 32 << 10
	maxTitle = 1000
)
