package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/passkey"
)

// Where an agent may have its hands, a passkey of the visitor's that stays in one
// authenticator shows that it is them, and confirms one request: exactly what it was asked.

// confirmable is what a passkey confirms beside answers to questions.
var confirmable = map[string]bool{
	"POST /v1/tokens": true, "POST /v1/grants": true, "POST /v1/policy/activate": true, "POST /v1/providers": true, "POST /v1/resume": true,
	"POST /v1/drift/resolve": true, letsClientIn: true,
}

// letsClientIn is the route that a passkey confirms wherever its person has one.
const letsClientIn = "POST /v1/clients"

// confirmsClients reports whether the visitor lets clients in with a passkey: they are in the
// console, and have one here. A token is no person, and confirms nothing.
func (s *Server) confirmsClients(c *visit) bool {
	if s.opts.Tokens.InConsole(c.who) != nil {
		return false
	}
	has, _ := s.hasPasskey(c, passkey.Any)
	return has
}

// elsewhere refuses what may come from a device that an agent has in its hands. The
// refusal says whether a passkey of the visitor's would do.
func (s *Server) elsewhere(c *visit) error {
	if s.opts.Elsewhere == nil {
		return nil
	}
	err := s.opts.Elsewhere(c.r, "")
	var e *capabilities.Error
	if !errors.As(err, &e) {
		return err
	}
	has, copies := s.hasPasskey(c, passkey.Bound)
	if has {
		e = offersPasskey(e)
	}
	if copies {
		return e.WithHint(e.PublicHint() + " Your passkey may be copied to other devices, so it does not show that you are here; one in a " +
			"security key or in this device's own lock does.")
	}
	return e
}

// offersPasskey returns a refusal that says that a passkey would do.
func offersPasskey(e *capabilities.Error) *capabilities.Error {
	about := capabilities.DetailsOf[capabilities.Presence](e)
	about.Passkey = true
	return e.WithDetails(about)
}

// hasPasskey reports whether the visitor could confirm with such a passkey here; copies:
// they have only others.
func (s *Server) hasPasskey(c *visit, which passkey.Which) (has, copies bool) {
	at, err := passkey.At(front.Origin(c.r))
	if err != nil || s.opts.Passkeys == nil {
		return false, false
	}
	_, err = s.opts.Passkeys.BeginApprove(c.who, at, nil, which)
	return err == nil, errors.Is(err, passkey.ErrCopies)
}

// mayAllow refuses who may be an agent with a person's mouse: an answer that widens comes from
// elsewhere, or a passkey says that the person is there. It returns the way that the answer to
// those questions counts by; of the owner's own word also by what they are known.
func (s *Server) mayAllow(c *visit, in api.AnswerApproval, ids ...string) (via consent.Via, known string, err error) {
	if asked, err := s.opts.Consent.Approval(ids[0]); err == nil && s.asksItself(c, asked) {
		known, err := s.ownWord(c, in, ids)
		return consent.ViaOwner, known, err
	}
	if in.Passkey == nil {
		return consent.ViaAPI, "", s.elsewhere(c)
	}
	return consent.ViaPasskey, "", s.byPasskey(c, in, ids)
}

// byPasskey checks that the visitor's passkey says yes to this answer to these questions.
func (s *Server) byPasskey(c *visit, in api.AnswerApproval, ids []string) error {
	what, err := s.whatIsApproved(ids, in)
	if err != nil {
		return err
	}
	return s.confirmed(c, what, in.Passkey)
}

// confirmed checks that the visitor's passkey says yes to what. Where an agent may have its
// hands, one that may be copied does not count.
func (s *Server) confirmed(c *visit, what, answer []byte) error {
	at, err := passkey.At(front.Origin(c.r))
	if err != nil {
		return err
	}
	refusal, which := s.elsewhere(c), passkey.Any
	if refusal != nil {
		which = passkey.Bound
	}
	err = s.opts.Passkeys.Approve(c.r.Context(), c.who, at, what, answer, which)
	if errors.Is(err, passkey.ErrCopies) {
		return refusal
	}
	return err
}

