package remote

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Times of the heartbeat. A satellite is ready after one; a container that runs is none (S3-11).
const (
	Period = 5 * time.Second
	Stale  = 15 * time.Second // after the last one: no call goes there
	Gone   = 30 * time.Second // after the last one: calls under way are lost
	// Skew is how far a heartbeat's own time may be from the gateway's: an older one is a replay.
	Skew = time.Minute
)

// Version is the contract that this package speaks.
const Version = 1

// MaxHeartbeat is the most bytes of a heartbeat.
const MaxHeartbeat = 4 << 10

// Heartbeat says that a satellite is there and whether what stands behind it answers.
type Heartbeat struct {
	Contract  int      `json:"contract_version"`
	Satellite string   `json:"satellite_id"`
	Service   string   `json:"service"`
	Host      string   `json:"host"`
	Subjects  []string `json:"subjects"`          // where it hears requests
	Manifest  string   `json:"manifest_set_hash"` // of all that it says of its tools
	Ready     bool     `json:"ready"`             // the backing service answers
	Reason    string   `json:"reason,omitempty"`  // why not, for people
	Active    int      `json:"active"`            // calls that run
	Load      float64  `json:"load"`              // 0: idle; 1: as much as it can take
	Connected bool     `json:"connected"`
	UptimeS   int64    `json:"uptime_s"`
	TS        string   `json:"ts"`  // RFC 3339
	Seq       uint64   `json:"seq"` // grows with every heartbeat, over restarts, too
	// Sig is over the canonical JSON (RFC 8785) of all other fields, base64url without padding:
	// the signature of the satellite's key (64 bytes), or the MAC of a Key (32 bytes) that was
	// agreed on with such a signature.
	Sig string `json:"sig,omitempty"`
}

const maxSeq = 1 << 53

var (
	hashForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	idForm   = regexp.MustCompile(`^[a-z0-9]{4,32}$`)
	nameForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
)

// Signed returns the bytes that the signature is over.
func (h Heartbeat) Signed() ([]byte, error) {
	h.Sig = ""
	return canonical.Marshal(h)
}

// Sign returns the message of a heartbeat.
func (h Heartbeat) Sign(sign func([]byte) ([]byte, error)) ([]byte, error) {
	body, err := h.Signed()
	if err != nil {
		return nil, err
	}
	sig, err := sign(body)
	if err != nil {
		return nil, err
	}
	h.Sig = base64.RawURLEncoding.EncodeToString(sig)
	return canonical.Marshal(h)
}

// ReadHeartbeat reads a message; whose it is and whether sig is theirs is the caller's to see.
// signed is what sig is over. CodeInvalidRequest names the field.
func ReadHeartbeat(data []byte) (h Heartbeat, signed, sig []byte, err error) {
	v, err := canonical.Decode(data, canonical.Limits{MaxBytes: MaxHeartbeat})
	if err != nil {
		return Heartbeat{}, nil, nil, err
	}
	if v.Kind != canonical.Object {
		return Heartbeat{}, nil, nil, bad("heartbeat", "an object")
	}
	rest := make([]canonical.Member, 0, len(v.Members))
	for _, m := range v.Members {
		if err := h.set(m.Key, m.Value); err != nil {
			return Heartbeat{}, nil, nil, err
		}
		if m.Key != "sig" {
			rest = append(rest, m)
		}
	}
	if err := h.check(); err != nil {
		return Heartbeat{}, nil, nil, err
	}
	if sig, err = base64.RawURLEncoding.DecodeString(h.Sig); err != nil {
		return Heartbeat{}, nil, nil, bad("sig", "base64url without padding")
	}
	v.Members = rest
	return h, v.Append(make([]byte, 0, len(data))), sig, nil
}

