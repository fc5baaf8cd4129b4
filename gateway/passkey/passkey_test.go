package passkey

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Flags of authenticator data (WebAuthn section 6.1).
const (
	flagPresent  = 1 << 0
	flagVerified = 1 << 2
	flagBackup   = 1 << 3 // the key may be copied to other devices
	flagAttested = 1 << 6
)

// Kinds of keys, as COSE names them (RFC 9053).
const (
	algES256 = -7
	algEdDSA = -8
	algRS256 = -257
)

var algorithms = [...]int{algES256, algEdDSA, algRS256}

// device is an authenticator in software, with one key.
type device struct {
	t     testing.TB
	id    []byte
	key   crypto.Signer
	alg   int
	count uint32
	flags byte
}

func newDevice(t testing.TB, alg int) *device {
	t.Helper()
	d := &device{t: t, id: make([]byte, 32), alg: alg, flags: flagPresent | flagVerified}
	rand.Read(d.id)
	var err error
	switch alg {
	case algES256:
		d.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case algEdDSA:
		_, d.key, err = ed25519.GenerateKey(rand.Reader)
	default:
		d.key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *device) cose() []byte {
	var fields map[int]any
	switch key := d.key.Public().(type) {
	case *ecdsa.PublicKey:
		point, err := key.Bytes()
		if err != nil {
			d.t.Fatal(err)
		}
		fields = map[int]any{1: 2, 3: d.alg, -1: 1, -2: point[1:33], -3: point[33:]}
	case ed25519.PublicKey:
		fields = map[int]any{1: 1, 3: d.alg, -1: 6, -2: []byte(key)}
	case *rsa.PublicKey:
		fields = map[int]any{1: 3, 3: d.alg, -1: key.N.Bytes(), -2: []byte{1, 0, 1}}
	}
	mode, err := cbor.CTAP2EncOptions().EncMode()
	if err != nil {
		d.t.Fatal(err)
	}
	b, err := mode.Marshal(fields)
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

func (d *device) data(place string, attested bool) []byte {
	sum := sha256.Sum256([]byte(place))
	d.count++
	flags := d.flags
	if attested {
		flags |= flagAttested
	}
	b := binary.BigEndian.AppendUint32(append(sum[:], flags), d.count)
	if attested {
		b = binary.BigEndian.AppendUint16(append(b, make([]byte, 16)...), uint16(len(d.id)))
		b = append(append(b, d.id...), d.cose()...)
	}
	return b
}

var b64 = base64.RawURLEncoding.EncodeToString

func client(kind, challenge, origin string) []byte {
	return fmt.Appendf(nil, `{"type":%q,"challenge":%q,"origin":%q,"crossOrigin":false}`, kind, challenge, origin)
}

func (d *device) answer(fields map[string]string) []byte {
	b, err := json.Marshal(map[string]any{"id": b64(d.id), "rawId": b64(d.id), "type": "public-key", "response": fields})
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

func (d *device) create(place, origin, challenge string) []byte {
	object, err := cbor.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": d.data(place, true)})
	if err != nil {
		d.t.Fatal(err)
	}
	return d.answer(map[string]string{"clientDataJSON": b64(client("webauthn.create", challenge, origin)), "attestationObject": b64(object)})
}

func (d *device) get(place, handle string, said []byte) []byte {
	data := d.data(place, false)
	hash := sha256.Sum256(said)
	signed := append(append([]byte(nil), data...), hash[:]...)
	var opts crypto.SignerOpts = crypto.SHA256
	if d.alg == algEdDSA {
		opts = crypto.Hash(0)
	} else {
		sum := sha256.Sum256(signed)
		signed = sum[:]
	}
	sum, err := d.key.Sign(rand.Reader, signed, opts)
	if err != nil {
		d.t.Fatal(err)
	}
	return d.answer(map[string]string{"clientDataJSON": b64(said), "authenticatorData": b64(data), "signature": b64(sum), "userHandle": b64([]byte(handle))})
}

const home = "https://handrail.example:7480"

// bench is a set of users with one who is signed in.
type bench struct {
	t    *testing.T
	now  time.Time
	set  *principal.Tokens
	keys *Keys
	ann  principal.Identity
	at   Place
}

func start(t *testing.T) *bench {
	t.Helper()
	db, err := store.Open(context.Background(), store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Migrations: principal.Migrations(), ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	b := &bench{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	clock := func() time.Time { return b.now }
	if b.set, err = principal.New(principal.Options{Store: db, Now: clock}); err != nil {
		t.Fatal(err)
	}
	if err := b.set.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.keys, err = New(Options{Users: b.set, Now: clock}); err != nil {
		t.Fatal(err)
	}
	b.ann = b.enter("ann")
	if b.at, err = At(home); err != nil {
		t.Fatal(err)
	}
	return b
}

// enter opens a session by a link.
func (b *bench) enter(who capabilities.PrincipalID) principal.Identity {
	b.t.Helper()
	_, token, err := b.set.Create(b.t.Context(), principal.Site, principal.Spec{Principal: who, Role: principal.RoleOperator})
	if err != nil {
		b.t.Fatal(err)
	}
	id, err := b.set.Authenticate(token.Reveal())
	if err != nil {
		b.t.Fatal(err)
	}
	code, _, err := b.set.Login(id, "")
	if err != nil {
		b.t.Fatal(err)
	}
	_, cookie, err := b.set.Redeem(b.t.Context(), code.Reveal())
	if err != nil {
		b.t.Fatal(err)
	}
	if id, err = b.set.Session(cookie.Reveal()); err != nil {
		b.t.Fatal(err)
	}
	return id
}

// register returns ann's passkey and the handle it got.
func (b *bench) register(alg int) (*device, string) {
	b.t.Helper()
	return b.registers(newDevice(b.t, alg))
}

func (b *bench) registers(d *device) (*device, string) {
	b.t.Helper()
	o, err := b.keys.BeginRegister(b.t.Context(), b.ann, b.at)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.keys.Register(b.t.Context(), b.ann, b.at, "laptop", d.create("handrail.example", home, o.Challenge)); err != nil {
		b.t.Fatal(err)
	}
	handle, err := base64.RawURLEncoding.DecodeString(o.User.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	return d, string(handle)
}

func TestSignInWithEveryKind(t *testing.T) {
	b := start(t)
	for _, alg := range algorithms {
		d, handle := b.register(alg)
		answer := d.get("handrail.example", handle, client("webauthn.get", b.keys.BeginSignIn(b.at).Challenge, home))
		session, _, err := b.keys.SignIn(t.Context(), b.at, answer)
		if err != nil || session.Principal != "ann" || session.Role != principal.RoleOperator {
			t.Fatalf("%d: %+v %v", alg, session, err)
		}
		if _, _, err := b.keys.SignIn(t.Context(), b.at, answer); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
			t.Errorf("%d: an answer counts twice: %v", alg, err)
		}
	}
}

// A passkey's yes is to that question and that answer, in that session, once.
func TestApprovalIsBound(t *testing.T) {
	b := start(t)
	d, handle := b.register(algES256)
	what := []byte(`{"approval":"a-1","digest":"d","answer":{"answer":"allow"}}`)
	ask := func() string {
		o, err := b.keys.BeginApprove(b.ann, b.at, what, Any)
		if err != nil {
			t.Fatal(err)
		}
		if o.UserVerification != "required" || len(o.Allow) != 1 {
			t.Errorf("%+v", o)
		}
		return o.Challenge
	}
	said := func(challenge string) []byte {
		return d.get("handrail.example", handle, client("webauthn.get", challenge, home))
	}
	other := b.enter("ann")
	bob := b.enter("bob")
	for name, try := range map[string]func() error{
		"another question": func() error {
			return b.keys.Approve(t.Context(), b.ann, b.at, []byte(`{"approval":"a-2"}`), said(ask()), Any)
		},
		"another session of hers": func() error { return b.keys.Approve(t.Context(), other, b.at, what, said(ask()), Any) },
		"somebody else":           func() error { return b.keys.Approve(t.Context(), bob, b.at, what, said(ask()), Any) },
		"a challenge for signing in": func() error {
			return b.keys.Approve(t.Context(), b.ann, b.at, what, said(b.keys.BeginSignIn(b.at).Challenge), Any)
		},
		"a challenge of its own": func() error {
			return b.keys.Approve(t.Context(), b.ann, b.at, what, said(b64(make([]byte, challengeBytes))), Any)
		},
		"too late": func() error {
			answer := said(ask())
			b.now = b.now.Add(Life)
			defer func() { b.now = b.now.Add(-Life) }()
			return b.keys.Approve(t.Context(), b.ann, b.at, what, answer, Any)
		},
		"nobody verified": func() error {
			d.flags = flagPresent
			defer func() { d.flags |= flagVerified }()
			return b.keys.Approve(t.Context(), b.ann, b.at, what, said(ask()), Any)
		},
		"another page": func() error {
			return b.keys.Approve(t.Context(), b.ann, b.at, what, d.get("handrail.example", handle, client("webauthn.get", ask(), "https://evil.example")), Any)
		},
		"another port": func() error {
			return b.keys.Approve(t.Context(), b.ann, b.at, what, d.get("handrail.example", handle, client("webauthn.get", ask(), "https://handrail.example")), Any)
		},
		"another place": func() error {
			return b.keys.Approve(t.Context(), b.ann, b.at, what, d.get("evil.example", handle, client("webauthn.get", ask(), home)), Any)
		},
		"a frame": func() error {
			return b.keys.Approve(t.Context(), b.ann, b.at, what, d.get("handrail.example", handle, []byte(strings.Replace(string(client("webauthn.get", ask(), home)), "false", "true", 1))), Any)
		},
		"what was for registering": func() error {
			return b.keys.Approve(t.Context(), b.ann, b.at, what, d.get("handrail.example", handle, client("webauthn.create", ask(), home)), Any)
		},
		"another's handle": func() error {
			return b.keys.Approve(t.Context(), b.ann, b.at, what, d.get("handrail.example", "x", client("webauthn.get", ask(), home)), Any)
		},
		"another key": func() error {
			e := newDevice(t, algES256)
			e.id = d.id
			return b.keys.Approve(t.Context(), b.ann, b.at, what, e.get("handrail.example", handle, client("webauthn.get", ask(), home)), Any)
		},
		"nothing": func() error { return b.keys.Approve(t.Context(), b.ann, b.at, what, nil, Any) },
		"much":    func() error { return b.keys.Approve(t.Context(), b.ann, b.at, what, make([]byte, 1<<20), Any) },
	} {
		if err := try(); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated || capabilities.AsError(err).PublicHint() == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	answer := said(ask())
	if err := b.keys.Approve(t.Context(), b.ann, b.at, what, answer, Any); err != nil {
		t.Fatal(err)
	}
	if err := b.keys.Approve(t.Context(), b.ann, b.at, what, answer, Any); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		t.Errorf("an answer counts twice: %v", err)
	}
	copied := said(ask())
	if err := b.keys.Approve(t.Context(), b.ann, b.at, what, said(ask()), Any); err != nil {
		t.Fatal(err)
	}
	if err := b.keys.Approve(t.Context(), b.ann, b.at, what, copied, Any); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		t.Errorf("a count that went back: %v", err)
	}
	if _, err := b.keys.BeginApprove(bob, b.at, what, Any); capabilities.CodeOf(err) != capabilities.CodeForbidden || capabilities.AsError(err).PublicHint() == "" {
		t.Errorf("without a passkey: %v", err)
	}
}

// Ways to sign in are changed shortly after signing in, by a session, for oneself.
func TestRegistrationNeedsAFreshSession(t *testing.T) {
	b := start(t)
	o, err := b.keys.BeginRegister(t.Context(), b.ann, b.at)
	if err != nil {
		t.Fatal(err)
	}
	d := newDevice(t, algES256)
	if _, err := b.keys.Register(t.Context(), b.enter("ann"), b.at, "x", d.create("handrail.example", home, o.Challenge)); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		t.Errorf("in another session: %v", err)
	}
	b.now = b.now.Add(principal.FreshFor + time.Second)
	if _, err := b.keys.BeginRegister(t.Context(), b.ann, b.at); capabilities.CodeOf(err) != capabilities.CodeForbidden || capabilities.AsError(err).PublicHint() == "" {
		t.Errorf("later: %v", err)
	}
	token := b.ann
	rec, _ := b.set.Get(b.ann.TokenID)
	token.TokenID = rec.Parent
	if _, err := b.keys.BeginRegister(t.Context(), token, b.at); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("with a token: %v", err)
	}
}

func TestPlaces(t *testing.T) {
	for origin, ok := range map[string]bool{
		"https://handrail.example": true, "http://localhost:7480": true, "https://localhost": true, "https://Handrail.Example:1": true,
		"http://handrail.example": false, "http://127.0.0.1:7480": false, "https://192.0.2.1": false, "https://[::1]:1": false, "": false, "null": false,
	} {
		_, err := At(origin)
		if (err == nil) != ok {
			t.Errorf("%s: %v", origin, err)
		}
		if err != nil && origin != "" && origin != "null" && capabilities.AsError(err).PublicHint() == "" {
			t.Errorf("%s: no hint", origin)
		}
	}
}

// keyring knows passkeys of ann's, by their IDs.
type keyring struct {
	Users
	keys map[string][]byte // COSE
}

func (r keyring) Passkey(id string) (principal.User, principal.Passkey, string, error) {
	key, known := r.keys[id]
	if !known {
		return principal.User{}, principal.Passkey{}, "", refused("unknown")
	}
	return principal.User{Principal: "ann"}, principal.Passkey{ID: id, Place: "handrail.example", Key: key}, "u", nil
}

// An answer counts that is to the challenge that was asked, by a key that is known, whole where it
// is signed; an error brings nothing with it.
func FuzzAnswers(f *testing.F) {
	at, err := At(home)
	if err != nil {
		f.Fatal(err)
	}
	known := keyring{keys: map[string][]byte{}}
	keys, err := New(Options{Users: known})
	if err != nil {
		f.Fatal(err)
	}
	what := []byte("what")
	create, get := keys.challenge(toRegister, at, "session", nil), keys.challenge(toApprove, at, "session", what)
	answers := [][]byte{}
	for _, alg := range algorithms {
		d := newDevice(f, alg)
		known.keys[b64(d.id)] = d.cose()
		answers = append(answers, d.create("handrail.example", home, create), d.get("handrail.example", "u", client("webauthn.get", get, home)))
	}
	for _, a := range answers {
		f.Add(a, uint16(0), byte(0))
	}
	f.Add([]byte{}, uint16(40), byte(1))
	f.Fuzz(func(t *testing.T, answer []byte, where uint16, with byte) {
		if len(answer) < len(answers) { // one of ours with a byte changed: its signature is ours to lose
			answer = append([]byte(nil), answers[len(answer)]...)
			answer[int(where)%len(answer)] ^= with
		}
		made, challenge, err := keys.verifyCreation(answer, at, "session")
		switch {
		case err != nil && (made.ID != "" || capabilities.CodeOf(err) != capabilities.CodeUnauthenticated):
			t.Errorf("%v with %v", made, err)
		case err == nil && (challenge != create || made.ID == "" || len(made.Key) == 0):
			t.Errorf("%+v to %q", made, challenge)
		}
		got, err := keys.verifyAssertion(answer, at, toApprove, "session", what)
		switch {
		case err != nil && (got != (assertion{}) || capabilities.CodeOf(err) != capabilities.CodeUnauthenticated):
			t.Errorf("%+v with %v", got, err)
		case err == nil && (got.challenge != get || known.keys[got.id] == nil || got.user != "ann" || got.sync || got.count > 2):
			t.Errorf("%+v", got) // the devices above signed counts of 1 and 2, no other
		}
	})
}

// A passkey that may be copied says so each time, and does not confirm where a bound one is
// wanted; what it once said it cannot take back.
func TestBoundPasskeys(t *testing.T) {
	b := start(t)
	copied := newDevice(t, algES256)
	copied.flags |= flagBackup
	_, handle := b.registers(copied)
	what := []byte("what")
	if _, err := b.keys.BeginApprove(b.ann, b.at, what, Bound); !errors.Is(err, ErrCopies) {
		t.Errorf("asked: %v", err)
	}
	ask := func() string {
		o, err := b.keys.BeginApprove(b.ann, b.at, what, Any)
		if err != nil {
			t.Fatal(err)
		}
		return o.Challenge
	}
	say := func(which Which) error {
		return b.keys.Approve(t.Context(), b.ann, b.at, what, copied.get("handrail.example", handle, client("webauthn.get", ask(), home)), which)
	}
	if err := say(Bound); !errors.Is(err, ErrCopies) {
		t.Errorf("bound: %v", err)
	}
	if err := say(Any); err != nil {
		t.Errorf("any: %v", err)
	}
	copied.flags &^= flagBackup
	if err := say(Bound); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		t.Errorf("it says that it is bound now: %v", err)
	}
}
