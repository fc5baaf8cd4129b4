package catalog

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Descriptor describes one tool. Fields are read only after Load; callers must
// not change what the slices hold.
type Descriptor struct {
	// Capability is what a node advertises; empty for the gateway's own tools.
	Capability capabilities.CapabilityID `json:"capability,omitempty"`
	// Tool is the canonical ID; for a capability it is Capability.Tool() (S0-01).
	Tool        capabilities.ToolID `json:"tool"`
	Title       string              `json:"title"`
	Phrase      Phrase              `json:"phrase,omitzero"` // what a call of it does, for people
	Description string              `json:"description"`     // what a model reads: what it does and when to use it
	Version     string              `json:"version"`         // semver
	Tags        []string            `json:"tags"`
	SideEffects SideEffects         `json:"side_effects"`
	ModelFacing bool                `json:"model_facing"` // false: never listed to or callable by agents
	Nature      Nature              `json:"nature"`
	Layer       Layer               `json:"layer"`
	// Provider is the name of the provider that backs the tool; empty for what is compiled
	// into the node or the gateway.
	Provider string `json:"provider,omitempty"`
	// Input and Result are JSON Schemas (2020-12), closed and bounded. Input holds
	// business fields only (S0-04); ModelInput adds the routing ones.
	Input       json.RawMessage `json:"input"`
	Result      json.RawMessage `json:"result"`
	Manifest    Categories      `json:"categories"`
	Defaults    Defaults        `json:"defaults"`
	Evidence    Evidence        `json:"evidence"`
	Reach       []Reach         `json:"reach,omitempty"` // what its arguments name of the world
	Routing     Routing         `json:"routing"`
	Idempotency Idempotency     `json:"idempotency"`
	Limits      Limits          `json:"limits"`
	Annotations Annotations     `json:"annotations"`
	Consent     Consent         `json:"consent"`
	// Optional are declared keys that the tool works without: policy may withhold
	// them, and its handler then leaves out what needs them.
	Optional []string `json:"optional_keys,omitempty"`
	// OwnerKeys are keys that a call has besides the declared ones on a node whose owner named hosts
	// for the tool (Readiness.Hosts), and nowhere else. The tool works without them.
	OwnerKeys []string `json:"owner_keys,omitempty"`
	// Ack is true for tools whose result is an acknowledgement only (S0-42).
	Ack      bool      `json:"ack,omitempty"`
	Examples []Example `json:"examples,omitempty"`
	// Face is true for tools that stand in the smallest list, from which others are found.
	Face bool `json:"face,omitempty"`
	// OnRequest is true for tools that a list has only where it is asked for them: by the tool's
	// own name, by a face that lists everything, or by a lane that found them (S0-10).
	OnRequest bool `json:"on_request,omitempty"`
	// Attached is true for calls that are nothing without the gateway: the node ends them
	// when the connection that they came by is lost, where others run to their end.
	Attached bool `json:"attached,omitempty"`
	// Surface is the action of surfaces that the tool is a part of, such as "tokens", if it is an
	// admin's own work: a surface makes its calls of what people ask for there, and nobody else does.
	Surface string `json:"surface,omitempty"`
	// Exclusive is true for calls during which the node is one person's alone: the tools
	// of everybody else wait there until it has ended.
	Exclusive bool `json:"exclusive,omitempty"`
	// Steps are the tools and families ("browser") whose calls this tool's calls may make
	// as steps of their own, each judged and recorded as any; empty: none.
	Steps []string `json:"steps,omitempty"`
	// Step is true for tools whose calls may be steps of others. A tool that ends what
	// its parent works with, or that lets a person's files in or out, is none.
	Step bool `json:"step,omitempty"`
	// Delivery is set for tools that hand the node a secret; nil for all others.
	Delivery *Delivery `json:"delivery,omitempty"`
	// Upload is set for tools that write a file which a person chose; nil for all others.
	Upload *Upload `json:"upload,omitempty"`

	// Elicits is true for tools whose program may ask a person something while a call runs.
	Elicits bool `json:"elicits,omitempty"`

	routeOnce sync.Once
	routed    *routed
	routeErr  error
	// settled says that it lies in a catalog or a registry, so that it never changes.
	settled  bool
	hashOnce sync.Once
	hash     [32]byte // of one that is settled
}

