package browser

import (
	"context"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// The page script of a document reads every frame below it that is of its own
// origin. A foreign frame, which it may not read, has a page script of its own: in
// the same process, reached by the same session, or in another, which has a
// session of its own. A document knows its foreign frames by Chrome's identifiers;
// it asks for those it has not met (meet). Frames come, go, move between processes
// and crash at any time: a question to one that went ends at once, and is bounded
// by frameWait where it hangs.

// frame is a foreign frame that was met.
type frame struct {
	id     cdp.FrameID
	parent *frame // the one whose page script sees its owner; nil: the tab's own
	world  world  // of the document shown; zero: not made yet
	slow   bool   // it did not answer in time; the next wait is short, until it answers
	asked  bool   // it is waited for in the background, whether it is slow still
	empty  bool   // its document was waited for, and showed nothing in time
}

// frames is what a tab knows of those below it. Guarded by the tab's mu.
type frames struct {
	met      map[cdp.FrameID]*frame
	sessions map[cdp.FrameID]*frameSession // of those in another process
	loading  map[cdp.FrameID]bool
	shown    []*frame // in the latest snapshot
}

// frameSession leads to a frame in another process.
type frameSession struct {
	*devtools.Session
	under   *devtools.Session // that reported it
	frame   cdp.FrameID
	ready   bool // set up
	pointed bool // the pointer was seen to reach it
	crashed bool
	coming  bool // it is new, and shows no document yet
	// documents counts what it was told to show; painted is how many of them there were
	// when it was last seen to have shown its own.
	documents, painted int
}

const (
	// frameWait bounds what a call waits for a single frame that does not answer.
	frameWait = 3 * time.Second
	// meantFrameWait bounds it where just that frame is meant.
	meantFrameWait = 8 * time.Second
	// slowFrameWait is that for one which did not answer the last time, and has not since.
	slowFrameWait = 150 * time.Millisecond
	// slowFrameFor bounds how long such a one is waited for in the background.
	slowFrameFor = 30 * time.Second
	// frameLoadWait bounds the wait for frames that still load, when what is looked
	// for was not found without them.
	frameLoadWait = 3 * time.Second
	// maxFrames bounds the foreign frames that a call looks into.
	maxFrames = 64
)

var errFrameCrashed = capabilities.Errorf(capabilities.CodeStaleRef, "The frame of the element crashed.").
	WithHint("Load the page again: navigate-back with direction reload.")

var errFrameHangs = capabilities.Errorf(capabilities.CodeDeadlineExceeded, "The frame of the element does not answer: its script is busy.")

var errFrameAway = capabilities.Errorf(capabilities.CodeStaleRef, "The frame of the element is gone from the page.")

// attachFrames has Chrome report frames in other processes to the session, and workers.
func (t *tab) attachFrames(ctx context.Context, s *devtools.Session) *devtools.Pending {
	// A dedicated worker waits, too, whether it is reported or not.
	filter := target.Filter{{Type: "iframe"}, {Type: "worker"}, {Exclude: true}}
	if t.host.attached() { // elsewhere the lane's proxy is in the way of every worker
		filter = target.Filter{{Type: "iframe"}, {Type: "worker"}, {Type: "service_worker"}, {Exclude: true}}
	}
	return devtools.Start(ctx, s, target.SetAutoAttach, target.SetAutoAttachParams{
		AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: ptr(true), Filter: filter,
	}).Pending
}

// onFrames takes what a session of the tab reports of frames; it reports whether
// that was all there is to the event. It runs on the reading goroutine.
func (t *tab) onFrames(s *devtools.Session, method string, params []byte) (done bool) {
	var e struct {
		FrameID   cdp.FrameID `json:"frameId"`
		Reason    string      `json:"reason"`
		SessionID string      `json:"sessionId"`
		Waiting   bool        `json:"waitingForDebugger"`
		URL       string      `json:"url"`
		Where     string      `json:"disposition"`
		Frame     struct {
			ID     cdp.FrameID `json:"id"`
			URL    string      `json:"url"`
			Origin string      `json:"securityOrigin"`
			Failed string      `json:"unreachableUrl"`
		} `json:"frame"`
		TargetInfo struct {
			TargetID target.ID `json:"targetId"`
			Type     string    `json:"type"`
			URL      string    `json:"url"`
		} `json:"targetInfo"`
	}
	switch method {
	case "Target.attachedToTarget":
		if !decodeEvent(params, &e) {
			return true
		}
		switch e.TargetInfo.Type {
		case "iframe":
			if why := t.host.forbids(e.TargetInfo.URL); why != nil {
				t.host.closeUnread(why)
				return true
			}
			t.adoptFrame(s, e.SessionID, cdp.FrameID(e.TargetInfo.TargetID), e.Waiting)
		case "worker", "service_worker":
			t.adoptWorker(s, e.SessionID)
		}
		return true
	case "Target.detachedFromTarget":
		if decodeEvent(params, &e) {
			t.dropFrame(e.SessionID)
		}
		return true
	case "Page.frameNavigated":
		if !decodeEvent(params, &e) {
			return true
		}
		if why := t.host.forbids(e.Frame.URL); why != nil {
			t.host.closeUnread(why)
			return true
		}
		t.host.visited(e.Frame.Origin)
		if e.Frame.ID != cdp.FrameID(t.id) {
			t.newFrameDocument(e.Frame.ID)
			if e.Frame.Failed != "" {
				t.seeks(e.Frame.Failed, false)
			}
			return true
		}
	case "Page.navigatedWithinDocument":
		if decodeEvent(params, &e) && e.FrameID != cdp.FrameID(t.id) {
			t.change(func(s *tabState) { s.inFrame++ })
		}
	case "Page.windowOpen", "Page.frameRequestedNavigation":
		if decodeEvent(params, &e) && (e.Where != "currentTab" || e.FrameID != cdp.FrameID(t.id)) {
			t.seeks(e.URL, e.Where != "currentTab")
		}
	case "Page.frameDetached":
		if decodeEvent(params, &e) && e.FrameID != cdp.FrameID(t.id) {
			t.frameGone(e.FrameID, e.Reason == "swap")
		}
		return true
	case "Page.frameStartedLoading":
		if decodeEvent(params, &e) && e.FrameID != cdp.FrameID(t.id) {
			t.frameLoading(e.FrameID, true)
			return true
		}
	case "Page.frameStoppedLoading":
		if decodeEvent(params, &e) && e.FrameID != cdp.FrameID(t.id) {
			t.frameLoading(e.FrameID, false)
			return true
		}
	}
	return false
}

// adoptWorker takes in the session of a dedicated worker, and of those that it starts, so
// that a stop holds them. It runs on the reading goroutine.
func (t *tab) adoptWorker(under *devtools.Session, id string) {
	var worker *devtools.Session
	worker = t.conn.OpenWorker(under, id, func(method string, params []byte) {
		var e struct {
			SessionID string `json:"sessionId"`
		}
		switch {
		case !decodeEvent(params, &e):
		case method == "Target.attachedToTarget":
			t.adoptWorker(worker, e.SessionID)
		case method == "Target.detachedFromTarget":
			t.conn.Forget(e.SessionID)
		case method == "Fetch.requestPaused":
			t.host.paused(worker, params)
		}
	})
	t.host.run(func() {
		devtools.Start(t.life, worker, target.SetAutoAttach, target.SetAutoAttachParams{
			AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: ptr(true), Filter: target.Filter{{Type: "worker"}, {Exclude: true}},
		})
		t.host.guard(t.life, worker)
		t.host.holdIfPaused(t.life, worker)
		devtools.Start(t.life, worker, runtime.RunIfWaitingForDebugger, cdp.Empty{})
	})
}

// adoptFrame takes in the session of a frame in another process and sets it up, off
// this goroutine. coming says that the frame is only just made.
func (t *tab) adoptFrame(under *devtools.Session, id string, frameID cdp.FrameID, coming bool) {
	f := &frameSession{under: under, frame: frameID, coming: coming}
	f.Session = t.conn.Open(id, func(method string, params []byte) { t.onFrameEvent(f, method, params) })
	t.change(func(*tabState) {
		t.frames.sessions[frameID] = f
		t.forgetWorldLocked(frameID)
	})
	t.host.run(func() { t.setUpFrame(f) })
}

// setUpFrame prepares a frame in another process and lets it run. All of it is sent
// at once. A step that Chrome refuses is missing there; the rest works.
func (t *tab) setUpFrame(f *frameSession) {
	ctx, cancel := context.WithTimeout(t.life, 20*time.Second)
	defer cancel()
	steps := []*devtools.Pending{
		t.attachFrames(ctx, f.Session),
		devtools.Start(ctx, f.Session, page.Enable, page.EnableParams{}).Pending,
		record.WatchNetwork(ctx, f.Session),
		devtools.Start(ctx, f.Session, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}).Pending,
		devtools.Start(ctx, f.Session, page.SetInterceptFileChooserDialog, page.SetInterceptFileChooserDialogParams{Enabled: true}).Pending,
	}
	steps = append(steps, record.WatchConsole(ctx, f.Session)...)
	steps = append(steps, t.host.guard(ctx, f.Session)...)
	steps = append(steps, t.host.emulate(ctx, f.Session, false)...)
	t.host.holdIfPaused(ctx, f.Session)
	steps = append(steps, devtools.Start(ctx, f.Session, runtime.RunIfWaitingForDebugger, cdp.Empty{}).Pending)
	for _, p := range steps {
		p.Wait(ctx)
	}
	t.change(func(*tabState) { f.ready = true })
}

