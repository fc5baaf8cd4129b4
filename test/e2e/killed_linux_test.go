package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// A provider that is killed in the middle of a call leaves an unknown outcome, of whichever kind it
// is, with a recorded end; a call that only reads has failed and changed nothing. The same request
// again gets the same answer and never runs a second time, and the next call is carried out: a
// server is started again, and the satellite's own word settles what it was asked.
func TestAProviderIsKilledInACall(t *testing.T) {
	t.Parallel()
	b := newBuilt(t, "")
	type killed struct {
		tool, args string
		provider   string // whose notes say that it began
		what       string
		code       capabilities.Code
		kill       func(pid int)
	}
	program := func(pid int) { kill(t, outside(t, pid, "bad.py")) }
	api := func(int) {
		kill(t, b.api.Process.Pid)
		_ = b.api.Wait()
		b.serve()
	}
	for _, k := range []killed{
		{tool: "tool.mcp.stay", provider: "mcp", what: "stay", code: capabilities.CodeUnknownOutcome, kill: program},
		{tool: "tool.mcp.look", provider: "mcp", what: "look", code: capabilities.CodeExecutionFailed, kill: program},
		{tool: "tool.cmd.stay", provider: "cmd", what: "stay", code: capabilities.CodeUnknownOutcome, kill: program},
		{tool: "tool.cmd.look", provider: "cmd", what: "look", code: capabilities.CodeExecutionFailed, kill: program},
		{tool: "tool.sat.stay", provider: "sat", what: "stay", code: capabilities.CodeUnknownOutcome, kill: program},
		{tool: "tool.sat.look", provider: "sat", what: "look", code: capabilities.CodeExecutionFailed, kill: program},
		{tool: "tool.sat.stay", provider: "sat", what: "stay", code: capabilities.CodeUnknownOutcome, kill: func(int) {
			must(t, b.satellite.Process.Kill())
			_ = b.satellite.Wait()
			b.satellites()
		}},
		{tool: "tool.url.stay", provider: "api", what: "stay", code: capabilities.CodeUnknownOutcome, kill: api},
		{tool: "tool.url.look", provider: "api", what: "look", code: capabilities.CodeExecutionFailed, kill: api},
		{tool: "tool.api.stay", provider: "api", what: "stay", code: capabilities.CodeUnknownOutcome, kill: api},
		{tool: "tool.api.half", provider: "api", what: "half", code: capabilities.CodeUnknownOutcome, kill: api},
		{tool: "tool.api.look", provider: "api", what: "look", code: capabilities.CodeExecutionFailed, kill: api},
		{tool: "tool.fs.bash", args: `{"command":"echo begins; echo stay $$ >> began; exec sleep 600"}`, provider: "files", what: "stay", code: capabilities.CodeUnknownOutcome,
			kill: func(pid int) { kill(t, outside(t, pid, "sleep")) }},
	} {
		t.Run(strings.TrimPrefix(k.tool, "tool."), func(t *testing.T) {
			b.t = t
			if k.args == "" {
				k.args = "{}"
			}
			before := len(b.began(k.provider, k.what))
			id := fmt.Sprintf("killed-%s-%d", k.tool, before)
			done := make(chan capabilities.Result, 1)
			go func() {
				r, err := b.agent.call(ctx(), capabilities.ToolID(k.tool), k.args, id)
				if err != nil {
					r.Message = err.Error()
				}
				done <- r
			}()
			b.await("the call to begin", func() bool {
				select {
				case r := <-done:
					t.Fatalf("it ended before it began: %s %s", r.Code, r.Message)
				default:
				}
				return len(b.began(k.provider, k.what)) > before
			})
			k.kill(b.began(k.provider, k.what)[before])
			r := await(t, "the call's end", done)
			want(t, r, capabilities.StatusError, k.code)
			if r.Retryable && k.code == capabilities.CodeUnknownOutcome {
				t.Errorf("its caller is told to try again: %+v", r)
			}
			kinds, code := b.packets(r.Call)
			if got := strings.Join(kinds, " "); got != "request decision dispatch failed" || code != k.code {
				t.Errorf("the ledger has %s, %s", got, code)
			}
			again := b.call(k.tool, k.args, id)
			want(t, again, capabilities.StatusError, k.code)
			if again.Call != r.Call {
				t.Errorf("the same request is the call %s, and was %s", again.Call, r.Call)
			}
			if n := len(b.began(k.provider, k.what)); n != before+1 {
				t.Errorf("it ran %d times", n-before)
			}
			if k.provider != "files" {
				b.await("the provider to be there again", func() bool {
					return b.call("tool."+capabilities.ToolID(k.tool).Family()+".say", "{}", "").Status == capabilities.StatusOK
				})
			}
		})
	}
	t.Run("a child of the shell", func(t *testing.T) {
		b.t = t
		done := make(chan capabilities.Result, 1)
		go func() {
			r, _ := b.agent.call(ctx(), "tool.fs.bash", `{"command":"sleep 600 & echo child $! >> began; wait $!; echo ended with $?"}`, "")
			done <- r
		}()
		b.await("the child", func() bool { return len(b.began("files", "child")) > 0 })
		kill(t, outside(t, b.began("files", "child")[0], "sleep"))
		// The shell is there to tell, so nothing is unknown.
		r := await(t, "the call's end", done)
		want(t, r, capabilities.StatusOK, "")
		if !strings.Contains(string(r.Output), "ended with 137") {
			t.Errorf("%s", r.Output)
		}
	})
}

// outside returns the number that a program has on this machine, of the one that it has in
// namespaces of its own, if it has any: the newest whose words have that one among them.
func outside(t *testing.T, pid int, word string) (found int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/status")
	must(t, err)
	began := -1
	for _, file := range files {
		status, _ := os.ReadFile(file) // of what ended meanwhile there is none
		words, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
		_, numbers, _ := strings.Cut(string(status), "\nNSpid:")
		numbers, _, _ = strings.Cut(numbers, "\n")
		ns := strings.Fields(numbers)
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if len(ns) == 0 || len(fields) < 20 || ns[len(ns)-1] != strconv.Itoa(pid) || !strings.Contains(string(words), word) {
			continue
		}
		if start, err := strconv.Atoi(fields[19]); err == nil && start > began {
			began = start
			found, err = strconv.Atoi(ns[0])
			must(t, err)
		}
	}
	if found == 0 {
		t.Fatalf("no program here has the number %d", pid)
	}
	return found
}