// Upload names the arguments that a chosen file fills (S1-26).
type Upload struct {
	Name string `json:"name"` // takes where it goes
	Text string `json:"text"` // takes what is in it
}

// SideEffects is where a call leaves traces (S4-33). The zero value is invalid.
type SideEffects string

// The side effect classes.
const (
	EffectsNone     SideEffects = "none"     // it only reads
	EffectsLocal    SideEffects = "local"    // it changes the device
	EffectsExternal SideEffects = "external" // it can change something beyond the device
)

// Nature tells tools from plumbing (S3-22).
type Nature string

// The natures.
const (
	NatureTool     Nature = "tool"
	NaturePlumbing Nature = "plumbing"
)

// Consent is the longest permission a person may give when policy makes them
// asked.
type Consent string

// The consent classes.
const (
	ConsentNone    Consent = "none"    // nothing to ask a person about
	ConsentCall    Consent = "call"    // one call with exactly these arguments
	ConsentLease   Consent = "lease"   // minutes, this node, this lane, counted
	ConsentSession Consent = "session" // until the lane ends; safe tools only
)

// Categories are the declared capability keys in the five categories of S1-11,
// without the category prefix.
type Categories struct {
	Execution  []string `json:"execution,omitempty"`
	UI         []string `json:"ui,omitempty"`
	Data       []string `json:"data,omitempty"`
	Network    []string `json:"network,omitempty"`
	Privileged []string `json:"privileged,omitempty"`
}

// Keys returns the full keys, sorted, such as "network.browser.session".
func (c Categories) Keys() []string {
	keys := make([]string, 0, 4)
	for _, cat := range c.all() {
		for _, k := range cat.keys {
			keys = append(keys, cat.name+"."+k)
		}
	}
	sort.Strings(keys)
	return keys
}

// Has reports whether a full key is declared.
func (c Categories) Has(key string) bool {
	name, rest, _ := strings.Cut(key, ".")
	for _, cat := range c.all() {
		if cat.name == name && slices.Contains(cat.keys, rest) {
			return true
		}
	}
	return false
}

// Narrows returns what begins the keys by which an envelope confines the tool to hosts, or "" for
// a tool that no envelope confines so.
func (d *Descriptor) Narrows() string {
	if d.Manifest.Has(capabilities.KeyPages) || d.Provider == "" && d.Manifest.Has(capabilities.KeyFetch) {
		return capabilities.NarrowDomains
	}
	return ""
}

type category struct {
	name string
	keys []string
}

func (c Categories) all() [5]category {
	return [5]category{
		{"execution", c.Execution}, {"ui", c.UI}, {"data", c.Data},
		{"network", c.Network}, {"privileged", c.Privileged},
	}
}

// Defaults are the manifest's defaults (S1-24). Isolation is never below what
// the declared keys derive to.
type Defaults struct {
	Isolation capabilities.IsolationClass `json:"isolation_class"`
	// Session says that calls may live in a person's session instead, as those of a Chrome that
	// is theirs. A tool whose class is ClassSession lives nowhere else, and does not say it twice.
	Session          bool `json:"session,omitempty"`
	RequiresApproval bool `json:"requires_approval"`
	CacheEligible    bool `json:"cache_eligible"`
}

// Evidence says which arguments may leave the sealed store, as JSON pointers.
type Evidence struct {
	Args   []string `json:"args,omitempty"`   // scalars that may be recorded and that policy may see
	Secret []string `json:"secret,omitempty"` // never recorded, shown or logged; "*" stands for any index
}

// Target is who carries a tool out.
type Target string

// The targets.
const (
	TargetNode    Target = "node"
	TargetGateway Target = "gateway"
)

