package rest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/task"
	"github.com/handrail-dev/handrail/pairing"
)

func wantJSON(t *testing.T, v any, want string) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil || string(text) != want {
		t.Errorf("%v\n got %s\nwant %s", err, text, want)
	}
}

// Other people's programs read these bytes of a node.
func TestNodeOnTheWire(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	wantJSON(t, front.ViewNode(&nodes.View{
		ID: "n1", Label: "study", Trust: "owner", Owner: "ann", State: pairing.StateApproved, Platform: "linux", Arch: "amd64", Host: "h", Agent: "1.0", Fingerprint: "ab:cd",
		Connected: true, LastSeen: at, JoinedAt: at, DecidedAt: at, DecidedBy: "root", Reason: "mine", Allow: []string{"*"}, Labels: []string{"home"}, Invite: "i-1",
		Offers: []capabilities.CapabilityID{"tyrum.a.b"}, Wants: []capabilities.CapabilityID{"tyrum.a.c"}, Stopped: true, StopEpoch: 3, SiteStopped: true, CatalogSkew: true,
		Readiness: []capabilities.Readiness{
			{Capability: "tyrum.a.b", Reason: "x", Fix: "do", Isolation: capabilities.ClassT3, Degraded: "seccomp", Backend: "v4l2", Devices: []capabilities.Device{{ID: "cam"}}, Fake: true},
			{Capability: "tyrum.a.c"},
		},
	}, nil), `{"node_id":"n1","label":"study","trust":"owner","owner":"ann","state":"approved","platform":"linux","arch":"amd64","host":"h","agent_version":"1.0","key_fingerprint":"ab:cd","connected":true,"last_seen":"2026-03-04T05:06:07Z","joined_at":"2026-03-04T05:06:07Z","decided_at":"2026-03-04T05:06:07Z","decided_by":"root","reason":"mine","allow":["*"],"labels":["home"],"invite_id":"i-1","offers":["tyrum.a.b"],"wants":["tyrum.a.c"],"stopped":true,"stop_epoch":3,"site_stopped":true,"catalog_skew":true,"capabilities":[{"capability":"tyrum.a.b","tool_id":"tool.a.b","available":false,"reason":"x","fix":"do","isolation":"t3","degraded":"seccomp","backend":"v4l2","devices":[{"id":"cam"}],"fake":true},{"capability":"tyrum.a.c","tool_id":"tool.a.c","available":false,"reason":"node_not_paired"}]}`)
	wantJSON(t, front.ViewNode(&nodes.View{ID: "n1", State: pairing.StatePending}, nil), `{"node_id":"n1","label":"","trust":"","state":"pending","platform":"","arch":"","host":"","agent_version":"","key_fingerprint":"","connected":false,"joined_at":"0001-01-01T00:00:00Z","allow":[],"labels":[],"capabilities":[]}`)
}

// lost is deferred calls that cannot be read.
type lost struct{}

func (lost) Tasks(context.Context, capabilities.PrincipalID) ([]task.Task, error) {
	return nil, errors.New("lost")
}

func (lost) DropTask(context.Context, capabilities.PrincipalID, string, capabilities.PrincipalID) error {
	return errors.New("lost")
}

// Where the deferred calls cannot be read, what waits for one is left as it is, and what
// follows it in the list is told as ever.
func TestCallsAreToldWithoutTheTasks(t *testing.T) {
	tools, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{opts: Options{Tools: registry.New(tools, slog.New(slog.DiscardHandler)), Tasks: lost{}}}
	made := func(state, task string) *callView {
		v := &callView{Call: api.Call{Tool: "tool.browser.screenshot", State: state}, task: task}
		v.Outcome = v.outcome()
		return v
	}
	told := s.settled(t.Context(), []*callView{made("pending", "t-1"), made("pending", "t-2"), made("dispatched", "")})
	for i, want := range []string{"waits", "waits", "running"} {
		if told[i].Phrase == "" || told[i].Outcome != want {
			t.Errorf("call %d: %q, %q", i, told[i].Outcome, told[i].Phrase)
		}
	}
}

// The same of a call.
func TestCallOnTheWire(t *testing.T) {
	packet := func(seq uint64, kind ledger.Kind, body string) ledger.Packet {
		return ledger.Packet{Seq: seq, TimeUS: 1e15, Kind: kind, Call: "c1", Tool: "tool.a.b", Principal: "ann", Lane: "main", Node: "n1", Body: json.RawMessage(body)}
	}
	wantJSON(t, fold([]ledger.Packet{
		packet(7, ledger.KindCallRequest, `{"surface":"mcp","parent_call_id":"c0","step":2,"evidence":{"x":1}}`),
		packet(8, ledger.KindCallDecision, `{"effect":"allow","envelope_hash":"bb","routing":{"selected_node":{"label":"study"},"selected_node_id":"n1","selection_mode":"explicit"},"envelope":{"tool_slug":"a","action":"b","capabilities":{"data":["read.screen"],"execution":[],"network":[],"privileged":[],"ui":[]},"capability_profile_id":"p","risk_level":"low","isolation_class":"t1","policy_snapshot_id":"s","effective_grants":["data.read.screen"],"more":1}}`),
		packet(9, ledger.KindCallDispatch, `{"target":"node"}`),
		packet(10, ledger.KindCallFailed, `{"status":"error","code":"cancelled","effect":"partial","duration_ms":1.5,"ended_by":"person"}`),
	})[0], `{"call_id":"c1","tool_id":"tool.a.b","principal":"ann","lane":"main","node_id":"n1","node_label":"study","surface":"mcp","parent_call_id":"c0","step":2,"started_at":"2001-09-09T01:46:40Z","decision":"allow","state":"ended","outcome":"ended","ended_by":"person","status":"error","code":"cancelled","effect":"partial","duration_ms":1.5,"envelope":{"hash":"bb","tool_slug":"a","action":"b","capabilities":{"data":["read.screen"],"execution":[],"network":[],"privileged":[],"ui":[]},"capability_profile_id":"p","risk_level":"low","isolation_class":"t1","policy_snapshot_id":"s","effective_grants":["data.read.screen"]},"first_seq":7,"last_seq":10}`)
	wantJSON(t, fold([]ledger.Packet{packet(7, ledger.KindCallRequest, `{}`)})[0], `{"call_id":"c1","tool_id":"tool.a.b","principal":"ann","lane":"main","node_id":"n1","started_at":"2001-09-09T01:46:40Z","state":"requested","outcome":"asked","first_seq":7,"last_seq":7}`)
}
