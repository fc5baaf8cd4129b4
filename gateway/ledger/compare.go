package ledger

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// NodeEntry is one entry of a node's own log, as far as both sides know of it. Its
// chain has been checked.
type NodeEntry struct {
	Seq       uint64
	TimeUS    int64
	Hash      chain.Hash
	Kind      NodeKind
	Call      capabilities.CallID
	Tool      capabilities.ToolID
	Lane      capabilities.LaneID
	Principal capabilities.PrincipalID
	Envelope  string // hex
	Status    capabilities.Status
	Code      capabilities.Code
	Effect    capabilities.Effect
}

// NodeKind says what an entry of a node's log records.
type NodeKind int

// The kinds that a comparison looks at.
const (
	NodeOther NodeKind = iota
	NodeStarted
	NodeFinished
	NodeRefused
	// NodeGap: what the node recorded in the moments before may be lost, as by a power cut.
	NodeGap
)

// NodeLog is a node's own log.
type NodeLog struct {
	Node    capabilities.NodeID
	First   uint64     // entry; 0 if there is none
	Before  chain.Hash // what the first entry builds on
	Entries []NodeEntry
	// Seen are the latest heads of gateways' ledgers that the node keeps.
	Seen []chain.Head
	// Taken is when the log was read, by the node's clock.
	Taken time.Time
	// Live says that it was read here, right after the gateway's: no clock can be
	// off then, and nothing can be missing for being too new.
	Live bool
	// Refresh, unless nil, reads the log once more, after the gateway's ledger was:
	// so that a log that grows meanwhile has all that the ledger has.
	Refresh func() (NodeLog, error)
}

// Difference is one thing that the two ledgers do not agree about.
type Difference struct {
	Kind string              `json:"kind"` // one of the Differs constants
	Call capabilities.CallID `json:"call_id,omitempty"`
	Text string              `json:"text"` // one plain sentence
}

// The kinds of difference.
const (
	DiffersLedger    = "gateway_ledger"     // the gateway's ledger does not verify
	DiffersCutShort  = "node_log_cut_short" // the node's log lacks what the gateway has seen of it
	DiffersRewritten = "node_log_rewritten" // the node's log is not the one the gateway has seen
	DiffersNode      = "missing_on_node"
	DiffersGateway   = "missing_on_gateway"
	DiffersFacts     = "facts"   // tool, lane, principal or envelope
	DiffersOutcome   = "outcome" // how it ended
	DiffersRepeated  = "repeated"
)

// Comparison is the outcome of Compare.
type Comparison struct {
	Chain   string              `json:"chain"`
	Node    capabilities.NodeID `json:"node_id"`
	Calls   int                 `json:"calls"`           // that both ledgers have
	Refused int                 `json:"refused_by_node"` // as both say
	// that the node neither ran nor has as refused, and that did not run as the gateway has it
	GatewayOnly int `json:"gateway_only"`
	NodeEntries int `json:"node_entries"`
	// Witnessed is up to which entry of the node's log the gateway has seen it;
	// SeenByNode the same the other way round. Beyond, only calls are compared.
	Witnessed  uint64 `json:"witnessed_seq"`
	SeenByNode uint64 `json:"seen_by_node_seq"`
	// Unsettled are calls that one side may not have had yet when it was read.
	Unsettled   int          `json:"unsettled"`
	Pruned      int          `json:"pruned"` // calls that one side keeps no longer
	Notes       []string     `json:"notes"`  // what no difference explains, such as an answer that was lost on its way
	Differences []Difference `json:"differences"`
	Pinned      bool         `json:"pinned"`
}

// clockMargin is how far the clocks of two machines may be apart before an entry
// that is missing for being too new counts as missing.
const clockMargin = 2 * time.Minute

// maxNotes bounds the notes and differences that are spelled out.
const maxNotes = 1000

// gatewayCall is a call as the gateway's ledger has it.
type gatewayCall struct {
	tool       capabilities.ToolID
	lane       capabilities.LaneID
	principal  capabilities.PrincipalID
	envelope   string
	dispatched uint64 // sequence number; 0: never
	at         int64  // of the dispatch, µs
	dispatches int
	ended      bool
	end        packet.End
	endedAt    int64 // µs
}

