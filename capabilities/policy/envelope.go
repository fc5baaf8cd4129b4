package policy

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// EnvelopeVersion is the v of the envelopes made here.
const EnvelopeVersion = 2

// MaxEnvelopeBytes bounds what OpenEnvelope reads.
const MaxEnvelopeBytes = 16 << 10

// maxKeys bounds each list of keys.
const maxKeys = 64

// Envelope fixes what one execution may touch (S1-08, S1-09). It holds no
// argument and no result, only the keyed digest of the arguments.
type Envelope struct {
	V            int                         `json:"v"`
	ToolSlug     string                      `json:"tool_slug"`
	Action       string                      `json:"action"`
	Tool         capabilities.ToolID         `json:"tool_id"`
	Version      string                      `json:"version"`
	ManifestHash string                      `json:"manifest_hash"`
	Capabilities ByCategory                  `json:"capabilities"` // declared
	Profile      string                      `json:"capability_profile_id"`
	Risk         Risk                        `json:"risk_level"`
	Isolation    capabilities.IsolationClass `json:"isolation_class"` // derived minimum
	// Consent is the longest permission a person may give for it, derived.
	Consent catalog.Consent `json:"consent_class"`
	// Snapshot addresses what the decision stood on: policy text, the entities it
	// looked at, and the one-time delta of an escalation (S1-38).
	Snapshot string `json:"policy_snapshot_id"`
	// Grants are full keys, sorted; with a value (KEY:VALUE) where a key is narrowed
	// to it, such as network.egress.domain_allowlist:example.com.
	Grants    []string                 `json:"effective_grants"`
	Principal capabilities.PrincipalID `json:"principal"`
	// Role is that of the principal's token; "" if the caller has none. RoleAgent is
	// an agent's, any other a person's.
	Role string              `json:"role,omitempty"`
	Lane capabilities.LaneID `json:"thread_id"`
	// Taint says what untrusted content the lane has read so far, sorted: "web",
	// "screen". Never null.
	Taint     []string                   `json:"taint"`
	Requested capabilities.NodeID        `json:"requested_node_id,omitempty"`
	Selected  capabilities.NodeID        `json:"selected_node_id,omitempty"`
	Mode      capabilities.SelectionMode `json:"selection_mode,omitempty"`
	// ArgsDigest is the hex HMAC of the canonical arguments under the call's key.
	ArgsDigest string      `json:"args_digest"`
	Escalation *Escalation `json:"escalation,omitempty"`
	Created    string      `json:"created_at"` // RFC 3339, UTC, milliseconds
	Expires    string      `json:"expires_at"`
}

// ByCategory holds keys without their category prefix, in exactly the five
// categories of S1-11; each list is sorted and never null.
type ByCategory struct {
	Data       []string `json:"data"`
	Execution  []string `json:"execution"`
	Network    []string `json:"network"`
	Privileged []string `json:"privileged"`
	UI         []string `json:"ui"`
}

// RoleAgent is the role of agents; every other role is a person's.
const RoleAgent = "agent"

// IsUser reports whether a role is a person's. A caller without a role is taken for an agent.
func IsUser(role string) bool { return role != "" && role != RoleAgent }

// EscalationCode says why there is an escalation. The list is closed.
type EscalationCode string

// The reason codes: what kind of a person's grant it rests on.
const (
	EscalatedByCall    EscalationCode = "call_grant"
	EscalatedByLease   EscalationCode = "lease_grant"
	EscalatedBySession EscalationCode = "session_grant"
)

// Escalation is a one-time addition to the effective grants that a person
// granted for this execution (S1-38). The envelope before it stays as it was, and
// an escalated one is not escalated again: it is one hop.
type Escalation struct {
	Code   EscalationCode `json:"code"`
	Delta  []string       `json:"delta"`              // full keys, sorted
	From   string         `json:"from"`               // hex address of the envelope before it
	Grant  string         `json:"grant_id,omitempty"` // a reference; no authority by itself
	Reason string         `json:"reason"`             // one plain line, at most 300 bytes
}

