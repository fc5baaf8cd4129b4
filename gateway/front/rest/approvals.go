package rest

import (
	"encoding/json"
	"errors"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/passkey"
)

type approvalList struct {
	Approvals []consent.Approval `json:"approvals"`
}

func (s *Server) approvals(*visit, none) (approvalList, error) {
	return approvalList{s.opts.Consent.Approvals()}, nil
}

func (s *Server) approval(c *visit, _ none) (consent.Approval, error) {
	return s.opts.Consent.Approval(c.r.PathValue("approval"))
}

// answerBody is a person's answer. Answer is allow or deny.
type answerBody struct {
	Answer  string        `json:"answer"`
	Kind    consent.Kind  `json:"kind,omitempty"`     // of an allow: call (default), lease, session, always
	Seconds int64         `json:"seconds,omitempty"`  // of a lease; default 300, at most 3600
	Family  bool          `json:"family,omitempty"`   // a lease for every tool of the family
	Scope   consent.Scope `json:"scope,omitzero"`     // narrows what lasts
	MaxUses int           `json:"max_uses,omitempty"` // of what lasts; default: not counted
	Reason  string        `json:"reason,omitempty"`   // at most 500 bytes
	// Passkey is what the approver's passkey answered, as JSON of navigator.credentials;
	// it stands in for coming from elsewhere while an agent holds the device.
	Passkey json.RawMessage `json:"passkey,omitempty"`
}

func (s *Server) answer(c *visit, in answerBody) (consent.Approval, error) {
	if in.Answer != "allow" && in.Answer != "deny" {
		return consent.Approval{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "answer must be allow or deny")
	}
	lasts, err := seconds("seconds", in.Seconds)
	if err != nil {
		return consent.Approval{}, err
	}
	via := consent.ViaAPI
	if in.Answer == "allow" {
		if via, err = s.mayAllow(c, in); err != nil {
			return consent.Approval{}, err
		}
	}
	return s.opts.Consent.Answer(c.r.Context(), c.r.PathValue("approval"), consent.Answer{
		Allow: in.Answer == "allow", Kind: in.Kind, For: lasts, Family: in.Family, Scope: in.Scope, MaxUses: in.MaxUses, Reason: in.Reason, By: c.who.Principal, Via: via,
	})
}

func (s *Server) extendApproval(c *visit, _ none) (consent.Approval, error) {
	return s.opts.Consent.Extend(c.r.Context(), c.r.PathValue("approval"), c.who.Principal)
}

// mayAllow refuses who may be an agent with a person's mouse: an answer that widens
// comes from elsewhere, or a passkey says that the person is there.
func (s *Server) mayAllow(c *visit, in answerBody) (consent.Via, error) {
	if in.Passkey == nil {
		if s.opts.Elsewhere == nil {
			return consent.ViaAPI, nil
		}
		err := s.opts.Elsewhere(c.r, "")
		if e := (*capabilities.Error)(nil); errors.As(err, &e) && s.hasPasskey(c) {
			if d, ok := e.Details.(map[string]any); ok {
				d["passkey"] = true // one would do
			}
		}
		return consent.ViaAPI, err
	}
	at, err := passkey.At(front.Origin(c.r))
	if err != nil {
		return "", err
	}
	what, err := s.whatIsApproved(c.r.PathValue("approval"), in)
	if err != nil {
		return "", err
	}
	return consent.ViaPasskey, s.opts.Passkeys.Approve(c.r.Context(), c.who, at, what, in.Passkey)
}

// hasPasskey reports whether the visitor could confirm with a passkey here.
func (s *Server) hasPasskey(c *visit) bool {
	at, err := passkey.At(front.Origin(c.r))
	if err != nil || s.opts.Passkeys == nil {
		return false
	}
	_, err = s.opts.Passkeys.BeginApprove(c.who, at, nil)
	return err == nil
}

type grantList struct {
	Grants []consent.Grant `json:"grants"`
}

func (s *Server) grants(*visit, none) (grantList, error) {
	return grantList{s.opts.Consent.Grants()}, nil
}

type grantBody struct {
	Principal capabilities.PrincipalID `json:"principal"`
	Tools     []string                 `json:"tools"` // tool IDs, or families as tool.desktop.*
	Node      capabilities.NodeID      `json:"node"`
	Lane      capabilities.LaneID      `json:"lane,omitempty"`     // default: the principal's own
	AnyLane   bool                     `json:"any_lane,omitempty"` // instead of lane: any of the principal's
	Seconds   int64                    `json:"seconds,omitempty"`
	Scope     consent.Scope            `json:"scope,omitzero"`
	MaxUses   int                      `json:"max_uses,omitempty"`
	Reason    string                   `json:"reason,omitempty"`
}

func (s *Server) grant(c *visit, in grantBody) (consent.Grant, error) {
	lasts, err := seconds("seconds", in.Seconds)
	if err != nil {
		return consent.Grant{}, err
	}
	if in.Lane == "" && !in.AnyLane {
		in.Lane = capabilities.LaneID(in.Principal)
	}
	// A grant for a node that does not exist would wait for one that gets its ID.
	if _, err := s.opts.Roster.View(in.Node); err != nil {
		return consent.Grant{}, err
	}
	return s.opts.Consent.Grant(c.r.Context(), consent.Spec{
		Principal: in.Principal, Tools: in.Tools, Node: in.Node, Lane: in.Lane, AnyLane: in.AnyLane, For: lasts, Scope: in.Scope, MaxUses: in.MaxUses,
		Reason: in.Reason, Approver: c.who.Principal,
	})
}

type revokedView struct {
	Grant string `json:"grant"`
}

func (s *Server) revokeGrant(c *visit, _ none) (revokedView, error) {
	id := c.r.PathValue("grant")
	return revokedView{id}, s.opts.Consent.Revoke(c.r.Context(), id, c.who.Principal)
}
