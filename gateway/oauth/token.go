package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
)

// fault is a refusal as RFC 6749, section 5.2, has it.
type fault struct {
	code, about string
	client      string // whose attempt it is, where that is known
}

// form reads the parameters of the token or revocation endpoint: of the body alone, each once.
func form(w http.ResponseWriter, r *http.Request) (url.Values, *fault) {
	if r.URL.RawQuery != "" {
		return nil, &fault{code: "invalid_request", about: "Codes and tokens must not be in an address."}
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, &fault{code: "invalid_request", about: "The body must be application/x-www-form-urlencoded."}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		return nil, &fault{code: "invalid_request", about: "The form cannot be read."}
	}
	for name, values := range r.PostForm {
		if len(values) > 1 {
			return nil, &fault{code: "invalid_request", about: "A parameter is there more than once: " + safe(name)}
		}
	}
	return r.PostForm, nil
}

// safe is a parameter's name as it may be told.
func safe(name string) string {
	if len(name) > 40 || strings.ContainsFunc(name, func(c rune) bool { return c != '_' && (c < 'a' || c > 'z') }) {
		return "one of another name than OAuth's."
	}
	return name + "."
}

// token is the token endpoint.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	what := Fetched
	f, bad := form(w, r)
	var rec *principal.Token
	var refresh string
	if bad == nil {
		switch f.Get("grant_type") {
		case "authorization_code":
			rec, refresh, bad = s.exchange(r.Context(), s.opts.Base(r), f)
		case "refresh_token":
			what = Refreshed
			rec, refresh, bad = s.refresh(r.Context(), s.opts.Base(r), f)
		default:
			bad = &fault{code: "unsupported_grant_type", about: "grant_type is authorization_code or refresh_token."}
		}
	}
	if bad != nil {
		status := http.StatusBadRequest
		if bad.code == "server_error" {
			status = http.StatusServiceUnavailable
		}
		s.note(r, Step{What: what, Client: bad.client, Fault: bad.about})
		writeError(w, status, bad.code, bad.about)
		return
	}
	s.note(r, Step{What: what, Client: rec.Client})
	until := s.opts.Now().Add(accessLife)
	if !rec.ExpiresAt.IsZero() && rec.ExpiresAt.Before(until) {
		until = rec.ExpiresAt
	}
	write(w, http.StatusOK, map[string]any{
		"access_token": s.newAccess(rec.ID, until), "token_type": "Bearer", "expires_in": int(until.Sub(s.opts.Now()).Seconds()),
		"refresh_token": refresh, "scope": strings.ReplaceAll(rec.Tools, ",", " "),
	})
}

// exchange returns the tokens of a code: once, to the client that it was made for, with its
// verifier.
func (s *Server) exchange(ctx context.Context, base string, f url.Values) (*principal.Token, string, *fault) {
	hash := sha256.Sum256([]byte(f.Get("code")))
	s.mu.Lock()
	c := s.codes[hash]
	again := c != nil && c.used
	if c != nil {
		c.used = true
	}
	s.mu.Unlock()
	if c == nil {
		return nil, "", &fault{code: "invalid_grant", about: "The code is not known, or older than a minute."}
	}
	// A code that comes twice, late or from somebody else has been in other hands: nobody is let in
	// by it, and who was is no more (RFC 6749, section 4.1.2; RFC 9700, section 4.5).
	bad := ""
	id := sha256.Sum256([]byte(f.Get("client_id")))
	sum := sha256.Sum256([]byte(f.Get("code_verifier")))
	verifier := base64.RawURLEncoding.EncodeToString(sum[:])
	switch {
	case again:
		bad = "The code was used before. The client is out, and has to be let in again."
	case !s.opts.Now().Before(c.until):
		bad = "The code is older than a minute."
	case subtle.ConstantTimeCompare(id[:], c.client[:]) != 1:
		bad = "The code was made for another client."
	case len(f.Get("code_verifier")) < 43 || len(f.Get("code_verifier")) > 128 ||
		subtle.ConstantTimeCompare([]byte(verifier), []byte(c.challenge)) != 1:
		bad = "The code_verifier is not that of the code_challenge."
	case f.Has("redirect_uri") && f.Get("redirect_uri") != c.redirect:
		bad = "The redirect_uri is not the one that the code went to."
	}
	rec, _, err := s.opts.Tokens.Identify(c.token)
	if bad == "" && err != nil {
		bad = "The client was taken out meanwhile."
	}
	if bad != "" {
		s.withdraw(ctx, c.token)
		return nil, "", &fault{"invalid_grant", bad, rec.Client}
	}
	if !forUs(f.Get("resource"), base) || rec.Audience != base+Resource {
		s.withdraw(ctx, c.token)
		return nil, "", &fault{"invalid_target", "The code is for " + rec.Audience + ".", rec.Client}
	}
	if err := s.rotate(ctx, &rec, 0); err != nil {
		s.withdraw(ctx, c.token)
		return nil, "", &fault{"server_error", "The gateway cannot write it down.", rec.Client}
	}
	return &rec, s.refreshToken(rec.ID, 1), nil
}

