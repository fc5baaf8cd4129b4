package dispatch

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/store"
)

// A call is a name, arguments and who calls, and its request, its decision and its result are
// recorded (S4-19, S4-23 … S4-25).
func TestOneCall(t *testing.T) {
	for request, kept := range map[capabilities.RequestID]opencalls.State{"": "", "r1": opencalls.Ended} {
		nodes := nodestest.New("n1")
		h := newHouse(t, nodes, nil)
		nodes.Carry = func(_ context.Context, tk *wire.Ticket, _ func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
			// Nothing runs unrecorded: the intent is durable when the ticket leaves, and
			// whoever starts after a crash at this moment takes the call up.
			h.wantKinds(tk.Call, "request", "decision", "dispatch")
			if rows, err := New(h.opts).open.LeftOpen(context.Background()); err != nil || len(rows) != 1 || rows[0].ID != tk.Call {
				t.Errorf("open: %+v, %v", rows, err)
			}
			return nodestest.Answers(`{"result":1}`)(context.Background(), nil, nil)
		}
		r := h.evaluate(request)
		want(t, r, capabilities.StatusOK, "")
		h.wantKinds(r.Call, "request", "decision", "dispatch", "result")
		if rows, err := New(h.opts).open.LeftOpen(context.Background()); err != nil || len(rows) != 0 {
			t.Errorf("open: %+v, %v", rows, err)
		}
		if got := h.state(r.Call); got != kept && (request != "" || got != opencalls.Open) { // it may have got into the picture
			t.Errorf("the row is %q, want %q", got, kept)
		}
		b := h.body(h.packets(r.Call)[3])
		if b.Digest == "" {
			t.Error("no digest of the output")
		}
		if len(b.Hops) != 10 || !slices.IsSorted(b.Hops) || slices.Contains(b.Hops, 0) {
			t.Errorf("hops 2 to 11 ended at %d µs", b.Hops)
		}
	}
}

func TestAnswersThatCanNotBeTrusted(t *testing.T) {
	long := strings.Repeat("x", 2<<20)
	for name, c := range map[string]struct {
		tool   capabilities.ToolID
		answer wire.Answer
		blobs  []capabilities.Blob
		code   capabilities.Code
	}{
		"does not fit the schema": {toolEvaluate, wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{"x":1}`)}, nil, capabilities.CodeInternal},
		"no JSON":                 {toolEvaluate, wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{`)}, nil, capabilities.CodeInternal},
		"too large":               {toolEvaluate, wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{"result":"` + long + `"}`)}, nil, capabilities.CodeResultTooLarge},
		"bytes too large": {toolScreenshot, wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{"mime":"image/png","width":1,"height":1}`)},
			[]capabilities.Blob{{Field: "bytesBase64", MIME: "image/png", Bytes: make([]byte, 34<<20)}}, capabilities.CodeResultTooLarge},
		"a code nobody knows":   {toolEvaluate, wire.Answer{Status: capabilities.StatusError, Code: "melted"}, nil, capabilities.CodeInternal},
		"a status nobody knows": {toolEvaluate, wire.Answer{Status: "fine", Code: capabilities.CodeExecutionFailed}, nil, capabilities.CodeExecutionFailed},
		"details that are none": {toolEvaluate, wire.Answer{Status: capabilities.StatusError, Code: capabilities.CodeScriptFailed, Details: []byte(`{`)}, nil, capabilities.CodeScriptFailed},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := nodestest.New("n1")
			nodes.Roster[0].Readiness["tyrum.browser.screenshot"] = capabilities.Readiness{Capability: "tyrum.browser.screenshot", Isolation: capabilities.ClassT2}
			nodes.Carry = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
				return c.answer, c.blobs, nil
			}
			h := newHouse(t, nodes, nil)
			args := `{"expression":"1"}`
			if c.tool == toolScreenshot {
				args = `{}`
			}
			r := h.call(t.Context(), c.tool, args, "")
			want(t, r, capabilities.StatusError, c.code)
			if r.Message == "" || r.Output != nil || r.Blobs != nil || r.Details == nil && name == "does not fit the schema" {
				t.Errorf("%+v", r)
			}
			h.wantKinds(r.Call, "request", "decision", "dispatch", "failed")
		})
	}
}

