package signin

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// found is an authorization server, and what a server wants of a token.
type found struct {
	Resource string // RFC 8707; what the token is for
	Scopes   []string
	meta     *oauthex.AuthServerMeta
}

// discover asks a server which authorization server it trusts (RFC 9728), and that one where its
// endpoints are (RFC 8414).
func (w *way) discover(ctx context.Context, server *url.URL) (*found, error) {
	about, scope, err := w.resource(ctx, server)
	if err != nil {
		return nil, err
	}
	if len(about.AuthorizationServers) == 0 {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "the server names no authorization server")
	}
	issuer := about.AuthorizationServers[0]
	if _, err := w.parse("authorization server", issuer); err != nil {
		return nil, err
	}
	meta, err := auth.GetAuthServerMetadata(ctx, issuer, w.client)
	if err != nil || meta == nil {
		return nil, w.failed("The authorization server's metadata cannot be read.")
	}
	if !slices.Contains(meta.CodeChallengeMethodsSupported, "S256") {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "the authorization server knows no PKCE with S256")
	}
	for what, raw := range map[string]string{"authorization endpoint": meta.AuthorizationEndpoint, "token endpoint": meta.TokenEndpoint} {
		if _, err := w.parse(what, raw); err != nil {
			return nil, err
		}
	}
	if err := w.own(issuer, meta.AuthorizationEndpoint); err != nil {
		return nil, err
	}
	for what, raw := range map[string]string{
		"registration endpoint": meta.RegistrationEndpoint, "revocation endpoint": meta.RevocationEndpoint,
	} {
		if raw == "" {
			continue
		}
		if _, err := w.parse(what, raw); err != nil {
			return nil, err
		}
	}
	f := &found{Resource: about.Resource, Scopes: strings.Fields(scope), meta: meta}
	if len(f.Scopes) == 0 {
		f.Scopes = about.ScopesSupported
	}
	if slices.Contains(meta.ScopesSupported, "offline_access") && !slices.Contains(f.Scopes, "offline_access") {
		f.Scopes = append(slices.Clip(f.Scopes), "offline_access") // a token that can be refreshed
	}
	return f, nil
}

// own refuses an authorization endpoint that is not at its issuer: a server could name another
// one's, where a person would say yes to what they were not told, and its answer would come here
// (RFC 9700, 4.4).
func (w *way) own(issuer, endpoint string) error {
	at, err := w.parse("authorization server", issuer)
	if err != nil {
		return err
	}
	leads, err := w.parse("authorization endpoint", endpoint)
	if err != nil {
		return err
	}
	if !egress.SameOrigin(at, leads) {
		return capabilities.Errorf(capabilities.CodeForbidden, "the authorization server %.200s sends people to %.200s, which is another site",
			egress.HostOf(at), egress.HostOf(leads)).
			WithHint("Ask whoever runs the server: its authorization endpoint has to be at its issuer.")
	}
	return nil
}

// resource reads what a server says of itself, at the address that its refusal names or at one
// that is well known; scope is what the refusal asks for.
func (w *way) resource(ctx context.Context, server *url.URL) (about *oauthex.ProtectedResourceMetadata, scope string, err error) {
	origin := url.URL{Scheme: server.Scheme, Host: server.Host}
	known := origin
	known.Path = "/.well-known/oauth-protected-resource"
	type place struct{ at, of string }
	places := []place{{known.String(), origin.String()}}
	if path := strings.Trim(server.Path, "/"); path != "" {
		known.Path += "/" + path
		places = slices.Insert(places, 0, place{known.String(), server.String()})
	}
	named, scope, err := w.challenge(ctx, server)
	if err != nil {
		return nil, "", err
	}
	if named != "" {
		if _, err := w.parse("resource metadata", named); err != nil {
			return nil, "", err
		}
		places = slices.Insert(places, 0, place{named, server.String()})
	}
	for _, p := range places {
		if about, err = oauthex.GetProtectedResourceMetadata(ctx, p.at, p.of, w.client); err == nil {
			return about, scope, nil
		}
	}
	return nil, "", w.failed("The server does not say at which authorization server to sign in.")
}

// challenge asks the server without a token, and returns what its refusal names.
func (w *way) challenge(ctx context.Context, server *url.URL) (metadata, scope string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.String(), nil)
	if err != nil {
		return "", "", capabilities.AsError(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := w.client.Do(r)
	if err != nil {
		return "", "", w.failed("The server cannot be reached.")
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		return "", "", nil
	}
	all, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil {
		return "", "", nil // what cannot be read names nothing; the well-known addresses are left
	}
	for _, c := range all {
		if c.Scheme == "bearer" {
			return c.Params["resource_metadata"], c.Params["scope"], nil
		}
	}
	return "", "", nil
}

// register has the authorization server know the gateway (RFC 7591).
func (w *way) register(ctx context.Context, f *found, redirect string) (id, secret string, err error) {
	if f.meta.RegistrationEndpoint == "" {
		return "", "", capabilities.Errorf(capabilities.CodeNotSupported, "the authorization server registers no clients by itself").
			WithHint("Register Handrail there with the redirect address " + redirect + " and give the client ID.")
	}
	got, err := oauthex.RegisterClient(ctx, f.meta.RegistrationEndpoint, &oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: "none", GrantTypes: []string{"authorization_code", "refresh_token"},
		ResponseTypes: []string{"code"}, ClientName: "Handrail", ApplicationType: "web", Scope: strings.Join(f.Scopes, " "),
	}, w.client)
	if err != nil {
		return "", "", w.failed("The authorization server did not register the gateway.")
	}
	return got.ClientID, got.ClientSecret, nil
}
