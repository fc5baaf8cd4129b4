package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/rules"
)

func (v *visit) set(name string) (s rules.Set, err error) {
	return s, v.get(api("policy", "sets", name), &s)
}

// policies shows what is in force, what is staged, and what was.
func (c *Console) policies(v *visit) {
	v.showPolicies(nil, html{}, explained{Role: policy.RoleAgent, Principal: "agent"})
}

func (v *visit) showPolicies(problem error, first html, asked explained) {
	pg := page{title: "Policies", here: "/console/policies", live: "packet", fault: problem,
		lead: text("What agents may do. What no rule permits is denied; a rule that forbids wins over every other.")}
	active, err := v.set(rules.Active)
	if err != nil {
		pg.fault = err
		v.show(pg)
		return
	}
	var past struct {
		Versions []rules.Version `json:"versions"`
	}
	var drafts struct {
		Drafts []rules.Draft `json:"drafts"`
	}
	if err := v.get(api("policy", "history")+"?limit=50", &past); err != nil {
		pg.fault = err
	}
	if err := v.get(api("policy", "drafts"), &drafts); err != nil {
		pg.fault = err
	}
	since := html{}
	if len(past.Versions) > 0 {
		last := past.Versions[0]
		since = facts(fact{"Policy", code(rules.Short(last.Snapshot))}, fact{"Since", ago(last.At)}, fact{"By", text(string(last.By))}, fact{"Reason", text(last.Reason)})
	}
	pg.body = group(first,
		card("active", "In force", since, each(active.Files(), fileOf),
			div("buttons", v.way("POST /v1/policy/drafts", "/console/policies/edit", class("button"), text("Write a change")))),
		v.stagedCard(active, drafts.Drafts),
		v.explainCard(asked),
		el("h2", class("part"), text("History")),
		historyOf(past.Versions))
	v.show(pg)
}

// fileOf is one policy file, closed until somebody wants to read it.
func fileOf(s policy.Source) html {
	n := strings.Count(string(s.Data), "\n")
	return el("details", attrs{"id", "file-" + s.Name}, el("summary", nil, text(s.Name+", "+count(n, "line", "lines"))),
		el("pre", attrs{"class", "numbered", "tabindex", "0", "aria-label", "The file " + s.Name}, el("code", nil, each(strings.Split(strings.TrimSuffix(string(s.Data), "\n"), "\n"), func(l string) html {
			return group(span("line", lines(l)), html{"\n"})
		}))))
}

// stagedCard says what waits to be put in force: the policy folder's files, and what
// was written here.
func (v *visit) stagedCard(active rules.Set, drafts []rules.Draft) html {
	folder := html{}
	switch staged, err := v.set(rules.Staged); {
	case err != nil:
		folder = group(el("p", nil, text("The files in the policy folder do not load; what is in force stays as it is.")), fault(err))
	case staged.Snapshot == active.Snapshot:
		folder = el("p", nil, text("The files in the policy folder are what is in force."))
	default:
		folder = el("p", nil, text("The files in the policy folder differ: "), v.way("GET /v1/policy/sets/{set}", at("policies", staged.Snapshot), nil, text("see what they would change")), text("."))
	}
	return card("staged", "Staged", el("p", class("faint"), text("Staged rules decide nothing until somebody activates them.")), folder,
		when(len(drafts) > 0, el("ul", class("plainlist"), each(drafts, func(d rules.Draft) html {
			return el("li", nil, link(at("policies", d.Snapshot), code(rules.Short(d.Snapshot))), text(" written here by "), text(string(d.By)), text(" "), span("faint", ago(d.At)))
		}))))
}

func historyOf(all []rules.Version) html {
	rows := make([][]html, 0, len(all))
	for i, x := range all {
		state := html{}
		if i == 0 {
			state = span("state good", text("in force"))
		}
		rows = append(rows, []html{link(at("policies", x.Snapshot), code(rules.Short(x.Snapshot))), text(string(x.By)), text(x.Reason), ago(x.At), state})
	}
	return table("Policies that were in force, newest first", columns("Policy", "By", "Reason", "Since", "State"), rows)
}

// explained is a question that somebody asks of the policy, and the form that it came
// from.
type explained struct {
	Principal, Role, Tool, Node, Lane, Args string
}

