package capabilities

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
)

// IsolationClass is how strongly a call's execution is confined (S1-35). Order
// is strength: t0 < t1 < t2 < t3. ClassSession ranks as t3 and says that the work
// lives in the person's session, where no wall is around it: it satisfies only tools whose
// descriptor names it. ClassNone is what a
// handler states when it can give no isolation at all; it satisfies nothing.
type IsolationClass string

const (
	ClassNone    IsolationClass = "none"
	ClassT0      IsolationClass = "t0"
	ClassT1      IsolationClass = "t1"
	ClassT2      IsolationClass = "t2"
	ClassT3      IsolationClass = "t3"
	ClassSession IsolationClass = "session"
)

// Rank orders classes for the comparison "given is at least required". ClassNone
// and unknown classes rank below everything.
func (c IsolationClass) Rank() int {
	switch c {
	case ClassT0:
		return 1
	case ClassT1:
		return 2
	case ClassT2:
		return 3
	case ClassT3, ClassSession:
		return 4
	}
	return 0
}

// Keeps returns what a class keeps in, in a few words; "" for none that is known.
func (c IsolationClass) Keeps() string {
	switch c {
	case ClassT0:
		return "only its input, no files, no network"
	case ClassT1:
		return "some files, no network"
	case ClassT2:
		return "a network, by one way that is watched"
	case ClassT3:
		return "what the grant lists"
	case ClassSession:
		return "works in the person's own session"
	case ClassNone:
		return "no isolation"
	}
	return ""
}

// Meets reports whether what runs in class c may carry a call that needs at least need.
// inSession says that the tool's descriptor names ClassSession, in which no other tool may run
// (S1-37, S1-63).
func (c IsolationClass) Meets(need IsolationClass, inSession bool) bool {
	if c == ClassSession && !inSession {
		return false
	}
	return c.Rank() >= need.Rank()
}

// Reason says why a capability cannot be used now. The zero value means ready.
type Reason string

const (
	ReasonReady            Reason = ""
	ReasonNotAdvertised    Reason = "not_advertised"
	ReasonNotAllowlisted   Reason = "not_allowlisted"
	ReasonOwnerDisabled    Reason = "owner_disabled"
	ReasonPermission       Reason = "os_permission_missing"
	ReasonBackendMissing   Reason = "backend_missing"
	ReasonBackendFailing   Reason = "backend_failing"
	ReasonSessionLocked    Reason = "session_locked" // or a secure prompt is shown
	ReasonNodeOffline      Reason = "node_offline"
	ReasonNodeStopped      Reason = "node_stopped"
	ReasonNodeNotPaired    Reason = "node_not_paired"
	ReasonHiddenByPolicy   Reason = "hidden_by_policy"
	ReasonIsolationMissing Reason = "isolation_unavailable"
	ReasonLocationAgent    Reason = "location_agent_missing"
	ReasonLocationNoFix    Reason = "location_no_fix"
	ReasonDeviceMissing    Reason = "device_missing" // a camera, say, is not connected
	ReasonDeviceBusy       Reason = "device_busy"    // another program has it
	ReasonNodeOutdated     Reason = "node_outdated"  // its program is too old for this capability
	// The tool's provider says something else of it than a person approved.
	ReasonManifestChanged Reason = "manifest_changed"
	// A satellite has not been heard of for too long.
	ReasonHeartbeatLate Reason = "heartbeat_late"
	// A credential of the tool's provider has not been delivered to its host.
	ReasonCredentialMissing Reason = "credential_missing"
	// ReasonRestricted and ReasonQuarantined are the gateway's, because of drift.
	ReasonRestricted  Reason = "tool_restricted"
	ReasonQuarantined Reason = "runner_quarantined"
	// The server behind the tool's provider takes no call before somebody signed in there.
	ReasonNeedsSignIn Reason = "needs_sign_in"
)

