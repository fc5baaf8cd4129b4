package browser

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/inspector"
	cdpio "github.com/chromedp/cdproto/io"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/ready"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// tab is one page. Its events arrive on the connection's reading goroutine and
// change its state; calls wait for changes.
type tab struct {
	host   host
	conn   *devtools.Conn
	id     target.ID // also the ID of its main frame
	opener target.ID
	bound  bool // whose opener asked for an address
	born   time.Time
	s      *devtools.Session
	ready  chan struct{} // closed when it is set up
	// life ends when the tab closes or crashes; its cause says which.
	//lint:ignore containedctx the life of the tab
	life context.Context
	kill context.CancelCauseFunc

	console record.Console
	network *record.Network[sender]

	mu sync.Mutex
	//lint:ignore containedctx the life of the tab between two dialogs
	free     context.Context // ends with life, or when the page opens a dialog; see dialog.go
	block    context.CancelCauseFunc
	armed    *dialogAnswer // to the next dialog, if it was given beforehand
	leaving  bool          // a call leaves the document shown
	asked    time.Time     // when it opened its latest dialog
	patience int           // how many dialogs of it are declined until its scripts are switched off; 0: any number
	buttons  int64         // of the mouse, held down; bits of the protocol
	state    tabState
	changed  chan struct{} // closed and replaced at every change of state
	crashed  bool
	told     bool  // the crash was reported to a caller
	known    bool  // a caller was told that the tab is there
	world    world // of the document shown; zero: not made yet
	frames   frames
	placed   placed
	traced   chan<- cdpio.StreamHandle // takes where its trace lies; nil: none is recorded
}

// placed is what Chrome said of the tab's address when it was last asked, and what
// the page's events had told by then.
type placed struct {
	url               string
	documents, inPage int
}

// tabState is what the tab's events told so far. The counters only grow: who
// acts compares before and after.
type tabState struct {
	loader     cdp.LoaderID // of the document shown
	navigating cdp.LoaderID // of a document on its way, else empty
	domReady   bool
	loaded     bool
	unparsed   int            // which of the documents was waited for in vain to be parsed
	progress   ready.Progress // how far it has come: ready.go
	status     int            // HTTP status of the document shown, 0 if it has none
	url        string         // as the page has it now
	failed     string         // the address that did not load, if an error page is shown instead

	documents      int    // documents that were committed
	frameDocuments int    // documents that were committed in frames
	started        int    // navigations that began
	requested      int    // navigations that a script or link asked for
	outside        bool   // one of them was for another program: Chrome asks about it
	silenced       bool   // it kept a call from leaving it, by dialogs or by going elsewhere: its scripts are off
	inPage         int    // changes of the address without a new document
	inFrame        int    // such changes in frames
	requests       int    // requests made with the click's or key's activation
	opened         int    // tabs it opened
	overLimit      int    // those of them that were closed at once
	asked          string // the address of the latest tab it asked for, until that one is there
	loose          bool   // and it will name no opener
	seeks          int    // addresses that it asked for in a tab or frame of their own
	sought         sought // the latest of them
	downloads      int
	choosers       int // file choosers that a page tried to open
	dialogs        int
	holdsUp        int             // those of them that nobody could answer
	dialog         string          // the latest dialog's type and how it was answered
	open           *dialog         // that waits for an answer
	drag           *input.DragData // that the browser handed over, on its way
	chooser        *chooser        // that waits for files

	statuses map[cdp.LoaderID]int // of documents on their way; at most maxStatuses
	latest   [8]commit            // of the documents that were committed, one after the other
}

// maxStatuses is more documents than a tab has on their way: one, two while one takes
// another's place. The rest are answers that became none, such as a 204.
const maxStatuses = 16

// sought is an address that a page asked for, or that failed, in a new tab or a frame.
type sought struct {
	address string
	tab     bool
}

func (t *tab) seeks(address string, tab bool) {
	t.change(func(s *tabState) {
		s.sought = sought{address, tab}
		s.seeks++
	})
}

func newTab(conn *devtools.Conn, id, opener target.ID) *tab {
	life, kill := context.WithCancelCause(context.Background())
	free, block := context.WithCancelCause(life)
	return &tab{
		conn: conn, id: id, opener: opener, born: time.Now(),
		ready: make(chan struct{}), life: life, kill: kill, free: free, block: block, changed: make(chan struct{}),
		network: record.NewNetwork(string(id), redirected), frames: newFrames(),
		// The first document is about:blank and there at once.
		placed: placed{url: "about:blank"},
		state:  tabState{url: "about:blank", domReady: true, loaded: true, statuses: map[cdp.LoaderID]int{}},
	}
}

