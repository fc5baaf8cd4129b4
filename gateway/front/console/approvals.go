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
	view "github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/front"
)

// approvals shows what waits for a person: who asks, for what, and what the agent
// did before in this lane.
func (c *Console) approvals(v *visit) { v.showApprovals(nil) }

func (v *visit) showApprovals(problem error) {
	var list struct {
		Approvals []question `json:"approvals"`
	}
	if err := v.get(api("approvals"), &list); err != nil {
		v.show(page{title: "Approvals", here: "/console/approvals", fault: err})
		return
	}
	body := empty("No approvals pending", text("When an agent asks for something that policy wants a person to decide, it appears here at once. You can leave this page open."))
	if len(list.Approvals) > 0 {
		body = group(
			when(v.offers("POST /v1/approvals/{approval}"), el("p", class("faint keyshelp"), text("Keys, on the question that has the focus: "), span("keys", el("kbd", nil, text("a")), text(" allow once "), el("kbd", nil, text("f")), text(" five minutes "), el("kbd", nil, text("g")), text(" all tools of its family, five minutes "), el("kbd", nil, text("d")), text(" deny "), el("kbd", nil, text("j")), text(" next "), el("kbd", nil, text("k")), text(" previous")))),
			el("div", attrs{"class", "cards", "id", "questions"}, each(tasks(list.Approvals), v.task)))
	}
	v.show(page{title: "Approvals", here: "/console/approvals", live: "approval grant call", fault: problem, remedy: v.byPasskey(problem), modules: []string{"passkey"},
		lead: text("What agents may do only if you allow it. A question that nobody answers expires and is denied."), body: group(body, v.offerPasskey())})
}

// signalsOf warns of what the answer lets happen, by the keys that a yes gives.
func (v *visit) signalsOf(a view.Approval) html {
	s := front.Surface(a.Keys, a.Keys)
	return group(
		when(s.Banner, el("p", class("banner"), text("If you allow it, a secret is put into the clipboard of this device. What an application then shows of it, nobody can control."))),
		when(s.Confirm, el("p", class("banner"), text("It may destroy something. Read the arguments before you allow it."))),
		when(s.Mood == front.MoodElevated, el("p", class("small"), el("strong", nil, moodOf(s.Mood)), text(": it can control what is yours on this device. Your approval covers this request only and is recorded."))),
		when(s.LongRun, el("p", class("small faint"), text("It may run long. You can end it on Calls while it does."))))
}

// overrides are the rules that answer a question for good.
func (v *visit) overrides(a view.Approval) html {
	if len(a.Overrides) == 0 {
		return html{}
	}
	id := "q-" + a.ID
	return el("details", attrs{"id", id + "-rule"}, el("summary", nil, text("Always allow or block…")),
		el("p", class("faint"), text("A rule is policy. Staging shows what it would change; activating it is a privileged call of its own. This question still waits for its answer.")),
		each(a.Overrides, func(o view.Override) html {
			name := map[string]string{"permit": "Always permit", "forbid": "Always forbid"}[o.Effect]
			return group(el("h3", nil, text(name)), el("pre", attrs{"tabindex", "0", "aria-label", "The rule: " + name}, el("code", nil, lines(o.Cedar))), when(o.Note != "", el("p", class("faint"), text(o.Note))),
				when(o.Note == "", v.control("POST /v1/policy/drafts", at("approvals", a.ID, "override"), attrs{"class", "inline", "data-whole", ""}, button("plain", "Stage this rule", "name", "effect", "value", o.Effect, "aria-label", "Stage this rule: "+name)))) // one that changes nothing is not offered
		}))
}

// answers are the buttons, the narrowest first; deny stands beside it.
func (v *visit) answers(a view.Approval) html {
	lends := a.Hands && slices.ContainsFunc(a.Choices, func(ch view.Choice) bool { return ch.Kind == string(consent.KindLease) })
	return v.control("POST /v1/approvals/{approval}", at("approvals", a.ID), attrs{"class", "answers"}, v.returns(),
		div("buttons",
			each(a.Choices, func(ch view.Choice) html {
				label, key, style := "", "", "plain"
				switch consent.Kind(ch.Kind) {
				case consent.KindCall:
					label, key, style = "Allow once", "a", "main"
				case consent.KindLease:
					label, key = "Allow "+capabilities.Spoken(time.Duration(ch.Seconds)*time.Second), "f"
				case consent.KindSession:
					label = "Allow for this session"
				case consent.KindAlways:
					label = "Allow under this policy"
				default:
					return html{}
				}
				if ch.Kind != string(consent.KindLease) {
					return answerButton(style, string(ch.Kind), label, key)
				}
				return group(answerButton(style, string(ch.Kind), label, key),
					answerButton(style, familyAnswer, "All "+familyOf(a.Tool)+" tools, "+capabilities.Spoken(time.Duration(ch.Seconds)*time.Second), "g"))
			}),
			answerButton("danger", "deny", "Deny", "d")),
		when(lends, el("p", class("small"), text("While an answer for some minutes lasts, and 15 seconds more, nothing else can be allowed from "), el("strong", nil, text(orElse(a.NodeLabel, string(a.Node)))),
			text(" itself, except with a passkey: allow all "+familyOf(a.Tool)+" tools at once, or answer from another device."))),
		el("details", attrs{"id", "q-" + a.ID + "-more"}, el("summary", nil, text("More options")),
			when(slices.ContainsFunc(a.Choices, func(ch view.Choice) bool { return ch.Kind == string(consent.KindLease) }), div("fields",
				el("label", attrs{"for", "m-" + a.ID}, text("Minutes, if for a while")),
				void("input", attrs{"id", "m-" + a.ID, "name", "minutes", "type", "number", "min", "1", "max", "60", "value", "5"}),
				el("label", class("check"), void("input", attrs{"type", "checkbox", "name", "family", "value", "1"}), text(" for every tool of its family")))),
			div("fields",
				el("label", attrs{"for", "r-" + a.ID}, text("Reason; the agent is told")),
				void("input", attrs{"id", "r-" + a.ID, "name", "reason", "maxlength", "500"}))),
	)
}

