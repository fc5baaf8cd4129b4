package passkey

// What verified answers before go-webauthn did, as the reference that fuzzing compares
// with. It goes once that was done.

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math/big"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// What is verified is WebAuthn level 3, sections 7.1 and 7.2, for what is asked here:
// discoverable keys of three kinds, the user verified, no attestation, no extension,
// one origin, no frames. Whoever made the authenticator is not looked at.

// Flags of authenticator data (section 6.1).
const (
	flagPresent  = 1 << 0
	flagVerified = 1 << 2
	flagBackup   = 1 << 3 // the key may be copied to other devices
	flagCopied   = 1 << 4 // it was
	flagAttested = 1 << 6
	flagExtended = 1 << 7

	maxCredential = 1023 // bytes of an ID (section 4)
)

// response is what a browser's page sends of navigator.credentials; all bytes are
// base64url without padding.
type response struct {
	ID       string `json:"id"`
	RawID    string `json:"rawId"`
	Type     string `json:"type"`
	Response struct {
		ClientData    string `json:"clientDataJSON"`
		Attestation   string `json:"attestationObject"`
		Authenticator string `json:"authenticatorData"`
		Signature     string `json:"signature"`
		User          string `json:"userHandle"`
	} `json:"response"`
}

func readResponse(answer []byte) (r response, id []byte, err error) {
	if len(answer) > MaxAnswer {
		return r, nil, refused("it is too long")
	}
	clean, err := canonical.Parse(answer, canonical.Limits{MaxBytes: MaxAnswer})
	if err != nil || json.Unmarshal(clean, &r) != nil {
		return r, nil, refused("it cannot be read")
	}
	id, ok := unbase(r.RawID)
	if !ok || r.ID != r.RawID || r.Type != "public-key" || len(id) == 0 || len(id) > maxCredential {
		return r, nil, refused("it names no passkey")
	}
	return r, id, nil
}

func unbase(s string) ([]byte, bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return b, err == nil && !strings.ContainsAny(s, "\r\n")
}

// readClient checks what the browser says about where and for what it asked, and gives
// the challenge.
func readClient(data []byte, kind string, at Place) (challenge string, err error) {
	var c struct {
		Type      string `json:"type"`
		Challenge string `json:"challenge"`
		Origin    string `json:"origin"`
		Cross     bool   `json:"crossOrigin"`
		Top       string `json:"topOrigin"`
	}
	clean, err := canonical.Parse(data, canonical.Limits{MaxBytes: MaxAnswer})
	if err != nil || json.Unmarshal(clean, &c) != nil {
		return "", refused("it cannot be read")
	}
	if c.Type != kind || c.Origin != at.origin || c.Cross || c.Top != "" {
		return "", refused("it is for another page")
	}
	return c.Challenge, nil
}

// authenticator is authenticator data (section 6.1):
//
//	+-------------+-------+-------+----------------------------------------------+
//	| place's 32  | flags | count | if attested: aaguid 16, len u16, id, COSE key |
//	| SHA-256     | u8    | u32   | if extended: CBOR                             |
//	+-------------+-------+-------+----------------------------------------------+
type authenticator struct {
	flags byte
	count uint32
	id    []byte // of a new key
	key   []byte // COSE
}

// readAuthenticator checks that the authenticator answered for this place with the
// person verified.
func readAuthenticator(b []byte, at Place) (a authenticator, err error) {
	const head = sha256.Size + 1 + 4
	place := sha256.Sum256([]byte(at.name))
	if len(b) < head {
		return a, refused("it is not complete")
	}
	if !bytes.Equal(b[:sha256.Size], place[:]) {
		return a, refused("it is for another place")
	}
	a.flags, a.count = b[sha256.Size], binary.BigEndian.Uint32(b[sha256.Size+1:])
	if a.flags&flagPresent == 0 || a.flags&flagVerified == 0 {
		return a, refused("the authenticator did not verify the person")
	}
	if a.flags&flagCopied != 0 && a.flags&flagBackup == 0 {
		return a, refused("it contradicts itself")
	}
	b = b[head:]
	if a.flags&flagAttested != 0 {
		if len(b) < 18 {
			return a, refused("it is not complete")
		}
		n := int(binary.BigEndian.Uint16(b[16:]))
		if b = b[18:]; n == 0 || n > maxCredential || len(b) < n {
			return a, refused("it is not complete")
		}
		a.id, b = b[:n], b[n:]
		rest, err := first(b)
		if err != nil {
			return a, refused("its key cannot be read")
		}
		a.key, b = b[:len(b)-len(rest)], rest
	}
	if a.flags&flagExtended != 0 {
		if b, err = first(b); err != nil {
			return a, refused("it cannot be read")
		}
	}
	if len(b) != 0 {
		return a, refused("it has more than it should")
	}
	return a, nil
}

// first gives what stands behind the first item of CBOR.
func first(b []byte) (rest []byte, err error) {
	var item cbor.RawMessage
	mode, err := decoding()
	if err != nil {
		return nil, err
	}
	return mode.UnmarshalFirst(b, &item)
}

// decoding bounds what CBOR may make us do.
func decoding() (cbor.DecMode, error) {
	return cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxNestedLevels: 8, MaxArrayElements: 64, MaxMapPairs: 64,
		IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
	}.DecMode()
}

