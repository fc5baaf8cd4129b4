package chaos

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// bash is the tool that calls have: its command writes one line to a file of the request's own.
const bash capabilities.ToolID = "tool.fs.bash"

// Rule is one promise that a run is held to.
type Rule string

// The rules.
const (
	Twice      Rule = "an effect happened twice"
	Ordered    Rule = "a request was ordered twice"
	Unrecorded Rule = "an effect has no record before it"
	Denied     Rule = "a call that never started had an effect"
	Lost       Rule = "a call that ended well had no effect"
	Endless    Rule = "a call has no end"
	Ends       Rule = "a call has several ends"
	Untold     Rule = "an answer is not what the ledger says"
	Overspent  Rule = "a grant was used more often than it allows"
	Stopped    Rule = "a call went on after a stop"
	Chain      Rule = "the ledger does not verify"
)

// Breach is a rule that was broken, with all that the ledger has of the call.
type Breach struct {
	Rule    Rule
	Request capabilities.RequestID
	Call    capabilities.CallID
	Why     string
	Packets []ledger.Packet
}

// String is a breach as a run prints it.
func (b Breach) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s: %s (request %s, call %s)", b.Rule, b.Why, cmp.Or(b.Request, "-"), cmp.Or(b.Call, "-"))
	for i := range b.Packets {
		p := &b.Packets[i]
		fmt.Fprintf(&s, "\n  %d %s %s %s %s %s %s", p.Seq, p.Time().Format("15:04:05.000000"), p.Call, p.Tool, p.Kind, p.Node, brief(p.Body))
	}
	return s.String()
}

// brief is a packet's body without its envelope, and its beginning where it is long.
func brief(body json.RawMessage) string {
	const most = 300
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(body, &fields) == nil {
		delete(fields, "envelope")
		if short, err := json.Marshal(fields); err == nil {
			body = short
		}
	}
	return string(body[:min(len(body), most)])
}

// Effect is one line that a call wrote.
type Effect struct {
	Node capabilities.NodeID
	At   time.Time // by the clock of the machine, which is one for all
}

// Told is an answer that a caller got.
type Told struct {
	Request capabilities.RequestID
	Call    capabilities.CallID
	Status  capabilities.Status
	Code    capabilities.Code
	Gateway int
}

// Halt is a stop as the person saw it who made it: of one in calm times each device hears.
type Halt struct {
	Said    time.Time // the gateway said that it holds
	Resumed time.Time // just before it was asked to go on
	Calm    bool
}

// grace is how long after a stop was said to hold a device may hear of it.
const grace = time.Second

// Evidence is what a run leaves.
type Evidence struct {
	Packets []ledger.Packet
	Effects map[capabilities.RequestID][]Effect
	Told    []Told
	Halts   []Halt
}

// ReadExport returns the packets of an exported ledger.
func ReadExport(r io.Reader) ([]ledger.Packet, error) {
	var all []ledger.Packet
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var one struct {
			Type string `json:"type"`
			ledger.Packet
		}
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, err
		}
		if one.Type == "packet" {
			all = append(all, one.Packet)
		}
	}
}

// call is what the ledger says of one.
type call struct {
	id         capabilities.CallID
	request    capabilities.RequestID
	packets    []ledger.Packet
	dispatched time.Time // zero: never
	dispatch   uint64    // its sequence number
	grants     []string
	ends       []packet.End
	repeated   capabilities.CallID // whose outcome it got
	pending    bool
	reconciled int
}

// last is how the call ended, as far as it is known at last.
func (c *call) last() packet.End {
	if len(c.ends) == 0 {
		return packet.End{}
	}
	return c.ends[len(c.ends)-1]
}

// free reports whether the ledger says that a call which was ordered never started, so that
// its request may be made again.
func (c *call) free() bool {
	end := c.last()
	if len(c.ends) == 0 || end.Status == capabilities.StatusOK || end.Isolation != "" {
		return false
	}
	switch end.Code {
	case capabilities.CodeNodeDisconnected, capabilities.CodeLedgerUnavailable, capabilities.CodeTicketExpired, capabilities.CodeNodeNotReady,
		capabilities.CodeOverloaded:
		return true
	}
	return false
}

// never reports whether the ledger says that nothing of a call was carried out.
func (c *call) never() bool {
	switch c.last().Code {
	case capabilities.CodeDeniedByNode, capabilities.CodeTicketInvalid:
		return true
	}
	return c.dispatched.IsZero() || c.free()
}

