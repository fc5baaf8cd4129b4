package browser

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"github.com/handrail-dev/handrail/capabilities"
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
	*session
	under   *session // that reported it
	frame   cdp.FrameID
	ready   bool // set up
	pointed bool // the pointer was seen to reach it
	crashed bool
}

const (
	// frameWait bounds what a call waits for a single frame that does not answer.
	frameWait = 1500 * time.Millisecond
	// frameLoadWait bounds the wait for frames that still load, when what is looked
	// for was not found without them.
	frameLoadWait = 3 * time.Second
	// maxFrames bounds the foreign frames that a call looks into.
	maxFrames = 64
)

var errFrameCrashed = capabilities.Errorf(capabilities.CodeStaleRef, "The frame of the element crashed.").
	WithHint("Load the page again: navigate-back with direction reload.")

var errFrameAway = capabilities.Errorf(capabilities.CodeStaleRef, "The frame of the element is gone from the page.")

// attachFrames has Chrome report frames in other processes to the session.
func attachFrames(ctx context.Context, s *session) *pending {
	return start(ctx, s, target.SetAutoAttach, target.SetAutoAttachParams{
		AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: ptr(true),
		// A dedicated worker waits, too, whether it is reported or not.
		Filter: target.Filter{{Type: "iframe"}, {Type: "worker"}, {Exclude: true}},
	}).pending
}

