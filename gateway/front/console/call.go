package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// told is what the packets of one call say together.
type told struct {
	request, decision, dispatch, end *api.Packet

	req packet.Request
	dec packet.Decision
	env *policy.Summary // of dec's envelope; nil if there is none
	dis packet.Dispatch
	fin packet.End
	ran []api.Ran // the programs that carried it out
}

func retold(packets []api.Packet) told {
	var t told
	for i := range packets {
		k := &packets[i]
		switch kind := ledger.Kind(k.Kind); { // what is missing in a body stays empty
		case kind == ledger.KindCallRequest:
			t.request = k
			_ = json.Unmarshal(k.Body, &t.req)
		case kind == ledger.KindCallDecision: // of several the last counts
			t.decision, t.dec = k, packet.Decision{}
			_ = json.Unmarshal(k.Body, &t.dec)
			t.env = t.dec.Summary()
		case kind == ledger.KindCallDispatch:
			t.dispatch = k
			_ = json.Unmarshal(k.Body, &t.dis)
		case kind.Terminal() || kind == ledger.KindCallPending:
			t.end, t.fin, t.ran = k, packet.End{}, front.RunnersOf(k.Body)
			_ = json.Unmarshal(k.Body, &t.fin)
		}
	}
	return t
}

// device is the node it was for, by the name it had then; empty if it needs none.
func (t told) device() string {
	if t.dec.Routing == nil {
		return ""
	}
	if n := t.dec.Routing.Node; n != nil && n.Label != "" {
		return n.Label
	}
	return string(t.dec.Routing.Selected)
}

// ended is how it ended: who ended it on purpose, else its status; empty if it did not.
func (t told) ended() string {
	if by := endedBy(string(t.fin.EndedBy), t.req.Surface); by != "" {
		return "ended " + by
	}
	return string(t.fin.Status)
}

// callPage is one call as its hops, each with what the ledger holds of it.
func (c *Console) callPage(v *visit) { v.showCall(nil) }

func (v *visit) showCall(problem error) {
	id := v.r.PathValue("call")
	var list api.PacketList
	err := v.get(v1("ledger", "packets")+"?"+url.Values{"call": {id}, "limit": {"100"}}.Encode(), &list)
	if err != nil || len(list.Packets) == 0 {
		pg := page{name: "problem", title: "A call", here: "/console/calls", live: "call", fault: err}
		if err == nil {
			pg.name, pg.status = "nocall", http.StatusNotFound
		}
		v.show(pg)
		return
	}
	v.show(page{
		name: "call", title: string(list.Packets[0].Tool), here: "/console/calls", live: "call", fault: problem, data: v.callOf(list.Packets),
	})
}

// callPage is what a page says of one call.
type callPage struct {
	*visit
	ID      capabilities.CallID
	First   *api.Packet
	Device  string
	Step    stepOf
	Running *running
	Verdict *verdict
	// Delivered says that it delivered a secret, which the device keeps from its principal's
	// sight until somebody looked.
	Delivered bool
	Signals   *signals
	Hops      []hop
	Steps     []call
	MoreSteps bool
	Saw       *saw
	Envelope  *envelope
	Drifted   []driftEvent
	Packets   []packetRow
}

// stepOf says of a step whose it is.
type stepOf struct {
	Number uint32
	Parent capabilities.CallID
}

func (v *visit) callOf(packets []api.Packet) callPage {
	t, first := retold(packets), &packets[0]
	p := callPage{
		visit: v, ID: first.Call, First: first, Device: t.device(), Step: stepOf{t.req.Step, t.req.Parent}, Running: t.running(),
		Verdict: t.verdict(), Signals: t.signals(first.Call), Hops: t.hops(), Steps: v.stepsOf(first.Call), Saw: t.saw(), Envelope: t.envelope(),
	}
	p.Delivered = t.fin.Status == capabilities.StatusOK && t.env != nil && front.Surface(nil, t.env.Grants).Secret
	p.MoreSteps = len(p.Steps) == maxSteps
	p.Drifted = v.driftOf(first.Call)
	for i := range packets {
		p.Packets = append(p.Packets, rowOf(&packets[i]))
	}
	return p
}

// verdict says first how a call ended, why, and what is known of its effect.
type verdict struct {
	Mood, Word string
	Code       capabilities.Code
	Took       string
	Effect     capabilities.Effect
}

func (t told) verdict() *verdict {
	if t.end == nil {
		return nil
	}
	mood, says := "no", map[capabilities.Status]string{
		capabilities.StatusOK: "Done", capabilities.StatusDenied: "Denied", capabilities.StatusPending: "Waits for a person",
		capabilities.StatusError: "Failed",
	}[t.fin.Status]
	switch {
	case t.fin.EndedBy != "":
		mood, says = "", sentence(t.ended())
	case t.fin.Status == capabilities.StatusOK:
		mood = "good"
	case t.fin.Status == capabilities.StatusPending:
		mood = ""
	}
	return &verdict{mood, orElse(strings.TrimSuffix(says, "."), t.end.Kind), t.fin.Code, took(t.fin.DurationMS), t.fin.Effect}
}

