package passkey

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
)

const (
	// Life is how long a challenge is good.
	Life = 2 * time.Minute
	// MaxAnswer is the largest answer of an authenticator that is read, in bytes.
	MaxAnswer = 32 << 10
	maxUsed   = 10_000
	partyName = "Handrail"
)

// Users is who has passkeys; gateway/principal implements it.
type Users interface {
	User(capabilities.PrincipalID) (principal.User, error)
	Handle(context.Context, principal.Identity) (string, error)
	Passkey(id string) (principal.User, principal.Passkey, string, error)
	SomePasskey(place string) bool
	AddPasskey(context.Context, principal.Identity, principal.Passkey) (principal.Passkey, error)
	UsedPasskey(ctx context.Context, id string, count uint32) error
	SignInPasskey(ctx context.Context, id string, count uint32) (principal.Token, principal.Secret, error)
}

// Place is by which name a browser came. A passkey works where it was made.
type Place struct {
	name   string // the relying party's ID
	origin string
	party  *webauthn.WebAuthn // verifies what comes from there
}

// At returns the place of an origin such as "https://handrail.example:7480".
// CodeInvalidRequest for one that no browser makes passkeys for: addresses, and names
// without TLS other than localhost.
func At(origin string) (Place, error) {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return Place{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "%.200q is no origin", origin)
	}
	name := strings.ToLower(u.Hostname())
	if _, err := netip.ParseAddr(name); err == nil {
		hint, then := "Open the console by the gateway's name instead.", capabilities.Action{Key: capabilities.ActionNameGateway}
		if u.Scheme == "http" {
			u.Host = "localhost:" + u.Port()
			hint, then = "Open "+u.String()+"/console/ instead; on this machine that is the same gateway.", capabilities.Action{}
		}
		return Place{}, capabilities.Errorf(capabilities.CodeInvalidRequest,
			"browsers keep passkeys for names, and this page was opened by an address").WithAction(then, hint)
	}
	if u.Scheme != "https" && name != "localhost" {
		return Place{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "browsers use passkeys over HTTPS only").
			WithAction(capabilities.Action{Key: capabilities.ActionServeHTTPS}, "Serve HTTPS.")
	}
	at := Place{name: name, origin: u.Scheme + "://" + strings.ToLower(u.Host)}
	at.party, err = webauthn.New(&webauthn.Config{
		RPID: at.name, RPDisplayName: partyName, RPOrigins: []string{at.origin},
		// No extension is asked for, and what one says is not looked at.
		ExtensionsUnsolicitedOutputPolicy: protocol.UnsolicitedOutputPolicyIgnore,
	})
	if err != nil {
		return Place{}, capabilities.Wrap(capabilities.CodeInvalidRequest, err, fmt.Sprintf("browsers keep no passkeys for %.200q", name)).
			WithAction(capabilities.Action{Key: capabilities.ActionNameGateway}, "Open the console by another name of the gateway.")
	}
	return at, nil
}

// Options of New.
type Options struct {
	Users Users            // required
	Now   func() time.Time // default time.Now
}

// Keys runs the ceremonies. Its methods are safe for concurrent use.
type Keys struct {
	opts Options
	key  [32]byte // authenticates challenges; a restart forgets those that wait

	mu   sync.Mutex
	used map[string]time.Time // challenges that were answered, until they would end
}