// Compare holds an export of the gateway's ledger against a node's own log and
// names every difference. Neither side is believed more than the other. It fails
// only if an input cannot be read as what it should be: an export that was
// tampered with is a difference.
func Compare(export io.Reader, pins Pins, log NodeLog) (Comparison, error) {
	c := comparer{log: log, calls: map[capabilities.CallID]*gatewayCall{}}
	c.out = Comparison{Node: log.Node, NodeEntries: len(log.Entries), Notes: []string{}, Differences: []Difference{}}
	in := bufio.NewReaderSize(export, 64<<10)
	first, _ := in.Peek(64 << 10)
	line, _, _ := strings.Cut(string(first), "\n")
	var header struct {
		Chain string `json:"chain"`
	}
	_ = json.Unmarshal([]byte(line), &header) // Verify says what is wrong with it
	for _, h := range log.Seen {
		if h.Chain == header.Chain {
			pins.Heads = append(slices.Clone(pins.Heads), h)
			c.out.SeenByNode = h.Seq
		}
	}
	pins.onPacket, pins.onWitness = c.packet, c.witness
	report, err := Verify(in, pins)
	if err != nil {
		e := capabilities.AsError(err)
		if e.Code != capabilities.CodeLedgerCorrupt {
			return Comparison{}, err
		}
		c.out.Chain = header.Chain
		c.differ(DiffersLedger, "", "The gateway's ledger does not verify: %s", e.PublicMessage())
		return c.out, nil
	}
	c.out.Chain, c.out.Pinned = report.Chain, report.Pinned
	c.report = report
	if log.Refresh != nil {
		if c.log, err = log.Refresh(); err != nil {
			return Comparison{}, err
		}
		c.out.NodeEntries = len(c.log.Entries)
	}
	c.heads()
	c.compare()
	return c.out, nil
}

type comparer struct {
	log    NodeLog
	out    Comparison
	report Report
	calls  map[capabilities.CallID]*gatewayCall
	order  []capabilities.CallID
	seen   *chain.Head // of the node's log, as the gateway keeps it
	gaps   []gap
}

// gap is when the node may have recorded what its log has no longer, by its clock: between the
// last entry that it has and the start that found the gap, µs.
type gap struct{ from, until int64 }

// lost reports whether an entry that the node made at some time may be in a gap of its log.
func (c *comparer) lost(us int64) bool {
	margin := c.margin().Microseconds()
	return slices.ContainsFunc(c.gaps, func(g gap) bool { return us >= g.from-margin && us <= g.until+margin })
}

func (c *comparer) differ(kind string, call capabilities.CallID, format string, args ...any) {
	if len(c.out.Differences) < maxNotes {
		c.out.Differences = append(c.out.Differences, Difference{kind, call, fmt.Sprintf(format, args...)})
	}
}

func (c *comparer) note(format string, args ...any) {
	if len(c.out.Notes) < maxNotes {
		c.out.Notes = append(c.out.Notes, fmt.Sprintf(format, args...))
	}
}

func (c *comparer) witness(w *chain.Witness) {
	if w.Head.Chain == string(c.log.Node) {
		h := w.Head
		c.seen = &h
	}
}

// packet takes what the gateway's ledger says about the node's calls.
func (c *comparer) packet(p *Packet) {
	if p.Node != c.log.Node || p.Call == "" {
		return
	}
	call := c.calls[p.Call]
	if call == nil {
		call = &gatewayCall{}
		c.calls[p.Call] = call
		c.order = append(c.order, p.Call)
	}
	switch p.Kind {
	case KindCallDispatch:
		var body packet.Dispatch
		if json.Unmarshal(p.Body, &body) != nil || body.Target != "node" {
			return
		}
		call.tool, call.lane, call.principal = p.Tool, p.Lane, p.Principal
		call.dispatched, call.at = p.Seq, p.TimeUS
		call.dispatches++
	case KindCallDecision:
		var body packet.Decision
		if json.Unmarshal(p.Body, &body) == nil && body.EnvelopeHash != "" {
			call.envelope = body.EnvelopeHash // the last one decided on is the one that went out
		}
	case KindCallResult, KindCallFailed, KindCallReconciled:
		var end packet.End
		if json.Unmarshal(p.Body, &end) == nil {
			call.end, call.ended, call.endedAt = end, true, p.TimeUS
		}
	}
}

// heads compares what the gateway has seen of the node's log with the log.
func (c *comparer) heads() {
	if c.seen == nil {
		if len(c.log.Entries) > 0 {
			c.note("The gateway has kept no signed head of the node's log: what was cut off its end shows only in the calls.")
		}
		return
	}
	c.out.Witnessed = c.seen.Seq
	last := c.log.First + uint64(len(c.log.Entries)) - 1
	if len(c.log.Entries) == 0 {
		last = 0
	}
	switch {
	case c.seen.Seq == 0:
	case c.seen.Seq > last:
		c.differ(DiffersCutShort, "", "The node's log ends at entry %d; the gateway has seen it, signed, at entry %d.", last, c.seen.Seq)
	case c.seen.Seq+1 < c.log.First:
		c.note("The gateway last saw the node's log at entry %d, which the node keeps no longer.", c.seen.Seq)
	default:
		hash := c.log.Before
		if c.seen.Seq >= c.log.First {
			hash = c.log.Entries[c.seen.Seq-c.log.First].Hash
		}
		if hash != c.seen.Hash {
			c.differ(DiffersRewritten, "", "Entry %d of the node's log is not the one that the gateway has seen, signed.", c.seen.Seq)
		}
	}
}

