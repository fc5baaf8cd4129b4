package rest

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/signin"
)

// SignIns are the gateway's sign-ins at other people's authorization servers; gateway/signin
// implements it.
type SignIns interface {
	List(ctx context.Context) ([]signin.SignIn, error)
	Begin(ctx context.Context, in signin.Wish) (signin.Started, error)
	Finish(ctx context.Context, a signin.Answer) (signin.SignIn, error)
	Remove(ctx context.Context, by capabilities.PrincipalID, name string) error
}

func (s *Server) signInTable() []*endpoint {
	return []*endpoint{
		serveJSON(endpoint{
			method: get, path: "/v1/sign-ins", action: principal.ActReadProviders,
			summary: "Sign-ins at the authorization servers of MCP servers; no token is among them",
		}, s.signIns),
		serveJSON(endpoint{
			method: post, path: "/v1/sign-ins", action: principal.ActProviders, does: "tool.admin.sign-in-begin",
			summary: "Begin to sign in: the address where a person says yes in their browser",
		}, s.beginSignIn),
		serveJSON(endpoint{
			method: post, path: "/v1/sign-ins/finish", action: principal.ActProviders, does: "tool.admin.sign-in-finish",
			summary: "Finish a sign-in with what the browser was sent back with; the session that began it, once",
		}, s.finishSignIn),
		serveJSON(endpoint{
			method: remove, path: "/v1/sign-ins/{sign_in}", action: principal.ActProviders, does: "tool.admin.sign-in-remove",
			summary: "End a sign-in: its tokens are revoked and forgotten",
		}, s.removeSignIn),
	}
}

func viewSignIn(s *signin.SignIn) api.SignIn {
	return api.SignIn{
		Name: s.Name, Server: s.Server, Net: s.Net, Resource: s.Resource, Issuer: s.Issuer, Client: s.Client, Secret: s.Secret(), By: s.By,
		At: s.At, Until: s.Until, Ended: s.Ended,
	}
}

func (s *Server) signIns(c *visit, _ none) (api.SignInList, error) {
	all, err := s.opts.SignIns.List(c.r.Context())
	list := api.SignInList{SignIns: make([]api.SignIn, 0, len(all))}
	for i := range all {
		list.SignIns = append(list.SignIns, viewSignIn(&all[i]))
	}
	return list, err
}

func (s *Server) beginSignIn(c *visit, in api.BeginSignIn) (api.StartedSignIn, error) {
	started, err := s.opts.SignIns.Begin(c.r.Context(), signin.Wish{
		Name: in.Name, Server: in.Server, Client: in.Client, Net: in.Net, Back: front.Origin(c.r) + front.SignInPath, Session: c.who.TokenID,
		By: c.who.Principal,
	})
	return api.StartedSignIn{
		Address: started.Address, Issuer: started.Issuer, Host: started.Host, Scopes: started.Scopes, Redirect: started.Back,
		Until: started.Until,
	}, err
}

func (s *Server) finishSignIn(c *visit, in api.FinishSignIn) (api.SignIn, error) {
	one, err := s.opts.SignIns.Finish(c.r.Context(),
		signin.Answer{Place: in.Place, State: in.State, Code: in.Code, Issuer: in.Issuer, Error: in.Error, Session: c.who.TokenID})
	if err != nil {
		return api.SignIn{}, err
	}
	return viewSignIn(&one), nil
}

func (s *Server) removeSignIn(c *visit, _ none) (api.ProviderDone, error) {
	name := c.r.PathValue("sign_in")
	return api.ProviderDone{Name: name, Status: "removed"}, s.opts.SignIns.Remove(c.r.Context(), c.who.Principal, name)
}
