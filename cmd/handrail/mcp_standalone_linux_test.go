package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/test/desk"
)

// conversation is one 'handrail mcp --standalone' as a client has it.
type conversation struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	n   int
}

func (s programs) conversation(data string) *conversation {
	s.t.Helper()
	c := &conversation{t: s.t, cmd: s.program(data, "mcp", "--standalone", "--browser-sandbox", "auto")}
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	c.out.Buffer(nil, 4<<20)
	if err := c.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// ask sends a request and returns its answer.
func (c *conversation) ask(method, params string) string {
	c.t.Helper()
	c.n++
	fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.n, method, params)
	for c.out.Scan() {
		var got struct{ ID int }
		if json.Unmarshal(c.out.Bytes(), &got) == nil && got.ID == c.n {
			return c.out.Text()
		}
	}
	c.t.Fatalf("%s was not answered: %v", method, c.out.Err())
	return ""
}

func (c *conversation) begin() {
	c.t.Helper()
	got := c.ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	if !strings.Contains(got, `"serverInfo"`) {
		c.t.Fatal(got)
	}
	fmt.Fprintln(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// Two conversations where nothing runs: both begin at once and share one gateway, with a browser.
// It outlives the one that started it, and is started anew when it was killed. It takes the usual
// ports where they are free, so it runs beside no other test.
func TestStandaloneConversations(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	s := programsIn(t, dir)
	one, two := s.conversation(data), s.conversation(data)
	one.begin()
	two.begin()
	var up struct{ PID int }
	running := func() bool {
		text, err := s.program(data, "status").Output()
		return err == nil && json.Unmarshal(text, &up) == nil
	}
	for _, c := range []*conversation{one, two} {
		if got := c.ask("tools/call", `{"name":"tool_browser_navigate","arguments":{"url":"about:blank"}}`); !strings.Contains(got, `"effect":"confirmed"`) {
			t.Error(got)
		}
	}
	if !running() {
		t.Error("no gateway says its status")
	}
	if err := one.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = one.cmd.Wait()
	if got := two.ask("tools/call", `{"name":"tool_node_list","arguments":{}}`); !strings.Contains(got, `"connected":true`) {
		t.Error(got)
	}
	kill := func() error { return exec.Command("pkill", "-KILL", "-f", "mcp-site.*"+data).Run() }
	if err := kill(); err != nil {
		t.Fatal(err)
	}
	desk.Await(t, "a call by the next gateway", func() bool {
		got := two.ask("tools/call", `{"name":"tool_node_list","arguments":{}}`)
		return strings.Contains(got, `"connected":true`)
	})
	_ = two.in.Close()
	if err := two.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if err := kill(); err != nil { // it would have ended by itself, half a minute later
		t.Errorf("the gateway ended with its last conversation, at once: %v", err)
	}
}

// A gateway that is refused tells the client's log why; nothing is started.
func TestStandaloneIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := programsIn(t, dir)
	for want, args := range map[string][]string{
		"HANDRAIL_URL names a gateway": {"mcp", "--standalone"},
		"is taken with --standalone":   {"mcp", "--browser-sandbox", "auto"},
	} {
		cmd := s.program(filepath.Join(dir, "data"), args...)
		if strings.HasPrefix(want, "HANDRAIL_URL") {
			cmd.Env = append(cmd.Env, "HANDRAIL_URL=https://gateway.example")
		}
		text, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(text), want) {
			t.Errorf("%v: %v %s", args, err, text)
		}
	}
}
