//go:build unix

package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/secret"
	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/test/site"
)

// readNodeLog is what cmd/handrail hands the gateway.
func readNodeLog(r io.Reader) (ledger.NodeLog, chain.Key, error) {
	x, err := journal.ReadExport(r)
	if err != nil {
		return ledger.NodeLog{}, chain.Key{}, err
	}
	kinds := map[string]ledger.NodeKind{journal.KindStarted: ledger.NodeStarted, journal.KindFinished: ledger.NodeFinished, journal.KindRefused: ledger.NodeRefused}
	out := ledger.NodeLog{Node: capabilities.NodeID(x.Chain), First: x.First, Seen: x.Peers, Taken: x.Taken}
	for i, r := range x.Records {
		if i == 0 {
			out.Before = r.Prev
		}
		out.Entries = append(out.Entries, ledger.NodeEntry{Seq: r.Seq, TimeUS: r.TimeUS, Hash: r.Hash, Kind: kinds[r.Kind], Call: r.Call, Tool: r.Tool, Lane: r.Lane,
			Principal: r.Principal, Envelope: r.Envelope, Status: r.Status, Code: r.Code, Effect: r.Effect})
	}
	return out, x.Key, nil
}

// says wants texts on the page.
func (d *desk) says(wants ...string) {
	d.t.Helper()
	d.await(laidOut)
	page := d.value("document.getElementById('main').innerText.replace(/\\s+/g, ' ')")
	for _, want := range wants {
		if !strings.Contains(page, want) {
			d.t.Errorf("the page does not say %q:\n%.3000s", want, page)
		}
	}
}

// click presses the first button or link with a text, as a person would: it has to be
// there and to be seen.
func (d *desk) click(label string) {
	d.t.Helper()
	quoted, err := json.Marshal(label)
	must(d.t, err)
	d.await(fmt.Sprintf(`[...document.querySelectorAll("button, a, summary")].some((e) => e.innerText.trim() === %s)`, quoted))
	must(d.t, d.run(fmt.Sprintf(`[...document.querySelectorAll("button, a, summary")].find((e) => e.innerText.trim() === %s).click(); 1`, quoted), nil))
}

// fill writes into a field.
func (d *desk) fill(id, value string) {
	d.t.Helper()
	must(d.t, d.run(fmt.Sprintf(`(() => { const f = document.getElementById(%q); f.value = %q; f.dispatchEvent(new Event("input", {bubbles: true})); })(); 1`, id, value), nil))
}

// An admin reads the policy, asks it, writes another, sees what it would change and
// would have decided, and puts it in force; the way back is in the history.
func TestPolicyIsChanged(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	if got := d.result(d.call("robot", string(site.ToolEcho), `{"text":"before"}`)); got.Status != capabilities.StatusOK {
		t.Fatalf("%+v", got)
	}
	before := d.Rulebook.Engine().SnapshotID()
	d.goTo("/console/policies")
	d.says("In force", "default.cedar", "test.cedar", "what is in force", "History")
	d.fill("x-tool", string(site.ToolEcho))
	d.fill("x-principal", "robot")
	must(t, d.run(`document.getElementById("x-node").selectedIndex = 1; 1`, nil))
	d.click("Explain")
	d.await(`document.querySelector(".verdict")`)
	d.says("It would run", "fixture", "test.cedar:1")
	d.shots("policies")

	d.click("Write a change")
	d.await(`location.pathname === "/console/policies/edit" && document.getElementById("new")`)
	d.fill("new-name", "mine.cedar")
	d.fill("new", "forbid (principal, action == Action::\"tool.fixture.echo\", resource")
	d.click("Stage it and see the difference")
	d.await(`document.querySelector(".fault")`)
	d.says("mine.cedar") // where it does not load, and what was typed is still there
	if got := d.value(`document.getElementById("new").value.includes("tool.fixture.echo")`); got != "true" {
		t.Error("what was typed is gone")
	}
	if got := d.value(`document.querySelector(".lines .wrong")?.textContent + " " + document.activeElement.id`); got != "1 new" {
		t.Errorf("the line that is wrong is not pointed at: %s", got)
	}
	if got := d.value(`document.querySelector("#f1").closest(".editor").querySelector(".drawn").textContent === document.querySelector("#f1").value + "\n"`); got != "true" {
		t.Error("what is drawn behind a file is not its text")
	}
	d.shots("policy-edit")
	d.fill("new", "// No more of this.\n@id(\"mine\") @why(\"we are done\")\nforbid (principal, action == Action::\"tool.fixture.echo\", resource);\n")
	d.click("Stage it and see the difference")
	d.await(`location.pathname.startsWith("/console/policies/sha") && document.querySelector(".difference")`)
	d.says("--- mine.cedar", "+ // No more of this.", "privileged call")
	if now := d.Rulebook.Engine().SnapshotID(); now != before {
		t.Fatal("staging put it in force")
	}
	d.click("What would it have decided?")
	d.await(`document.getElementById("replay")`)
	d.says("1 stricter", "tool.fixture.echo", "mine")
	d.shots("policy-change")
	// Without the acknowledgement the browser sends nothing, and the server takes nothing.
	path := d.value("location.pathname")
	d.submit(path, "do=activate&to="+strings.TrimPrefix(path, "/console/policies/")+"&from="+before)
	d.says("Say that you have read the difference")
	if d.Rulebook.Engine().SnapshotID() != before {
		t.Fatal("it was put in force unread")
	}
	d.goTo(path)
	must(t, d.run(`document.querySelector("[name=read]").click(); document.getElementById("reason").value = "tried out"; 1`, nil))
	d.click("Activate it now")
	d.await(`location.pathname === "/console/policies" && document.getElementById("outcome").innerText.includes("Activated")`)
	after := d.Rulebook.Engine().SnapshotID()
	if after == before {
		t.Fatal("it is not in force")
	}
	d.says("tried out", "mine.cedar")
	if got := d.result(d.call("robot", string(site.ToolEcho), `{"text":"after"}`)); got.Status != capabilities.StatusDenied {
		t.Errorf("the new rule denies nothing: %+v", got)
	}
	list, err := d.Ledger.Packets(t.Context(), ledger.Query{Kind: "gateway.policy."})
	must(t, err)
	kinds := ""
	for _, p := range list {
		kinds += string(p.Kind) + " "
	}
	if !strings.Contains(kinds, "gateway.policy.staged gateway.policy.activated") {
		t.Errorf("recorded: %s", kinds)
	}
	d.goTo("/console/policies/" + before) // and back
	d.says("- // No more of this.")
	d.quiet("/console/policies/")
}

