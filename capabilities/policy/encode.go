package policy

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// The canonical form of an envelope is RFC 8785 JSON. It is written by hand
// because it stands on the path of every call; a test holds it against the
// canonical package.

func (e *Envelope) append(b []byte) []byte {
	b = append(b, `{"action":`...)
	b = canonical.AppendString(b, e.Action)
	b = appendField(b, "args_digest", e.ArgsDigest)
	b = append(b, `,"capabilities":{`...)
	for i, group := range e.Capabilities.all() {
		if i > 0 {
			b = append(b, ',')
		}
		b = canonical.AppendString(b, group.name)
		b = append(b, ':')
		b = appendStrings(b, group.keys)
	}
	b = append(b, '}')
	b = appendField(b, "capability_profile_id", e.Profile)
	b = appendField(b, "consent_class", string(e.Consent))
	b = appendField(b, "created_at", e.Created)
	b = append(b, `,"effective_grants":`...)
	b = appendStrings(b, e.Grants)
	if x := e.Escalation; x != nil {
		b = append(b, `,"escalation":{"code":`...)
		b = canonical.AppendString(b, string(x.Code))
		b = append(b, `,"delta":`...)
		b = appendStrings(b, x.Delta)
		b = appendField(b, "from", x.From)
		b = appendOptional(b, "grant_id", x.Grant)
		b = appendField(b, "reason", x.Reason)
		b = append(b, '}')
	}
	b = appendField(b, "expires_at", e.Expires)
	b = appendField(b, "isolation_class", string(e.Isolation))
	b = appendField(b, "manifest_hash", e.ManifestHash)
	b = appendField(b, "policy_snapshot_id", e.Snapshot)
	b = appendField(b, "principal", string(e.Principal))
	b = appendOptional(b, "requested_node_id", string(e.Requested))
	b = appendField(b, "risk_level", string(e.Risk))
	b = appendOptional(b, "role", e.Role)
	b = appendOptional(b, "selected_node_id", string(e.Selected))
	b = appendOptional(b, "selection_mode", string(e.Mode))
	b = append(b, `,"taint":`...)
	b = appendStrings(b, e.Taint)
	b = appendField(b, "thread_id", string(e.Lane))
	b = appendField(b, "tool_id", string(e.Tool))
	b = appendField(b, "tool_slug", e.ToolSlug)
	b = append(b, `,"v":2`...) // check admits no other
	b = appendField(b, "version", e.Version)
	return append(b, '}')
}

// keyGroup is one category with its keys.
type keyGroup struct {
	name string
	keys []string
}

func (c *ByCategory) all() [5]keyGroup {
	return [5]keyGroup{
		{"data", c.Data}, {"execution", c.Execution}, {"network", c.Network},
		{"privileged", c.Privileged}, {"ui", c.UI},
	}
}

// Keys returns the keys with their category, sorted by it.
func (c *ByCategory) Keys() []string {
	var all []string
	for _, g := range c.all() {
		for _, k := range g.keys {
			all = append(all, g.name+"."+k)
		}
	}
	return all
}

// groupKeys sorts full keys into their categories.
func groupKeys(keys []string) ByCategory {
	var c ByCategory
	lists := [...]*[]string{&c.Data, &c.Execution, &c.Network, &c.Privileged, &c.UI}
	for i, list := range lists {
		*list = []string{}
		prefix := categories[i] + "."
		for _, k := range keys {
			if rest, ok := strings.CutPrefix(k, prefix); ok {
				*list = append(*list, rest)
			}
		}
	}
	return c
}

func appendField(b []byte, name, value string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return canonical.AppendString(b, value)
}

func appendOptional(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendField(b, name, value)
}

func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = canonical.AppendString(b, s)
	}
	return append(b, ']')
}

// plainText is valid UTF-8 without control characters.
func plainText(s string) bool {
	plain := 0
	for plain < len(s) && s[plain] >= 0x20 && s[plain] < 0x7f {
		plain++
	}
	if s = s[plain:]; s == "" {
		return true
	}
	if !utf8.ValidString(s) {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || (r >= 0x7f && r < 0xa0) }) < 0
}

const stampLayout = "2006-01-02T15:04:05.000Z"

func stamp(t time.Time) string { return t.UTC().Format(stampLayout) }

// isStamp reports whether s is what stamp returns. It says the same as reading s by stampLayout and
// writing it again, which each envelope would wait a microsecond for.
func isStamp(s string) bool {
	const form = "0000-00-00T00:00:00.000Z"
	if len(s) != len(form) {
		return false
	}
	for i := range len(form) {
		if digit := s[i] >= '0' && s[i] <= '9'; s[i] != form[i] && !(digit && form[i] == '0') {
			return false
		}
	}
	at := func(i int) int { return int(s[i]-'0')*10 + int(s[i+1]-'0') }
	year, month, day := 100*at(0)+at(2), time.Month(at(5)), at(8)
	t := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	return t.Month() == month && t.Day() == day && at(11) < 24 && at(14) < 60 && at(17) < 60
}
