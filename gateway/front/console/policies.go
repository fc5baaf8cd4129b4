package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/rules"
)

func (v *visit) set(name string) (s api.PolicySet, err error) {
	return s, v.get(v1("policy", "sets", name), &s)
}

// policies shows what is in force, what is staged, and what was.
func (c *Console) policies(v *visit) {
	v.showPolicies(nil, nil, explained{Role: policy.RoleAgent, Principal: "agent"})
}

// policiesPage is what is in force, what is staged, what was, and the form that asks about a
// call.
type policiesPage struct {
	*visit
	Explained *explanation
	Files     []file
	Drafts    []draft
	History   []version
	Broken    *fault // the policy folder does not load
	Differs   string // the set that the policy folder has, if it is not in force

	Asked      explained
	Role, Node choice
	Tools      []knownTool
}

// Latest is what was put in force last; nil if that is not known.
func (p policiesPage) Latest() *version {
	if len(p.History) == 0 {
		return nil
	}
	return &p.History[0]
}

type version struct{ api.PolicyVersion }

// Short is the name that people read.
func (x version) Short() string { return rules.Short(x.Snapshot) }

type draft struct{ api.PolicyDraft }

// Short is the name that people read.
func (d draft) Short() string { return rules.Short(d.Snapshot) }

// file is one policy file.
type file struct {
	Name   string
	Length int // in lines
	Lines  []string
}

func filesOf(s api.PolicySet) []file {
	var all []file
	for _, f := range rules.FilesOf(s) {
		lines := strings.Split(strings.TrimSuffix(string(f.Data), "\n"), "\n")
		all = append(all, file{f.Name, len(lines), lines})
	}
	return all
}

func (v *visit) showPolicies(problem error, said *explanation, asked explained) {
	active, err := v.set(rules.Active)
	if err != nil {
		v.show(page{name: "problem", title: "Policies", here: "/console/policies", fault: err})
		return
	}
	shown := policiesPage{visit: v, Explained: said, Files: filesOf(active), Asked: asked}
	var past struct {
		Versions []version `json:"versions"`
	}
	var drafts struct {
		Drafts []draft `json:"drafts"`
	}
	if err := v.get(v1("policy", "history")+"?limit=50", &past); err != nil {
		problem = err
	}
	if err := v.get(v1("policy", "drafts"), &drafts); err != nil {
		problem = err
	}
	shown.History, shown.Drafts = past.Versions, drafts.Drafts
	switch staged, err := v.set(rules.Staged); {
	case err != nil:
		shown.Broken = faultOf(err)
	case staged.Snapshot != active.Snapshot:
		shown.Differs = staged.Snapshot
	}
	shown.explainable()
	v.show(page{name: "policies", title: "Policies", here: "/console/policies", live: "packet", fault: problem, data: shown})
}

// explained is a question that somebody asks of the policy, and the form that it came
// from.
type explained struct {
	Principal, Role, Tool, Node, Lane, Args string
}

type knownTool struct {
	ID    string `json:"tool_id"`
	Title string `json:"title"`
}

// explainable fills in the form that asks whether a call would pass.
func (p *policiesPage) explainable() {
	var nodes struct {
		Nodes []device `json:"nodes"`
	}
	var tools struct {
		Tools []knownTool `json:"tools"`
	}
	_, _ = p.get(v1("nodes"), &nodes), p.get(v1("tools")+"?all=1", &tools) // without them the fields take what is typed
	options := []string{"", "where it would go"}
	for _, n := range nodes.Nodes {
		options = append(options, string(n.ID), n.Called()+" ("+string(n.ID)+")")
	}
	if p.Asked.Node != "" && !slices.Contains(options, p.Asked.Node) {
		options = append(options, p.Asked.Node, p.Asked.Node)
	}
	p.Tools = tools.Tools
	p.Role = choose("x-role", "role", "Role of their token", p.Asked.Role, policy.RoleAgent, "agent", "operator", "operator", "admin", "admin")
	p.Node = choose("x-node", "node", "Device", p.Asked.Node, options...)
}

