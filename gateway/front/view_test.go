package front_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/front"
)

// Other people's programs read these bytes of a question and of a grant.
func TestConsentOnTheWire(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, c := range []struct {
		view any
		want string
	}{
		{
			front.ViewApproval(&consent.Approval{
				ID: "a-1", State: consent.StateClosed, Principal: "robot", Role: "agent", Tool: "tool.a.b", Title: "Does", Node: "n1", NodeLabel: "study", Lane: "main",
				Arguments: map[string]any{"x": 1}, Hosts: []string{"h"}, Paths: []string{"/p"}, Risk: "high", Keys: []string{"k"}, Escalated: []string{"e"},
				Envelope: &policy.Summary{Hash: "bb", Risk: policy.RiskLow, Isolation: "t1", Grants: []string{"g"}}, Why: []string{"w"}, Longest: consent.KindLease, Hands: true,
				Choices: []consent.Choice{{Kind: consent.KindCall, Seconds: 1, Most: 2}}, Overrides: []consent.Override{{Effect: "permit", Cedar: "c", Note: "n"}, {Effect: "forbid", Cedar: "d"}},
				Policies: []string{"p"}, Snapshot: "s", User: true, Task: "t-1", Created: at, Expires: at, Waiting: 2, MayReturn: true, By: "ann", Reason: "r",
				Closed: consent.ClosedLane, Answered: at,
			}),
			`{"approval":"a-1","state":"closed","principal":"robot","role":"agent","tool":"tool.a.b","title":"Does","node":"n1","node_label":"study","lane":"main","arguments":{"x":1},"hosts":["h"],"paths":["/p"],"risk":"high","capabilities":["k"],"escalated_keys":["e"],"envelope":{"hash":"bb","tool_slug":"","action":"","capabilities":{"data":null,"execution":null,"network":null,"privileged":null,"ui":null},"capability_profile_id":"","risk_level":"low","isolation_class":"t1","policy_snapshot_id":"","effective_grants":["g"]},"surface":{"mode":"safe"},"why":["w"],"longest":"lease","hands":true,"choices":[{"kind":"call","seconds":1,"most_seconds":2}],"overrides":[{"effect":"permit","cedar":"c","note":"n"},{"effect":"forbid","cedar":"d"}],"policies":["p"],"policy_snapshot_id":"s","user":true,"task":"t-1","created_at":"2026-03-04T05:06:07Z","expires_at":"2026-03-04T05:06:07Z","waiting":2,"may_return":true,"answered_by":"ann","reason":"r","closed_because":"lane_ended","answered_at":"2026-03-04T05:06:07Z"}`,
		},
		{
			front.ViewApproval(&consent.Approval{}),
			`{"approval":"","state":"","principal":"","role":"","tool":"","title":"","lane":"","risk":"","surface":{"mode":"safe"},"longest":"","choices":null,"policy_snapshot_id":"","created_at":"0001-01-01T00:00:00Z","expires_at":"0001-01-01T00:00:00Z","waiting":0}`,
		},
		{
			front.ViewTold(&consent.Told{
				Does: "d", Purpose: "p", Where: &consent.Where{App: "a", Window: "w", Field: "f", Role: "r", Address: "x", Password: true, Terminal: true, Named: []consent.Named{{Arg: "no"}}},
				Into: "i", Fields: []consent.Field{{Name: "n", Text: "t", More: 1, Script: true, Hidden: true, Is: "b"}, {Name: "m"}}, TooLong: true,
				Frame: &consent.Frame{ID: "f1", Spots: []consent.Spot{{X: 1, Y: 2.5}}, Mine: true},
			}),
			`{"does":"d","purpose":"p","where":{"app":"a","window":"w","field":"f","role":"r","address":"x","password":true,"terminal":true},"into":"i","fields":[{"name":"n","text":"t","more":1,"script":true,"hidden":true,"is":"b"},{"name":"m"}],"too_long":true,"frame":{"frame_id":"f1","spots":[{"x":1,"y":2.5}],"available":true}}`,
		},
		{front.ViewTold(&consent.Told{}), `{}`},
		{
			front.ViewGrant(&consent.Grant{
				ID: "g-1", Kind: consent.KindLease, Principal: "robot", Tools: []string{"tool.a.*"}, Node: "n1", Lane: "main", Snapshot: "s", Manifest: "m",
				Scope: consent.Scope{Domains: []string{"d"}, Apps: []string{"a"}, Paths: []string{"/p"}, Starts: at}, MaxUses: 3, Used: 1, ArgsDigest: "dd", Nonce: "n", Via: "mcp",
				Known: "link", Approver: "ann", Reason: "r", Created: at, Expires: at,
			}),
			`{"grant":"g-1","kind":"lease","principal":"robot","tools":["tool.a.*"],"node":"n1","lane":"main","policy_snapshot_id":"s","manifest_hash":"m","scope":{"domains":["d"],"apps":["a"],"paths":["/p"],"starts_at":"2026-03-04T05:06:07Z"},"max_uses":3,"used":1,"args_digest":"dd","nonce":"n","via":"mcp","known_by":"link","approver":"ann","reason":"r","created_at":"2026-03-04T05:06:07Z","expires_at":"2026-03-04T05:06:07Z"}`,
		},
	} {
		text, err := json.Marshal(c.view)
		if err != nil || string(text) != c.want {
			t.Errorf("%v\n got %s\nwant %s", err, text, c.want)
		}
	}
}
