package consent

import (
	"crypto/hmac"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// Kind is how long a person's word is good.
type Kind string

// The kinds.
const (
	KindCall    Kind = "call"    // one call with exactly these arguments
	KindLease   Kind = "lease"   // minutes, this node, this lane, counted
	KindSession Kind = "session" // until the grant ends by itself or is revoked; safe tools only
	// KindAlways is an answer, not a kind of grant: a session grant for every lane of
	// the principal's that lasts as long as the policy it was given under.
	KindAlways Kind = "always"
)

// Bounds of what can be granted.
const (
	MaxLease     = time.Hour
	defaultLease = 5 * time.Minute
	sessionLife  = 12 * time.Hour
	alwaysLife   = 365 * 24 * time.Hour
	onceLife     = 10 * time.Minute // a late approval waits so long for its call
	maxTools     = 64
	maxUses      = 1 << 20
)

// Grant is one permission. It is never changed but for Used.
type Grant struct {
	ID        string                   `json:"grant"`
	Kind      Kind                     `json:"kind"`
	Principal capabilities.PrincipalID `json:"principal"`
	// Tools are tool IDs, or whole families as "tool.desktop.*".
	Tools []string            `json:"tools"`
	Node  capabilities.NodeID `json:"node,omitempty"` // empty only for tools of the gateway
	Lane  capabilities.LaneID `json:"lane,omitempty"` // empty: any lane of the principal's
	// Snapshot is the policy it was given under; under another it covers nothing.
	Snapshot string `json:"policy_snapshot_id"`
	// Manifest digests what the tools declared when it was given; for tools that a
	// later version changed it covers nothing.
	Manifest string `json:"manifest_hash"`
	// Hosts are those that its calls may reach because the node's owner named them: those of the
	// question, or of the node when it was given ahead. For other ones it covers nothing.
	Hosts   []string `json:"hosts,omitempty"`
	Scope   Scope    `json:"scope,omitzero"`
	MaxUses int      `json:"max_uses,omitempty"` // 0: not counted
	Used    int      `json:"used"`
	// ArgsDigest is the keyed digest of the arguments that a call-bound grant is
	// about. The key is this process's, so nobody can guess from it.
	ArgsDigest string `json:"args_digest,omitempty"`
	// Nonce makes every grant another, also for the same thing at the same time.
	Nonce string `json:"nonce"`
	// Via is how the answer came: "" by the API, "mcp" by the person at the client, "owner"
	// by the device's owner for what they asked themselves.
	Via string `json:"via,omitempty"`
	// Known is by what the owner was known: link, password or passkey.
	Known    string                   `json:"known_by,omitempty"`
	Approver capabilities.PrincipalID `json:"approver"`
	Reason   string                   `json:"reason,omitempty"`
	Created  time.Time                `json:"created_at"`
	Expires  time.Time                `json:"expires_at"`

	args     []byte    // ArgsDigest, to compare
	lastUsed time.Time // zero: not in this process
}

// live reports whether g can still be used.
func (g *Grant) live(now time.Time) bool {
	return now.Before(g.Expires) && (g.MaxUses == 0 || g.Used < g.MaxUses)
}

// byOwnHand reports whether it is a person's word about what they did themselves: no agent of
// the same name goes on with it.
func (g *Grant) byOwnHand() bool { return g.Via == string(ViaOwner) || g.Via == string(ViaAsked) }

// covers reports whether g is about this question.
func (g *Grant) covers(a *Ask, args []byte) bool {
	return g.Principal == a.Principal && (!g.byOwnHand() || a.Role != policy.RoleAgent) && g.Node == a.Node &&
		(g.Lane == "" || g.Lane == a.Lane) && g.Snapshot == a.Snapshot &&
		slices.ContainsFunc(g.Tools, func(t string) bool { return Names(t, a.Tool) && (t == string(a.Tool) || a.Longest != KindCall) }) &&
		(g.Kind != KindCall || len(args) > 0 && hmac.Equal(g.args, args)) && g.Scope.covers(&a.Reach, a.at) &&
		!slices.ContainsFunc(a.Hosts, func(h string) bool { return !slices.Contains(g.Hosts, h) })
}

// Names reports whether pattern is tool or its family.
func Names(pattern string, tool capabilities.ToolID) bool {
	if family, ok := strings.CutSuffix(pattern, ".*"); ok {
		return strings.HasPrefix(string(tool), family+".") && strings.Count(family, ".") == 1
	}
	return pattern == string(tool)
}

func checkTools(tools []string) error {
	if len(tools) == 0 || len(tools) > maxTools {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "tools must name 1 to %d tools or families", maxTools)
	}
	for _, t := range tools {
		if err := capabilities.ValidateName("tools", strings.ReplaceAll(t, "*", ""), 256); err != nil {
			return err
		}
		if strings.Contains(t, "*") && (strings.Count(t, ".") != 2 || !strings.HasSuffix(t, ".*") || strings.Count(t, "*") != 1) {
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "%q is no family", t).WithHint("Write a family as tool.desktop.* .")
		}
	}
	return nil
}
