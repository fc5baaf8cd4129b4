package rest

import (
	"errors"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/principal"
)

type loginBody struct {
	Role principal.Role `json:"role,omitempty"` // at most the token's own, which is the default
}

// madeLogin is a one-time code for the console. In the link it stands behind the #,
// which browsers send to nobody and no log keeps.
type madeLogin struct {
	Code    string    `json:"code"`
	URL     string    `json:"url"`
	Expires time.Time `json:"expires_at"`
	// Public is the gateway's address for other devices, if it was told one.
	Public string `json:"public_url,omitempty"`
}

func (s *Server) login(c *visit, in loginBody) (madeLogin, error) {
	if err := s.maySignIn(c, in.Role); err != nil {
		return madeLogin{}, err
	}
	code, expires, err := s.opts.Tokens.Login(c.who, in.Role)
	if err != nil {
		return madeLogin{}, err
	}
	return s.linkOf(code, expires), nil
}

// linkOf is the link of a one-time code.
func (s *Server) linkOf(code principal.Secret, expires time.Time) madeLogin {
	site := s.opts.Site()
	return madeLogin{Code: code.Reveal(), URL: site.BaseURL + "/console/login#" + code.Reveal(), Expires: expires, Public: site.PublicURL}
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