// set takes one field over. There is a heartbeat of each satellite every Period, so they are read
// by hand: it costs half of what encoding/json takes.
func (h *Heartbeat) set(field string, v canonical.Value) error {
	var text *string
	var yes *bool
	whole := func(most int64, into func(int64)) error {
		if !v.Integer() || v.Num < 0 || v.Num > float64(most) {
			return bad(field, "a whole number, no less than 0")
		}
		into(int64(v.Num))
		return nil
	}
	switch field {
	case "contract_version":
		return whole(maxSeq, func(n int64) { h.Contract = int(n) })
	case "active":
		return whole(1<<20, func(n int64) { h.Active = int(n) })
	case "uptime_s":
		return whole(1<<40, func(n int64) { h.UptimeS = n })
	case "seq":
		return whole(maxSeq, func(n int64) { h.Seq = uint64(n) })
	case "load":
		if v.Kind != canonical.Number {
			return bad(field, "a number")
		}
		h.Load = v.Num
		return nil
	case "subjects":
		if v.Kind == canonical.Null { // how some languages write an empty list
			return nil
		}
		if v.Kind != canonical.Array || len(v.Items) > maxSubjects {
			return bad(field, "at most 8 of 128 bytes")
		}
		h.Subjects = make([]string, len(v.Items))
		for i, one := range v.Items {
			if one.Kind != canonical.String {
				return bad(field, "each is a text")
			}
			h.Subjects[i] = one.Str
		}
		return nil
	case "satellite_id":
		text = &h.Satellite
	case "service":
		text = &h.Service
	case "host":
		text = &h.Host
	case "manifest_set_hash":
		text = &h.Manifest
	case "reason":
		text = &h.Reason
	case "ts":
		text = &h.TS
	case "sig":
		text = &h.Sig
	case "ready":
		yes = &h.Ready
	case "connected":
		yes = &h.Connected
	default:
		return bad(capabilities.Clip(capabilities.Printable(field), 64), "no heartbeat has it")
	}
	switch {
	case text != nil && v.Kind == canonical.String:
		*text = v.Str
	case yes != nil && v.Kind == canonical.Bool:
		*yes = v.True
	default:
		return bad(field, "has another type")
	}
	return nil
}

const maxSubjects = 8

func (h *Heartbeat) check() error {
	switch {
	case h.Contract != Version:
		return bad("contract_version", "is 1")
	case !idForm.MatchString(h.Satellite):
		return bad("satellite_id", "the ID that the gateway gave")
	case !nameForm.MatchString(h.Service):
		return bad("service", "a letter, then at most 31 of a-z, 0-9 and -")
	case len(h.Host) > 255 || len(h.Reason) > 300:
		return bad("host", "at most 255 bytes, and a reason of at most 300")
	case len(h.Subjects) > maxSubjects || slices.ContainsFunc(h.Subjects, func(s string) bool { return len(s) > 128 }):
		return bad("subjects", "at most 8 of 128 bytes")
	case !hashForm.MatchString(h.Manifest):
		return bad("manifest_set_hash", `"sha256:" and 64 hex digits`)
	case h.Load < 0 || h.Load > 1<<20:
		return bad("load", "no less than 0")
	case h.Seq == 0 || h.Seq > maxSeq:
		return bad("seq", "1 to 2^53")
	case h.Time().IsZero():
		return bad("ts", "a time of RFC 3339")
	}
	return nil
}

// Time is when the satellite says that it sent the heartbeat; zero for none.
func (h *Heartbeat) Time() time.Time {
	t, err := time.Parse(time.RFC3339Nano, h.TS)
	if err != nil || len(h.TS) > 40 {
		return time.Time{}
	}
	return t
}

// read decodes one strict JSON object; a field that v does not have is refused, because it might
// say something about security that nobody here would heed.
func read(data []byte, l canonical.Limits, v any) error {
	plain, err := canonical.Parse(data, l)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(plain))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return capabilities.Wrap(capabilities.CodeInvalidRequest, err,
			"The message cannot be read: "+capabilities.Clip(capabilities.Printable(err.Error()), 200))
	}
	return nil
}

func bad(field, why string) error {
	return capabilities.Errorf(capabilities.CodeInvalidRequest, "%s: %s", field, why)
}
