package chain

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
)

// Sig is an Ed25519 signature; its text form is lower-case hex.
type Sig [ed25519.SignatureSize]byte

// MarshalText returns lower-case hex.
func (s Sig) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// UnmarshalText reads 128 hex digits.
func (s *Sig) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(s)) {
		return fmt.Errorf("a signature has %d hex digits, not %d", hex.EncodedLen(len(s)), len(text))
	}
	_, err := hex.Decode(s[:], text)
	return err
}

// Key is an Ed25519 public key; its text form is lower-case hex.
type Key [ed25519.PublicKeySize]byte

// PublicKey returns the Key of a private key.
func PublicKey(priv ed25519.PrivateKey) Key { return Key(priv.Public().(ed25519.PublicKey)) }

// String returns lower-case hex.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// MarshalText returns lower-case hex.
func (k Key) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, k[:]), nil }

// UnmarshalText reads 64 hex digits.
func (k *Key) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(k)) {
		return fmt.Errorf("a key has %d hex digits, not %d", hex.EncodedLen(len(k)), len(text))
	}
	_, err := hex.Decode(k[:], text)
	return err
}

// Verify reports whether s is k's signature of text.
func (k Key) Verify(text []byte, s Sig) bool { return ed25519.Verify(k[:], text, s[:]) }

// ErrSignature says that a signature does not fit.
var ErrSignature = errors.New("chain: the signature does not fit")

// Head is the end of a chain at one moment. Seq 0 is the empty chain, whose Hash
// is its Genesis.
type Head struct {
	Chain string `json:"chain"`
	Seq   uint64 `json:"seq"`
	Hash  Hash   `json:"hash"`
	Time  int64  `json:"time_ms"` // of signing, ms since 1970
	Key   Key    `json:"key"`
	Sig   Sig    `json:"sig"`
}

func (h *Head) text() []byte {
	b := AppendField(make([]byte, 0, 256), domainHead)
	b = AppendField(b, h.Chain)
	b = appendUint(b, h.Seq)
	b = AppendField(b, h.Hash[:])
	b = appendUint(b, uint64(h.Time))
	return AppendField(b, h.Key[:])
}

// SignHead sets Key and Sig.
func SignHead(priv ed25519.PrivateKey, h Head) Head {
	h.Key = PublicKey(priv)
	h.Sig = Sig(ed25519.Sign(priv, h.text()))
	return h
}

// Verify checks the signature against h.Key. Whose key that is, the caller must
// know.
func (h Head) Verify() error {
	if !h.Key.Verify(h.text(), h.Sig) {
		return ErrSignature
	}
	return nil
}

// Encode returns the signed text followed by the signature as one more field: the
// form in which heads travel between gateway and node.
func (h Head) Encode() []byte { return AppendField(h.text(), h.Sig[:]) }

// MaxHead bounds an encoded head.
const MaxHead = 512

// DecodeHead reads what Encode wrote and checks the signature.
func DecodeHead(b []byte) (Head, error) {
	if len(b) > MaxHead {
		return Head{}, fmt.Errorf("chain: head of %d bytes", len(b))
	}
	var h Head
	r := reader{b: b}
	r.expect(domainHead)
	h.Chain = string(r.field())
	h.Seq = r.uint()
	r.hash(&h.Hash)
	h.Time = int64(r.uint())
	copy(h.Key[:], r.fixed(len(h.Key)))
	copy(h.Sig[:], r.fixed(len(h.Sig)))
	if err := r.end(); err != nil {
		return Head{}, err
	}
	if err := h.Verify(); err != nil {
		return Head{}, err
	}
	return h, nil
}

// Follows reports what is wrong if next cannot be a later head of the chain
// that had head h: a chain only grows.
func (h Head) Follows(next Head) error {
	switch {
	case next.Chain != h.Chain:
		return fmt.Errorf("head of chain %q, not %q", next.Chain, h.Chain)
	case next.Seq < h.Seq:
		return fmt.Errorf("chain %q went back from entry %d to %d", h.Chain, h.Seq, next.Seq)
	case next.Seq == h.Seq && next.Hash != h.Hash:
		return fmt.Errorf("chain %q has another entry %d than before", h.Chain, h.Seq)
	}
	return nil
}

// Witness is one side's countersignature under the other side's head: "I hold
// this head, and my own chain stood at At". It makes a truncation of either
// chain visible in the other.
type Witness struct {
	Head Head   `json:"head"`
	By   string `json:"by"` // the witness's chain
	At   uint64 `json:"at_seq"`
	Time int64  `json:"time_ms"`
	Key  Key    `json:"key"`
	Sig  Sig    `json:"sig"`
}

func (w *Witness) text() []byte {
	b := AppendField(make([]byte, 0, 512), domainWitness)
	b = AppendField(b, w.Head.Encode())
	b = AppendField(b, w.By)
	b = appendUint(b, w.At)
	b = appendUint(b, uint64(w.Time))
	return AppendField(b, w.Key[:])
}

// SignWitness sets Key and Sig.
func SignWitness(priv ed25519.PrivateKey, w Witness) Witness {
	w.Key = PublicKey(priv)
	w.Sig = Sig(ed25519.Sign(priv, w.text()))
	return w
}

// Verify checks both signatures against the keys they name.
func (w Witness) Verify() error {
	if !w.Key.Verify(w.text(), w.Sig) {
		return ErrSignature
	}
	return w.Head.Verify()
}

// Segment sums up the entries First … Last: what is left of them as proof when
// they are pruned.
type Segment struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Prev  Hash   `json:"prev"` // what First builds on
	Hash  Hash   `json:"hash"` // of Last
	Since int64  `json:"since_us"`
	Until int64  `json:"until_us"`
	Key   Key    `json:"key"`
	Sig   Sig    `json:"sig"`
}

func (s *Segment) text(chain string) []byte {
	b := AppendField(make([]byte, 0, 320), domainSegment)
	b = AppendField(b, chain)
	b = appendUint(b, s.First)
	b = appendUint(b, s.Last)
	b = AppendField(b, s.Prev[:])
	b = AppendField(b, s.Hash[:])
	b = appendUint(b, uint64(s.Since))
	b = appendUint(b, uint64(s.Until))
	return AppendField(b, s.Key[:])
}

// SignSegment sets Key and Sig.
func SignSegment(priv ed25519.PrivateKey, chain string, s Segment) Segment {
	s.Key = PublicKey(priv)
	s.Sig = Sig(ed25519.Sign(priv, s.text(chain)))
	return s
}

// Verify checks the signature against s.Key.
func (s Segment) Verify(chain string) error {
	if s.Last < s.First || !s.Key.Verify(s.text(chain), s.Sig) {
		return ErrSignature
	}
	return nil
}

// Skip lets w pass over a pruned segment.
func (w *Walker) Skip(s Segment) error {
	if err := w.Step(s.First, s.Prev, s.Since, s.Hash); err != nil {
		return err
	}
	if s.Last < s.First || s.Until < s.Since {
		return fmt.Errorf("segment %d to %d runs backwards", s.First, s.Last)
	}
	w.Next, w.Time = s.Last+1, s.Until
	return nil
}
