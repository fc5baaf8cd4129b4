package capabilities

import (
	"errors"
	"fmt"
	"strings"
)

// Identifiers. Each is a distinct type so that one cannot be passed where
// another is meant. The zero value of each means "none".
type (
	// ToolID is the canonical model-facing name, such as
	// "tool.browser.navigate-back" (S0-01). Policy, approvals, ledger and
	// metrics anchor on it (S0-24 … S0-27).
	ToolID string
	// CapabilityID is what a node advertises, such as
	// "tyrum.browser.navigate-back".
	CapabilityID string
	// NodeID names a paired device for life; leaf keys rotate under it.
	NodeID string
	// SiteID is the hash of the site's root key, which nodes pin.
	SiteID string
	// LaneID is one agent conversation (S4-20 calls it thread_id).
	LaneID string
	// PrincipalID is who calls: an agent or a user, from the token's record.
	PrincipalID string
	// CallID names one dispatch of one tool; chosen by the gateway.
	CallID string
	// RequestID is chosen by the caller to make a retry recognisable (S4-28).
	RequestID string
)

const (
	capabilityPrefix = "tyrum."
	toolPrefix       = "tool."
	maxIDLen         = 128
)

// Tool returns the model-facing ID that mirrors the capability (S0-01, S0-02):
// the prefix "tyrum." becomes "tool.". Any other ID mirrors to itself, which
// only fixture catalogs use; the embedded catalog is tested to hold none.
func (c CapabilityID) Tool() ToolID {
	if rest, ok := strings.CutPrefix(string(c), capabilityPrefix); ok {
		return ToolID(toolPrefix + rest)
	}
	return ToolID(c)
}

// Family is the segment that names the group of a tool: "browser" for
// tool.browser.click. It is the tool_slug of S1-08.
func (t ToolID) Family() string {
	rest := strings.TrimPrefix(string(t), toolPrefix)
	family, _, _ := strings.Cut(rest, ".")
	return family
}

// Action is what follows the family: "navigate-back" for
// tool.browser.navigate-back.
func (t ToolID) Action() string {
	rest := strings.TrimPrefix(string(t), toolPrefix)
	_, action, _ := strings.Cut(rest, ".")
	return action
}

// WireName is the name MCP clients see by default: '.' and '-' become '_',
// because most clients refuse dots. The registry refuses
// two tools that would share one.
func (t ToolID) WireName() string {
	return strings.NewReplacer(".", "_", "-", "_").Replace(string(t))
}

// Validate reports whether the ID has the form seg(.seg)+ with
// seg = [a-z][a-z0-9-]* and at most 128 bytes.
func (t ToolID) Validate() error { return validateDotted(string(t)) }

// Validate reports whether the ID has the form seg(.seg)+ with
// seg = [a-z][a-z0-9-]* and at most 128 bytes.
func (c CapabilityID) Validate() error { return validateDotted(string(c)) }

func validateDotted(s string) error {
	if s == "" {
		return errors.New("empty identifier")
	}
	if len(s) > maxIDLen {
		return fmt.Errorf("identifier longer than %d bytes", maxIDLen)
	}
	if !strings.Contains(s, ".") {
		return fmt.Errorf("identifier %q has no dot: want family.action", s)
	}
	for seg := range strings.SplitSeq(s, ".") {
		if !validSegment(seg) {
			return fmt.Errorf("identifier %q: segment %q must match [a-z][a-z0-9-]*", s, seg)
		}
	}
	return nil
}

func validSegment(seg string) bool {
	for i, r := range []byte(seg) {
		letter := r >= 'a' && r <= 'z'
		tail := letter || (r >= '0' && r <= '9') || r == '-'
		if (i == 0 && !letter) || !tail {
			return false
		}
	}
	return seg != ""
}

// ValidateName checks a caller-chosen identifier (lane, request, label-like
// IDs): 1 to max bytes of letters, digits and ". _ - @ /"; never a control
// character, so that it is safe in logs and paths of the ledger. what names the
// field in the error.
func ValidateName(what, s string, max int) error {
	if s == "" || len(s) > max {
		return Errorf(CodeInvalidRequest, "%s must be 1 to %d characters", what, max)
	}
	for _, r := range []byte(s) {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		case strings.IndexByte("._-@/", r) >= 0:
		default:
			return Errorf(CodeInvalidRequest, "%s may hold letters, digits and . _ - @ / only", what)
		}
	}
	return nil
}
