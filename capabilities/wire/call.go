package wire

import (
	"errors"
	"fmt"
	"math"

	"github.com/handrail-dev/handrail/capabilities"
)

// Ticket is the gateway's one-time order to a node (hop 8 of docs/architecture.md). The
// connection authenticates it; sequence, lifetime and stop epoch keep a delayed
// or repeated one from running. Its times are relative, because clocks differ.
type Ticket struct {
	Call       capabilities.CallID       `cbor:"1,keyasint"`
	Tool       capabilities.ToolID       `cbor:"2,keyasint"`
	Capability capabilities.CapabilityID `cbor:"3,keyasint"`
	Lane       capabilities.LaneID       `cbor:"4,keyasint"`
	Node       capabilities.NodeID       `cbor:"5,keyasint"`
	// Args is the canonical JSON object of the call, without routing fields.
	Args []byte `cbor:"6,keyasint"`
	// ArgsDigest is SHA-256 of Args.
	ArgsDigest [32]byte `cbor:"7,keyasint"`
	// Envelope is the sealed envelope's bytes; the node hashes them, it never
	// derives them again (hop 9).
	Envelope []byte   `cbor:"8,keyasint,omitempty"`
	Grants   []string `cbor:"9,keyasint,omitempty"`
	Sequence uint64   `cbor:"10,keyasint"`
	// LifetimeMS is how long after arrival the ticket may still start.
	LifetimeMS uint32 `cbor:"11,keyasint"`
	// DeadlineMS is how long after its start the call may run.
	DeadlineMS uint32 `cbor:"12,keyasint"`
	// StopEpoch is that of the device's own stop switch, as the gateway knew it, and
	// SiteEpoch that of the site's: an older one never runs.
	StopEpoch uint64 `cbor:"13,keyasint"`
	SiteEpoch uint64 `cbor:"20,keyasint,omitempty"`
	// Key 21 is taken: earlier versions sent tickets ahead of their commit, and it said so.
	// Steps: the call may take steps, so the gateway's direction of the stream stays open
	// for their orders. Only for nodes whose hello says Steps.
	Steps bool `cbor:"22,keyasint,omitempty"`
	// Parent and Step are set in the ticket of a step: whose, and which.
	Parent capabilities.CallID `cbor:"23,keyasint,omitempty"`
	Step   uint32              `cbor:"24,keyasint,omitempty"`
	// Elicits: a person may be asked something while the call runs, so the gateway's direction of
	// the stream stays open for their answers. Only for nodes whose hello says Elicits.
	Elicits bool `cbor:"25,keyasint,omitempty"`
	// AsksHosts: a person may be asked about hosts that the call was not granted, and the gateway's
	// direction stays open for that, too. Only for nodes whose hello says AsksHosts.
	AsksHosts bool `cbor:"26,keyasint,omitempty"`
	// Trace is where the call stands in a trace, a W3C traceparent, for the tools of other programs
	// that the node hosts. Only for nodes whose hello says Traces.
	Trace string `cbor:"27,keyasint,omitempty"`
}

// Progress is how far a running call is.
type Progress struct {
	Done    float64 `cbor:"1,keyasint"`
	Total   float64 `cbor:"2,keyasint,omitempty"`
	Message string  `cbor:"3,keyasint,omitempty"` // at most 200 bytes
	// Data is what the caller needs while the call still runs: JSON, at most MaxNews.
	Data []byte `cbor:"4,keyasint,omitempty"`
}

// BlobHead announces bytes that follow the answer as chunks, in this order.
type BlobHead struct {
	Field  string   `cbor:"1,keyasint"`
	MIME   string   `cbor:"2,keyasint"`
	Size   uint32   `cbor:"3,keyasint"`
	SHA256 [32]byte `cbor:"4,keyasint"`
}

// Observation is what really happened during a call, as a capability key with a
// short detail such as a host, and how often.
type Observation struct {
	Key    string `cbor:"1,keyasint"`
	Detail string `cbor:"2,keyasint,omitempty"`
	Count  uint32 `cbor:"3,keyasint"`
	// Refused says that it was tried and did not happen.
	Refused bool `cbor:"4,keyasint,omitempty"`
	// Among are the calls that a provider was carrying out, of which one did it, or the call that did
	// it and had ended; none: this one did.
	Among []capabilities.CallID `cbor:"5,keyasint,omitempty"`
	// Granted says that the calls of Among were granted it: their node knows, this call is another.
	Granted bool `cbor:"6,keyasint,omitempty"`
}

