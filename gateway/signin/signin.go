package signin

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/oauth2"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Bounds of what is under way and kept.
const (
	beginTime  = 10 * time.Minute // from the beginning to the answer
	maxBegun   = 100
	maxSignIns = 200
	maxCode    = 4 << 10
	maxNet     = 8
	// turnWithin is how long another gateway may be at a sign-in. It bounds the wait, not that one.
	turnWithin = 30 * time.Second
	// maxShownScopes are those that a person is shown one by one.
	maxShownScopes = 24
)

// Secrets are the stored secrets; gateway/secret implements it.
type Secrets interface {
	// Put returns what keeps a value in a transaction; value stays the caller's.
	Put(by capabilities.PrincipalID, name string, value capabilities.Secret) (func(tx *store.Tx) error, error)
	Remove(ctx context.Context, by capabilities.PrincipalID, what string) error
	// Lapse removes a value and leaves its references.
	Lapse(ctx context.Context, by capabilities.PrincipalID, name string) error
}

// Options of New; all are required unless a default is named.
type Options struct {
	Store   *store.Store
	Secrets Secrets
	Key     []byte // seals refresh tokens; 32 bytes
	// Record writes a packet in the same transaction as a change; default: none.
	Record func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) error
	// Renewed is told the name of a secret that has another value now; default: nobody is.
	Renewed func(ctx context.Context, secret string)
	Log     *slog.Logger // default: discards
	Now     func() time.Time
}

// Book is the sign-ins of a gateway. All methods are safe for concurrent use.
type Book struct {
	opts Options
	aead cipher.AEAD

	changing sync.Mutex // one exchange or refresh at a time, see turn
	news     chan struct{}

	mu    sync.Mutex
	begun map[[sha256.Size]byte]*begun // by the digest of the state
}

// begun is a sign-in that a person has to answer in their browser.
type begun struct {
	session  string
	by       capabilities.PrincipalID
	until    time.Time
	signIn   SignIn
	way      *way
	config   oauth2.Config
	verifier string
	place    string // the last part of its redirect address
	says     bool   // the authorization server names itself in its answers (RFC 9207)
}

