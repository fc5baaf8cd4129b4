package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/test/desk"
)

// A second node that comes while the first task waits for a person does not stand in its
// way: the task is for the node of this machine.
func TestFirstTaskIsForTheNodeOfThisMachine(t *testing.T) {
	desk.Need(t, "chromium")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	rules := dataDir(ours).policyDir()
	if err := os.MkdirAll(rules, 0o700); err != nil {
		t.Fatal(err)
	}
	const asks = `@id("asks") forbid (principal, action == Action::"tool.browser.type", resource) unless { context.consent };
@id("lets") permit (principal, action == Action::"tool.browser.type", resource) when { context.consent };`
	for name, text := range map[string][]byte{"default.cedar": policy.DefaultSource(), "asks.cedar": []byte(asks)} {
		if err := os.WriteFile(filepath.Join(rules, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := func(data string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Args = append([]string{"handrail", "--json", "--data", data}, args...) // by this name the test binary is the program
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+dir)
		return cmd
	}
	said := func(in string, data string, args ...string) string {
		t.Helper()
		cmd := program(data, args...)
		var errors bytes.Buffer
		cmd.Stdin, cmd.Stderr = strings.NewReader(in), &errors
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("handrail %q: %v\n%s%s", args, err, out, errors.String())
		}
		return string(out)
	}
	begin := func(data string, args ...string) *bufio.Scanner {
		t.Helper()
		cmd := program(data, args...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Signal(os.Interrupt)
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait()
		})
		return bufio.NewScanner(out)
	}
	next := func(lines *bufio.Scanner, into any) string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("it ended: %v", lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), into); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		return lines.Text()
	}

	up := begin(ours, "up", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0")
	var event struct{ Event, Paste string }
	if line := next(up, &event); event.Event != "ready" {
		t.Fatal(line)
	}
	var waits struct{ Approval, Tool string }
	desk.Await(t, "the first task to wait for a person", func() bool {
		text := said("", ours, "approvals")
		return text != "" && json.Unmarshal([]byte(text), &waits) == nil
	})
	if err := json.NewDecoder(strings.NewReader(said("", ours, "pair", "--yes", "--no-wait"))).Decode(&event); err != nil || event.Paste == "" {
		t.Fatalf("%v %+v", err, event)
	}
	said(event.Paste, theirs, "node", "join")
	begin(theirs, "node")
	desk.Await(t, "both nodes to be ready", func() bool {
		return strings.Count(said("", ours, "nodes"), `"tool_id":"tool.browser.click","available":true`) == 2
	})
	said("", ours, "approve", waits.Approval)
	if line := next(up, &event); event.Event != "task" {
		t.Errorf("the first task: %s", line)
	}
}