// nodeCall is a call as the node's log has it.
type nodeCall struct {
	start   *NodeEntry
	end     *NodeEntry
	refused *NodeEntry
}

func (c *comparer) compare() {
	theirs := map[capabilities.CallID]*nodeCall{}
	var order []capabilities.CallID
	for i := range c.log.Entries {
		e := &c.log.Entries[i]
		if e.Kind == NodeGap {
			from := int64(0)
			if i > 0 {
				from = c.log.Entries[i-1].TimeUS
			}
			c.gaps = append(c.gaps, gap{from, e.TimeUS})
		}
		if e.Kind == NodeOther || e.Kind == NodeGap {
			continue
		}
		n := theirs[e.Call]
		if n == nil {
			n = &nodeCall{}
			theirs[e.Call] = n
			order = append(order, e.Call)
		}
		switch {
		case e.Kind == NodeStarted && n.start != nil:
			c.differ(DiffersRepeated, e.Call, "The node's log has the call start twice, at entries %d and %d.", n.start.Seq, e.Seq)
		case e.Kind == NodeStarted:
			n.start = e
		case e.Kind == NodeFinished && n.end != nil:
			c.differ(DiffersRepeated, e.Call, "The node's log has the call end twice, at entries %d and %d.", n.end.Seq, e.Seq)
		case e.Kind == NodeFinished:
			n.end = e
		case e.Kind == NodeRefused:
			n.refused = e
		}
	}
	for _, id := range c.order {
		if g := c.calls[id]; g.dispatched > 0 {
			c.both(id, g, theirs[id])
		}
	}
	for _, id := range order {
		n := theirs[id]
		if g := c.calls[id]; n.start != nil && (g == nil || g.dispatched == 0) {
			c.nodeOnly(id, n)
		}
	}
}

// both compares one call that the gateway sent to the node.
func (c *comparer) both(id capabilities.CallID, g *gatewayCall, n *nodeCall) {
	if g.dispatches > 1 {
		c.differ(DiffersRepeated, id, "The gateway's ledger has the call sent %d times.", g.dispatches)
	}
	if n == nil || n.start == nil {
		c.gatewayOnly(id, g, n)
		return
	}
	s := n.start
	c.out.Calls++
	for _, f := range []struct{ what, gateway, node string }{
		{"tool", string(g.tool), string(s.Tool)}, {"lane", string(g.lane), string(s.Lane)},
		{"principal", string(g.principal), string(s.Principal)}, {"envelope", g.envelope, s.Envelope},
	} {
		if f.gateway != f.node {
			c.differ(DiffersFacts, id, "The gateway says %s %s, the node %s.", f.what, orNothing(f.gateway), orNothing(f.node))
		}
	}
	switch {
	case n.end == nil && g.ended && !unsure(g.end.Code) && c.lost(g.endedAt):
		c.note("Call %s: the node's log has no end of it: it may be among what the device lost when it ended without warning.", id)
	case n.end == nil && g.ended && g.end.Status == capabilities.StatusOK:
		c.differ(DiffersOutcome, id, "The gateway says that it ended well; the node's log has no end of it.")
	case n.end == nil && g.ended && !unsure(g.end.Code):
		c.differ(DiffersOutcome, id, "The gateway says that it ended with %s; the node's log has no end of it.", g.end.Code)
	case n.end == nil:
		c.out.Unsettled++
	case !g.ended && c.tooNewFor(s.TimeUS, n.end.TimeUS):
		c.out.Unsettled++
	case !g.ended:
		c.note("Call %s: the node says that it ended (%s); the gateway's ledger has no end of it yet.", id, orNothing(string(n.end.Status)))
	case n.end.Status == capabilities.StatusOK && n.end.Status == g.end.Status && g.end.Code == capabilities.CodeResultExpired:
		// The gateway was told that it ended well when the rest was no longer known.
	case n.end.Status == g.end.Status && n.end.Code == g.end.Code:
		if n.end.Effect != g.end.Effect && g.end.Status == capabilities.StatusOK {
			c.differ(DiffersOutcome, id, "The gateway says effect %s, the node %s.", orNothing(string(g.end.Effect)),
				orNothing(string(n.end.Effect)))
		}
	case g.end.Status != capabilities.StatusOK && unsure(g.end.Code):
		c.note("Call %s: the node says %s; the gateway did not get that answer (%s).", id, orNothing(ending(n.end.Status, n.end.Code)),
			g.end.Code)
	default:
		c.differ(DiffersOutcome, id, "The gateway says that it ended as %s, the node as %s.", ending(g.end.Status, g.end.Code),
			ending(n.end.Status, n.end.Code))
	}
}