type panicking struct{}

func (panicking) Execute(context.Context, registry.Order) (capabilities.Output, error) { panic("boom") }

func TestProviderPanics(t *testing.T) {
	h := newHouse(t, nodestest.New(), func(o *Options) {
		must(t, o.Registry.Provide("tool.node.list", panicking{}))
	})
	r := h.call(t.Context(), "tool.node.list", `{}`, "")
	want(t, r, capabilities.StatusError, capabilities.CodeInternal)
	if strings.Contains(r.Message, "boom") {
		t.Error("the panic's text came out")
	}
	h.wantKinds(r.Call, "request", "decision", "dispatch", "failed")
}

func TestOneMoreThanCanRun(t *testing.T) {
	nodes := nodestest.New("n1")
	started, release := make(chan struct{}), make(chan struct{})
	nodes.Carry = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		close(started)
		<-release
		return nodestest.Answers(`{"result":1}`)(context.Background(), nil, nil)
	}
	h := newHouse(t, nodes, func(o *Options) { o.MaxRunning = 1 })
	first := make(chan capabilities.Result, 1)
	go func() { first <- h.evaluate("") }()
	<-started
	r := h.evaluate("")
	want(t, r, capabilities.StatusError, capabilities.CodeOverloaded)
	h.wantKinds(r.Call, "request", "decision", "failed")
	close(release)
	want(t, <-first, capabilities.StatusOK, "")
}

// Calls that were carried out are counted by each key that they were granted, and refused ones by
// none (S1-41).
func TestCallsAreCountedByKey(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Carry = nodestest.Answers(`{"result":"1"}`)
	h := newHouse(t, nodes, nil)
	for range 2 {
		want(t, h.evaluate(""), capabilities.StatusOK, "")
	}
	want(t, h.call(t.Context(), "tool.desktop.screenshot", `{"display":"primary"}`, ""), capabilities.StatusError, capabilities.CodeAmbiguousNode)
	w := httptest.NewRecorder()
	h.metrics.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	page := w.Body.String()
	for _, key := range []string{"execution.browser.script", "network.browser.session"} {
		if !strings.Contains(page, `capability_executions_total{key="`+key+`"} 2`) {
			t.Errorf("%s is not counted:\n%s", key, page)
		}
	}
	if strings.Contains(page, "data.read.screen") {
		t.Errorf("a refused call is counted by its keys:\n%s", page)
	}
}

// Names out of the air do not become labels without number.
func TestUnknownToolsShareOneLabel(t *testing.T) {
	h := newHouse(t, nodestest.New(), nil)
	for _, id := range []capabilities.ToolID{"tool.made.up", "tool.made.up-too", "Not an ID at all\n"} {
		r := h.call(t.Context(), id, `{}`, "")
		want(t, r, capabilities.StatusError, capabilities.CodeUnknownTool)
		h.wantKinds(r.Call, "request", "decision", "failed")
	}
	w := httptest.NewRecorder()
	h.metrics.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	page := w.Body.String()
	if !strings.Contains(page, `tools_dispatch_total{code="unknown_tool",status="error",tool=""} 3`) {
		t.Errorf("the metrics do not count them together:\n%s", page)
	}
	for _, name := range []string{"made", "Not an"} {
		if strings.Contains(page, name) {
			t.Errorf("a label holds %q:\n%s", name, page)
		}
	}
}

