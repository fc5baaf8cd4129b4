package dispatch

import (
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/route"
)

// maxPossible bounds what is remembered; what lies beyond is evaluated each time.
const maxPossible = 4096

// possibles remembers what policy says of tools before there is a call. It is no guess: policy sees
// the caller, what its lane is tainted with, the tool, how far drift raises its risk, the node as
// the roster has it, and the time in whole seconds, and nothing else. So an answer holds until one
// of those is another.
type possibles struct {
	mu   sync.Mutex // above what follows
	key  cacheKey
	seen map[possible]policy.Decision
}

// cacheKey is what all answers that are remembered at a time have in common.
type cacheKey struct {
	engine *policy.Engine
	roster *route.Node // the first of the snapshot, which is made anew at each change
	second int64
}

type possible struct {
	caller Caller
	taint  string
	tool   capabilities.ToolID
	node   capabilities.NodeID
	raised int // levels, by drift
}

// listing is one list of tools on its way: one roster, one moment.
type listing struct {
	d      *Dispatcher
	caller Caller
	taint  []string
	key    string // taint as a word
	at     time.Time
	common cacheKey
}

// list begins a listing for a caller over a snapshot.
func (d *Dispatcher) list(engine *policy.Engine, caller Caller, roster []route.Node) *listing {
	l := &listing{d: d, caller: caller, taint: d.taints.Of(caller.Lane, caller.Principal), at: time.Now()}
	l.key = strings.Join(l.taint, "\n")
	l.common = cacheKey{engine: engine, second: l.at.Unix()}
	if len(roster) > 0 {
		l.common.roster = &roster[0]
	}
	return l
}

// possible is policy's word on a tool on node n of the listing's snapshot; n is nil for a
// tool of the gateway.
func (l *listing) possible(desc *catalog.Descriptor, n *route.Node) policy.Decision {
	key := possible{caller: l.caller, taint: l.key, tool: desc.Tool}
	if n != nil {
		key.node, key.raised = n.ID, l.d.opts.Drift.Raised(desc.Tool, n.ID)
	}
	c := &l.d.possibles
	c.mu.Lock()
	d, ok := c.seen[key]
	same := c.key == l.common
	c.mu.Unlock()
	if ok && same {
		return d
	}
	r := l.caller.policyRequest(desc, n)
	r.Taint, r.Time, r.Raised = l.taint, l.at, key.raised
	d = l.common.engine.Possible(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.key != l.common {
		c.key, c.seen = l.common, make(map[possible]policy.Decision)
	}
	if len(c.seen) < maxPossible {
		c.seen[key] = d
	}
	return d
}