// Answer is how a call ended on the node.
type Answer struct {
	Status    capabilities.Status `cbor:"1,keyasint"`
	Code      capabilities.Code   `cbor:"2,keyasint,omitempty"`
	Message   string              `cbor:"3,keyasint,omitempty"` // at most 2 KiB
	Hint      string              `cbor:"4,keyasint,omitempty"` // at most 2 KiB
	Details   []byte              `cbor:"5,keyasint,omitempty"` // JSON, at most MaxDetails
	Output    []byte              `cbor:"6,keyasint,omitempty"` // JSON object, at most MaxOutput
	Effect    capabilities.Effect `cbor:"7,keyasint,omitempty"`
	Evidence  string              `cbor:"8,keyasint,omitempty"` // at most 2 KiB
	Untrusted bool                `cbor:"9,keyasint,omitempty"`
	Blobs     []BlobHead          `cbor:"10,keyasint,omitempty"`
	// Isolation is the class the node gave the call.
	Isolation  capabilities.IsolationClass `cbor:"11,keyasint,omitempty"`
	Observed   []Observation               `cbor:"12,keyasint,omitempty"`
	DurationUS uint64                      `cbor:"13,keyasint,omitempty"`
	// Artifacts wait in the node's spool until the gateway asks for them.
	Artifacts []ArtifactHead `cbor:"14,keyasint,omitempty"`
	// OutputSum is SHA-256 of the output of a step, which is not here; of no other call.
	OutputSum []byte `cbor:"15,keyasint,omitempty"`
	Did       *Did   `cbor:"16,keyasint,omitempty"`
	// Action is what Hint asks for. One that this side does not know is dropped.
	Action capabilities.Action `cbor:"17,keyasint,omitzero"`
	// Lost counts what was seen without a grant and is not in Observed: its bound left it out.
	Lost uint32 `cbor:"18,keyasint,omitempty"`
	// Masks says that the node took personal data out of all that the call returns, and Masked how
	// often.
	Masks  bool   `cbor:"19,keyasint,omitempty"`
	Masked uint32 `cbor:"20,keyasint,omitempty"`
	// Ran are the programs that carried it out, with what stood around them; at most MaxRan.
	Ran []capabilities.Ran `cbor:"22,keyasint,omitempty"`
}

// Did is what a call did, as far as that may be recorded (capabilities.Did).
type Did struct {
	Typed uint32 `cbor:"1,keyasint,omitempty"`
	App   string `cbor:"2,keyasint,omitempty"` // at most maxName
	// Fields counts those of a form that were filled.
	Fields uint32 `cbor:"3,keyasint,omitempty"`
}

// JournalAsk asks what became of calls, after a crash or a lost connection.
type JournalAsk struct {
	Calls []capabilities.CallID `cbor:"1,keyasint"` // 1 to MaxJournal
	// Recalls are, of each call in the same order, Hello.Recall of the connection that its ticket went
	// over; "": the gateway does not know it any more. None: of no call.
	Recalls []string `cbor:"2,keyasint,omitempty"`
}

// Recall returns what Recalls has of the call at a place in Calls.
func (j *JournalAsk) Recall(at int) string {
	if at < len(j.Recalls) {
		return j.Recalls[at]
	}
	return ""
}

// CallState is what a node's journal says about a call. The zero value is none.
type CallState string

// The states. A node that cannot tell says StateUnknown: its journal was lost
// or pruned past the call, or may have lost the call's record to a power cut.
const (
	StateNeverStarted CallState = "never_started"
	StateRunning      CallState = "running"
	StateFinished     CallState = "finished"
	StateUnknown      CallState = "unknown"
)

// JournalState is the journal's word on one call. Answer comes with
// StateFinished if it is still kept; the bytes of its blobs do not come again.
type JournalState struct {
	Call   capabilities.CallID `cbor:"1,keyasint"`
	State  CallState           `cbor:"2,keyasint"`
	Answer *Answer             `cbor:"3,keyasint,omitempty"`
}

// Kind is KindTicket.
func (*Ticket) Kind() Kind { return KindTicket }

// Kind is KindProgress.
func (*Progress) Kind() Kind { return KindProgress }

// Kind is KindAnswer.
func (*Answer) Kind() Kind { return KindAnswer }

// Kind is KindJournalAsk.
func (*JournalAsk) Kind() Kind { return KindJournalAsk }

// Kind is KindJournalState.
func (*JournalState) Kind() Kind { return KindJournalState }

