package browser

import (
	"github.com/chromedp/cdproto/cdp"

	"github.com/handrail-dev/handrail/capabilities"
)

var _ capabilities.Shower = (*Handler)(nil)

// pastedPage is a page that somebody pasted into, as long as its tab shows it.
type pastedPage struct {
	tab    *laneTab
	loader cdp.LoaderID
}

// Here reports whether the tab still shows that page.
func (d pastedPage) Here() bool {
	return d.tab.life.Err() == nil && d.tab.shownLoader() == d.loader
}

// OnScreen reports whether the page is in a window of the desktop.
func (d pastedPage) OnScreen() bool { return !d.tab.chrome.Headless }

// shownPage is the page that the call works with.
func (c *call) shownPage() capabilities.Place {
	return pastedPage{c.tab, c.tab.shownLoader()}
}

// Shows reports whether a lane can look at p: its own tabs can reach each other, and what
// was pasted into a window of the desktop may be its browser's if it has or had one. A
// headless Chrome has a clipboard of its own, so nothing of the device's is ever in it.
func (h *Handler) Shows(id capabilities.LaneID, p capabilities.Place) bool {
	d, ours := p.(pastedPage)
	if ours {
		return d.tab.lane.id == id
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.windowed[id]
}

// windows notes that a lane has pages in windows of the desktop, or takes up what such pages
// may have kept. It stays so until the gateway ends the lane, whatever becomes of its browser:
// until then the lane may have got what lay in the device's clipboard.
func (h *Handler) windows(l *lane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lanes[l.id] == l { // else it has ended meanwhile
		h.windowed[l.id] = true
	}
}
