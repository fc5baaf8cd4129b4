package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
	"github.com/handrail-dev/handrail/gateway/opencalls"
)

// Each difference between the node's observations and the grants leaves an event with the call's
// end, and a critical one makes the result void (S1-43, S1-49, S1-51, S1-65).
func TestDriftIsRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		seen   []wire.Observation
		given  capabilities.IsolationClass
		events []string
		code   capabilities.Code
	}{
		"nothing":                      {seen: []wire.Observation{{Key: "network.browser.session", Detail: "example.com", Count: 2}}, given: capabilities.ClassT3},
		"another key":                  {seen: []wire.Observation{{Key: "data.write.workspace", Detail: "a.txt", Count: 1}}, given: capabilities.ClassT3, events: []string{"2 violation recorded data.write.workspace a.txt"}},
		"a secret":                     {seen: []wire.Observation{{Key: "privileged.secret.read", Count: 1}}, given: capabilities.ClassT3, events: []string{"3 critical restricted privileged.secret.read "}, code: capabilities.CodeDriftCritical},
		"below its class":              {given: capabilities.ClassT0, events: []string{"5 critical restricted isolation.t0 t0 where t2 was needed"}, code: capabilities.CodeDriftCritical},
		"an earlier call's":            {seen: []wire.Observation{{Key: "data.write.temp", Detail: "a.pdf", Count: 1, Among: []capabilities.CallID{"call_0"}, Granted: true}}, given: capabilities.ClassT3},
		"one that might not":           {seen: []wire.Observation{{Key: "data.write.temp", Detail: "a.pdf", Count: 1, Among: []capabilities.CallID{"call_0"}}}, given: capabilities.ClassT3, events: []string{"2 violation recorded data.write.temp a.pdf (after the call had ended)"}},
		"an earlier call's privileges": {seen: []wire.Observation{{Key: "privileged.secret.read", Count: 1, Among: []capabilities.CallID{"call_0"}, Granted: true}}, given: capabilities.ClassT3, events: []string{"3 critical restricted privileged.secret.read  (after the call had ended)"}, code: capabilities.CodeDriftCritical},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := nodestest.New("n1")
			nodes.Carry = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
				return wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{"result":"1"}`), Observed: c.seen, Isolation: c.given}, nil, nil
			}
			h := newHouse(t, nodes, nil)
			r := h.evaluate("")
			if r.Code != c.code || (r.Output == nil) != (c.code != "") {
				t.Errorf("%+v", r)
			}
			var events []string
			for _, p := range append(h.packets(r.Call), h.packets("call_0")...) {
				if p.Kind != ledger.KindDrift {
					continue
				}
				var d packet.Drift
				must(t, json.Unmarshal(p.Body, &d))
				events = append(events, fmt.Sprintln(int(d.Signal), d.Severity, d.Response, d.Key, d.Evidence))
				if d.ID == "" || len(d.EnvelopeHash) != 64 || d.Runner == "" || d.Snapshot == "" || p.Node != "n1" || p.Tool != toolEvaluate {
					t.Errorf("%+v of %+v", d, p)
				}
			}
			if len(events) != len(c.events) || len(events) == 1 && events[0] != c.events[0]+"\n" {
				t.Errorf("events %q, want %q", events, c.events)
			}
			last := h.packets(r.Call)
			if len(last) < 4 || !last[3].Kind.Terminal() {
				t.Fatalf("%v", last)
			}
			var end packet.End
			must(t, json.Unmarshal(last[3].Body, &end))
			for i, o := range end.Observed { // it names the call that did it
				if want := among(c.seen[i].Among); o.Key != c.seen[i].Key || o.Of != want {
					t.Errorf("%+v, of %q", o, want)
				}
			}
			if len(end.Observed) != len(c.seen) {
				t.Errorf("%+v", end)
			}
		})
	}
}

// Secrets that the broker is asked for are compared like all that nodes see, also where the node
// says nothing: one that the envelope does not grant is not handed out, and critical (S1-46,
// S1-50).
func TestTheBrokerSeesSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		grants []string
		refuse bool
		events int
	}{
		"granted":     {[]string{capabilities.KeySecret}, false, 0},
		"not granted": {[]string{"data.write.clipboard"}, true, 1},
	} {
		one := &openCall{trail: &trail{wanted: &wanted{}, sealed: &policy.Sealed{Envelope: policy.Envelope{Grants: c.grants, Isolation: capabilities.ClassT3}}}}
		no := one.brokers("sec1")
		if (no != nil) != c.refuse {
			t.Errorf("%s: %v", name, no)
		}
		end := opencalls.End{Answer: wire.Answer{Status: capabilities.StatusOK, Output: []byte("{}"), Observed: one.alsoBrokered(nil)}}
		if no != nil {
			end = opencalls.End{Err: no}
		}
		one.conclude(end)
		if events := one.drift.Events; len(events) != c.events || c.events > 0 && (events[0].Severity != drift.Critical || events[0].Signal != drift.Secret || events[0].Evidence != "sec1") {
			t.Errorf("%s: %+v", name, events)
		}
	}
}

// Of a host that was refused although the call has the key, the event says that the key is for
// other hosts only (S1-44).
func TestARefusedHostOfAGrantedKey(t *testing.T) {
	for grant, want := range map[string]string{
		capabilities.KeyEgress: "evil.example:443 (granted for other hosts only)", capabilities.KeyWrite: "evil.example:443",
	} {
		one := &openCall{trail: &trail{wanted: &wanted{}, sealed: &policy.Sealed{Envelope: policy.Envelope{
			Grants: []string{grant, capabilities.NarrowDomains + "api.example"}, Isolation: capabilities.ClassT2,
		}}}}
		one.conclude(opencalls.End{Answer: wire.Answer{
			Status: capabilities.StatusOK, Output: []byte("{}"), Isolation: capabilities.ClassT2,
			Observed: []wire.Observation{{Key: capabilities.KeyEgress, Detail: "evil.example:443", Count: 1, Refused: true}},
		}})
		if events := one.drift.Events; len(events) != 1 || events[0].Evidence != want {
			t.Errorf("with %s: %+v, want %q", grant, events, want)
		}
	}
}

// A flood of differences is bounded, and counted.
func TestDriftIsBounded(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Carry = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		a := wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{"result":"1"}`), Isolation: capabilities.ClassT3, Lost: 7}
		for i := range 40 {
			a.Observed = append(a.Observed, wire.Observation{Key: "data.write.workspace", Detail: fmt.Sprint("file", i), Count: 1})
		}
		return a, nil, nil
	}
	h := newHouse(t, nodes, nil)
	r := h.evaluate("")
	events := 0
	var rest packet.DriftUncounted
	for _, p := range h.packets(r.Call) {
		switch p.Kind {
		case ledger.KindDrift:
			events++
		case ledger.KindDriftUncounted:
			must(t, json.Unmarshal(p.Body, &rest))
		}
	}
	if events != maxEvents || rest.Events != 24+7 || rest.Severity != drift.Violation {
		t.Errorf("%d events, %+v", events, rest)
	}
}

