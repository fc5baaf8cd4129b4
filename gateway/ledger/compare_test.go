package ledger

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
)

// told is one call as both sides have it.
type told struct {
	id        string
	status    capabilities.Status
	code      capabilities.Code
	refused   bool // by the node's guard
	neverSent bool // policy denied it
}

var tale = []told{
	{id: "a", status: capabilities.StatusOK}, {id: "b", status: capabilities.StatusError, code: capabilities.CodeExecutionFailed},
	{id: "c", status: capabilities.StatusDenied, code: capabilities.CodeDeniedByNode, refused: true},
	{id: "d", status: capabilities.StatusDenied, code: capabilities.CodeDeniedByPolicy, neverSent: true},
	{id: "e", status: capabilities.StatusOK},
}

// bothSides writes the tale into a ledger and a node's log. alter may change what
// the gateway records; witnessed makes the two sides exchange heads at the end.
func bothSides(t *testing.T, tale []told, alter func(*Draft) bool, witnessed bool) ([]byte, NodeLog) {
	t.Helper()
	l := open(t, Options{Chain: "gateway-1"})
	log := NodeLog{Node: "node-1", First: 1, Before: chain.Genesis("node-1"), Live: true}
	add := func(kind NodeKind, e NodeEntry) {
		e.Seq, e.Kind, e.TimeUS = uint64(len(log.Entries)+1), kind, time.Now().UnixMicro()
		e.Hash = chain.Sum([]byte(fmt.Sprint(e.Seq, kind, e.Call, e.Status, e.Code)))
		log.Entries = append(log.Entries, e)
	}
	for _, c := range tale {
		base := Draft{Call: capabilities.CallID(c.id), Tool: "tool.browser.click", Principal: "alice", Lane: "l", Node: "node-1"}
		draft := func(k Kind, body map[string]any) {
			d := base
			d.Kind, d.Body = k, body
			if alter == nil || alter(&d) {
				mustAppend(t, l, d)
			}
		}
		draft(KindCallRequest, map[string]any{})
		envelope := fmt.Sprintf("%064x", c.id)
		draft(KindCallDecision, map[string]any{"envelope_hash": envelope})
		end := map[string]any{"status": string(c.status), "code": string(c.code)}
		if !c.neverSent {
			draft(KindCallDispatch, map[string]any{"target": "node"})
			switch {
			case c.refused:
				add(NodeRefused, NodeEntry{Call: base.Call, Tool: base.Tool, Lane: base.Lane, Principal: "alice", Code: c.code})
			default:
				add(NodeStarted, NodeEntry{Call: base.Call, Tool: base.Tool, Lane: base.Lane, Principal: "alice", Envelope: envelope})
				add(NodeFinished, NodeEntry{Call: base.Call, Status: c.status, Code: c.code, Effect: capabilities.EffectConfirmed})
				end["effect"], end["isolation_given"] = string(capabilities.EffectConfirmed), "t2"
			}
		}
		kind := KindCallFailed
		if c.status == capabilities.StatusOK {
			kind = KindCallResult
		}
		draft(kind, end)
	}
	if witnessed {
		last := log.Entries[len(log.Entries)-1]
		head := chain.SignHead(testKey(5), chain.Head{Chain: "node-1", Seq: last.Seq, Hash: last.Hash, Time: 1})
		if err := l.KeepNodeHead(context.Background(), "node-1", head); err != nil {
			t.Fatal(err)
		}
		if err := l.Sign(context.Background()); err != nil {
			t.Fatal(err)
		}
		log.Seen = []chain.Head{l.Head(), chain.SignHead(testKey(9), chain.Head{Chain: "another", Seq: 9})}
	}
	return export(t, l), log
}

