package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// maxWire is the longest wire name of a provider's tool: clients put the name of the server
// before it, and the shortest limit among them is 64 for both.
const maxWire = 40

// hashLen is how much of a digest tells names apart that were cut.
const hashLen = 6

// toolID returns the ID of a provider's tool: tool.NAME.action, in lower case, where whatever
// an ID cannot hold is a dash. A wire name that would be longer than 40 is cut and ends with a
// digest of the provider's own name, so that it never changes.
func toolID(provider, upstream string) capabilities.ToolID {
	action := segment(upstream)
	prefix := "tool." + provider + "."
	if len(prefix)+len(action) > maxWire || action == "" {
		sum := sha256.Sum256([]byte(upstream))
		keep := max(maxWire-len(prefix)-hashLen-1, 1)
		action = strings.TrimRight(action[:min(len(action), keep)], "-")
		if action == "" {
			action = "t"
		}
		action += "-" + hex.EncodeToString(sum[:])[:hashLen]
	}
	return capabilities.ToolID(prefix + action)
}

// toolID is the ID of a tool of p. A macro or a sub-agent is one tool of a family of its own.
func (p *Provider) toolID(upstream string) capabilities.ToolID {
	switch p.Kind {
	case KindMacro:
		return capabilities.ToolID("tool.macro." + p.Name)
	case KindSubAgent:
		return capabilities.ToolID("tool.sub-agent." + p.Name)
	}
	return toolID(p.Name, upstream)
}

// segment writes a name as one segment of an ID: a word in capitals inside it ("getPet") is
// a word of its own.
func segment(name string) string {
	var b strings.Builder
	lower := false
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
			lower = true
			continue
		case r >= 'A' && r <= 'Z':
			if lower {
				b.WriteByte('-')
			}
			b.WriteRune(r + 'a' - 'A')
		default:
			if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
				b.WriteByte('-')
			}
		}
		lower = false
	}
	s := strings.Trim(b.String(), "-")
	if s != "" && s[0] >= '0' && s[0] <= '9' {
		s = "t-" + s
	}
	return s
}
