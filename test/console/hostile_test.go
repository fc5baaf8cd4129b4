//go:build unix

package console

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/gateway/secret"
	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/test/site"
)

// all is the corpus in one line, as long as it may be.
func all(most int) string {
	var b strings.Builder
	for _, s := range corpus {
		if b.Len()+len(s)+1 <= most {
			b.WriteString(s + " ")
		}
	}
	return b.String()
}

// submit sends a form as a person without script would, and waits for the page that
// answers it.
func (d *desk) submit(path, form string) {
	d.t.Helper()
	fields, err := url.ParseQuery(form)
	must(d.t, err)
	pairs, err := json.Marshal(fields)
	must(d.t, err)
	must(d.t, d.run(fmt.Sprintf(`(() => {
  window.before = true;
  const f = document.createElement("form");
  f.method = "post"; f.action = %q; f.dataset.whole = "";
  const fields = %s; fields.csrf = [document.body.dataset.csrf];
  for (const [name, values] of Object.entries(fields)) for (const value of values) {
    const i = document.createElement("textarea"); i.name = name; i.value = value; f.append(i);
  }
  document.body.append(f); f.submit();
})(); 1`, path, pairs), nil))
	d.await(`!window.before && document.readyState === "complete" && document.querySelector("main")`)
}

// sendJSON sends a body as a page's script would, and returns the status.
func (d *desk) sendJSON(path string, body any) (status string) {
	d.t.Helper()
	data, err := json.Marshal(body)
	must(d.t, err)
	quoted, err := json.Marshal(string(data))
	must(d.t, err)
	must(d.t, d.run(fmt.Sprintf(`fetch(%q, {method: "POST", headers: {"X-Handrail-Csrf": document.body.dataset.csrf, "Content-Type": "application/json"}, body: %s}).then(r => String(r.status))`, path, quoted), &status))
	return status
}

// newest returns the newest call of an agent.
func (d *desk) newest(agent capabilities.PrincipalID) capabilities.CallID {
	d.t.Helper()
	list, err := d.Ledger.Packets(d.t.Context(), ledger.Query{Principal: agent, Kind: "tool.call.", Newest: true, Limit: 1})
	must(d.t, err)
	if len(list) == 0 {
		d.t.Fatalf("%s made no call", agent)
	}
	return list[0].Call
}

// visitedNothingElse fails the test for every address that is not the gateway's.
func (d *desk) visitedNothingElse() {
	d.t.Helper()
	for _, asked := range d.requested() {
		if !strings.HasPrefix(asked, d.URL()) && asked != "about:blank" {
			d.t.Errorf("a page asked for %s", asked)
		}
	}
}

// pages returns an address of every page that the server itself says there is, with the
// names of things that exist.
func (d *desk) pages(names map[string]string) []string {
	d.t.Helper()
	names["place"] = "0123456789abcdef" // of a sign-in that nobody began
	names["tool"] = string(site.ToolEcho)
	names["view"] = "coverage"
	names["client"] = "cursor"
	param := regexp.MustCompile(`\{([a-z]+)\}`)
	var list []string
	for _, r := range d.Front.Routes() {
		path, get := strings.CutPrefix(r.Pattern, "GET ")
		if !get || r.Access != front.Session || path == "/console/events" || strings.HasSuffix(path, "/watching") || strings.HasSuffix(path, "/frame") || path == "/console/ledger/export" || path == "/console/memory/export" || strings.HasPrefix(path, "/console/governance/csv/") ||
			strings.HasPrefix(path, "/console/governance/json/") || strings.HasPrefix(path, "/console/recordings/") || strings.HasPrefix(path, "/console/artifacts/") {
			continue // files, and what scripts read
		}
		path = strings.TrimSuffix(path, "{$}")
		list = append(list, param.ReplaceAllStringFunc(path, func(p string) string {
			value, known := names[strings.Trim(p, "{}")]
			if !known {
				d.t.Errorf("%s: this test knows no %s: give it one", r.Pattern, p)
			}
			return url.PathEscape(value)
		}))
	}
	slices.Sort(list)
	return list
}

