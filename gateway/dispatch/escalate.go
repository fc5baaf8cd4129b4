package dispatch

import (
	"slices"

	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// reductions gives what the envelope of c leaves out of the declared keys, and
// what a person's grant adds to it once. What only a grant adds is not there before:
// the first envelope stays as it was, and names less (S1-38).
func (c *call) reductions() (withheld []string, x *policy.Escalation) {
	v := &c.verdict
	if len(v.Withheld)+len(v.Escalated) == 0 {
		return nil, nil
	}
	withheld = append(slices.Clone(v.Withheld), v.Escalated...)
	if c.first == nil || len(v.Escalated) == 0 {
		return withheld, nil
	}
	return withheld, &policy.Escalation{
		Code: escalationCode(c.permit.Kind), Delta: v.Escalated, From: c.first.HashHex(), Grant: c.permit.Grant,
		Reason: "a person granted what policy gives with consent only",
	}
}

func escalationCode(k consent.Kind) policy.EscalationCode {
	switch k {
	case consent.KindCall:
		return policy.EscalatedByCall
	case consent.KindLease:
		return policy.EscalatedByLease
	}
	return policy.EscalatedBySession
}

// firstDecision is the packet of the decision before an escalation: both are kept,
// each with its own envelope.
func (c *call) firstDecision() ledger.Draft {
	body := packet.Decision{
		Effect: c.asked.Effect, Policies: c.asked.Determining, LogOnly: c.asked.LogOnly, Errors: c.asked.Errors, Routing: c.routing,
		Snapshot: c.first.Snapshot, EnvelopeHash: c.first.HashHex(), Envelope: c.first.Bytes,
	}
	c.judgedOn(&body)
	return c.draft(ledger.KindCallDecision, &body)
}

// judgedOn adds what policy looked at and the envelope does not say, so that the
// decision can be made again later under another policy.
func (c *call) judgedOn(body *packet.Decision) {
	body.Role, body.Taint = string(c.req.Role), c.taint
	if c.node != nil {
		body.Given, body.Labels = c.ready.Isolation, c.node.Labels
	}
}