// Readiness is the one truth about a capability on a node.
type Readiness struct {
	Capability CapabilityID `json:"capability" cbor:"1,keyasint"`
	Reason     Reason       `json:"reason,omitempty" cbor:"2,keyasint,omitempty"`
	Fix        string       `json:"fix,omitempty" cbor:"3,keyasint,omitempty"` // what a person can do; at most 300 bytes
	// Isolation is the class that this capability has on the node, stated by the node.
	Isolation IsolationClass `json:"isolation,omitempty" cbor:"4,keyasint,omitempty"`
	// Degraded names what is missing from the class it should have, such as
	// "chrome_sandbox". Not empty means that policy must accept it explicitly.
	Degraded string `json:"degraded,omitempty" cbor:"5,keyasint,omitempty"`
	// Backend says what carries it out, such as "chromium 156.0.8078.73".
	Backend string `json:"backend,omitempty" cbor:"6,keyasint,omitempty"`
	// Devices are the cameras or microphones that calls may name, where they are known;
	// at most MaxDevices.
	Devices []Device `json:"devices,omitempty" cbor:"7,keyasint,omitempty"`
	// Fake says that the devices are a test's and not the host's.
	Fake bool `json:"fake,omitempty" cbor:"8,keyasint,omitempty"`
	// Action is what Fix asks for.
	Action Action `json:"action,omitzero" cbor:"9,keyasint,omitzero"`
	// Hosts are those that calls of it may reach here, as the device's owner named them, of a tool
	// that has no network of its own; at most MaxHosts, each fit for a key (NarrowDomains).
	Hosts []string `json:"hosts,omitempty" cbor:"10,keyasint,omitempty"`
	// Deeper names the walls that stand around its programs beyond those of the class, such as
	// "namespaces, cgroup", and Program is the hash of the file that is started. Empty: it has none.
	Deeper  string `json:"deeper,omitempty" cbor:"11,keyasint,omitempty"`
	Program string `json:"program,omitempty" cbor:"12,keyasint,omitempty"`
}

// Ran is what a program of a call ran in, as its runner reported when the walls stood.
type Ran struct {
	Program string         `cbor:"1,keyasint,omitempty"` // the hash of its file, "sha256:" and hexadecimal
	Class   IsolationClass `cbor:"2,keyasint"`
	Walls   []string       `cbor:"3,keyasint"`           // all that stood, by their names
	Deeper  string         `cbor:"4,keyasint,omitempty"` // those of them beyond the class's
}

// Same reports whether both say the same.
func (r Ran) Same(o Ran) bool {
	return r.Program == o.Program && r.Class == o.Class && r.Deeper == o.Deeper && slices.Equal(r.Walls, o.Walls)
}

// Bounds of Readiness and Ran.
const (
	MaxDevices    = 16
	MaxDeviceText = 128 // bytes of an ID or label
	MaxHosts      = 16
	MaxHostText   = 96 // bytes of a host, with its port
	MaxRan        = 8  // programs of a call that are told apart
	MaxWalls      = 16
	MaxWallText   = 128 // bytes of a wall's name, of several in one text, or of a program's hash
)

// Device is a camera or microphone of a node.
type Device struct {
	ID      string `json:"id" cbor:"1,keyasint"` // what device_id takes
	Label   string `json:"label,omitempty" cbor:"2,keyasint,omitempty"`
	Facing  string `json:"facing_mode,omitempty" cbor:"3,keyasint,omitempty"` // user, environment; empty: not known
	Default bool   `json:"default,omitempty" cbor:"4,keyasint,omitempty"`
}

// Same reports whether both say the same.
func (r Readiness) Same(o Readiness) bool {
	return r.Capability == o.Capability && r.Reason == o.Reason && r.Fix == o.Fix && r.Action == o.Action && r.Isolation == o.Isolation &&
		r.Degraded == o.Degraded && r.Backend == o.Backend && r.Fake == o.Fake && slices.Equal(r.Devices, o.Devices) &&
		slices.Equal(r.Hosts, o.Hosts) && r.Deeper == o.Deeper && r.Program == o.Program
}

// Ready reports whether the capability can be used now.
func (r Readiness) Ready() bool { return r.Reason == ReasonReady }