// A question is answered for good by a rule, which somebody has to activate.
func TestOverrideIsStaged(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	waiting := d.call("robot", string(site.ToolPress), `{"text":"x"}`)
	d.waiting(1)
	d.await(`document.querySelectorAll("[data-question]").length === 1`)
	first := d.Consent.Approvals()[0].Expires
	d.click("More time")
	d.await(`document.getElementById("outcome").innerText.includes("more time")`)
	if longer := d.Consent.Approvals()[0].Expires; !longer.After(first) {
		t.Errorf("%s is not later than %s", longer, first)
	}
	if got := d.value(`document.querySelector("[data-question] button[name=effect][value=permit]") === null`); got != "true" {
		t.Error("a rule is offered that would change nothing")
	}
	must(t, d.run(`document.querySelector("[data-question] button[name=effect][value=forbid]").click(); 1`, nil))
	d.await(`location.pathname.startsWith("/console/policies/sha") && document.querySelector(".difference")`)
	d.says("+ forbid (", "overrides.cedar", "tool.fixture.press")
	if n := len(d.Consent.Approvals()); n != 1 {
		t.Errorf("%d questions wait", n)
	}
	must(t, d.run(`document.querySelector("[name=read]").click(); 1`, nil))
	d.click("Activate it now")
	d.await(`location.pathname === "/console/policies"`)
	if got := d.result(d.call("robot", string(site.ToolPress), `{"text":"again"}`)); got.Code != capabilities.CodeNodeDeniedByPolicy && got.Status != capabilities.StatusDenied {
		t.Errorf("%+v", got)
	}
	if got := d.result(waiting); got.Status != capabilities.StatusDenied || len(d.Consent.Approvals()) != 0 {
		t.Errorf("the call that waited by the earlier policy: %+v, %d questions wait", got, len(d.Consent.Approvals()))
	}
	d.quiet()
}

