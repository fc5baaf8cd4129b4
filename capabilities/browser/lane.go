package browser

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/outline"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// lane is one conversation's browser context: its own cookies, cache, tabs,
// refs and way out to the network. Nothing in it is shared with another lane.
type lane struct {
	h    *Handler
	id   capabilities.LaneID
	turn chan struct{} // one token: whose call it is

	mu       sync.Mutex
	used     time.Time // when a call last came or went
	ended    bool
	way      way
	chrome   *chrome // nil: no context yet
	context  cdp.BrowserContextID
	egress   *egress.Proxy
	files    *folders       // that egress serves; nil: none
	hosts    egress.Domains // what the latest call's grants leave of the network; nil: all
	tabs     []*laneTab     // in the order of their opening
	active   *laneTab
	lost     error          // pages were lost and no call has said so yet
	toldOf   *chrome        // whose end a call has told its caller
	frames   int            // documents of frames that got a prefix for their refs
	shots    int            // snapshots that got an ID
	memory   outline.Memory // of the snapshots that were given
	nextRef  int            // refs are never used twice in a lane, whatever the tab or page
	retired  bool           // closed by its own close tool: a later call opens a new one
	typed    typedSecrets
	copied   string // by key, for its own pasting; see clipboard.go
	uploads  int    // batches of files that were copied for its pages
	uploaded int64  // their bytes
	observer *observer
	cause    *observer   // of the latest call that could have a page leave a file; it may have ended
	late     []lateFile  // whose call had ended
	origins  []string    // whose documents it had, for its storage state
	unseen   [][2]string // what happened while no call was there to be told

	downloads downloads
	rules     laneRules // of its network; outlive Chrome
	emulated  emulated  // what the lane's pages see; outlives Chrome
}

func newLane(h *Handler, id capabilities.LaneID) *lane {
	return &lane{h: h, id: id, turn: make(chan struct{}, 1), way: way{headless: true}, nextRef: 1, used: time.Now()}
}

// enter waits for the lane's turn; leave passes it on.
func (l *lane) enter(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		l.touch()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *lane) leave() {
	l.touch()
	<-l.turn
}

// touch notes that the lane is in use.
func (l *lane) touch() {
	l.mu.Lock()
	l.used = time.Now()
	l.mu.Unlock()
}

// lastUse is when a call last came or went.
func (l *lane) lastUse() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used
}

// narrow sets where the lane's pages may go from now on: what its latest call was
// granted, nil for no bound of its own.
func (l *lane) narrow(hosts egress.Domains) error {
	l.mu.Lock()
	if hosts != nil && l.way.attach {
		l.mu.Unlock()
		return capabilities.Errorf(capabilities.CodeIsolationUnavailable,
			"Policy grants this call some hosts only, which cannot be held in a person's Chrome.").
			WithHint("Close this browser and launch without attach.")
	}
	same := slices.Equal(l.hosts, hosts) && (l.hosts == nil) == (hosts == nil)
	l.hosts = hosts
	out := l.egress
	l.mu.Unlock()
	if !same && hosts != nil && out != nil {
		out.Cut()
	}
	return nil
}

func (l *lane) granted() egress.Domains {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hosts
}

// ready returns the lane's Chrome and context, made where they are missing.
func (l *lane) ready(ctx context.Context) (*chrome, error) {
	l.mu.Lock()
	c, way, ended := l.chrome, l.way, l.ended
	l.mu.Unlock()
	if ended {
		return nil, errLaneClosed
	}
	if c != nil && c.Alive() {
		return c, nil
	}
	if c != nil {
		l.lostChrome(c)
	}
	switch {
	case way.attach:
		return l.attached(ctx)
	case way.profile != "":
		return l.withProfile(ctx, way)
	}
	c, err := l.h.chrome(ctx, way.headless)
	if err != nil {
		return nil, err
	}
	out, err := l.openEgress()
	if err != nil {
		return nil, err
	}
	out.Use(c.Program)
	made, err := devtools.Do(ctx, c.Root, target.CreateBrowserContext, target.CreateBrowserContextParams{
		DisposeOnDetach: ptr(true),
		ProxyServer:     "http://" + out.Addr(),
		ProxyBypassList: "<-loopback>", // even loopback goes by the proxy
	})
	if err != nil {
		out.Close()
		return nil, err
	}
	id := made.BrowserContextID
	// Registered before its first page arrives.
	c.mu.Lock()
	c.contexts[id] = l
	c.mu.Unlock()
	if !c.Headless {
		l.h.windows(l)
	}
	l.mu.Lock()
	ended = l.ended
	if !ended {
		l.chrome, l.context, l.egress = c, id, out
	}
	emulated := l.emulated
	out.SetOffline(emulated.isOffline())
	l.mu.Unlock()
	if ended {
		l.dispose(c, id, out)
		return nil, errLaneClosed
	}
	if err := emulated.grantGeolocation(ctx, c, id); err != nil {
		return nil, err
	}
	if err := l.h.keptBack(ctx, c, id); err != nil {
		return nil, err
	}
	return c, l.allowDownloads(ctx, c, id)
}

