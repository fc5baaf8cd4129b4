package dispatch

import (
	"encoding/json"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
)

// body is the body of a packet of this room. The JSON tags say its form; append
// writes that form as canonical bytes, without the way through reflection, because
// every call pays for four of them.
type body interface {
	// append appends the canonical form; ok=false leaves it to the ledger.
	append(o *object) (ok bool)
}

// encode gives what a draft carries. A body too large to be recorded goes on as it
// is and fails the commit.
func encode(b body) any {
	o := object{b: make([]byte, 1, 256)}
	o.b[0] = '{'
	if !b.append(&o) {
		return b
	}
	if o.b = append(o.b, '}'); len(o.b) > ledger.MaxBody {
		return json.RawMessage(o.b)
	}
	return ledger.Body(o.b)
}

// under names the call that a step was taken by, in each of its packets.
type under struct {
	Parent capabilities.CallID `json:"parent_call_id,omitempty"`
}

func (u *under) setParent(call capabilities.CallID) { u.Parent = call }

// requestBody is the body of tool.call.request: digests and the descriptor's
// evidence allowlist, never the payload (S0-31).
type requestBody struct {
	under
	Step      uint32                 `json:"step,omitempty"` // which of its parent's
	Surface   string                 `json:"surface,omitempty"`
	RequestID capabilities.RequestID `json:"request_id,omitempty"`
	Requested capabilities.NodeID    `json:"requested_node_id,omitempty"`
	Digest    string                 `json:"args_digest,omitempty"`
	Evidence  map[string]any         `json:"evidence,omitempty"`
	TimeoutMS int64                  `json:"timeout_ms,omitempty"`
}

// decisionBody is the body of tool.call.decision. The envelope is kept whole: it
// holds no payload, and it is what reports and verifiers link to (S1-59).
type decisionBody struct {
	under
	Effect       policy.Effect         `json:"effect"`
	Code         capabilities.Code     `json:"code,omitempty"`
	Policies     []string              `json:"policies,omitempty"`
	LogOnly      []string              `json:"log_only,omitempty"`
	Errors       []string              `json:"policy_errors,omitempty"`
	Snapshot     string                `json:"policy_snapshot_id,omitempty"`
	EnvelopeHash string                `json:"envelope_hash,omitempty"`
	Grant        string                `json:"grant,omitempty"` // of a person's
	Envelope     json.RawMessage       `json:"envelope,omitempty"`
	Routing      *capabilities.Routing `json:"routing,omitempty"`
	Degraded     string                `json:"isolation_degraded,omitempty"`
	// What policy looked at beside the envelope, for replays.
	Given    capabilities.IsolationClass `json:"isolation_given,omitempty"`
	Labels   []string                    `json:"labels,omitempty"`
	Role     string                      `json:"role,omitempty"`
	Taint    []string                    `json:"taint,omitempty"`
	Withheld []string                    `json:"withheld_keys,omitempty"`
}

// dispatchBody is the body of tool.call.dispatch, the intent.
type dispatchBody struct {
	under
	Target     string                      `json:"target"`
	Grants     []string                    `json:"grants"`
	Isolation  capabilities.IsolationClass `json:"isolation_class"`
	Given      capabilities.IsolationClass `json:"isolation_given,omitempty"`
	DeadlineMS int64                       `json:"deadline_ms"`
}

// endBody is the body of tool.call.result, tool.call.failed and
// tool.call.reconciled.
type endBody struct {
	under
	Status     capabilities.Status         `json:"status"`
	Code       capabilities.Code           `json:"code,omitempty"`
	Effect     capabilities.Effect         `json:"effect,omitempty"`
	Did        *did                        `json:"did,omitempty"`
	Digest     string                      `json:"output_digest,omitempty"`
	Artifacts  []artifactRecord            `json:"artifacts,omitempty"`
	Blobs      []blobRecord                `json:"blobs,omitempty"`
	Isolation  capabilities.IsolationClass `json:"isolation_given,omitempty"`
	Observed   []observed                  `json:"observed,omitempty"`
	DurationMS float64                     `json:"duration_ms,omitempty"`
	// Hops are when the hops of docs/architecture.md ended, from hop 2 (registry) to hop
	// 11 (record), in µs since the call came in; the list ends where the call did. Guard
	// and runner are told from the node's own duration.
	Hops []int64 `json:"hops_us,omitempty"`
	// EndedBy is who ended the call on purpose, if Code is cancelled and somebody did.
	EndedBy Ender `json:"ended_by,omitempty"`
	// Approval is the question that a pending call waits for, and Task what keeps it
	// meanwhile, if it was deferred.
	Approval string `json:"approval,omitempty"`
	Task     string `json:"task,omitempty"`
}

// did is what the call did, for lists that people read.
type did struct {
	App   string `json:"app,omitempty"`
	Typed uint32 `json:"typed,omitempty"` // characters, of no secret
}

type blobRecord struct {
	Field  string `json:"field"`
	MIME   string `json:"mime"`
	Size   int    `json:"size"`
	Digest string `json:"digest,omitempty"` // keyed, like the output's; empty of a step: its parent's packet has it
}