// The connection is lost and the journal tells: never started, running and then
// finished, or nobody knows.
func TestLostCallIsSettled(t *testing.T) {
	for name, c := range map[string]struct {
		state  func(capabilities.NodeID, capabilities.CallID) wire.JournalState
		status capabilities.Status
		code   capabilities.Code
		last   string
	}{
		"never started": {nodestest.Says(wire.StateNeverStarted), capabilities.StatusError, capabilities.CodeNodeDisconnected, "failed"},
		"finished":      {nodestest.Finished(`{"result":2}`), capabilities.StatusOK, "", "result"},
		"unknown":       {nodestest.Says(wire.StateUnknown), capabilities.StatusError, capabilities.CodeUnknownOutcome, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := nodestest.New("n1")
			nodes.Carry, nodes.Tell = losing, c.state
			h := newHouse(t, nodes, nil)
			r := h.evaluate("r1")
			want(t, r, c.status, c.code)
			h.wantKinds(r.Call, "request", "decision", "dispatch", c.last)
			again := h.evaluate("r1")
			want(t, again, c.status, c.code)
			if c.code == capabilities.CodeNodeDisconnected {
				// It never ran: the request ID is free, and the ledger has both calls.
				h.wantKinds(again.Call, "request", "decision", "dispatch", c.last)
				if again.Call == r.Call || !r.Retryable || len(nodes.Sent()) != 2 {
					t.Errorf("%+v, %d tickets", again, len(nodes.Sent()))
				}
				nodes.Set(func() { nodes.Carry = nodestest.Answers(`{"result":3}`) })
				want(t, h.evaluate("r1"), capabilities.StatusOK, "")
				return
			}
			if again.Call != r.Call || !again.Deduplicated || len(nodes.Sent()) != 1 {
				t.Errorf("%+v, %d tickets for one request", again, len(nodes.Sent()))
			}
			if c.code == capabilities.CodeUnknownOutcome {
				for end := time.Now().Add(time.Minute); h.open.Unsettled() > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
				}
				h.stop()
				h.begin()
				for end := time.Now().Add(time.Minute); h.open.Unsettled() > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
				}
				if r := h.evaluate("r1"); r.Code != c.code || !strings.HasPrefix(r.Message, "Nobody can tell any more") {
					t.Errorf("once nobody can tell: %s %q", r.Code, r.Message)
				}
			}
		})
	}
}

// A retry whose result is no longer kept is told so of the call that it repeats, even
// when the key that compares the arguments is gone too.
func TestExpiredResultIsOfTheFirstCall(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Carry = nodestest.Answers(`{"result":1}`)
	h := newHouse(t, nodes, nil)
	first := h.evaluate("r1")
	want(t, first, capabilities.StatusOK, "")
	for _, gone := range []string{"outcome", "outcome_digest_key"} {
		must(t, h.store.Write(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Exec("DELETE FROM " + gone)
			return err
		}))
		h.stop()
		h.begin()
		again := h.evaluate("r1")
		want(t, again, capabilities.StatusError, capabilities.CodeResultExpired)
		if again.Call != first.Call || !again.Deduplicated || len(nodes.Sent()) != 1 {
			t.Errorf("without %s: %+v, %d tickets, want %s", gone, again, len(nodes.Sent()), first.Call)
		}
	}
}

// A node that is silent past deadline and grace has told nothing: the call is not
// called late, it is unknown until the node says what became of it.
func TestSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := nodestest.New("n1")
		nodes.Carry = func(ctx context.Context, _ *wire.Ticket, _ func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
			<-ctx.Done()
			return wire.Answer{}, nil, context.Cause(ctx)
		}
		h := newHouse(t, nodes, nil)
		defer func() { h.stop(); _ = h.store.Close() }() // inside the bubble
		began := time.Now()
		r := h.call(t.Context(), toolEvaluate, `{"expression":"1","timeout_ms":1000}`, "r1")
		want(t, r, capabilities.StatusError, capabilities.CodeUnknownOutcome)
		if took := time.Since(began); took < time.Second+answerGrace || took > time.Second+opencalls.SettleGrace+time.Second {
			t.Errorf("after %s", took)
		}
		h.wantKinds(r.Call, "request", "decision", "dispatch", "failed")
		if h.state(r.Call) != opencalls.Unknown {
			t.Errorf("row %q", h.state(r.Call))
		}
		nodes.Set(func() { nodes.Tell = nodestest.Finished(`{"result":1}`) })
		time.Sleep(time.Second)
		h.wantKinds(r.Call, "request", "decision", "dispatch", "failed", "reconciled")
		again := h.evaluate("r1")
		want(t, again, capabilities.StatusOK, "")
		if again.Call != r.Call || !again.Deduplicated || len(nodes.Sent()) != 1 {
			t.Errorf("%+v, %d tickets", again, len(nodes.Sent()))
		}
	})
}

