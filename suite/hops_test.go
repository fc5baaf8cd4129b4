package suite

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	packets "github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// recorded is a packet as the gateway's ledger returns it.
func recorded(t *testing.T, seq uint64, kind string, body packets.Body) packet {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	p := packet{TimeUS: time.Now().UnixMicro(), Seq: seq, Kind: kind}
	if err := json.Unmarshal(raw, &p.Body); err != nil {
		t.Fatal(err)
	}
	return p
}

// The hops are told from the names that the ledger's packets have.
func TestHopsReadTheLedgersNames(t *testing.T) {
	request := recorded(t, 1, "tool.call.request", &packets.Request{Surface: "a-surface", RequestID: "a-request", Digest: "an-args-digest"})
	decision := recorded(t, 2, "tool.call.decision", &packets.Decision{
		Effect: policy.Allow, Code: "a-decision-code", Policies: []string{"a-policy"}, EnvelopeHash: "an-envelope", Grant: "a-grant",
		Routing: &capabilities.Routing{Selected: "a-node", Mode: "a-mode"}, Degraded: "a-class",
	})
	dispatch := recorded(t, 3, "tool.call.dispatch", &packets.Dispatch{Grants: []string{"a-ticket-grant"}, DeadlineMS: 4321})
	end := recorded(t, 4, "tool.call.result", &packets.End{
		Status: "a-status", Code: "a-code", Effect: "an-effect", Digest: "an-output-digest", Isolation: "a-given-class",
		Observed: []packets.Observed{{Key: "a-key", Count: 1}}, DurationMS: 36.5, Hops: []int64{10, 20, 30, 40, 50, 1500, 1600, 1700, 36000, 36400},
	})
	pending := recorded(t, 4, "tool.call.pending_approval", &packets.End{Approval: "an-approval"})
	c := &Call{Lane: "a-lane", Sent: time.Now().Add(-time.Second), Answered: time.Now()}
	check := func(list []hop, want map[capabilities.Hop][]string) {
		t.Helper()
		for _, h := range list {
			for _, words := range want[h.N] {
				if !strings.Contains(h.What, words) {
					t.Errorf("%s says %q, without %q", h.N, h.What, words)
				}
			}
			delete(want, h.N)
		}
		for name := range want {
			t.Errorf("there is no hop %s", name)
		}
	}
	list := hops(c, []packet{request, decision, dispatch, end})
	check(list, map[capabilities.Hop][]string{
		capabilities.HopFront: {"surface a-surface", "lane a-lane"}, capabilities.HopResolve: {"arguments an-args-digest"}, capabilities.HopPlace: {"a-mode", "node a-node"},
		capabilities.HopDecide: {policy.Allow.String(), "a-policy", "a-decision-code", "envelope an-envelope"}, capabilities.HopDedupe: {"request a-request"},
		capabilities.HopPermit: {"allowed by a-grant"}, capabilities.HopSend: {"deadline 4321 ms", "a-ticket-grant"},
		capabilities.HopGuard: {"isolation given a-given-class", "accepted without a-class"}, capabilities.HopRun: {"a-key"},
		capabilities.HopRecord: {"tool.call.result", "output an-output-digest"}, capabilities.HopAnswer: {"a-status", "a-code", "effect an-effect"},
	})
	for _, h := range list {
		if h.N < 12 && h.N > 1 && h.When == "" {
			t.Errorf("%s says no time", h.N)
		}
	}
	check(hops(c, []packet{request, pending}), map[capabilities.Hop][]string{capabilities.HopPermit: {"waits for an-approval"}})
	if what := hops(c, []packet{request, recorded(t, 2, "tool.call.decision", &packets.Decision{}), dispatch, end})[5].What; what != "none asked" {
		t.Errorf("with no grant consent says %q", what)
	}
}
