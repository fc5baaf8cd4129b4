package browser

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// Bounds of waiting.
const (
	// watchWindow is how long one question to a page waits for a change, and so how
	// long the page script may go on for a call that was given up.
	watchWindow = 5 * time.Second
	// functionEvery is how often the caller's function is asked: nothing tells when
	// its value changes.
	functionEvery = 100 * time.Millisecond
	// shadowsEvery is how often closed shadow roots are looked for while a page is
	// watched: a page that makes one tells nobody.
	shadowsEvery = time.Second
)

// waitArgs are the conditions; all that are given have to hold at once.
type waitArgs struct {
	Text      string `json:"text"`
	Gone      string `json:"text_gone"`
	Selector  string `json:"selector"`
	State     string `json:"state"`
	URL       string `json:"url"`
	LoadState string `json:"load_state"`
	Function  string `json:"function"`
	Timeout   int64  `json:"timeout_ms"`
}

// waitFor carries out tyrum.browser.wait-for. It does not hold the lane: other
// calls may bring about what is waited for. A new document is waited in as the
// old one was. Not in time is an answer, not an error.
func waitFor(c *call) (capabilities.Output, error) {
	args := waitArgs{State: "visible", Timeout: 30_000}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if args.Function != "" {
		if err := c.inv.BeforeLook(); err != nil {
			return capabilities.Output{}, err
		}
	}
	if args.Text+args.Gone+args.Selector+args.URL+args.LoadState+args.Function == "" {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments,
			"Give at least one of: text, text_gone, selector, url, load_state, function.")
	}
	began := time.Now()
	timeout := time.Duration(args.Timeout) * time.Millisecond
	t, err := c.lane.current(c.ctx, false)
	for err == errNotShown && time.Since(began) < timeout {
		t, err = c.lane.current(c.ctx, false)
	}
	if err != nil {
		return capabilities.Output{}, err
	}
	c.bindTo(t)
	if d := c.stopped(); d != nil {
		return capabilities.Output{}, d.refusal()
	}
	c.release()
	within := func(d time.Duration) time.Time {
		end := began.Add(d)
		if deadline, ok := c.ctx.Deadline(); ok && deadline.Add(-250*time.Millisecond).Before(end) {
			end = deadline.Add(-250 * time.Millisecond)
		}
		return end
	}
	first := max(timeout, boundToCome)
	if t.unanswered() {
		first = timeout // the page shown cannot be asked
	}
	missing, err := c.await(args, within(timeout), within(first))
	if err != nil {
		return capabilities.Output{}, err
	}
	now, _ := t.look()
	result := struct {
		Matched bool   `json:"matched"`
		Elapsed int64  `json:"elapsed_ms"`
		URL     string `json:"url,omitempty"`
	}{missing == "", time.Since(began).Milliseconds(), record.PlainURL(now.url)}
	out := capabilities.Output{Result: result, Untrusted: true, Evidence: "all that was waited for holds"}
	if missing != "" {
		out.Evidence = "not in time: " + missing
		if t.unanswered() {
			out.Evidence += "; a navigation is on its way, and its server has not answered yet"
		}
	}
	return out, nil
}

