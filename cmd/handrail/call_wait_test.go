package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// A call that waits for a person says so into a pipe, too: which question, and the command
// that answers it, also of a step of it. With --json it says nothing but its result.
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
	post := func(path string, in, out any) {
		t.Helper()
		body, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+admin)
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(out); err != nil || resp.StatusCode >= 400 {
			t.Fatalf("%s: %s %v", path, resp.Status, err)
		}
	}
	// A macro that is allowed, whose step asks by itself.
	var macro api.Provider
	post("/v1/providers", api.AddProvider{Name: "one", Kind: "macro", Manifest: "description: Says hello.\nsteps: [{id: say, tool: tool.fixture.echo, with: {text: hello}}]\n"}, &macro)
	post("/v1/providers/one/approve", api.ApproveProvider{ManifestHash: macro.ManifestHash, Tools: map[capabilities.ToolID]api.ToolChoice{"tool.macro.one": {Effect: "allow"}}}, &macro)
	for _, c := range []struct {
		tool, args string
		json       bool
	}{{string(site.ToolEcho), `{"text":"hello"}`, false}, {string(site.ToolEcho), `{"text":"hello"}`, true}, {"tool.macro.one", `{}`, false}} {
		json := c.json
		said, tells, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Args = []string{"handrail", "call", "--agent", c.tool, c.args, "--data", string(data)}
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