// Invocation is one admitted call as a handler sees it. Its context carries the
// deadline and is cancelled when the caller gives up or a stop switch is pulled.
type Invocation struct {
	Call       CallID
	Capability CapabilityID
	Lane       LaneID
	Principal  PrincipalID // whom it is carried out for, as the envelope says
	// Args is the canonical JSON object, valid against the descriptor's input
	// schema, without routing fields.
	Args json.RawMessage
	// Grants are the effective capability keys of the envelope, such as "network.browser.session".
	// Anything beyond them is drift.
	Grants []string
	// Secret is what was delivered for this call alone, sealed to this node; zero for
	// calls that deliver none. Args then does not hold the field it is for.
	Secret Secret
	// Cleared says that Secret is nowhere on the device where applications can read
	// it, or never was; nil unless there is a Secret. Until it is called, results are
	// kept free of the value. Idempotent, safe from any goroutine, also after Handle.
	Cleared func()
	// Pasting and Looking are behind BeforePaste and BeforeLook; nil where no secret is
	// ever delivered.
	Pasting func(where func() Place) error
	Looking func() error
	// Trace is where the call stands in a trace, a W3C traceparent, for programs of other makers that
	// carry it out; empty: in none.
	Trace string
	// Spool takes the call's artifacts; nil where the node keeps none. CreateArtifact
	// is how handlers use it.
	Spool ArtifactSpool
	// Step makes another call inside this one and returns its result; nil for calls whose
	// descriptor takes no steps. Result is JSON then. Safe from any goroutine, until Handle
	// returns.
	Step func(ctx context.Context, s StepCall) (Output, error)
	// StepTools are the tools that Step takes here, in the catalog's order.
	StepTools []ToolID
	// Elicit asks a person what the program that carries the call out wants to know, as form.Encode
	// wrote it, and waits for the answer; the call's own time stands still meanwhile. Content is a
	// JSON object that fits the form, with ElicitAccept only. nil where nobody can be asked. Safe
	// from any goroutine, until Handle returns.
	Elicit func(ctx context.Context, form json.RawMessage) (action Elicited, content json.RawMessage, err error)
	// Reach asks whether the call may connect to a target ("github.com:443") that nobody named for it,
	// and waits for a person's answer; each target is asked about once. until ends with the
	// permission: what was connected by it is closed then. CodeConsentDenied: a person or policy said
	// no. nil where nobody can be asked. Safe from any goroutine.
	Reach func(ctx context.Context, target string) (until context.Context, err error)
	// Progress reports how far the call is; never nil, safe from any goroutine.
	Progress func(Progress)
	// Refused reports what the call tried and was kept from because it was not granted, in the
	// terms of Observe; nil: nobody is told. ReportRefused is how handlers use it. among are the
	// calls of which one did that, where nobody can tell which; none: this one did.
	Refused func(key, detail string, among ...CallID)
	// Among reports what one of several calls did, which ran at once, in the terms of Observe, and
	// whether any of them was granted it; nil: nobody is told. ObserveAmong is how handlers use it.
	Among func(key, detail string, granted bool, among ...CallID)
	// Earlier reports what an earlier call did after it had ended, in the terms of Observe, and
	// whether that call was granted it; nil: nobody is told.
	Earlier func(key, detail string, call CallID, granted bool)
	// Ran reports what a program of the call runs in; nil: nobody is told. ReportRan is how handlers
	// use it.
	Ran func(Ran)
	// Observe reports what really happened, as a capability key with a short
	// detail (such as a host); never nil, safe from any goroutine.
	Observe func(key, detail string)
}

// ReportRefused says that a wall or a proxy refused something that the call was not granted. It is
// safe from any goroutine.
func (i *Invocation) ReportRefused(key, detail string, among ...CallID) {
	if i.Refused != nil {
		i.Refused(key, detail, among...)
	}
}

// ReportRan says what a program of the call runs in. It is safe from any goroutine.
func (i *Invocation) ReportRan(r Ran) {
	if i.Ran != nil {
		i.Ran(r)
	}
}

// ObserveAmong says that one of those calls did something, of which nobody can tell which, and
// whether any of them was granted it; of none it is Observe. It is safe from any goroutine.
func (i *Invocation) ObserveAmong(key, detail string, granted bool, among ...CallID) {
	switch {
	case len(among) == 0:
		i.Observe(key, detail)
	case i.Among != nil:
		i.Among(key, detail, granted, among...)
	}
}

// Elicited is what a person said to a form that a program put to them.
type Elicited string

// The answers, in the words of the Model Context Protocol.
const (
	ElicitAccept  Elicited = "accept"
	ElicitDecline Elicited = "decline"
	ElicitCancel  Elicited = "cancel" // nobody answered, or nobody wanted to
)

// BeforePaste is to be called right before what may paste from the device's clipboard.
// where tells where that goes, and is asked only if it matters; the error says that it
// must not be.
func (i *Invocation) BeforePaste(where func() Place) error {
	if i.Pasting == nil {
		return nil
	}
	return i.Pasting(where)
}

// BeforeLook is to be called before what lets a caller look closer than a text does, where
// the descriptor does not say so already.
func (i *Invocation) BeforeLook() error {
	if i.Looking == nil {
		return nil
	}
	return i.Looking()
}