func (c *Console) explain(v *visit) {
	f := v.r.PostForm
	x := explained{
		Principal: f.Get("principal"), Role: f.Get("role"), Tool: strings.TrimSpace(f.Get("tool")), Node: f.Get("node"), Lane: f.Get("lane"),
		Args: f.Get("args"),
	}
	in := api.ExplainPolicy{
		Principal: capabilities.PrincipalID(x.Principal), Role: x.Role, Tool: capabilities.ToolID(x.Tool), Node: capabilities.NodeID(x.Node),
		Lane: capabilities.LaneID(x.Lane),
	}
	if strings.TrimSpace(x.Args) != "" {
		if !json.Valid([]byte(x.Args)) {
			v.showPolicies(capabilities.Errorf(capabilities.CodeInvalidRequest, "the arguments are no JSON").
				WithHint(`Write an object, such as {"url": "https://example.com/"}.`), nil, x)
			return
		}
		in.Args = json.RawMessage(x.Args)
	}
	var said policy.Explanation
	if err := v.ask(http.MethodPost, v1("policy", "explain"), in, &said); err != nil {
		v.showPolicies(err, nil, x)
		return
	}
	v.showPolicies(nil, &explanation{said, x}, x)
}

// explanation is what policy said to a question.
type explanation struct {
	policy.Explanation
	Asked explained
}

// Verdict is the answer in words.
func (x explanation) Verdict() string {
	return map[string]string{
		"allow": "It would run", "ask": "A person would be asked", "deny": "It would be denied",
	}[x.Decision.Effect.String()]
}

// Class is the class of the answer.
func (x explanation) Class() string {
	return known(x.Decision.Effect.String(), "allow", "ask", "deny")
}

// policySet is one set beside the one in force: what it would change, what it would
// have decided, and the way to put it in force.
func (c *Console) policySet(v *visit) { v.showSet(nil, nil) }

type policyPage struct {
	*visit
	Snapshot, From string // this one, and the one in force
	Difference     []changed
	Replayed       *replayed
	Files          []file
}

// Same reports whether it is the one in force.
func (p policyPage) Same() bool { return p.Snapshot == p.From }

// changed is a line of a difference, with its sign.
type changed struct{ Text string }

func (l changed) Added() bool { return strings.HasPrefix(l.Text, "+ ") }

func (l changed) Removed() bool { return strings.HasPrefix(l.Text, "- ") }

func (v *visit) showSet(problem error, found *replayed) {
	pg := page{
		name: "policy", here: "/console/policies", fault: problem,
		remedy: v.remedy(problem, "POST /v1/policy/activate", "/console/confirm/activate"), modules: []string{"passkey"},
	}
	active, err := v.set(rules.Active)
	next := api.PolicySet{}
	if err == nil {
		next, err = v.set(v.r.PathValue("set"))
	}
	if err != nil {
		pg.name, pg.title, pg.fault = "problem", "A policy", err
		v.show(pg)
		return
	}
	pg.title = "Policy " + rules.Short(next.Snapshot)
	shown := policyPage{visit: v, Snapshot: next.Snapshot, From: active.Snapshot, Replayed: found, Files: filesOf(next)}
	if !shown.Same() {
		for _, l := range rules.Diff(rules.FilesOf(active), rules.FilesOf(next)) {
			shown.Difference = append(shown.Difference, changed{l})
		}
	}
	pg.data = shown
	v.show(pg)
}