// onFrameEvent takes the events of a frame in another process: those of the frame
// itself, and for the tab what a page reports wherever it runs.
func (t *tab) onFrameEvent(f *frameSession, method string, params []byte) {
	if t.onFrames(f.Session, method, params) {
		return
	}
	switch {
	case method == "Inspector.targetCrashed":
		t.frameCrashed(f, true)
	case method == "Inspector.targetReloadedAfterCrash":
		t.frameCrashed(f, false)
	case method == "Fetch.requestPaused":
		t.host.paused(f.Session, params)
	case strings.HasPrefix(method, "Page.javascriptDialog"):
		// The page's own session reports dialogs, whatever frame opened them.
	case strings.HasPrefix(method, "Network."):
		t.onNetwork(f.Session, method, params)
	case method == "Page.fileChooserOpened":
		t.chooserOpened(f.Session, params)
	case strings.HasPrefix(method, "Runtime.") || strings.HasPrefix(method, "Log."):
		t.onEvent(method, params)
	}
}

// frameCrashed notes that the process of a frame ended, or is there again.
func (t *tab) frameCrashed(f *frameSession, crashed bool) {
	if crashed {
		t.conn.Abandon(f.ID())
	}
	t.change(func(*tabState) {
		f.crashed, f.painted = crashed, 0
		t.forgetSessionLocked(f.Session)
	})
}