// The gateway ends while a call waits for its node. The next process takes it up,
// a retry joins it, and it ends once.
func TestRestartWithAnOpenCall(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Roster[0].Connected = false
	lost := make(chan struct{})
	nodes.Carry = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		nodes.Connect(0, false)
		close(lost)
		return losing(context.Background(), nil, nil)
	}
	nodes.Roster[0].Connected = true
	h := newHouse(t, nodes, nil)
	first := make(chan capabilities.Result, 1)
	go func() { first <- h.evaluate("r1") }()
	<-lost
	h.stop()
	r := <-first
	want(t, r, capabilities.StatusError, capabilities.CodeUnknownOutcome)
	h.wantKinds(r.Call, "request", "decision", "dispatch")

	// A second restart, before the node came back, lets go of who joined.
	h.begin()
	joined := make(chan capabilities.Result, 1)
	go func() { joined <- h.evaluate("r1") }()
	h.awaitWaiters("r1", 2)
	h.stop()
	want(t, <-joined, capabilities.StatusError, capabilities.CodeUnknownOutcome)
	h.wantKinds(r.Call, "request", "decision", "dispatch")

	h.begin()
	// Other arguments are another question, also to a call of another life.
	want(t, h.call(t.Context(), toolEvaluate, `{"expression":"2"}`, "r1"), capabilities.StatusError, capabilities.CodeRequestIDConflict)
	go func() { joined <- h.evaluate("r1") }()
	h.awaitWaiters("r1", 2)
	nodes.Set(func() { nodes.Tell = nodestest.Finished(`{"result":7}`) })
	nodes.Connect(0, true)
	again := <-joined
	want(t, again, capabilities.StatusOK, "")
	if again.Call != r.Call || string(again.Output) != `{"result":7}` || len(nodes.Sent()) != 1 {
		t.Errorf("%+v, %d tickets", again, len(nodes.Sent()))
	}
	h.wantKinds(r.Call, "request", "decision", "dispatch", "result")
}

// awaitWaiters waits until n wait for the execution of a request ID.
func (h *house) awaitWaiters(id capabilities.RequestID, n int) {
	h.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		k := h.executions.Get(execution.Key{Asker: agentCaller.asker(), Request: id})
		if k == nil {
			continue
		}
		waiters := k.Execution.Waiters()
		if waiters >= n {
			return
		}
	}
	h.t.Fatalf("%d never came to wait for %s", n, id)
}

// The gateway's own tools died with it and have no journal.
func TestRestartWithAnOpenCallOfTheGatewaysOwn(t *testing.T) {
	h := newHouse(t, nodestest.New(), nil)
	h.stop()
	r := opencalls.Call{ID: "c1", Principal: "agent-1", Request: "r1", Lane: "main", Tool: "tool.node.list", State: opencalls.Open, Created: time.Now()}
	key, err := h.outcomes.DigestKey(t.Context(), r.ID, r.Created)
	must(t, err)
	mac := key.MAC([]byte(`{}`))
	r.ArgsMAC = mac[:]
	h.insert(&r)
	h.begin()
	want(t, h.call(t.Context(), "tool.node.list", `{}`, "r1"), capabilities.StatusError, capabilities.CodeUnknownOutcome)
	h.wantKinds("c1", "failed")
}