// EnvelopeInput is what an envelope is made from.
type EnvelopeInput struct {
	Profile   *Profile                   // required
	Principal capabilities.PrincipalID   // required
	Role      string                     // of the principal's token
	Lane      capabilities.LaneID        // required
	Requested capabilities.NodeID        // "" = the caller named none
	Selected  capabilities.NodeID        // "" = no node carries it out
	Mode      capabilities.SelectionMode // required with Selected
	Node      Node                       // as policy saw it; part of the snapshot's entities
	// ArgsDigest is the HMAC of the canonical arguments. Required.
	ArgsDigest []byte
	// Policy is Engine.SnapshotID of the engine that decides. Required.
	Policy string
	Taint  []string // what untrusted content the lane has read
	// Raised is by how many levels drift raises the risk (S1-05).
	Raised int
	// Withheld are declared keys that this call does not get (S1-32).
	Withheld []string
	// Narrowed are keys with a value that bound what the others reach, such as
	// "network.egress.domain_allowlist:example.com".
	Narrowed []string
	// Hosts are those that the node's owner named for the tool; Profile is the one On them. They stand
	// among the grants if the key is there by which they are reached.
	Hosts      []string
	Escalation *Escalation // nil = none
	Created    time.Time   // required
	Expires    time.Time   // required; after Created
}

// Sealed is an envelope with its canonical bytes and their SHA-256, which is its
// address. Treat it as read only; Verify finds out whether someone did not.
type Sealed struct {
	Envelope
	Bytes []byte
	Hash  [32]byte
}

// Summary is what surfaces show of an envelope: its address and S1-08's fields, as
// they were decided on and sent, never derived anew (S1-06, S1-60).
type Summary struct {
	Hash         string                      `json:"hash"` // SHA-256 of the envelope's bytes, hex
	ToolSlug     string                      `json:"tool_slug"`
	Action       string                      `json:"action"`
	Capabilities ByCategory                  `json:"capabilities"`
	Profile      string                      `json:"capability_profile_id"`
	Risk         Risk                        `json:"risk_level"`
	Isolation    capabilities.IsolationClass `json:"isolation_class"`
	Snapshot     string                      `json:"policy_snapshot_id"`
	Grants       []string                    `json:"effective_grants"`
}

// Summary returns the fields for surfaces.
func (s *Sealed) Summary() *Summary {
	return &Summary{
		Hash: s.HashHex(), ToolSlug: s.ToolSlug, Action: s.Action, Capabilities: s.Capabilities, Profile: s.Profile, Risk: s.Risk,
		Isolation: s.Isolation, Snapshot: s.Snapshot, Grants: s.Grants,
	}
}

// HashHex is the address as text.
func (s *Sealed) HashHex() string { return hex.EncodeToString(s.Hash[:]) }

// Raised is by how many levels its risk is above what its keys derive to.
func (e *Envelope) Raised() int {
	keys := e.Capabilities.Keys()
	if e.Escalation != nil {
		keys = append(keys, e.Escalation.Delta...)
	}
	return max(e.Risk.rank()-DeriveRisk(keys).rank(), 0)
}

// Widens reports whether s is the envelope of before's call with key as a one-time addition, in one
// hop, and nothing else of it is wider than what before has and such keys.
func (s *Sealed) Widens(before *Sealed, key string) bool {
	x := s.Escalation
	if x == nil || !slices.Contains(x.Delta, key) || !slices.Contains(s.Grants, key) {
		return false
	}
	from := before.HashHex()
	if before.Escalation != nil {
		from = before.Escalation.From
	}
	prefix := key[:strings.IndexByte(key, ':')+1]
	return x.From == from && s.Tool == before.Tool && s.Selected == before.Selected && s.Lane == before.Lane &&
		s.Principal == before.Principal && s.Role == before.Role &&
		s.ArgsDigest == before.ArgsDigest && s.ManifestHash == before.ManifestHash && s.Isolation == before.Isolation &&
		!slices.ContainsFunc(s.Grants, func(k string) bool {
			return !slices.Contains(before.Grants, k) && (prefix == "" || !strings.HasPrefix(k, prefix))
		})
}

