package dispatch

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
)

// What is written by hand is what the tags say, in canonical form.
func TestBodiesAreCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string { return rapid.StringN(0, 12, -1).Draw(t, name) }
		texts := func(name string) []string { return rapid.SliceOfN(rapid.StringN(0, 6, -1), 0, 3).Draw(t, name) }
		maybe := func(name string) bool { return rapid.Bool().Draw(t, name) }
		node := func(name string) capabilities.NodeID { return capabilities.NodeID(text(name)) }
		decision := &decisionBody{
			Effect: policy.Effect(rapid.IntRange(0, 2).Draw(t, "effect")), Code: capabilities.Code(text("code")), Policies: texts("policies"), LogOnly: texts("log_only"),
			Errors: texts("errors"), Snapshot: text("snapshot"), EnvelopeHash: text("hash"), Degraded: text("degraded"),
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
		request := &requestBody{
			Surface: text("surface"), RequestID: capabilities.RequestID(text("request")), Requested: node("target"), Digest: text("digest"),
			TimeoutMS: rapid.Int64Range(0, 1e9).Draw(t, "timeout"),
		}
		if maybe("evidence") {
			request.Evidence = map[string]any{text("name"): text("value"), "n": 1.5}
		}
		end := &endBody{
			Status: capabilities.Status(text("status")), Code: capabilities.Code(text("end code")), Effect: capabilities.Effect(text("end effect")),
			Digest: text("output"), Isolation: capabilities.IsolationClass(text("given")), DurationMS: rapid.Float64Range(0, 1e6).Draw(t, "duration"),
			EndedBy: Ender(text("ended by")), Hops: rapid.SliceOfN(rapid.Int64Range(1, 1e9), 0, 10).Draw(t, "hops"),
		}
		if maybe("more") {
			end.Blobs = []blobRecord{{Field: text("field"), MIME: text("mime"), Size: 3, Digest: text("blob")}}
			end.Observed = []observed{{Key: text("key"), Detail: text("detail"), Count: 2}}
		}
		intent := &dispatchBody{
			Target: text("target"), Grants: append([]string{}, texts("grants")...), Isolation: capabilities.IsolationClass(text("class")),
			Given: capabilities.IsolationClass(text("class given")), DeadlineMS: rapid.Int64Range(0, 1e9).Draw(t, "deadline"),
		}
		for _, b := range []body{request, decision, intent, end} {
			want, err := canonical.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := encode(b).(ledger.Body); !ok || string(got) != string(want) {
				t.Fatalf("%T\n got %s\nwant %s", b, got, want)
			}
		}
	})
}

// A body that no packet can hold is the commit's to refuse.
func TestBodyTooLarge(t *testing.T) {
	long := &decisionBody{Policies: []string{string(make([]byte, ledger.MaxBody))}}
	if _, err := ledger.Encode(encode(long)); err == nil {
		t.Fatal("it was taken")
	}
}

func BenchmarkDecisionBody(b *testing.B) {
	d := &decisionBody{
		Effect: policy.Allow, Policies: []string{"fixture"}, Snapshot: "sha256:3b5ec7413f1f183e48287b0cf0a9818ea1380769e26a315768f072c8e4984dc7",
		Envelope: json.RawMessage(`{"action":"echo","v":1}`),
		Routing:  &capabilities.Routing{Selected: "n1", Mode: capabilities.SelectSole, Node: &capabilities.NodeSummary{Label: "bench", Platform: "linux"}},
	}
	b.ReportAllocs()
	for b.Loop() {
		encode(d)
	}
}
