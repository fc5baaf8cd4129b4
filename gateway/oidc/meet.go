package oidc

import (
	"context"
	"net/http"
	"slices"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// Bounds of what the provider says.
const (
	maxAddress = 2 << 10
	maxAnswer  = 256 << 10
	askTime    = 20 * time.Second
)

// met is the provider as its metadata has it.
type met struct {
	*gooidc.Provider
	client   *http.Client
	endpoint oauth2.Endpoint
	verifier *gooidc.IDTokenVerifier
	says     bool // it names itself in its answers (RFC 9207)
}

// meet reads the provider's metadata, or returns what it read within the hour.
func (p *Provider) meet(ctx context.Context) (*met, error) {
	p.meeting.Lock()
	defer p.meeting.Unlock()
	if p.opts.Now().Before(p.until) {
		return p.known, p.failed
	}
	known, err := p.read(ctx)
	if ctx.Err() != nil { // whoever asked left; that says nothing of the provider
		return nil, capabilities.AsError(ctx.Err())
	}
	if p.known != nil {
		p.known.client.CloseIdleConnections()
	}
	p.known, p.failed, p.until = known, err, p.opts.Now().Add(metadataLife)
	if err != nil {
		p.until = p.opts.Now().Add(metadataRest)
	}
	return known, err
}

// read reads the metadata (OpenID Connect Discovery, section 4). The issuer in it has to be the one
// that the admin named, and each endpoint has to be one that may be asked.
func (p *Provider) read(ctx context.Context) (*met, error) {
	way, err := egress.NewPublicWay([]string{egress.HostOf(p.issuer)}, "--oidc-issuer")
	if err != nil {
		return nil, err
	}
	m := &met{client: &http.Client{
		Transport: way.Transport(egress.TransportOptions{MaxBytes: maxAnswer, HeaderTimeout: askTime}), Timeout: askTime,
		// A redirect is somebody else's word for where codes and secrets go.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if m.Provider, err = gooidc.NewProvider(gooidc.ClientContext(ctx, m.client), p.opts.Issuer); err != nil {
		p.opts.Log.Warn("oidc.metadata", "issuer", p.opts.Issuer, "refused", len(way.Refused()))
		return nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "the OpenID provider %s cannot be asked, or names itself otherwise",
			p.Host()).WithHint("Look at its address: its metadata has to name that very issuer.")
	}
	var more struct {
		Keys    string   `json:"jwks_uri"`
		Says    bool     `json:"authorization_response_iss_parameter_supported"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
		PKCE    []string `json:"code_challenge_methods_supported"`
	}
	if err := m.Claims(&more); err != nil {
		return nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "the metadata of %s cannot be read", p.Host())
	}
	m.endpoint, m.says = m.Endpoint(), more.Says
	m.endpoint.AuthStyle = oauth2.AuthStyleInHeader // its default
	if p.opts.Secret == "" || len(more.Methods) > 0 && !slices.Contains(more.Methods, "client_secret_basic") {
		m.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	endpoints := map[string]string{"authorization endpoint": m.endpoint.AuthURL, "token endpoint": m.endpoint.TokenURL, "jwks_uri": more.Keys}
	if at := m.UserInfoEndpoint(); at != "" {
		endpoints["userinfo endpoint"] = at
	}
	for what, at := range endpoints {
		if !p.askable(at) {
			return nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "the %s of %s is not an https address", what, p.Host())
		}
	}
	m.verifier = m.Verifier(&gooidc.Config{ClientID: p.opts.Client, Now: p.opts.Now})
	return m, nil
}

// askable reports whether an endpoint is https, or as the issuer itself is.
func (p *Provider) askable(at string) bool {
	u, ok := address.Web(at)
	return ok && len(at) <= maxAddress && (u.Scheme == "https" || u.Scheme == p.issuer.Scheme && egress.SameOrigin(u, p.issuer))
}
