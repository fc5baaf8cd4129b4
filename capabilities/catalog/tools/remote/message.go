package remote

import (
	"encoding/json"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// Op is what a request wants. The zero value is invalid.
type Op string

// The requests.
const (
	OpManifest Op = "manifest" // what it says of its tools
	OpCall     Op = "call"     // carry one call out
	OpCancel   Op = "cancel"   // end a call; no reply
	OpAsk      Op = "ask"      // what became of calls
	OpKey      Op = "key"      // agree on a Key for heartbeats
)

// Bounds of messages.
const (
	MaxPayload = 1 << 20   // of any message on the bus
	MaxRequest = 768 << 10 // arguments with what stands around them
	MaxText    = 512 << 10 // of a result without its bytes
	MaxBytes   = 16 << 20  // of one result, in chunks
	Chunk      = 512 << 10 // of each but the last
	MaxAsk     = 64        // calls of one question
	maxMessage = 2 << 10   // of an error
	maxNote    = 200       // of a progress
)

// Request is what the gateway sends to a satellite's own subject.
type Request struct {
	Op   Op                  `json:"op"`
	Call capabilities.CallID `json:"call,omitempty"`
	Tool string              `json:"tool,omitempty"` // the satellite's own name of it
	// Hash is that of the tool's words as a person approved them: a satellite that says other
	// words of it now does not run it.
	Hash       string                `json:"hash,omitempty"`
	Args       json.RawMessage       `json:"args,omitempty"`
	DeadlineMS int                   `json:"deadline_ms,omitempty"` // how long it may run
	Calls      []capabilities.CallID `json:"calls,omitempty"`       // of OpAsk
	Key        string                `json:"key,omitempty"`         // of OpKey: the gateway's half
}

// ReadRequest reads a request.
func ReadRequest(data []byte) (r Request, err error) {
	if err := read(data, canonical.Limits{MaxBytes: MaxPayload}, &r); err != nil {
		return Request{}, err
	}
	switch r.Op {
	case OpManifest:
	case OpCall:
		if r.Call == "" || r.Tool == "" || r.DeadlineMS <= 0 {
			return Request{}, bad("call", "call, tool and deadline_ms are required")
		}
	case OpCancel:
		if r.Call == "" {
			return Request{}, bad("call", "is required")
		}
	case OpAsk:
		if len(r.Calls) == 0 || len(r.Calls) > MaxAsk {
			return Request{}, bad("calls", "1 to 64")
		}
	case OpKey:
		if _, err := readHalf(r.Key); err != nil {
			return Request{}, err
		}
	default:
		return Request{}, bad("op", "manifest, call, cancel, ask or key")
	}
	return r, nil
}

// State is what a satellite remembers of a call.
type State string

// The states. Unknown is said of a call that may be from before its memory begins.
const (
	StateNever    State = "never"
	StateRunning  State = "running"
	StateFinished State = "finished"
	StateUnknown  State = "unknown"
)

// Fate is its word on one call.
type Fate struct {
	Call   capabilities.CallID `json:"call"`
	State  State               `json:"state"`
	Result *Result             `json:"result,omitempty"` // of a finished one, without its bytes
	Bytes  int                 `json:"bytes,omitempty"`  // how many there were
}

// Progress is how far a call is.
type Progress struct {
	Done    float64 `json:"done"`
	Total   float64 `json:"total,omitempty"`
	Message string  `json:"message,omitempty"`
}

// Link is a resource that a result points at.
type Link struct {
	URI  string `json:"uri"`
	Name string `json:"name,omitempty"`
	MIME string `json:"mime,omitempty"`
}

// Refused is something that a call tried and that a wall of the satellite's own refused, as a
// capability key and what was wanted under it.
type Refused struct {
	Key    string `json:"key"`
	Detail string `json:"detail,omitempty"` // a host, or a path
	Count  uint32 `json:"count"`
	// Among are the calls that were open, of which one did it; none: this one did.
	Among []capabilities.CallID `json:"among,omitempty"`
}

// Bounds of what a result tells of refusals.
const (
	MaxRefused = 32
	maxAmong   = 16
	maxKey     = 128
	maxDetail  = 253
)

// Result is how a call ended. Its bytes follow as messages of their own.
type Result struct {
	Status  capabilities.Status `json:"status"` // ok or error
	Code    capabilities.Code   `json:"code,omitempty"`
	Message string              `json:"message,omitempty"`
	Text    string              `json:"text,omitempty"`
	Data    json.RawMessage     `json:"data,omitempty"`
	Links   []Link              `json:"links,omitempty"`
	MIME    string              `json:"mime,omitempty"` // of the bytes
	Effect  capabilities.Effect `json:"effect,omitempty"`
	Refused []Refused           `json:"refused,omitempty"`
}

// Reply is one JSON message in answer to a request: exactly one field but Bytes is set. After a
// result with Bytes so many follow, in messages of at most Chunk, as they are.
type Reply struct {
	Progress *Progress           `json:"progress,omitempty"`
	Manifest *tools.ToolManifest `json:"manifest,omitempty"`
	Fates    []Fate              `json:"fates,omitempty"`
	Result   *Result             `json:"result,omitempty"`
	Bytes    int                 `json:"bytes,omitempty"`
	Key      *KeyAnswer          `json:"key,omitempty"`
}

// codes are what a satellite may say went wrong. It has no say about people and policies.
var codes = []capabilities.Code{
	capabilities.CodeExecutionFailed, capabilities.CodeInvalidArguments, capabilities.CodeDeadlineExceeded, capabilities.CodeCancelled,
	capabilities.CodeResultTooLarge, capabilities.CodeNotSupported, capabilities.CodeNodeNotReady,
	capabilities.CodeUnknownOutcome, // of what stands behind it
}

// ReadReply reads a reply of a satellite.
func ReadReply(data []byte) (r Reply, err error) {
	// A result holds third parties' data.
	if err := read(data, canonical.Limits{MaxBytes: MaxPayload, Foreign: true}, &r); err != nil {
		return Reply{}, err
	}
	set := 0
	for _, is := range []bool{r.Progress != nil, r.Manifest != nil, r.Fates != nil, r.Result != nil, r.Key != nil} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return Reply{}, bad("reply", "one of progress, manifest, fates, result and key")
	case r.Bytes < 0 || r.Bytes > MaxBytes || r.Bytes > 0 && r.Result == nil:
		return Reply{}, bad("bytes", "at most 16 MiB, of a result")
	case len(r.Fates) > MaxAsk:
		return Reply{}, bad("fates", "at most 64")
	}
	if r.Progress != nil {
		r.Progress.Message = capabilities.Clip(capabilities.Printable(r.Progress.Message), maxNote)
	}
	for i := range r.Fates {
		f := &r.Fates[i]
		if !slices.Contains([]State{StateNever, StateRunning, StateFinished, StateUnknown}, f.State) ||
			(f.Result != nil) != (f.State == StateFinished) {
			return Reply{}, bad("fates", "state: never, running, unknown, or finished with a result")
		}
		if f.Result != nil {
			if err := f.Result.check(); err != nil {
				return Reply{}, err
			}
		}
	}
	if r.Result != nil {
		if err := r.Result.check(); err != nil {
			return Reply{}, err
		}
	}
	return r, nil
}

