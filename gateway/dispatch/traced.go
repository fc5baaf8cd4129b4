package dispatch

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/trace"
)

// traced is what a trace says of a call beside the rest of its trail.
type traced struct {
	caller trace.Context // where the caller stands; zero: in no trace
	place  trace.Place   // zero: nobody is told
	came   time.Time     // when its surface began to read it
	asked  time.Duration // when a person was first asked, since it began
	effect string        // of the first decision
}

func (t *traced) judged(v *policy.Decision) {
	if t.effect == "" {
		t.effect = v.Effect.String()
	}
}

// enters puts the call at its place in a trace, where there is somebody to be told.
func (d *Dispatcher) enters(t *trail) {
	if d.opts.Traces != nil {
		t.traced.place = trace.Below(t.traced.caller)
	}
}

// onward is where calls, and the tools of other programs, stand that this call leads to: below it,
// or below its caller where nobody is told of it; zero: in no trace.
func (t *traced) onward() trace.Context {
	if t.place.Exists() {
		return t.place.Context
	}
	return t.caller
}

// traces tells how a call ended; repeats is the call whose outcome it got, if it is another's.
func (d *Dispatcher) traces(t *trail, r *capabilities.Result, repeats capabilities.CallID) {
	if d.opts.Traces == nil || !t.traced.place.Exists() {
		return
	}
	c := trace.Call{
		Place: t.traced.place, ID: t.id, Inside: t.parent, Repeats: repeats, Node: t.node, Surface: t.request.Surface, Effect: t.traced.effect,
		Status: r.Status, Code: r.Code, Came: t.traced.came, Began: t.began, Took: time.Since(t.began), Hops: t.hops, Asked: t.traced.asked,
		Waited: t.waited,
	}
	if t.known { // a name out of the air may be anything
		c.Tool = t.tool
	}
	d.opts.Traces.End(c)
}