// A name that a node, an agent, a tool, a person or an address gives itself is text, on
// every page that there is.
func TestHostileStringsAreText(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	ctx, eve := t.Context(), capabilities.PrincipalID("eve")
	tried := 0
	try := func(err error) { // what is refused cannot be shown
		tried++
		if err != nil && capabilities.AsError(err).Code == capabilities.CodeInternal {
			t.Error(err)
		}
	}
	// Devices: what they are called, say of themselves, and were put out for.
	for i, s := range []string{all(200), corpus[0], corpus[1], corpus[11]} {
		_, paste, err := d.Nodes.Invite(ctx, nodes.InviteSpec{By: "admin", Label: s, AutoApprove: i > 0})
		try(err)
		if err != nil {
			if _, paste, err = d.Nodes.Invite(ctx, nodes.InviteSpec{By: "admin", AutoApprove: i > 0}); err != nil {
				t.Fatal(err)
			}
		}
		paste.Addrs = []string{d.QUICAddr().String()}
		joined, end := context.WithCancel(d.ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = link.Join(joined, paste, link.JoinOptions{Dir: t.TempDir(), Profile: pairing.Profile{Label: s, Host: s, Platform: s, Arch: s, Agent: s, Offers: agent.Offers([]capabilities.Handler{site.NewHandler()})}})
		}()
		d.Await("it to join", func() bool { return len(d.Nodes.Views()) == i+2 })
		t.Cleanup(func() { end(); <-done })
	}
	for i, v := range d.Nodes.Views() {
		if v.ID == d.node.ID {
			label := all(60)
			_, err := d.Nodes.Change(ctx, v.ID, nodes.Edit{By: eve, Label: &label})
			try(err)
			for _, s := range corpus {
				_, err := d.Nodes.Change(ctx, v.ID, nodes.Edit{By: eve, Labels: &[]string{s}, Allow: &[]string{"*", s}})
				try(err)
			}
			_, err = d.Nodes.Change(ctx, v.ID, nodes.Edit{By: eve, Labels: &[]string{"desk"}, Allow: &[]string{"*", "tyrum.nothing.here"}})
			must(t, err)
			continue
		}
		if i%2 == 0 && v.State == pairing.StateApproved {
			_, err := d.Nodes.Revoke(ctx, v.ID, eve, all(480))
			try(err)
		}
	}
	// Agents: what they ask for, as whom, in which lane; and what people said to that.
	var calls []<-chan capabilities.Result
	for i, s := range corpus {
		args, err := json.Marshal(map[string]string{"text": s})
		must(t, err)
		calls = append(calls, d.call(fmt.Sprintf("robot-%d", i), string(site.ToolPress), string(args)))
		d.waiting(i+1, calls...)
	}
	for _, s := range corpus[:3] {
		_, _ = d.result(d.call(s, string(site.ToolEcho), `{"text":"x"}`)), d.result(d.call("x", s, `{"text":"x"}`))
	}
	open := d.Consent.Approvals()
	_, err := d.Consent.Answer(ctx, open[0].ID, consent.Answer{By: eve, Reason: all(480)})
	try(err)
	_, err = d.Consent.Answer(ctx, open[1].ID, consent.Answer{By: eve, Allow: true, Reason: all(480)})
	try(err)
	_, err = d.Consent.Grant(ctx, consent.Spec{Principal: "robot", Tools: []string{string(site.ToolPress)}, Node: d.node.ID, AnyLane: true, Approver: eve, Reason: all(480)})
	try(err)
	_ = d.result(calls[0])
	done := d.result(calls[1])
	// The device says that its isolation is degraded, for which policy denies calls from then on.
	d.handler.SetDegrade(all(180))
	d.Await("the gateway to hear of it", func() bool {
		return slices.ContainsFunc(d.Nodes.Snapshot(), func(n route.Node) bool {
			return n.ID == d.node.ID && slices.ContainsFunc(slices.Collect(maps.Values(n.Readiness)), func(r capabilities.Readiness) bool { return r.Degraded != "" })
		})
	})
	// Secrets, tokens, lanes.
	for i, s := range corpus {
		try(d.Secrets.Set(ctx, eve, s, capabilities.NewSecret([]byte("value-nobody-sees"))))
		name := fmt.Sprintf("mail-%d", i)
		must(t, d.Secrets.Set(ctx, eve, name, capabilities.NewSecret([]byte("value-nobody-sees"))))
		_, err := d.Secrets.Allow(ctx, eve, secret.Spec{Name: name, Principal: "robot", Alias: s, Display: s, Tools: []capabilities.ToolID{"tool.secret.copy-to-node-clipboard"}})
		try(err)
		_, err = d.Secrets.Allow(ctx, eve, secret.Spec{Name: name, Principal: "robot", Display: s, Tools: []capabilities.ToolID{"tool.secret.copy-to-node-clipboard"}})
		try(err)
		_, _, err = d.Tokens.Create(ctx, principal.Site, principal.Spec{Principal: capabilities.PrincipalID(s), Lane: capabilities.LaneID(s), Role: principal.RoleAgent})
		try(err)
	}
	// Policies: names of files, comments, reasons.
	all := func(most int) string { return strings.ReplaceAll(all(most), "\x00", "") } // Cedar takes none
	text := "// " + all(2000) + "\n@id(\"x\") @why(\"" + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\x00", "").Replace(all(400)) + "\")\nforbid (principal, action == Action::\"tool.fixture.fail\", resource);\n"
	next, err := d.Rulebook.Stage(ctx, rules.Edit{By: eve, Files: []policy.Source{{Name: "x.cedar", Data: []byte(text)}}})
	if err != nil { // Cedar takes fewer characters than a comment may have
		text = "// " + all(2000) + "\nforbid (principal, action == Action::\"tool.fixture.fail\", resource);\n"
		next, err = d.Rulebook.Stage(ctx, rules.Edit{By: eve, Files: []policy.Source{{Name: "x.cedar", Data: []byte(text)}}})
	}
	must(t, err)
	for _, s := range corpus {
		_, err := d.Rulebook.Stage(ctx, rules.Edit{By: eve, Files: []policy.Source{{Name: s, Data: []byte(text)}, {Name: s + ".cedar", Data: []byte(text)}}})
		try(err)
	}
	_, err = d.Rulebook.Activate(ctx, rules.Request{By: eve, Role: "admin", Lane: "eve", From: d.Rulebook.Engine().SnapshotID(), To: next.SnapshotID(), Reason: all(480)})
	must(t, err)
	_, err = d.Rulebook.Stage(ctx, rules.Edit{By: eve, Files: []policy.Source{{Name: "y.cedar", Data: []byte("// " + all(2000) + "\n")}}})
	must(t, err)
	draft, err := d.Rulebook.Drafts(ctx)
	must(t, err)
	// The controls that pages are said to have offered.
	status := d.sendJSON("/console/surfaced", map[string]any{"surface": all(190), "page": all(190), "controls": corpus[:10], "keys": []api.SurfacedKey{{Call: done.Call, Key: corpus[0]}}})
	if status != "204" {
		t.Errorf("a report of drift answered %s", status)
	}
	if tried < 100 {
		t.Errorf("only %d ways were tried", tried)
	}

	for _, s := range append([]string{"walt"}, corpus[:4]...) {
		_, err := d.Tokens.AddUser(ctx, principal.Site, capabilities.PrincipalID(s), principal.RoleViewer, principal.Password{})
		try(err)
	}
	names := map[string]string{"user": "walt", "call": string(done.Call), "set": draft[0].Snapshot, "node": string(d.node.ID), "approval": open[2].ID}
	maps.Copy(names, d.hostileWorker(try))
	visit := func(page string) {
		t.Helper()
		d.goTo(page)
		d.await(`document.querySelector("main")`)
		must(t, d.run(`document.querySelectorAll("details").forEach((e) => { e.open = true; })`, nil))
		d.harmless(page)
	}
	for _, page := range d.pages(names) {
		visit(page)
	}
	// A script's answer is never taken for a page.
	for _, path := range []string{"/console/live/" + string(d.node.ID) + "/watching", "/console/recordings/<b>", "/console/artifacts/<b>"} {
		var kind []string
		must(t, d.run(`fetch("`+path+`").then((r) => [r.headers.get("content-type"), r.headers.get("x-content-type-options")])`, &kind))
		if len(kind) != 2 || !strings.HasPrefix(kind[0], "application/json") || kind[1] != "nosniff" {
			t.Errorf("%s is served as %q", path, kind)
		}
	}
	visit("/console/calls/" + string(d.newest("robot-0")))
	// Addresses: whatever stands in them.
	for _, s := range []string{all(1500)} {
		q := url.QueryEscape(s)
		for _, page := range []string{"calls?q=", "calls?before=", "nodes?label=", "ledger?kind=", "approvals?done="} {
			visit("/console/" + page + q)
		}
		for _, page := range []string{"", "calls/", "policies/"} {
			visit("/console/" + page + url.PathEscape(strings.ReplaceAll(s, "/", "")))
		}
	}
	// Text that is typed and comes back with an error.
	for _, form := range []struct{ page, path, body string }{
		{"/console/people", "/console/people", "principal=%s&role=%s&x=%s&y=%s"},
		{"/console/jobs", "/console/jobs", "text=%s&principal=%s&schedule=%s&due=%s"},
		{"/console/memory", "/console/memory/" + names["fact"], "do=edit&principal=robot&text=%s&x=%s&y=%s&z=%s"},
		{"/console/tokens", "/console/connect", "client=%s&way=%s&principal=%s&x=%s"},
		{"/console/tokens", "/console/connect", "client=codex&way=address&principal=%s&x=%s&y=%s&z=%s"},
		{"/console/policies", "/console/policies/explain", "role=agent&principal=%s&tool=%s&args=%s&lane=%s"},
		{"/console/tokens", "/console/tokens", "principal=%s&role=%s&lane=%s&days=%s"},
		{"/console/ledger", "/console/ledger/compare", "log=%s&x=%s&y=%s&z=%s"},
		{"/console/policies/edit", "/console/policies/draft", "base=active&new-name=%s&new=%s&f1-name=%s&f1=%s"},
		{"/console/approvals", "/console/approvals/x", "answer=%s&minutes=%s&reason=%s&family=%s"},
	} {
		d.goTo(form.page)
		q := url.QueryEscape(all(900))
		d.submit(form.path, fmt.Sprintf(form.body, q, q, q, q))
		d.harmless(form.path)
	}
	for _, s := range []string{all(480)} {
		_, err := d.Stop(ctx, eve, s)
		must(t, err)
		visit("/console/stop")
		visit("/console/ledger")
		_, err = d.Resume(ctx, eve, s)
		must(t, err)
	}
	d.visitedNothingElse()
}

// The census sees what it is for.
func TestCensusFindsForeignMarkup(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleViewer)
	if got := d.value(census); got != "" {
		t.Fatalf("a page of ours: %s", got)
	}
	for _, script := range []string{
		`document.body.append(document.createElement("img"))`, `document.body.setAttribute("srcdoc", "x")`, `window.pwned = 1`,
		`Object.assign(document.body.appendChild(document.createElement("a")), {href: "https://evil.example"})`, `document.body.append(document.createElement("svg"))`,
	} {
		d.goTo("/console/stop")
		must(t, d.run(script+"; 1", nil))
		if d.value(census) == "" {
			t.Errorf("not seen: %s", script)
		}
	}
}