// familyAnswer is the answer that leases the whole family of a tool.
const familyAnswer = "family"

// familyOf is the second part of a tool's name.
func familyOf(tool capabilities.ToolID) string {
	if parts := strings.SplitN(string(tool), ".", 3); len(parts) == 3 {
		return parts[1]
	}
	return string(tool)
}

func answerButton(style, value, label, key string) html {
	a := attrs{"class", style, "type", "submit", "name", "answer", "value", value}
	if key != "" {
		a = append(a, "data-key", key, "aria-keyshortcuts", key)
	}
	return el("button", a, text(label), when(key != "", el("kbd", attrs{"aria-hidden", "true"}, text(key))))
}

// answerFields is what the form says, as the REST surface takes it.
func (v *visit) answerFields() (map[string]any, error) {
	f := v.r.PostForm
	in := map[string]any{"answer": "allow", "reason": f.Get("reason")}
	switch kind := f.Get("answer"); kind {
	case "deny":
		in["answer"] = "deny"
	case string(consent.KindLease), familyAnswer:
		minutes, err := strconv.Atoi(orElse(f.Get("minutes"), "5"))
		if err != nil || minutes < 1 || minutes > 60 {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "minutes must be a number from 1 to 60")
		}
		in["kind"], in["seconds"], in["family"] = consent.KindLease, minutes*60, kind == familyAnswer || f.Get("family") == "1"
	case string(consent.KindCall), string(consent.KindSession), string(consent.KindAlways):
		in["kind"] = kind
	default:
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no answer")
	}
	if f.Get("credential") != "" {
		got, err := credential(v.r)
		if err != nil {
			return nil, err
		}
		in["passkey"] = got
	}
	return in, nil
}

// answer passes a person's answer on.
func (c *Console) answer(v *visit) {
	in, err := v.answerFields()
	if err == nil {
		err = v.ask(http.MethodPost, api("approvals", v.r.PathValue("approval")), in, nil)
	}
	v.answered(err, in["answer"] == "deny")
}

// moreTime keeps a question open for who needs longer to read it.
func (c *Console) moreTime(v *visit) {
	if err := v.ask(http.MethodPost, api("approvals", v.r.PathValue("approval"), "extend"), nil, nil); err != nil {
		v.showApprovals(err)
		return
	}
	v.seeOther("/console/approvals", "longer")
}

// soFar is what the agent did before in the same lane, newest first. It looks back a
// bounded way: a lane that was quiet for long has nothing recent.
func (v *visit) soFar(a view.Approval) html {
	calls, err := v.callsOf(url.Values{"lane": {string(a.Lane)}, "limit": {"8"}})
	if err != nil {
		return html{}
	}
	calls = slices.DeleteFunc(calls, func(c call) bool { return c.State == "requested" || c.State == "pending" && c.Tool == a.Tool })
	return div("sofar",
		el("h3", nil, text("So far in this lane")),
		when(len(calls) == 0, el("p", class("faint"), text("Nothing before this."))),
		when(len(calls) > 0, el("ol", class("calls"), each(calls, func(c call) html {
			return el("li", nil, span("state "+c.mood(), text(c.Outcome)), text(" "), code(string(c.Tool)), text(" "), span("faint", ago(c.StartedAt)))
		}))))
}

// argumentsOf shows what the call says, as far as it may be recorded; they come made
// safe to look at.
func argumentsOf(args map[string]any) html {
	if len(args) == 0 {
		return html{}
	}
	return el("dl", class("args"), each(slices.Sorted(maps.Keys(args)), func(k string) html {
		return el("div", nil, el("dt", nil, text(k)), el("dd", nil, text(valueText(args[k]))))
	}))
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
func risk(level string) html {
	if level == "" {
		return html{}
	}
	mark := map[string]string{"low": "○", "medium": "◐", "high": "●", "critical": "▲"}[level]
	return span("risk "+known(level, "low", "medium", "high", "critical"), el("span", attrs{"aria-hidden", "true"}, text(mark+" ")), text(level+" risk"))
}

// known returns s if it is one of those that the stylesheet knows, else nothing: the
// name of a class never comes from outside.
func known(s string, all ...string) string {
	if slices.Contains(all, s) {
		return s
	}
	return ""
}

func joined(list []string) html {
	out := html{}
	for i, s := range list {
		if i > 0 {
			out = group(out, text(", "))
		}
		out = group(out, code(s))
	}
	return out
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