// dropFrame forgets a session that ended, with those below it.
func (t *tab) dropFrame(id string) {
	var gone []*devtools.Session
	t.change(func(*tabState) {
		for grown := true; grown; {
			grown = false
			for frameID, f := range t.frames.sessions {
				below := f.ID() == id
				for _, s := range gone {
					below = below || f.under == s
				}
				if below {
					delete(t.frames.sessions, frameID)
					t.forgetSessionLocked(f.Session)
					delete(t.frames.met, frameID) // its document is gone, or is another one elsewhere
					gone, grown = append(gone, f.Session), true
				}
			}
		}
	})
	t.conn.Forget(id)
	t.conn.Abandon(id)
	for _, s := range gone {
		t.conn.Forget(s.ID())
		t.conn.Abandon(s.ID())
	}
}

// dropFrames forgets the sessions of a tab that ended.
func (t *tab) dropFrames() {
	t.mu.Lock()
	all := t.frames.sessions
	t.frames.sessions = map[cdp.FrameID]*frameSession{}
	t.mu.Unlock()
	for _, f := range all {
		t.conn.Forget(f.ID())
		t.conn.Abandon(f.ID())
	}
}

// newFrameDocument notes that a frame shows another document.
func (t *tab) newFrameDocument(id cdp.FrameID) {
	t.change(func(s *tabState) {
		s.frameDocuments++
		t.forgetWorldLocked(id)
		if f := t.frames.met[id]; f != nil {
			f.empty = false
		}
		if f := t.frames.sessions[id]; f != nil {
			f.documents++
			f.coming = false
		}
	})
}

