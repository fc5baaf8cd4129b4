package rest

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/passkey"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Passkeys runs the ceremonies; gateway/passkey implements it.
type Passkeys interface {
	BeginRegister(ctx context.Context, by principal.Identity, at passkey.Place) (passkey.CreateOptions, error)
	Register(ctx context.Context, by principal.Identity, at passkey.Place, name string, answer []byte) (principal.Passkey, error)
	BeginApprove(by principal.Identity, at passkey.Place, what []byte, which passkey.Which) (passkey.GetOptions, error)
	Approve(ctx context.Context, by principal.Identity, at passkey.Place, what, answer []byte, which passkey.Which) error
}

// accountTable is how people get in: users, their passwords and passkeys, their
// sessions.
func (s *Server) accountTable() []*endpoint {
	return []*endpoint{
		serveJSON(endpoint{
			method: get, path: "/v1/users", action: principal.ActTokens, summary: "Users with a password or passkeys; never either",
		}, s.users),
		serveJSON(endpoint{
			method: post, path: "/v1/users", action: principal.ActTokens, does: "tool.admin.user-add",
			summary: "Make a user, who signs in with a password or, without one, by a link of theirs",
		}, s.addUser),
		serveJSON(endpoint{
			method: post, path: "/v1/users/{user}/link", action: principal.ActTokens, does: "tool.admin.user-link",
			summary: "Make a one-time link by which a user signs in as themselves; good for a day, and in place of an earlier one",
		}, s.welcome),
		serveJSON(endpoint{
			method: put, path: "/v1/users/{user}/password", action: principal.ActTokens, does: "tool.admin.user-password",
			summary: "Give a user another password; their sessions end",
		}, s.setPassword),
		serveJSON(endpoint{
			method: put, path: "/v1/users/{user}/role", action: principal.ActTokens, does: "tool.admin.user-role",
			summary: "Give a user another role; their sessions and tokens that may do more end at once",
		}, s.setRole),
		serveJSON(endpoint{
			method: remove, path: "/v1/users/{user}", action: principal.ActTokens, does: "tool.admin.user-remove",
			summary: "Remove a user; their sessions, their tokens and the grants that they have or gave end at once",
		}, s.removeUser),
		serveJSON(endpoint{
			method: remove, path: "/v1/users/{user}/sessions", action: principal.ActTokens, does: "tool.admin.user-sessions-end",
			summary: "End all sessions of a user",
		}, s.endUserSessions),

		serveJSON(endpoint{
			method: get, path: "/v1/account", action: principal.ActSession, summary: "One's own ways to sign in, and one's open sessions",
		}, s.account),
		serveJSON(endpoint{
			method: put, path: "/v1/account/password", action: principal.ActSession, does: "tool.admin.own-password",
			summary: "Give oneself a password, from a session that is fresh; the other sessions end",
		}, s.ownPassword),
		serveJSON(endpoint{
			method: post, path: "/v1/account/passkey-options", action: principal.ActSession,
			summary: "Return what an authenticator is asked to make a passkey of, from a session that is fresh",
		}, s.beginPasskey),
		serveJSON(endpoint{
			method: post, path: "/v1/account/passkeys", action: principal.ActSession, does: "tool.admin.own-passkey-add",
			summary: "Register the passkey that an authenticator made",
		}, s.addPasskey),
		serveJSON(endpoint{
			method: remove, path: "/v1/account/passkeys/{passkey}", action: principal.ActSession, does: "tool.admin.own-passkey-remove",
			summary: "Remove one of one's own passkeys",
		}, s.removePasskey),
		serveJSON(endpoint{method: remove, path: "/v1/account/sessions", action: principal.ActSession, summary: "Sign out everywhere, here too"},
			s.endSessions),
		serveJSON(endpoint{
			method: remove, path: "/v1/account/sessions/{session}", action: principal.ActSession, summary: "End one of one's own sessions",
		}, s.endSession),

		serveJSON(endpoint{method: post, path: "/v1/approvals/{approval}/passkey", action: principal.ActApprove,
			summary: "Return what a passkey is asked so that it confirms exactly this answer to this question"}, s.beginApproval),
		serveJSON(endpoint{method: post, path: "/v1/confirmations/answers", action: principal.ActApprove,
			summary: "Return what a passkey is asked so that it confirms exactly this answer to these questions"}, s.beginApprovals),
		serveJSON(endpoint{method: post, path: "/v1/confirmations", action: principal.ActApprove,
			summary: "Return what a passkey is asked so that it confirms exactly this request, which is then sent with its answer in " +
				front.PasskeyHeader + "; for tokens, grants, activations and the end of a stop, where an agent may have its hands"},
			s.beginConfirmation),
	}
}

func (s *Server) users(*visit, none) (api.UserList, error) {
	all := s.opts.Tokens.Users()
	list := api.UserList{Users: make([]api.User, 0, len(all))}
	for i := range all {
		list.Users = append(list.Users, front.ViewUser(&all[i]))
	}
	return list, nil
}