// Routing says how a call finds its place.
type Routing struct {
	Target Target `json:"target"`
	// Implicit lists the ways a node may be chosen when node_id is absent (S0-20,
	// S0-21); empty means that node_id is needed.
	Implicit []capabilities.SelectionMode `json:"implicit,omitempty"`
	// Via is the capability a composed gateway tool is carried out through (S0-12).
	Via capabilities.CapabilityID `json:"via,omitempty"`
	// TimeoutArg is the name of the routing field that bounds the dispatch:
	// "timeout_ms", another name where the action owns that one, or "" for none.
	TimeoutArg string `json:"timeout_arg,omitempty"`
}

// NodeCapability is the capability a node must offer for this tool: its own, or
// the one it is composed of. Empty if no node is involved.
func (d *Descriptor) NodeCapability() capabilities.CapabilityID {
	switch {
	case d.Routing.Target == TargetNode:
		return d.Capability
	default:
		return d.Routing.Via
	}
}

// InSession reports whether calls may live in a person's session, where no wall is around them.
func (d *Descriptor) InSession() bool {
	return d.Defaults.Session || d.Defaults.Isolation == capabilities.ClassSession
}

// Is reports whether the tool carries every one of the tags and has those side effects. No tags and
// "" stand for any.
func (d *Descriptor) Is(tags []string, effects SideEffects) bool {
	return (effects == "" || d.SideEffects == effects) &&
		!slices.ContainsFunc(tags, func(tag string) bool { return !slices.Contains(d.Tags, tag) })
}

// Arguments returns the names of the tool's own arguments, sorted, without the routing fields.
func (d *Descriptor) Arguments() []string {
	var input struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(d.Input, &input) != nil {
		return nil // only a descriptor that Load would have refused
	}
	return slices.Sorted(maps.Keys(input.Properties))
}

// OnDesk reports whether the tool looks at or touches what the person at the device
// sees and holds: their screen, mouse, keyboard or clipboard.
func (d *Descriptor) OnDesk() bool {
	return slices.Contains(d.Manifest.Privileged, "input.inject") || slices.ContainsFunc(d.Manifest.Data, func(key string) bool {
		return key == "read.screen" || strings.HasSuffix(key, ".clipboard")
	})
}

// TakesSteps reports whether calls of d make calls of their own.
func (d *Descriptor) TakesSteps() bool { return len(d.Steps) > 0 }

// Composes reports whether the gateway itself makes the calls inside a call of d: it is a macro
// or a sub-agent (S3-14, S3-16).
func (d *Descriptor) Composes() bool { return d.TakesSteps() && d.Routing.Target == TargetGateway }

// Takes reports whether a call of tool may be a step of a call of d. A node's takes tools
// that say they may be steps; a composition of the gateway any that a model may call, since each
// goes the whole way of a call.
func (d *Descriptor) Takes(tool *Descriptor) bool {
	if !tool.Step && !(d.Composes() && tool.ModelFacing) {
		return false
	}
	return slices.Contains(d.Steps, string(tool.Tool)) || slices.Contains(d.Steps, tool.Tool.Family())
}

// Idempotency says what a repeated call may do. A retry under the same request
// ID is deduplicated always; this is about everything else.
type Idempotency struct {
	Mode     IdempotencyMode `json:"mode"`
	WindowMS int             `json:"window_ms,omitempty"` // for return_cached_result
}

// IdempotencyMode is one of the modes below.
type IdempotencyMode string

// The modes.
const (
	// the same principal, lane and arguments within the window get the recorded result, deduplicated
	IdempotencyCached IdempotencyMode = "return_cached_result"
	IdempotencyGuard  IdempotencyMode = "guard" // it has effects: never started again by us, not even after a crash
	IdempotencyNone   IdempotencyMode = "none"  // it reads: harmless to start again, never worth reusing
)