// readCreation verifies what navigator.credentials.create gave and tells to which
// challenge; whether that is ours is for the caller to say.
func readCreation(answer []byte, at Place) (principal.Passkey, string, error) {
	none := principal.Passkey{}
	r, id, err := readResponse(answer)
	if err != nil {
		return none, "", err
	}
	client, okClient := unbase(r.Response.ClientData)
	object, okObject := unbase(r.Response.Attestation)
	if !okClient || !okObject {
		return none, "", refused("it cannot be read")
	}
	challenge, err := readClient(client, "webauthn.create", at)
	if err != nil {
		return none, "", err
	}
	var attested struct { // WebAuthn section 6.5.4; who made the device is not asked
		Format    string         `cbor:"fmt"`
		Statement map[string]any `cbor:"attStmt"`
		Data      []byte         `cbor:"authData"`
	}
	mode, err := decoding()
	if err != nil {
		return none, "", err
	}
	if mode.Unmarshal(object, &attested) != nil {
		return none, "", refused("it cannot be read")
	}
	a, err := readAuthenticator(attested.Data, at)
	switch {
	case err != nil:
		return none, "", err
	case !bytes.Equal(a.id, id):
		return none, "", refused("it is about another passkey")
	}
	if _, err := readKey(a.key); err != nil {
		return none, "", err
	}
	return principal.Passkey{ID: r.ID, Key: bytes.Clone(a.key), Count: a.count, Sync: a.flags&flagBackup != 0}, challenge, nil
}

// readAssertion verifies what navigator.credentials.get gave, with the key that find
// knows by its ID, and tells to which challenge; whether that is ours is for the
// caller to say.
func readAssertion(answer []byte, at Place, find func(id string) (principal.User, principal.Passkey, string, error)) (assertion, error) {
	r, _, err := readResponse(answer)
	if err != nil {
		return assertion{}, err
	}
	client, okClient := unbase(r.Response.ClientData)
	data, okData := unbase(r.Response.Authenticator)
	sum, okSum := unbase(r.Response.Signature)
	handle, okUser := unbase(r.Response.User)
	if !okClient || !okData || !okSum || !okUser {
		return assertion{}, refused("it cannot be read")
	}
	challenge, err := readClient(client, "webauthn.get", at)
	if err != nil {
		return assertion{}, err
	}
	a, err := readAuthenticator(data, at)
	if err != nil {
		return assertion{}, err
	}
	u, known, owner, err := find(r.ID)
	if err != nil {
		return assertion{}, err
	}
	if known.Place != at.name || len(handle) > 0 && string(handle) != owner {
		return assertion{}, refused("it is another one's")
	}
	if sync := a.flags&flagBackup != 0; sync != known.Sync { // it never changes (section 6.1.3)
		return assertion{}, refused("it contradicts what it said when it was made")
	}
	key, err := readKey(known.Key)
	if err != nil {
		return assertion{}, err
	}
	hash := sha256.Sum256(client)
	if !key.verify(append(bytes.Clone(data), hash[:]...), sum) {
		return assertion{}, refused("its signature is wrong")
	}
	return assertion{id: r.ID, user: u.Principal, count: a.count, sync: known.Sync, challenge: challenge}, nil
}

// The kinds of keys that authenticators may make, as COSE names them (RFC 9053): ECDSA
// with P-256 and SHA-256, Ed25519, RSA PKCS #1 v1.5 with SHA-256.
const (
	algES256 = -7
	algEdDSA = -8
	algRS256 = -257
)

var algorithms = [...]int{algES256, algEdDSA, algRS256}

// publicKey is an authenticator's, ready to verify.
type publicKey struct{ key crypto.PublicKey }

// readKey reads a COSE key (RFC 9052 section 7) of one of those kinds.
func readKey(b []byte) (publicKey, error) {
	bad := refused("its key is of no kind that was asked for")
	mode, err := decoding()
	if err != nil {
		return publicKey{}, err
	}
	var fields map[int64]cbor.RawMessage
	if mode.Unmarshal(b, &fields) != nil {
		return publicKey{}, bad
	}
	number := func(label int64) int64 {
		var n int64
		if mode.Unmarshal(fields[label], &n) != nil {
			return 0
		}
		return n
	}
	text := func(label int64) []byte {
		var s []byte
		if mode.Unmarshal(fields[label], &s) != nil {
			return nil
		}
		return s
	}
	const kind, alg, curve, x, y, modulus, exponent = 1, 3, -1, -2, -3, -1, -2
	switch k, a := number(kind), number(alg); {
	case k == 2 && a == algES256 && number(curve) == 1 && len(text(x)) == 32 && len(text(y)) == 32:
		point := append(append([]byte{4}, text(x)...), text(y)...)
		if key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point); err == nil {
			return publicKey{key}, nil
		}
	case k == 1 && a == algEdDSA && number(curve) == 6 && len(text(x)) == ed25519.PublicKeySize:
		return publicKey{ed25519.PublicKey(text(x))}, nil
	case k == 3 && a == algRS256 && len(text(modulus)) >= 256 && len(text(modulus)) <= 512:
		e := new(big.Int).SetBytes(text(exponent))
		if e.IsInt64() && e.Int64() == 65537 { // what authenticators use
			return publicKey{&rsa.PublicKey{N: new(big.Int).SetBytes(text(modulus)), E: 65537}}, nil
		}
	}
	return publicKey{}, bad
}

// verify reports whether the key signed data.
func (k publicKey) verify(data, signature []byte) bool {
	sum := sha256.Sum256(data)
	switch key := k.key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sum[:], signature)
	case ed25519.PublicKey:
		return ed25519.Verify(key, data, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}
