package browser

import (
	"context"
	"time"

	"github.com/chromedp/cdproto/target"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// host is what a tab needs of the place that it is in. The tab's files (doc.go lists them) reach a
// lane, a Chrome and the handler by nothing else, so that they lock and read nothing of theirs.
type host interface {
	// A session is prepared before its target runs: guard queues the rules that its requests go by,
	// emulate the sight that it has (top: it is the tab's own), and holdIfPaused has a stop hold it.
	guard(ctx context.Context, s *devtools.Session) []*devtools.Pending
	emulate(ctx context.Context, s *devtools.Session, top bool) []*devtools.Pending
	holdIfPaused(ctx context.Context, s *devtools.Session)

	// run runs f on a goroutine that the handler waits for when it closes.
	run(f func())
	// close queues the closing of the tab.
	close(ctx context.Context)
	// closeUnread ends the tab, since it shows what it must not.
	closeUnread(why error)
	// forbids returns why a document of that address is not to be read, nil if it may be.
	forbids(address string) error
	// attached reports whether the tab is in a person's own Chrome.
	attached() bool

	// A tab tells these, on the reading goroutine.
	visited(origin string)
	sawRequest(address string)
	paused(s *devtools.Session, params []byte)
	downloadBegan(params []byte)

	// acting is the latest call that could have a page ask for something; nil: there was none.
	acting() *observer
	// blockedWhy returns why the way out did not connect since then; nil: it is not known to have
	// refused.
	blockedWhy(address string, since time.Time) error
	// hider hides what was typed in secret; nil: nothing was.
	hider() *hider
	// fileAddress returns a served file's address as callers name it, and any other as it is.
	fileAddress(shown string) string
	// takeFrame returns a document of a frame its number, which is part of its refs.
	takeFrame() int
}

// laneTab is a tab where it is: among a lane's tabs, in a Chrome.
type laneTab struct {
	*tab
	lane   *lane
	chrome *chrome
}

var _ host = (*laneTab)(nil)

func newLaneTab(l *lane, c *chrome, id, opener target.ID) *laneTab {
	t := &laneTab{tab: newTab(c.Conn, id, opener), lane: l, chrome: c}
	t.host = t
	return t
}

func (t *laneTab) guard(ctx context.Context, s *devtools.Session) []*devtools.Pending {
	return append(t.chrome.guardGateway(ctx, s), t.lane.askByRules(ctx, s)...)
}

func (t *laneTab) emulate(ctx context.Context, s *devtools.Session, top bool) []*devtools.Pending {
	return t.lane.emulate(ctx, s, top)
}

func (t *laneTab) holdIfPaused(ctx context.Context, s *devtools.Session) {
	t.chrome.h.chromium.HoldIfPaused(ctx, s)
}

func (t *laneTab) run(f func()) { t.chrome.h.wg.Go(f) }

func (t *laneTab) close(ctx context.Context) {
	devtools.Start(ctx, t.chrome.Root, target.CloseTarget, target.CloseTargetParams{TargetID: t.id})
}

func (t *laneTab) attached() bool { return t.chrome.Attached }

func (t *laneTab) visited(origin string) { t.lane.visited(origin) }

func (t *laneTab) acting() *observer { return t.lane.acting() }

func (t *laneTab) blockedWhy(address string, since time.Time) error {
	return t.lane.blockedWhy(address, since)
}

func (t *laneTab) hider() *hider { return t.lane.hider() }

func (t *laneTab) fileAddress(shown string) string { return t.lane.fileAddress(shown) }

func (t *laneTab) takeFrame() int { return t.lane.takeFrame() }