// reconcile writes what the row still needs, and nothing twice.
func TestLateWordMeetsTheRow(t *testing.T) {
	ok := opencalls.End{Answer: wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{"result":1}`)}}
	unknown := opencalls.End{Err: &capabilities.Error{Code: capabilities.CodeUnknownOutcome}}
	for name, c := range map[string]struct {
		state   opencalls.State // of the row; "" for none
		request capabilities.RequestID
		end     opencalls.End
		kinds   []string
		after   opencalls.State
	}{
		"the end could not be written before":         {opencalls.Open, "r1", ok, []string{"result"}, opencalls.Ended},
		"nor could that nobody knows":                 {opencalls.Open, "r1", unknown, []string{"failed"}, opencalls.Unknown},
		"told unknown, and now it is known":           {opencalls.Unknown, "r1", ok, []string{"reconciled"}, opencalls.Ended},
		"told unknown, and known, with no retry":      {opencalls.Unknown, "", ok, []string{"reconciled"}, ""},
		"told unknown, and so it stays":               {opencalls.Unknown, "r1", unknown, nil, opencalls.Unknown},
		"told unknown, and so it stays, with nobody":  {opencalls.Unknown, "", unknown, nil, ""},
		"it was written down after all":               {opencalls.Ended, "r1", ok, nil, opencalls.Ended},
		"it was written down, and nobody can ask":     {"", "", ok, nil, ""},
		"it was written down, and the node forgot it": {opencalls.Ended, "r1", unknown, nil, opencalls.Ended},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, nodestest.New("n1"), nil)
			r := opencalls.Call{ID: "c1", Principal: "agent-1", Request: c.request, Lane: "main", Tool: toolEvaluate, Node: "n1", ArgsMAC: []byte{1}, State: c.state, Created: time.Now()}
			if c.state != "" {
				h.insert(&r)
			}
			for range 2 { // the second time there is nothing left to say
				h.reconcile(t.Context(), r, c.end, 0)
			}
			h.wantKinds("c1", c.kinds...)
			if got := h.state("c1"); got != c.after {
				t.Errorf("the row is %q, want %q", got, c.after)
			}
		})
	}
}

// Once the digest key is gone nothing is digested under a key that all know.
func TestNoDigestWithoutAKey(t *testing.T) {
	h := newHouse(t, nodestest.New("n1"), nil)
	r := opencalls.Call{ID: "c1", Principal: "agent-1", Lane: "main", Tool: toolEvaluate, Node: "n1", ArgsMAC: []byte{1}, State: opencalls.Unknown, Created: time.Now().AddDate(-1, 0, 0)}
	h.insert(&r)
	h.reconcile(t.Context(), r, opencalls.End{Answer: wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{"result":1234}`)}}, 0)
	h.wantKinds("c1", "reconciled")
	if b := h.body(h.packets("c1")[0]); b.Digest != "" {
		t.Errorf("digest %s", b.Digest)
	}
}

func TestRetries(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Carry = nodestest.Answers(`{"result":1}`)
	h := newHouse(t, nodes, nil)
	first := h.evaluate("r1")
	want(t, first, capabilities.StatusOK, "")
	conflict := func(name string, req Request) {
		t.Helper()
		req.RequestID = "r1"
		r := h.Call(t.Context(), req)
		if r.Code != capabilities.CodeRequestIDConflict {
			t.Errorf("%s: %+v", name, r)
		}
		h.wantKinds(r.Call, "request", "decision", "failed")
	}
	args := []byte(`{"expression":"1"}`)
	conflict("other arguments", Request{Caller: agentCaller, Tool: toolEvaluate, Args: []byte(`{"expression":"2"}`)})
	conflict("another node", Request{Caller: agentCaller, Tool: toolEvaluate, Args: []byte(`{"expression":"1","node_id":"n1"}`)})
	conflict("another tool", Request{Caller: agentCaller, Tool: "tool.node.list", Args: []byte(`{}`)})
	conflict("another lane", Request{Caller: Caller{Principal: "agent-1", Role: policy.RoleAgent, Lane: "side"}, Tool: toolEvaluate, Args: args})
	if r := h.Call(t.Context(), Request{Caller: Caller{Principal: "agent-2", Role: policy.RoleAgent, Lane: "main"}, Tool: toolEvaluate, Args: args, RequestID: "r1"}); r.Status != capabilities.StatusOK || r.Deduplicated {
		t.Errorf("another principal met the call: %+v", r)
	}
	// Another way to write the same arguments, another time limit: the same call.
	for _, same := range []string{`{ "expression" : "1" }`, `{"expression":"\u0031"}`, `{"expression":"1","timeout_ms":5}`} {
		if r := h.call(t.Context(), toolEvaluate, same, "r1"); r.Call != first.Call || !r.Deduplicated || string(r.Output) != `{"result":1}` {
			t.Errorf("%s: %+v", same, r)
		}
	}
	if len(nodes.Sent()) != 2 {
		t.Errorf("%d tickets", len(nodes.Sent()))
	}
}

