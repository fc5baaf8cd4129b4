package browser

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// call is one invocation on its way.
type call struct {
	//lint:ignore containedctx one call, as a value
	ctx context.Context // ends with the deadline, the tab, or a dialog that holds the page up
	//lint:ignore containedctx one call, as a value
	whole context.Context // without the dialog: for what only Chrome itself has to answer
	//lint:ignore containedctx one call, as a value
	outer    context.Context // without the tab
	h        *Handler
	lane     *lane
	inv      capabilities.Invocation
	tab      *laneTab // once the tool chose it
	began    time.Time
	unbind   func()            // ends the bond of ctx to the tab
	release  func()            // gives the lane's order to the next call; idempotent
	probe    *devtools.Pending // answered when the page has done the call's synchronous part
	standing standing          // what was still open when a page, or what an action began, was no longer waited for
	wants    string            // the snapshot the caller wants with the result: "", none, delta or full
	room     int               // how much of an expression's value is given, in characters
	script   bool              // a step of a caller's script, which reads what it returns
	hid      []string          // parts of the answer that something typed in secret was in

	action // that the call performs, if it performs one
}

func newCall(ctx context.Context, h *Handler, l *lane, inv capabilities.Invocation, leave func()) *call {
	var once sync.Once
	return &call{
		began: time.Now(), ctx: ctx, whole: ctx, outer: ctx, h: h, lane: l, inv: inv, release: func() { once.Do(leave) }, unbind: func() {},
	}
}

// args decodes the canonical arguments, which the gateway has validated.
func (c *call) args(into any) error {
	if err := json.Unmarshal(c.inv.Args, into); err != nil {
		return capabilities.Wrap(capabilities.CodeInvalidArguments, err, "The arguments do not have the expected shape.")
	}
	return nil
}

// page returns the lane's tab, ready to be worked with, and binds the call to its
// life.
func (c *call) page() error {
	t, err := c.lane.current(c.ctx, false)
	if err != nil {
		return err
	}
	c.bindTo(t)
	if d := c.stopped(); d != nil {
		return d.refusal()
	}
	if err := c.heldUpByOther(); err != nil {
		return err
	}
	return t.settle(c.ctx)
}

// bindTo makes the call end with the tab, and its waits for the page with a
// dialog.
func (c *call) bindTo(t *laneTab) {
	c.tab = t
	c.unbind()
	whole, unbind := bind(c.outer, t.life)
	ctx, release := bind(whole, t.freedom())
	c.whole, c.ctx = whole, ctx
	c.unbind = func() { release(); unbind() }
}

// carryOut runs the call's tool and words its failure. It is the one way out of every
// answer, a script's steps' too: what was typed in secret is taken out here.
func (c *call) carryOut(run tool) (capabilities.Output, error) {
	out, err := run(c)
	if err != nil && c.fired {
		out, err = c.cutShort(err)
	}
	if err == nil {
		if !c.script {
			c.tellNews(&out)
			c.tellRules(&out)
		}
		c.hide(&out)
		return out, nil
	}
	e := explain(c.ctx, err)
	if e == errPageHangs && c.tab != nil && c.tab.unanswered() {
		e = errOnItsWay
	}
	if c.tab != nil && (c.outer.Err() != nil || e == errPageHangs) {
		c.h.stopHungScript(c)
	} else if c.tab == nil && e == errPageHangs {
		e = errNoBrowser
	}
	if e.Code == capabilities.CodeBrowserCrashed {
		c.lane.reported(c.tab, e)
	}
	c.h.log.Debug("browser.call.failed", "call", c.inv.Call, "capability", c.inv.Capability, "code", e.Code)
	return capabilities.Output{}, c.lane.hider().refusal(e)
}

// stopHungScript frees a page whose script never ends, after its call gave up. Only a
// script that is this call's to stop is stopped: terminating an idle page would
// hit its next script, and another call's script is not ours.
func (h *Handler) stopHungScript(c *call) {
	if c.probe != nil && c.probe.Answered() {
		return // it waits for a promise, or for nothing: the page is free
	}
	if now, _ := c.tab.look(); now.open != nil || c.probe == nil && c.tab.unanswered() {
		return // it waits for the answer to its dialog, or for a server's
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	t, s, release := c.tab, c.tab.s, c.release
	if c.in.s != nil {
		s = c.in.s // what a frame's script holds up is that frame
	}
	c.release = func() {} // the next call has to wait until the page is free again
	h.wg.Go(func() {
		defer release()
		if c.probe == nil && t.ping(s, 250*time.Millisecond) || t.life.Err() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.life, 2*time.Second)
		defer cancel()
		devtools.Do(ctx, s, runtime.TerminateExecution, cdp.Empty{})
		t.ping(s, 2*time.Second) // takes the blow if the script ended by itself meanwhile
	})
}
