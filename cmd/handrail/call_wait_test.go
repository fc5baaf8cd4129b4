package main

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// A call that waits for a person says so into a pipe, too: which question, and the command
// that answers it. With --json it says nothing but its result.
func TestACallSaysWhatItWaitsFor(t *testing.T) {
	s := site.Start(t, site.Options{ApprovalWait: 2 * time.Minute, Rules: `@id("ask") permit (principal, action in Action::"family:fixture", resource) when { context.consent };`})
	s.AddNode("desk", site.NewHandler())
	data := datadir.Dir(t.TempDir())
	if err := os.MkdirAll(data.Gateway(), 0o700); err != nil {
		t.Fatal(err)
	}
	admin := s.MustToken("admin", principal.RoleAdmin)
	for path, text := range map[string]string{data.TokenPath(): admin, data.AgentTokenPath(): s.MustToken("agent", principal.RoleAgent)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := data.WriteRunning(datadir.Running{HTTP: s.URL(), PID: os.Getpid()}); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	person, err := client.New(s.URL(), client.NewToken(admin))
	if err != nil {
		t.Fatal(err)
	}
	for _, json := range []bool{false, true} {
		said, tells, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Args = []string{"handrail", "call", "--agent", string(site.ToolEcho), `{"text":"hello"}`, "--data", string(data)}
		if json {
			cmd.Args = append(cmd.Args, "--json")
		}
		cmd.Stderr = tells
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		tells.Close()
		for changed := s.Consent.Changed(); len(s.Consent.Approvals()) == 0; changed = s.Consent.Changed() {
			select {
			case <-changed:
			case <-time.After(site.Within):
				t.Fatal("no question came")
			}
		}
		id := s.Consent.Approvals()[0].ID
		answer := func() {
			if _, err := person.Answer(context.Background(), id, client.Answer{Allow: true, Kind: "call"}); err != nil {
				t.Error(err)
			}
		}
		text := ""
		if json {
			answer()
		} else {
			buf := make([]byte, 4096)
			n, _ := said.Read(buf)
			text = string(buf[:n])
			answer()
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("json %v: the call ended with %v", json, err)
		}
		said.Close()
		want := regexp.MustCompile(`^Waiting for your answer to question ` + id + `, open until [0-9:]+ [A-Z+0-9-]+: handrail approve ` + id + ` --data \S+ \(or deny\)\.\n$`)
		if !json && (!want.MatchString(text) || !strings.Contains(text, string(data))) {
			t.Errorf("it said %q", text)
		}
	}
}