func (t *tab) frameGone(id cdp.FrameID, swapped bool) {
	t.change(func(*tabState) {
		t.forgetWorldLocked(id)
		if !swapped {
			delete(t.frames.met, id)
			delete(t.frames.loading, id)
		}
	})
}

func (t *tab) frameLoading(id cdp.FrameID, on bool) {
	t.change(func(*tabState) {
		if !on {
			delete(t.frames.loading, id)
		} else if len(t.frames.loading) < 1000 {
			t.frames.loading[id] = true
		}
	})
}

func (t *tab) forgetWorldLocked(id cdp.FrameID) {
	if f := t.frames.met[id]; f != nil {
		f.world = world{}
	}
}

func (t *tab) forgetSessionLocked(s *devtools.Session) {
	for _, f := range t.frames.met {
		if f.world.s == s {
			f.world = world{}
		}
	}
}

// resetFramesLocked forgets the frames of a document that went. Their sessions end
// by themselves; those of the new document may be here already.
func (t *tab) resetFramesLocked() {
	t.frames.met = map[cdp.FrameID]*frame{}
	t.frames.loading = map[cdp.FrameID]bool{}
	t.frames.shown = nil
}

func newFrames() frames {
	return frames{met: map[cdp.FrameID]*frame{}, sessions: map[cdp.FrameID]*frameSession{}, loading: map[cdp.FrameID]bool{}}
}

// sessionLocked returns the session that reaches a frame's document; nil: none does
// now.
func (t *tab) sessionLocked(f *frame) *devtools.Session {
	s := t.processLocked(f)
	switch {
	case s == nil:
		return t.s
	case s.crashed || !s.ready:
		return nil
	}
	return s.Session
}

// processLocked returns the process that a frame is in; nil: the tab's own.
func (t *tab) processLocked(f *frame) *frameSession {
	for x := f; x != nil; x = x.parent {
		if s := t.frames.sessions[x.id]; s != nil {
			return s
		}
	}
	return nil
}

// sessionOf returns the session that reaches the document of a frame in another document, which
// under reaches; nil: none does now.
func (t *tab) sessionOf(id cdp.FrameID, under *devtools.Session) *devtools.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.frames.sessions[id]
	switch {
	case s == nil:
		return under
	case s.crashed || !s.ready:
		return nil
	}
	return s.Session
}

// fresh is a frame in another process and which of its documents it shows.
type fresh struct {
	*frameSession
	document int
}

// unpainted lists the frames in other processes whose document is not known to have
// been shown, at most maxFrames.
func (t *tab) unpainted() []fresh {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []fresh
	for _, f := range t.frames.sessions {
		if f.ready && !f.crashed && (f.documents == 0 || f.painted != f.documents) && len(all) < maxFrames {
			all = append(all, fresh{f, f.documents})
		}
	}
	return all
}

// sawPainted notes that the document of a frame was shown.
func (t *tab) sawPainted(f fresh) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.painted = f.document
}

// sessions lists the sessions of all processes that the tab's page runs in.
func (t *tab) sessions() []*devtools.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := []*devtools.Session{t.s}
	for _, f := range t.frames.sessions {
		if f.ready && !f.crashed {
			all = append(all, f.Session)
		}
	}
	return all
}

// pointedAt returns the process that a frame is in, nil for the tab's own, and whether the pointer
// was seen to reach it.
func (t *tab) pointedAt(f *frame) (process *frameSession, pointed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	process = t.processLocked(f)
	return process, process != nil && process.pointed
}

// sawPointed notes whether the pointer was seen to reach a process.
func (t *tab) sawPointed(process *frameSession, pointed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	process.pointed = pointed
}

// showed notes which frames a snapshot has; lastShown returns those of the latest.
func (t *tab) showed(list []*frame) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frames.shown = list
}

func (t *tab) lastShown() []*frame {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.frames.shown
}
