package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Wish is what a person lets a client do.
type Wish struct {
	Query     string // what the client sent the browser with
	Principal capabilities.PrincipalID
	Lane      capabilities.LaneID
	Face      principal.Face
	TTL       time.Duration
	Tools     []string // families
}

// code is one that waits to be fetched, or was.
type code struct {
	token     string // the ID of the client's token
	client    [sha256.Size]byte
	redirect  string
	challenge string
	until     time.Time
	used      bool
}

// Allow lets a client in, and returns where the person's browser goes with the code.
func (s *Server) Allow(r *http.Request, by principal.Identity, w Wish) (principal.Token, string, error) {
	base := s.opts.Base(r)
	a, err := s.Read(r.Context(), base, w.Query)
	if err == nil && a.Fault != "" {
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "%s", a.About)
	}
	if err != nil {
		s.note(r, Step{What: Allowed, Fault: capabilities.AsError(err).PublicMessage()})
		return principal.Token{}, "", err
	}
	words := a.Client.Words(a.Redirect)
	s.drop(r.Context())
	s.mu.Lock()
	full := len(s.codes) >= maxCodes
	s.mu.Unlock()
	if full {
		return principal.Token{}, "", capabilities.Errorf(capabilities.CodeOverloaded, "%d clients were let in within ten minutes", maxCodes)
	}
	id := sha256.Sum256([]byte(a.Client.ID))
	spec := principal.ClientSpec{
		Spec:   principal.Spec{Principal: w.Principal, Lane: w.Lane, TTL: w.TTL, Face: w.Face},
		Client: words, Audience: a.Audience, Tools: w.Tools,
	}
	rec, err := s.opts.Tokens.Connect(r.Context(), by, spec, func(tx *store.Tx, t principal.Token) error {
		_, err := tx.Exec(`INSERT INTO oauth_client (token_id, client, generation, rotated_at) VALUES ($1, $2, 0, $3)`, t.ID, id[:],
			s.opts.Now().UnixMilli())
		return err
	})
	if err != nil {
		s.note(r, Step{What: Allowed, Client: words, Fault: capabilities.AsError(err).PublicMessage()})
		return principal.Token{}, "", err
	}
	var b [32]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	text := base64.RawURLEncoding.EncodeToString(b[:])
	s.mu.Lock()
	s.codes[sha256.Sum256([]byte(text))] = &code{
		token: rec.ID, client: id, redirect: a.Redirect, challenge: a.challenge, until: s.opts.Now().Add(codeLife),
	}
	s.mu.Unlock()
	s.note(r, Step{What: Allowed, Client: words})
	s.opts.Log.Info("oauth.allowed", "token_id", rec.ID, "principal", rec.Principal, "client", words, "by", by.Principal)
	return rec, a.answer(url.Values{"code": {text}}), nil
}

// Refuse returns where the person's browser goes when they let a client not in.
func (s *Server) Refuse(r *http.Request, by principal.Identity, query string) (string, error) {
	a, err := s.Read(r.Context(), s.opts.Base(r), query)
	if err != nil {
		return "", err
	}
	fault, about := "access_denied", "A person did not let the client in."
	if a.Fault != "" {
		fault, about = a.Fault, a.About
	}
	s.note(r, Step{What: Denied, Client: a.Client.Words(a.Redirect), Fault: about})
	s.opts.Log.Info("oauth.denied", "client", a.Client.Words(a.Redirect), "by", by.Principal)
	return a.Back(fault, about), nil
}

// Asked returns what a client asks, for the page that asks the person.
func (s *Server) Asked(r *http.Request, query string) (*Ask, error) {
	a, err := s.Read(r.Context(), s.opts.Base(r), query)
	if err != nil {
		s.note(r, Step{What: Asked, Fault: capabilities.AsError(err).PublicMessage()})
		return nil, err
	}
	s.note(r, Step{What: Asked, Client: a.Client.Words(a.Redirect), Fault: a.About})
	return a, nil
}

// drop forgets codes that are over. A client that did not fetch its own is let in no more.
func (s *Server) drop(ctx context.Context) {
	now := s.opts.Now()
	var unfetched []string
	s.mu.Lock()
	for hash, c := range s.codes {
		switch {
		case !c.used && !now.Before(c.until):
			unfetched = append(unfetched, c.token)
			delete(s.codes, hash)
		case c.used && !now.Before(c.until.Add(keepCode)):
			delete(s.codes, hash)
		}
	}
	s.mu.Unlock()
	for _, id := range unfetched {
		s.withdraw(ctx, id)
	}
}

// Run ends clients that did not fetch their code, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	tick := time.NewTicker(codeLife)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.drop(ctx)
		}
	}
}

// withdraw ends a client's token; what cannot be written down now is tried at the next start.
func (s *Server) withdraw(ctx context.Context, tokenID string) {
	if err := s.opts.Tokens.Withdraw(context.WithoutCancel(ctx), tokenID); err != nil {
		s.opts.Log.Error("oauth.withdraw", "token_id", tokenID, "err", err)
	}
}
