package policy

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// read takes over what append wrote, member by member: its canonical form is the
// only one there is, so whatever stands elsewhere, or is spelled otherwise, is an
// error.
func (e *Envelope) read(data []byte) bool {
	if !utf8.Valid(data) {
		return false
	}
	r := reader{rest: string(data), ok: true}
	e.Action = r.text(`{"action":`)
	e.ArgsDigest = r.text(`,"args_digest":`)
	e.Capabilities.Data = r.texts(`,"capabilities":{"data":`)
	e.Capabilities.Execution = r.texts(`,"execution":`)
	e.Capabilities.Network = r.texts(`,"network":`)
	e.Capabilities.Privileged = r.texts(`,"privileged":`)
	e.Capabilities.UI = r.texts(`,"ui":`)
	e.Profile = r.text(`},"capability_profile_id":`)
	e.Consent = catalog.Consent(r.text(`,"consent_class":`))
	e.Created = r.text(`,"created_at":`)
	e.Grants = r.texts(`,"effective_grants":`)
	if code := `,"escalation":{"code":`; r.sees(code) {
		e.Escalation = &Escalation{}
		e.Escalation.Code = EscalationCode(r.text(code))
		e.Escalation.Delta = r.texts(`,"delta":`)
		e.Escalation.From = r.text(`,"from":`)
		e.Escalation.Grant = r.optional(`,"grant_id":`)
		e.Escalation.Reason = r.text(`,"reason":`)
		r.skip(`}`)
	}
	e.Expires = r.text(`,"expires_at":`)
	e.Isolation = capabilities.IsolationClass(r.text(`,"isolation_class":`))
	e.ManifestHash = r.text(`,"manifest_hash":`)
	e.Snapshot = r.text(`,"policy_snapshot_id":`)
	e.Principal = capabilities.PrincipalID(r.text(`,"principal":`))
	e.Requested = capabilities.NodeID(r.optional(`,"requested_node_id":`))
	e.Risk = Risk(r.text(`,"risk_level":`))
	e.Role = r.optional(`,"role":`)
	e.Selected = capabilities.NodeID(r.optional(`,"selected_node_id":`))
	e.Mode = capabilities.SelectionMode(r.optional(`,"selection_mode":`))
	e.Taint = r.texts(`,"taint":`)
	e.Lane = capabilities.LaneID(r.text(`,"thread_id":`))
	e.Tool = capabilities.ToolID(r.text(`,"tool_id":`))
	e.ToolSlug = r.text(`,"tool_slug":`)
	r.skip(`,"v":2`)
	e.V = EnvelopeVersion
	e.Version = r.text(`,"version":`)
	r.skip(`}`)
	return r.ok && r.rest == ""
}

// reader takes one thing after the other; after the first that is not there, ok
// is false and nothing is taken any more.
type reader struct {
	rest string
	ok   bool
}

func (r *reader) sees(s string) bool { return r.ok && strings.HasPrefix(r.rest, s) }

func (r *reader) skip(s string) {
	if r.ok = r.sees(s); r.ok {
		r.rest = r.rest[len(s):]
	}
}

// text takes a string that follows before.
func (r *reader) text(before string) string {
	r.skip(before)
	return r.string()
}

// optional is text, or "" where before does not stand.
func (r *reader) optional(before string) string {
	if !r.sees(before) {
		return ""
	}
	return r.text(before)
}

// texts takes a list of strings that follows before.
func (r *reader) texts(before string) []string {
	r.skip(before)
	r.skip(`[`)
	list := []string{}
	for r.ok && !r.sees(`]`) {
		if len(list) > 0 {
			r.skip(`,`)
		}
		if len(list) > max(maxKeys, maxTaint) {
			r.ok = false
		}
		list = append(list, r.string())
	}
	r.skip(`]`)
	return list
}

func (r *reader) string() (s string) {
	r.skip(`"`)
	if !r.ok {
		return ""
	}
	plain := strings.IndexAny(r.rest, `"\`)
	if plain >= 0 && r.rest[plain] == '"' {
		s, r.rest = r.rest[:plain], r.rest[plain+1:]
		return s
	}
	// Escapes are rare: names have none.
	for i := 0; i < len(r.rest); i++ {
		switch r.rest[i] {
		case '\\':
			i++
		case '"':
			r.ok = json.Unmarshal([]byte(`"`+r.rest[:i+1]), &s) == nil
			r.rest = r.rest[i+1:]
			return s
		}
	}
	r.ok = false
	return ""
}