func (r *Result) check() error {
	switch {
	case r.Status != capabilities.StatusOK && r.Status != capabilities.StatusError:
		return bad("status", "ok or error")
	case len(r.Links) > 100 || len(r.MIME) > 128 || len(r.Text) > MaxText:
		return bad("result", "at most 100 links, 128 bytes of mime and 512 KiB of text")
	}
	if len(r.Refused) > MaxRefused {
		return bad("refused", "at most 32")
	}
	for i := range r.Refused {
		f := &r.Refused[i]
		tooLong := func(c capabilities.CallID) bool { return len(c) > maxKey }
		if f.Key == "" || len(f.Key) > maxKey || f.Count == 0 || len(f.Among) > maxAmong || slices.ContainsFunc(f.Among, tooLong) {
			return bad("refused", "each with a key of at most 128 bytes, how often, and at most 16 calls")
		}
		f.Detail = capabilities.Clip(capabilities.Printable(f.Detail), maxDetail)
	}
	if r.Status == capabilities.StatusOK {
		r.Code, r.Message = "", ""
		return nil
	}
	if !slices.Contains(codes, r.Code) {
		r.Code = capabilities.CodeExecutionFailed
	}
	r.Message = capabilities.Clip(capabilities.Printable(r.Message), maxMessage)
	return nil
}

// Output is the result in the one shape that every provider's has, without its bytes.
func (r *Result) Output() ([]byte, error) {
	out := map[string]any{}
	if r.Text != "" {
		out[tools.FieldText] = r.Text
	}
	if len(r.Data) > 0 {
		out[tools.FieldData] = r.Data
	}
	if len(r.Links) > 0 {
		out[tools.FieldLinks] = r.Links
	}
	if r.MIME != "" {
		out["mime"] = r.MIME
	}
	return canonical.Marshal(out)
}

// Write returns the message of a request or a reply: CodeResultTooLarge if it is larger than the
// bus carries.
func Write(v any) ([]byte, error) {
	data, err := canonical.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(data) > MaxPayload {
		return nil, capabilities.Errorf(capabilities.CodeResultTooLarge, "a message on the bus has at most %d bytes", MaxPayload)
	}
	return data, nil
}