// Verify reports whether the envelope, its bytes and its hash still belong
// together.
func (s *Sealed) Verify() error {
	b := s.append(nil)
	sum := sha256.Sum256(b)
	if !bytes.Equal(b, s.Bytes) || subtle.ConstantTimeCompare(sum[:], s.Hash[:]) != 1 {
		return capabilities.Errorf(capabilities.CodeTicketInvalid, "the envelope was changed after it was sealed")
	}
	return nil
}

// BuildEnvelope computes, in the order of S1-34, the effective grants (declared, less what is
// withheld, plus the escalation's delta), the risk, the isolation class and the profile, and seals
// them. The same input makes the same bytes.
func BuildEnvelope(in EnvelopeInput) (*Sealed, error) {
	if in.Profile == nil {
		return nil, badEnvelope("profile is missing")
	}
	p := in.Profile
	grants := p.Keys
	isolation, risk, consent := p.Isolation, p.Risk, p.Consent
	if len(in.Withheld) > 0 || len(in.Narrowed) > 0 || len(in.Hosts) > 0 || in.Escalation != nil {
		var err error
		if grants, err = effectiveGrants(p.Keys, &in); err != nil {
			return nil, err
		}
		// A withheld key lowers nothing: a class or a risk below what the tool declares would rest
		// on nobody ever asking for the key.
		if in.Escalation != nil {
			isolation = strongerClass(isolation, DeriveIsolation(in.Escalation.Delta))
			if r := DeriveRisk(in.Escalation.Delta); r.rank() > risk.rank() {
				risk = r
			}
			consent = shorterConsent(consent, DeriveConsent(in.Escalation.Delta))
		}
	}
	risk = risk.Raise(in.Raised)
	s := &Sealed{Envelope: Envelope{
		V:            EnvelopeVersion,
		ToolSlug:     p.Tool.Family(),
		Action:       p.Tool.Action(),
		Tool:         p.Tool,
		Version:      p.Version,
		ManifestHash: p.ManifestHash,
		Capabilities: groupKeys(p.Keys),
		Profile:      p.ID,
		Risk:         risk,
		Isolation:    isolation,
		Consent:      consent,
		Grants:       slices.Clone(grants),
		Principal:    in.Principal,
		Role:         in.Role,
		Taint:        sortedKeys(in.Taint),
		Lane:         in.Lane,
		Requested:    in.Requested,
		Selected:     in.Selected,
		Mode:         in.Mode,
		ArgsDigest:   hex.EncodeToString(in.ArgsDigest),
		Created:      stamp(in.Created),
		Expires:      stamp(in.Expires),
	}}
	if s.Grants == nil {
		s.Grants = []string{}
	}
	if in.Escalation != nil {
		s.Escalation = &Escalation{}
		*s.Escalation = *in.Escalation
		s.Escalation.Delta = sortedKeys(in.Escalation.Delta)
	}
	s.Snapshot = snapshotID(in, s.Escalation)
	if in.Policy == "" {
		return nil, badEnvelope("policy is missing")
	}
	if !in.Expires.After(in.Created) {
		return nil, badEnvelope("expires_at must be after created_at")
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	s.Bytes = s.append(make([]byte, 0, 1024))
	s.Hash = sha256.Sum256(s.Bytes)
	return s, nil
}

// OpenEnvelope reads the bytes of an envelope as a node receives them. Only the
// exact canonical form is accepted, so that hash and content are one thing; what
// it says is not derived again: it is the gateway's decision, and the caller
// compares it with the call (hop 9 of docs/architecture.md).
func OpenEnvelope(data []byte) (*Sealed, error) {
	if len(data) > MaxEnvelopeBytes {
		return nil, capabilities.Errorf(capabilities.CodeTicketInvalid, "the envelope is larger than %d bytes", MaxEnvelopeBytes)
	}
	s := &Sealed{}
	if !s.read(data) {
		return nil, capabilities.Errorf(capabilities.CodeTicketInvalid, "the envelope cannot be read")
	}
	if err := s.check(); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeTicketInvalid, err, "the envelope is not valid")
	}
	// Writing it again finds other spellings of the same value.
	again := s.append(make([]byte, 0, len(data)))
	if !bytes.Equal(again, data) {
		return nil, capabilities.Errorf(capabilities.CodeTicketInvalid, "the envelope is not in canonical form")
	}
	s.Bytes = again
	s.Hash = sha256.Sum256(again)
	return s, nil
}

