package remote

import (
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Key is what a satellite's heartbeats carry MACs by, so that each of them need not be signed. The
// gateway and the satellite have it and the bus between them has not:
//
//	gateway    {"op":"key","key":G}                 G: an X25519 public key of this question
//	satellite  {"key":{"key":S,"sig":"…"}}          S: one of this answer; sig: by its own key
//
//	Key = HKDF-SHA256(secret X25519(G, S), no salt, info what sig is over, 32 bytes)
//
// sig is over the canonical JSON of Statement. An attacker who puts another G in the gateway's
// place shares a key with the satellite that the gateway does not have: nothing by it counts.
type Key [32]byte

const hidden = "(hidden)"

// Format prints no key.
func (Key) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(hidden)) }

// MarshalText writes no key, in JSON and in a log either.
func (Key) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MACSize is the length of a MAC; that of a signature is another.
const MACSize = sha256.Size

// MAC is HMAC-SHA256 over data; in the form that Heartbeat.Sign takes, and without an error.
func (k *Key) MAC(data []byte) ([]byte, error) {
	m := hmac.New(sha256.New, k[:])
	m.Write(data)
	return m.Sum(nil), nil
}

// Made reports whether a MAC is that of data.
func (k *Key) Made(data, mac []byte) bool {
	want, _ := k.MAC(data)
	return hmac.Equal(want, mac)
}

// KeyAnswer is the satellite's half, signed by its own key.
type KeyAnswer struct {
	Key string `json:"key"`
	Sig string `json:"sig"`
}

// Statement is what the signature of a KeyAnswer is over.
type Statement struct {
	Contract  int    `json:"contract_version"`
	Purpose   string `json:"purpose"` // "heartbeat-key"
	Satellite string `json:"satellite_id"`
	Gateway   string `json:"gateway_key"`
	Key       string `json:"key"`
}

// Agreement is the gateway's side of one key.
type Agreement struct {
	satellite string
	own       *ecdh.PrivateKey
}

// NewAgreement begins one with a satellite.
func NewAgreement(satellite string) (*Agreement, error) {
	own, err := ecdh.X25519().GenerateKey(rand.Reader)
	return &Agreement{satellite, own}, err
}

// Request returns what to ask the satellite.
func (a *Agreement) Request() Request {
	return Request{Op: OpKey, Key: writeHalf(a.own)}
}

// Take returns the key that an answer leads to. verify checks a signature of the satellite.
func (a *Agreement) Take(answer KeyAnswer, verify func(data, sig []byte) error) (*Key, error) {
	theirs, err := readHalf(answer.Key)
	if err != nil {
		return nil, err
	}
	sig, err := base64.RawURLEncoding.DecodeString(answer.Sig)
	if err != nil {
		return nil, bad("sig", "base64url without padding")
	}
	over, err := stated(a.satellite, writeHalf(a.own), answer.Key)
	if err != nil {
		return nil, err
	}
	if err := verify(over, sig); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeUnauthenticated, err, "")
	}
	return derive(a.own, theirs, over)
}

// AnswerKey is the satellite's side: its answer to the gateway's half, and the key. sign signs by
// its own key.
func AnswerKey(satellite, gateway string, sign func([]byte) ([]byte, error)) (KeyAnswer, *Key, error) {
	theirs, err := readHalf(gateway)
	if err != nil {
		return KeyAnswer{}, nil, err
	}
	own, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return KeyAnswer{}, nil, err
	}
	answer := KeyAnswer{Key: writeHalf(own)}
	over, err := stated(satellite, gateway, answer.Key)
	if err != nil {
		return KeyAnswer{}, nil, err
	}
	sig, err := sign(over)
	if err != nil {
		return KeyAnswer{}, nil, err
	}
	answer.Sig = base64.RawURLEncoding.EncodeToString(sig)
	key, err := derive(own, theirs, over)
	return answer, key, err
}

func stated(satellite, gateway, key string) ([]byte, error) {
	return canonical.Marshal(Statement{Contract: Version, Purpose: "heartbeat-key", Satellite: satellite, Gateway: gateway, Key: key})
}

func derive(own *ecdh.PrivateKey, theirs *ecdh.PublicKey, over []byte) (*Key, error) {
	secret, err := own.ECDH(theirs)
	if err != nil { // a point that leads to the same secret with everybody
		return nil, bad("key", "an X25519 public key")
	}
	raw, err := hkdf.Key(sha256.New, secret, nil, string(over), len(Key{}))
	if err != nil {
		return nil, err
	}
	key := Key(raw)
	return &key, nil
}

func writeHalf(own *ecdh.PrivateKey) string {
	return base64.RawURLEncoding.EncodeToString(own.PublicKey().Bytes())
}

// readHalf reads a public key, which has one form only.
func readHalf(text string) (*ecdh.PublicKey, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != 32 || len(text) != 43 {
		return nil, bad("key", "the 32 bytes of an X25519 public key, base64url without padding")
	}
	return ecdh.X25519().NewPublicKey(raw)
}