// A retry asks about its earlier call, wherever the nodes are by now.
func TestRetryWhileTheNodeIsAway(t *testing.T) {
	for name, away := range map[string]func(h *house){
		"offline": func(h *house) { h.nodes.Connect(0, false) },
		"nothing said yet": func(h *house) {
			h.nodes.Change(func() { h.nodes.Roster[0].Connected, h.nodes.Roster[0].Readiness = false, nil })
		},
		"another came": func(h *house) {
			h.nodes.Change(func() { h.nodes.Roster = append(h.nodes.Roster, nodestest.New("n2").Roster...) })
		},
		"another is there instead": func(h *house) {
			h.nodes.Change(func() {
				h.nodes.Roster = append(h.nodes.Roster, nodestest.New("n2").Roster...)
				h.nodes.Roster[0].Connected = false
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := nodestest.New("n1")
			nodes.Carry = nodestest.Answers(`{"result":1}`)
			h := newHouse(t, nodes, nil)
			first := h.evaluate("r1")
			away(h)
			again := h.evaluate("r1")
			want(t, again, capabilities.StatusOK, "")
			if again.Call != first.Call {
				t.Errorf("%+v", again)
			}
			want(t, h.call(t.Context(), toolEvaluate, `{"expression":"2"}`, "r1"), capabilities.StatusError, capabilities.CodeRequestIDConflict)
			if name != "another is there instead" {
				want(t, h.evaluate("r2"), capabilities.StatusError, capabilities.CodeAmbiguousNode)
			}
			// A new deny wins over an old result.
			h.rules(permitAll + `@id("no") forbid(principal, action == Action::"tool.browser.evaluate", resource);`)
			if r := h.evaluate("r1"); r.Status != capabilities.StatusDenied || r.Output != nil {
				t.Errorf("after the deny: %+v", r)
			}
			if len(nodes.Sent()) != 1 {
				t.Errorf("%d tickets", len(nodes.Sent()))
			}
		})
	}
	t.Run("put out", func(t *testing.T) {
		nodes := nodestest.New("n1")
		nodes.Carry = nodestest.Answers(`{"result":1}`)
		h := newHouse(t, nodes, nil)
		h.evaluate("r1")
		nodes.Change(func() { nodes.Roster[0].Revoked = true })
		want(t, h.evaluate("r1"), capabilities.StatusError, capabilities.CodeAmbiguousNode)
	})
}

// A retry that no node can take and whose earlier call was forgotten between the two looks
// does not run anywhere.
func TestUnroutableNeverRuns(t *testing.T) {
	nodes := nodestest.New("n1")
	h := newHouse(t, nodes, nil)
	refusal := &capabilities.Error{Code: capabilities.CodeAmbiguousNode}
	r := Request{Caller: agentCaller, Tool: toolEvaluate, Args: []byte(`{"expression":"1"}`), RequestID: "r1"}
	q, err := h.resolve(t.Context(), newTrail(&r, time.Now()), r)
	if err != nil {
		t.Fatal(err)
	}
	v, err := h.decide(&routed{resolved: q, engine: h.engine.Load(), node: &nodes.Snapshot()[0], unroutable: refusal})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.deduplicate(t.Context(), v); err != refusal {
		t.Errorf("%v", err)
	}
	if len(nodes.Sent()) != 0 || h.places.Taken() != 0 {
		t.Errorf("%d tickets, %d places taken", len(nodes.Sent()), h.places.Taken())
	}
}

// Retries that come while it runs join, share progress, and keep it alive when the
// first caller goes.
func TestJoinKeepsTheCallAlive(t *testing.T) {
	nodes := nodestest.New("n1")
	started, release := make(chan struct{}), make(chan struct{})
	nodes.Carry = func(ctx context.Context, _ *wire.Ticket, progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		close(started)
		<-release
		progress(capabilities.Progress{Done: 1})
		if err := context.Cause(ctx); err != nil {
			return wire.Answer{}, nil, capabilities.Wrap(capabilities.CodeCancelled, err, "")
		}
		return nodestest.Answers(`{"result":1}`)(context.Background(), nil, nil)
	}
	h := newHouse(t, nodes, nil)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan capabilities.Result, 1)
	go func() { first <- h.call(ctx, toolEvaluate, `{"expression":"1"}`, "r1") }()
	<-started
	var mu sync.Mutex
	saw := 0
	joined := make(chan capabilities.Result, 1)
	go func() {
		joined <- h.Call(context.Background(), Request{
			Caller: agentCaller, Tool: toolEvaluate, Args: []byte(`{"expression":"1"}`), RequestID: "r1",
			Progress: func(capabilities.Progress) { mu.Lock(); saw++; mu.Unlock() },
		})
	}()
	h.awaitWaiters("r1", 2)
	cancel()
	want(t, <-first, capabilities.StatusError, capabilities.CodeCancelled)
	close(release)
	r := <-joined
	want(t, r, capabilities.StatusOK, "")
	h.wantKinds(r.Call, "request", "decision", "dispatch", "result")
	if mu.Lock(); saw != 1 || !r.Deduplicated || len(nodes.Sent()) != 1 {
		t.Errorf("progress %d times, %+v, %d tickets", saw, r, len(nodes.Sent()))
	}
	mu.Unlock()
}