func mustCompare(t *testing.T, export []byte, log NodeLog) Comparison {
	t.Helper()
	c, err := Compare(bytes.NewReader(export), Pins{}, log)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTwoLedgersAgree(t *testing.T) {
	for _, witnessed := range []bool{true, false} {
		out, log := bothSides(t, tale, nil, witnessed)
		c := mustCompare(t, out, log)
		if len(c.Differences) > 0 || c.Calls != 3 || c.Refused != 1 || c.GatewayOnly != 0 || c.Unsettled != 0 {
			t.Errorf("%+v", c)
		}
		if witnessed != (c.Witnessed > 0) || witnessed != (c.SeenByNode > 0) {
			t.Errorf("%+v", c)
		}
	}
}

// All that is taken out of, or changed in, the node's log is found, also when it
// was done so well that the log's own chain is whole again.
func TestAnyChangeOfTheNodesLogIsFound(t *testing.T) {
	for _, witnessed := range []bool{true, false} {
		out, log := bothSides(t, tale, nil, witnessed)
		expect := func(what string, alter func(*NodeLog)) {
			t.Helper()
			changed := log
			changed.Entries = slices.Clone(log.Entries)
			alter(&changed)
			for i := range changed.Entries { // sealed anew
				changed.Entries[i].Seq = uint64(i + 1)
			}
			if c := mustCompare(t, out, changed); len(c.Differences) == 0 {
				t.Errorf("witnessed %v: %s is not found: %+v", witnessed, what, c)
			}
		}
		for keep := range log.Entries {
			if !witnessed && keep == 0 {
				continue // no log at all: below
			}
			expect(fmt.Sprintf("a cut after %d entries", keep), func(l *NodeLog) { l.Entries = l.Entries[:keep] })
		}
		for i, e := range log.Entries {
			if e.Kind == NodeRefused && !witnessed {
				continue // nothing ran, and both say so
			}
			expect(fmt.Sprintf("entry %d left out", i+1), func(l *NodeLog) { l.Entries = slices.Delete(l.Entries, i, i+1) })
			if e.Kind == NodeRefused {
				continue // being refused twice is no more than being refused
			}
			expect(fmt.Sprintf("entry %d twice", i+1), func(l *NodeLog) { l.Entries = append(l.Entries, e) })
			for name, alter := range map[string]func(*NodeEntry){
				"call": func(e *NodeEntry) { e.Call = "z" }, "tool": func(e *NodeEntry) { e.Tool = "tool.browser.type" },
				"lane": func(e *NodeEntry) { e.Lane = "m" }, "principal": func(e *NodeEntry) { e.Principal = "bob" },
				"envelope": func(e *NodeEntry) { e.Envelope = "00" }, "status": func(e *NodeEntry) { e.Status = "pending" },
				"code": func(e *NodeEntry) { e.Code = capabilities.CodeURLBlocked }, "effect": func(e *NodeEntry) { e.Effect = capabilities.EffectPartial },
			} {
				start := name == "tool" || name == "lane" || name == "principal" || name == "envelope"
				if start != (e.Kind == NodeStarted) && name != "call" || name == "effect" && e.Status != capabilities.StatusOK {
					continue
				}
				expect(fmt.Sprintf("another %s in entry %d", name, i+1), func(l *NodeLog) { alter(&l.Entries[i]) })
			}
		}
		expect("a call that was never sent", func(l *NodeLog) {
			l.Entries = append(l.Entries, NodeEntry{Kind: NodeStarted, Call: "z", Tool: "tool.browser.click", TimeUS: l.Entries[0].TimeUS})
		})
		expect("a call that policy denied", func(l *NodeLog) {
			l.Entries = append(l.Entries, NodeEntry{Kind: NodeStarted, Call: "d", Tool: "tool.browser.click", TimeUS: l.Entries[0].TimeUS})
		})
	}
	out, log := bothSides(t, tale, nil, true)
	log.Entries[len(log.Entries)-1].Hash[0] ^= 1
	if c := mustCompare(t, out, log); len(c.Differences) != 1 || c.Differences[0].Kind != DiffersRewritten {
		t.Errorf("%+v", c)
	}
}

// The same for the gateway's ledger, made anew with all its seals.
func TestAnyChangeOfTheGatewaysLedgerIsFound(t *testing.T) {
	_, log := bothSides(t, tale, nil, false)
	for _, id := range []string{"a", "b", "e"} {
		for name, alter := range map[string]func(*Draft) bool{
			"the call":     func(*Draft) bool { return false },
			"the dispatch": func(d *Draft) bool { return d.Kind != KindCallDispatch },
			"the tool":     func(d *Draft) bool { d.Tool = "tool.browser.type"; return true },
			"the caller":   func(d *Draft) bool { d.Principal = "bob"; return true },
			"the lane":     func(d *Draft) bool { d.Lane = "m"; return true },
			"the node":     func(d *Draft) bool { d.Node = "node-2"; return true },
			"the envelope": func(d *Draft) bool {
				if d.Kind == KindCallDecision {
					d.Body = map[string]any{"envelope_hash": "00"}
				}
				return true
			},
			"the end": func(d *Draft) bool {
				if d.Kind == KindCallResult || d.Kind == KindCallFailed {
					d.Body = map[string]any{"status": "denied", "code": string(capabilities.CodeURLBlocked)}
				}
				return true
			},
		} {
			out, _ := bothSides(t, tale, func(d *Draft) bool { return string(d.Call) != id || alter(d) }, false)
			if c := mustCompare(t, out, log); len(c.Differences) == 0 {
				t.Errorf("%s of call %s is not found: %+v", name, id, c)
			}
		}
	}
	// A ledger that was cut off and signed anew does not hold what the node has seen.
	full, log := bothSides(t, tale, nil, true)
	short, _ := bothSides(t, tale[:3], nil, true)
	if c := mustCompare(t, full, log); len(c.Differences) != 0 {
		t.Fatalf("%+v", c)
	}
	if c := mustCompare(t, short, log); len(c.Differences) != 1 || c.Differences[0].Kind != DiffersLedger {
		t.Errorf("%+v", c)
	}
	if c := mustCompare(t, bytes.Replace(full, []byte(`"alice"`), []byte(`"bobby"`), 1), log); len(c.Differences) != 1 || c.Differences[0].Kind != DiffersLedger {
		t.Errorf("%+v", c)
	}
	if _, err := Compare(bytes.NewReader([]byte("hello\n")), Pins{}, log); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
		t.Error(err)
	}
}