// refresh returns new tokens for the latest refresh token. One that was used before ends the
// client: somebody else has it, too (RFC 9700, section 4.14.2). But an answer can be lost: the one
// before the latest is answered with the latest for a moment, which is no more than its holder had.
func (s *Server) refresh(ctx context.Context, base string, f url.Values) (*principal.Token, string, *fault) {
	token, generation, ok := s.readRefresh(f.Get("refresh_token"))
	if !ok {
		return nil, "", &fault{code: "invalid_grant", about: "The refresh token is not one of this gateway."}
	}
	s.rotating.Lock()
	defer s.rotating.Unlock()
	rec, _, err := s.opts.Tokens.Identify(token)
	if err != nil {
		return nil, "", &fault{code: "invalid_grant", about: "The client was taken out, or its time is over."}
	}
	have, err := s.row(ctx, token)
	if err != nil {
		return nil, "", &fault{"server_error", "The gateway cannot read what it keeps of the client.", rec.Client}
	}
	id := sha256.Sum256([]byte(f.Get("client_id")))
	if subtle.ConstantTimeCompare(id[:], have.client) != 1 {
		return nil, "", &fault{"invalid_grant", "The refresh token is another client's.", rec.Client}
	}
	if !forUs(f.Get("resource"), base) || rec.Audience != base+Resource {
		return nil, "", &fault{"invalid_target", "The refresh token is for " + rec.Audience + ".", rec.Client}
	}
	switch {
	case generation == have.generation:
		if err := s.rotate(ctx, &rec, generation); err != nil {
			return nil, "", &fault{"server_error", "The gateway cannot write it down.", rec.Client}
		}
		return &rec, s.refreshToken(token, generation+1), nil
	case generation == have.generation-1 && generation > 0 && s.opts.Now().Before(have.rotated.Add(refreshTwin)):
		return &rec, s.refreshToken(token, have.generation), nil
	}
	s.opts.Log.Warn("oauth.reused", "token_id", token, "principal", rec.Principal, "client", rec.Client)
	s.withdraw(ctx, token)
	return nil, "", &fault{"invalid_grant", "The refresh token was used before. The client is out, and has to be let in again.", rec.Client}
}

// rotate makes the refresh token after generation the latest.
func (s *Server) rotate(ctx context.Context, rec *principal.Token, generation int64) error {
	return s.opts.Store.Write(ctx, func(tx *store.Tx) error {
		n, err := tx.Exec(`UPDATE oauth_client SET generation = $1, rotated_at = $2 WHERE token_id = $3 AND generation = $4`, generation+1,
			s.opts.Now().UnixMilli(), rec.ID, generation)
		if err != nil {
			return err
		}
		if n != 1 {
			return errRotated
		}
		return s.opts.Record(tx, "token.refreshed", rec.Principal, packetOf(rec))
	})
}
