package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
)

// approvals shows what waits for a person: who asks, for what, and what the agent
// did before in this lane.
func (c *Console) approvals(v *visit) { v.showApprovals(nil) }

func (v *visit) showApprovals(problem error) {
	var list api.ApprovalList
	if err := v.get(v1("approvals"), &list); err != nil {
		v.show(page{name: "problem", title: "Approvals", here: "/console/approvals", fault: err})
		return
	}
	v.show(page{name: "approvals", title: "Approvals", here: "/console/approvals", live: "approval grant call", fault: problem,
		remedy: v.byPasskey(problem), modules: []string{"passkey"},
		data: approvalsPage{v, v.tasks(list.Approvals), v.offerPasskey()}})
}

type approvalsPage struct {
	*visit
	Tasks        []task
	OfferPasskey bool
}

// rule is one that answers a question for good.
type rule struct {
	api.Override
	Name string
}

// Rules are those that would answer the question for good.
func (q question) Rules() []rule {
	var all []rule
	for _, o := range q.Overrides {
		all = append(all, rule{o, map[string]string{"permit": "Always permit", "forbid": "Always forbid"}[o.Effect]})
	}
	return all
}

// answerButton is one answer, by its button and its key; "" for none.
type answerButton struct{ Style, Value, Label, Key string }

// Denies reports whether it allows nothing, and so acknowledges nothing.
func (b answerButton) Denies() bool { return b.Value == denyButton.Value }

var denyButton = answerButton{"danger", "deny", "Deny", "d"}

// Answers are the buttons, the narrowest first; deny stands beside it.
func (q question) Answers() []answerButton {
	var all []answerButton
	for _, ch := range q.Choices {
		lasts := capabilities.Spoken(time.Duration(ch.Seconds) * time.Second)
		switch consent.Kind(ch.Kind) {
		case consent.KindCall:
			all = append(all, answerButton{"main", ch.Kind, "Allow once", "a"})
		case consent.KindLease:
			all = append(all, answerButton{"plain", ch.Kind, "Allow " + lasts, "f"},
				answerButton{"plain", familyAnswer, "All " + q.Family() + " tools, " + lasts, "g"})
		case consent.KindSession:
			all = append(all, answerButton{"plain", ch.Kind, "Allow for this session", ""})
		case consent.KindAlways:
			all = append(all, answerButton{"plain", ch.Kind, "Allow under this policy", ""})
		}
	}
	return append(all, denyButton)
}

// Leases reports whether it can be allowed for a while.
func (q question) Leases() bool {
	return slices.ContainsFunc(q.Choices, func(ch api.Choice) bool { return ch.Kind == string(consent.KindLease) })
}

// Lends reports whether an answer for a while lends the device itself.
func (q question) Lends() bool { return q.Hands && q.Leases() }

// familyAnswer is the answer that leases the whole family of a tool.
const familyAnswer = "family"

// Family is the second part of the tool's name.
func (q question) Family() string {
	if parts := strings.SplitN(string(q.Tool), ".", 3); len(parts) == 3 {
		return parts[1]
	}
	return string(q.Tool)
}

// answerFields is what the form says, as the REST surface takes it.
func (v *visit) answerFields() (api.AnswerApproval, error) {
	f := v.r.PostForm
	if f.Get("form") == "1" {
		return v.formFields()
	}
	in := api.AnswerApproval{Answer: "allow", Reason: f.Get("reason")}
	switch kind := f.Get("answer"); kind {
	case "deny":
		in.Answer = "deny"
	case string(consent.KindLease), familyAnswer:
		minutes, err := strconv.Atoi(orElse(f.Get("minutes"), "5"))
		if err != nil || minutes < 1 || minutes > 60 {
			return in, capabilities.Errorf(capabilities.CodeInvalidRequest, "minutes must be a number from 1 to 60")
		}
		in.Kind, in.Seconds, in.Family = string(consent.KindLease), int64(minutes)*60, kind == familyAnswer || f.Get("family") == "1"
	case string(consent.KindCall), string(consent.KindSession), string(consent.KindAlways):
		in.Kind = kind
	default:
		return in, capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no answer")
	}
	if f.Get("acknowledged") == "1" {
		in.Acknowledged = true
	}
	if f.Get("credential") != "" {
		got, err := credential(v.r)
		if err != nil {
			return in, err
		}
		in.Passkey = got
	}
	return in, nil
}

// answer passes a person's answer on.
func (c *Console) answer(v *visit) {
	in, err := v.answerFields()
	if err == nil {
		err = v.ask(http.MethodPost, v1("approvals", v.r.PathValue("approval")), in, nil)
	}
	v.answered(err, in.Answer == "deny")
}

// moreTime keeps a question open for who needs longer to read it.
func (c *Console) moreTime(v *visit) {
	if err := v.ask(http.MethodPost, v1("approvals", v.r.PathValue("approval"), "extend"), nil, nil); err != nil {
		v.showApprovals(err)
		return
	}
	v.seeOther("/console/approvals", "longer")
}

// soFar is what an agent did before in the same lane, newest first.
type soFar struct{ Calls []call }

// soFar looks back a bounded way: a lane that was quiet for long has nothing recent.
func (v *visit) soFar(a api.Approval) *soFar {
	calls, err := v.callsOf(url.Values{"lane": {string(a.Lane)}, "limit": {"8"}})
	if err != nil {
		return nil
	}
	return &soFar{slices.DeleteFunc(calls, func(c call) bool { return c.State == "requested" || c.State == "pending" && c.Tool == a.Tool })}
}

// argumentsOf are what the call says, as far as it may be recorded; they come made safe to
// look at.
func argumentsOf(args map[string]any) []pair {
	var all []pair
	for _, k := range slices.Sorted(maps.Keys(args)) {
		all = append(all, pair{k, valueText(args[k])})
	}
	return all
}

func valueText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return "null"
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

// risk says in a word and a shape, not in a colour alone.
type risk struct{ Class, Mark, Level string }

func riskOf(level string) *risk {
	if level == "" {
		return nil
	}
	return &risk{
		known(level, "low", "medium", "high", "critical"), map[string]string{"low": "○", "medium": "◐", "high": "●", "critical": "▲"}[level],
		level,
	}
}

// known returns s if it is one of those that the stylesheet knows, else nothing: the
// name of a class never comes from outside.
func known(s string, all ...string) string {
	if slices.Contains(all, s) {
		return s
	}
	return ""
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