// explainCard asks whether a call would pass.
func (v *visit) explainCard(x explained) html {
	var nodes struct {
		Nodes []device `json:"nodes"`
	}
	var tools struct {
		Tools []struct {
			ID    string `json:"tool_id"`
			Title string `json:"title"`
		} `json:"tools"`
	}
	_, _ = v.get(api("nodes"), &nodes), v.get(api("tools")+"?all=1", &tools) // without them the fields take what is typed
	options := []string{"", "where it would go"}
	for _, n := range nodes.Nodes {
		options = append(options, string(n.ID), orElse(n.Label, n.Host)+" ("+string(n.ID)+")")
	}
	if x.Node != "" && !slices.Contains(options, x.Node) {
		options = append(options, x.Node, x.Node)
	}
	return card("explain", "Would this call pass?",
		v.control("POST /v1/policy/explain", "/console/policies/explain", attrs{"class", "grid"},
			input("x-principal", "principal", "Who", x.Principal, "maxlength", "128", "required", ""),
			choice("x-role", "role", "Role of their token", x.Role, policy.RoleAgent, "agent", "operator", "operator", "admin", "admin"),
			input("x-tool", "tool", "Tool", x.Tool, "maxlength", "128", "required", "", "list", "x-tools", "placeholder", "tool.browser.navigate"),
			el("datalist", attrs{"id", "x-tools"}, each(tools.Tools, func(t struct {
				ID    string `json:"tool_id"`
				Title string `json:"title"`
			}) html {
				return el("option", attrs{"value", t.ID}, text(t.Title))
			})),
			choice("x-node", "node", "Device", x.Node, options...),
			input("x-lane", "lane", "Lane (default: their own)", x.Lane, "maxlength", "128"),
			div("whole", area("x-args", "args", "Arguments, as a JSON object", x.Args, "rows", "2", "placeholder", "{}", "class", "mono")),
			button("main", "Explain")))
}

func (c *Console) explain(v *visit) {
	f := v.r.PostForm
	x := explained{Principal: f.Get("principal"), Role: f.Get("role"), Tool: strings.TrimSpace(f.Get("tool")), Node: f.Get("node"), Lane: f.Get("lane"), Args: f.Get("args")}
	in := map[string]any{"principal": x.Principal, "role": x.Role, "tool": x.Tool, "node": x.Node, "lane": x.Lane}
	if strings.TrimSpace(x.Args) != "" {
		if !json.Valid([]byte(x.Args)) {
			v.showPolicies(capabilities.Errorf(capabilities.CodeInvalidRequest, "the arguments are no JSON").WithHint(`Write an object, such as {"url": "https://example.com/"}.`), html{}, x)
			return
		}
		in["args"] = json.RawMessage(x.Args)
	}
	var said policy.Explanation
	if err := v.ask(http.MethodPost, api("policy", "explain"), in, &said); err != nil {
		v.showPolicies(err, html{}, x)
		return
	}
	v.showPolicies(nil, explanation(x, said), x)
}

func explanation(asked explained, x policy.Explanation) html {
	effect := x.Decision.Effect.String()
	word := map[string]string{"allow": "It would run", "ask": "A person would be asked", "deny": "It would be denied"}[effect]
	rows := make([][]html, 0, len(x.Rules))
	for _, r := range x.Rules {
		rows = append(rows, []html{code(r.ID), text(r.Effect), text(r.Says()), text(r.Why), text(r.Source + ":" + itoa(r.Line))})
	}
	return el("section", attrs{"class", "card once verdict " + known(effect, "allow", "ask", "deny"), "data-once", "", "aria-labelledby", "verdict-h"},
		el("h2", attrs{"id", "verdict-h"}, text(word)),
		el("p", nil, code(asked.Tool), text(" for "), el("strong", nil, text(asked.Principal)), when(x.Decision.Reason != "", text(": "+x.Decision.Reason))),
		facts(fact{"Decided by", joined(x.Decision.Determining)}, fact{"Without", joined(x.Decision.Withheld)}),
		when(len(rows) > 0, group(el("h3", nil, text("Rules that can apply to it")), table("Rules that can apply", columns("Rule", "Effect", "Applies", "Why", "Where"), rows))))
}

// policySet is one set beside the one in force: what it would change, what it would
// have decided, and the way to put it in force.
func (c *Console) policySet(v *visit) { v.showSet(nil, html{}) }

