package push

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
)

const (
	maxEach = 16  // browsers of one principal
	maxAll  = 512 // of this gateway
	maxName = 64  // bytes of a browser's name
	timeout = 10 * time.Second
)

// Services are the push services of the browsers that have one, by host; those that
// begin with a dot are the ends of names.
func Services() []string {
	return []string{"fcm.googleapis.com", "updates.push.services.mozilla.com", ".push.apple.com", ".notify.windows.com"}
}

// Migrations are the tables of this room.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "push", Version: 1, SQL: `
		CREATE TABLE push_subscription (
			subscription TEXT PRIMARY KEY,
			principal    TEXT NOT NULL,
			session      TEXT NOT NULL,
			parent       TEXT NOT NULL,
			name         TEXT NOT NULL,
			endpoint     TEXT NOT NULL,
			key          TEXT NOT NULL,
			auth         TEXT NOT NULL,
			created_at   INTEGER NOT NULL
		) STRICT`}}
}

// Tokens is who is signed in; gateway/principal implements it.
type Tokens interface {
	Valid(tokenID string) bool
	Get(tokenID string) (principal.Token, error)
	OnRevoke(func(tokenID string)) (cancel func())
}

// Waiting is what waits for a person; gateway/consent implements it.
type Waiting interface {
	Approvals() []consent.Approval
	Changed() <-chan struct{}
}

// Options of New; required unless a default is named.
type Options struct {
	Store   *store.Store // opened with Migrations
	Tokens  Tokens
	Waiting Waiting
	// Ledger is where drift is told from, and After the packet after which it is. Default: it is
	// not told.
	Ledger Ledger
	After  uint64
	// Tells reports whether this one of the site's gateways tells of what all of them read. Default:
	// it does.
	Tells func(context.Context) bool
	// Key is what push services know this gateway by; see LoadKey.
	Key *ecdsa.PrivateKey
	// Record writes a packet in the same transaction as the change; default: none.
	Record func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) error
	// Services are the hosts that messages may go to; default Services.
	Services []string
	// Contact is whom a push service turns to about this gateway, an https or mailto
	// address; default: the project.
	Contact string
	// Transport carries messages; default: http.DefaultTransport's settings.
	Transport http.RoundTripper
	// Backoff is the pause before the second try, doubled for each further one;
	// default 1 s.
	Backoff time.Duration
	Log     *slog.Logger     // default: discards
	Now     func() time.Time // default time.Now
}

// Subscription is a browser that is told, as its person sees it.
type Subscription struct {
	ID        string
	Principal capabilities.PrincipalID
	Name      string // by its person
	Service   string // the push service's host
	CreatedAt time.Time
}

// subscription is one as it is kept in memory; replaced, never changed.
type subscription struct {
	Subscription
	session, parent string // what its person signed in with
	at              target
}

// Book is who is told. Its methods are safe for concurrent use.
type Book struct {
	opts   Options
	client *http.Client
	public string
	woken  chan struct{} // something ended, or began

	mu   sync.Mutex // guards what follows
	subs map[string]*subscription
	over []string // ended by a revocation, still in the store
}

// New makes a Book; Load it before use, and Run it.
func New(o Options) (*Book, error) {
	if o.Store == nil || o.Tokens == nil || o.Waiting == nil || o.Key == nil {
		return nil, errors.New("push: an Options field that is required is missing")
	}
	if o.Record == nil {
		o.Record = func(*store.Tx, string, capabilities.PrincipalID, any) error { return nil }
	}
	if o.Services == nil {
		o.Services = Services()
	}
	if o.Contact == "" {
		o.Contact = "https://github.com/handrail-dev/handrail"
	}
	if o.Backoff <= 0 {
		o.Backoff = time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Tells == nil {
		o.Tells = func(context.Context) bool { return true }
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	public, err := publicKey(o.Key)
	if err != nil {
		return nil, err
	}
	return &Book{opts: o, public: public, subs: map[string]*subscription{}, woken: make(chan struct{}, 1), client: &http.Client{
		Transport: o.Transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// LoadKey reads the gateway's key, a P-256 key in PEM, or makes it and hands save what to
// keep.
func LoadKey(path string, save func(path string, data []byte) error) (*ecdsa.PrivateKey, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, err
		}
		return key, save(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(data); block != nil {
		if k, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, ok := k.(*ecdsa.PrivateKey); ok && key.Curve == elliptic.P256() {
				return key, nil
			}
		}
	}
	return nil, fmt.Errorf("%s holds no P-256 key", path)
}

// Tables are those that Load is for, again once another gateway wrote them.
var Tables = []string{"push_subscription"}

// Load reads who is told. Those whose person may no longer come in are not.
func (b *Book) Load(ctx context.Context) error {
	rows, err := b.opts.Store.Read().QueryContext(ctx,
		`SELECT subscription, principal, session, parent, name, endpoint, key, auth, created_at FROM push_subscription`)
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.subs)
	for rows.Next() {
		var s subscription
		var endpoint, key, auth string
		var created int64
		if err := rows.Scan(&s.ID, &s.Principal, &s.session, &s.parent, &s.Name, &endpoint, &key, &auth, &created); err != nil {
			return capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		s.CreatedAt = time.UnixMilli(created).UTC()
		s.at, err = readTarget(endpoint, key, auth, b.opts.Services)
		if rec, gone := b.opts.Tokens.Get(s.session); err != nil || gone == nil && !rec.RevokedAt.IsZero() || !b.opts.Tokens.Valid(s.parent) {
			b.over = append(b.over, s.ID)
			continue
		}
		s.Service = s.at.endpoint.Host
		b.subs[s.ID] = &s
	}
	if err := rows.Err(); err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return nil
}

// Key is what a browser subscribes with, in base64url.
func (b *Book) Key() string { return b.public }

// Wish is what a browser said when its person asked to be told there.
type Wish struct {
	Name     string // of the browser, by its person; at most 64 bytes
	Endpoint string
	P256dh   string // base64url
	Auth     string // base64url
}

// Subscribe has a browser told from now on, after a first message has been taken by its
// push service; a second time it is the same subscription. CodeInvalidRequest for what
// is no subscription or leads to no push service, CodeOverloaded for too many,
// CodePushUnavailable if the push service cannot be reached or refuses.
func (b *Book) Subscribe(ctx context.Context, by principal.Identity, in Wish) (Subscription, error) {
	if err := by.Require(principal.ActReadApprovals); err != nil {
		return Subscription{}, err
	}
	if in.Name == "" {
		in.Name = "A browser"
	}
	if len(in.Name) > maxName {
		return Subscription{}, bad("name must be at most %d bytes", maxName)
	}
	at, err := readTarget(in.Endpoint, in.P256dh, in.Auth, b.opts.Services)
	if err != nil {
		return Subscription{}, err
	}
	rec, err := b.opts.Tokens.Get(by.TokenID)
	if err != nil {
		return Subscription{}, err
	}
	sum := sha256.Sum256([]byte(in.Endpoint))
	s := &subscription{session: rec.ID, parent: cmp.Or(rec.Parent, rec.ID), at: at, Subscription: Subscription{
		ID: base64.RawURLEncoding.EncodeToString(sum[:12]), Principal: by.Principal, Name: in.Name, Service: at.endpoint.Host,
		CreatedAt: b.opts.Now().Truncate(time.Millisecond).UTC(),
	}}
	if err := b.room(s); err != nil {
		return Subscription{}, err
	}
	switch how := b.post(ctx, s, Message{Title: "Handrail", Body: "This browser is told when something waits for you."}, time.Minute); {
	case how == gone:
		return Subscription{}, bad("the push service says that there is no such subscription").WithHint("Reload the page and try again.")
	case how != taken:
		return Subscription{}, capabilities.Errorf(capabilities.CodePushUnavailable, "the push service %s did not take a first message",
			s.Service)
	}
	err = b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`DELETE FROM push_subscription WHERE subscription = $1`, s.ID); err != nil {
			return err
		}
		if _, err := tx.Exec(
			`INSERT INTO push_subscription (subscription, principal, session, parent, name, endpoint, key, auth, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			s.ID, string(s.Principal), s.session, s.parent, s.Name, in.Endpoint, in.P256dh, in.Auth, s.CreatedAt.UnixMilli()); err != nil {
			return err
		}
		return b.opts.Record(tx, "gateway.push.subscribed", by.Principal,
			packet.Subscribed{ID: s.ID, Name: s.Name, Service: s.Service})
	})
	if err != nil {
		return Subscription{}, err
	}
	b.mu.Lock()
	b.subs[s.ID] = s
	b.mu.Unlock()
	b.wake()
	if !b.opts.Tokens.Valid(by.TokenID) { // revoked meanwhile
		b.revoked(by.TokenID)
	}
	return s.Subscription, nil
}

