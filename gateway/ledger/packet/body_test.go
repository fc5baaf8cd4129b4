package packet

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/drift"
)

// The bytes of old ledgers are those that are written today: these bytes are hashed.
func TestBodiesStayTheSame(t *testing.T) {
	for _, c := range []struct {
		body Body
		want string
	}{
		{&Request{}, `{}`},
		{
			&Request{
				Under: Under{"call_1"}, Step: 3, Surface: "mcp", RequestID: "r-1", ReplayOf: "call_0", Requested: "n1", Digest: "00ff",
				Evidence: map[string]any{"url": "https://example.com/?a=<b>&c", "n": 1.5, "text": "\u2028é"}, TimeoutMS: 20000,
			},
			`{"args_digest":"00ff","evidence":{"n":1.5,"text":"` + "\u2028é" + `","url":"https://example.com/?a=<b>&c"},"parent_call_id":"call_1","replay_of":"call_0","request_id":"r-1","requested_node_id":"n1","step":3,"surface":"mcp","timeout_ms":20000}`,
		},
		{&Decision{}, `{"effect":"deny","runner_fingerprint":""}`},
		{
			&Decision{
				Under: Under{"call_1"}, Effect: policy.Ask, Code: capabilities.CodeApprovalPending, Policies: []string{"b", "a"}, LogOnly: []string{"l"}, Errors: []string{"e"},
				Snapshot: "sha256:aa", EnvelopeHash: "bb", Grant: "g-1", Envelope: json.RawMessage(`{"action":"echo","v":1}`),
				Routing:  &capabilities.Routing{Requested: "n1", Selected: "n1", Mode: capabilities.SelectExplicit, Node: &capabilities.NodeSummary{Label: "study", Platform: "linux", Trust: "owner"}},
				Degraded: "t2", Given: capabilities.ClassT3, Labels: []string{"home"}, Role: "agent", Taint: []string{"web"}, Withheld: []string{"network.http"}, Raised: 2, Runner: "00ff",
			},
			`{"code":"approval_pending","effect":"ask","envelope":{"action":"echo","v":1},"envelope_hash":"bb","grant":"g-1","isolation_degraded":"t2","isolation_given":"t3","labels":["home"],"log_only":["l"],"parent_call_id":"call_1","policies":["b","a"],"policy_errors":["e"],"policy_snapshot_id":"sha256:aa","risk_raised":2,"role":"agent","routing":{"requested_node_id":"n1","selected_node":{"label":"study","platform":"linux","trust_level":"owner"},"selected_node_id":"n1","selection_mode":"explicit"},"runner_fingerprint":"00ff","taint":["web"],"withheld_keys":["network.http"]}`,
		},
		{&Dispatch{Grants: []string{}}, `{"deadline_ms":0,"grants":[],"isolation_class":"","target":""}`},
		{
			&Dispatch{Under: Under{"call_1"}, Target: "node", Grants: []string{"data.read.screen"}, Isolation: capabilities.ClassT1, Given: capabilities.ClassT3, DeadlineMS: 1500},
			`{"deadline_ms":1500,"grants":["data.read.screen"],"isolation_class":"t1","isolation_given":"t3","parent_call_id":"call_1","target":"node"}`,
		},
		{&End{}, `{"status":""}`},
		{
			&End{
				Under: Under{"call_1"}, Status: capabilities.StatusOK, Code: capabilities.CodeCancelled, Effect: capabilities.EffectConfirmed, Did: &Did{App: "Editor", Fields: 3, Typed: 12}, Digest: "cc",
				Artifacts: []Artifact{{ID: "art_1", MIME: "video/webm", Size: 9}, {ID: "art_2", MIME: "a/b", Size: 0, Code: capabilities.CodeArtifactUnavailable}},
				Blobs:     []Blob{{Field: "bytesBase64", MIME: "image/png", Size: 4, Digest: "dd"}, {Field: "x", MIME: "y"}}, Isolation: capabilities.ClassT2,
				Observed: []Observed{{Key: "network.http", Detail: "example.com", Count: 2}, {Key: "k"}}, DurationMS: 12.25, Hops: []int64{1, 20, 300}, EndedBy: ByPerson,
				Approval: "a-1", Task: "t-1", Runners: []Ran{{Class: capabilities.ClassT1, Walls: []string{"files"}, Runner: "00ff", Program: "sha256:ee"}},
			},
			`{"approval":"a-1","artifacts":[{"artifact_id":"art_1","mime":"video/webm","size":9},{"artifact_id":"art_2","code":"artifact_unavailable","mime":"a/b","size":0}],"blobs":[{"digest":"dd","field":"bytesBase64","mime":"image/png","size":4},{"field":"x","mime":"y","size":0}],"code":"cancelled","did":{"app":"Editor","fields":3,"typed":12},"duration_ms":12.25,"effect":"confirmed","ended_by":"person","hops_us":[1,20,300],"isolation_given":"t2","observed":[{"count":2,"detail":"example.com","key":"network.http"},{"count":0,"key":"k"}],"output_digest":"cc","parent_call_id":"call_1","runners":[{"isolation_class":"t1","program":"sha256:ee","runner_fingerprint":"00ff","walls":["files"]}],"status":"ok","task":"t-1"}`,
		},
		{&End{Did: &Did{}}, `{"did":{},"status":""}`},
		{&Repeated{}, `{"how":"","repeats_call_id":""}`},
		{&Repeated{Of: "call_1", How: "joined", RequestID: "r-1", Surface: "mcp"}, `{"how":"joined","repeats_call_id":"call_1","request_id":"r-1","surface":"mcp"}`},
		{&Resolved{}, `{"envelope_hash":"","secret_ref_id":""}`},
		{&Resolved{Reference: "ref-1", Alias: "bank", Envelope: "bb", Grant: "g-1"}, `{"envelope_hash":"bb","grant":"g-1","secret_alias":"bank","secret_ref_id":"ref-1"}`},
	} {
		got, err := Encode(c.body)
		if err != nil || string(got) != c.want {
			t.Errorf("%T\n got %s, %v\nwant %s", c.body, got, err, c.want)
		}
	}
}