func (v *visit) showSet(problem error, more html) {
	pg := page{title: "A policy", here: "/console/policies", fault: problem, remedy: v.remedy(problem, "POST /v1/policy/activate", "/console/confirm/activate"), modules: []string{"passkey"}}
	active, err := v.set(rules.Active)
	next := rules.Set{}
	if err == nil {
		next, err = v.set(v.r.PathValue("set"))
	}
	if err != nil {
		pg.fault = err
		v.show(pg)
		return
	}
	pg.title = "Policy " + rules.Short(next.Snapshot)
	same := next.Snapshot == active.Snapshot
	if same {
		pg.lead = text("This is what is in force.")
	} else {
		pg.lead = text("What would change against what is in force.")
	}
	pg.body = group(
		when(!same, card("diff", "The difference", diffOf(rules.Diff(active.Files(), next.Files())))),
		more,
		when(!same, v.activation(active, next)),
		v.control("POST /v1/policy/replay", at("policies", next.Snapshot), attrs{"class", "card"},
			el("h2", nil, text("Replay")),
			el("p", class("faint"), text("Judges the recorded calls again under these rules. Nothing is changed by it.")),
			button("plain", "What would it have decided?", "name", "do", "value", "replay")),
		card("files", "Its files", each(next.Files(), fileOf)),
		p(link("/console/policies", text("All policies"))))
	v.show(pg)
}

// diffOf shows lines that differ, each with its sign.
func diffOf(all []string) html {
	return el("pre", attrs{"class", "difference", "tabindex", "0", "aria-label", "The difference, line by line"}, el("code", nil, each(all, func(l string) html {
		switch {
		case strings.HasPrefix(l, "+ "):
			return group(el("ins", nil, text(l)), html{"\n"})
		case strings.HasPrefix(l, "- "):
			return group(el("del", nil, text(l)), html{"\n"})
		}
		return group(el("strong", nil, text(l)), html{"\n"})
	})))
}

// activation puts a set in force: a privileged call, which somebody makes knowingly.
func (v *visit) activation(active, next rules.Set) html {
	return v.control("POST /v1/policy/activate", at("policies", next.Snapshot), attrs{"class", "card mood elevated stack", "data-whole", ""},
		el("h2", nil, text("Activate")),
		el("p", class("why"), text("This is a privileged call (privileged.admin.mutate_policy). It counts at once, for every agent; what people granted under the policy before covers nothing any more. It is written into the ledger with your name.")),
		hiddenField("to", next.Snapshot), hiddenField("from", active.Snapshot),
		input("reason", "reason", "Reason, for the history", "", "maxlength", "500"),
		el("label", class("check"), void("input", attrs{"type", "checkbox", "name", "read", "value", "1", "required", ""}), text(" I have read the difference")),
		button("danger", "Activate it now", "name", "do", "value", "activate"))
}

