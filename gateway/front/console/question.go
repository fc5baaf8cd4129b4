package console

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	view "github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/front"
)

// question is one approval with what the visitor is told of it.
type question struct{ view.Approval }

// tasks puts the questions of one caller in one lane together, the oldest first.
func tasks(all []question) [][]question {
	var list [][]question
	for _, q := range all {
		at := slices.IndexFunc(list, func(t []question) bool { return t[0].Principal == q.Principal && t[0].Lane == q.Lane })
		if at < 0 {
			list = append(list, []question{q})
			continue
		}
		list[at] = append(list[at], q)
	}
	return list
}

// task is the questions of one task: one answer can be for all of them, where none is asked
// about at each call.
func (v *visit) task(list []question) html {
	first := list[0]
	cards := each(list, func(q question) html { return v.question(q, q.ID == first.ID) })
	if len(list) == 1 {
		return cards
	}
	n := strconv.Itoa(len(list))
	ids := html{}
	bound, own := false, false
	for _, q := range list {
		ids = group(ids, void("input", attrs{"type", "hidden", "name", "approval", "value", q.ID}))
		bound, own = bound || q.Longest == string(consent.KindCall), own || q.Own != nil
	}
	answers := v.control("POST /v1/approvals", "/console/approvals", attrs{"class", "together"},
		v.returns(), ids,
		div("buttons",
			when(!bound && !own, group(
				el("button", attrs{"class", "plain", "type", "submit", "name", "answer", "value", string(consent.KindCall)}, text("Allow "+n+" once")),
				el("button", attrs{"class", "plain", "type", "submit", "name", "answer", "value", string(consent.KindLease)}, text("Allow "+n+" for 5 min")))),
			el("button", attrs{"class", "danger", "type", "submit", "name", "answer", "value", "deny"}, text("Deny "+n))),
		when(bound, el("p", class("small faint"), text("One of them is asked about at each call, so they are allowed one by one."))),
		when(own && !bound, el("p", class("small faint"), text("You asked for these yourself, so they are allowed one by one."))))
	return el("section", attrs{"class", "task", "id", "t-" + first.ID, "aria-label", n + " questions of " + string(first.Principal)},
		el("p", class("asks"), el("strong", nil, text(string(first.Principal))), text(" asks "+n+" questions in lane "), code(string(first.Lane)), text(".")),
		answers,
		div("cards", cards))
}

// question is one card: what would happen first, then who asks, where, and the answers.
func (v *visit) question(q question, first bool) html {
	a := q.Approval
	id := "q-" + a.ID
	where := html{}
	if a.Node != "" {
		where = group(text(" on "), el("strong", nil, text(orElse(a.NodeLabel, string(a.Node)))))
	}
	return el("article", attrs{"class", "card question", "id", id, "tabindex", "0", "aria-labelledby", id + "-h", "data-question", ""},
		el("header", nil,
			el("h2", attrs{"id", id + "-h"}, text(headline(q))),
			risk(a.Risk)),
		el("p", class("asks"), el("strong", nil, text(string(a.Principal))), text(" wants to use "), code(string(a.Tool)), where, text(".")),
		v.told(q),
		each(a.Why, func(why string) html { return el("p", class("why"), text(why)) }),
		facts(
			fact{"Reaches", joined(a.Hosts)},
			fact{"Files", joined(a.Paths)},
			fact{"Touches", joined(a.Keys)},
			fact{"Lane", code(string(a.Lane))},
			fact{"Asked", group(ago(a.Created), text(" · "+attended(a)))},
			fact{"Expires (denied)", group(ago(a.Expires), v.control("POST /v1/approvals/{approval}/extend", at("approvals", a.ID, "extend"), attrs{"class", "inline"}, button("quiet", "More time", "aria-label", "More time for the question of "+string(a.Principal))))},
		),
		v.signalsOf(a),
		v.answersTo(q),
		when(first, v.soFar(a)),
		v.overrides(a),
	)
}

// answersTo are the answers that the visitor can give.
func (v *visit) answersTo(q question) html {
	if q.Own != nil && v.offers("POST /v1/approvals/{approval}") {
		return v.own(q)
	}
	return v.answers(q.Approval)
}

// headline says in a line what would happen.
func headline(q question) string {
	if q.Question == nil || q.Question.Does == "" {
		title := orElse(q.Title, string(q.Tool))
		if q.Question != nil {
			title += q.Question.Into
		}
		return title
	}
	does := q.Question.Does
	return strings.ToUpper(does[:1]) + does[1:] + q.Question.Into
}

// attended says whether anybody is there for the answer.
func attended(a view.Approval) string {
	switch {
	case a.Waiting > 0:
		return "the caller is waiting"
	case a.MayReturn:
		return "the caller is not waiting now, and may come back for the answer"
	}
	return "nobody is waiting for the answer now"
}

// told is what only those who may answer are shown: the agent's claim, the arguments, the
// place in its picture.
func (v *visit) told(q question) html {
	t := q.Question
	if t == nil {
		return argumentsOf(q.Arguments)
	}
	return group(
		when(t.Purpose != "", el("p", class("claim"), text(string(q.Principal)+" says why: "), el("q", nil, text(t.Purpose)))),
		when(t.Where != nil && t.Where.Terminal, el("p", class("banner"), text("What is typed there are commands."))),
		v.frame(q),
		when(len(t.Fields) > 0, el("dl", class("args"), each(t.Fields, func(f view.Field) html {
			return el("div", nil, el("dt", nil, text(f.Name)), el("dd", nil, v.field(q, f)))
		}))),
		when(t.TooLong, el("p", class("faint"), text("The arguments are too long to be shown."))))
}

