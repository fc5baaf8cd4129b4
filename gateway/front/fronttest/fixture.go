package fronttest

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/admin"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/lane"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Surface is a surface under test.
type Surface interface{ Mount(*front.Server) }

// runner is a surface with a life of its own.
type runner interface{ Run(context.Context) error }

// Front is a running front.
type Front struct {
	URL        string // such as "http://127.0.0.1:40123"
	Server     *front.Server
	Dispatcher *Dispatcher
	Tokens     *principal.Tokens
	Lanes      *lane.Lanes
	Store      *store.Store
	Ledger     *ledger.Ledger
	Clock      *Clock
	Log        *slog.Logger

	t      testing.TB
	cancel context.CancelFunc
	ended  sync.WaitGroup
	stop   sync.Once
}

// Clock is a clock that tests can push.
type Clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

// Now is the real time plus what Advance added.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

// Advance pushes the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// Prepare makes everything but the surfaces. Mount some, then Start.
func Prepare(t testing.TB) *Front {
	t.Helper()
	ctx := context.Background()
	cat, err := Catalog()
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(ctx, store.Options{
		Path: filepath.Join(t.TempDir(), "store.db"), ReserveBytes: -1,
		Migrations: slices.Concat(principal.Migrations(), lane.Migrations(), ledger.Migrations, consent.Migrations(), admin.Migrations(),
			rules.Migrations(), outcome.Migrations),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	f := &Front{t: t, Store: db, Dispatcher: NewDispatcher(cat), Clock: &Clock{}, Log: slog.New(slog.DiscardHandler)}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if f.Ledger, err = ledger.Open(ctx, ledger.Options{Store: db, Chain: "gateway", Key: key}); err != nil {
		t.Fatal(err)
	}
	record := func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) error {
		_, err := f.Ledger.AppendIn(tx, ledger.Draft{Kind: ledger.Kind(kind), Principal: by, Body: body})
		return err
	}
	if f.Tokens, err = principal.New(principal.Options{Store: db, Now: f.Clock.Now, Record: record}); err != nil {
		t.Fatal(err)
	}
	if f.Lanes, err = lane.New(lane.Options{Store: db, Now: f.Clock.Now, Record: record}); err != nil {
		t.Fatal(err)
	}
	f.Server, err = front.New(front.Options{Addr: "127.0.0.1:0", Tokens: f.Tokens, Now: f.Clock.Now, Log: f.Log})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Start mounts the surfaces and serves until the test ends.
func (f *Front) Start(surfaces ...Surface) *Front {
	f.t.Helper()
	if err := f.Server.Listen(); err != nil {
		f.t.Fatal(err)
	}
	f.URL = "http://" + f.Server.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	for _, s := range surfaces {
		s.Mount(f.Server)
	}
	for _, run := range append(runs(surfaces), f.Server.Run, f.Ledger.Run) {
		f.ended.Go(func() {
			if err := run(ctx); err != nil {
				f.t.Errorf("Run: %v", err)
			}
		})
	}
	f.t.Cleanup(f.Stop)
	return f
}

func runs(surfaces []Surface) []func(context.Context) error {
	list := make([]func(context.Context) error, 0, len(surfaces)+1)
	for _, s := range surfaces {
		if r, ok := s.(runner); ok {
			list = append(list, r.Run)
		}
	}
	return list
}

// Stop ends everything that Start started. Idempotent.
func (f *Front) Stop() {
	f.stop.Do(func() {
		f.cancel()
		f.ended.Wait()
	})
}

// Token makes a token of that role for that principal.
func (f *Front) Token(who capabilities.PrincipalID, role principal.Role) string {
	f.t.Helper()
	_, secret := f.Mint(principal.Spec{Principal: who, Role: role})
	return secret
}

// Mint makes a token.
func (f *Front) Mint(spec principal.Spec) (principal.Token, string) {
	f.t.Helper()
	rec, secret, err := f.Tokens.Create(context.Background(), principal.Site, spec)
	if err != nil {
		f.t.Fatal(err)
	}
	return rec, secret.Reveal()
}

// Client is an HTTP client that sends the token with every request.
func (f *Front) Client(token string) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 128 // as many as a benchmark has callers
	f.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: withToken{token, transport}}
}

type withToken struct {
	token string
	next  http.RoundTripper
}

// RoundTrip adds the token.
func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	return w.next.RoundTrip(r)
}
