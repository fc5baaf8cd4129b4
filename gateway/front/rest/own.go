package rest

import (
	"errors"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/passkey"
)

// A person's question about a device of theirs needs nobody else's word if they are there
// (consent.ViaOwner): signed in to the console a short while ago, or with a passkey, and not where
// an agent may have its hands. Their act in the console is the word itself; a call that they asked
// for with a token, such as on the command line, they answer in the console.

// asksItself reports whether the visitor asked that question, as a person, of a device of theirs.
func (s *Server) asksItself(c *visit, a consent.Approval) bool {
	return a.Principal == c.who.Principal && s.opts.Consent.Owns(a)
}

func (s *Server) ownView(c *visit, a consent.Approval) *api.Own {
	if a.Principal != c.who.Principal || a.Role == "agent" {
		return nil
	}
	if !s.asksItself(c, a) {
		return &api.Own{Why: "Nobody approves what they asked for themselves, and this device is not yours.",
			Hint: "Another user has to answer, or an admin names you as the owner of the device."}
	}
	_, err := s.ownWord(c, api.AnswerApproval{Answer: "allow"}, []string{a.ID})
	if err == nil {
		return &api.Own{Owner: true, May: true}
	}
	e := capabilities.AsError(err)
	return &api.Own{Owner: true, Passkey: capabilities.DetailsOf[capabilities.Presence](e).
		Passkey, Why: e.PublicMessage(), Hint: command.OfError(e)}
}

// ownWord says by what it is known that the visitor, whose device it is, is there to answer
// what they asked. Never where an agent may have its hands, with a passkey neither.
func (s *Server) ownWord(c *visit, in api.AnswerApproval, ids []string) (known string, err error) {
	if err := s.opts.Tokens.InConsole(c.who); err != nil {
		e := *capabilities.AsError(err)
		if e.Code != capabilities.CodeForbidden {
			return "", err
		}
		e.Message = "you asked for this call yourself, and a token can answer the calls of others, not its own"
		return "", &e
	}
	if s.opts.Elsewhere != nil {
		if err := s.opts.Elsewhere(c.r, ""); err != nil {
			return "", err
		}
	}
	if in.Passkey != nil {
		return "passkey", s.byPasskey(c, in, ids)
	}
	known, err = s.opts.Tokens.Present(c.who)
	if e := (*capabilities.Error)(nil); errors.As(err, &e) {
		if has, _ := s.hasPasskey(c, passkey.Any); has {
			err = offersPasskey(e)
		}
	}
	return known, err
}

// hands is the visitor as the caller of what they do in the console at this moment.
func (s *Server) hands(c *visit, lane capabilities.LaneID) dispatch.Caller {
	who := front.Caller(c.who, lane)
	if s.opts.Elsewhere != nil && s.opts.Elsewhere(c.r, "") != nil {
		return who
	}
	if known, err := s.opts.Tokens.Present(c.who); err == nil {
		who.Self = known
	}
	return who
}