// awaitReady waits until the page is set up and runs; it reports whether it came to that.
func (t *tab) awaitReady(ctx context.Context) bool {
	select {
	case <-t.ready:
		return true
	case <-t.life.Done():
	case <-ctx.Done():
	}
	return false
}

// turnAway closes a tab over the limit. It must not be waiting for a debugger then, or the
// page that opened it is held up for good; so it runs first, without scripts or requests.
func (t *tab) turnAway() {
	devtools.Start(t.life, t.s, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	devtools.Start(t.life, t.s, fetch.Enable, fetch.EnableParams{})
	_, _ = devtools.Do(t.life, t.s, runtime.RunIfWaitingForDebugger, cdp.Empty{})
	t.host.close(t.life)
}

// setUp prepares the page and lets it run. All of it is sent at once. A tab that a link
// opened takes most of it in only when its server has answered, however late that is.
func (t *tab) setUp() {
	ctx := t.life
	none := cdp.Empty{}
	steps := []*devtools.Pending{
		t.attachFrames(ctx, t.s),
		devtools.Start(ctx, t.s, page.Enable, page.EnableParams{}).Pending,
		devtools.Start(ctx, t.s, page.SetLifecycleEventsEnabled, page.SetLifecycleEventsEnabledParams{Enabled: true}).Pending,
		record.WatchNetwork(ctx, t.s),
		devtools.Start(ctx, t.s, inspector.Enable, none).Pending,
		// Every tab believes to be in front: background tabs throttle frames.
		devtools.Start(ctx, t.s, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}).Pending,
		// A file chooser would wait for a person.
		devtools.Start(ctx, t.s, page.SetInterceptFileChooserDialog, page.SetInterceptFileChooserDialogParams{Enabled: true}).Pending,
	}
	steps = append(steps, record.WatchConsole(ctx, t.s)...)
	steps = append(steps, t.host.guard(ctx, t.s)...)
	steps = append(steps, t.host.emulate(ctx, t.s, true)...)
	t.host.holdIfPaused(ctx, t.s)
	steps = append(steps, devtools.Start(ctx, t.s, runtime.RunIfWaitingForDebugger, none).Pending)
	for _, p := range steps {
		if _, err := p.Wait(ctx); err != nil {
			var refused *devtools.ProtocolError
			if !errors.As(err, &refused) { // a refused step is missing in this Chrome; the rest works
				t.end(errTabClosed)
				return
			}
		}
	}
	if now, _ := t.look(); t.opener != "" && now.documents == 0 {
		t.catchUp(ctx)
	}
	if t.life.Err() != nil {
		return // what it shows is not to be read
	}
	close(t.ready)
}

// catchUp takes in the document of a tab that was there before its session listened:
// Chrome does not hold back the tab that a click with a modifier opens.
func (t *tab) catchUp(ctx context.Context) {
	raw, err := t.s.Send(ctx, "Page.getFrameTree", cdp.Empty{}).Wait(ctx)
	var tree struct {
		FrameTree struct {
			Frame document `json:"frame"`
		} `json:"frameTree"`
	}
	if err != nil || !decodeEvent(raw, &tree) {
		return
	}
	f := tree.FrameTree.Frame
	if why := t.host.forbids(f.URL); why != nil {
		t.host.closeUnread(why)
		return
	}
	t.change(func(s *tabState) {
		if s.documents == 0 && strings.Contains(f.URL, "//") {
			t.commitLocked(f.LoaderID, true, f.Failed, f.URL+f.Fragment)
		}
	})
}

// document is what Chrome tells of one that a frame shows.
type document struct {
	ID       target.ID    `json:"id"`
	ParentID string       `json:"parentId"`
	LoaderID cdp.LoaderID `json:"loaderId"`
	Failed   string       `json:"unreachableUrl"`
	URL      string       `json:"url"`
	Fragment string       `json:"urlFragment"`
}

// end marks the tab as gone for the given reason.
func (t *tab) end(why error) { t.kill(why) }

func (t *tab) isCrashed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.crashed
}

// reportCrash notes that a caller is told of the crash; it reports whether one
// was told before.
func (t *tab) reportCrash() (before bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, t.told = t.told, true
	return before
}

// change applies f to the state and wakes those who wait for it.
func (t *tab) change(f func(*tabState)) {
	t.mu.Lock()
	f(&t.state)
	close(t.changed)
	t.changed = make(chan struct{})
	t.mu.Unlock()
}

// look returns the present state and the channel that its next change closes.
func (t *tab) look() (tabState, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state, t.changed
}

// shownLoader is that of the document shown.
func (t *tab) shownLoader() cdp.LoaderID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state.loader
}

