package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/model/modeltest"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// running waits until the site's newest call runs, and returns it.
func (w *worked) running(tool capabilities.ToolID) (c api.Call) {
	w.t.Helper()
	until(w.t, "a call that runs", func() bool {
		all := w.calls()
		if len(all) > 0 {
			c = all[0]
		}
		return c.Tool == tool && c.Outcome == "running"
	})
	return c
}

// ended waits until a call has ended on purpose.
func (w *worked) ended(id capabilities.CallID) {
	w.t.Helper()
	until(w.t, "the call's end", func() bool {
		for _, c := range w.calls() {
			if c.ID == id {
				return c.Outcome == "ended"
			}
		}
		return false
	})
}

// TestATurnIsCancelled: Ctrl-C ends the turn of a chat and of a run, with the endpoint's stream or
// the call that runs, and the chat goes on; a job that somebody cancels ends at once, and its call
// with it. The record has the call as cancelled.
func TestATurnIsCancelled(t *testing.T) {
	w := newWorked(t)
	w.env = append(w.env, "TERM=xterm-256color", "NO_COLOR=")
	must(t, os.WriteFile(filepath.Join(w.work, "..", "site", "gateway", "policy", "bash.cedar"),
		[]byte(`@id("bash") permit (principal, action == Action::"tool.fs.bash", resource);`), 0o600))
	w.does("policy", "activate", "--yes")
	var hangs atomic.Bool
	never := make(chan struct{})
	var streams atomic.Int64
	e := modeltest.Start(t, `{"intent":"chat_only","confidence":0.9}`, func(int, modeltest.Request) modeltest.Step {
		if !hangs.Load() {
			return modeltest.Step{Text: "All **is** well."}
		}
		streams.Add(1)
		return modeltest.Step{Text: "Once upon a time", Hang: never, Ended: func() { streams.Add(-1) }}
	})
	model := []string{"--model", "small", "--endpoint", e.URL}
	chat := w.opens(append([]string{"chat"}, model...)...)
	chat.says("> ")
	hangs.Store(true)
	chat.types("/chat tell me a story")
	chat.says("Once ")
	chat.interrupts()
	chat.says("you ended it")
	until(t, "the stream's end", func() bool { return streams.Load() == 0 })
	hangs.Store(false)
	chat.types("/chat how are you")
	chat.says("All \x1b[0m\x1b[1mis\x1b[0m well.") // Markdown
	chat.says("> ")
	chat.interrupts()
	chat.says("interrupted")

	chat = w.opens("chat", "--offline")
	chat.says("> ")
	chat.types(`/run "sleep 600"`)
	call := w.running("tool.fs.bash")
	chat.interrupts()
	chat.says("you ended it")
	w.ended(call.ID)
	until(t, "the turn's record", func() bool {
		out, _ := w.tries("", "turns", "--json", "--limit", "1")
		return strings.Contains(out, `"status":"cancelled"`)
	})
	chat.types(`/run "echo one"`)
	chat.says("· tool.fs.bash")
	chat.says("(exit code 0)")
	chat.says("\n> ")
	chat.types("/show")
	chat.says(`"command": "echo one"`)
	chat.says(`"exit_code": 0`)
	chat.types("/exit")

	run := w.opens("run", "--offline", `/run "sleep 601"`)
	call = w.running("tool.fs.bash")
	run.interrupts()
	run.says("interrupted")
	w.ended(call.ID)

	job := strings.Fields(w.does("jobs", "add", `/run "sleep 602"`))[0]
	service := w.opens("worker", "--offline")
	call = w.running("tool.fs.bash")
	w.does("jobs", "cancel", job)
	service.says(job + " cancelled")
	w.ended(call.ID)
	service.interrupts()
}

// TestAPersonDecidesInTheChat: a call that nothing in the message spoke for is asked about where
// the person types, when it is made and with what it would do: a no denies it, a yes makes it.
func TestAPersonDecidesInTheChat(t *testing.T) {
	w := newWorked(t)
	e := modeltest.Start(t, `{"intent":"file_task","confidence":0.9}`, func(n int, _ modeltest.Request) modeltest.Step {
		if n%2 == 1 {
			return modeltest.Step{Text: "That is all."}
		}
		return modeltest.Step{Calls: []modeltest.Call{{Name: "tool_fs_write", Args: fmt.Sprintf(`{"path":"note-%d.txt","content":"hello"}`, n)}}}
	})
	chat := w.opens("chat", "--model", "small", "--endpoint", e.URL)
	chat.says("> ")
	for i, answer := range []string{"n", "y"} {
		name := fmt.Sprintf("note-%d.txt", 2*i)
		chat.types("/file look at a.txt")
		chat.says("Permit this call? [y/N] ")
		if asked := chat.text(); !strings.Contains(asked, "tool.fs.write") || !strings.Contains(asked, name) || !strings.Contains(asked, " risk: agent wants ") {
			t.Errorf("it does not say about what: %s", asked)
		}
		chat.types(answer)
		chat.says("That is all.")
		if _, err := os.Stat(filepath.Join(w.work, name)); (err == nil) != (answer == "y") {
			t.Errorf("after %q: %v\n%s", answer, err, chat.text())
		}
	}
	chat.types("/exit")
}