// So are those of what no call did.
func TestDriftStaysTheSame(t *testing.T) {
	body := Surfaced{Surface: "console", Page: "/console/stop", TokenID: "k-1", Role: "viewer", Signals: []Signal{
		{Severity: drift.Violation, Control: "POST /v1/stop", Text: "It offered that."}, {Severity: drift.Critical, Call: "call_1", Key: "privileged.secret.read", Text: "It showed that."},
	}}
	const want = `{"page":"/console/stop","role":"viewer","signals":[{"control":"POST /v1/stop","severity":"violation","text":"It offered that."},{"call_id":"call_1","key":"privileged.secret.read","severity":"critical","text":"It showed that."}],"surface":"console","token_id":"k-1"}`
	got, err := canonical.Marshal(body)
	if err != nil || string(got) != want {
		t.Fatalf("got %s, %v\nwant %s", got, err, want)
	}
	var read Surfaced
	if err := json.Unmarshal(got, &read); err != nil || !reflect.DeepEqual(read, body) {
		t.Errorf("read as %+v, %v", read, err)
	}
}

// A body that is written by hand is what the tags say, in canonical form, and is read back as it
// was.
func TestBodiesAreCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string { return rapid.StringN(0, 12, -1).Draw(t, name) }
		texts := func(name string) []string { return rapid.SliceOfN(rapid.StringN(0, 6, -1), 0, 3).Draw(t, name) }
		maybe := func(name string) bool { return rapid.Bool().Draw(t, name) }
		node := func(name string) capabilities.NodeID { return capabilities.NodeID(text(name)) }
		under := Under{capabilities.CallID(text("parent"))}
		decision := &Decision{
			Under: under, Effect: policy.Effect(rapid.IntRange(0, 2).Draw(t, "effect")), Code: capabilities.Code(text("code")), Reason: text("reason"), Policies: texts("policies"), LogOnly: texts("log_only"),
			Errors: texts("errors"), Snapshot: text("snapshot"), EnvelopeHash: text("hash"), Degraded: text("degraded"), Grant: text("grant"), Role: text("role"), Taint: texts("taint"),
			Labels: texts("labels"), Withheld: texts("withheld"), Raised: rapid.Int64Range(0, 3).Draw(t, "raised"), Given: capabilities.IsolationClass(text("decided class")),
		}
		if maybe("envelope") {
			decision.Envelope = json.RawMessage(`{"a":[],"v":1}`)
		}
		if maybe("routing") {
			decision.Routing = &capabilities.Routing{Requested: node("requested"), Selected: node("selected"), Mode: capabilities.SelectionMode(text("mode"))}
			if maybe("node") {
				decision.Routing.Node = &capabilities.NodeSummary{Label: text("label"), Platform: text("platform"), Trust: text("trust")}
			}
		}
		request := &Request{
			Under: under, Step: rapid.Uint32().Draw(t, "step"), Surface: text("surface"), RequestID: capabilities.RequestID(text("request")), Requested: node("target"), Digest: text("digest"),
			TimeoutMS: rapid.Int64Range(0, 1e9).Draw(t, "timeout"),
		}
		if maybe("evidence") {
			request.Evidence = map[string]any{text("name"): text("value"), "n": 1.5}
		}
		end := &End{
			Under: under, Status: capabilities.Status(text("status")), Code: capabilities.Code(text("end code")), Message: text("message"), Effect: capabilities.Effect(text("end effect")),
			Digest: text("output"), Isolation: capabilities.IsolationClass(text("given")), DurationMS: rapid.Float64Range(0, 1e6).Draw(t, "duration"),
			EndedBy: Ender(text("ended by")), Hops: rapid.SliceOfN(rapid.Int64Range(1, 1e9), 0, 10).Draw(t, "hops"), Approval: text("approval"), Task: text("task"),
		}
		if maybe("more") {
			end.Blobs = []Blob{{Field: text("field"), MIME: text("mime"), Size: 3, Digest: text("blob")}}
			end.Observed = []Observed{{Key: text("key"), Detail: text("detail"), Count: 2}}
			end.Did = &Did{App: text("app"), Fields: rapid.Uint32().Draw(t, "fields"), Typed: rapid.Uint32().Draw(t, "typed")}
			end.Artifacts = []Artifact{{ID: capabilities.ArtifactID(text("id")), MIME: text("artifact mime"), Size: 7, Code: capabilities.Code(text("artifact code"))}}
		}
		intent := &Dispatch{
			Under: under, Target: text("target"), Grants: append([]string{}, texts("grants")...), Isolation: capabilities.IsolationClass(text("class")),
			Given: capabilities.IsolationClass(text("class given")), DeadlineMS: rapid.Int64Range(0, 1e9).Draw(t, "deadline"),
		}
		repeated := &Repeated{Of: under.Parent, How: text("how"), RequestID: request.RequestID, Surface: text("repeated surface")}
		secret := &Resolved{Reference: text("reference"), Alias: text("alias"), Envelope: text("sealed"), Grant: text("secret grant")}
		for _, b := range []Body{request, decision, intent, end, secret, repeated} {
			want, err := canonical.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Encode(b)
			if err != nil || string(got) != string(want) {
				t.Fatalf("%T\n got %s, %v\nwant %s", b, got, err, want)
			}
			read := reflect.New(reflect.TypeOf(b).Elem()).Interface().(Body)
			if err := json.Unmarshal(got, read); err != nil {
				t.Fatal(err)
			}
			if again, err := Encode(read); err != nil || string(again) != string(got) {
				t.Fatalf("%T\nread %s, %v\n not %s", b, again, err, got)
			}
		}
	})
}