// Secrets are names and references; a value is on no page and in no form.
func TestSecretsAreReferences(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	d.goTo("/console/secrets")
	d.says("No secrets are kept", "handrail secret set")
	d.shots("secrets-empty")
	must(t, d.Secrets.Set(t.Context(), "ann", "mail", capabilities.NewSecret([]byte("value-nobody-sees"))))
	must(t, d.Secrets.Set(t.Context(), "ann", "bank", capabilities.NewSecret([]byte("value-nobody-sees"))))
	_, err := d.Secrets.Allow(t.Context(), "ann", secret.Spec{Name: "bank", Principal: "clerk", Alias: "the-bank", Display: "The bank", Tools: []capabilities.ToolID{"tool.secret.copy-to-node-clipboard"}})
	must(t, err)
	d.await(`document.getElementById("s-mail")`)
	must(t, d.run(`document.getElementById("s-mail-allow").open = true; document.getElementById("s-mail-who").value = "robot"; document.getElementById("s-mail-alias").value = "work"; document.querySelector("#s-mail-allow button").click(); 1`, nil))
	d.await(`document.getElementById("s-mail").innerText.includes("robot")`)
	d.says("mail", "work", "clerk", "The bank")
	d.shots("secrets")
	if got := d.value(`document.documentElement.outerHTML.includes("value-nobody-sees")`); got != "false" {
		t.Error("a value is on the page")
	}
	must(t, d.run(`document.querySelector("#s-mail td button").click(); 1`, nil))
	d.await(`document.getElementById("s-mail").innerText.includes("No agent may have it")`)
	list, err := d.Secrets.List(t.Context())
	if err != nil || len(list) != 2 || len(list[1].References) != 0 {
		t.Errorf("%+v %v", list, err)
	}
	d.quiet()
}

// A token is shown once, works, and is over when it is revoked.
func TestTokenIsShownOnce(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	d.goTo("/console/tokens")
	d.says("No agent has a token", "People", "Signed-in browsers")
	d.fill("t-who", "helper")
	d.click("Create token")
	d.await(`document.getElementById("made-token")`)
	token := d.value(`document.getElementById("made-token").textContent`)
	who, err := d.Tokens.Authenticate(token)
	if err != nil || who.Principal != "helper" || who.Role != principal.RoleAgent {
		t.Fatalf("%+v %v", who, err)
	}
	d.MustToken("other", principal.RoleAgent) // the list moves; what is shown once stays
	d.await(`document.body.innerText.includes("other") && document.getElementById("made-token")`)
	d.shots("tokens")
	d.goTo("/console/tokens")
	if got := d.value(`document.documentElement.outerHTML.includes("` + token + `")`); got != "false" {
		t.Error("the token is shown again")
	}
	must(t, d.run(`document.querySelector('[aria-label="Revoke: `+who.TokenID+` of helper"]').click(); 1`, nil))
	d.await(`document.getElementById("outcome").innerText.includes("Revoked")`)
	if d.Tokens.Valid(who.TokenID) {
		t.Error("it is good still")
	}

	// The token that this browser was signed in with is a step further away, and says what ends with
	// it.
	own := `document.getElementById("revoke-` + d.person.TokenID + `")`
	if got := d.value(own + `.open + " " + ` + own + `.querySelectorAll("button").length`); got != "false 1" {
		t.Errorf("revoking one's own token is %s", got)
	}
	must(t, d.run(own+`.open = true; 1`, nil))
	d.says("This browser was signed in with it")
	d.shots("tokens-own")
	d.quiet()
}

// The ledger is checked and compared where it is, and says what pages should not have
// offered.
func TestLedgerIsCheckedAndCompared(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	d.result(d.call("robot", string(site.ToolEcho), `{"text":"x"}`))
	d.goTo("/console/ledger")
	d.click("Verify")
	d.await(`document.getElementById("verified")`)
	d.says("The ledger verifies", "Signed with", d.Ledger.Key().String())
	var log bytes.Buffer
	dir := filepath.Join(d.node.Dir, "journal")
	found, err := os.ReadDir(dir)
	must(t, err)
	key, err := pairing.LoadKey(filepath.Join(d.node.Dir, "node.key"))
	must(t, err)
	must(t, journal.Export(&log, filepath.Join(dir, found[0].Name()), string(d.node.ID), key, time.Now()))
	d.click("Compare with a device's own log")
	d.fill("log", log.String())
	d.click("Compare")
	d.await(`document.getElementById("compared")`)
	d.says("The two ledgers agree", "Calls in both")
	d.fill("log", strings.Replace(log.String(), `"taken_ms":`, `"taken_ms":1`, 1))
	d.click("Compare")
	d.await(`document.querySelector(".fault")`)
	// A control that a page says it offers and may not is drift, and stands here.
	if got := d.sendJSON("/console/surfaced", map[string]any{"surface": "console", "page": "/console/stop", "controls": []string{"POST /v1/no-such"}}); got != "204" {
		t.Fatal(got)
	}
	d.goTo("/console/ledger")
	d.await(`document.getElementById("drift")`)
	d.says("POST /v1/no-such", "warning", "gateway.drift.surfaced")
	d.shots("ledger")
	d.quiet("/console/ledger/compare")
}