// Critical drift restricts the tool and the third violation quarantines the runner: the next call
// is refused before anything is sent, with an envelope on record, also in the next process, until a
// person says otherwise (S1-52 to S1-54).
func TestDriftIsAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		seen  wire.Observation
		calls int
		code  capabilities.Code
		end   func(h *house, r capabilities.Result) error
	}{
		"critical": {wire.Observation{Key: "privileged.secret.read", Count: 1}, 1, capabilities.CodeToolRestricted, func(h *house, r capabilities.Result) error {
			return h.drift.Review(t.Context(), "ada", toolEvaluate, h.engine.Load().Profile(toolEvaluate).ManifestHash, "looked")
		}},
		"violations": {wire.Observation{Key: "data.write.workspace", Count: 1}, 3, capabilities.CodeRunnerQuarantined, func(h *house, r capabilities.Result) error {
			return h.drift.Lift(t.Context(), "ada", r.Action.Name, "looked")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := nodestest.New("n1")
			seen := []wire.Observation{c.seen}
			nodes.Carry = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
				return wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{"result":"1"}`), Observed: seen, Isolation: capabilities.ClassT3}, nil, nil
			}
			h := newHouse(t, nodes, nil)
			for range c.calls {
				if r := h.evaluate(""); r.Code == c.code {
					t.Fatalf("too early: %+v", r)
				}
			}
			nodes.Set(func() { seen = nil })
			h.stop()
			h.begin()
			sent := len(nodes.Sent())
			r := h.evaluate("")
			want(t, r, capabilities.StatusDenied, c.code)
			if r.Hint == "" || r.Action.IsZero() || len(nodes.Sent()) != sent {
				t.Errorf("%+v; %d tickets more", r, len(nodes.Sent())-sent)
			}
			h.wantKinds(r.Call, "request", "decision", "failed")
			must(t, c.end(h, r))
			want(t, h.evaluate(""), capabilities.StatusOK, "")
		})
	}
}

// A violation raises the risk of the tool's next envelope on that node by one level and a critical
// event by two; rules read it, the decision records it, other nodes are as before, and a person who
// resolves the events ends it (S1-05).
func TestDriftRaisesRisk(t *testing.T) {
	nodes := nodestest.New("n1", "n2")
	var seen []wire.Observation
	nodes.Carry = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		return wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{"result":"1"}`), Observed: seen, Isolation: capabilities.ClassT3}, nil, nil
	}
	h := newHouse(t, nodes, nil)
	on := func(node string) (r capabilities.Result, risk policy.Risk, raised int64) {
		r = h.call(context.Background(), toolEvaluate, `{"expression":"1","node_id":"`+node+`"}`, "")
		for _, p := range h.packets(r.Call) {
			if p.Kind == ledger.KindCallDecision {
				var d packet.Decision
				must(t, json.Unmarshal(p.Body, &d))
				if s := d.Summary(); s != nil {
					risk, raised = s.Risk, d.Raised
				}
			}
		}
		return r, risk, raised
	}
	_, base, none := on("n1")
	seen = []wire.Observation{{Key: "data.write.workspace", Count: 1}}
	_, _, _ = on("n1")
	seen = nil
	if _, risk, raised := on("n1"); risk != base.Raise(1) || risk == base || raised != 1 || none != 0 {
		t.Errorf("after a violation: %s by %d, was %s by %d", risk, raised, base, none)
	}
	if _, risk, raised := on("n2"); risk != base || raised != 0 {
		t.Errorf("on another node: %s by %d", risk, raised)
	}
	h.rules(permitAll + ` forbid (principal, action, resource) when { context.raised >= 1 };`)
	if r, _, _ := on("n1"); r.Status != capabilities.StatusDenied {
		t.Errorf("a rule reads nothing: %+v", r)
	}
	if r, _, _ := on("n2"); r.Status != capabilities.StatusOK {
		t.Errorf("%+v", r)
	}
	list, _, err := h.drift.List(t.Context(), events.Filter{Open: true})
	must(t, err)
	_, err = h.drift.Resolve(t.Context(), "ada", "looked", list[0].ID)
	must(t, err)
	if r, risk, _ := on("n1"); r.Status != capabilities.StatusOK || risk != base {
		t.Errorf("after it was resolved: %s, %+v", risk, r)
	}
}