type observed struct {
	Key    string `json:"key"`
	Detail string `json:"detail,omitempty"`
	Count  uint32 `json:"count"`
}

func (r *requestBody) append(o *object) bool {
	o.text("args_digest", r.Digest)
	if len(r.Evidence) > 0 && !o.value("evidence", r.Evidence) {
		return false
	}
	o.text("parent_call_id", string(r.Parent))
	o.text("request_id", string(r.RequestID))
	o.text("requested_node_id", string(r.Requested))
	if r.Step != 0 {
		o.number("step", float64(r.Step))
	}
	o.text("surface", r.Surface)
	if r.TimeoutMS != 0 {
		o.number("timeout_ms", float64(r.TimeoutMS))
	}
	return true
}

func (d *decisionBody) append(o *object) bool {
	o.text("code", string(d.Code))
	o.must("effect", d.Effect.String())
	if len(d.Envelope) > 0 {
		o.key("envelope")
		o.b = append(o.b, d.Envelope...) // canonical already
	}
	o.text("envelope_hash", d.EnvelopeHash)
	o.text("grant", d.Grant)
	o.text("isolation_degraded", d.Degraded)
	o.text("isolation_given", string(d.Given))
	o.texts("labels", d.Labels)
	o.texts("log_only", d.LogOnly)
	o.text("parent_call_id", string(d.Parent))
	o.texts("policies", d.Policies)
	o.texts("policy_errors", d.Errors)
	o.text("policy_snapshot_id", d.Snapshot)
	o.text("role", d.Role)
	if r := d.Routing; r != nil {
		o.open("routing")
		o.text("requested_node_id", string(r.Requested))
		if n := r.Node; n != nil {
			o.open("selected_node")
			o.text("label", n.Label)
			o.text("platform", n.Platform)
			o.text("trust_level", n.Trust)
			o.close()
		}
		o.must("selected_node_id", string(r.Selected))
		o.must("selection_mode", string(r.Mode))
		o.close()
	}
	o.texts("taint", d.Taint)
	o.texts("withheld_keys", d.Withheld)
	return true
}

func (d *dispatchBody) append(o *object) bool {
	o.number("deadline_ms", float64(d.DeadlineMS))
	o.key("grants")
	o.list(d.Grants)
	o.must("isolation_class", string(d.Isolation))
	o.text("isolation_given", string(d.Given))
	o.text("parent_call_id", string(d.Parent))
	o.must("target", d.Target)
	return true
}

func (e *endBody) append(o *object) bool {
	o.text("approval", e.Approval)
	if len(e.Artifacts) > 0 && !o.value("artifacts", e.Artifacts) {
		return false
	}
	if len(e.Blobs) > 0 && !o.value("blobs", e.Blobs) {
		return false
	}
	o.text("code", string(e.Code))
	if d := e.Did; d != nil {
		o.open("did")
		o.text("app", d.App)
		if d.Typed != 0 {
			o.number("typed", float64(d.Typed))
		}
		o.close()
	}
	if e.DurationMS != 0 {
		o.number("duration_ms", e.DurationMS)
	}
	o.text("effect", string(e.Effect))
	o.text("ended_by", string(e.EndedBy))
	if len(e.Hops) > 0 {
		o.key("hops_us")
		o.numbers(e.Hops)
	}
	o.text("isolation_given", string(e.Isolation))
	if len(e.Observed) > 0 && !o.value("observed", e.Observed) {
		return false
	}
	o.text("output_digest", e.Digest)
	o.text("parent_call_id", string(e.Parent))
	o.must("status", string(e.Status))
	o.text("task", e.Task)
	return true
}

// object is a JSON object on its way. Whoever uses it gives the keys in order.
type object struct{ b []byte }

func (o *object) key(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

func (o *object) open(name string) {
	o.key(name)
	o.b = append(o.b, '{')
}

func (o *object) close() { o.b = append(o.b, '}') }

// must writes a member that is always there, text one that is left out if empty.
func (o *object) must(name, s string) {
	o.key(name)
	o.b = canonical.AppendString(o.b, strings.ToValidUTF8(s, "\uFFFD"))
}

func (o *object) text(name, s string) {
	if s != "" {
		o.must(name, s)
	}
}

func (o *object) texts(name string, list []string) {
	if len(list) > 0 {
		o.key(name)
		o.list(list)
	}
}

func (o *object) list(list []string) {
	o.b = append(o.b, '[')
	for i, s := range list {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = canonical.AppendString(o.b, strings.ToValidUTF8(s, "\uFFFD"))
	}
	o.b = append(o.b, ']')
}

func (o *object) numbers(list []int64) {
	o.b = append(o.b, '[')
	for i, n := range list {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = canonical.AppendNumber(o.b, float64(n))
	}
	o.b = append(o.b, ']')
}

func (o *object) number(name string, f float64) {
	o.key(name)
	o.b = canonical.AppendNumber(o.b, f)
}

func (o *object) value(name string, v any) bool {
	b, err := canonical.Marshal(v)
	if err != nil {
		return false
	}
	o.key(name)
	o.b = append(o.b, b...)
	return true
}
