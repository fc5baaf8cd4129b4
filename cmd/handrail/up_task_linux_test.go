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
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/test/desk"
)

// A second node that comes while the first task waits for a person does not stand in its
// way: the task is for the node of this machine.
func TestFirstTaskIsForTheNodeOfThisMachine(t *testing.T) {
	desk.Need(t, "chromium")
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	rules := datadir.Dir(ours).PolicyDir()
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
	program := programsIn(t, dir)
	up := program.begin(ours, "up", "--browser-sandbox", "auto", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0")
	var event struct{ Event, Paste string }
	if line := program.next(up, &event); event.Event != "ready" {
		t.Fatal(line)
	}
	var waits struct{ Approval, Tool string }
	desk.Await(t, "the first task to wait for a person", func() bool {
		text := program.said("", ours, "approvals")
		return text != "" && json.Unmarshal([]byte(text), &waits) == nil
	})
	if err := json.NewDecoder(strings.NewReader(program.said("", ours, "pair", "--yes", "--no-wait"))).Decode(&event); err != nil || event.Paste == "" {
		t.Fatalf("%v %+v", err, event)
	}
	program.said(event.Paste, theirs, "node", "join")
	program.begin(theirs, "node")
	desk.Await(t, "both nodes to be ready", func() bool {
		return strings.Count(program.said("", ours, "nodes"), `"tool_id":"tool.browser.click","available":true`) == 2
	})
	program.said("", ours, "approve", waits.Approval, "--acknowledge")
	if line := program.next(up, &event); event.Event != "task" {
		t.Errorf("the first task: %s", line)
	}
}

// A node of its own that is revoked does not take the gateway of up with it; the next
// start pairs anew.
func TestUpOutlivesItsNode(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	program := programsIn(t, dir)
	type event struct {
		Event, Paste, Message, Hint string
		Node                        string `json:"node_id"`
	}
	start := func() (up *staying, ready event) {
		up = program.begin(ours, "up", "--browser-sandbox", "auto", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--no-task")
		if line := program.next(up, &ready); ready.Event != "ready" {
			t.Fatal(line)
		}
		return up, ready
	}
	up, first := start()
	program.said("", ours, "node", "revoke", first.Node)
	var told event
	if line := program.next(up, &told); told.Event != "node_revoked" || told.Node != first.Node || told.Message == "" || !strings.Contains(told.Hint, "handrail up") {
		t.Error(line)
	}
	var paste event
	if err := json.NewDecoder(strings.NewReader(program.said("", ours, "pair", "--yes", "--no-wait"))).Decode(&paste); err != nil {
		t.Fatal(err)
	}
	program.said(paste.Paste, theirs, "node", "join")
	var other event
	if line := program.next(program.begin(theirs, "node"), &other); other.Event != "connected" {
		t.Error(line)
	}
	if err := up.end(); err != nil {
		t.Error(err)
	}
	if _, again := start(); again.Node == first.Node {
		t.Error("the revoked node is back")
	}
}

// programs runs the program as users do, as other processes.
type programs struct {
	t         *testing.T
	self, dir string
}

func programsIn(t *testing.T, dir string) programs {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return programs{t, self, dir}
}

func (s programs) program(data string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), s.self)
	cmd.Args = append([]string{"handrail", "--json", "--data", data}, args...) // by this name the test binary is the program
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+s.dir)
	return cmd
}

// said runs a command to its end and returns what it wrote.
func (s programs) said(in string, data string, args ...string) string {
	s.t.Helper()
	cmd := s.program(data, args...)
	var errors bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(in), &errors
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("handrail %q: %v\n%s%s", args, err, out, errors.String())
	}
	return string(out)
}

// staying is a command that stays.
type staying struct {
	*bufio.Scanner // of what it writes
	end            func() error
}

// begin starts a command that ends with the test, or before.
func (s programs) begin(data string, args ...string) *staying {
	s.t.Helper()
	return s.stay(s.program(data, args...))
}

// stay is begin for a command that is made already.
func (s programs) stay(cmd *exec.Cmd) *staying {
	s.t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	r := &staying{bufio.NewScanner(out), sync.OnceValue(func() error {
		_ = cmd.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, out)
		return cmd.Wait()
	})}
	s.t.Cleanup(func() { _ = r.end() })
	return r
}

// next reads the next event.
func (s programs) next(lines *staying, into any) string {
	s.t.Helper()
	if !lines.Scan() {
		s.t.Fatalf("it ended: %v", lines.Err())
	}
	if err := json.Unmarshal(lines.Bytes(), into); err != nil {
		s.t.Fatalf("%v: %s", err, lines.Text())
	}
	return lines.Text()
}