func (c *Console) changePolicy(v *visit) {
	f := v.r.PostForm
	switch f.Get("do") {
	case "activate":
		if err := v.sends("activate", nil); err != nil {
			v.showSet(err, nil)
			return
		}
		v.seeOther("/console/policies", "activated")
	case "replay":
		var r api.PolicyReplay
		if err := v.ask(http.MethodPost, v1("policy", "replay"), api.ReplayPolicy{Set: v.r.PathValue("set"), Days: replayedDays(f.Get("days"))},
			&r); err != nil {
			v.showSet(err, nil)
			return
		}
		v.showSet(nil, &replayed{r})
	default:
		v.showSet(capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no change"), nil)
	}
}

// replayedDays is how far back a person wants a set tried; 0: on everything that is recorded.
func replayedDays(typed string) int {
	days, err := strconv.Atoi(typed)
	if err != nil || days < 0 || days > 3650 {
		return 0
	}
	return days
}

// replayed is what a set would have decided.
type replayed struct{ api.PolicyReplay }

// Latest are the calls that would be decided otherwise, the newest first.
func (r *replayed) Latest() []*api.PolicyChange {
	var all []*api.PolicyChange
	for i := range slices.Backward(r.Changes) {
		all = append(all, &r.Changes[i])
	}
	return all
}

// editPolicy is a set with its files open to be written.
func (c *Console) editPolicy(v *visit) { v.showEdit(nil, url.Values{}) }

// editPage is a copy of what is in force, as far as it was written.
type editPage struct {
	*visit
	Base         string
	Rule         string              // that somebody came to change; "" for none
	Permit       capabilities.ToolID // that no rule permits, and New has one for; "" for none
	In           string              // the file that has it; "": none
	Files        []editedFile
	NewName, New string
}

type editedFile struct{ ID, Name, Text string }

func (v *visit) showEdit(problem error, typed url.Values) {
	pg := page{name: "edit", title: "Write a change", here: "/console/policies", fault: problem, modules: []string{"editor"}}
	active, err := v.set(rules.Active)
	if err != nil {
		pg.name, pg.fault = "problem", err
		v.show(pg)
		return
	}
	shown := editPage{visit: v, Base: active.Snapshot, NewName: typed.Get("new-name"), New: typed.Get("new")}
	shown.Rule = v.r.URL.Query().Get("rule")
	if tool := capabilities.ToolID(v.r.URL.Query().Get("permit")); ruleFor(tool) != "" {
		shown.Permit, shown.Rule, shown.NewName = tool, "", capabilities.First(strings.ReplaceAll(ruleFor(tool), ".", "-"), 50)+".cedar"
		shown.New = fmt.Sprintf("@id(%q)\npermit (principal, action == Action::%q, resource)\nwhen { context.consent };\n",
			ruleFor(tool), string(tool))
	}
	for i, s := range rules.FilesOf(active) {
		f := editedFile{"f" + itoa(i+1), s.Name, string(s.Data)}
		if shown.Rule != "" && shown.In == "" && strings.Contains(f.Text, ruleMark(shown.Rule)) {
			shown.In = s.Name
		}
		if _, is := typed[f.ID]; is {
			f.Text = typed.Get(f.ID)
		}
		shown.Files = append(shown.Files, f)
	}
	pg.data = shown
	v.show(pg)
}

// ruleMark is how a file says which rule one is.
func ruleMark(id string) string { return "@id(" + strconv.Quote(id) + ")" }

// draft stages what was written.
func (c *Console) draft(v *visit) {
	f := v.r.PostForm
	in := api.StagePolicy{Base: f.Get("base")}
	base, err := v.set(in.Base)
	if err != nil {
		v.showEdit(err, f)
		return
	}
	for i, s := range base.Sources {
		id := "f" + itoa(i+1)
		switch typed := unixLines(f.Get(id)); {
		case f.Get(id+"-name") != s.Name: // the form is not of this set
			v.showEdit(capabilities.Errorf(capabilities.CodeConflict, "the form does not fit the policy it was made from").
				WithHint("Open the page again."), url.Values{})
			return
		case f.Get(id+"-gone") == "1":
			in.Remove = append(in.Remove, s.Name)
		case typed != unixLines(s.Text):
			in.Files = append(in.Files, api.PolicyFile{Name: s.Name, Text: typed})
		}
	}
	if name := strings.TrimSpace(f.Get("new-name")); name != "" {
		in.Files = append(in.Files, api.PolicyFile{Name: name, Text: unixLines(f.Get("new"))})
	} else if strings.TrimSpace(f.Get("new")) != "" {
		v.showEdit(capabilities.Errorf(capabilities.CodeInvalidRequest, "the further file needs a name"), f)
		return
	}
	var made api.PolicySet
	if err := v.ask(http.MethodPost, v1("policy", "drafts"), in, &made); err != nil {
		v.showEdit(err, f)
		return
	}
	v.seeOther(at("policies", made.Snapshot), "staged")
}

// unixLines undoes what forms do to line ends.
func unixLines(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// overrideFile is where rules go that answer a question for good.
const overrideFile = "overrides.cedar"

// override stages the rule that an approval offers; putting it in force is the
// privileged call like for every other.
func (c *Console) override(v *visit) {
	id, effect := v.r.PathValue("approval"), v.r.PostForm.Get("effect")
	var a api.Approval
	if err := v.get(v1("approvals", id), &a); err != nil {
		v.showApprovals(err)
		return
	}
	active, err := v.set(rules.Active)
	if err != nil {
		v.showApprovals(err)
		return
	}
	for _, o := range a.Overrides {
		if o.Effect != effect {
			continue
		}
		before := ""
		for _, s := range active.Sources {
			if s.Name == overrideFile {
				before = strings.TrimRight(s.Text, "\n") + "\n\n"
			}
		}
		var made api.PolicySet
		in := api.StagePolicy{
			Base: active.Snapshot, Files: []api.PolicyFile{{Name: overrideFile, Text: before + "// Answers " + id + " for good.\n" + o.Cedar}},
		}
		if err := v.ask(http.MethodPost, v1("policy", "drafts"), in, &made); err != nil {
			v.showApprovals(err)
			return
		}
		v.seeOther(at("policies", made.Snapshot), "staged")
		return
	}
	v.showApprovals(capabilities.Errorf(capabilities.CodeInvalidRequest, "the question offers no such rule"))
}
