package console

import (
	"net/http"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
)

// question is one approval with what the visitor is told of it.
type question struct {
	*visit
	api.Approval
	First  bool // of its task: it tells what was before
	Before *soFar
}

// task is the questions of one caller in one lane, the oldest first: one answer can be for all
// of them, where none is asked about at each call.
type task struct {
	*visit
	Questions []question
}

func (t task) First() question { return t.Questions[0] }

func (t task) Single() bool { return len(t.Questions) == 1 }

// Bound reports whether one of them is asked about at each call.
func (t task) Bound() bool {
	return slices.ContainsFunc(t.Questions, func(q question) bool { return q.Longest == string(consent.KindCall) })
}

// Acknowledgement is what one answer that allows all of them acknowledges; "" for nothing.
func (t task) Acknowledgement() string {
	var all []api.Surface
	for _, q := range t.Questions {
		all = append(all, q.Surface)
	}
	return acknowledgement(all...)
}

// Asked reports whether the visitor asked one of them.
func (t task) Asked() bool {
	return slices.ContainsFunc(t.Questions, func(q question) bool { return q.Own != nil })
}

// tasks puts the questions of one caller in one lane together.
func (v *visit) tasks(all []api.Approval) []task {
	var list []task
	for _, a := range all {
		q := question{visit: v, Approval: a}
		at := slices.IndexFunc(list, func(t task) bool { return t.First().Principal == a.Principal && t.First().Lane == a.Lane })
		if at < 0 {
			q.First, q.Before = true, v.soFar(a)
			list = append(list, task{v, []question{q}})
			continue
		}
		list[at].Questions = append(list[at].Questions, q)
	}
	return list
}

// Watched is the device whose live page is shown; empty on other pages.
func (v *visit) Watched() string { return string(v.watched) }

// Headline says in a line what would happen.
func (q question) Headline() string {
	if q.Form != nil {
		return "The provider " + q.Form.Provider + " asks you something"
	}
	if q.Wants != "" {
		return "This call wants " + q.Wants
	}
	if q.Question == nil {
		return orElse(q.Title, string(q.Tool))
	}
	does := orElse(q.Question.Does, orElse(q.Title, string(q.Tool)))
	if q.Question.Does != "" {
		does = strings.ToUpper(does[:1]) + does[1:]
	}
	return does + q.Question.Into
}

// Device is the node by its name.
func (q question) Device() string { return orElse(q.NodeLabel, string(q.Node)) }

// Attended says whether anybody is there for the answer.
func (q question) Attended() string {
	switch {
	case q.Waiting > 0:
		return "the caller is waiting"
	case q.MayReturn:
		return "the caller is not waiting now, and may come back for the answer"
	}
	return "nobody is waiting for the answer now"
}

// Args are the arguments, for those who are told no more.
func (q question) Args() []pair { return argumentsOf(q.Arguments) }

// HowRisky is its risk in a word and a shape.
func (q question) HowRisky() *risk { return riskOf(q.Risk) }

// Mood is where the answer takes the device.
func (q question) Mood() mood { return moodOf(q.Surface.Mode) }

// Elevated is the word for what is privileged, also where policy gave less than was declared.
func (q question) Elevated() mood { return moodOf(api.ModeElevated) }

// Acknowledgement is what an allow of it acknowledges; "" for nothing.
func (q question) Acknowledgement() string { return acknowledgement(q.Surface) }

// acknowledgement words what an allow acknowledges (S1-29, S1-32).
func acknowledgement(all ...api.Surface) string {
	var can []string
	if slices.ContainsFunc(all, api.Surface.Privileged) {
		can = append(can, "control what belongs to a person")
	}
	if slices.ContainsFunc(all, func(s api.Surface) bool { return s.Confirm }) {
		can = append(can, "change or delete files for good")
	}
	if len(can) == 0 {
		return ""
	}
	return "I have read what it would do. I know that it can " + strings.Join(can, " and ") + "."
}

// OnDemand is what an argument is called that is shown on demand.
func (q question) OnDemand(name string) string {
	return orElse(map[string]string{"offer": "viewer's connection"}[name], "script")
}

// oneApproval is a question alone, with its texts as long as they are; once it is over, what
// became of it.
func (c *Console) oneApproval(v *visit) {
	q := question{visit: v, First: true}
	if err := v.get(v1("approvals", v.r.PathValue("approval"))+"?args=1", &q.Approval); err != nil {
		v.show(page{name: "problem", title: "Approval", here: "/console/approvals", fault: err})
		return
	}
	shown := approvalPage{Card: q}
	switch q.State {
	case string(consent.StatePending):
		shown.Open, shown.Card.Before = true, v.soFar(q.Approval)
	case string(consent.StateClosed):
		shown.Closed = map[consent.Closure]string{
			consent.ClosedCancelled: "its call was cancelled", consent.ClosedLane: "its lane has ended",
			consent.ClosedToken: "the token of its caller was revoked", consent.ClosedStopped: "everything, or its device, was stopped",
			consent.ClosedRestarted: "the gateway restarted, and asks again with the same call",
			consent.ClosedPolicy:    "another policy is in force, which decides its call anew",
		}[consent.Closure(q.Closed)]
	}
	v.show(page{name: "approval", title: "Approval", here: "/console/approvals", live: "approval", modules: []string{"passkey"}, data: shown})
}

type approvalPage struct {
	Card   question
	Open   bool
	Closed string // why nobody wants an answer any more
}

// approvalFrame passes the picture on.
func (c *Console) approvalFrame(v *visit) {
	guardHeaders(v.w)
	c.opts.API.Pass(v.w, v.r, v1("approvals", v.r.PathValue("approval"), "frame"))
}

// answerTogether passes one answer to several questions on.
func (c *Console) answerTogether(v *visit) {
	in, err := v.answerFields()
	if err == nil {
		var said api.Answered
		several := api.AnswerApprovals{Approvals: v.r.PostForm["approval"], AnswerApproval: in}
		if err = v.ask(http.MethodPost, v1("approvals"), several, &said); err == nil && len(said.Failed) > 0 {
			err = said.Failed[0].Error.Err()
		}
	}
	v.answered(err, in.Answer == "deny")
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

// waitingOn is what waits for a person about a device, answerable where it is watched.
func (v *visit) waitingOn(node capabilities.NodeID) []task {
	var list api.ApprovalList
	if v.get(v1("approvals"), &list) != nil {
		return nil
	}
	return v.tasks(slices.DeleteFunc(list.Approvals, func(a api.Approval) bool { return a.Node != node }))
}