// await waits until cond holds for the state.
func (t *tab) await(ctx context.Context, cond func(tabState) bool) error {
	for {
		state, changed := t.look()
		if cond(state) {
			return nil
		}
		select {
		case <-changed:
		case <-t.life.Done():
			return context.Cause(t.life)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unanswered reports that a document is on its way whose server has not answered. Until
// it has, Chrome holds back what it is asked of the page shown.
func (t *tab) unanswered() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, answered := t.state.statuses[t.state.navigating]
	return t.state.navigating != "" && !answered
}

// settleWait is how long a call waits for a page that is on its way or not complete.
const settleWait = 5 * time.Second

// settle waits until no document is on its way and the present one is parsed, at most
// five seconds, and for that once: a page that never finishes can still be read, but not
// while its successor's server has not answered. One that is restless is not waited for.
func (t *tab) settle(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	before, _ := t.look()
	err := t.await(bounded, func(s tabState) bool {
		return s.navigating == "" && (s.domReady || s.unparsed == s.documents) || s.restless(before, false)
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		t.change(func(s *tabState) {
			if s.navigating == "" {
				s.unparsed = s.documents
			}
		})
		if t.unanswered() && !t.ping(t.s, 250*time.Millisecond) {
			return errOnItsWay
		}
		return nil
	}
	return err
}

// onEvent runs on the connection's reading goroutine.
func (t *tab) onEvent(method string, params []byte) {
	if t.onFrames(t.s, method, params) {
		return
	}
	switch method {
	case "Fetch.requestPaused":
		t.host.paused(t.s, params)
	case "Page.frameStartedNavigating":
		var e struct {
			FrameID        target.ID    `json:"frameId"`
			LoaderID       cdp.LoaderID `json:"loaderId"`
			NavigationType string       `json:"navigationType"`
		}
		if decodeEvent(params, &e) && e.FrameID == t.id && !strings.Contains(strings.ToLower(e.NavigationType), "samedocument") {
			t.change(func(s *tabState) { s.navigating = e.LoaderID; s.started++ })
		}
	case "Page.frameRequestedNavigation":
		var e struct {
			FrameID     target.ID `json:"frameId"`
			URL         string    `json:"url"`
			Disposition string    `json:"disposition"`
		}
		switch {
		case !decodeEvent(params, &e):
		case e.Disposition == "newTab" || e.Disposition == "newWindow":
			// A click with a modifier: the tab that comes of it names no opener.
			t.change(func(s *tabState) { s.asked, s.loose = e.URL, true })
		case isOutside(e.URL):
			t.change(func(s *tabState) { s.outside = true; s.requested++ })
		case e.FrameID == t.id:
			t.change(func(s *tabState) { s.requested++ })
		}
	case "Page.windowOpen":
		var e struct {
			URL string `json:"url"`
		}
		if decodeEvent(params, &e) {
			t.change(func(s *tabState) { s.asked, s.loose = e.URL, false })
		}
	case "Page.frameNavigated":
		var e struct {
			Frame document `json:"frame"`
			Type  string   `json:"type"`
		}
		if decodeEvent(params, &e) && e.Frame.ParentID == "" {
			t.committed(e.Frame.LoaderID, e.Type == "BackForwardCacheRestore", e.Frame.Failed, e.Frame.URL+e.Frame.Fragment)
		}
	case "Page.navigatedWithinDocument":
		var e struct {
			FrameID target.ID `json:"frameId"`
			URL     string    `json:"url"`
		}
		if decodeEvent(params, &e) && e.FrameID == t.id {
			t.change(func(s *tabState) { s.inPage++; s.url = e.URL })
		}
	case "Page.frameStoppedLoading":
		var e struct {
			FrameID target.ID `json:"frameId"`
		}
		if decodeEvent(params, &e) && e.FrameID == t.id {
			// Also the end of a navigation that never became a document (204, download).
			t.change(func(s *tabState) { s.navigating = "" })
		}
	case "Page.lifecycleEvent":
		var e struct {
			FrameID  target.ID    `json:"frameId"`
			LoaderID cdp.LoaderID `json:"loaderId"`
			Name     string       `json:"name"`
		}
		if decodeEvent(params, &e) && e.FrameID == t.id {
			t.cameTo(e.LoaderID, e.Name)
		}
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
		t.console.Add(t.shownLoader(), method, params)
	case "Page.javascriptDialogOpening":
		t.dialogOpened(params)
	case "Page.javascriptDialogClosed":
		t.dialogClosed()
	case "Tracing.tracingComplete":
		t.traceComplete(params)
	case "Page.downloadWillBegin":
		t.host.downloadBegan(params)
	case "Page.fileChooserOpened":
		t.chooserOpened(t.s, params)
	case "Input.dragIntercepted":
		t.dragIntercepted(params)
	case "Inspector.targetCrashed":
		t.mu.Lock()
		t.crashed = true
		t.mu.Unlock()
		t.end(errTabCrashed)
	default:
		if strings.HasPrefix(method, "Network.") {
			t.onNetwork(t.s, method, params)
		}
	}
}

// committed notes a new document.
func (t *tab) committed(loader cdp.LoaderID, whole bool, failed, url string) {
	t.change(func(*tabState) { t.commitLocked(loader, whole, failed, url) })
	t.network.NewDocument(loader)
}

func (t *tab) commitLocked(loader cdp.LoaderID, whole bool, failed, url string) {
	s := &t.state
	s.loader, s.domReady, s.loaded = loader, whole, whole
	s.progress = ready.Progress{Committed: time.Now()}
	if whole {
		s.progress.Parsed, s.progress.Drawn, s.progress.Loaded = s.progress.Committed, s.progress.Committed, s.progress.Committed
	}
	s.status, s.failed, s.url = s.statuses[loader], failed, url
	s.statuses = map[cdp.LoaderID]int{}
	if s.navigating == loader || whole {
		s.navigating = ""
	}
	s.latest[s.documents%len(s.latest)] = commit{loader, s.navigating}
	s.documents++
	s.chooser = nil
	if t.leaving && !t.state.silenced { // then the page to come is nothing: openBlank
		t.armed, t.leaving = nil, false // what was armed was for the page before
	}
	t.world = world{} // contexts of the old document are gone
	t.resetFramesLocked()
}

// bind derives a context that also ends with life, of the tab's two.
func bind(ctx, life context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if life.Err() != nil {
		cancel(context.Cause(life)) // at once: who binds looks whether it may go on
	}
	stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return ctx, func() { stop(); cancel(nil) }
}

// ping reports whether the page behind s answers in that time.
func (t *tab) ping(s *devtools.Session, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(t.life, wait)
	defer cancel()
	_, err := devtools.Do(ctx, s, runtime.Evaluate, runtime.EvaluateParams{Expression: "0"})
	return err == nil
}

// awaitFor is await with a bound of its own; it reports whether cond held.
func (t *tab) awaitFor(ctx context.Context, bound time.Duration, cond func(tabState) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return t.await(ctx, cond) == nil
}

// openedBy reports whether another tab opened this one, and notes whether it did so
// for an address: then a navigation is to come. It runs on the reading goroutine,
// which hears a page ask for a tab before Chrome shows that.
func (t *tab) openedBy(from *tab) (did bool) {
	from.change(func(s *tabState) {
		if did = from.id == t.opener || t.opener == "" && s.loose; did {
			t.opener = from.id
			t.bound = s.asked != "" && !strings.HasPrefix(s.asked, "about:") && !strings.HasPrefix(s.asked, "javascript:")
			s.asked, s.loose = "", false
		}
	})
	return did
}

// commit is a document that was committed, and the one that was on its way already then.
type commit struct{ loader, next cdp.LoaderID }

// came reports whether a document asked for after before was committed; and whether it was
// displaced: by what was on its way already, or by several others before it came.
func (s *tabState) came(loader cdp.LoaderID, before tabState) (came, displaced bool) {
	i := slices.IndexFunc(s.latest[:], func(d commit) bool { return d.loader == loader })
	if i < 0 {
		return false, s.documents-before.documents >= 3
	}
	if s.latest[i].next == "" {
		return true, false
	}
	return s.loader != loader || s.navigating == "", s.loader != loader
}

// restless reports that since before more documents came and went than redirects by script
// make of one navigation: so many that no more time is given, or a few in all that was.
func (s *tabState) restless(before tabState, timeOver bool) bool {
	n := s.documents - before.documents
	return n >= 20 || timeOver && n >= 5
}

// shownDocument identifies a document of a tab, with the frames in it.
type shownDocument struct {
	tab       *tab
	documents int
}

// shows returns the document that the tab shows.
func (t *tab) shows() shownDocument {
	now, _ := t.look()
	return shownDocument{t, now.documents}
}

// reached reports whether the tab is in a load state, and if only time is missing,
// how much.
func (t *tab) reached(now tabState, state string) (ok bool, left time.Duration) {
	settled := now.navigating == ""
	switch state {
	case "":
		return true, 0
	case "domcontentloaded":
		return settled && now.domReady, 0
	case "load":
		return settled && now.loaded, 0
	}
	if since := t.network.QuietSince(); !settled || !now.domReady || since.IsZero() {
		return false, 0
	} else if left = quietFor - time.Since(since); left > 0 {
		return false, left
	}
	return true, 0
}
