package trace

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Call is how a call went, as far as a trace says it.
type Call struct {
	Place
	ID      capabilities.CallID
	Inside  capabilities.CallID // the call that made it; empty: none did
	Repeats capabilities.CallID // the call whose outcome it got; empty: its own
	Tool    capabilities.ToolID // empty: there is no such tool
	Node    capabilities.NodeID // empty: the gateway carried it out, or nobody
	Surface string
	Effect  string // of the decision; empty: it did not come so far
	Status  capabilities.Status
	Code    capabilities.Code

	Came  time.Time // when its surface began to read it; zero: not known
	Began time.Time // when it came to dispatch
	Took  time.Duration
	// Hops are when the hops ended, in µs since Began, by capabilities.Hop; 0: it did not come there,
	// or the hop was another's.
	Hops [capabilities.HopAnswer]int64
	// Asked is when a person was first asked, since Began, and Waited how long people took; 0: nobody
	// was.
	Asked, Waited time.Duration
}

// The kinds of spans, in the numbers of OTLP.
const (
	kindInternal = 1
	kindServer   = 2
	kindClient   = 3
)

// span is one of them as it is told.
type span struct {
	id, above  SpanID
	name       string
	kind       uint64
	start, end time.Time
	failed     capabilities.Code // empty: it did not fail
	onNode     bool              // the device's work, by its own word
	attrs      []attr
}

type attr struct{ key, value string }

// Attributes that several spans have.
const (
	attrTool = "gen_ai.tool.name"
	attrNode = "handrail.node.id"
)

// spanConsent is the span of what people take to answer.
const spanConsent = "consent"

// steps are the hops that have a span of the gateway's each, in their order. Send and what the
// device does are told by one span of each side.
var steps = [...]capabilities.Hop{
	capabilities.HopResolve, capabilities.HopPlace, capabilities.HopDecide, capabilities.HopDedupe, capabilities.HopPermit,
	capabilities.HopCommit,
}

// spans makes the spans of a call, its own first.
func (c *Call) spans() []span {
	m := maker{Call: c, all: make([]span, 0, 12), end: c.Took.Microseconds()}
	whole := span{
		id: c.Span, above: c.Above, name: "execute_tool", kind: kindServer, start: c.Began, end: m.at(m.end), failed: c.failed(),
		attrs: c.attrs(),
	}
	if c.Tool != "" {
		whole.name += " " + string(c.Tool)
	}
	early := !c.Came.IsZero() && c.Came.Before(c.Began)
	if early {
		whole.start = c.Came
	}
	m.all = append(m.all, whole)
	if early {
		m.add(span{name: capabilities.HopFront.String(), kind: kindInternal, start: c.Came, end: c.Began})
	}
	if done, went := m.admitted(); went {
		m.carriedOut(done)
	}
	return m.all
}

// maker makes the spans of one call.
type maker struct {
	*Call
	all []span
	end int64 // of the call, in µs since it began
}

// at is a moment of the call, by the gateway's clock.
func (m *maker) at(us int64) time.Time { return m.Began.Add(time.Duration(us) * time.Microsecond) }

// add adds a span below another, or below the call's own.
func (m *maker) add(s span) SpanID {
	s.id = newSpanID()
	if s.above == (SpanID{}) {
		s.above = m.Span
	}
	if s.end.Before(s.start) {
		s.end = s.start
	}
	m.all = append(m.all, s)
	return s.id
}

// admitted adds the hops up to the commit, and says when that was; false: the call did not come so
// far. A hop that was not passed is the one where it ended, but for those that it went round.
func (m *maker) admitted() (done int64, went bool) {
	last := -1
	for i, hop := range steps {
		if m.Hops[hop] > 0 {
			last = i
		}
	}
	for i, hop := range steps {
		us := m.Hops[hop]
		if us == 0 && i < last {
			continue
		}
		s := span{name: hop.String(), kind: kindInternal, start: m.at(done), end: m.at(us)}
		if us == 0 {
			if m.Repeats != "" {
				return 0, false
			}
			s.end, s.failed = m.at(m.end), m.failed()
		}
		if hop == capabilities.HopDecide && m.Effect != "" {
			s.attrs = []attr{{"handrail.decision", m.Effect}}
		}
		id := m.add(s)
		if hop == capabilities.HopPermit && m.Waited > 0 {
			asked := m.Began.Add(m.Asked)
			m.add(span{above: id, name: spanConsent, kind: kindInternal, start: asked, end: asked.Add(m.Waited), failed: s.failed})
		}
		if us == 0 {
			return 0, false
		}
		done = us
	}
	return done, true
}

// carriedOut adds what follows the commit.
func (m *maker) carriedOut(committed int64) {
	ran, recorded := m.Hops[capabilities.HopRun], m.Hops[capabilities.HopRecord]
	if recorded == 0 {
		recorded = m.end
	}
	if m.Node == "" {
		m.add(span{name: capabilities.HopRun.String(), kind: kindInternal, start: m.at(committed), end: m.at(recorded), failed: m.failed()})
		return
	}
	sent := span{
		name: capabilities.HopSend.String(), kind: kindClient, start: m.at(committed), end: m.at(recorded), failed: m.failed(),
		attrs: []attr{{attrNode, string(m.Node)}},
	}
	if ran == 0 { // the device did not answer
		m.add(sent)
		return
	}
	sent.end = m.at(ran)
	m.add(span{
		above: m.add(sent), name: capabilities.HopRun.String(), kind: kindServer, start: m.at(m.Hops[capabilities.HopGuard]),
		end: m.at(ran), failed: m.failed(), onNode: true, attrs: []attr{{attrTool, string(m.Tool)}},
	})
	m.add(span{name: capabilities.HopRecord.String(), kind: kindInternal, start: m.at(ran), end: m.at(recorded)})
}

// failed is why the call failed; a call that waits for a person has not.
func (c *Call) failed() capabilities.Code {
	if c.Status == capabilities.StatusPending {
		return ""
	}
	return c.Code
}

// attrs are those of the call's own span. Names that are not ours are OpenTelemetry's conventions
// for tools that models call.
func (c *Call) attrs() []attr {
	list := []attr{{"gen_ai.operation.name", "execute_tool"}}
	for _, a := range [...]attr{
		{attrTool, string(c.Tool)}, {"gen_ai.tool.call.id", string(c.ID)}, {"handrail.surface", c.Surface},
		{attrNode, string(c.Node)}, {"handrail.status", string(c.Status)}, {"handrail.parent_call.id", string(c.Inside)},
		{"handrail.repeated_call.id", string(c.Repeats)},
	} {
		if a.value != "" {
			list = append(list, a)
		}
	}
	return list
}