// check holds for every envelope that is built or opened.
func (e *Envelope) check() error {
	if e.V != EnvelopeVersion {
		return badEnvelope("v must be 2")
	}
	if e.Tool.Validate() != nil || e.ToolSlug != e.Tool.Family() || e.Action != e.Tool.Action() {
		return badEnvelope("tool_id, tool_slug and action do not fit")
	}
	texts := [...]struct {
		name, value string
		max         int
		empty       bool
	}{
		{"version", e.Version, 64, false},
		{"manifest_hash", e.ManifestHash, 128, false},
		{"capability_profile_id", e.Profile, 128, false},
		{"policy_snapshot_id", e.Snapshot, 128, false},
		{"principal", string(e.Principal), 128, false},
		{"role", e.Role, 64, true},
		{"thread_id", string(e.Lane), 128, false},
		{"requested_node_id", string(e.Requested), 128, true},
		{"selected_node_id", string(e.Selected), 128, true},
		{"args_digest", e.ArgsDigest, 128, false},
	}
	for _, t := range texts {
		if (t.value == "" && !t.empty) || len(t.value) > t.max || !plainText(t.value) {
			return badEnvelope(t.name + " is missing, too long or not plain text")
		}
	}
	if _, err := hex.DecodeString(e.ArgsDigest); err != nil {
		return badEnvelope("args_digest is not hex")
	}
	if r := e.Risk; r != RiskLow && r != RiskMedium && r != RiskHigh && r != RiskCritical {
		return badEnvelope("risk_level is unknown")
	}
	if e.Isolation.Rank() == 0 || e.Isolation == capabilities.ClassSession {
		return badEnvelope("isolation_class must be t0 to t3")
	}
	if consentRank(e.Consent) == 0 {
		return badEnvelope("consent_class is unknown")
	}
	if e.Taint == nil || len(e.Taint) > maxTaint {
		return badEnvelope("taint is missing or too long")
	}
	for i, t := range e.Taint {
		if !validTaint(t) || (i > 0 && e.Taint[i-1] >= t) {
			return badEnvelope("taint is not a sorted list of plain names")
		}
	}
	switch e.Mode {
	case "":
		if e.Selected != "" {
			return badEnvelope("selection_mode is missing")
		}
	case capabilities.SelectExplicit, capabilities.SelectAttached, capabilities.SelectSole, capabilities.SelectHost:
		// Explicit names the node that was asked for, implicit ones had none.
		explicit := e.Mode == capabilities.SelectExplicit
		if e.Selected == "" || (explicit && e.Requested != e.Selected) || (!explicit && e.Requested != "") {
			return badEnvelope("selection_mode and node IDs do not fit")
		}
	default:
		return badEnvelope("selection_mode is unknown")
	}
	if err := checkKeys("effective_grants", e.Grants, true); err != nil {
		return err
	}
	for _, group := range e.Capabilities.all() {
		if len(group.keys) > maxKeys || group.keys == nil {
			return badEnvelope("capabilities." + group.name + " is missing or too long")
		}
		for i, k := range group.keys {
			if !validKey(group.name+"."+k) || (i > 0 && group.keys[i-1] >= k) {
				return badEnvelope("capabilities." + group.name + " is not a sorted list of keys")
			}
		}
	}
	if x := e.Escalation; x != nil {
		if x.Reason == "" || len(x.Reason) > 300 || !plainText(x.Reason) || len(x.Grant) > 128 || !plainText(x.Grant) {
			return badEnvelope("escalation needs a reason of one plain line")
		}
		if x.Code != EscalatedByCall && x.Code != EscalatedByLease && x.Code != EscalatedBySession {
			return badEnvelope("escalation.code is unknown")
		}
		if from, err := hex.DecodeString(x.From); err != nil || len(from) != sha256.Size {
			return badEnvelope("escalation.from is not the address of an envelope")
		}
		if len(x.Delta) == 0 {
			return badEnvelope("escalation.delta is empty")
		}
		if err := checkKeys("escalation.delta", x.Delta, true); err != nil {
			return err
		}
		for _, k := range x.Delta {
			if !validDelta(k) {
				return badEnvelope("escalation.delta narrows what is no host")
			}
		}
	}
	if !isStamp(e.Created) || !isStamp(e.Expires) {
		return badEnvelope("created_at and expires_at must be UTC times with milliseconds")
	}
	return nil
}