func (c *Console) changePolicy(v *visit) {
	f := v.r.PostForm
	switch f.Get("do") {
	case "activate":
		if err := v.sends("activate", nil); err != nil {
			v.showSet(err, html{})
			return
		}
		v.seeOther("/console/policies", "activated")
	case "replay":
		var r rules.Replay
		if err := v.ask(http.MethodPost, api("policy", "replay"), map[string]any{"set": v.r.PathValue("set")}, &r); err != nil {
			v.showSet(err, html{})
			return
		}
		v.showSet(nil, replayed(r))
	default:
		v.showSet(capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no change"), html{})
	}
}

func replayed(r rules.Replay) html {
	rows := make([][]html, 0, len(r.Changes))
	for _, x := range slices.Backward(r.Changes) {
		by := joined(x.Policies)
		if by.s == "" {
			by = text(x.Reason)
		}
		rows = append(rows, []html{link(at("calls", string(x.Call)), text(string(x.Tool))), text(string(x.Principal)), text(x.Was.String()), text(x.Instead()), by, ago(x.At)})
	}
	return el("section", attrs{"class", "card", "id", "replay", "data-once", "", "aria-labelledby", "replay-h"}, el("h2", attrs{"id", "replay-h"}, text("What it would have decided")),
		el("p", nil, text(r.Summary())),
		when(len(rows) > 0, table("Calls that would be decided otherwise, newest first", columns("Tool", "Who", "Was", "Would be", "By", "When"), rows)),
		when(len(rows) == 0, el("p", class("faint"), text("No recorded call would be decided otherwise."))))
}

// editPolicy is a set with its files open to be written.
func (c *Console) editPolicy(v *visit) { v.showEdit(nil, url.Values{}) }

func (v *visit) showEdit(problem error, typed url.Values) {
	pg := page{title: "Write a change", here: "/console/policies", fault: problem, modules: []string{"editor"}, lead: text("You write a copy of what is in force. Saving stages it: you see the difference, and nothing counts until it is activated.")}
	active, err := v.set(rules.Active)
	if err != nil {
		pg.fault = err
		v.show(pg)
		return
	}
	value := func(name, other string) string {
		if _, is := typed[name]; is {
			return typed.Get(name)
		}
		return other
	}
	n := 0
	pg.body = v.control("POST /v1/policy/drafts", "/console/policies/draft", attrs{"class", "card stack wide", "data-whole", ""},
		hiddenField("base", active.Snapshot),
		each(active.Files(), func(s policy.Source) html {
			n++
			id := "f" + itoa(n)
			return el("fieldset", nil, el("legend", nil, text(s.Name)), hiddenField(id+"-name", s.Name),
				area(id, id, "Rules in "+s.Name, value(id, string(s.Data)), "rows", "14", "class", "mono", "data-cedar", s.Name),
				el("label", class("check"), void("input", attrs{"type", "checkbox", "name", id + "-gone", "value", "1"}), text(" Leave this file out")))
		}),
		el("fieldset", nil, el("legend", nil, text("A further file")),
			input("new-name", "new-name", "Its name, ending in .cedar", value("new-name", ""), "maxlength", "60", "placeholder", "mine.cedar"),
			area("new", "new", "Its rules", value("new", ""), "rows", "8", "class", "mono", "data-cedar", "")),
		button("main", "Stage it and see the difference"))
	v.show(pg)
}

// draft stages what was written.
func (c *Console) draft(v *visit) {
	f := v.r.PostForm
	in := struct {
		Base   string       `json:"base"`
		Files  []rules.File `json:"files,omitempty"`
		Remove []string     `json:"remove,omitempty"`
	}{Base: f.Get("base")}
	base, err := v.set(in.Base)
	if err != nil {
		v.showEdit(err, f)
		return
	}
	for i, s := range base.Sources {
		id := "f" + itoa(i+1)
		switch typed := unixLines(f.Get(id)); {
		case f.Get(id+"-name") != s.Name: // the form is not of this set
			v.showEdit(capabilities.Errorf(capabilities.CodeConflict, "the form does not fit the policy it was made from").WithHint("Open the page again."), url.Values{})
			return
		case f.Get(id+"-gone") == "1":
			in.Remove = append(in.Remove, s.Name)
		case typed != unixLines(s.Text):
			in.Files = append(in.Files, rules.File{Name: s.Name, Text: typed})
		}
	}
	if name := strings.TrimSpace(f.Get("new-name")); name != "" {
		in.Files = append(in.Files, rules.File{Name: name, Text: unixLines(f.Get("new"))})
	} else if strings.TrimSpace(f.Get("new")) != "" {
		v.showEdit(capabilities.Errorf(capabilities.CodeInvalidRequest, "the further file needs a name"), f)
		return
	}
	var made rules.Set
	if err := v.ask(http.MethodPost, api("policy", "drafts"), in, &made); err != nil {
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
	var a struct {
		Created   time.Time `json:"created_at"`
		Overrides []struct {
			Effect string `json:"effect"`
			Cedar  string `json:"cedar"`
		} `json:"overrides"`
	}
	if err := v.get(api("approvals", id), &a); err != nil {
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
		var made rules.Set
		in := map[string]any{"base": active.Snapshot, "files": []rules.File{{Name: overrideFile, Text: before + "// Answers " + id + " for good.\n" + o.Cedar}}}
		if err := v.ask(http.MethodPost, api("policy", "drafts"), in, &made); err != nil {
			v.showApprovals(err)
			return
		}
		v.seeOther(at("policies", made.Snapshot), "staged")
		return
	}
	v.showApprovals(capabilities.Errorf(capabilities.CodeInvalidRequest, "the question offers no such rule"))
}
