package browser

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// How a foreign frame is asked: its world is made, its owner's document learns which
// frame it is, and every wait for it is bounded.

// inFrame returns our world of the document that a foreign frame shows.
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
	made, err := devtools.Do(ctx, s, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: f.id, WorldName: inpage.World})
	if err != nil {
		var refused *devtools.ProtocolError
		if errors.As(err, &refused) && strings.Contains(refused.Message, "No frame") {
			return world{}, t.pause(ctx, changed, errFrameMoves)
		}
		return world{}, err
	}
	number := "f" + strconv.Itoa(t.host.takeFrame())
	res, err := devtools.Do(ctx, s, runtime.Evaluate, runtime.EvaluateParams{
		Expression: inpage.Script() + inpage.Join.Call(strconv.Quote(number)),
		ContextID:  made.ExecutionContextID, Silent: ptr(true), ReturnByValue: ptr(true),
	})
	if err == nil {
		err = pageFault(res)
	}
	if err != nil {
		return world{}, err
	}
	w = world{s: s, id: made.ExecutionContextID, frame: f, prefix: strings.Trim(string(res.Result.Value), `"`), heard: &heard{}}
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
func (t *tab) askFrame(ctx context.Context, f *frame, function inpage.Function, args, into any) (world, error) {
	t.mu.Lock()
	wait := frameWait
	if s := t.processLocked(f); s != nil && !s.ready {
		wait = frameLoadWait
	} else if f.slow {
		wait = slowFrameWait
	}
	t.mu.Unlock()
	return t.askFrameFor(ctx, wait, f, function, args, into)
}

// askFrameFor is askFrame with a bound of its own.
func (t *tab) askFrameFor(ctx context.Context, wait time.Duration, f *frame, function inpage.Function, args, into any) (world, error) {
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var moving time.Time // since when it is between two documents or processes
	for lostTries := 0; ; {
		w, err := t.inFrame(bounded, f)
		switch {
		case err == nil:
			moving = time.Time{}
			err = w.put(bounded, function, args).get(bounded, into)
		case errors.Is(err, errFrameMoves) && moving.IsZero():
			moving = time.Now()
		}
		hangs := bounded.Err() != nil && ctx.Err() == nil && moving.IsZero()
		t.mu.Lock()
		f.slow = hangs
		await := hangs && !f.asked && t.life.Err() == nil
		f.asked = f.asked || await
		t.mu.Unlock()
		if await {
			t.host.run(func() { t.awaitSlow(f) })
		}
		if err == nil {
			return w, nil
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
		case targetCrashed(err):
			return world{}, errFrameCrashed
		case gone && ctx.Err() == nil:
			return world{}, errFrameAway
		case errors.Is(err, errFrameMoves) && bounded.Err() == nil && time.Since(moving) < frameLoadWait: // it waited
		case !moving.IsZero() && ctx.Err() == nil:
			return world{}, errFrameAway
		case lost && lostTries < 5:
			lostTries++
			t.pause(bounded, changed, nil)
		default:
			return world{}, err
		}
	}
}