// Output is what a handler returns.
type Output struct {
	// Result is marshalled to the JSON object that the descriptor's result schema
	// describes, without the fields that Blobs stand for.
	Result any
	Blobs  []Blob
	// Artifacts are what CreateArtifact's writers returned, at most MaxArtifacts: bytes
	// that are large, or that a person will want as a file.
	Artifacts []Artifact
	Effect    Effect
	Evidence  string // one short line; never holds what the caller typed
	// Untrusted marks content of third parties (a page, a screen) in Result.
	Untrusted bool
	// Did says for lists that people read what was done, where the arguments do not; nil:
	// nothing. It is recorded, so it holds no title and nothing that was typed.
	Did *Did
	// Hint and Action say what the caller can do about what the result leaves open; empty: nothing.
	Hint   string
	Action Action
}

// Did is what a call did, as far as that may be recorded.
type Did struct {
	// Typed counts the characters that were typed where everybody can read them. 0 where
	// that is not sure: the length of a password is never told.
	Typed  int
	Fields int    // of a form, that were filled
	App    string // the application, such as "Mousepad"
}

// Scene is what a call would meet on a device: names as the device has them.
type Scene struct {
	App    string
	Window string // its title
	Field  string // the name of what takes the text, or of what is acted on
	// Password says that what is typed there is not shown.
	Password bool
	Role     string // of Field, such as "button"; empty for what has the focus
	// Address is the page's, without its query, where it is a page.
	Address string
	// Elements are those that the call names by arguments of its own, at most MaxSceneElements.
	Elements []SceneElement
}

// SceneElement is an element that an argument names, such as "fields.1.ref"; without one,
// what has the focus.
type SceneElement struct {
	Arg, Role, Name string
	// Secret says that what is typed there is not shown.
	Secret bool
}

// MaxSceneElements bounds what is told of one call.
const MaxSceneElements = 32

// Describer is a Handler that can say what a call would meet, for the person who is asked
// about it. It carries nothing out and takes no picture. Safe for concurrent use.
type Describer interface {
	Describe(ctx context.Context, inv Invocation) (Scene, error)
}

// ClipboardKeeper is a Handler whose capabilities let callers read a clipboard that
// the device's applications share.
type ClipboardKeeper interface {
	// KeepClipboard says from now on whether clipboard reads are refused, because a
	// secret lies there. It returns once they are.
	KeepClipboard(ctx context.Context, keep bool) error
}

// GatewayAvoider is a Handler whose calls could come by the gateway's own pages, with the
// session of the person who is signed in there.
type GatewayAvoider interface {
	// AvoidGateway says where those pages are from now on, beside what the handler knows
	// itself: origins such as https://10.0.0.5:7480. It does not block.
	AvoidGateway(origins []string)
}

// Place is where a secret was pasted: a document, or a window. Places are comparable.
type Place interface {
	// Here reports whether it is still there: not left, and not closed.
	Here() bool
}

// Shower is a Handler whose pictures and scripts show places.
type Shower interface {
	// Shows reports whether what a lane can look at by this handler may show a place, also
	// one of another handler's.
	Shows(lane LaneID, p Place) bool
}

// CallWatcher is a Handler that is told of the calls that its node carries out. Its text is what
// the ledger may have, and it must not block.
type CallWatcher interface {
	// CallBegan tells of a call that is about to run. args returns what its descriptor lets out of
	// its arguments (Evidence); to be called before CallBegan returns, or never.
	CallBegan(call CallID, lane LaneID, tool ToolID, args func() map[string]any)
	// CallEnded tells how it ended, in a few words: "ok", "error stale_frame".
	CallEnded(call CallID, outcome string)
}

// ErrCut is in the cause of a call's context that ended because the node lost the
// gateway, and not because somebody wanted it to end.
var ErrCut = errors.New("the connection to the gateway was lost")

// Handler carries out one family of capabilities on a node. Handlers are safe
// for concurrent use; they order what must be ordered themselves (per lane).
type Handler interface {
	// Capabilities lists what this handler implements; constant for its life.
	Capabilities() []CapabilityID
	// Readiness returns the present truth for each of Capabilities, quickly (it may
	// answer from a cache) and without side effects.
	Readiness(ctx context.Context) []Readiness
	// Handle carries out one call. Errors are *Error; anything else is reported as
	// CodeExecutionFailed. It returns soon after ctx ends.
	Handle(ctx context.Context, call Invocation) (Output, error)
	// CloseLane frees what a lane holds (its browser context, say). Idempotent.
	CloseLane(lane LaneID)
	// Close ends everything the handler started. Idempotent and bounded.
	Close() error
}