// New makes Keys; it starts nothing.
func New(o Options) (*Keys, error) {
	if o.Users == nil {
		return nil, errors.New("passkey: Options.Users is required")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	k := &Keys{opts: o, used: map[string]time.Time{}}
	rand.Read(k.key[:]) // never fails (crypto/rand)
	return k, nil
}

// purpose is what a challenge is for.
type purpose string

const (
	toRegister purpose = "register"
	toSignIn   purpose = "sign in"
	toApprove  purpose = "approve"
)

// A challenge needs no memory: it carries its own end and a MAC over all that it is
// bound to.
//
//	nonce 16 | end, unix ms, 8 | HMAC-SHA-256 of purpose, place, session, what, nonce, end
const (
	nonceBytes     = 16
	challengeBytes = nonceBytes + 8 + sha256.Size
)

func (k *Keys) challenge(p purpose, at Place, session string, what []byte) string {
	head := make([]byte, nonceBytes, challengeBytes)
	rand.Read(head)
	head = binary.BigEndian.AppendUint64(head, uint64(k.opts.Now().Add(Life).UnixMilli()))
	return base64.RawURLEncoding.EncodeToString(append(head, k.mac(head, p, at, session, what)...))
}

func (k *Keys) mac(head []byte, p purpose, at Place, session string, what []byte) []byte {
	mac := hmac.New(sha256.New, k.key[:])
	for _, part := range [][]byte{[]byte("handrail passkey 1"), []byte(p), []byte(at.origin), []byte(session), what, head} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// good reports whether a challenge is one of ours for this, and not over.
func (k *Keys) good(challenge string, p purpose, at Place, session string, what []byte) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(challenge)
	if err != nil || len(b) != challengeBytes {
		return false
	}
	head := b[:nonceBytes+8]
	end := time.UnixMilli(int64(binary.BigEndian.Uint64(head[nonceBytes:])))
	return hmac.Equal(b[len(head):], k.mac(head, p, at, session, what)) && k.opts.Now().Before(end)
}

// spend makes sure that a challenge counts once.
func (k *Keys) spend(challenge string) error {
	now := k.opts.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for c, end := range k.used {
		if !now.Before(end) {
			delete(k.used, c)
		}
	}
	if _, spent := k.used[challenge]; spent {
		return refused("it was used before")
	}
	if len(k.used) >= maxUsed {
		return capabilities.Errorf(capabilities.CodeOverloaded, "too many passkeys answer at once")
	}
	k.used[challenge] = now.Add(Life)
	return nil
}

func refused(why string) *capabilities.Error { return refusedFor(nil, why) }

// refusedFor keeps the library's words, which are for logs, behind ours.
func refusedFor(cause error, why string) *capabilities.Error {
	return capabilities.Wrap(capabilities.CodeUnauthenticated, cause, "the passkey's answer does not count: "+why).
		WithHint("Try again; a question to a passkey is good once and for two minutes.")
}

// Which passkeys count.
type Which bool

const (
	// Any is every passkey of the user's.
	Any Which = false
	// Bound are those whose authenticator says that it never copies them, as platform and
	// hardware keys do; see docs/decisions/117-passkeys-that-confirm.md for what that is worth.
	Bound Which = true
)

// ErrCopies says that a passkey may be copied to other devices, where a bound one is wanted.
var ErrCopies = errors.New("passkey: it may be copied to other devices")

// Party is who asks, as navigator.credentials takes it.
type Party struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Account is for whom a passkey is made.
type Account struct {
	ID          string `json:"id"` // base64url
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
}

// Param is a kind of key.
type Param struct {
	Type string `json:"type"`
	Alg  int    `json:"alg"` // COSE
}

// Known is a passkey that is there already.
type Known struct {
	Type string `json:"type"`
	ID   string `json:"id"` // base64url
}

// Selection is what the authenticator has to be able to do.
type Selection struct {
	ResidentKey        string `json:"residentKey"`
	RequireResidentKey bool   `json:"requireResidentKey"`
	UserVerification   string `json:"userVerification"`
}

// CreateOptions are PublicKeyCredentialCreationOptionsJSON (WebAuthn level 3).
type CreateOptions struct {
	Challenge   string    `json:"challenge"`
	RP          Party     `json:"rp"`
	User        Account   `json:"user"`
	Params      []Param   `json:"pubKeyCredParams"`
	Timeout     int64     `json:"timeout"` // ms
	Exclude     []Known   `json:"excludeCredentials"`
	Selection   Selection `json:"authenticatorSelection"`
	Attestation string    `json:"attestation"`
}

// GetOptions are PublicKeyCredentialRequestOptionsJSON.
type GetOptions struct {
	Challenge        string  `json:"challenge"`
	RPID             string  `json:"rpId"`
	Timeout          int64   `json:"timeout"` // ms
	Allow            []Known `json:"allowCredentials"`
	UserVerification string  `json:"userVerification"`
}

// BeginRegister asks for a new passkey of who is signed in, freshly.
func (k *Keys) BeginRegister(ctx context.Context, by principal.Identity, at Place) (CreateOptions, error) {
	handle, err := k.opts.Users.Handle(ctx, by)
	if err != nil {
		return CreateOptions{}, err
	}
	u, err := k.opts.Users.User(by.Principal)
	if err != nil {
		return CreateOptions{}, err
	}
	o := CreateOptions{
		Challenge: k.challenge(toRegister, at, by.TokenID, nil), RP: Party{at.name, partyName},
		User:    Account{base64.RawURLEncoding.EncodeToString([]byte(handle)), string(by.Principal), string(by.Principal)},
		Timeout: Life.Milliseconds(), Exclude: known(u, at, Any), Attestation: "none",
		Selection: Selection{"required", true, "required"},
	}
	for _, p := range kinds {
		o.Params = append(o.Params, Param{string(p.Type), int(p.Algorithm)})
	}
	return o, nil
}

// known returns a user's passkeys of a place.
func known(u principal.User, at Place, which Which) []Known {
	list := []Known{}
	for _, p := range u.Passkeys {
		if p.Place == at.name && (which == Any || !p.Sync) {
			list = append(list, Known{"public-key", p.ID})
		}
	}
	return list
}

// Register takes the new passkey that the authenticator made, under a name.
func (k *Keys) Register(ctx context.Context, by principal.Identity, at Place, name string, answer []byte) (principal.Passkey, error) {
	made, challenge, err := k.verifyCreation(answer, at, by.TokenID)
	if err != nil {
		return principal.Passkey{}, err
	}
	if err := k.spend(challenge); err != nil {
		return principal.Passkey{}, err
	}
	made.Name, made.Place = name, at.name
	return k.opts.Users.AddPasskey(ctx, by, made)
}

// Some reports whether anybody registered a passkey for that place.
func (k *Keys) Some(at Place) bool { return k.opts.Users.SomePasskey(at.name) }

// BeginSignIn asks whoever it is for a passkey of theirs.
func (k *Keys) BeginSignIn(at Place) GetOptions {
	return GetOptions{
		Challenge: k.challenge(toSignIn, at, "", nil), RPID: at.name, Timeout: Life.Milliseconds(), Allow: []Known{},
		UserVerification: "required",
	}
}

// SignIn opens a session for whom the passkey belongs to.
func (k *Keys) SignIn(ctx context.Context, at Place, answer []byte) (principal.Token, principal.Secret, error) {
	got, err := k.verifyAssertion(answer, at, toSignIn, "", nil)
	if err == nil {
		err = k.spend(got.challenge)
	}
	if err != nil {
		return principal.Token{}, principal.Secret{}, err
	}
	return k.opts.Users.SignInPasskey(ctx, got.id, got.count)
}

// BeginApprove asks who by is for a passkey of theirs, for what and nothing else.
// CodeForbidden if they have none here, with the cause ErrCopies if they have others than
// those wanted.
func (k *Keys) BeginApprove(by principal.Identity, at Place, what []byte, which Which) (GetOptions, error) {
	u, err := k.opts.Users.User(by.Principal)
	allow := known(u, at, which)
	if err == nil && len(allow) == 0 && len(known(u, at, Any)) > 0 {
		return GetOptions{}, copies(by.Principal)
	}
	if err != nil || len(allow) == 0 {
		return GetOptions{}, capabilities.Errorf(capabilities.CodeForbidden, "%s has no passkey for %s", by.Principal, at.name).
			WithHint("Register one in the console under your name, while no agent holds mouse or keyboard here.")
	}
	return GetOptions{
		Challenge: k.challenge(toApprove, at, by.TokenID, what), RPID: at.name, Timeout: Life.Milliseconds(), Allow: allow,
		UserVerification: "required",
	}, nil
}

func copies(who capabilities.PrincipalID) error {
	return capabilities.Wrap(capabilities.CodeForbidden, ErrCopies,
		fmt.Sprintf("the passkey of %s may be copied to other devices: a program or an account keeps it", who)).
		WithHint("Use one that stays in a security key, or in this device's own lock, or answer from another device.")
}

// Approve checks that a passkey of who by is says yes to what BeginApprove asked, the
// person verified. Its cause is ErrCopies for one that is not of those wanted.
func (k *Keys) Approve(ctx context.Context, by principal.Identity, at Place, what, answer []byte, which Which) error {
	got, err := k.verifyAssertion(answer, at, toApprove, by.TokenID, what)
	if err != nil {
		return err
	}
	if got.user != by.Principal {
		return refused("it is somebody else's")
	}
	if which == Bound && got.sync {
		return copies(by.Principal)
	}
	if err := k.spend(got.challenge); err != nil {
		return err
	}
	return k.opts.Users.UsedPasskey(ctx, got.id, got.count)
}