// shownUser is a user that was made or changed.
func shownUser(u principal.User, err error) (api.User, error) {
	if err != nil {
		return api.User{}, err
	}
	return front.ViewUser(&u), nil
}

func (s *Server) addUser(c *visit, in api.AddUser) (api.User, error) {
	var p principal.Password
	if in.Password != nil {
		var err error
		if p, err = principal.NewPassword(*in.Password); err != nil {
			return api.User{}, err
		}
	}
	if err := capabilities.ValidateName("principal", string(in.Principal), 128); err != nil {
		return api.User{}, err
	}
	if err := s.opts.Lanes.Claim(c.r.Context(), in.Principal, capabilities.LaneID(in.Principal)); err != nil {
		return api.User{}, err
	}
	return shownUser(s.opts.Tokens.AddUser(c.r.Context(), c.who, in.Principal, principal.Role(in.Role), p))
}

// welcome makes the link by which a user comes in.
func (s *Server) welcome(c *visit, _ none) (api.SignInLink, error) {
	code, expires, err := s.opts.Tokens.Welcome(c.r.Context(), c.who, capabilities.PrincipalID(c.r.PathValue("user")))
	if err != nil {
		return api.SignInLink{}, err
	}
	return s.linkOf(code, expires), nil
}

func (s *Server) setPassword(c *visit, in api.SetPassword) (api.User, error) {
	return s.changePassword(c, capabilities.PrincipalID(c.r.PathValue("user")), in)
}

func (s *Server) ownPassword(c *visit, in api.SetPassword) (api.User, error) {
	return s.changePassword(c, c.who.Principal, in)
}

func (s *Server) changePassword(c *visit, who capabilities.PrincipalID, in api.SetPassword) (api.User, error) {
	p, err := principal.NewPassword(in.Password)
	if err != nil {
		return api.User{}, err
	}
	return shownUser(s.opts.Tokens.SetPassword(c.r.Context(), c.who, who, p))
}

func (s *Server) setRole(c *visit, in api.SetRole) (api.User, error) {
	return shownUser(s.opts.Tokens.SetRole(c.r.Context(), c.who, capabilities.PrincipalID(c.r.PathValue("user")), principal.Role(in.Role)))
}

func (s *Server) removeUser(c *visit, _ none) (api.RemovedUser, error) {
	gone, err := s.opts.Tokens.RemoveUser(c.r.Context(), c.who, capabilities.PrincipalID(c.r.PathValue("user")))
	return api.RemovedUser{User: front.ViewUser(&gone.User), Ended: gone.Ended, Made: gone.Made}, err
}

func (s *Server) endUserSessions(c *visit, _ none) (api.EndedSessions, error) {
	n, err := s.opts.Tokens.EndSessions(c.r.Context(), c.who, capabilities.PrincipalID(c.r.PathValue("user")), "")
	return api.EndedSessions{Ended: n}, err
}

func (s *Server) account(c *visit, _ none) (api.Account, error) {
	v := api.Account{
		Principal: c.who.Principal, Role: c.who.Role.String(), Passkeys: []api.Passkey{},
		Sessions: front.ViewTokens(s.opts.Tokens.Sessions(c.who.Principal)),
	}
	if u, err := s.opts.Tokens.User(c.who.Principal); err == nil {
		v.Password, v.Passkeys = u.Password, front.ViewPasskeys(u.Passkeys)
	}
	rec, err := s.opts.Tokens.Get(c.who.TokenID)
	if err == nil && rec.Parent != "" {
		v.Session, v.FreshUntil = rec.ID, rec.CreatedAt.Add(principal.FreshFor)
	}
	return v, err
}

func (s *Server) beginPasskey(c *visit, _ none) (passkey.CreateOptions, error) {
	at, err := passkey.At(front.Origin(c.r))
	if err != nil {
		return passkey.CreateOptions{}, err
	}
	return s.opts.Passkeys.BeginRegister(c.r.Context(), c.who, at)
}

func (s *Server) addPasskey(c *visit, in api.AddPasskey) (api.Passkey, error) {
	at, err := passkey.At(front.Origin(c.r))
	if err != nil {
		return api.Passkey{}, err
	}
	made, err := s.opts.Passkeys.Register(c.r.Context(), c.who, at, in.Name, in.Credential)
	return front.ViewPasskey(&made), err
}

func (s *Server) removePasskey(c *visit, _ none) (api.RemovedPasskey, error) {
	id := c.r.PathValue("passkey")
	return api.RemovedPasskey{Passkey: id}, s.opts.Tokens.RemovePasskey(c.r.Context(), c.who, id)
}

func (s *Server) endSessions(c *visit, _ none) (api.EndedSessions, error) {
	n, err := s.opts.Tokens.EndSessions(c.r.Context(), c.who, c.who.Principal, "")
	return api.EndedSessions{Ended: n}, err
}

func (s *Server) endSession(c *visit, _ none) (api.Token, error) {
	ended, err := s.opts.Tokens.EndOwnSession(c.r.Context(), c.who, c.r.PathValue("session"))
	return front.ViewToken(&ended), err
}
