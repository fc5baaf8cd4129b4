package principal

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/handrail-dev/handrail/capabilities"
)

const (
	// A user's password may be tried this often, from wherever; then once in guessRefill.
	guessBurst   = 20
	guessRefill  = time.Minute
	guessBuckets = 4096
)

// guesses bounds how often a name's password is tried, whoever tries and whether or
// not there is such a user. Names share a few thousand budgets, each by a digest that
// nobody can choose. The other ways in stay open.
type guesses struct {
	key [sha256.Size]byte

	mu      sync.Mutex // guards what follows
	buckets [guessBuckets]*rate.Limiter
}

func newGuesses() *guesses {
	g := &guesses{}
	rand.Read(g.key[:]) // never fails (crypto/rand)
	return g
}

func (g *guesses) allow(name string, now time.Time) bool {
	mac := hmac.New(sha256.New, g.key[:])
	mac.Write([]byte(name))
	at := binary.BigEndian.Uint16(mac.Sum(nil)) % guessBuckets
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.buckets[at] == nil {
		g.buckets[at] = rate.NewLimiter(rate.Every(guessRefill), guessBurst)
	}
	return g.buckets[at].AllowN(now, 1)
}

// SignIn opens a session with a password. Every failure is the same
// CodeUnauthenticated after the same work, whether or not there is such a user;
// CodeOverloaded when too many try, or this name was tried too often.
func (t *Tokens) SignIn(ctx context.Context, name string, p Password) (Token, Secret, error) {
	if !t.guesses.allow(name, t.opts.Now()) {
		return Token{}, Secret{}, capabilities.Errorf(capabilities.CodeOverloaded, "this name's password was tried too often").
			WithAction(capabilities.Action{Key: capabilities.ActionSignIn}, "Wait a minute, or sign in with a passkey or by a link.")
	}
	hash := ""
	t.mu.RLock()
	u, err := t.userLocked(capabilities.PrincipalID(name))
	if err == nil {
		hash = u.password
	}
	t.mu.RUnlock()
	right, err := t.hasher.verify(ctx, hash, p)
	if err != nil {
		return Token{}, Secret{}, err
	}
	if !right {
		return Token{}, Secret{}, capabilities.Errorf(capabilities.CodeUnauthenticated, "name or password is wrong").
			WithAction(capabilities.Action{Key: capabilities.ActionSetPassword}, "An admin can set a new one.")
	}
	return t.openSession(ctx, u.TokenID, u.Principal, u.Role, capabilities.LaneID(u.Principal), byPassword)
}

// SignInPasskey opens a session for the user of a key that was verified.
func (t *Tokens) SignInPasskey(ctx context.Context, id string, count uint32) (Token, Secret, error) {
	u, _, _, err := t.Passkey(id)
	if err == nil {
		err = t.inside(u.Principal)
	}
	if err != nil {
		return Token{}, Secret{}, err
	}
	if err := t.UsedPasskey(ctx, id, count); err != nil {
		return Token{}, Secret{}, err
	}
	return t.openSession(ctx, u.TokenID, u.Principal, u.Role, capabilities.LaneID(u.Principal), byPasskey)
}
