package catalog

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Args is what a caller's arguments split into: what the tool gets and what only
// routing needs (S0-32).
type Args struct {
	// Canonical is the business arguments: an RFC 8785 object, valid against Input.
	// Defaults of the schema are not filled in: what is digested is what was asked.
	Canonical []byte
	// NodeID is empty if the caller named none.
	NodeID capabilities.NodeID
	// Purpose is why the caller says that it calls: its claim, for the person who is asked,
	// at most 200 characters. It is no part of Canonical, so policy and digests never see it.
	Purpose string
	// Timeout bounds the dispatch; always positive and at most the descriptor's
	// maximum. It is what the caller asked for, or else the default, stretched to what
	// the call itself says it will take (a recording's duration).
	Timeout time.Duration
	// TimeoutGiven is true if the caller chose Timeout.
	TimeoutGiven bool
}

// Violation is one way in which a value does not fit its schema.
type Violation struct {
	Path    string `json:"path"` // JSON pointer, "" for the whole
	Message string `json:"message"`
}

// maxViolations bounds what a hostile value can make us say.
const maxViolations = 32

// FullInput is what SplitArgs enforces: Input and the routing fields (S0-04),
// with every bound. SplitArgs takes purpose beside them from everybody; asks puts it into
// the schema, for callers whose calls of this tool a person is asked about. The bytes are
// shared; do not change them.
func (d *Descriptor) FullInput(asks bool) json.RawMessage {
	c, err := d.schemas()
	switch {
	case err != nil:
		return json.RawMessage(`{"type":"object","additionalProperties":false}`)
	case asks:
		return c.shown().fullAsking
	}
	return c.shown().full
}

// ModelInput is the part of FullInput that a model needs to write a call, in a
// form every known client accepts: closed, no references, no combinator at the
// root, no bounds of text and lists (see shown). asks is as in FullInput. The bytes are
// shared; do not change them.
func (d *Descriptor) ModelInput(asks bool) json.RawMessage {
	c, err := d.schemas()
	switch {
	case err != nil:
		return json.RawMessage(`{"type":"object","additionalProperties":false}`)
	case asks:
		return c.shown().modelAsking
	}
	return c.shown().model
}

// ModelResult is the result schema as surfaces list it: names and types, without
// the field that stands for captured bytes, which such surfaces carry as bytes.
// It holds for whatever Result holds for, and for {"error": …}. The bytes are
// shared; do not change them.
func (d *Descriptor) ModelResult() json.RawMessage {
	c, err := d.schemas()
	if err != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	return c.shown().modelResult
}

// SplitArgs reads a caller's raw arguments: strictly, against the schema, every
// violation named (at most 32). No arguments at all are an empty object. If
// there are violations or an error, Args is empty; the error is
// CodeInvalidRequest for what is no strict JSON, and never names a value.
func (d *Descriptor) SplitArgs(raw []byte) (Args, []Violation, error) {
	c, err := d.schemas()
	if err != nil {
		return Args{}, nil, capabilities.AsError(err)
	}
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	v, err := canonical.Decode(raw, canonical.Limits{})
	if err != nil {
		return Args{}, nil, err
	}
	input, err := c.input.schema(d)
	if err != nil {
		return Args{}, nil, capabilities.AsError(err)
	}
	if bad := input.violations(v); bad != nil {
		return Args{}, bad, nil
	}
	args := Args{Timeout: d.Limits.Timeout()}
	if d.Limits.DurationArg != "" {
		if own, ok := lookup(v, d.Limits.DurationArg); ok && own.Kind == canonical.Number {
			args.Timeout = max(args.Timeout, milliseconds(own.Num)+milliseconds(float64(d.Limits.SlackMS)))
		}
	}
	business := v
	if len(c.routing) > 0 {
		business.Members = make([]canonical.Member, 0, len(v.Members))
		for _, m := range v.Members {
			switch {
			case !slices.Contains(c.routing, m.Key):
				business.Members = append(business.Members, m)
			case m.Key == nodeField:
				args.NodeID = capabilities.NodeID(m.Value.Str)
			case m.Key == purposeField:
				args.Purpose = m.Value.Str
			default:
				args.Timeout, args.TimeoutGiven = milliseconds(m.Value.Num), true
			}
		}
	}
	args.Timeout = min(args.Timeout, d.Limits.MaxTimeout())
	args.Canonical = business.Append(make([]byte, 0, len(raw)+8))
	return args, nil, nil
}