// New makes a Book.
func New(o Options) (*Book, error) {
	if o.Record == nil {
		o.Record = func(*store.Tx, string, capabilities.PrincipalID, any) error { return nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Renewed == nil {
		o.Renewed = func(context.Context, string) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	aead, err := chacha20poly1305.NewX(o.Key)
	if err != nil {
		return nil, err
	}
	return &Book{opts: o, aead: aead, news: make(chan struct{}, 1), begun: map[[sha256.Size]byte]*begun{}}, nil
}

// Wish is what somebody wants to sign in to.
type Wish struct {
	Name   string   // of the sign-in; its access token is the secret sign-in/NAME
	Server string   // the MCP server's address
	Client string   // the client ID that the admin registered; "": the gateway registers itself
	Net    []string // hosts of the admin's own, besides the server's
	// Back is where the authorization server sends the browser: an address of the gateway that
	// ends with "/"; the last part is added here.
	Back    string
	Session string // of the person; nobody else's finishes it
	By      capabilities.PrincipalID
}

// Started is a sign-in that waits for the person at an address of the authorization server.
type Started struct {
	Address string
	Issuer  string
	Host    string   // where the person is sent
	Scopes  []string // what is asked for, as the servers call it; safe to show
	Back    string   // the redirect address, for who registers a client by hand
	Until   time.Time
}

var nameFormat = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// Begin asks a server where to sign in, and has that authorization server know the gateway.
func (b *Book) Begin(ctx context.Context, in Wish) (Started, error) {
	if !nameFormat.MatchString(in.Name) || len(in.Net) > maxNet || len(in.Client) > 256 || in.Session == "" {
		return Started{}, capabilities.Errorf(capabilities.CodeInvalidRequest,
			"name: a letter, then at most 31 of a-z, 0-9 and -; net: at most %d hosts", maxNet)
	}
	server, err := readAddress("server", in.Server)
	if err != nil {
		return Started{}, err
	}
	all, err := b.List(ctx)
	if err != nil {
		return Started{}, err
	}
	at := slices.IndexFunc(all, func(s SignIn) bool { return s.Name == in.Name })
	switch {
	case at < 0 && len(all) >= maxSignIns:
		return Started{}, capabilities.Errorf(capabilities.CodeConflict, "there are %d sign-ins already", maxSignIns)
	case at >= 0 && all[at].Server != in.Server:
		return Started{}, taken(&all[at])
	}
	w, err := newWay(server, in.Net)
	if err != nil {
		return Started{}, err
	}
	f, err := w.discover(ctx, server)
	if err != nil {
		return Started{}, err
	}
	if at >= 0 && all[at].Resource != f.Resource {
		return Started{}, taken(&all[at])
	}
	// Each authorization server answers at an address of its own: what another one sends is at
	// the wrong place (RFC 9700, 4.4.2).
	issuer := sha256.Sum256([]byte(f.meta.Issuer))
	place := hex.EncodeToString(issuer[:8])
	back := in.Back + place
	client, secret := in.Client, ""
	if client == "" {
		if client, secret, err = w.register(ctx, f, back); err != nil {
			return Started{}, err
		}
	}
	one := &begun{
		session: in.Session, by: in.By, until: b.opts.Now().Add(beginTime), way: w, verifier: oauth2.GenerateVerifier(), place: place,
		says: f.meta.AuthorizationResponseIssParameterSupported,
		signIn: SignIn{
			Name: in.Name, Server: in.Server, Net: in.Net, Resource: f.Resource, Issuer: f.meta.Issuer, Client: client,
			Token: f.meta.TokenEndpoint, Revoke: f.meta.RevocationEndpoint, By: in.By,
		},
		config: oauth2.Config{
			ClientID: client, ClientSecret: secret, RedirectURL: back, Scopes: f.Scopes,
			Endpoint: oauth2.Endpoint{AuthURL: f.meta.AuthorizationEndpoint, TokenURL: f.meta.TokenEndpoint, AuthStyle: oauth2.AuthStyleInParams},
		},
	}
	random := make([]byte, 32)
	rand.Read(random) // never fails (crypto/rand)
	state := base64.RawURLEncoding.EncodeToString(random)
	if err := b.begin(state, one); err != nil {
		return Started{}, err
	}
	address := one.config.AuthCodeURL(state, oauth2.S256ChallengeOption(one.verifier), oauth2.SetAuthURLParam("resource", f.Resource))
	started := Started{Address: address, Issuer: f.meta.Issuer, Back: back, Until: one.until}
	if leads, err := url.Parse(f.meta.AuthorizationEndpoint); err == nil { // it was read before
		started.Host = leads.Host
	}
	for _, scope := range f.Scopes[:min(len(f.Scopes), maxShownScopes)] {
		started.Scopes = append(started.Scopes, capabilities.Clip(capabilities.Escape(scope), 200))
	}
	if more := len(f.Scopes) - maxShownScopes; more > 0 {
		started.Scopes = append(started.Scopes, fmt.Sprintf("and %d more", more))
	}
	return started, nil
}

// taken refuses a name under which another server's token lies: who was approved with that
// secret would get this one's.
func taken(s *SignIn) error {
	return capabilities.Errorf(capabilities.CodeConflict, "the sign-in %s is for %.200s", s.Name, s.Resource).
		WithHint("Choose another name. Providers that were approved with this sign-in's token must not get another server's.")
}

// begin remembers what is under way; the same session's earlier try under the name is over.
func (b *Book) begin(state string, one *begun) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.opts.Now()
	for key, o := range b.begun {
		if now.After(o.until) || o.session == one.session && o.signIn.Name == one.signIn.Name {
			delete(b.begun, key)
		}
	}
	if len(b.begun) >= maxBegun {
		return capabilities.Errorf(capabilities.CodeOverloaded, "%d sign-ins wait for their people already", maxBegun)
	}
	b.begun[sha256.Sum256([]byte(state))] = one
	return nil
}

// Answer is what an authorization server sent the browser back with.
type Answer struct {
	Place   string // the last part of the address
	State   string
	Code    string
	Issuer  string // iss
	Error   string
	Session string // of who brings it
}

var errAnswer = capabilities.Errorf(capabilities.CodeForbidden, "this is no answer to a sign-in that this session began").
	WithHint("Begin again on the page Providers. An answer counts once, within ten minutes, where it was asked for.")

// Finish takes an answer, once, and has the tokens kept; those that were there before are revoked.
// CodeForbidden for one that is another session's, another authorization server's, late, or made
// up; CodeConflict if the name is another server's by now.
func (b *Book) Finish(ctx context.Context, a Answer) (SignIn, error) {
	key := sha256.Sum256([]byte(a.State))
	b.mu.Lock()
	one := b.begun[key]
	// Another session ends nothing by bringing it: nobody ends other people's.
	if one == nil || one.session != a.Session || one.place != a.Place {
		b.mu.Unlock()
		return SignIn{}, errAnswer
	}
	delete(b.begun, key)
	b.mu.Unlock()
	switch {
	case b.opts.Now().After(one.until), a.Issuer != one.signIn.Issuer && (a.Issuer != "" || one.says):
		return SignIn{}, errAnswer
	case a.Error != "":
		return SignIn{}, capabilities.Errorf(capabilities.CodeSecretUnavailable, "the authorization server refused: %s",
			capabilities.Clip(capabilities.Printable(a.Error), 100))
	case a.Code == "" || len(a.Code) > maxCode:
		return SignIn{}, errAnswer
	}
	done, err := b.turn(ctx)
	if err != nil {
		return SignIn{}, err
	}
	defer done()
	before, had, err := b.get(ctx, one.signIn.Name)
	replaces := err == nil || errors.Is(err, errSealed) // what cannot be opened cannot be revoked
	switch {
	case !replaces && capabilities.CodeOf(err) != capabilities.CodeNotFound:
		return SignIn{}, err
	case replaces && (before.Server != one.signIn.Server || before.Resource != one.signIn.Resource):
		return SignIn{}, taken(&before)
	}
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {a.Code}, "redirect_uri": {one.config.RedirectURL}, "code_verifier": {one.verifier},
	}
	s := one.signIn
	t, err := b.ask(ctx, one.way, &s, one.config.ClientSecret, form)
	if err != nil {
		return SignIn{}, err
	}
	s.At = b.opts.Now().UTC()
	if err := b.put(ctx, one.by, "gateway.sign_in.done", &s, t); err != nil {
		return SignIn{}, err
	}
	if replaces {
		b.revoke(ctx, &before, had.but(t))
	}
	b.changed()
	b.opts.Renewed(ctx, s.Secret()) // hosts that had the one before get this one
	return s, nil
}

// Remove forgets the access token, has the authorization server forget both, as far as it answers,
// and forgets the sign-in last: one that did not come to its end is there to be removed again.
func (b *Book) Remove(ctx context.Context, by capabilities.PrincipalID, name string) error {
	done, err := b.turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	s, h, err := b.get(ctx, name)
	if err != nil && !errors.Is(err, errSealed) {
		return err
	}
	if err := b.opts.Secrets.Remove(ctx, by, s.Secret()); err != nil && capabilities.CodeOf(err) != capabilities.CodeNotFound {
		return err
	}
	b.revoke(ctx, &s, h)
	return b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`DELETE FROM sign_in WHERE name = $1`, name); err != nil {
			return err
		}
		return b.opts.Record(tx, "gateway.sign_in.removed", by, packet.SignInRemoved{Name: name, Issuer: s.Issuer})
	})
}

// turn has one exchange or refresh made at a time, by one of the site's gateways: a refresh token
// is good once. done ends it.
func (b *Book) turn(ctx context.Context) (done func(), err error) {
	b.changing.Lock()
	waiting, cancel := context.WithTimeout(ctx, turnWithin)
	defer cancel()
	pass, err := b.opts.Store.Turn(waiting, "sign-in")
	if err != nil {
		b.changing.Unlock()
		return nil, err
	}
	return func() {
		pass()
		b.changing.Unlock()
	}, nil
}

func (b *Book) changed() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// bearer reports whether a token is one that its bearer may use, in whatever case it says so.
func bearer(kind string) bool { return strings.EqualFold(kind, "Bearer") }