// A running call is found and ended from its list; what it was granted stands on its
// page, and that no picture of it is kept.
func TestCallsAreSearchedAndEnded(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleOperator)
	for i := range 3 {
		d.result(d.call(fmt.Sprintf("agent-%d", i), string(site.ToolEcho), `{"text":"x"}`))
	}
	running := d.call("robot", string(site.ToolSlow), `{"text":"long"}`)
	for d.handler.AwaitStart(within) != "long" {
	}
	d.goTo("/console/calls?state=running")
	d.await(`document.querySelectorAll("tbody tr").length === 1`)
	d.says("robot", "running", "End it")
	d.goTo("/console/calls?q=AGENT-1")
	d.await(`document.querySelectorAll("tbody tr").length === 1`)
	d.says("agent-1")
	d.goTo("/console/calls")
	d.await(`document.querySelectorAll("tbody tr").length === 4`)
	d.shots("calls-running")
	d.goTo("/console/calls/" + string(d.newest("robot")))
	d.says("It runs", "End this call", "Envelope and decision")
	d.shots("call-running")
	d.fill("reason", "it takes too long")
	d.click("End this call")
	if got := d.result(running); got.Code != capabilities.CodeCancelled {
		t.Errorf("%+v", got)
	}
	d.await(`!document.body.innerText.includes("It runs") && document.body.innerText.includes("gateway.call.cancelled")`)
	d.quiet()
}

// Devices are groups by their labels; what a device offers beyond what it may is let
// in one by one.
func TestGroupsAndDifference(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleOperator)
	other := d.AddNode("kitchen", site.NewHandler())
	one, two, allow := []string{"home", "quiet"}, []string{"home"}, []string{"tyrum.fixture.echo", "tyrum.gone.away"}
	_, err := d.Nodes.Change(t.Context(), d.node.ID, nodes.Edit{By: "ann", Labels: &one})
	must(t, err)
	_, err = d.Nodes.Change(t.Context(), other.ID, nodes.Edit{By: "ann", Labels: &two, Allow: &allow})
	must(t, err)
	d.goTo("/console/nodes")
	d.says("home 2", "quiet 1", "It offers more than it may", "+ tool.fixture.press", "It may more than it offers", "− tool.gone.away")
	d.shots("devices-groups")
	must(t, d.run(`document.querySelectorAll("[name=want]").forEach((e) => { e.checked = e.value === "tyrum.fixture.slow"; }); document.querySelector("button[value=widen]").click(); 1`, nil))
	d.await(`document.getElementById("outcome").innerText.includes("Saved")`)
	v, err := d.Nodes.View(other.ID)
	if err != nil || strings.Join(v.Allow, " ") != "tyrum.fixture.echo tyrum.fixture.slow tyrum.gone.away" {
		t.Errorf("%q %v", v.Allow, err)
	}
	d.goTo("/console/nodes?label=quiet")
	if n := d.value(`document.querySelectorAll("#live article").length`); n != "1" {
		t.Errorf("%s devices in the group", n)
	}
	d.quiet()

	// Calls are narrowed to a device by what people call it. Several are listed and none is chosen.
	d.AddNode("kitchen light", site.NewHandler())
	d.goTo("/console/calls?node=kitchen")
	d.says("No such call lately")
	d.goTo("/console/calls?node=kit&state=done")
	d.says("“kit” may be several devices", "kitchen ("+string(other.ID)+")", "kitchen light (")
	must(t, d.run(`document.querySelector(".empty a, .plainlist a").click(); 1`, nil))
	d.await(`location.search.includes("node=n") && location.search.includes("state=done")`)
}

// Every control of every page is told the gateway by the route that it leads to, and
// what somebody put there is drift.
func TestPagesTellWhatTheyOffer(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleViewer)
	d.goTo("/console/stop")
	signals := func() int {
		list, err := d.Ledger.Packets(t.Context(), ledger.Query{Kind: "gateway.drift."})
		must(t, err)
		return len(list)
	}
	if n := signals(); n != 0 {
		t.Fatalf("pages of ours are drift: %d", n)
	}
	must(t, d.run(`(() => { const b = document.createElement("button"); b.dataset.does = "POST /v1/stop"; document.body.append(b); })(); 1`, nil))
	end := time.Now().Add(within)
	for signals() == 0 && time.Now().Before(end) {
		time.Sleep(20 * time.Millisecond)
	}
	list, err := d.Ledger.Packets(t.Context(), ledger.Query{Kind: "gateway.drift."})
	if err != nil || len(list) != 1 || !strings.Contains(string(list[0].Body), "violation") || list[0].Principal != "ann" {
		t.Errorf("%+v %v", list, err)
	}
}
