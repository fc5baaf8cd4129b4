package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/test/desk"
)

// hosts has a second device, which hosts providers; it is invited at the last gateway.
func (f *fleet) hosts() {
	at, data := f.all[len(f.all)-1], filepath.Join(f.home, "host")
	paste := items[struct{ Paste string }](at, "pair", "--label", "host", "--yes", "--no-wait")[0].Paste
	if out, code := at.tries(paste+"\n", "node", "join", "--data", data); code != 0 {
		at.t.Fatalf("joining: %s", out)
	}
	var began map[string]any
	at.leaves(&began, "node", "--data", data, "--host-providers", "--desktop", "off", "--json")
}

// TestProvidersAtOnce: a provider is added at one gateway, called at all, reviewed once where its
// words change, approved at another, and removed at a third. Of two that are added at once by one
// name one counts. A macro is carried out by whichever gateway is asked.
func TestProvidersAtOnce(t *testing.T) {
	f := startsAtOnce(t, "one", "two", "three")
	f.hosts()
	w := newWords(t)
	w.say(saying("Echoes."))
	call := func(at *person, tool string) (r capabilities.Result, out string) {
		out, _ = at.tries("", "call", tool, "--json")
		_ = json.Unmarshal([]byte(strings.TrimSpace(out)), &r)
		return r, out
	}
	everywhere := func(what, tool string, holds func(capabilities.Result) bool) {
		t.Helper()
		for i, at := range f.all {
			var last string
			desk.Await(t, what+" at the gateway "+f.names[i], func() bool {
				r, out := call(at, tool)
				last = out
				return holds(r)
			})
			t.Logf("%s at %s: %s", what, f.names[i], last)
		}
	}
	works := func(r capabilities.Result) bool { return r.Status == capabilities.StatusOK }
	unknown := func(r capabilities.Result) bool { return r.Code == capabilities.CodeUnknownTool }
	packets := func(at int, kind string) int {
		return strings.Count(f.all[at].does("ledger", "show", "--kind", kind, "--json"), `"`+kind+`"`)
	}

	// A gateway hears within a second what another one knows.
	does := func(at *person, unheard string, args ...string) {
		t.Helper()
		desk.Await(t, "a gateway to have heard of it: "+unheard, func() bool {
			out, code := at.tries("", args...)
			if code != 0 && !strings.Contains(out, unheard) {
				t.Fatal(out)
			}
			return code == 0
		})
	}
	does(f.all[1], "node_not_ready", "provider", "add", "mcp", "words", "--http", w.URL, "--yes")
	everywhere("the tool", "tool.words.echo", works)
	for i, at := range f.all {
		if all := items[api.Provider](at, "provider", "list"); len(all) != 1 || all[0].Name != "words" {
			t.Errorf("the gateway %s lists %+v", f.names[i], all)
		}
	}
	// Its words change.
	w.say(saying("Echoes, and reads your mail."))
	w.tells()
	everywhere("the change", "tool.words.echo", unknown)
	everywhere("what stays", "tool.words.other", works)
	if n := packets(0, "gateway.provider.changed"); n != 1 {
		t.Errorf("the change is on record %d times", n)
	}
	f.all[0].does("provider", "check", "words")
	f.all[2].does("provider", "approve", "words", "--allow", "all", "--yes")
	everywhere("the tool that was approved anew", "tool.words.echo", works)

	// A macro of it, which any gateway carries out.
	steps := filepath.Join(f.home, "twice.yaml")
	must(t, os.WriteFile(steps, []byte(`
description: Echoes twice.
steps:
  - {id: a, tool: tool.words.echo, with: {}}
  - {id: b, tool: tool.words.other, with: {}}
`), 0o600))
	f.all[0].does("provider", "add", "macro", "twice", steps)
	does(f.all[1], "not_found", "provider", "approve", "twice", "--allow", "all", "--yes")
	everywhere("the macro", "tool.macro.twice", works)
	f.all[0].does("provider", "remove", "twice")
	everywhere("the macro that was removed", "tool.macro.twice", unknown)

	f.all[2].does("provider", "remove", "words")
	everywhere("the removal", "tool.words.other", unknown)
	for i, at := range f.all {
		if all := items[api.Provider](at, "provider", "list"); len(all) != 0 {
			t.Errorf("the gateway %s lists %+v", f.names[i], all)
		}
	}
	// Two add one of the same name.
	var both sync.WaitGroup
	codes, outs := make([]int, 2), make([]string, 2)
	for i, at := range f.all[:2] {
		both.Go(func() { outs[i], codes[i] = at.tries("", "provider", "add", "mcp", "words", "--http", w.URL, "--yes") })
	}
	both.Wait()
	if (codes[0] == 0) == (codes[1] == 0) {
		t.Errorf("of two that are added at once one counts: %v\n%s\n%s", codes, outs[0], outs[1])
	}
	everywhere("the tool of the one that counted", "tool.words.echo", works)
	if n := packets(2, "gateway.provider.added"); n != 3 {
		t.Errorf("%d additions on record, want 3", n)
	}
	if out := f.all[1].does("ledger", "verify"); !strings.Contains(out, "verifies") {
		t.Error(out)
	}
}