// milliseconds caps before it multiplies: a caller may say 2⁵³.
func milliseconds(n float64) time.Duration {
	return time.Duration(min(n, maxTimeoutTotal) * float64(time.Millisecond))
}

// ValidateResult checks the JSON object that a handler returned against Result. Nil means
// that it fits.
func (d *Descriptor) ValidateResult(result []byte) []Violation {
	c, err := d.schemas()
	if err != nil {
		return []Violation{{"", err.Error()}}
	}
	limit := d.Limits.MaxResultBytes
	v, err := canonical.Decode(result, canonical.Limits{MaxBytes: limit, MaxValues: limit, Foreign: true})
	if err != nil {
		return []Violation{{"", capabilities.AsError(err).PublicMessage()}}
	}
	schema, err := c.result.schema(d)
	if err != nil {
		return []Violation{{"", err.Error()}}
	}
	return schema.violations(v)
}

// maxEvidenceRunes caps one recorded string.
const maxEvidenceRunes = 256

// EvidenceArgs returns the scalars that the descriptor's allowlist lets out of
// canonical arguments, by the pointer's name ("/position/x" is "position_x"):
// bool, string (at most 256 characters, the rest cut), int64, or float64 for
// fractions. Nothing else of the arguments may be recorded or reach policy.
func (d *Descriptor) EvidenceArgs(args []byte) map[string]any {
	if len(d.Evidence.Args) == 0 {
		return nil
	}
	v, err := canonical.Decode(args, canonical.Limits{})
	if err != nil {
		return nil
	}
	out := make(map[string]any, len(d.Evidence.Args))
	for _, pointer := range d.Evidence.Args {
		found, ok := lookup(v, pointer)
		if !ok {
			continue
		}
		name := evidenceName(pointer)
		switch found.Kind {
		case canonical.Bool:
			out[name] = found.True
		case canonical.String:
			text := found.Str
			if name == "url" || strings.HasSuffix(name, "_url") {
				text = urlEvidence(text)
			}
			out[name] = capabilities.First(text, maxEvidenceRunes)
		case canonical.Number:
			if found.Integer() {
				out[name] = int64(found.Num)
			} else {
				out[name] = found.Num
			}
		}
	}
	return out
}

// urlEvidence is what may be kept of an address: where it leads. A user's name
// and password, the values of the query and the fragment, and the content of
// data: pages are secrets as often as not, and the ledger is for ever (S0-31).
// Addresses are read as loosely as a browser reads them, so that no odd spelling
// keeps a password.
func urlEvidence(s string) string {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok {
		return "…"
	}
	switch strings.ToLower(strings.TrimSpace(scheme)) {
	case "http", "https", "ws", "wss", "ftp":
	case "about":
		return cutAt(s, "?#")
	default:
		return scheme + ":…"
	}
	rest = cutAt(rest, "?#")
	place := strings.TrimLeft(rest, `/\`)
	slashes := rest[:len(rest)-len(place)]
	end := strings.IndexAny(place, `/\`)
	if end < 0 {
		end = len(place)
	}
	if at := strings.LastIndexByte(place[:end], '@'); at >= 0 {
		place = "…" + place[at:]
	}
	kept := scheme + ":" + slashes + place
	if len(scheme)+1+len(rest) < len(s) {
		kept += s[len(scheme)+1+len(rest):][:1] + "…"
	}
	return kept
}

// cutAt returns s up to the first of the given characters.
func cutAt(s, chars string) string {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i]
	}
	return s
}

func evidenceName(pointer string) string {
	return strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "/", "_")
}

// lookup follows a pointer of object keys; our data has no escapes or indexes.
func lookup(v canonical.Value, pointer string) (canonical.Value, bool) {
	for key := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		var ok bool
		if v, ok = v.Get(key); !ok {
			return canonical.Value{}, false
		}
	}
	return v, true
}