func checkKeys(name string, keys []string, values bool) error {
	if keys == nil || len(keys) > maxKeys {
		return badEnvelope(name + " is missing or too long")
	}
	for i, k := range keys {
		if !(validKey(k) || values && validNarrowed(k)) || (i > 0 && keys[i-1] >= k) {
			return badEnvelope(name + " is not a sorted list of keys")
		}
	}
	return nil
}

// maxTaint bounds the list of taints: there are as many as families, and each provider is one.
const maxTaint = 256

// validTaint reports whether t is the name of a family.
func validTaint(t string) bool {
	return t != "" && len(t) <= 32 && strings.Trim(t, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// validNarrowed reports whether k is KEY:VALUE, the value being a host, a pattern
// of hosts or a name.
func validNarrowed(k string) bool {
	key, value, ok := strings.Cut(k, ":")
	if !ok || value == "" || len(k) > 128 || !validKey(key) {
		return false
	}
	return strings.Trim(value, "abcdefghijklmnopqrstuvwxyz0123456789.*:_-") == ""
}

// validDelta reports whether k may be added once: a key, or one host more of a running call.
func validDelta(k string) bool {
	return validKey(k) || strings.HasPrefix(k, capabilities.NarrowDomains) && validNarrowed(k)
}

// effectiveGrants is declared less withheld plus what narrows plus delta.
// Withholding what was never declared is a mistake of the caller.
func effectiveGrants(declared []string, in *EnvelopeInput) ([]string, error) {
	grants := slices.Clone(declared)
	for _, k := range in.Withheld {
		i := slices.Index(grants, k)
		if i < 0 {
			return nil, badEnvelope("withheld key " + k + " is not declared")
		}
		grants = slices.Delete(grants, i, i+1)
	}
	narrowed := in.Narrowed
	x := in.Escalation
	if slices.Contains(grants, capabilities.KeyEgress) || x != nil && slices.Contains(x.Delta, capabilities.KeyEgress) {
		for _, host := range in.Hosts {
			narrowed = append(slices.Clip(narrowed), capabilities.NarrowDomains+host)
		}
	}
	for _, k := range narrowed {
		if !validNarrowed(k) {
			return nil, badEnvelope("what narrows a key is KEY:VALUE")
		}
		grants = append(grants, k)
	}
	if x != nil {
		for _, k := range x.Delta {
			if !validDelta(k) {
				return nil, badEnvelope("escalation.delta holds a key of no category")
			}
			if !slices.Contains(grants, k) {
				grants = append(grants, k)
			}
		}
	}
	slices.Sort(grants)
	return slices.Compact(grants), nil
}

func sortedKeys(keys []string) []string {
	out := append([]string{}, keys...)
	slices.Sort(out)
	return slices.Compact(out)
}

// snapshotID addresses {policy, entities, delta} (hop 4 of docs/architecture.md); of an escalation
// its reason, too (S1-38).
func snapshotID(in EnvelopeInput, x *Escalation) string {
	b := make([]byte, 0, 512)
	b = append(b, `{"delta":`...)
	if x != nil {
		b = appendStrings(b, x.Delta)
	} else {
		b = append(b, "[]"...)
	}
	b = append(b, `,"entities":`...)
	b = appendStrings(b, []string{string(in.Principal), in.Role, string(in.Node.ID), in.Node.Label, in.Node.Platform, in.Node.Trust})
	b = append(b, `,"labels":`...)
	b = appendStrings(b, sortedKeys(in.Node.Labels))
	b = append(b, `,"policy":`...)
	b = canonical.AppendString(b, in.Policy)
	if x != nil {
		b = append(b, `,"reason":`...)
		b = canonical.AppendString(b, x.Reason)
	}
	b = append(b, '}')
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func badEnvelope(message string) error {
	return capabilities.Errorf(capabilities.CodeInvalidRequest, "envelope: %s", message)
}
