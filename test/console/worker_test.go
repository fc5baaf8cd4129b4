//go:build unix

package console

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/turn"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/job"
	"github.com/handrail-dev/handrail/gateway/knowledge"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/test/site"
)

// The queue of workers is seen, filled, and emptied; what a job says is in no packet.
func TestJobsAreQueuedAndCancelled(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	_, _, err := d.Tokens.Create(t.Context(), principal.Site, principal.Spec{Principal: "robot", Role: principal.RoleAgent, Lane: "robot"})
	must(t, err)
	d.goTo("/console/jobs")
	d.says("No jobs", "handrail worker --offline")
	d.shots("jobs-empty")
	d.goTo("/console/jobs")
	d.fill("j-text", "read the secret plan at https://example.com/")
	d.fill("j-schedule", "when I like")
	must(t, d.run(`document.getElementById("j-whose").value = "robot"; 1`, nil))
	d.click("Queue it")
	d.await(`document.querySelector(".fault")`)
	if got := d.value(`document.getElementById("j-text").value`); !strings.Contains(got, "secret plan") {
		t.Errorf("what was typed is gone: %q", got)
	}
	d.fill("j-schedule", "")
	d.fill("j-priority", "7")
	d.click("Queue it")
	d.await(`document.getElementById("outcome").innerText.includes("Queued")`)
	d.says("queued", "read the secret plan", "robot", "no worker does one")
	list, err := d.Gateway.Jobs.List(t.Context(), "robot", 10)
	if err != nil || len(list) != 1 || list[0].Priority != 7 || list[0].Lane != "robot" {
		t.Fatalf("%+v, %v", list, err)
	}
	first := list[0]

	// A worker takes it: the page follows without a reload.
	took, err := d.Gateway.Jobs.Take(t.Context(), "robot", api.TakeJob{Worker: "w", Fresh: true})
	must(t, err)
	_, err = d.Gateway.Jobs.Put(t.Context(), "robot", "robot", api.NewJob{Text: "list the folder inbox", Lane: "robot", Schedule: "0 7 * * 1-5"})
	must(t, err)
	d.await(`document.querySelectorAll("tbody tr").length === 2 && document.getElementById("live").innerText.includes("running")`)
	d.shots("jobs")
	d.goTo("/console/jobs/" + first.ID)
	d.says("running", "read the secret plan", "No worker has begun a turn of it")
	claimed, err := d.Gateway.Turns.Put(t.Context(), "robot", claimOf(first.ID, "call_1"))
	must(t, err)
	_, err = d.Gateway.Jobs.End(t.Context(), "robot", first.ID, api.JobWord{Claim: took.Claim, State: job.Done, Result: "the plan: lunch\nat noon", Calls: 1})
	must(t, err)
	d.await(`document.getElementById("live").innerText.includes("the plan: lunch") && document.querySelector("a[href='/console/turns/` + claimed.ID + `']")`)
	d.says("done", "1 call", "file_task")
	d.shots("job")

	d.goTo("/console/jobs")
	d.click("Cancel")
	d.await(`document.getElementById("outcome").innerText.includes("Cancelled, with its schedule")`)
	d.click("Forget")
	d.await(`document.getElementById("outcome").innerText.includes("Its words are gone")`)
	packets, err := d.Ledger.Packets(t.Context(), ledger.Query{Kind: "worker.job.", Limit: 100})
	must(t, err)
	for _, p := range packets {
		if strings.Contains(string(p.Body), "secret plan") || strings.Contains(string(p.Body), "lunch") {
			t.Errorf("a packet has words: %s", p.Body)
		}
	}
	if len(packets) == 0 || packets[0].Principal != d.person.Principal {
		t.Errorf("who queued it is not recorded: %+v", packets)
	}
	d.quiet("/console/jobs")
}