// classInWords says what an isolation class keeps in.
func classInWords(c capabilities.IsolationClass) string {
	if c.Keeps() == "" {
		return string(c)
	}
	return string(c) + ": " + c.Keeps()
}

// running says that a call runs.
type running struct {
	Since    time.Time
	Deadline string
	Long     bool // it was granted more time than tools usually get
}

func (t told) running() *running {
	if t.dispatch == nil || t.end != nil {
		return nil
	}
	return &running{t.dispatch.Time(), took(float64(t.dis.DeadlineMS)), t.env != nil && front.Surface(nil, t.env.Grants).LongRun}
}

// mood is a state of S1-32 in its word and a shape of its own.
type mood struct{ Class, Mark, Word string }

func moodOf(m api.Mode) mood {
	return mood{
		Class: known(string(m), "safe", "connected", "elevated", "restricted"),
		Mark:  map[api.Mode]string{api.ModeSafe: "○", api.ModeConnected: "◐", api.ModeElevated: "▲", api.ModeRestricted: "◇"}[m],
		Word: map[api.Mode]string{
			api.ModeSafe: "Safe", api.ModeConnected: "Connected", api.ModeElevated: "Elevated", api.ModeRestricted: "Restricted",
		}[m],
	}
}

// signals are the warnings that follow from what was granted.
type signals struct {
	api.Surface
	Call   capabilities.CallID
	Mood   mood
	Reach  string
	Local  bool // what risk it has lies on the device itself
	Risk   *risk
	Grants []string // what is shown of them is told the gateway, which holds it against the envelope
}

// reaches says what a state of S1-32 is.
var reaches = map[api.Mode]string{
	api.ModeSafe: "It reaches no network and has nothing privileged.", api.ModeConnected: "It reaches a network.",
	api.ModeElevated:   "It can control what belongs to a person: mouse and keyboard, secrets or settings.",
	api.ModeRestricted: "Policy gave it less than the tool declares.",
}

func (t told) signals(id capabilities.CallID) *signals {
	e := t.env
	if e == nil {
		return nil
	}
	s := front.Surface(e.Capabilities.Keys(), e.Grants)
	return &signals{
		Surface: s, Call: id, Mood: moodOf(s.Mode), Local: s.Mode == api.ModeSafe && e.Risk != policy.RiskLow, Risk: riskOf(string(e.Risk)),
		Grants: e.Grants, Reach: reaches[s.Mode],
	}
}

// saw says where a call acted. No picture of it is kept: what a screen showed is payload,
// which the ledger never holds.
type saw struct {
	Image, Point string
	Images       int
}

func (t told) saw() *saw {
	at := func(name string) string {
		if n, ok := t.req.Evidence[name].(float64); ok {
			return strconv.FormatFloat(n, 'f', -1, 64)
		}
		return ""
	}
	var s saw
	if s.Image, _ = t.req.Evidence["frame_id"].(string); s.Image == "" {
		s.Image, _ = t.req.Evidence["region_frame_id"].(string)
	}
	x, y := at("x"), at("y")
	for _, b := range t.fin.Blobs {
		if strings.HasPrefix(b.MIME, "image/") {
			s.Images++
		}
	}
	if s.Image == "" && x == "" && s.Images == 0 {
		return nil
	}
	if x != "" && y != "" {
		s.Point = x + ", " + y
	}
	return &s
}

// envelope is what the decision stood on, whole.
type envelope struct {
	packet.Decision
	Profile, Wall, Text string
	// Got is the class that it ran in, or that its node gives; empty: that is not known.
	Got string
	Ran []ran
}

// ran is a program that carried the call out.
type ran struct{ api.Ran }

// Stood is the walls around it, in words.
func (r ran) Stood() string { return strings.Join(r.Walls, ", ") }

// OfRunner is what narrows the list of calls to its own.
func (r ran) OfRunner() string { return query("runner", r.Runner) }

// OfProfile is what narrows the list of calls to those with the same profile.
func (e *envelope) OfProfile() string { return query("profile", e.Profile) }

// OfRunner is what narrows it to those of the same runner.
func (e *envelope) OfRunner() string { return query("runner", e.Runner) }

// OfPolicy is what narrows it to those under the same policy.
func (e *envelope) OfPolicy() string { return query("snapshot", e.Snapshot) }