// openEgress opens the lane's way out; which Chrome it is for is said to it later.
func (l *lane) openEgress() (*egress.Proxy, error) {
	out, err := egress.New(l.h.rules, l.h.log, l.sawHost, l.granted)
	if err == nil && l.h.rules.File != nil {
		files := l.newFolders()
		out.ServeFiles(files.serve)
		l.mu.Lock()
		l.files = files
		l.mu.Unlock()
	}
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The node could not open the browser's way to the network.").
			WithAction(capabilities.Action{
				Key: capabilities.ActionExamineNode,
			}, "Try again; if it stays so, a person has to see what is wrong on the node.")
	}
	return out, nil
}

// current returns the active tab, opened where there is none. If pages were lost
// since the last call (a crash), it says so once, unless fresh is set: then the
// caller replaces the page anyway.
func (l *lane) current(ctx context.Context, fresh bool) (*laneTab, error) {
	if lost := l.takeLost(); lost != nil && !fresh {
		return nil, lost
	}
	c, err := l.ready(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	t := l.active
	l.mu.Unlock()
	if t == nil {
		return l.open(ctx, c)
	}
	if t.isCrashed() {
		// The dead tab makes room for a new one in its place.
		l.remove(t)
		devtools.Start(ctx, c.Root, target.CloseTarget, target.CloseTargetParams{TargetID: t.id})
		if reported := t.reportCrash(); !reported && !fresh {
			return nil, errTabCrashed
		}
		return l.current(ctx, fresh)
	}
	bounded, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	_, err = c.awaitTab(bounded, t.id)
	switch late := ctx.Err() == nil && bounded.Err() != nil; {
	case err == nil || fresh && late:
		return t, nil // Chrome opens another address in it all the same
	case late:
		return nil, errNotShown
	}
	return nil, err
}

// takeLost says, once, that pages were lost.
func (l *lane) takeLost() (lost error) {
	l.mu.Lock()
	c := l.chrome
	l.mu.Unlock()
	if c != nil && !c.Alive() {
		l.lostChrome(c) // the reader may not have come to it yet
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lost, l.lost = l.lost, nil
	return lost
}

// open makes a new tab, which becomes the active one.
func (l *lane) open(ctx context.Context, c *chrome) (*laneTab, error) {
	l.mu.Lock()
	id, full := l.context, len(l.tabs) >= l.h.o.MaxTabs
	l.mu.Unlock()
	if full {
		return nil, l.isFull()
	}
	made, err := devtools.Do(ctx, c.Root, target.CreateTarget, target.CreateTargetParams{URL: "about:blank", BrowserContextID: id})
	if err == nil && c.Attached {
		err = c.attach(ctx, made.TargetID)
	}
	if err != nil {
		return nil, err
	}
	t, err := c.awaitTab(ctx, made.TargetID)
	if err != nil {
		return nil, err
	}
	l.activate(t)
	return t, nil
}

// isFull is the refusal of one tab more.
func (l *lane) isFull() *capabilities.Error {
	return capabilities.Errorf(capabilities.CodeOverloaded, "This conversation already has %d tabs open.", l.h.o.MaxTabs).
		WithHint("Close one with tool.browser.tabs first.")
}

func (l *lane) activate(t *laneTab) {
	l.mu.Lock()
	l.active = t
	l.mu.Unlock()
}

// add takes an arrived tab in; it reports false over the limit.
func (l *lane) add(t *laneTab, max int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || len(l.tabs) >= max {
		return false
	}
	l.tabs = append(l.tabs, t)
	if l.active == nil {
		l.active = t
	}
	return true
}

// remove drops a tab; the one opened last before it becomes active.
func (l *lane) remove(t *laneTab) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.tabs {
		if other != t {
			continue
		}
		l.tabs = append(l.tabs[:i:i], l.tabs[i+1:]...)
		if l.active == t {
			l.active = nil
			if n := len(l.tabs); n > 0 {
				l.active = l.tabs[min(max(i-1, 0), n-1)]
			}
		}
		return
	}
}

// list returns the tabs and the index of the active one, -1 for none.
func (l *lane) list() (tabs []*laneTab, active int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	active = -1
	for i, t := range l.tabs {
		if t == l.active {
			active = i
		}
	}
	return append([]*laneTab(nil), l.tabs...), active
}

// lostChrome notes that Chrome ended under the lane.
func (l *lane) lostChrome(c *chrome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.chrome != c {
		return
	}
	l.lostDownloads(c)
	// One with windows ends with the last of them, as it should.
	if (len(l.tabs) > 0 || c.Headless) && l.toldOf != c {
		l.lost = errBrowserGone
	}
	l.egress.Close()
	l.chrome, l.context, l.egress, l.tabs, l.active = nil, "", nil, nil, nil
	l.uploaded = 0
}

// reported notes that a call tells its caller of a crash, so that the next one
// need not. That of a tab is not that of its browser, which may be to come. No tab
// means that the call had not come to one.
func (l *lane) reported(t *laneTab, e *capabilities.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.chrome
	if t != nil {
		t.reportCrash()
		c = t.chrome
	}
	if e == errBrowserGone || c != nil && !c.Alive() {
		l.lost, l.toldOf = nil, c
	}
}

// reset disposes of the context; the next call makes a new one. gone is closed
// when what has to end with it has ended.
func (l *lane) reset() (gone <-chan struct{}) {
	l.mu.Lock()
	c, id, out, tabs := l.chrome, l.context, l.egress, l.tabs
	l.chrome, l.context, l.egress, l.tabs, l.active, l.lost = nil, "", nil, nil, nil, nil
	l.uploaded = 0
	l.mu.Unlock()
	for _, t := range tabs {
		t.end(errLaneClosed)
	}
	if c != nil {
		return l.dispose(c, id, out)
	}
	return closedChannel
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// dispose ends a context in Chrome, with its pages, cookies and cache. A Chrome
// that is the lane's own ends with it.
func (l *lane) dispose(c *chrome, id cdp.BrowserContextID, out *egress.Proxy) (gone <-chan struct{}) {
	c.mu.Lock()
	delete(c.contexts, id)
	c.mu.Unlock()
	switch {
	case c.Attached:
		c.h.wg.Go(func() { c.leave() })
		return c.Program.Done()
	case c.own:
		c.Depart()
		l.lostDownloads(c)
		out.Close()
		c.h.wg.Go(func() { c.Close() })
		return c.Program.Done()
	}
	disposed := devtools.Start(context.Background(), c.Root, target.DisposeBrowserContext,
		target.DisposeBrowserContextParams{BrowserContextID: id})
	l.dropDownloads(c, id, disposed.Pending)
	out.Close()
	c.unstage(id)
	return closedChannel
}

// end closes the lane for good; a running call ends with errLaneClosed.
func (l *lane) end() (gone <-chan struct{}) {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	return l.reset()
}

// blockedWhy asks the way out why it did not connect.
func (l *lane) blockedWhy(url string, since time.Time) error {
	l.mu.Lock()
	out := l.egress
	l.mu.Unlock()
	if out == nil {
		return nil
	}
	return out.Failure(url, since)
}

// takeFrame returns a document of a frame its number, which is part of its refs.
func (l *lane) takeFrame() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frames++
	return l.frames
}

// takeShot returns a snapshot its ID.
func (l *lane) takeShot() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shots++
	return "s" + strconv.Itoa(l.shots)
}

// takeRefs and putRefs keep the lane's counter of refs.
func (l *lane) takeRefs() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nextRef
}

func (l *lane) putRefs(next int) {
	l.mu.Lock()
	l.nextRef = max(l.nextRef, next)
	l.mu.Unlock()
}