// A job that runs is cancelled by a click, and its worker hears of it at once; a worker on another
// machine is let in and put out where its jobs are.
func TestAWorkerElsewhereIsLetIn(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	invited, err := d.Gateway.Workers.Invite(t.Context(), principal.Site, api.InviteWorker{Name: "box"})
	must(t, err)
	p, err := pairing.ParseWorkerPaste(invited.Paste)
	must(t, err)
	_, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	text := func(k ed25519.PrivateKey) string { return pairing.KeyText(k.Public().(ed25519.PublicKey)) }
	says := func(seq int64) api.WorkerVerdict {
		ask := pairing.WorkerAsk{Invite: text(p.Key), Key: text(key), Host: "far.example", Platform: "linux/arm64", Seq: seq}
		in := api.JoinWorker{Invite: ask.Invite, Key: ask.Key, Host: ask.Host, Platform: ask.Platform, Seq: seq}
		in.Sig, err = ask.Sign(key)
		must(t, err)
		in.Proof, err = ask.Sign(p.Key)
		must(t, err)
		v, err := d.Gateway.Workers.Join(t.Context(), in)
		must(t, err)
		return v
	}
	d.goTo("/console/jobs")
	waits := says(1)
	d.await(`document.getElementById("live").innerText.includes("far.example")`) // without a reload
	d.says("box on far.example", text(key), "pending")
	d.shots("worker-waits")
	d.goTo("/console/jobs")
	d.click("Let in box")
	d.await(`document.getElementById("live").innerText.includes("let in")`)
	v := says(2)
	if v.Worker != waits.Worker || v.Token == "" {
		t.Fatalf("it is not let in: %+v", v)
	}

	_, err = d.Gateway.Jobs.Put(t.Context(), "box", "box", api.NewJob{Text: "count the files", Lane: "box"})
	must(t, err)
	took, err := d.Gateway.Jobs.Take(t.Context(), "box", api.TakeJob{Worker: "box", Fresh: true})
	must(t, err)
	d.await(`document.getElementById("live").innerText.includes("running")`)
	d.click("Cancel")
	d.await(`document.getElementById("live").innerText.includes("cancelling")`)
	if told, err := d.Gateway.Jobs.Tell(t.Context(), "box", took.ID, took.Claim, 0, ""); err != nil || !told.Cancel {
		t.Errorf("its worker hears %+v, %v", told, err)
	}

	must(t, d.run(`document.querySelector("article details").open = true; 1`, nil))
	d.click("Put out box")
	d.await(`!document.getElementById("live").innerText.includes("far.example")`)
	if v := says(3); v.State != "revoked" || v.Token != "" {
		t.Errorf("it is in: %+v", v)
	}
	d.quiet("/console/jobs")
}

// An operator, who makes no tokens, queues nothing for another principal's worker.
func TestAnothersWorkerIsAnAdminsMatter(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleOperator)
	if got := d.fetch("/console/jobs", "text=x&principal=robot"); got != "403" {
		t.Errorf("an operator queues a job for another's worker: %s", got)
	}
	if list, err := d.Gateway.Jobs.List(t.Context(), "", 10); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// claimOf is a turn of a worker that called one tool.
func claimOf(session string, call capabilities.CallID) turn.Claim {
	at := func(ms int) time.Time {
		return time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
	}
	tools := []capabilities.ToolID{site.ToolEcho, "tool.fs.read", "tool.fs.list"}
	return turn.Claim{Session: session, Lane: "robot", Started: at(0), Ended: at(184), Stages: []turn.Stage{
		{Stage: turn.Router, At: at(1), Router: &turn.Routed{Intent: "file_task", Confidence: 0.8, By: "signals"}},
		{Stage: turn.Policy, At: at(2), Policy: &turn.Decided{Allowed: tools, Offered: tools[:1], Required: []string{"file_read"}, Remembered: []string{"fact_1"}}},
		{Stage: turn.Permission, At: at(9), Permission: &turn.Checked{Tool: site.ToolEcho, Capability: "file_read", By: "fixture"}},
		{Stage: turn.ToolCall, At: at(60), Call: &turn.Called{Tool: site.ToolEcho, CallID: call, Status: "ok", DurationMS: 50.2}},
		{Stage: turn.Permission, At: at(61), Permission: &turn.Checked{Tool: "tool.fs.bash"}},
		{Stage: turn.ToolCall, At: at(62), Call: &turn.Called{Tool: "tool.fs.bash", Status: "refused", Code: capabilities.CodeForbidden}},
		{Stage: turn.Response, At: at(180), Response: &turn.Responded{RoundTrips: 2, Tokens: 812}},
		{Stage: turn.Memory, At: at(181), Memory: []turn.Noted{{Status: "kept", Fact: "fact_1"}}},
		{Stage: turn.Cleanup, At: at(182), Cleanup: &turn.Cleaned{Revoked: 1}},
		{Stage: turn.Pipeline, At: at(183), Pipeline: &turn.Summarised{Intent: "file_task", Confidence: 0.8, Allowed: tools, Required: []string{"file_read"}, Calls: []capabilities.CallID{call}, RoundTrips: 2, MemoryWrites: 1, Revoked: 1}},
	}}
}