// traceLength is that of a traceparent of version 00, in bytes.
const traceLength = 55

func (t *Ticket) check() error {
	switch {
	case t.Call == "":
		return errors.New("call is missing")
	case t.Tool == "" || t.Capability == "" || t.Node == "":
		return errors.New("tool, capability and node must be given")
	case t.Steps && (t.Elicits || t.AsksHosts):
		return errors.New("a call takes steps or asks people, not both")
	case (t.Parent == "") != (t.Step == 0) || t.Step > MaxSteps || len(t.Parent) > maxName:
		return errors.New("parent and step do not fit")
	case len(t.Call) > maxName || len(t.Tool) > maxName || len(t.Capability) > maxName || len(t.Lane) > maxName || len(t.Node) > maxName:
		return fmt.Errorf("an identifier is longer than %d bytes", maxName)
	case len(t.Args) == 0 || len(t.Args) > MaxArgs:
		return fmt.Errorf("args must be 1 to %d bytes", MaxArgs)
	case len(t.Envelope) > MaxEnvelope:
		return fmt.Errorf("envelope is larger than %d bytes", MaxEnvelope)
	case t.Trace != "" && len(t.Trace) != traceLength:
		return errors.New("trace is no traceparent")
	case len(t.Grants) > maxGrants:
		return fmt.Errorf("more than %d grants", maxGrants)
	}
	for _, g := range t.Grants {
		if g == "" || len(g) > maxName {
			return fmt.Errorf("a grant must be 1 to %d bytes", maxName)
		}
	}
	return nil
}

