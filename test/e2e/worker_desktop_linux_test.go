package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/model/modeltest"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// TestAWorkerFindsASettingOnTheDesktop: the worker of the built program finds an element of a real
// window, with and without a model, after the person permitted the look; what each stage made of
// the question is printed for both (S2-16, S2-29, S2-45).
func TestAWorkerFindsASettingOnTheDesktop(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a desktop and the program")
	}
	d := desk.StartX(t, desk.Options{})
	d.Fixture(desk.GTK3, 3)
	home := privateDir(t)
	w := &person{t: t, program: filepath.Join(home, "handrail"), env: append(slices.Clone(d.Env), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}
	site.Program(t, w.program)
	var ready struct {
		HTTP string `json:"http"`
	}
	w.leaves(&ready, "up", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--no-task", "--json")
	until(t, "the desktop's tools", func() bool {
		out, _ := w.tries("", "tools", "list")
		return strings.Contains(out, "tool.desktop.snapshot")
	})
	const question = "find the setting check on my desktop"

	offline := w.opens("chat", "--offline", "--debug-routing")
	offline.says("> ")
	offline.types(question)
	offline.says("not [N]? ")
	shows(t, offline.text(), "ROUTER_OUTPUT", `"desktop_task"`, "POLICY_DECISION")
	offline.types("y")
	offline.says(`checkbox "check"`)
	offline.says("POSTHOOK_CLEANUP")
	shows(t, offline.text(), "PERMISSION_CHECK", "EXECUTOR_TOOL_CALL", "EXECUTOR_RESPONSE", "› ")
	offline.types("/exit")

	e := modeltest.Start(t, `{"intent":"desktop_task","confidence":0.9}`, func(n int, r modeltest.Request) modeltest.Step {
		if n == 0 {
			return modeltest.Step{Calls: []modeltest.Call{{Name: "tool_desktop_query", Args: `{"selector":"name:\"check\""}`}}}
		}
		return modeltest.Step{Text: "It is in the fixture's window."}
	})
	online := w.opens("chat", "--debug-routing", "--model", "small", "--endpoint", e.URL)
	online.says("> ")
	online.types(question)
	online.says("not [N]? ")
	shows(t, online.text(), "ROUTER_OUTPUT", `"desktop_task"`, "POLICY_DECISION")
	online.types("y")
	online.says("It is in the fixture's window.")
	online.says("POSTHOOK_CLEANUP")
	shows(t, online.text(), "EXECUTOR_TOOL_CALL", "tool.desktop.query")
	online.types("/exit")
}

// shows holds that a text has words.
func shows(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in %s", w, text)
		}
	}
}