// A turn shows router, gate, executor and post-hooks with their times, and the very packets that
// recorded them (S2-42, S2-43).
func TestATurnIsShownWithItsPackets(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleOperator)
	d.goTo("/console/turns")
	d.says("No turns yet", "handrail chat --offline")
	d.shots("turns-empty")
	d.goTo("/console/turns")
	called := d.result(d.call("robot", string(site.ToolEcho), `{"text":"hello"}`))
	other, err := d.Gateway.Turns.Put(t.Context(), "robot", claimOf("s2", called.Call))
	must(t, err)
	one, err := d.Gateway.Turns.Put(t.Context(), "robot", claimOf("s1", called.Call))
	must(t, err)
	d.await(`document.querySelectorAll("tbody tr").length === 2`) // without a reload
	d.says("file_task", "80 % sure", "robot", "184 ms")
	d.shots("turns")
	d.goTo("/console/turns?session=s2")
	if got := d.value(`[...document.querySelectorAll("tbody tr a")][0].getAttribute("href") + document.querySelectorAll("tbody tr").length`); got != "/console/turns/"+other.ID+"1" {
		t.Errorf("the conversation has %s", got)
	}
	d.goTo("/console/turns/" + one.ID)
	d.says("Router", "by signals", "Gate", "tool.fs.read", "Executor", "covered by fixture", "nothing covers it", "The gateway never heard of it", "2 round trips, 812 tokens", "After it",
		"kept fact_1", "1 permission was taken back", "+60 ms")
	stages := d.value(`[...document.querySelectorAll("td[data-name=Stage]")].map(e => e.innerText).join(" ")`)
	recorded := d.value(`[...document.querySelectorAll("td[data-name=Packet] pre")].map(e => JSON.parse(e.textContent)).map(b => b.turn_id === "` + one.ID + `" ? b.stage : "another's").join(" ")`)
	if stages != recorded || len(strings.Fields(stages)) != len(one.Claim.Stages) {
		t.Errorf("the stages %s have the packets %s", stages, recorded)
	}
	if got := d.value(`innerWidth >= 1024 && [...document.querySelectorAll("td[data-name=Stage] code")].filter(e => e.getClientRects().length > 1).map(e => e.innerText).join(" ")`); got != "" {
		t.Errorf("names of stages break: %s", got)
	}
	d.shots("turn")
	d.click(string(site.ToolEcho))
	d.await(`location.pathname === "/console/calls/` + string(called.Call) + `"`)
	d.quiet()
}