// A caller who goes away before the commit leaves nothing behind that runs.
func TestCancelledBeforeTheCommit(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Carry = nodestest.Answers(`{"result":1}`)
	h := newHouse(t, nodes, nil)
	for range 100 {
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		h.call(ctx, toolEvaluate, `{"expression":"1"}`, "")
		cancel()
	}
	h.stop()
	rows, err := New(h.opts).open.LeftOpen(context.Background())
	must(t, err)
	if len(rows) != 0 {
		t.Errorf("%d calls stay open: %+v", len(rows), rows[0])
	}
}

// Once it ends nothing begins: the store is about to close.
func TestNothingBeginsAtTheEnd(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Carry = nodestest.Answers(`{"result":1}`)
	h := newHouse(t, nodes, nil)
	h.evaluate("r1")
	h.stop()
	want(t, h.evaluate(""), capabilities.StatusError, capabilities.CodeOverloaded)
	want(t, h.evaluate("r1"), capabilities.StatusError, capabilities.CodeOverloaded)
	if len(nodes.Sent()) != 1 {
		t.Errorf("%d tickets", len(nodes.Sent()))
	}
}

// A tool that dispatch would allow is visible.
func TestVisibleFollowsNodesAndRules(t *testing.T) {
	nodes := nodestest.New("n1")
	h := newHouse(t, nodes, nil)
	visible := func() []string {
		var ids []string
		for _, d := range h.Visible(t.Context(), agentCaller) {
			ids = append(ids, string(d.Tool))
		}
		return ids
	}
	if got := visible(); !slices.Equal(got, []string{"tool.browser.evaluate", "tool.node.list"}) {
		t.Errorf("%q", got)
	}
	changed := h.Changed()
	nodes.Connect(0, false)
	<-changed
	if got := visible(); !slices.Equal(got, []string{"tool.node.list"}) {
		t.Errorf("without the node: %q", got)
	}
	nodes.Connect(0, true)
	h.rules(policyNothing)
	if got := visible(); len(got) != 0 {
		t.Errorf("without a rule: %q", got)
	}
}

const policyNothing = `forbid(principal, action, resource);`