func (t told) envelope() *envelope {
	if t.env == nil {
		return nil
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, t.dec.Envelope, "", "  ") != nil {
		return nil
	}
	got := cmp.Or(t.fin.Isolation, t.dis.Given, t.dec.Given)
	e := &envelope{t.dec, t.env.Profile, classInWords(t.env.Isolation), pretty.String(), classInWords(got), nil}
	for _, r := range t.ran {
		e.Ran = append(e.Ran, ran{r})
	}
	return e
}

// hop is one of the twelve.
type hop struct {
	Name, Says string
	At         time.Time
	Reached    bool
	Args       []pair
	Facts      []detail
	Grant      string
	After      string // how long after the first; empty: at At
}

// detail is a fact about a hop, as text or as codes.
type detail struct {
	Name, Text string
	Codes      []string
}

// hops tells where a call came through. A hop that was not reached says so: a refusal ends the
// list's truth, not the list.
func (t told) hops() []hop {
	timeOf := func(k *api.Packet) time.Time {
		if k == nil {
			return time.Time{}
		}
		return k.Time()
	}
	decided := ""
	if t.decision != nil {
		decided = t.dec.Effect.String()
	}
	ran := t.dispatch != nil
	node := t.dec.Routing != nil && t.dec.Routing.Selected != ""
	all := []hop{
		{Name: "Asked", Says: "through " + orElse(t.req.Surface, "a surface"), At: timeOf(t.request), Reached: t.request != nil},
		{
			Name: "Arguments", Says: "checked against the tool's schema", At: timeOf(t.request), Args: argumentsOf(t.req.Evidence),
			Reached: t.req.Digest != "",
		},
		{Name: "Node", Reached: node},
		{Name: "Policy", Says: decided, At: timeOf(t.decision), Facts: []detail{
			{Name: "Rules", Codes: t.dec.Policies}, {Name: "Policy", Codes: some(t.dec.Snapshot)}, {Name: "Code", Text: string(t.dec.Code)},
		}, Reached: t.decision != nil},
		{Name: "Repeated", Says: "no: a repeated call returns the first result", Reached: t.decision != nil},
		{
			Name: "Person", Says: orElse(iff(t.dec.Grant != "", "allowed by a grant"), "nobody had to be asked"), Grant: t.dec.Grant,
			Reached: ran || t.dec.Grant != "",
		},
		{Name: "Written down", Says: "request, decision and intent in one commit", At: timeOf(t.dispatch), Reached: ran},
		{
			Name: "Sent", Says: "to the " + orElse(t.dis.Target, "node"), At: timeOf(t.dispatch),
			Facts: []detail{{Name: "Deadline", Text: took(float64(t.dis.DeadlineMS))}}, Reached: ran,
		},
		{Name: "The device's word", Says: "the device checked it anew", Reached: ran && t.dis.Target == "node"},
		{Name: "Ran", Says: "isolation " + orElse(string(t.dis.Given), "unknown"), Reached: ran},
		{Name: "Recorded", Says: orElse(t.ended(), "not yet"), At: timeOf(t.end), Facts: []detail{
			{Name: "Took", Text: took(t.fin.DurationMS)}, {Name: "Code", Text: string(t.fin.Code)}, {Name: "Effect", Text: string(t.fin.Effect)},
		}, Reached: t.end != nil},
		{Name: "Answered", Says: orElse(t.ended(), "not yet"), At: timeOf(t.end), Reached: t.end != nil},
	}
	if ran && t.dis.Target == "node" && t.fin.Status != capabilities.StatusOK { // whether it ran then is in the device's journal
		all[8].Says, all[9].Says = "the ledger does not say; the device's journal does", "the ledger does not say; the device's journal does"
	}
	if ran && t.dis.Target == "gateway" {
		all[8].Says, all[8].Reached, all[9].Says = "no device has a part in it", true, "in the gateway itself"
	}
	if t.dec.Code == capabilities.CodeApprovalPending {
		all[5].Says, all[5].Reached = "a person has to answer", true
	}
	if r := t.dec.Routing; r != nil && r.Selected != "" {
		all[2].Says = t.device()
		all[2].Facts = []detail{{Name: "Chosen", Text: string(r.Mode)}, {Name: "Node", Codes: some(string(r.Selected))}}
	} else if r != nil || t.dispatch != nil {
		all[2] = hop{Name: "Node", Says: "none is needed", Reached: true}
	}
	for i := range all[1:] {
		all[i+1].After = after(all[0].At, all[i+1].At)
	}
	return all
}

// after is how long after the first a hop was; empty if that is not known.
func after(began, at time.Time) string {
	if began.IsZero() || at.IsZero() {
		return ""
	}
	ms := float64(at.Sub(began).Microseconds()) / 1000
	if ms < 10 {
		return "+" + strconv.FormatFloat(max(ms, 0), 'f', 1, 64) + " ms"
	}
	return "+" + took(ms)
}

// some is a list of what there is.
func some(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