// A turn that runs stands in the list and has its page; once its lease is over both say that it is
// lost (S2-43).
func TestATurnThatRunsIsShown(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleOperator)
	c := claimOf("s1", "call_1")
	c.Turn, c.State, c.Ended, c.Stages = "turn_0123456789abcdef", turn.Running, time.Time{}, c.Stages[:4]
	c.Started = time.Now().Add(-90 * time.Second)
	_, err := d.Gateway.Turns.Put(t.Context(), "robot", c)
	must(t, err)
	for _, page := range []string{"/console/turns", "/console/turns/" + c.Turn} {
		d.goTo(page)
		d.says("file_task", "80 % sure", "running", "robot")
	}
	d.says("Took so far", "tool.fs.read", "Nothing yet.")
	must(t, d.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE turns SET until_ms = 1 WHERE id = $1`, c.Turn)
		return err
	}))
	for _, page := range []string{"/console/turns", "/console/turns/" + c.Turn} {
		d.goTo(page)
		d.says("file_task", "lost", "robot")
	}
	d.says("Its worker said nothing any more")
	d.quiet()
}

// The facts of a worker are listed, searched, edited, exported and forgotten; an admin sees
// whose it is, and nobody else sees another's.
func TestMemoryIsShownEditedAndForgotten(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	d.goTo("/console/memory")
	d.says("Nothing is remembered", "remember that my editor is Helix")
	d.shots("memory-empty")
	for _, f := range []knowledge.Fact{
		{Principal: "robot", Subject: "my editor", Attribute: "is", Text: "my editor is Helix"},
		{Principal: "robot", Subject: "I", Attribute: "am allergic to", Text: "I am allergic to nuts", Agreed: true},
		{Principal: "clerk", Subject: "the printer", Attribute: "is", Text: "the printer is on floor two"},
	} {
		f.Source, f.Confidence, f.Sensitivity = "the person, in turn s1", 1, "low"
		_, err := d.Gateway.Knowledge.Put(t.Context(), f)
		must(t, err)
	}
	d.goTo("/console/memory?principal=robot")
	d.says("the worker of robot remembers", "my editor is Helix", "I am allergic to nuts", "private", "the person, in turn s1")
	if got := d.value(`[...document.getElementById("m-whose").options].map(o => o.text).join(", ")`); got != "clerk: 1 fact, robot: 2 facts" {
		t.Errorf("the choice is %s", got)
	}
	d.shots("memory")
	d.goTo("/console/memory?principal=robot&q=editor")
	if got := d.value(`document.querySelectorAll("article").length`); got != "1" {
		t.Errorf("%s facts have the word", got)
	}
	edit := func(text, agreed string) {
		t.Helper()
		must(t, d.run(`(() => { const a = document.querySelector("article"); a.querySelector("details").open = true; a.querySelector("textarea").value = "`+text+`"; a.querySelector("input[type=checkbox]").checked = `+agreed+`; a.querySelector("button[value=edit]").click(); })(); 1`, nil))
	}
	edit("I live in Oslo", "false")
	d.await(`document.querySelector(".fault")`)
	if got := d.value(`document.querySelector("article details[open] textarea").value`); got != "I live in Oslo" {
		t.Errorf("what was typed is gone: %q", got)
	}
	d.goTo("/console/memory?principal=robot&q=editor")
	edit("my editor is Vim", "false")
	d.await(`document.getElementById("outcome").innerText.includes("Saved") && document.getElementById("main").innerText.includes("allergic")`)
	d.says("my editor is Vim")
	// Its last day is set in the form, alone, also of a private one, and taken off.
	ends := func(day, hasEnd string) {
		t.Helper()
		d.goTo("/console/memory?principal=robot&q=allergic")
		must(t, d.run(`(() => { const a = document.querySelector("article"); a.querySelector("details").open = true; a.querySelector("input[name=expires]").value = "`+day+`"; a.querySelector("button[value=edit]").click(); })(); 1`, nil))
		d.await(`document.getElementById("outcome").innerText.includes("Saved")`)
		d.goTo("/console/memory?principal=robot&q=allergic")
		if got := d.value(`[...document.querySelectorAll("article dt")].some(e => e.innerText === "Until") + " " + document.querySelector("input[name=expires]").value`); got != hasEnd+" "+day {
			t.Errorf("with the last day %q: %s", day, got)
		}
	}
	ends("2199-12-31", "true")
	ends("", "false")
	d.goTo("/console/memory?principal=robot")
	exported := ""
	must(t, d.run(`fetch(document.querySelector("a[download]").href).then(r => r.text())`, &exported))
	if lines := strings.Split(strings.TrimSpace(exported), "\n"); len(lines) != 2 || !strings.Contains(exported, "my editor is Vim") || strings.Contains(exported, "printer") {
		t.Errorf("exported %s", exported)
	}
	must(t, d.run(`[...document.querySelectorAll("article")].find(a => a.innerText.includes("Vim")).querySelector("button[value=forget]").click(); 1`, nil))
	d.await(`document.getElementById("outcome").innerText.includes("overwritten on the disk") && document.querySelectorAll("article").length === 1`)
	if list, err := d.Gateway.Knowledge.List(t.Context(), "robot", 10); err != nil || len(list) != 1 || !strings.Contains(list[0].Text, "allergic") {
		t.Errorf("%+v, %v", list, err)
	}
	d.quiet("/console/memory")
}

// hostileWorker puts the corpus into all that a worker can say of itself, and returns the names of
// one job, one turn and one fact.
func (d *desk) hostileWorker(try func(error)) map[string]string {
	d.t.Helper()
	names := map[string]string{}
	for _, s := range append([]string{all(1500)}, corpus...) {
		one, err := d.Gateway.Jobs.Put(d.t.Context(), "robot", "robot", api.NewJob{Text: s, Lane: "robot", Schedule: "@daily", Due: time.Now().Add(-time.Hour)})
		try(err)
		if err == nil {
			names["job"] = one.ID
		}
		if took, err := d.Gateway.Jobs.Take(d.t.Context(), "robot", api.TakeJob{Worker: "w", Fresh: true}); err == nil {
			_, err = d.Gateway.Jobs.End(d.t.Context(), "robot", took.ID, api.JobWord{Claim: took.Claim, State: job.Failed, Code: capabilities.Code(s), Stage: s, Result: s})
			try(err)
		}
		c := claimOf(one.ID, "call_1")
		c.Stages[0].Router.Intent, c.Stages[0].Router.By, c.Stages[2].Permission.By, c.Stages[6].Response.Stopped = s, s, s, s
		c.Stages[3].Call.Status, c.Stages[7].Memory[0].Status = s, s
		claimed, err := d.Gateway.Turns.Put(d.t.Context(), "robot", c)
		try(err)
		if err == nil {
			names["turn"] = claimed.ID
		}
		kept, err := d.Gateway.Knowledge.Put(d.t.Context(), knowledge.Fact{Principal: "robot", Subject: capabilities.Clip(s, 200), Attribute: "is", Text: s,
			Source: capabilities.Clip(s, 200), Confidence: 1, Sensitivity: "high", Agreed: true})
		try(err)
		if err == nil {
			names["fact"] = kept.ID
		}
	}
	for _, name := range []string{"job", "turn", "fact"} {
		if names[name] == "" {
			d.t.Errorf("nothing hostile is in any %s", name)
		}
	}
	return names
}
