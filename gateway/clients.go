package gateway

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/oauth"
	"github.com/handrail-dev/handrail/gateway/oidc"
)

// openClients makes the authorization server for clients that speak OAuth, and what people sign in
// by elsewhere.
func (g *Gateway) openClients(ctx context.Context) (err error) {
	g.Clients, err = oauth.New(oauth.Options{
		Store: g.Store, Tokens: g.Tokens, Key: g.clientKey, Authorize: front.AuthorizePath, Base: g.base, Record: g.recordBy,
		Hosts: g.opts.ClientHosts, Log: g.log,
	})
	if err != nil {
		return err
	}
	clear(g.clientKey)
	if err := g.Clients.Load(ctx); err != nil || g.opts.OIDC == nil {
		return err
	}
	g.OIDC, err = oidc.New(oidc.Options{Config: *g.opts.OIDC, People: g.Tokens, Secrets: g.Secrets.Own, Log: g.log})
	return err
}

// base is the address by which a request came: the one that other devices were promised, or that of
// the request. Its Host was checked at the door.
func (g *Gateway) base(r *http.Request) string {
	if u, err := url.Parse(g.opts.URL); err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
		return "https://" + u.Host
	}
	return front.Origin(r)
}