// judge is one judgement.
type judge struct {
	*Evidence
	calls    map[capabilities.CallID]*call
	order    []*call
	requests map[capabilities.RequestID][]*call
	found    []Breach
}

// Judge returns what a run broke, by the order of the rules.
func Judge(e *Evidence) ([]Breach, error) {
	j := &judge{Evidence: e, calls: map[capabilities.CallID]*call{}, requests: map[capabilities.RequestID][]*call{}}
	if err := j.read(); err != nil {
		return nil, err
	}
	j.effects()
	j.ends()
	j.answers()
	if err := j.grants(); err != nil {
		return nil, err
	}
	j.stops()
	return j.found, nil
}

func (j *judge) breach(r Rule, request capabilities.RequestID, c *call, format string, args ...any) {
	b := Breach{Rule: r, Request: request, Why: fmt.Sprintf(format, args...)}
	of := j.requests[request]
	if c != nil {
		b.Call = c.id
		if !slices.Contains(of, c) {
			of = append(slices.Clip(of), c)
		}
	}
	for _, c := range of {
		b.Packets = append(b.Packets, c.packets...)
	}
	slices.SortFunc(b.Packets, func(a, b ledger.Packet) int { return cmp.Compare(a.Seq, b.Seq) })
	j.found = append(j.found, b)
}

// read sorts the packets of calls by the call.
func (j *judge) read() error {
	for i := range j.Packets {
		p := &j.Packets[i]
		if p.Call == "" || !strings.HasPrefix(string(p.Kind), "tool.call.") {
			continue
		}
		c := j.calls[p.Call]
		if c == nil {
			c = &call{id: p.Call}
			j.calls[p.Call] = c
			j.order = append(j.order, c)
		}
		c.packets = append(c.packets, *p)
		if err := c.take(p); err != nil {
			return fmt.Errorf("packet %d: %w", p.Seq, err)
		}
	}
	for _, c := range j.order {
		if c.request != "" && c.repeated == "" {
			j.requests[c.request] = append(j.requests[c.request], c)
		}
	}
	return nil
}

// take has c know one of its packets.
func (c *call) take(p *ledger.Packet) error {
	switch p.Kind {
	case ledger.KindCallRequest:
		var body packet.Request
		if err := json.Unmarshal(p.Body, &body); err != nil {
			return err
		}
		c.request = body.RequestID
	case ledger.KindCallDecision:
		var body packet.Decision
		if err := json.Unmarshal(p.Body, &body); err != nil {
			return err
		}
		if body.Grant != "" && !slices.Contains(c.grants, body.Grant) {
			c.grants = append(c.grants, body.Grant)
		}
	case ledger.KindCallDispatch:
		c.dispatched, c.dispatch = p.Time(), p.Seq
	case ledger.KindCallRepeated:
		var body packet.Repeated
		if err := json.Unmarshal(p.Body, &body); err != nil {
			return err
		}
		c.request, c.repeated = body.RequestID, body.Of
	case ledger.KindCallPending:
		c.pending = true
	case ledger.KindCallResult, ledger.KindCallFailed, ledger.KindCallReconciled:
		var body packet.End
		if err := json.Unmarshal(p.Body, &body); err != nil {
			return err
		}
		c.ends = append(c.ends, body)
		if p.Kind == ledger.KindCallReconciled {
			c.reconciled++
		}
	}
	return nil
}

// effects holds what happened against what was recorded.
func (j *judge) effects() {
	for _, request := range slices.Sorted(maps.Keys(j.Effects)) {
		happened := j.Effects[request]
		calls := j.requests[request]
		if len(happened) > 1 {
			j.breach(Twice, request, nil, "%d times", len(happened))
		}
		first := time.Time{}
		for _, c := range calls {
			if !c.dispatched.IsZero() && (first.IsZero() || c.dispatched.Before(first)) {
				first = c.dispatched
			}
		}
		switch {
		case first.IsZero():
			j.breach(Unrecorded, request, nil, "no call of it was dispatched")
		case happened[0].At.Before(first):
			j.breach(Unrecorded, request, nil, "it happened at %s, before it was recorded", happened[0].At.UTC().Format("15:04:05.000000"))
		case !slices.ContainsFunc(calls, func(c *call) bool { return !c.never() }):
			j.breach(Denied, request, nil, "each of its calls is said not to have started")
		}
	}
	for _, c := range j.order {
		if c.last().Status == capabilities.StatusOK && c.request != "" && c.repeated == "" && len(j.Effects[c.request]) == 0 {
			j.breach(Lost, c.request, c, "its last word is ok")
		}
	}
	for _, request := range slices.Sorted(maps.Keys(j.requests)) {
		ordered := 0
		for _, c := range j.requests[request] {
			if !c.never() {
				ordered++
			}
		}
		if ordered > 1 {
			j.breach(Ordered, request, nil, "%d calls of it may have run", ordered)
		}
	}
}