func (p *Progress) check() error {
	if !finite(p.Done) || !finite(p.Total) {
		return errors.New("not a number")
	}
	if len(p.Message) > 200 {
		return errors.New("message is longer than 200 bytes")
	}
	if len(p.Data) > MaxNews {
		return fmt.Errorf("data is larger than %d bytes", MaxNews)
	}
	return nil
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

func (a *Answer) check() error {
	switch a.Status {
	case capabilities.StatusOK, capabilities.StatusDenied, capabilities.StatusError, capabilities.StatusPending:
	default:
		return fmt.Errorf("status must be ok, denied, error or pending")
	}
	switch {
	case len(a.Code) > maxName || len(a.Effect) > maxName || len(a.Isolation) > maxName:
		return fmt.Errorf("a name is longer than %d bytes", maxName)
	case len(a.Message) > maxText || len(a.Hint) > maxText || len(a.Evidence) > maxText:
		return fmt.Errorf("a text is longer than %d bytes", maxText)
	case len(a.Details) > MaxDetails:
		return fmt.Errorf("details are larger than %d bytes", MaxDetails)
	case len(a.Output) > MaxOutput:
		return fmt.Errorf("output is larger than %d bytes", MaxOutput)
	case len(a.OutputSum) != 0 && len(a.OutputSum) != 32:
		return errors.New("the sum of an output has 32 bytes or none")
	case len(a.Blobs) > MaxBlobs:
		return fmt.Errorf("more than %d blobs", MaxBlobs)
	case a.Did != nil && (len(a.Did.App) > maxName || a.Did.Typed > maxTyped || a.Did.Fields > maxFields):
		return fmt.Errorf("an application has at most %d bytes, and at most %d characters are typed and %d fields filled", maxName, maxTyped,
			maxFields)
	case len(a.Observed) > maxObserved:
		return fmt.Errorf("more than %d observations", maxObserved)
	case len(a.Ran) > capabilities.MaxRan:
		return fmt.Errorf("more than %d programs", capabilities.MaxRan)
	}
	for _, r := range a.Ran {
		if len(r.Walls) > capabilities.MaxWalls {
			return fmt.Errorf("more than %d walls", capabilities.MaxWalls)
		}
		// Walls are shared by the calls of one start and are never appended to here.
		if err := names("a wall", capabilities.MaxWallText, r.Walls...); err != nil {
			return err
		}
		if err := names("a wall", capabilities.MaxWallText, r.Program, string(r.Class), r.Deeper); err != nil {
			return err
		}
	}
	if err := checkAction(&a.Action); err != nil {
		return err
	}
	// A newer node may know codes that this side does not: they become internal
	// (STYLE, Errors) instead of reaching a caller as something unheard of.
	if a.Code != "" && !a.Code.Known() {
		a.Code = capabilities.CodeInternal
	}
	var total uint64
	for _, b := range a.Blobs {
		if len(b.Field) > maxName || len(b.MIME) > maxName {
			return fmt.Errorf("a blob's name is longer than %d bytes", maxName)
		}
		total += uint64(b.Size)
	}
	if total > MaxBlobBytes {
		return fmt.Errorf("blobs of %d bytes are larger than %d", total, MaxBlobBytes)
	}
	if err := checkArtifacts(a.Artifacts); err != nil {
		return err
	}
	for _, o := range a.Observed {
		if o.Key == "" || len(o.Key) > maxName || len(o.Detail) > maxName {
			return fmt.Errorf("an observation's key must be 1 to %d bytes and its detail at most that", maxName)
		}
	}
	return nil
}

// checkAction bounds an action, and drops one that this side has no words for.
func checkAction(a *capabilities.Action) error {
	if err := names("an action", maxName, string(a.Key), string(a.Node), string(a.Tool), string(a.Capability), string(a.Lane),
		a.Name); err != nil {
		return err
	}
	if a.Key != "" && !a.Key.Known() {
		*a = capabilities.Action{}
	}
	return nil
}

// clipAction drops an action that no frame may carry: a shorter argument would name another thing.
func clipAction(a capabilities.Action) capabilities.Action {
	if checkAction(&a) != nil {
		return capabilities.Action{}
	}
	return a
}

// Clip shortens the texts of an answer to what a frame may carry, at rune
// borders, so that a talkative handler does not lose its whole answer. Output
// that is too large is not cut: it becomes CodeResultTooLarge without it.
func (a *Answer) Clip() {
	a.Message = capabilities.Clip(a.Message, maxText)
	a.Hint = capabilities.Clip(a.Hint, maxText)
	a.Action = clipAction(a.Action)
	a.Evidence = capabilities.Clip(a.Evidence, maxText)
	if a.Did != nil {
		a.Did = &Did{Typed: min(a.Did.Typed, maxTyped), App: capabilities.Clip(a.Did.App, maxName), Fields: min(a.Did.Fields, maxFields)}
	}
	if len(a.Details) > MaxDetails {
		a.Details = nil
	}
	if len(a.Observed) > maxObserved {
		a.Observed = a.Observed[:maxObserved]
	}
	for i := range a.Observed {
		a.Observed[i].Detail = capabilities.Clip(a.Observed[i].Detail, maxName)
	}
	a.Ran = a.Ran[:min(len(a.Ran), capabilities.MaxRan)]
	var total uint64
	for _, b := range a.Blobs {
		total += uint64(b.Size)
	}
	if len(a.Output) > MaxOutput || len(a.Blobs) > MaxBlobs || total > MaxBlobBytes {
		*a = Answer{Status: capabilities.StatusError, Code: capabilities.CodeResultTooLarge, Effect: a.Effect,
			Evidence: a.Evidence, Isolation: a.Isolation, Observed: a.Observed, Lost: a.Lost, Ran: a.Ran, DurationUS: a.DurationUS}
	}
}

// Clip shortens the message to what a frame may carry.
func (p *Progress) Clip() {
	p.Message = capabilities.Clip(p.Message, 200)
	if len(p.Data) > MaxNews {
		p.Data = nil
	}
}

func (j *JournalAsk) check() error {
	if len(j.Calls) == 0 || len(j.Calls) > MaxJournal {
		return fmt.Errorf("calls must be 1 to %d", MaxJournal)
	}
	for _, c := range j.Calls {
		if c == "" || len(c) > maxName {
			return fmt.Errorf("a call must be 1 to %d bytes", maxName)
		}
	}
	if len(j.Recalls) > 0 && len(j.Recalls) != len(j.Calls) {
		return errors.New("recalls must be as many as calls")
	}
	for _, r := range j.Recalls {
		if len(r) > maxRecall {
			return fmt.Errorf("a recall must be at most %d bytes", maxRecall)
		}
	}
	return nil
}

func (j *JournalState) check() error {
	if j.Call == "" || len(j.Call) > maxName {
		return fmt.Errorf("call must be 1 to %d bytes", maxName)
	}
	switch j.State {
	case StateNeverStarted, StateRunning, StateFinished, StateUnknown:
	default:
		return fmt.Errorf("state must be %s, %s, %s or %s", StateNeverStarted, StateRunning, StateFinished, StateUnknown)
	}
	if j.Answer == nil {
		return nil
	}
	if j.State != StateFinished {
		return errors.New("an answer comes with a finished call only")
	}
	return j.Answer.check()
}