// A decision without an envelope, or with one that is none, has no summary.
func TestSummary(t *testing.T) {
	for _, envelope := range []string{"", "null", "[]", `{"risk_level":1}`} {
		if s := (&Decision{EnvelopeHash: "bb", Envelope: json.RawMessage(envelope)}).Summary(); s != nil {
			t.Errorf("%q: %+v", envelope, s)
		}
	}
	s := (&Decision{EnvelopeHash: "bb", Envelope: json.RawMessage(`{"risk_level":"low","effective_grants":["ui.render"],"more":1}`)}).Summary()
	if s == nil || s.Hash != "bb" || s.Risk != policy.RiskLow || len(s.Grants) != 1 {
		t.Errorf("%+v", s)
	}
}

func BenchmarkDecision(b *testing.B) {
	d := &Decision{
		Effect: policy.Allow, Policies: []string{"fixture"}, Snapshot: "sha256:3b5ec7413f1f183e48287b0cf0a9818ea1380769e26a315768f072c8e4984dc7",
		Envelope: json.RawMessage(`{"action":"echo","v":1}`),
		Routing:  &capabilities.Routing{Selected: "n1", Mode: capabilities.SelectSole, Node: &capabilities.NodeSummary{Label: "bench", Platform: "linux"}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(d); err != nil {
			b.Fatal(err)
		}
	}
}

// So are those of what people are asked and change.
func TestChangesStayTheSame(t *testing.T) {
	text, none, nobody := "study", []string(nil), capabilities.PrincipalID("")
	at := time.Date(2026, 11, 29, 1, 2, 3, 0, time.UTC)
	for _, c := range []struct {
		body any
		want string
	}{
		{&NodeChanged{By: "ann"}, `{"by":"ann"}`},
		{&NodeChanged{By: "ann", Label: &text, Allow: &none, Owner: &nobody}, `{"allow":null,"by":"ann","label":"study","owner":""}`},
		{NodeKey{Key: "aa"}, `{"key":"aa"}`},
		{NodeKey{Key: "aa", Old: "bb"}, `{"key":"aa","old_key":"bb"}`},
		{Stop{Epoch: 3, Reason: "r"}, `{"epoch":3,"reason":"r"}`},
		{Stop{Epoch: 3, Reason: "r", StopEnded: &StopEnded{}}, `{"calls":0,"epoch":3,"grants":0,"reason":"r"}`},
		{GrantRevoked{Grant: "g"}, `{"grant":"g"}`},
		{Task{ID: "t", State: "waiting", Approval: "a", ExpiresAt: at}, `{"approval":"a","code":"","expires_at":"2026-11-29T01:02:03Z","state":"waiting","task":"t"}`},
		{
			Answered{Approval: "a", State: "allowed", Acknowledged: []string{"privileged.secret.read"}, Snapshot: "sha256:aa", Grant: "g"},
			`{"acknowledged":["privileged.secret.read"],"approval":"a","grant":"g","known_by":"","policy_snapshot_id":"sha256:aa","reason":"","state":"allowed","via":""}`,
		},
		{
			Asked{Approval: "a", Call: "c", Tool: "tool.a.b", ExpiresAt: at, Snapshot: "s", Host: "example.com:443", Risk: "high", Escalated: []string{"network.egress.https"}, EnvelopeHash: "bb"},
			`{"approval":"a","call":"c","envelope_hash":"bb","escalated_keys":["network.egress.https"],"expires_at":"2026-11-29T01:02:03Z","host":"example.com:443","lane":"","node":"","policy_snapshot_id":"s","risk":"high","tool":"tool.a.b"}`,
		},
	} {
		got, err := canonical.Marshal(c.body)
		if err != nil || string(got) != c.want {
			t.Errorf("%T\n got %s, %v\nwant %s", c.body, got, err, c.want)
			continue
		}
		read := reflect.New(reflect.Indirect(reflect.ValueOf(c.body)).Type())
		if err := json.Unmarshal(got, read.Interface()); err != nil {
			t.Error(err)
		} else if again, err := canonical.Marshal(read.Interface()); err != nil || !strings.Contains(c.want, "null") && string(again) != c.want {
			t.Errorf("read again as %s, %v", again, err)
		}
	}
}
