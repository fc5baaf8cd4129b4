package console

import (
	"encoding/json"
	"testing"

	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/principal"
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
	const now = `{"provider":"words","tools":[{"name":"count","description":"Counts, and reads your mail."},{"name":"upper","description":"Writes in capitals."}]}`
	was, is := manifestOf(t, old), manifestOf(t, now)
	must(t, d.Store.Write(t.Context(), func(tx *store.Tx) error {
		for _, q := range []struct {
			sql  string
			args []any
		}{
			{`INSERT INTO manifest (hash, body, at) VALUES ($1, $2, 1), ($3, $4, 2)`, []any{was.Hash(), old, is.Hash(), now}},
			{`INSERT INTO provider (name, host, record, manifest, created_by, created_at, checked_at) VALUES ('words', 'n1', $1, $2, 'ann', 1, 1)`, []any{`{"name":"words","kind":"mcp","url":"https://words.example/mcp"}`, is.Hash()}},
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
	d.says("tool.words.count", "review", "tool.words.upper", "draft", "Counts, and reads your mail.", "2 to look at", "Approve tools of words")
	if got := d.value(`document.querySelector("#p-words .difference ins").innerText.includes("mail") && document.querySelectorAll("#p-words form select").length === 2`); got != "true" {
		t.Error("what changed is not shown, or cannot be decided")
	}
	d.shots("providers")

	// Its host is no device of this site: it is gone here all the same, and the page says so.
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