// onFrames takes what a session of the tab reports of frames; it reports whether
// that was all there is to the event. It runs on the reading goroutine.
func (t *tab) onFrames(s *session, method string, params []byte) (done bool) {
	var e struct {
		FrameID   cdp.FrameID `json:"frameId"`
		Reason    string      `json:"reason"`
		SessionID string      `json:"sessionId"`
		Frame     struct {
			ID     cdp.FrameID `json:"id"`
			Origin string      `json:"securityOrigin"`
		} `json:"frame"`
		TargetInfo struct {
			TargetID target.ID `json:"targetId"`
			Type     string    `json:"type"`
		} `json:"targetInfo"`
	}
	switch method {
	case "Target.attachedToTarget":
		if !decodeEvent(params, &e) {
			return true
		}
		switch e.TargetInfo.Type {
		case "iframe":
			t.adoptFrame(s, e.SessionID, cdp.FrameID(e.TargetInfo.TargetID))
		case "worker":
			worker := &session{conn: t.chrome.conn, id: e.SessionID}
			t.chrome.h.wg.Go(func() { start(t.life, worker, runtime.RunIfWaitingForDebugger, cdp.Empty{}) })
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
		t.lane.visited(e.Frame.Origin)
		if e.Frame.ID != cdp.FrameID(t.id) {
			t.newFrameDocument(e.Frame.ID)
			return true
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

// adoptFrame takes in the session of a frame in another process and sets it up, off
// this goroutine.
func (t *tab) adoptFrame(under *session, id string, frameID cdp.FrameID) {
	f := &frameSession{under: under, frame: frameID}
	f.session = t.chrome.conn.open(id, func(method string, params []byte) { t.onFrameEvent(f, method, params) })
	t.change(func(*tabState) {
		t.frames.sessions[frameID] = f
		t.forgetWorldLocked(frameID)
	})
	t.chrome.h.wg.Go(func() { t.setUpFrame(f) })
}

// setUpFrame prepares a frame in another process and lets it run. All of it is sent
// at once. A step that Chrome refuses is missing there; the rest works.
func (t *tab) setUpFrame(f *frameSession) {
	ctx, cancel := context.WithTimeout(t.life, 20*time.Second)
	defer cancel()
	steps := []*pending{
		attachFrames(ctx, f.session),
		start(ctx, f.session, page.Enable, page.EnableParams{}).pending,
		start(ctx, f.session, network.Enable, watchNetwork).pending,
		start(ctx, f.session, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}).pending,
		start(ctx, f.session, page.SetInterceptFileChooserDialog, page.SetInterceptFileChooserDialogParams{Enabled: true}).pending,
	}
	steps = append(steps, watchConsole(ctx, f.session)...)
	steps = append(steps, t.lane.emulate(ctx, f.session, false)...)
	steps = append(steps, start(ctx, f.session, runtime.RunIfWaitingForDebugger, cdp.Empty{}).pending)
	for _, p := range steps {
		p.wait(ctx)
	}
	t.change(func(*tabState) { f.ready = true })
}

// onFrameEvent takes the events of a frame in another process: those of the frame
// itself, and for the tab what a page reports wherever it runs.
func (t *tab) onFrameEvent(f *frameSession, method string, params []byte) {
	if t.onFrames(f.session, method, params) {
		return
	}
	switch {
	case method == "Inspector.targetCrashed":
		t.frameCrashed(f, true)
	case method == "Inspector.targetReloadedAfterCrash":
		t.frameCrashed(f, false)
	case strings.HasPrefix(method, "Page.javascriptDialog"):
		// The page's own session reports dialogs, whatever frame opened them.
	case strings.HasPrefix(method, "Network."):
		t.onNetwork(f.session, method, params)
	case method == "Page.fileChooserOpened":
		t.chooserOpened(f.session, params)
	case strings.HasPrefix(method, "Runtime.") || strings.HasPrefix(method, "Log."):
		t.onEvent(method, params)
	}
}

// frameCrashed notes that the process of a frame ended, or is there again.
func (t *tab) frameCrashed(f *frameSession, crashed bool) {
	if crashed {
		t.chrome.conn.abandon(f.id)
	}
	t.change(func(*tabState) {
		f.crashed = crashed
		t.forgetSessionLocked(f.session)
	})
}

// dropFrame forgets a session that ended, with those below it.
func (t *tab) dropFrame(id string) {
	var gone []*session
	t.change(func(*tabState) {
		for grown := true; grown; {
			grown = false
			for frameID, f := range t.frames.sessions {
				below := f.id == id
				for _, s := range gone {
					below = below || f.under == s
				}
				if below {
					delete(t.frames.sessions, frameID)
					t.forgetSessionLocked(f.session)
					gone, grown = append(gone, f.session), true
				}
			}
		}
	})
	for _, s := range gone {
		t.chrome.conn.forget(s.id)
		t.chrome.conn.abandon(s.id)
	}
}

// dropFrames forgets the sessions of a tab that ended.
func (t *tab) dropFrames() {
	t.mu.Lock()
	all := t.frames.sessions
	t.frames.sessions = map[cdp.FrameID]*frameSession{}
	t.mu.Unlock()
	for _, f := range all {
		t.chrome.conn.forget(f.id)
		t.chrome.conn.abandon(f.id)
	}
}

// newFrameDocument notes that a frame shows another document.
func (t *tab) newFrameDocument(id cdp.FrameID) {
	t.change(func(s *tabState) {
		s.frameDocuments++
		t.forgetWorldLocked(id)
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

func (t *tab) forgetSessionLocked(s *session) {
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

// sessionLocked gives the session that reaches a frame's document; nil: none does
// now.
func (t *tab) sessionLocked(f *frame) *session {
	s := t.processLocked(f)
	switch {
	case s == nil:
		return t.s
	case s.crashed || !s.ready:
		return nil
	}
	return s.session
}

// processLocked gives the process that a frame is in; nil: the tab's own.
func (t *tab) processLocked(f *frame) *frameSession {
	for x := f; x != nil; x = x.parent {
		if s := t.frames.sessions[x.id]; s != nil {
			return s
		}
	}
	return nil
}

// sessions lists the sessions of all processes that the tab's page runs in.
func (t *tab) sessions() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := []*session{t.s}
	for _, f := range t.frames.sessions {
		if f.ready && !f.crashed {
			all = append(all, f.session)
		}
	}
	return all
}

// inFrame gives our world of the document that a foreign frame shows.
func (t *tab) inFrame(ctx context.Context, f *frame) (world, error) {
	t.mu.Lock()
	w, s, changed := f.world, t.sessionLocked(f), t.changed
	t.mu.Unlock()
	if w.id != 0 {
		return w, nil
	}
	if s == nil && t.crashedFrame(f) {
		return world{}, errFrameCrashed
	}
	if s == nil {
		return world{}, t.pause(ctx, changed, errFrameMoves)
	}
	made, err := do(ctx, s, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: f.id, WorldName: worldName})
	if err != nil {
		var refused *protocolError
		if errors.As(err, &refused) && strings.Contains(refused.message, "No frame") {
			return world{}, t.pause(ctx, changed, errFrameMoves)
		}
		return world{}, err
	}
	number := "f" + strconv.Itoa(t.lane.takeFrame())
	res, err := do(ctx, s, runtime.Evaluate, runtime.EvaluateParams{
		Expression: pageScript + "__handrail.join('" + number + "')",
		ContextID:  made.ExecutionContextID, Silent: ptr(true), ReturnByValue: ptr(true),
	})
	if err == nil {
		err = pageFault(res)
	}
	if err != nil {
		return world{}, err
	}
	w = world{s: s, id: made.ExecutionContextID, frame: f, prefix: strings.Trim(string(res.Result.Value), `"`)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.frames.met[f.id] == f && t.sessionLocked(f) == s {
		f.world = w
	}
	return w, nil
}

// errFrameMoves: the frame is between two documents or processes.
var errFrameMoves = errors.New("the frame moves between processes")

// pause waits a moment for the tab's state to change.
func (t *tab) pause(ctx context.Context, changed <-chan struct{}, err error) error {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return err
}

// askFrame is ask for a foreign frame. The wait for it is bounded.
func (t *tab) askFrame(ctx context.Context, f *frame, function string, args, into any) (world, error) {
	bounded, cancel := context.WithTimeout(ctx, frameWait)
	defer cancel()
	for try := 0; ; try++ {
		w, err := t.inFrame(bounded, f)
		if err == nil {
			if err = w.put(bounded, function, args).get(bounded, into); err == nil {
				return w, nil
			}
		}
		lost := contextLost(err)
		t.mu.Lock()
		if lost && f.world == w {
			f.world = world{}
		}
		gone := t.frames.met[f.id] != f
		changed := t.changed
		t.mu.Unlock()
		switch {
		case gone && ctx.Err() == nil:
			return world{}, errFrameAway
		case errors.Is(err, errFrameMoves) && try < 20:
		case lost && try < 5:
			t.pause(bounded, changed, nil)
		case errors.Is(err, errFrameMoves):
			return world{}, errFrameAway
		default:
			return world{}, err
		}
	}
}

// stranger is a frame or element that a page script points at.
type stranger struct {
	object reply[runtime.EvaluateResult]
	node   reply[dom.DescribeNodeResult]
	id     runtime.RemoteObjectID
}

// strangers asks Chrome about the first n elements that a function of the page
// script gives, all at once. The elements are held until release is called.
func (w world) strangers(ctx context.Context, function string, n int) (list []stranger, release func()) {
	const group = "handrail-strangers"
	list = make([]stranger, n)
	for i := range list {
		list[i].object = start(ctx, w.s, runtime.Evaluate, runtime.EvaluateParams{
			Expression: "__handrail." + function + "(" + strconv.Itoa(i) + ")", ContextID: w.id, ObjectGroup: group, Silent: ptr(true),
		})
	}
	for i := range list {
		res, err := list[i].object.get(ctx)
		if err != nil || res.Result == nil || res.Result.ObjectID == "" {
			continue
		}
		list[i].id = res.Result.ObjectID
		list[i].node = start(ctx, w.s, dom.DescribeNode, dom.DescribeNodeParams{ObjectID: list[i].id})
	}
	return list, func() {
		start(ctx, w.s, runtime.ReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: group})
	}
}

// meet learns which frames the strangers in a document are. The identifiers are in
// the strangers' order, empty for one that could not be learnt.
func (t *tab) meet(ctx context.Context, w world, n int) []cdp.FrameID {
	ids := make([]cdp.FrameID, n)
	list, release := w.strangers(ctx, "strangerAt", min(n, maxFrames))
	defer release()
	var told []*pending
	for i, s := range list {
		if s.id == "" {
			continue
		}
		res, err := s.node.get(ctx)
		if err != nil || res.Node == nil || res.Node.FrameID == "" {
			continue
		}
		ids[i] = res.Node.FrameID
		told = append(told, start(ctx, w.s, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
			FunctionDeclaration: "function(id) { __handrail.own(this, id); }", ObjectID: s.id,
			Arguments: []*runtime.CallArgument{{Value: []byte(strconv.Quote(string(ids[i])))}}, Silent: ptr(true),
		}).pending)
	}
	for _, p := range told {
		p.wait(ctx)
	}
	return ids
}

// frame gives the foreign frame by its identifier, seen from the page script of
// parent.
func (t *tab) frame(id cdp.FrameID, parent *frame) *frame {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.frames.met[id]
	if f == nil || f.parent != parent {
		f = &frame{id: id, parent: parent}
		t.frames.met[id] = f
	}
	return f
}

// framesBelow gives the foreign frames shown in a document, in its order.
func (t *tab) framesBelow(ctx context.Context, parent *frame) ([]*frame, error) {
	var answer struct {
		Slots     []cdp.FrameID `json:"slots"`
		Strangers int           `json:"strangers"`
	}
	w, err := t.askAny(ctx, parent, "foreignFrames", nil, &answer)
	if err != nil {
		return nil, err
	}
	return t.slots(ctx, w, answer.Slots, answer.Strangers), nil
}

// slots gives the frames that a page script named, after meeting those it could
// not name; nil for one that could not be met.
func (t *tab) slots(ctx context.Context, w world, named []cdp.FrameID, strangers int) []*frame {
	var met []cdp.FrameID
	if strangers > 0 {
		met = t.meet(ctx, w, strangers)
	}
	list := make([]*frame, len(named))
	for i, id := range named {
		if id == "" && len(met) > 0 {
			id, met = met[0], met[1:]
		}
		if id != "" {
			list[i] = t.frame(id, w.frame)
		}
	}
	return list
}

// askAny asks the page script of a foreign frame, or of the tab's own document.
func (t *tab) askAny(ctx context.Context, f *frame, function string, args, into any) (world, error) {
	if args == nil {
		args = struct{}{}
	}
	if f == nil {
		return t.ask(ctx, function, args, into)
	}
	return t.askFrame(ctx, f, function, args, into)
}

// everyFrame calls visit for each foreign frame of the tab, outer ones first, until
// it reports that it is done.
func (t *tab) everyFrame(ctx context.Context, visit func(f *frame) (done bool)) error {
	seen := 0
	next := []*frame{nil}
	for len(next) > 0 {
		f := next[0]
		next = next[1:]
		below, err := t.framesBelow(ctx, f)
		if f == nil && err != nil {
			return err
		}
		for _, b := range below {
			if b == nil || seen == maxFrames {
				continue
			}
			seen++
			if visit(b) {
				return nil
			}
			next = append(next, b)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// byPrefix gives the foreign frame whose document gave refs of that prefix.
func (t *tab) byPrefix(prefix string) *frame {
	t.mu.Lock()
	defer t.mu.Unlock()
	for f := range maps.Values(t.frames.met) {
		if f.world.prefix == prefix {
			return f
		}
	}
	return nil
}

// loadingFrames reports whether a frame is still on its way, and the channel of the
// next change.
func (t *tab) loadingFrames() (bool, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	on := len(t.frames.loading) > 0
	for _, s := range t.frames.sessions {
		on = on || !s.ready
	}
	return on, t.changed
}

// framesAwaited reports whether a frame is on its way, or sets out within a moment:
// what a call just did may have that effect.
func (t *tab) framesAwaited(ctx context.Context) bool {
	bounded, cancel := context.WithTimeout(ctx, 80*time.Millisecond)
	defer cancel()
	for {
		on, changed := t.loadingFrames()
		t.mu.Lock()
		any := on || len(t.frames.met) > 0 || len(t.frames.sessions) > 0
		t.mu.Unlock()
		if on || !any {
			return on
		}
		select {
		case <-changed:
		case <-bounded.Done():
			return false
		}
	}
}

func (t *tab) isLoading(f *frame) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.frames.loading[f.id]
}

// crashedFrame reports that the process of a frame ended.
func (t *tab) crashedFrame(f *frame) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.processLocked(f)
	return s != nil && s.crashed
}
