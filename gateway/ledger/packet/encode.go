package packet

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Encode returns the canonical bytes of b. They are written without the way through
// reflection, because every call pays for four bodies. An error says that b is not
// representable as JSON; the length is the ledger's to check.
func Encode(b Body) ([]byte, error) {
	o := object{b: make([]byte, 1, 256)}
	o.b[0] = '{'
	if !b.append(&o) {
		return canonical.Marshal(b)
	}
	return append(o.b, '}'), nil
}

func (r *Request) append(o *object) bool {
	o.text("args_digest", r.Digest)
	if len(r.Evidence) > 0 && !o.value("evidence", r.Evidence) {
		return false
	}
	o.text("parent_call_id", string(r.Parent))
	o.text("replay_of", string(r.ReplayOf))
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

func (d *Decision) append(o *object) bool {
	o.text("approval", d.Approval)
	o.text("code", string(d.Code))
	o.must("effect", d.Effect.String())
	if len(d.Envelope) > 0 {
		o.key("envelope")
		o.b = append(o.b, d.Envelope...) // canonical already
	}
	o.text("envelope_hash", d.EnvelopeHash)
	o.text("grant", d.Grant)
	o.texts("hosts", d.Hosts)
	o.text("isolation_degraded", d.Degraded)
	o.text("isolation_given", string(d.Given))
	o.texts("labels", d.Labels)
	o.texts("log_only", d.LogOnly)
	o.text("parent_call_id", string(d.Parent))
	o.texts("policies", d.Policies)
	o.texts("policy_errors", d.Errors)
	o.text("policy_snapshot_id", d.Snapshot)
	o.text("reason", d.Reason)
	if d.Raised != 0 {
		o.number("risk_raised", float64(d.Raised))
	}
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
		o.text("selected_node_id", string(r.Selected))
		o.must("selection_mode", string(r.Mode))
		o.close()
	}
	o.must("runner_fingerprint", d.Runner)
	o.texts("taint", d.Taint)
	o.texts("withheld_keys", d.Withheld)
	return true
}

func (d *Dispatch) append(o *object) bool {
	o.number("deadline_ms", float64(d.DeadlineMS))
	o.key("grants")
	o.list(d.Grants)
	o.must("isolation_class", string(d.Isolation))
	o.text("isolation_given", string(d.Given))
	o.text("parent_call_id", string(d.Parent))
	o.must("target", d.Target)
	return true
}

func (r *Repeated) append(o *object) bool {
	o.must("how", r.How)
	o.must("repeats_call_id", string(r.Of))
	o.text("request_id", string(r.RequestID))
	o.text("surface", r.Surface)
	return true
}

func (e *End) append(o *object) bool {
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
		if d.Fields != 0 {
			o.number("fields", float64(d.Fields))
		}
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
	if e.Masked != nil {
		o.number("masked", float64(*e.Masked))
	}
	o.text("message", e.Message)
	if len(e.Observed) > 0 && !o.value("observed", e.Observed) {
		return false
	}
	o.text("output_digest", e.Digest)
	o.text("parent_call_id", string(e.Parent))
	if len(e.Runners) > 0 && !o.value("runners", e.Runners) {
		return false
	}
	o.must("status", string(e.Status))
	o.text("task", e.Task)
	return true
}

func (r *Resolved) append(o *object) bool {
	o.must("envelope_hash", r.Envelope)
	o.text("grant", r.Grant)
	o.text("secret_alias", r.Alias)
	o.must("secret_ref_id", r.Reference)
	return true
}

// object is a JSON object on its way. Its callers write the keys in canonical order.
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