// An entry that is only too new for one side, or was lost on its way, is no difference.
func TestWhatIsNoDifference(t *testing.T) {
	out, log := bothSides(t, tale, nil, false)
	late := log
	late.Entries = append(slices.Clone(log.Entries), NodeEntry{Seq: uint64(len(log.Entries) + 1), Kind: NodeStarted, Call: "z", TimeUS: time.Now().Add(time.Hour).UnixMicro()})
	if c := mustCompare(t, out, late); len(c.Differences) != 0 || c.Unsettled != 1 {
		t.Errorf("%+v", c)
	}
	elsewhere := log
	elsewhere.Live, elsewhere.Taken, elsewhere.Entries = false, time.Now(), log.Entries[:len(log.Entries)-2]
	if c := mustCompare(t, out, elsewhere); len(c.Differences) != 0 || c.Unsettled != 1 {
		t.Errorf("%+v", c)
	}
	elsewhere.Taken = time.Now().Add(time.Hour)
	if c := mustCompare(t, out, elsewhere); len(c.Differences) != 1 || c.Differences[0].Kind != DiffersNode {
		t.Errorf("%+v", c)
	}
	lost, log := bothSides(t, []told{{id: "a", status: capabilities.StatusOK}}, func(d *Draft) bool {
		if d.Kind == KindCallResult {
			d.Kind, d.Body = KindCallFailed, map[string]any{"status": "error", "code": string(capabilities.CodeUnknownOutcome)}
		}
		return true
	}, false)
	if c := mustCompare(t, lost, log); len(c.Differences) != 0 || len(c.Notes) != 2 {
		t.Errorf("%+v", c)
	}
}

// Entries that a power cut took from the end of the node's log are no difference, if the log says
// that there was one. Earlier ones are, and those that the gateway has seen.
func TestWhatADeviceLostIsNoDifference(t *testing.T) {
	for _, witnessed := range []bool{true, false} {
		out, log := bothSides(t, tale, nil, witnessed)
		after := func(entries []NodeEntry) NodeLog {
			cut := log
			cut.Entries = append(slices.Clone(entries), NodeEntry{Kind: NodeGap, TimeUS: time.Now().UnixMicro()})
			for i := range cut.Entries {
				cut.Entries[i].Seq = uint64(i + 1)
			}
			return cut
		}
		for keep := range log.Entries {
			c := mustCompare(t, out, after(log.Entries[:keep]))
			if (len(c.Differences) > 0) != witnessed || !witnessed && len(c.Notes) < 2 {
				t.Errorf("witnessed %v, %d entries left: %+v", witnessed, keep, c)
			}
		}
		for at, e := range log.Entries[:len(log.Entries)-1] {
			if e.Kind == NodeRefused && !witnessed {
				continue // nothing ran, and both say so
			}
			if c := mustCompare(t, out, after(slices.Delete(slices.Clone(log.Entries), at, at+1))); len(c.Differences) == 0 {
				t.Errorf("witnessed %v: entry %d, long before the gap, is missing: %+v", witnessed, at+1, c)
			}
		}
	}
}

// A call that was sent and did not run is told by what the node has of it.
func TestWhatDidNotRun(t *testing.T) {
	refused := told{id: "c", status: capabilities.StatusDenied, code: capabilities.CodeDeniedByNode, refused: true}
	out, log := bothSides(t, []told{{id: "a", status: capabilities.StatusOK}, refused}, nil, false)
	without := log
	without.Entries = slices.DeleteFunc(slices.Clone(log.Entries), func(e NodeEntry) bool { return e.Kind == NodeRefused })
	if c := mustCompare(t, out, without); len(c.Differences) != 0 || c.Refused != 0 || c.GatewayOnly != 1 {
		t.Errorf("the node has nothing of it: %+v", c)
	}
	open, log := bothSides(t, []told{refused}, func(d *Draft) bool { return d.Kind != KindCallFailed }, false)
	log.Entries[0].TimeUS = time.Now().Add(-time.Hour).UnixMicro()
	if c := mustCompare(t, open, log); len(c.Differences) != 0 || len(c.Notes) != 2 || c.Refused+c.GatewayOnly+c.Unsettled != 0 {
		t.Errorf("the gateway has no end of it: %+v", c)
	}
	log.Entries[0].TimeUS = time.Now().Add(time.Hour).UnixMicro()
	if c := mustCompare(t, open, log); len(c.Differences) != 0 || c.Unsettled != 1 {
		t.Errorf("the gateway has no end of it yet: %+v", c)
	}
	ran, log := bothSides(t, []told{refused}, func(d *Draft) bool {
		if d.Kind == KindCallFailed {
			d.Kind, d.Body = KindCallResult, map[string]any{"status": "ok"}
		}
		return true
	}, false)
	if c := mustCompare(t, ran, log); len(c.Differences) != 1 || c.Differences[0].Kind != DiffersOutcome {
		t.Errorf("one says that it ran, one that it was refused: %+v", c)
	}
}
