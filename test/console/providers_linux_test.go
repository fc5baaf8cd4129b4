package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/secret"
	"github.com/handrail-dev/handrail/gateway/signin/signintest"
	"github.com/handrail-dev/handrail/gateway/store"
)

// A provider's tools wait on a page of their own, with what changed since they were approved.
func TestProvidersAreLookedAt(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	d.goTo("/console/providers")
	d.says("There are no providers", "handrail provider add")
	d.shots("providers-empty")
	const old = `{"provider":"words","tools":[{"name":"count","description":"Counts."}]}`
	now := `{"provider":"words","tools":[{"name":"count","description":"Counts, and reads your mail."},{"name":"upper","description":"` + strings.Repeat("Writes in capitals whatever it is given. ", 20) + `"}]}`
	was, is := manifestOf(t, old), manifestOf(t, now)
	must(t, d.Store.Write(t.Context(), func(tx *store.Tx) error {
		for _, q := range []struct {
			sql  string
			args []any
		}{
			{`INSERT INTO manifest (hash, body, at) VALUES ($1, $2, 1), ($3, $4, 2)`, []any{was.Hash(), old, is.Hash(), now}},
			{`INSERT INTO provider (name, host, record, manifest, created_by, created_at, checked_at) VALUES ('words', $1, $2, $3, 'ann', 1, 1)`, []any{string(d.node.ID), `{"name":"words","kind":"mcp","url":"https://words.example/mcp"}`, is.Hash()}},
			{`INSERT INTO provider_tool (provider, upstream, state, approved, effect, canary) VALUES ('words', 'count', 'review', $1, 'ask', '[]')`, []any{was.Tools[0].Hash()}},
		} {
			if _, err := tx.Exec(q.sql, q.args...); err != nil {
				return err
			}
		}
		return nil
	}))
	d.Restart()
	d.enter(principal.RoleAdmin)
	d.goTo("/console/providers")
	d.says("tool.words.count", "review", "tool.words.upper", "draft", "Counts, and reads your mail.", "2 to look at", "Approve tools of “words”", "Rules that the approval puts in force, as proposed")
	if got := d.value(`document.querySelector("#p-words-rules pre").textContent`); !strings.Contains(got, "permit (principal, action in [") || !strings.Contains(got, `Action::"tool.words.upper"`) {
		t.Errorf("the rules of the approval are not shown: %s", got)
	}
	if got := d.value(`document.querySelector("#p-words .difference ins").innerText.includes("mail") && document.querySelectorAll("#p-words form[data-does='POST /v1/providers/{provider}/approve'] select").length === 2`); got != "true" {
		t.Error("what changed is not shown, or cannot be decided")
	}
	d.shots("providers")
	// Beside a long description, the words of short columns stay whole.
	const broken = `(() => {
		const found = [];
		for (const cell of document.querySelectorAll("#p-words th, #p-words td:is([data-name=Tool], [data-name=State], [data-name=Agents]) .cell")) {
			const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
			while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/[^\s-]+/g)) {
				const range = document.createRange();
				range.setStart(texts.currentNode, word.index);
				range.setEnd(texts.currentNode, word.index + word[0].length);
				if (range.getClientRects().length > 1) found.push(word[0]);
			}
		}
		return found.join(" ");
	})()`
	if got := d.value(broken); got != "" {
		t.Errorf("words are broken: %s", got)
	}

	// One tool is moved from state to state; the hash of what is shown is in the form.
	move := func(tool, state, who string) {
		t.Helper()
		must(t, d.run(fmt.Sprintf(`(() => {
			const form = [...document.querySelectorAll("#p-words form[data-does='POST /v1/tools/{tool}/state']")].find(f => f.elements.tool.value === %q);
			form.closest("details").open = true;
			form.elements.state.value = %q;
			form.elements.canary.value = %q;
			form.requestSubmit();
		})(); 1`, tool, state, who), nil))
	}
	state := func(tool, want string) {
		t.Helper()
		_, got, err := d.Providers.Tool(capabilities.ToolID(tool))
		must(t, err)
		if string(got.State) != want {
			t.Errorf("%s is %s, want %s", tool, got.State, want)
		}
	}
	row := func(tool, text string) {
		t.Helper()
		d.await(fmt.Sprintf(`[...document.querySelectorAll("#p-words tbody tr")].some(r => r.innerText.includes(%q) && r.innerText.includes(%q))`, tool, text))
	}
	must(t, d.run(`document.querySelector("#p-words details[id^=m-words]").open = true; 1`, nil))
	d.shots("providers-move")
	for _, step := range []struct{ state, who, shown string }{
		{"restricted", "", "restricted"}, {"deprecated", "", "deprecated"}, {"active", "", "active"}, {"canary", "ann, ci", "canary, for ann, ci"}, {"retired", "", "retired"},
	} {
		move("tool.words.upper", step.state, step.who)
		// Its host hosts no providers: the decision holds all the same, and the page says so.
		d.await(`document.body.innerText.includes("could not be told")`)
		row("tool.words.upper", step.shown)
		state("tool.words.upper", step.state)
		d.goTo("/console/providers")
	}
	if got := d.value(`[...document.querySelectorAll("#p-words form[data-does='POST /v1/tools/{tool}/state']")].some(f => f.elements.tool.value === "tool.words.upper")`); got != "false" {
		t.Error("a retired tool can be moved")
	}
	// A canary names somebody; what changed is approved by the form with the difference.
	move("tool.words.count", "canary", "")
	d.await(`document.body.innerText.includes("names the principals")`)
	state("tool.words.count", "review")
	must(t, d.run(`document.querySelector("#p-words form[data-does='POST /v1/providers/{provider}/approve'] button").click(); 1`, nil))
	d.await(`document.body.innerText.includes("could not be told")`)
	state("tool.words.count", "active")

	// A viewer is offered none of it.
	d.enter(principal.RoleViewer)
	d.goTo("/console/providers")
	if got := d.value(`document.querySelectorAll("form[data-does*='/v1/tools/'], form[data-does*='/v1/providers/']").length`); got != "0" {
		t.Errorf("a viewer is offered %s changes", got)
	}
	d.enter(principal.RoleAdmin)
	d.goTo("/console/providers")

	// Its host cannot be told: it is gone here all the same, and the page says so.
	must(t, d.run(`document.getElementById("p-words-gone").open = true; document.querySelector("#p-words-gone button").click(); 1`, nil))
	d.await(`document.body.innerText.includes("could not be told")`)
	d.says("There are no providers")
	if all := d.Providers.List(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func manifestOf(t *testing.T, text string) (m tools.ToolManifest) {
	t.Helper()
	must(t, json.Unmarshal([]byte(text), &m))
	return m
}

// A person signs in to an MCP server at its authorization server, in their browser, and comes back
// to the console; the token is kept among the secrets, and the server takes it.
func TestSignInToAnMCPServer(t *testing.T) {
	d := startSite(t)
	party := signintest.Start(t)
	d.enter(principal.RoleAdmin)
	d.goTo("/console/providers")
	d.says("Sign in to an MCP server")
	must(t, d.run(fmt.Sprintf(`(() => {
		const form = document.querySelector("#sign-in form");
		form.elements.name.value = "wiki";
		form.elements.server.value = %q;
		form.elements.net.value = %q;
		form.requestSubmit();
	})(); 1`, party.Server.URL+"/mcp", strings.TrimPrefix(party.Auth.URL, "http://")), nil))
	d.await(`location.pathname === "/login/username" && !!document.querySelector("[name=username]")`)
	must(t, d.run(`(() => {
		document.querySelector("[name=username]").value = "test-user2";
		document.querySelector("[name=password]").value = "verysecure";
		document.querySelector("form").submit();
	})(); 1`, nil))
	d.await(`location.pathname === "/console/providers" && document.body.innerText.includes("Signed in.")`)
	d.says("wiki", "sign-in/wiki", party.Auth.URL)
	d.shots("sign-ins")
	ref, err := d.Secrets.Allow(t.Context(), "ann", secret.Spec{Name: "sign-in/wiki", Principal: "ann", Tools: []capabilities.ToolID{"tool.secret.copy-to-node-clipboard"}})
	must(t, err)
	value, err := d.Secrets.Resolve(t.Context(), ref)
	must(t, err)
	if !party.Takes(t, string(value.Reveal())) {
		t.Error("the MCP server does not take the token")
	}

	// An answer that nobody asked for does nothing, and says so.
	d.goTo("/console/sign-ins/0123456789abcdef?state=made-up&code=injected")
	d.await(`document.body.innerText.includes("no answer to a sign-in that this session began")`)

	d.goTo("/console/providers")
	must(t, d.run(`document.querySelector("#i-wiki form button").click(); 1`, nil))
	d.await(`!document.getElementById("i-wiki") && document.body.innerText.includes("Saved.")`)
	if len(party.Revoked) != 2 { // the one that refreshes, and the one that lets in
		t.Errorf("%d tokens were revoked", len(party.Revoked))
	}
}