// Limits bounds one call.
type Limits struct {
	TimeoutMS    int `json:"timeout_ms"`     // default
	MaxTimeoutMS int `json:"max_timeout_ms"` // at most
	// DurationArg is the pointer of an argument by which the call says how long it
	// means to take, in milliseconds; SlackMS is added to it. A recording of 300 s
	// must not die of a 30 s default.
	DurationArg    string `json:"duration_arg,omitempty"`
	SlackMS        int    `json:"slack_ms,omitempty"`
	MaxResultBytes int    `json:"max_result_bytes"`
	MaxBlobBytes   int    `json:"max_blob_bytes,omitempty"`
	// MaxArtifactBytes bounds the artifacts of a call together; 0: it makes none.
	MaxArtifactBytes int64 `json:"max_artifact_bytes,omitempty"`
}

// Timeout is the default bound of a call.
func (l Limits) Timeout() time.Duration { return time.Duration(l.TimeoutMS) * time.Millisecond }

// MaxTimeout is the largest bound of a call.
func (l Limits) MaxTimeout() time.Duration { return time.Duration(l.MaxTimeoutMS) * time.Millisecond }

// Annotations are the MCP hints.
type Annotations struct {
	ReadOnly    bool `json:"read_only"`
	Destructive bool `json:"destructive"`
	Idempotent  bool `json:"idempotent"`
	OpenWorld   bool `json:"open_world"`
}

// maxPersonal bounds how deep fields are looked for.
const maxPersonal = 12

// Personal returns the paths of the result's fields that are declared to hold something personal;
// "*" is any element or member.
func (d *Descriptor) Personal() [][]string {
	doc, err := canonical.Decode(d.Result, canonical.Limits{})
	if err != nil {
		return nil // only a descriptor that Load would have refused
	}
	defs, _ := doc.Get("$defs")
	var all [][]string
	var walk func(v canonical.Value, path []string)
	walk = func(v canonical.Value, path []string) {
		if len(path) > maxPersonal {
			return
		}
		if ref, ok := v.Get("$ref"); ok {
			v, _ = defs.Get(strings.TrimPrefix(ref.Str, "#/$defs/"))
		}
		if _, ok := v.Get(Personal); ok {
			all = append(all, path)
			return
		}
		props, _ := v.Get("properties")
		for _, p := range props.Members {
			walk(p.Value, append(slices.Clone(path), p.Key))
		}
		for _, key := range []string{"items", "additionalProperties"} {
			if one, ok := v.Get(key); ok && one.Kind == canonical.Object {
				walk(one, append(slices.Clone(path), "*"))
			}
		}
	}
	walk(doc, nil)
	return all
}

// Example is a call that the input schema accepts.
type Example struct {
	Title string          `json:"title"`
	Args  json.RawMessage `json:"args"`
}

// Hash is the SHA-256 of the canonical descriptor: the manifest_hash of an
// envelope, so that a changed descriptor is a changed envelope.
func (d *Descriptor) Hash() [32]byte {
	if !d.settled {
		return d.digest()
	}
	d.hashOnce.Do(func() { d.hash = d.digest() })
	return d.hash
}

func (d *Descriptor) digest() [32]byte {
	data, err := d.canonical()
	if err != nil {
		return [32]byte{} // only a descriptor that Load would have refused
	}
	return sha256.Sum256(data)
}

// Settle validates a descriptor and returns a copy of it that shares nothing with it, whose
// hash is made once: what lies in a catalog or a registry never changes. One that is settled
// already is returned as it is. The error names the rule that d breaks.
func Settle(d *Descriptor) (*Descriptor, error) {
	if d.settled {
		return d, nil
	}
	data, err := d.canonical()
	if err != nil {
		return nil, refuse(d, "%v", err)
	}
	own := &Descriptor{}
	if err := json.Unmarshal(data, own); err != nil {
		return nil, refuse(d, "%v", err)
	}
	return own, SettleOwn(own)
}

// SettleOwn is Settle for a descriptor that its caller has just made and does not change after:
// it needs no copy.
func SettleOwn(d *Descriptor) error {
	if err := d.Validate(); err != nil {
		return err
	}
	d.settled = true
	return nil
}

func (d *Descriptor) canonical() ([]byte, error) { return canonical.Marshal(d) }
