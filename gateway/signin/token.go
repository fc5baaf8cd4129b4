package signin

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Times of refreshing.
const (
	early      = time.Minute // before a token ends
	pace       = time.Minute // between two of one sign-in, whatever its server says of lives
	longestNap = time.Hour
)

// tokens are what a token endpoint gave.
type tokens struct {
	access, refresh, client string
	life                    time.Duration
}

// over are the errors of a token endpoint after which no further try helps (RFC 6749, 5.2).
var over = []string{"invalid_grant", "invalid_client", "unauthorized_client", "invalid_target"}

// ask makes one request of the token endpoint. Its words are in no error: they may hold what was
// sent.
func (b *Book) ask(ctx context.Context, w *way, s *SignIn, client string, form url.Values) (*tokens, error) {
	at, err := w.parse("token endpoint", s.Token)
	if err != nil {
		return nil, err
	}
	form.Set("client_id", s.Client)
	form.Set("resource", s.Resource)
	if client != "" {
		form.Set("client_secret", client)
	}
	status, body, err := w.post(ctx, at, form)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Access  string  `json:"access_token"`
		Kind    string  `json:"token_type"`
		Refresh string  `json:"refresh_token"`
		Life    float64 `json:"expires_in"`
		Error   string  `json:"error"`
	}
	err = json.Unmarshal(body, &answer)
	clear(body)
	switch {
	case err == nil && status >= 400 && status < 500 && slices.Contains(over, answer.Error):
		return nil, capabilities.Errorf(capabilities.CodeSecretUnavailable, "the authorization server refused: %s", answer.Error).
			WithHint("Sign in again on the page Providers.")
	case err != nil || status != http.StatusOK:
		return nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "the authorization server answered with status %d", status)
	case !bearer(answer.Kind) || !tokenText(answer.Access) || answer.Refresh != "" && !tokenText(answer.Refresh):
		return nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "the authorization server returned no bearer token")
	}
	t := &tokens{access: answer.Access, refresh: answer.Refresh, client: client}
	s.Until, s.Ended = time.Time{}, ""
	if answer.Life > 0 && answer.Life < 10*365*86400 {
		t.life = time.Duration(answer.Life) * time.Second
		s.Until = b.opts.Now().Add(t.life).UTC()
	}
	return t, nil
}

// tokenText reports whether a token can stand in a header (RFC 6750, 2.1) and be kept.
func tokenText(s string) bool {
	return len(s) >= 8 && len(s) <= capabilities.MaxSecret && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func (w *way) post(ctx context.Context, at *url.URL, form url.Values) (status int, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return 0, nil, capabilities.Errorf(capabilities.CodeInternal, "the request could not be made")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	resp, err := w.client.Do(r)
	if err != nil {
		return 0, nil, w.failed("The authorization server does not answer, or redirects.")
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, w.failed("The authorization server's answer cannot be read.")
	}
	return resp.StatusCode, body, nil
}

// due is when a sign-in's token is to be refreshed; zero: never.
func (s *SignIn) due() time.Time {
	if s.Ended != "" || s.Until.IsZero() {
		return time.Time{}
	}
	return s.Until.Add(-early)
}

// Run keeps access tokens fresh until ctx ends, one at a time.
func (b *Book) Run(ctx context.Context) error {
	later := map[string]time.Time{}
	for {
		next := b.round(ctx, later)
		if ctx.Err() != nil {
			return nil
		}
		nap := time.NewTimer(next.Sub(b.opts.Now()))
		select {
		case <-ctx.Done():
			nap.Stop()
			return nil
		case <-b.news:
		case <-nap.C:
		}
		nap.Stop()
	}
}

// round refreshes what is due, and returns when something is next. later is before when no sign-in
// is refreshed again, by name.
func (b *Book) round(ctx context.Context, later map[string]time.Time) (next time.Time) {
	next = b.opts.Now().Add(longestNap)
	all, err := b.List(ctx)
	if err != nil && ctx.Err() == nil {
		b.opts.Log.Error("signin.list", "err", err)
	}
	for i := range all {
		s := &all[i]
		at := s.due()
		if at.IsZero() {
			continue
		}
		if l := later[s.Name]; l.After(at) {
			at = l
		}
		if !at.After(b.opts.Now()) {
			switch did, err := b.refresh(ctx, s.Name, s); {
			case err != nil:
				b.opts.Log.Warn("signin.refresh", "name", s.Name, "err", err)
			case did:
				b.opts.Renewed(ctx, s.Secret())
			}
			at = b.opts.Now().Add(pace)
			later[s.Name] = at
		}
		if at.Before(next) {
			next = at
		}
	}
	return next
}

// Refresh gets new tokens for old ones, which are good no more afterwards. A refusal ends the
// sign-in: a person has to do it again. An approval with its token stands: the name
// stays this server's, and another sign-in gives them that server's token again.
func (b *Book) Refresh(ctx context.Context, name string) error {
	_, err := b.refresh(ctx, name, nil)
	return err
}

// refresh is Refresh unless another gateway made another sign-in of seen meanwhile; it reports
// whether this one did.
func (b *Book) refresh(ctx context.Context, name string, seen *SignIn) (did bool, err error) {
	done, err := b.turn(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	s, h, err := b.get(ctx, name)
	if err != nil {
		return false, err
	}
	if seen != nil && (!s.Until.Equal(seen.Until) || s.Ended != seen.Ended) {
		return false, nil
	}
	end := func(why string) error {
		s.Ended = why
		if err := b.opts.Secrets.Lapse(ctx, s.By, s.Secret()); err != nil && capabilities.CodeOf(err) != capabilities.CodeNotFound {
			return err
		}
		return b.put(ctx, s.By, "gateway.sign_in.ended", &s, &tokens{})
	}
	if h.Refresh == "" {
		if b.opts.Now().Before(s.Until) {
			return true, nil
		}
		return true, end("its token ended, and it cannot be refreshed")
	}
	server, err := readAddress("server", s.Server)
	if err != nil {
		return false, err
	}
	w, err := newWay(server, s.Net)
	if err != nil {
		return false, err
	}
	t, err := b.ask(ctx, w, &s, h.Client, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {h.Refresh}})
	switch {
	case capabilities.CodeOf(err) == capabilities.CodeSecretUnavailable:
		return true, end("the authorization server ended it")
	case err != nil:
		return false, err
	}
	if t.refresh == "" {
		t.refresh = h.Refresh
	}
	return true, b.put(ctx, s.By, "", &s, t)
}

// revoke tells the authorization server that both tokens are good no more (RFC 7009): it may let
// one outlive the other.
func (b *Book) revoke(ctx context.Context, s *SignIn, h hidden) {
	if s.Revoke == "" {
		return
	}
	server, err := readAddress("server", s.Server)
	if err != nil {
		return
	}
	w, err := newWay(server, s.Net)
	if err != nil {
		return
	}
	at, err := w.parse("revocation endpoint", s.Revoke)
	if err != nil {
		return
	}
	for _, t := range []struct{ kind, token string }{{"refresh_token", h.Refresh}, {"access_token", h.Access}} {
		if t.token == "" {
			continue
		}
		form := url.Values{"token": {t.token}, "token_type_hint": {t.kind}, "client_id": {s.Client}}
		if h.Client != "" {
			form.Set("client_secret", h.Client)
		}
		status, _, err := w.post(ctx, at, form)
		if err != nil || status != http.StatusOK {
			b.opts.Log.Warn("signin.revoke", "name", s.Name, "token", t.kind, "status", status, "err", err)
		}
	}
}
