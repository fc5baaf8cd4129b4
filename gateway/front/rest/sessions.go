package rest

import (
	"errors"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/principal"
)

func (s *Server) login(c *visit, in api.LogIn) (api.SignInLink, error) {
	if err := s.maySignIn(c, principal.Role(in.Role)); err != nil {
		return api.SignInLink{}, err
	}
	code, expires, err := s.opts.Tokens.Login(c.who, principal.Role(in.Role))
	if err != nil {
		return api.SignInLink{}, err
	}
	return s.linkOf(code, expires), nil
}

// linkOf is the link of a one-time code.
func (s *Server) linkOf(code principal.Secret, expires time.Time) api.SignInLink {
	site := s.opts.Site()
	return api.SignInLink{Code: code.Reveal(), URL: site.BaseURL + "/console/login#" + code.Reveal(), Expires: expires, Public: site.PublicURL}
}

// maySignIn refuses sessions that can widen anything from a device that an agent has in
// its hands. A viewer's cannot, and who lent a device has to be able to look on.
func (s *Server) maySignIn(c *visit, role principal.Role) error {
	if role == "" {
		role = c.who.Role
	}
	if role == principal.RoleViewer || s.opts.Elsewhere == nil {
		return nil
	}
	err := s.opts.Elsewhere(c.r, "")
	if e := (*capabilities.Error)(nil); errors.As(err, &e) {
		return e.WithAdvice("To look on meanwhile, sign in as a viewer.")
	}
	return err
}

func (s *Server) whoami(c *visit, _ none) (api.Caller, error) {
	rec, err := s.opts.Tokens.Get(c.who.TokenID)
	caller := api.Caller{
		Token: rec.ID, Principal: c.who.Principal, Role: string(c.who.Role), Lane: c.who.Lane, Expires: rec.ExpiresAt, Session: rec.Parent != "",
	}
	if s.opts.Workers != nil && err == nil {
		caller.Bus = s.opts.Workers.Way(c.r.Context(), rec.ID)
	}
	return caller, err
}