// unsure are codes that the gateway makes itself of an answer it did not get or
// could not use.
func unsure(code capabilities.Code) bool {
	switch code {
	case capabilities.CodeUnknownOutcome, capabilities.CodeCancelled, capabilities.CodeDeadlineExceeded, capabilities.CodeNodeDisconnected,
		capabilities.CodeInternal, capabilities.CodeResultTooLarge, capabilities.CodeResultExpired, capabilities.CodeStopped,
		capabilities.CodeUnauthenticated:
		return true
	}
	return false
}

func ending(status capabilities.Status, code capabilities.Code) string {
	if code != "" {
		return string(code)
	}
	return string(status)
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// gatewayOnly judges a call that the gateway sent and the node's log has no start of.
func (c *comparer) gatewayOnly(id capabilities.CallID, g *gatewayCall, n *nodeCall) {
	ran := g.ended && (g.end.Status == capabilities.StatusOK || g.end.Isolation != "")
	switch {
	case !ran && g.ended && n != nil && n.refused != nil:
		c.out.Refused++
	case !ran && g.ended:
		c.out.GatewayOnly++ // it never arrived, or a refusal that the node has no entry of: nothing of it ran
	case !g.ended && n != nil && n.refused != nil && c.tooNewFor(n.refused.TimeUS, 0):
		c.out.Unsettled++
	case !g.ended && n != nil && n.refused != nil:
		c.note("Call %s: the node says that it was refused (%s); the gateway's ledger has no end of it yet.", id, n.refused.Code)
	case n != nil && n.refused != nil:
		c.differ(DiffersOutcome, id, "The gateway says that it ended as %s; the node's log says that it was refused (%s).",
			ending(g.end.Status, g.end.Code), n.refused.Code)
	case c.prunedOnNode(g.at):
		c.out.Pruned++
	case !ran: // sent, and no end of it yet
		c.out.Unsettled++
	case c.lost(g.at):
		c.note("Call %s: the node's log does not have it: it may be among what the device lost when it ended without warning.", id)
	case c.out.SeenByNode < g.dispatched && c.tooNew(g.at):
		c.out.Unsettled++
	default:
		c.differ(DiffersNode, id, "The gateway says that %s ran (%s); the node's log does not have it.", g.tool, ending(g.end.Status, g.end.Code))
	}
}

// nodeOnly judges a call that the node's log has started and the gateway never sent.
func (c *comparer) nodeOnly(id capabilities.CallID, n *nodeCall) {
	switch {
	case c.report.Pruned > 0 && c.seen != nil && n.start.Seq <= c.seen.Seq && c.prunedOnGateway(n.start.TimeUS):
		c.out.Pruned++
	case (c.seen == nil || n.start.Seq > c.seen.Seq) && n.start.TimeUS > time.UnixMilli(c.report.Head.Time).Add(-c.margin()).UnixMicro():
		c.out.Unsettled++ // begun after the gateway's ledger was read
	default:
		c.differ(DiffersGateway, id, "The node says that it ran %s for %s; the gateway's ledger never sent it.", n.start.Tool,
			orNothing(string(n.start.Principal)))
	}
}

func (c *comparer) margin() time.Duration {
	if c.log.Live {
		return 0
	}
	return clockMargin
}

// tooNew reports whether what the gateway did at a time may be younger than the
// node's log.
func (c *comparer) tooNew(us int64) bool {
	return !c.log.Live && time.UnixMicro(us).After(c.log.Taken.Add(-clockMargin))
}

func (c *comparer) tooNewFor(start, end int64) bool {
	return max(start, end) > time.UnixMilli(c.report.Head.Time).Add(-c.margin()).UnixMicro()
}

func (c *comparer) prunedOnNode(us int64) bool {
	return c.log.First > 1 && len(c.log.Entries) > 0 && us < c.log.Entries[0].TimeUS+int64(c.margin()/time.Microsecond)
}

func (c *comparer) prunedOnGateway(us int64) bool { return us < c.firstAt() }

// firstAt is the time of the oldest call that the gateway's ledger keeps of the node.
func (c *comparer) firstAt() int64 {
	for _, id := range c.order {
		if g := c.calls[id]; g.at > 0 {
			return g.at
		}
	}
	return time.UnixMilli(c.report.Head.Time).UnixMicro()
}