func (v *visit) field(q question, f view.Field) html {
	more := when(f.More > 0, el("p", class("small"), textf("… and %d more characters. ", f.More), link(at("approvals", q.ID), text("Show all"))))
	switch {
	case f.Hidden:
		return span("faint", text("a password; nobody is shown it"))
	case f.Script:
		return el("details", attrs{"id", "q-" + q.ID + "-script-" + f.Name}, el("summary", nil, text("Show the "+orElse(onDemand[f.Name], "script"))),
			el("pre", attrs{"tabindex", "0", "aria-label", "The " + orElse(onDemand[f.Name], "script")}, el("code", nil, lines(f.Text))), more)
	}
	return group(text(f.Text), when(f.Is != "", span("faint", text(" ("+f.Is+")"))), more)
}

// frame is the part of the agent's picture that the call points into. No new picture is
// taken for it.
func (v *visit) frame(q question) html {
	f := q.Question.Frame
	switch {
	case f == nil:
		return html{}
	case !f.Available:
		return el("p", class("small faint"), text("The picture that the agent points into is not available here: it is no longer kept, or you may not watch this screen."))
	}
	return el("figure", class("pointed"),
		void("img", attrs{"src", at("approvals", q.ID, "frame"), "alt", "The agent's picture around the place that it points at", "loading", "lazy"}),
		el("figcaption", class("small faint"), text("From the picture that the agent saw. The ring marks the place.")))
}

// onDemand are arguments that are shown on demand and are no scripts, in words.
var onDemand = map[string]string{"offer": "viewer's connection"}

// oneApproval is a question alone, with its texts as long as they are; once it is over, what
// became of it.
func (c *Console) oneApproval(v *visit) {
	var q question
	if err := v.get(api("approvals", v.r.PathValue("approval"))+"?args=1", &q); err != nil {
		v.show(page{title: "Approval", here: "/console/approvals", fault: err})
		return
	}
	body := html{}
	switch q.State {
	case string(consent.StatePending):
		body = v.question(q, true)
	case string(consent.StateClosed):
		why := map[consent.Closure]string{consent.ClosedCancelled: "its call was cancelled", consent.ClosedLane: "its lane has ended", consent.ClosedToken: "the token of its caller was revoked", consent.ClosedStopped: "everything, or its device, was stopped"}[consent.Closure(q.Closed)]
		body = empty("Nobody wants an answer any more", text("The question of "+string(q.Principal)+" was closed: "+why+"."))
	default:
		body = empty("This question is over", textf("The question of %s is %s. What it said is kept only while it is open.", q.Principal, q.State))
	}
	v.show(page{title: "Approval", here: "/console/approvals", live: "approval", modules: []string{"passkey"}, body: body})
}

// approvalFrame passes the picture on.
func (c *Console) approvalFrame(v *visit) {
	guardHeaders(v.w)
	c.opts.API.Pass(v.w, v.r, api("approvals", v.r.PathValue("approval"), "frame"))
}

// answerTogether passes one answer to several questions on.
func (c *Console) answerTogether(v *visit) {
	in, err := v.answerFields()
	if err == nil {
		in["approvals"] = v.r.PostForm["approval"]
		var said struct {
			Failed []struct {
				Error front.ErrorView `json:"error"`
			} `json:"failed"`
		}
		if err = v.ask(http.MethodPost, api("approvals"), in, &said); err == nil && len(said.Failed) > 0 {
			e := said.Failed[0].Error
			err = &capabilities.Error{Code: e.Code, Message: e.Message, Hint: e.Hint}
		}
	}
	v.answered(err, in["answer"] == "deny")
}

// answered goes on to the page that the answer was given on.
func (v *visit) answered(problem error, denied bool) {
	node := capabilities.NodeID(v.r.PostForm.Get("live"))
	switch {
	case problem != nil && node != "":
		v.showWatch(node, problem)
	case problem != nil:
		v.showApprovals(problem)
	case node != "":
		v.seeOther(at("live", string(node)), map[bool]string{true: "denied", false: "allowed"}[denied])
	default:
		v.seeOther("/console/approvals", map[bool]string{true: "denied", false: "allowed"}[denied])
	}
}

// returns has an answer that is given on a device's live page lead back to it.
func (v *visit) returns() html {
	if v.watched == "" {
		return html{}
	}
	return hiddenField("live", string(v.watched))
}

// waitingOn is what waits for a person about a device, answerable where it is watched.
func (v *visit) waitingOn(node capabilities.NodeID) html {
	var list struct {
		Approvals []question `json:"approvals"`
	}
	if v.get(api("approvals"), &list) != nil {
		return html{}
	}
	here := slices.DeleteFunc(list.Approvals, func(q question) bool { return q.Node != node })
	if len(here) == 0 {
		return html{}
	}
	return el("section", attrs{"aria-label", "Waiting for you on this device"}, el("h2", class("part"), text("Waiting for you on this device")),
		el("div", attrs{"class", "cards", "id", "questions"}, each(tasks(here), v.task)))
}