// asked is what the visitor's passkey is asked about what.
func (s *Server) asked(c *visit, what []byte) (passkey.GetOptions, error) {
	at, err := passkey.At(front.Origin(c.r))
	if err != nil {
		return passkey.GetOptions{}, err
	}
	refusal, which := s.elsewhere(c), passkey.Any
	if refusal != nil {
		which = passkey.Bound
	}
	o, err := s.opts.Passkeys.BeginApprove(c.who, at, what, which)
	if errors.Is(err, passkey.ErrCopies) {
		return passkey.GetOptions{}, refusal
	}
	return o, err
}

// beginApproval asks the visitor's passkey about one answer to one question.
func (s *Server) beginApproval(c *visit, in api.AnswerApproval) (passkey.GetOptions, error) {
	return s.beginAnswer(c, in, c.r.PathValue("approval"))
}

// beginApprovals does so about one answer to several.
func (s *Server) beginApprovals(c *visit, in api.AnswerApprovals) (passkey.GetOptions, error) {
	if len(in.Approvals) == 0 || len(in.Approvals) > maxTogether {
		return passkey.GetOptions{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "approvals must name 1 to %d questions", maxTogether)
	}
	return s.beginAnswer(c, in.AnswerApproval, in.Approvals...)
}

func (s *Server) beginAnswer(c *visit, in api.AnswerApproval, ids ...string) (passkey.GetOptions, error) {
	if _, err := passkey.At(front.Origin(c.r)); err != nil {
		return passkey.GetOptions{}, err
	}
	what, err := s.whatIsApproved(ids, in)
	if err != nil {
		return passkey.GetOptions{}, err
	}
	return s.asked(c, what)
}

// whatIsApproved is what a passkey says yes to: the questions as they were asked, with
// their digests, and the answer as it will count.
func (s *Server) whatIsApproved(ids []string, in api.AnswerApproval) ([]byte, error) {
	if in.Answer != "allow" {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "a passkey confirms what is allowed; denying needs none")
	}
	questions := make([][2]string, 0, len(ids))
	for _, id := range ids {
		asked, err := s.opts.Consent.Approval(id)
		if err != nil {
			return nil, err
		}
		if asked.State != consent.StatePending {
			return nil, capabilities.Errorf(capabilities.CodeConflict, "that question was answered already")
		}
		questions = append(questions, [2]string{id, asked.Digest()})
	}
	in.Passkey, in.Acknowledged = nil, false // it acknowledges what the questions have
	return json.Marshal(map[string]any{"approvals": questions, "answer": in})
}

func (s *Server) beginConfirmation(c *visit, in api.Confirm) (passkey.GetOptions, error) {
	if !confirmable[in.Method+" "+in.Path] {
		return passkey.GetOptions{}, capabilities.Errorf(capabilities.CodeInvalidRequest,
			"a passkey confirms making tokens, letting clients in, giving grants, activating a policy, resolving drift, the end of a stop")
	}
	what, err := whatIsConfirmed(in.Method+" "+in.Path, in.Body)
	if err != nil {
		return passkey.GetOptions{}, err
	}
	return s.asked(c, what)
}

// whatIsConfirmed is what a passkey says yes to: a route of the table without parameters,
// and the body that it is sent, in canonical form.
func whatIsConfirmed(route string, body []byte) ([]byte, error) {
	clean := []byte("{}")
	if len(bytes.TrimSpace(body)) > 0 {
		var err error
		if clean, err = canonical.Parse(body, canonical.Limits{MaxBytes: front.MaxBody}); err != nil {
			return nil, err
		}
	}
	return json.Marshal(map[string]any{"request": route, "body": json.RawMessage(clean)})
}

// confirmedRequest checks that the passkey's answer in the header is about this very
// request. The body is read and put back.
func (s *Server) confirmedRequest(c *visit, e *endpoint, answer []byte) error {
	if len(answer) > passkey.MaxAnswer {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "%s has at most %d bytes", front.PasskeyHeader, passkey.MaxAnswer)
	}
	body, err := io.ReadAll(c.r.Body)
	if err != nil {
		return front.BodyError(err)
	}
	c.r.Body = io.NopCloser(bytes.NewReader(body))
	what, err := whatIsConfirmed(e.method+" "+e.path, body)
	if err != nil {
		return err
	}
	return s.confirmed(c, what, answer)
}
