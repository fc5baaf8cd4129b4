package governance

import (
	"bytes"
	"strconv"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// The bodies of calls are most of a ledger, and a fold wants a tenth of what is in them. The
// ledger keeps them as canonical JSON, so the members that count are looked for, and put into
// the bodies of gateway/ledger/packet; all else of these stays zero. Anything else than expected,
// such as an escape in a word, is left to encoding/json.

// words are the texts that packets repeat, each kept once.
type words map[string]string

// maxWords bounds them: more are kept anew.
const maxWords = 10_000

func (w words) word(b []byte) string {
	if s, ok := w[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(w) < maxWords {
		w[s] = s
	}
	return s
}

// body is what is left to read of a body; ok ends with the first thing that is not as expected.
type body struct {
	words words
	b     []byte
	ok    bool
}

// next reports whether c comes next, and reads it.
func (r *body) next(c byte) bool {
	if len(r.b) > 0 && r.b[0] == c {
		r.b = r.b[1:]
		return true
	}
	return false
}

// must reads c.
func (r *body) must(c byte) {
	if !r.next(c) {
		r.ok = false
	}
}

// null reports whether a null comes next, and reads it: the value is then the zero one.
func (r *body) null() bool {
	if bytes.HasPrefix(r.b, []byte("null")) {
		r.b = r.b[4:]
		return true
	}
	return false
}

// raw reads a text that has no escape, and leaves it where it is.
func (r *body) raw() []byte {
	if !r.next('"') {
		r.ok = false
		return nil
	}
	end := bytes.IndexByte(r.b, '"')
	if end < 0 || bytes.IndexByte(r.b[:end], '\\') >= 0 {
		r.ok = false
		return nil
	}
	text := r.b[:end]
	r.b = r.b[end+1:]
	return text
}

// text reads a text or null.
func (r *body) text() string {
	if r.null() {
		return ""
	}
	return r.words.word(r.raw())
}

// texts reads a list of texts or null.
func (r *body) texts() (list []string) {
	r.list(func() { list = append(list, r.words.word(r.raw())) })
	return list
}

// list has each read the values of a list, or reads null.
func (r *body) list(each func()) {
	if r.null() {
		return
	}
	r.must('[')
	for first := true; r.ok && !r.next(']'); first = false {
		if !first {
			r.must(',')
		}
		if r.ok {
			each()
		}
	}
}

// members has each read the values of an object by their names, or reads null: there is none.
func (r *body) members(each func(name []byte)) (is bool) {
	if r.null() {
		return false
	}
	r.must('{')
	for first := true; r.ok && !r.next('}'); first = false {
		if !first {
			r.must(',')
		}
		name := r.raw()
		r.must(':')
		if r.ok {
			each(name)
		}
	}
	return true
}

// skip reads a value, whatever it is.
func (r *body) skip() {
	depth := 0
	for i := 0; i < len(r.b); i++ {
		switch r.b[i] {
		case '"':
			for i++; ; i++ {
				end := bytes.IndexByte(r.b[i:], '"')
				if end < 0 {
					r.ok = false
					return
				}
				escaped := false // by an odd number of backslashes
				for at := i + end - 1; at >= i && r.b[at] == '\\'; at-- {
					escaped = !escaped
				}
				if i += end; !escaped {
					break
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // of what the value stands in
				r.b = r.b[i:]
				return
			}
			depth--
		case ',':
			if depth == 0 {
				r.b = r.b[i:]
				return
			}
		}
	}
	r.ok = false
}

func (w words) body(b []byte) *body { return &body{words: w, b: b, ok: true} }

// whole reports whether all was read as expected.
func (r *body) whole() bool { return r.ok && len(r.b) == 0 }

// decision reads what counts of a decision, and of its envelope.
func (w words) decision(b []byte) (d packet.Decision, e *policy.Summary, ok bool) {
	r := w.body(b)
	is := r.members(func(name []byte) {
		switch string(name) {
		case "effect":
			if r.null() || d.Effect.UnmarshalText(r.raw()) != nil {
				r.ok = false
			}
		case "code":
			d.Code = capabilities.Code(r.text())
		case "policies":
			d.Policies = r.texts()
		case "policy_snapshot_id":
			d.Snapshot = r.text()
		case "grant":
			d.Grant = string(r.raw()) // each is another
		case "isolation_degraded":
			d.Degraded = r.text()
		case "reason":
			if !r.null() && string(r.raw()) == reasonPolicy {
				d.Reason = reasonPolicy
			}
		case "withheld_keys":
			d.Withheld = r.texts()
		case "envelope":
			e = r.envelope()
		default:
			r.skip()
		}
	})
	return d, e, is && r.whole()
}

func (r *body) envelope() *policy.Summary {
	e := &policy.Summary{}
	is := r.members(func(name []byte) {
		switch string(name) {
		case "capabilities":
			e.Capabilities = r.capabilities()
		case "capability_profile_id":
			e.Profile = r.text()
		case "isolation_class":
			e.Isolation = capabilities.IsolationClass(r.text())
		case "effective_grants":
			e.Grants = r.texts()
		default:
			r.skip()
		}
	})
	if !is {
		return nil
	}
	return e
}

func (r *body) capabilities() (by policy.ByCategory) {
	r.members(func(name []byte) {
		switch string(name) {
		case "data":
			by.Data = r.texts()
		case "execution":
			by.Execution = r.texts()
		case "network":
			by.Network = r.texts()
		case "privileged":
			by.Privileged = r.texts()
		case "ui":
			by.UI = r.texts()
		default:
			r.skip()
		}
	})
	return by
}

func (w words) dispatch(b []byte) (d packet.Dispatch, ok bool) {
	r := w.body(b)
	is := r.members(func(name []byte) {
		switch string(name) {
		case "grants":
			d.Grants = r.texts()
		case "isolation_class":
			d.Isolation = capabilities.IsolationClass(r.text())
		case "isolation_given":
			d.Given = capabilities.IsolationClass(r.text())
		default:
			r.skip()
		}
	})
	return d, is && r.whole()
}

func (w words) end(b []byte) (e packet.End, ok bool) {
	r := w.body(b)
	is := r.members(func(name []byte) {
		switch string(name) {
		case "code":
			e.Code = capabilities.Code(r.text())
		case "masked":
			e.Masked = r.number()
		case "artifacts":
			r.list(func() {
				var a packet.Artifact
				r.members(func(name []byte) {
					switch string(name) {
					case "code":
						a.Code = capabilities.Code(r.text())
					case "retention":
						a.Retention = r.text()
					default:
						r.skip()
					}
				})
				e.Artifacts = append(e.Artifacts, a)
			})
		case "observed":
			r.list(func() {
				var o packet.Observed
				r.members(func(name []byte) {
					switch string(name) {
					case "key":
						o.Key = r.text()
					case "of_call":
						o.Of = string(r.raw()) // each is another
					default:
						r.skip()
					}
				})
				e.Observed = append(e.Observed, o)
			})
		default:
			r.skip()
		}
	})
	return e, is && r.whole()
}

// number reads a whole number or null.
func (r *body) number() *int64 {
	if r.null() {
		return nil
	}
	end := bytes.IndexAny(r.b, ",}")
	if end < 0 {
		r.ok = false
		return nil
	}
	n, err := strconv.ParseInt(string(r.b[:end]), 10, 64)
	if err != nil {
		r.ok = false
		return nil
	}
	r.b = r.b[end:]
	return &n
}
