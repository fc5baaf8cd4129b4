package front_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/lane"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/live"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/push"
	"github.com/handrail-dev/handrail/gateway/secret"
	"github.com/handrail-dev/handrail/gateway/stop"
)

// The same of what other rooms hold.
func TestRoomsOnTheWire(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, c := range []struct {
		view any
		want string
	}{
		{
			front.ViewLane(&lane.Lane{Lane: "main", Principal: "robot", Nodes: []capabilities.NodeID{"n1"}, CreatedAt: at, LastUsed: at}),
			`{"lane":"main","principal":"robot","nodes":["n1"],"created_at":"2026-03-04T05:06:07Z","last_used":"2026-03-04T05:06:07Z"}`,
		},
		{front.ViewLane(&lane.Lane{Lane: "main", Nodes: []capabilities.NodeID{}, CreatedAt: at}), `{"lane":"main","nodes":[],"created_at":"2026-03-04T05:06:07Z"}`},
		{
			front.ViewStop(stop.State{Epoch: 2, Stopped: true, By: "ann", Reason: "r", Since: at}),
			`{"epoch":2,"stopped":true,"by":"ann","reason":"r","since":"2026-03-04T05:06:07Z"}`,
		},
		{front.ViewStop(stop.State{}), `{"epoch":0,"stopped":false}`},
		{
			front.ViewUser(&principal.User{
				Principal: "ann", Role: principal.RoleOperator, TokenID: "u1", Password: true, CreatedAt: at,
				Passkeys: []principal.Passkey{{ID: "k", Name: "phone", Place: "h.example", Key: []byte("no"), Count: 3, Sync: true, CreatedAt: at, UsedAt: at}, {ID: "l", CreatedAt: at}},
			}),
			`{"principal":"ann","role":"operator","token_id":"u1","password":true,"passkeys":[{"passkey":"k","name":"phone","place":"h.example","synced":true,"created_at":"2026-03-04T05:06:07Z","used_at":"2026-03-04T05:06:07Z"},{"passkey":"l","name":"","place":"","created_at":"2026-03-04T05:06:07Z"}],"created_at":"2026-03-04T05:06:07Z"}`,
		},
		{
			front.ViewSecret(&secret.Entry{
				Name: "mail", Source: "stored", Version: 2, Changed: at,
				References: []secret.Reference{{ID: "r1", Alias: "a", Tools: []capabilities.ToolID{"tool.a.b"}, Display: "d", Owner: "robot"}},
			}),
			`{"name":"mail","source":"stored","version":2,"changed_at":"2026-03-04T05:06:07Z","references":[{"secret_ref_id":"r1","secret_alias":"a","allowed_tool_ids":["tool.a.b"],"display_name":"d","principal":"robot"}]}`,
		},
		{
			front.ViewInvite(&nodes.Invite{
				ID: "i1", Label: "l", Trust: "owner", Allow: []string{"*"}, Labels: []string{"home"}, AutoApprove: true, Uses: 2, Used: 1, CreatedAt: at, CreatedBy: "ann", ExpiresAt: at,
				Withdrawn: true, UsedBy: []nodes.InviteUse{{Node: "n1", Host: "h", Platform: "linux", Fingerprint: "ab", At: at}},
			}),
			`{"invite_id":"i1","label":"l","trust":"owner","allow":["*"],"labels":["home"],"auto_approve":true,"uses":2,"used":1,"created_at":"2026-03-04T05:06:07Z","created_by":"ann","expires_at":"2026-03-04T05:06:07Z","withdrawn":true,"used_by":[{"node_id":"n1","host":"h","platform":"linux","key_fingerprint":"ab","at":"2026-03-04T05:06:07Z"}]}`,
		},
		{
			front.ViewWatchers([]live.View{{ID: "s1", Node: "n1", Source: "screen", Principal: "ann", Since: at}}),
			`[{"session_id":"s1","node_id":"n1","source":"screen","principal":"ann","since":"2026-03-04T05:06:07Z"}]`,
		},
		{
			front.ViewControl(&live.Control{ID: "s1", Node: "n1", Principal: "ann", Since: at, Frame: &live.Frame{ID: "f1", Width: 2, Height: 3}}),
			`{"session_id":"s1","node_id":"n1","principal":"ann","since":"2026-03-04T05:06:07Z","paused":false,"frame":{"frame_id":"f1","width":2,"height":3}}`,
		},
		{front.ViewControl(&live.Control{Node: "n1", Principal: "ann", Since: at, Paused: true}), `{"node_id":"n1","principal":"ann","since":"2026-03-04T05:06:07Z","paused":true}`},
		{
			front.ViewRecording(&live.Recording{ID: "r1", Lane: "main", Node: "n1", Principal: "ann", Since: at, Until: at, Result: &capabilities.Result{Call: "c1", Tool: "tool.a.b", Status: capabilities.StatusOK}}),
			`{"recording_id":"r1","lane":"main","node_id":"n1","principal":"ann","since":"2026-03-04T05:06:07Z","until":"2026-03-04T05:06:07Z","result":{"call_id":"c1","tool_id":"tool.a.b","status":"ok","duration_ms":0}}`,
		},
		{
			front.ViewSubscription(&push.Subscription{ID: "b1", Principal: "ann", Name: "phone", Service: "push.example", CreatedAt: at}),
			`{"subscription":"b1","principal":"ann","name":"phone","service":"push.example","created_at":"2026-03-04T05:06:07Z"}`,
		},
		{
			front.ViewMarks(&live.Marks{Node: "n1", Session: "s1", Marks: []capabilities.Mark{}, Version: 7}),
			`{"node_id":"n1","session_id":"s1","marks":[]}`,
		},
	} {
		text, err := json.Marshal(c.view)
		if err != nil || string(text) != c.want {
			t.Errorf("%v\n got %s\nwant %s", err, text, c.want)
		}
	}
	// A packet is on the wire as it is in an export.
	p := ledger.Packet{Seq: 7, TimeUS: 1e15, Kind: ledger.KindCallRequest, Call: "c1", Tool: "tool.a.b", Principal: "ann", Lane: "main", Node: "n1", Body: json.RawMessage(`{"a":1}`)}
	p.Prev[0], p.Hash[31] = 1, 2
	want, err := json.Marshal(&p)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(front.ViewPacket(&p)); err != nil || string(got) != string(want) {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
}
