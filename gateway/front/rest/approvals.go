package rest

import (
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// told adds what c's caller may know of a question; whole: with texts as long as they are.
func (s *Server) told(c *visit, a consent.Approval, whole bool) api.Approval {
	v := front.ViewApproval(&a)
	if a.State == consent.StatePending && a.Form == nil && c.who.May(principal.ActApprove) {
		v.Own = s.ownView(c, a)
		if t, ok := s.opts.Consent.Told(a.ID, whole); ok {
			if t.Frame != nil {
				t.Frame.Mine = t.Frame.Mine && s.opts.Sees != nil && s.opts.Sees(c.who, a.Node)
			}
			v.Question = front.ViewTold(&t)
		}
	}
	return v
}

func (s *Server) approvals(c *visit, _ none) (api.ApprovalList, error) {
	list := api.ApprovalList{Approvals: []api.Approval{}}
	for _, a := range s.opts.Consent.Approvals() {
		list.Approvals = append(list.Approvals, s.told(c, a, false))
	}
	return list, nil
}

func (s *Server) approval(c *visit, _ none) (api.Approval, error) {
	whole, err := c.flag("args")
	if err != nil {
		return api.Approval{}, err
	}
	a, err := s.opts.Consent.Approval(c.r.PathValue("approval"))
	if err != nil {
		return api.Approval{}, err
	}
	return s.told(c, a, whole), nil
}

// viewed is an approval of the consent room on the wire.
func viewed(a consent.Approval, err error) (api.Approval, error) { return front.ViewApproval(&a), err }

func (s *Server) answer(c *visit, in api.AnswerApproval) (api.Approval, error) {
	if asked, err := s.opts.Consent.Approval(c.r.PathValue("approval")); err == nil && asked.Form != nil {
		return s.answerForm(c, &asked, in)
	}
	if in.Answer != "allow" && in.Answer != "deny" {
		return api.Approval{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "answer must be allow or deny")
	}
	lasts, err := seconds("seconds", in.Seconds)
	if err != nil {
		return api.Approval{}, err
	}
	said := consent.Answer{
		Allow: in.Answer == "allow", Kind: consent.Kind(in.Kind), For: lasts, Family: in.Family,
		Scope: consent.Scope(in.Scope), MaxUses: in.MaxUses, Reason: in.Reason, By: c.who.Principal,
	}
	id := c.r.PathValue("approval")
	if said.Allow {
		if said.Via, said.Known, err = s.mayAllow(c, in, id); err != nil {
			return api.Approval{}, err
		}
		if said.Acknowledged, err = s.acknowledged(in, id); err != nil {
			return api.Approval{}, err
		}
	}
	return viewed(s.opts.Consent.Answer(c.r.Context(), id, said))
}

// acknowledged returns the keys that an allow of a question acknowledges (S1-29, S1-32).
// CodeAcknowledgementRequired if the answer does not say so; a passkey says it for this very
// question.
func (s *Server) acknowledged(in api.AnswerApproval, id string) ([]string, error) {
	asked, err := s.opts.Consent.Approval(id)
	if err != nil || asked.State != consent.StatePending {
		return nil, nil // consent says what became of it
	}
	keys := front.ViewApproval(&asked).Surface.Acknowledge
	if len(keys) > 0 && !in.Acknowledged && in.Passkey == nil {
		return nil, capabilities.Errorf(capabilities.CodeAcknowledgementRequired, "%s gets %s, and the answer does not acknowledge it",
			asked.Tool, strings.Join(keys, ", "))
	}
	return keys, nil
}

// answerForm answers what a provider asks. It grants nothing, and still nobody answers from where
// an agent may have its hands, or with the token that made the call: that may be an agent's.
func (s *Server) answerForm(c *visit, asked *consent.Approval, in api.AnswerApproval) (api.Approval, error) {
	said := consent.Answer{
		Allow: in.Answer == "allow", Dismiss: in.Answer == "dismiss", Content: in.Content, Kind: consent.Kind(in.Kind), Family: in.Family,
		Scope: consent.Scope(in.Scope), MaxUses: in.MaxUses, Reason: in.Reason, By: c.who.Principal,
	}
	switch {
	case !said.Allow && !said.Dismiss && in.Answer != "deny":
		return api.Approval{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "answer must be allow, deny or dismiss")
	case in.Passkey != nil:
		return api.Approval{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "a passkey says yes to calls, and fills in no form")
	case said.Allow:
		if asked.Principal == c.who.Principal && asked.Role != "agent" {
			if err := s.opts.Tokens.InConsole(c.who); err != nil {
				return api.Approval{}, err
			}
		}
		if err := s.elsewhere(c); err != nil {
			return api.Approval{}, err
		}
	}
	return viewed(s.opts.Consent.Answer(c.r.Context(), asked.ID, said))
}

// maxTogether is how many questions one answer is for; an agent has no more open.
const maxTogether = 8

// answerSeveral returns one answer to the questions of one caller in one lane. A tool that is asked
// about at each call (S1-23) is answered by itself.
func (s *Server) answerSeveral(c *visit, in api.AnswerApprovals) (api.Answered, error) {
	if len(in.Approvals) == 0 || len(in.Approvals) > maxTogether || in.Answer != "allow" && in.Answer != "deny" {
		return api.Answered{}, capabilities.Errorf(capabilities.CodeInvalidRequest,
			"approvals must name 1 to %d questions, and answer must be allow or deny", maxTogether)
	}
	lasts, err := seconds("seconds", in.Seconds)
	if err != nil {
		return api.Answered{}, err
	}
	var first consent.Approval
	acknowledged := make([][]string, len(in.Approvals))
	for i, id := range in.Approvals {
		a, err := s.opts.Consent.Approval(id)
		if err != nil {
			return api.Answered{}, err
		}
		if i == 0 {
			first = a
		}
		if a.Principal != first.Principal || a.Lane != first.Lane {
			return api.Answered{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "one answer is for the questions of one caller in one lane")
		}
		if in.Answer == "allow" && a.Longest == consent.KindCall {
			return api.Answered{}, capabilities.Errorf(capabilities.CodeForbidden, "%s is asked about at each call, so it is answered by itself",
				a.Tool).WithHint("Answer that question alone.")
		}
		if in.Answer == "allow" {
			if acknowledged[i], err = s.acknowledged(in.AnswerApproval, id); err != nil {
				return api.Answered{}, err
			}
		}
	}
	said := consent.Answer{
		Allow: in.Answer == "allow", Kind: consent.Kind(in.Kind), For: lasts, Family: in.Family,
		Scope: consent.Scope(in.Scope), MaxUses: in.MaxUses, Reason: in.Reason, By: c.who.Principal,
	}
	if said.Allow {
		if said.Via, said.Known, err = s.mayAllow(c, in.AnswerApproval, in.Approvals...); err != nil { // once: an answer lends hands
			return api.Answered{}, err
		}
	}
	out := api.Answered{Approvals: []api.Approval{}}
	for i, id := range in.Approvals {
		said.Acknowledged = acknowledged[i]
		a, err := s.opts.Consent.Answer(c.r.Context(), id, said)
		if err != nil {
			out.Failed = append(out.Failed, api.FailedApproval{Approval: id, Error: front.ViewError(err)})
			continue
		}
		out.Approvals = append(out.Approvals, front.ViewApproval(&a))
	}
	return out, nil
}

func (s *Server) extendApproval(c *visit, _ none) (api.Approval, error) {
	return viewed(s.opts.Consent.Extend(c.r.Context(), c.r.PathValue("approval"), c.who.Principal))
}

func (s *Server) grants(*visit, none) (api.GrantList, error) {
	all := s.opts.Consent.Grants()
	list := api.GrantList{Grants: make([]api.Grant, 0, len(all))}
	for i := range all {
		list.Grants = append(list.Grants, front.ViewGrant(&all[i]))
	}
	return list, nil
}

func (s *Server) grant(c *visit, in api.GiveGrant) (api.Grant, error) {
	lasts, err := seconds("seconds", in.Seconds)
	if err != nil {
		return api.Grant{}, err
	}
	if in.Lane == "" && !in.AnyLane {
		if in.Lane, err = s.laneOf(in.Principal); err != nil {
			return api.Grant{}, err
		}
	}
	// A grant for a node that does not exist would wait for one that gets its ID.
	if _, err := s.opts.Roster.View(in.Node); err != nil {
		return api.Grant{}, err
	}
	given, err := s.opts.Consent.Grant(c.r.Context(), consent.Spec{
		Principal: in.Principal, Tools: in.Tools, Node: in.Node, Lane: in.Lane, AnyLane: in.AnyLane, For: lasts, Scope: consent.Scope(in.Scope),
		MaxUses: in.MaxUses, Reason: in.Reason, Approver: c.who.Principal,
	})
	return front.ViewGrant(&given), err
}

// laneOf returns the lane that a principal's tokens work in when they name none: its own, if
// it has no token yet. Where its tokens work in several, nobody chooses.
func (s *Server) laneOf(who capabilities.PrincipalID) (capabilities.LaneID, error) {
	var lanes []string
	for _, t := range s.opts.Tokens.List() {
		if t.Principal == who && t.Parent == "" && s.opts.Tokens.Valid(t.ID) {
			lanes = append(lanes, string(t.Lane))
		}
	}
	slices.Sort(lanes)
	switch lanes = slices.Compact(lanes); len(lanes) {
	case 0:
		return capabilities.LaneID(who), nil
	case 1:
		return capabilities.LaneID(lanes[0]), nil
	}
	return "", capabilities.Errorf(capabilities.CodeInvalidRequest, "the tokens of %s work in several lanes: %s", who,
		strings.Join(lanes[:min(len(lanes), 16)], ", ")).
		WithHint("Name one as lane, or any_lane for every lane of the caller.")
}

func (s *Server) revokeGrant(c *visit, _ none) (api.RevokedGrant, error) {
	id := c.r.PathValue("grant")
	return api.RevokedGrant{Grant: id}, s.opts.Consent.Revoke(c.r.Context(), id, c.who.Principal)
}