// await waits until all conditions hold, or until stop; then it says which did
// not. However soon that is, the page is asked once and has until first to answer.
func (c *call) await(args waitArgs, stop, first time.Time) (missing string, err error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	t := c.tab
	var seen *watch
	if args.Text != "" || args.Gone != "" || args.Selector != "" {
		seen = c.watch(ctx, args)
		defer seen.wait.Wait()
		defer cancel()
	}
	end := time.NewTimer(time.Until(stop))
	defer end.Stop()
	looked, patience := seen == nil, first
	for late := false; ; {
		now, changed := t.look()
		var news <-chan struct{}
		var recheck time.Duration // without an event
		missing = ""
		if args.URL != "" && !matchURL(args.URL, now.url) {
			missing = "the URL"
		}
		if ok, left := t.reached(now, args.LoadState); !ok {
			missing, recheck = "the load state", left
		}
		if seen != nil {
			var ok, all bool
			if ok, all, news, err = seen.holds(args, now.domReady); err != nil {
				return "", err
			} else if !ok {
				missing = "what the page is to show"
			}
			looked = looked || all
		}
		if missing == "" && args.Function != "" {
			ok, why, err := c.truth(ctx, args.Function, stop, patience)
			patience = stop
			if err != nil {
				return "", err
			}
			if !ok {
				missing, recheck = "the function"+why, functionEvery
			}
		}
		if missing == "" || late && (looked || !time.Now().Before(first)) {
			return missing, nil
		}
		var again <-chan time.Time
		if recheck > 0 {
			again = time.After(recheck)
		}
		select {
		case <-changed:
		case <-news:
		case <-again:
		case <-end.C:
			late = true // one last look
			end.Reset(time.Until(first))
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// matchURL compares an address with a part of it, or with a pattern in which *
// stands for anything.
func matchURL(want, url string) bool {
	if !strings.Contains(want, "*") {
		return strings.Contains(url, want)
	}
	parts := strings.Split(want, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	ok, err := regexp.MatchString("(?s)^"+strings.Join(parts, ".*")+"$", url)
	return err == nil && ok
}

// truth asks the caller's function, which must not change the page. A function that throws
// because the page is not there yet is not true yet; why tells of it. The function may run
// until stop, the page answer until patience ends.
func (c *call) truth(ctx context.Context, expression string, stop, patience time.Time) (ok bool, why string, err error) {
	if functionPattern.MatchString(expression) {
		expression = "(" + expression + "\n)()"
	}
	bound := min(max(time.Until(stop), 100*time.Millisecond), 2*time.Second)
	soft, cancel := context.WithDeadline(ctx, patience.Add(200*time.Millisecond))
	defer cancel()
	res, err := devtools.Do(soft, c.tab.s, runtime.Evaluate, runtime.EvaluateParams{
		Expression: expression, ThrowOnSideEffect: ptr(true), Silent: ptr(true), Timeout: runtime.TimeDelta(bound.Milliseconds()),
	})
	if contextLost(err) {
		return false, ", whose page left", nil
	}
	var refused *devtools.ProtocolError
	if errors.As(err, &refused) {
		return false, ", which ran too long and was stopped", nil
	}
	if err != nil && ctx.Err() == nil && soft.Err() != nil {
		return false, ", which the page did not answer", nil
	}
	if err != nil {
		return false, "", err
	}
	if e := res.ExceptionDetails; e != nil {
		text := e.Text
		if e.Exception != nil {
			text = e.Exception.Description
		}
		switch {
		case strings.Contains(text, "Possible side-effect"):
			return false, "", capabilities.Errorf(capabilities.CodeScriptFailed, "The function could change the page, so it was not run.").
				WithHint("Give an expression that only reads, or use tool.browser.evaluate.")
		case strings.HasPrefix(text, "SyntaxError"):
			return false, "", scriptError(e)
		}
		switch kind, _, _ := strings.Cut(text, ":"); kind { // the rest is the page's own text
		case "TypeError", "ReferenceError", "RangeError":
			return false, ", which throws a " + kind, nil
		}
		return false, ", which throws", nil
	}
	o := res.Result
	switch {
	case o == nil || o.Type == runtime.RemoteObjectTypeUndefined || o.Subtype == runtime.RemoteObjectSubtypeNull:
		return false, "", nil
	case o.Subtype == runtime.RemoteObjectSubtypePromise:
		return false, "", capabilities.Errorf(capabilities.CodeScriptFailed, "The function returns a promise, which is never awaited here.").
			WithHint("Give an expression whose value becomes true.")
	case o.UnserializableValue != "":
		return o.UnserializableValue != "NaN" && o.UnserializableValue != "-0" && o.UnserializableValue != "0n", "", nil
	}
	switch string(o.Value) {
	case "false", "0", `""`:
		return false, "", nil
	}
	return true, "", nil
}

// shown is what a document shows of the conditions.
type shown struct {
	Text     bool `json:"text"`
	Gone     bool `json:"gone"`
	Attached bool `json:"attached"`
	Visible  bool `json:"visible"`
}

// watch follows what the tab's document and its foreign frames show. Each is asked
// by a goroutine of its own, which waits in the page for the next change.
type watch struct {
	c        *call
	question watchQuestion
	wait     sync.WaitGroup

	mu      sync.Mutex
	known   map[*frame]*shown // nil: asked, no answer yet; the key nil is the tab's own document
	met     bool              // the frames were looked for
	since   time.Time         // when the latest frame was met
	fault   error
	changed chan struct{}
}

type watchQuestion struct {
	Text     string `json:"text,omitzero"`
	Gone     string `json:"gone,omitzero"`
	Selector string `json:"selector,omitzero"`
	Known    *shown `json:"known,omitzero"`
	Within   int64  `json:"within"`
}

func (c *call) watch(ctx context.Context, args waitArgs) *watch {
	w := &watch{
		c: c, question: watchQuestion{Text: args.Text, Gone: args.Gone, Selector: args.Selector, Within: watchWindow.Milliseconds()},
		known: map[*frame]*shown{}, changed: make(chan struct{}),
	}
	w.add(ctx, nil)
	w.wait.Go(func() { w.meet(ctx) })
	return w
}

// meet keeps looking for foreign frames whenever a document of a frame came.
func (w *watch) meet(ctx context.Context) {
	t := w.c.tab
	var searched time.Time
	for documents := -1; ctx.Err() == nil; {
		now, changed := t.look()
		if n := now.documents + now.frameDocuments; n != documents && now.domReady {
			documents = n
			found := map[*frame]bool{nil: true}
			err := t.everyFrame(ctx, func(f *frame) bool {
				found[f] = true
				w.add(ctx, f)
				return false
			})
			if err != nil {
				documents = -1
				t.pause(ctx, changed, nil)
			} else {
				w.change(func() {
					w.met = true
					for f := range maps.Keys(w.known) {
						if !found[f] {
							delete(w.known, f)
						}
					}
				})
			}
			continue
		}
		if now.domReady && time.Since(searched) > shadowsEvery {
			searched = time.Now()
			w.searchShadows(ctx)
			continue
		}
		select {
		case <-changed:
		case <-time.After(shadowsEvery):
		case <-ctx.Done():
		}
	}
}

// searchShadows opens what is new of closed shadow roots, so that the page script
// looks into them as well.
func (w *watch) searchShadows(ctx context.Context) {
	w.mu.Lock()
	frames := slices.Collect(maps.Keys(w.known))
	w.mu.Unlock()
	for _, f := range frames {
		w.c.tab.searchShadows(ctx, f)
	}
}

func (w *watch) change(f func()) {
	w.mu.Lock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
	w.mu.Unlock()
}

// add follows one more document.
func (w *watch) add(ctx context.Context, f *frame) {
	w.mu.Lock()
	_, followed := w.known[f]
	if !followed {
		w.known[f], w.since = nil, time.Now()
	}
	w.mu.Unlock()
	if !followed {
		w.wait.Go(func() { w.follow(ctx, f) })
	}
}

// follow asks one document again and again. A document that is replaced is
// nothing known until the new one answers.
func (w *watch) follow(ctx context.Context, f *frame) {
	t := w.c.tab
	question := w.question
	for ctx.Err() == nil {
		_, changed := t.look()
		var in world
		var err error
		if f == nil {
			in, err = t.inWorld(ctx)
		} else {
			in, err = t.inFrame(ctx, f)
		}
		var now shown
		if err == nil {
			err = in.put(ctx, inpage.Changes, question).get(ctx, &now)
		}
		w.mu.Lock()
		_, followed := w.known[f]
		w.mu.Unlock()
		var coded *capabilities.Error
		switch {
		case !followed || ctx.Err() != nil:
			return
		case err == nil:
			question.Known = &now
			w.change(func() { w.known[f] = question.Known })
			continue
		case errors.As(err, &coded) && coded.Code == capabilities.CodeInvalidArguments:
			w.change(func() { w.fault = err })
			return
		case f == nil:
			t.forgetWorld(in)
		default:
			t.forgetWorldOf(f, in)
		}
		question.Known = nil
		w.change(func() {
			if _, followed := w.known[f]; followed {
				w.known[f] = nil
			}
		})
		t.pause(ctx, changed, nil)
	}
}

// holds reports whether what is shown fulfils the conditions. A thing that shall be absent
// must be so in every document; one of a frame that does not answer is passed over
// after a while. answered: each that can be looked into yet has told what it shows.
func (w *watch) holds(args waitArgs, ready bool) (ok, answered bool, changed <-chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all shown
	unknown := w.known[nil] == nil || len(w.known) > 1 && time.Since(w.since) < frameWait
	answered = w.known[nil] != nil
	for _, s := range w.known {
		if s == nil {
			answered = answered && !unknown
			continue
		}
		all.Text, all.Gone = all.Text || s.Text, all.Gone || s.Gone
		all.Attached, all.Visible = all.Attached || s.Attached, all.Visible || s.Visible
	}
	waiting := !answered || !w.met
	ok = (args.Text == "" || all.Text) && (args.Gone == "" || !all.Gone && !waiting)
	if args.Selector != "" {
		switch args.State {
		case "hidden":
			ok = ok && !all.Visible && !waiting
		case "attached":
			ok = ok && all.Attached
		default:
			ok = ok && all.Visible
		}
	}
	return ok, answered && (w.met || !ready), w.changed, w.fault
}