// awaitSlow waits for a frame that did not answer in time: once it does, it is slow no longer. A
// busy machine answers each question later than a slow frame is given.
func (t *tab) awaitSlow(f *frame) {
	ctx, cancel := context.WithTimeout(t.life, slowFrameFor)
	defer cancel()
	t.mu.Lock()
	s := t.sessionLocked(f)
	t.mu.Unlock()
	err := errFrameMoves
	if s != nil {
		_, err = devtools.Do(ctx, s, runtime.Evaluate, runtime.EvaluateParams{Expression: "0", Silent: ptr(true)})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f.asked = false
	f.slow = f.slow && err != nil
}

// groups numbers what Chrome is to hold, and to let go of together.
var groups atomic.Int64

// stranger is a frame or element that a page script points at.
type stranger struct {
	object devtools.Reply[runtime.EvaluateResult]
	node   devtools.Reply[dom.DescribeNodeResult]
	id     runtime.RemoteObjectID
}

// strangers asks Chrome about the first n elements that a function of the page
// script gives, all at once. The elements are held until release is called.
func (w world) strangers(ctx context.Context, function inpage.Function, n int) (list []stranger, group string, release func()) {
	group = "handrail-" + strconv.FormatInt(groups.Add(1), 10)
	list = make([]stranger, n)
	for i := range list {
		list[i].object = devtools.Start(ctx, w.s, runtime.Evaluate, runtime.EvaluateParams{
			Expression: function.Call(strconv.Itoa(i)), ContextID: w.id, ObjectGroup: group, Silent: ptr(true),
		})
	}
	for i := range list {
		res, err := list[i].object.Get(ctx)
		if err != nil || res.Result == nil || res.Result.ObjectID == "" {
			continue
		}
		list[i].id = res.Result.ObjectID
		list[i].node = devtools.Start(ctx, w.s, dom.DescribeNode, dom.DescribeNodeParams{ObjectID: list[i].id})
	}
	return list, group, func() {
		devtools.Start(ctx, w.s, runtime.ReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: group})
	}
}

// meet learns which frames the strangers in a document are. The identifiers are in
// the strangers' order, empty for one that could not be learnt.
func (t *tab) meet(ctx context.Context, w world, n int) []cdp.FrameID {
	ids := make([]cdp.FrameID, n)
	list, _, release := w.strangers(ctx, inpage.StrangerAt, min(n, maxFrames))
	defer release()
	var told []*devtools.Pending
	for i, s := range list {
		if s.id == "" {
			continue
		}
		res, err := s.node.Get(ctx)
		if err != nil || res.Node == nil || res.Node.FrameID == "" {
			continue
		}
		ids[i] = res.Node.FrameID
		told = append(told, devtools.Start(ctx, w.s, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
			FunctionDeclaration: "function(id) { " + inpage.Own.Call("this", "id") + "; }", ObjectID: s.id,
			Arguments: []*runtime.CallArgument{{Value: []byte(strconv.Quote(string(ids[i])))}}, Silent: ptr(true),
		}).Pending)
	}
	for _, p := range told {
		p.Wait(ctx)
	}
	return ids
}

// frame returns the foreign frame by its identifier, seen from the page script of
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

// framesBelow returns the foreign frames shown in a document, in its order.
func (t *tab) framesBelow(ctx context.Context, parent *frame) ([]*frame, error) {
	var answer struct {
		Slots     []cdp.FrameID `json:"slots"`
		Strangers int           `json:"strangers"`
	}
	w, err := t.askAny(ctx, parent, inpage.ForeignFrames, nil, &answer)
	if err != nil {
		return nil, err
	}
	return t.slots(ctx, w, answer.Slots, answer.Strangers), nil
}

// slots returns the frames that a page script named, after meeting those it could
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
func (t *tab) askAny(ctx context.Context, f *frame, function inpage.Function, args, into any) (world, error) {
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

// byPrefix returns the foreign frame whose document issued refs of that prefix.
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
		on = on || !s.ready || s.coming
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
	s := t.frames.sessions[f.id]
	return t.frames.loading[f.id] || s != nil && s.coming && !s.crashed
}

// awaits reports whether a frame that showed nothing is on its way, and not only so still; the
// channel is that of the next change.
func (t *tab) awaits(f *frame) (bool, <-chan struct{}) {
	on := t.isLoading(f)
	t.mu.Lock()
	defer t.mu.Unlock()
	return on && !f.empty, t.changed
}

// gaveUp notes that a frame was waited for in vain: until it has another document, it is not
// waited for again.
func (t *tab) gaveUp(f *frame) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.empty = true
}

// crashedFrame reports that the process of a frame ended.
func (t *tab) crashedFrame(f *frame) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.processLocked(f)
	return s != nil && s.crashed
}
