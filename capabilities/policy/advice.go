package policy

import (
	"slices"
	"time"

	cedar "github.com/cedar-policy/cedar-go"
)

// MaxDefer is the longest that a call may wait for a person while nobody holds the
// line.
const MaxDefer = 7 * 24 * time.Hour

// Advice is what the rules that want a person's word say about how to get it.
type Advice struct {
	// Why is what each rule says for itself (@why), in the order of the IDs.
	Why []string
	// User says that the person at the MCP client may answer (@approver("user")).
	// Every rule has to say so: one that does not wants somebody else.
	User bool
	// Defer is for how long a call that nobody answers is kept (@defer("8h")); 0: it
	// is not. Every rule has to say so, and the shortest counts.
	Defer time.Duration
	// Forbids says that a forbid is among them, which no further permit overrules.
	Forbids bool
}

// Advice reads the annotations of rules by their IDs, those that determined an ask.
// A permit that would do without a person does not ask, so it has no say beside rules
// that do; of a tool that always asks (Profile.Asks) every permit does.
func (e *Engine) Advice(ids []string, always bool) Advice {
	var a Advice
	asking := make([]*rule, 0, len(ids))
	for _, id := range ids {
		r := e.byID[cedar.PolicyID(id)]
		if r == nil {
			return Advice{}
		}
		asking = append(asking, r)
	}
	ask := func(r *rule) bool { return r.consults.consent }
	if !always && slices.ContainsFunc(asking, ask) {
		asking = slices.DeleteFunc(asking, func(r *rule) bool { return !ask(r) })
	}
	for i, r := range asking {
		a.Forbids = a.Forbids || !r.permit
		if r.why != "" && !slices.Contains(a.Why, r.why) {
			a.Why = append(a.Why, r.why)
		}
		user, life := false, time.Duration(0)
		for _, n := range r.ast.Annotations {
			switch n.Key {
			case "approver":
				user = n.Value == "user"
			case "defer":
				life, _ = parseDefer(string(n.Value))
			}
		}
		if i == 0 {
			a.User, a.Defer = user, life
			continue
		}
		a.User, a.Defer = a.User && user, min(a.Defer, life)
	}
	return a
}

// parseDefer reads a duration such as 8h.
func parseDefer(text string) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	return max(0, d), err == nil && d >= time.Minute && d <= MaxDefer
}

// checkAdvice says what is wrong with an annotation of this file's; known is false
// for any other.
func checkAdvice(key, value string) (problem string, known bool) {
	switch key {
	case "approver":
		if value != "user" {
			return "@approver must be \"user\"; without it, whoever has a token that may approve answers", true
		}
		return "", true
	case "defer":
		if _, ok := parseDefer(value); !ok {
			return "@defer must be a time from 1m to 168h, such as \"8h\"", true
		}
		return "", true
	}
	return "", false
}