// room refuses one more where there are too many, or where the same address is
// somebody else's.
func (b *Book) room(s *subscription) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.subs[s.ID]; old != nil {
		return nil // it becomes the subscription of whoever is signed in there now
	}
	each := 0
	for _, other := range b.subs {
		if other.Principal == s.Principal {
			each++
		}
	}
	if each >= maxEach || len(b.subs) >= maxAll {
		return capabilities.Errorf(capabilities.CodeOverloaded, "%d browsers of yours are told, %d in all", each, len(b.subs)).
			WithHint("Remove one that you do not use.")
	}
	return nil
}

// Unsubscribe ends one of the subscriptions of who by is; CodeNotFound.
func (b *Book) Unsubscribe(ctx context.Context, by principal.Identity, id string) error {
	b.mu.Lock()
	s := b.subs[id]
	if s != nil && s.Principal == by.Principal {
		delete(b.subs, id)
	}
	b.mu.Unlock()
	if s == nil || s.Principal != by.Principal {
		return capabilities.Errorf(capabilities.CodeNotFound, "you have no such subscription")
	}
	return b.forget(ctx, []string{id}, by.Principal, "asked")
}

// forget takes subscriptions out of the store.
func (b *Book) forget(ctx context.Context, ids []string, by capabilities.PrincipalID, why string) error {
	return b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		for _, id := range ids {
			if _, err := tx.Exec(`DELETE FROM push_subscription WHERE subscription = $1`, id); err != nil {
				return err
			}
			if err := b.opts.Record(tx, "gateway.push.unsubscribed", by, packet.Unsubscribed{ID: id, Reason: why}); err != nil {
				return err
			}
		}
		tx.OnCommit(func() { // Load may have read them meanwhile
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, id := range ids {
				delete(b.subs, id)
			}
		})
		return nil
	})
}

// List returns the browsers in which a principal is told, newest first.
func (b *Book) List(who capabilities.PrincipalID) []Subscription {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []Subscription{}
	for _, s := range b.subs {
		if s.Principal == who {
			list = append(list, s.Subscription)
		}
	}
	sort.Slice(list, func(i, j int) bool {
		return cmp.Or(list[j].CreatedAt.Compare(list[i].CreatedAt), cmp.Compare(list[i].ID, list[j].ID)) < 0
	})
	return list
}

// revoked ends what hangs on a token or session; the store follows.
func (b *Book) revoked(token string) {
	b.mu.Lock()
	for id, s := range b.subs {
		if s.session == token || s.parent == token {
			delete(b.subs, id)
			b.over = append(b.over, id)
		}
	}
	b.mu.Unlock()
	b.wake()
}

func (b *Book) wake() {
	select {
	case b.woken <- struct{}{}:
	default:
	}
}
