package chain

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Hash is a SHA-256 digest; its text form is lower-case hex.
type Hash [32]byte

// String returns lower-case hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText returns lower-case hex.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads 64 hex digits.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("a digest has %d hex digits, not %d", hex.EncodedLen(len(h)), len(text))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Sum hashes a preimage made with AppendEntry and AppendField, or any other
// bytes.
func Sum(preimage []byte) Hash { return sha256.Sum256(preimage) }

// Domains: the first field of everything hashed or signed here.
const (
	domainGenesis = "handrail/genesis/1"
	domainEntry   = "handrail/entry/1"
	domainHead    = "handrail/head/1"
	domainWitness = "handrail/witness/1"
	domainSegment = "handrail/segment/1"
)

// MaxField bounds one field of a decoded entry.
const MaxField = 64 << 10

// Genesis is the Prev of a chain's first entry. It binds the chain's name (the
// gateway's or the node's ID), so that entries cannot move between chains.
func Genesis(chain string) Hash {
	return Sum(AppendField(AppendField(nil, domainGenesis), chain))
}

// AppendEntry begins the preimage of an entry; the caller appends the entry's
// own fields with AppendField and hashes with Sum. Every field is
//
//	uint32 BE length | bytes
//
// and the fields are
//
//	domain | seq uint64 BE | prev 32 bytes | time int64 BE, µs since 1970 | kind | own fields …
//
// It allocates nothing if dst has room.
func AppendEntry(dst []byte, seq uint64, prev Hash, unixMicro int64, kind string) []byte {
	dst = AppendField(dst, domainEntry)
	dst = appendUint(dst, seq)
	dst = AppendField(dst, prev[:])
	dst = appendUint(dst, uint64(unixMicro))
	return AppendField(dst, kind)
}

// AppendField appends one length-prefixed field.
func AppendField[T ~string | ~[]byte](dst []byte, field T) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(field)))
	return append(dst, field...)
}

func appendUint(dst []byte, v uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(dst, 8), v)
}

// Entry is a decoded preimage. Its slices point into the decoded bytes.
type Entry struct {
	Seq    uint64
	Prev   Hash
	Time   int64 // µs since 1970
	Kind   string
	Fields [][]byte
}

// DecodeEntry reads what AppendEntry and AppendField wrote: the whole of b,
// with at most maxFields own fields.
func DecodeEntry(b []byte, maxFields int) (Entry, error) {
	var e Entry
	r := reader{b: b}
	r.expect(domainEntry)
	e.Seq = r.uint()
	r.hash(&e.Prev)
	e.Time = int64(r.uint())
	e.Kind = string(r.field())
	for len(r.b) > 0 && r.err == nil {
		if len(e.Fields) == maxFields {
			r.fail("more than %d fields", maxFields)
			break
		}
		e.Fields = append(e.Fields, r.field())
	}
	if r.err != nil {
		return Entry{}, r.err
	}
	return e, nil
}

// reader takes length-prefixed fields from the front; after the first error it returns zero values.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("chain: "+format, args...)
	}
}

func (r *reader) field() []byte {
	if r.err != nil {
		return nil
	}
	if len(r.b) < 4 {
		r.fail("cut short in a length")
		return nil
	}
	n := binary.BigEndian.Uint32(r.b)
	if n > MaxField {
		r.fail("field of %d bytes", n)
		return nil
	}
	if len(r.b)-4 < int(n) {
		r.fail("cut short in a field")
		return nil
	}
	f := r.b[4 : 4+n : 4+n]
	r.b = r.b[4+n:]
	return f
}

func (r *reader) fixed(n int) []byte {
	f := r.field()
	if r.err == nil && len(f) != n {
		r.fail("field of %d bytes, want %d", len(f), n)
	}
	if r.err != nil {
		return make([]byte, n)
	}
	return f
}

func (r *reader) uint() uint64 { return binary.BigEndian.Uint64(r.fixed(8)) }
func (r *reader) hash(h *Hash) { copy(h[:], r.fixed(len(h))) }
func (r *reader) expect(domain string) {
	if f := r.field(); r.err == nil && string(f) != domain {
		r.fail("not %q", domain)
	}
}
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes too many", len(r.b))
	}
	return r.err
}

// Walker checks that entries follow one another.
type Walker struct {
	Next uint64 // the sequence number expected next
	Prev Hash   // the hash it has to build on
	Time int64  // of the last entry; time never runs backwards in a chain
}

// NewWalker starts before the first entry of a chain.
func NewWalker(chain string) Walker { return Walker{Next: 1, Prev: Genesis(chain)} }

// Step takes the next entry: its place, the hash it claims to build on, its time
// and its own hash as recomputed by the caller.
func (w *Walker) Step(seq uint64, prev Hash, unixMicro int64, hash Hash) error {
	switch {
	case seq > w.Next:
		return fmt.Errorf("entries %d to %d are missing", w.Next, seq-1)
	case seq < w.Next:
		return fmt.Errorf("entry %d stands where %d should", seq, w.Next)
	case prev != w.Prev:
		return fmt.Errorf("entry %d does not build on the one before it", seq)
	case unixMicro < w.Time:
		return fmt.Errorf("entry %d is older than the one before it", seq)
	}
	w.Next, w.Prev, w.Time = seq+1, hash, unixMicro
	return nil
}