// ends looks for calls without an end, and with more than one.
func (j *judge) ends() {
	for _, c := range j.order {
		switch first := len(c.ends) - c.reconciled; {
		case c.repeated != "":
			continue
		case first == 0 && !c.pending:
			j.breach(Endless, c.request, c, "nothing was recorded after %s", c.packets[len(c.packets)-1].Kind)
		case first > 1, c.reconciled > 1:
			j.breach(Ends, c.request, c, "%d, and %d that put one right", first, c.reconciled)
		case c.reconciled == 1 && c.packets[len(c.packets)-1].Kind != ledger.KindCallReconciled:
			j.breach(Ends, c.request, c, "it goes on after what put it right")
		}
	}
}

// answers holds what callers were told against the ledger.
func (j *judge) answers() {
	for _, t := range j.Told {
		c := j.calls[t.Call]
		if c != nil && c.repeated != "" {
			c = j.calls[c.repeated]
		}
		switch {
		case t.Status == capabilities.StatusOK && (c == nil || c.last().Status != capabilities.StatusOK):
			j.breach(Untold, t.Request, c, "gateway %d said of %s that it ended well", t.Gateway+1, t.Call)
		case t.Code == capabilities.CodeUnknownOutcome && c == nil:
			j.breach(Untold, t.Request, nil, "gateway %d said of %s that its outcome is unknown, and there is none", t.Gateway+1, t.Call)
		}
	}
}

// grants counts the uses of each.
func (j *judge) grants() error {
	uses := map[string][]*call{}
	for _, c := range j.order {
		if !c.dispatched.IsZero() {
			for _, g := range c.grants {
				uses[g] = append(uses[g], c)
			}
		}
	}
	for i := range j.Packets {
		p := &j.Packets[i]
		if p.Kind != "gateway.grant.made" {
			continue
		}
		var g struct {
			ID   string `json:"grant"`
			Kind string `json:"kind"`
			Max  int    `json:"max_uses"`
		}
		if err := json.Unmarshal(p.Body, &g); err != nil {
			return fmt.Errorf("packet %d: %w", p.Seq, err)
		}
		if g.Kind == "call" {
			g.Max = 1
		}
		if n := len(uses[g.ID]); g.Max > 0 && n > g.Max {
			c := uses[g.ID][n-1]
			j.breach(Overspent, c.request, c, "%s was given for %d and used %d times", g.ID, g.Max, n)
		}
	}
	return nil
}

// stops looks for calls that were ordered while everything was stopped, for grants that outlived
// it, and for effects that came after it.
func (j *judge) stops() {
	stopped, latest := false, uint64(0)
	made := map[string]uint64{}
	for i := range j.Packets {
		p := &j.Packets[i]
		switch p.Kind {
		case "gateway.stopped":
			stopped, latest = true, p.Seq
		case "gateway.resumed":
			stopped = false
		case "gateway.grant.made":
			var g struct {
				ID string `json:"grant"`
			}
			if json.Unmarshal(p.Body, &g) == nil {
				made[g.ID] = p.Seq
			}
		case ledger.KindCallDispatch:
			c := j.calls[p.Call]
			if p.Tool.Family() == "admin" {
				continue // of people, whom a stop does not bind
			}
			if stopped {
				j.breach(Stopped, c.request, c, "it was dispatched after the stop of packet %d", latest)
			}
			for _, g := range c.grants {
				if made[g] < latest {
					j.breach(Stopped, c.request, c, "it was dispatched by %s, which the stop of packet %d ended", g, latest)
				}
			}
		}
	}
	for _, h := range j.Halts {
		if !h.Calm {
			continue
		}
		for _, request := range slices.Sorted(maps.Keys(j.Effects)) {
			for _, e := range j.Effects[request] {
				if e.At.After(h.Said.Add(grace)) && e.At.Before(h.Resumed) {
					j.breach(Stopped, request, nil, "it happened %s after the stop was said to hold", e.At.Sub(h.Said))
				}
			}
		}
	}
}
