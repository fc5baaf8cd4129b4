package conformance

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// The official client of the Tasks extension takes our tasks, and every answer about them: of a
// call that a person allows, of one that they deny, and of one that it cancels. A call that
// nobody is asked about it gets the result of.
func TestTasksExtension(t *testing.T) {
	dir := packages(t)
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "@modelcontextprotocol", "ext-tasks")); err != nil {
		t.Skip("the inspector does not bring the package any more: add it to package.json")
	}
	s := site.Start(t, site.Options{ApprovalWait: time.Hour, Rules: `@id("asks") permit (principal, action == Action::"tool.fixture.press", resource) when { context.consent };
@id("free") permit (principal, action == Action::"tool.fixture.echo", resource);`})
	h := site.NewHandler()
	s.AddNode("desk", h).AwaitReady()
	token := s.MustToken("agent", principal.RoleAgent)
	script, err := filepath.Abs("testdata/tasks.mjs")
	if err != nil {
		t.Fatal(err)
	}
	client := exec.CommandContext(t.Context(), filepath.Join(modules, ".bin", "node"), script, modules, way(t, s.URL(), s.Front.ServeHTTP, token)+"/mcp")
	var complaints strings.Builder
	client.Stderr = &complaints
	in, err := client.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	type said struct {
		Outcome struct {
			Status string          `json:"status"`
			Result json.RawMessage `json:"result"`
		} `json:"outcome"`
		Began string `json:"began"` // task, or immediate: with the result
		Threw string `json:"threw"`
	}
	hears := func() (got said) {
		t.Helper()
		if !lines.Scan() {
			_ = client.Wait()
			t.Fatalf("the client ended: %s", &complaints)
		}
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
			t.Fatalf("%v in %s", err, lines.Bytes())
		}
		if got.Threw != "" {
			t.Fatalf("the client threw %s", got.Threw)
		}
		return got
	}
	answer := func(allow bool) {
		t.Helper()
		if got := hears(); got.Began != "task" { // before the answer: a quick one needs no task
			t.Errorf("it began as %q", got.Began)
		}
		// No news of nodes tells of a question, so that Await of the site would wait in vain.
		for end := time.Now().Add(site.Within); len(s.Consent.Approvals()) != 1; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("nothing waits for a person: %s", &complaints)
			}
		}
		if _, err := s.Consent.Answer(t.Context(), s.Consent.Approvals()[0].ID, consent.Answer{Allow: allow, By: "anna"}); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(line string) {
		t.Helper()
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	ask(`{"name":"tool_fixture_echo","arguments":{"text":"free"}}`)
	if got := hears(); got.Began != "immediate" {
		t.Errorf("a call without a question began as %q", got.Began)
	}
	if got := hears(); got.Outcome.Status != "completed" || !strings.Contains(string(got.Outcome.Result), "free") {
		t.Errorf("a call without a question: %s %s", got.Outcome.Status, got.Outcome.Result)
	}
	ask(`{"name":"tool_fixture_press","arguments":{"text":"yes"}}`)
	answer(true)
	if got := hears(); got.Outcome.Status != "completed" || !strings.Contains(string(got.Outcome.Result), "yes") || h.Runs("yes") != 1 {
		t.Errorf("allowed: %s %s", got.Outcome.Status, got.Outcome.Result)
	}
	ask(`{"name":"tool_fixture_press","arguments":{"text":"no"}}`)
	answer(false)
	if got := hears(); got.Outcome.Status != "completed" || !strings.Contains(string(got.Outcome.Result), "consent_denied") || h.Runs("no") != 0 {
		t.Errorf("denied: %s %s", got.Outcome.Status, got.Outcome.Result)
	}
	ask(`{"name":"tool_fixture_press","arguments":{"text":"other"},"cancel":true}`)
	if got := hears(); got.Began != "task" {
		t.Errorf("it began as %q", got.Began)
	}
	if got := hears(); got.Outcome.Status != "cancelled" || h.Runs("other") != 0 {
		t.Errorf("cancelled: %s %s", got.Outcome.Status, got.Outcome.Result)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := client.Wait(); err != nil {
		t.Errorf("%v %s", err, &complaints)
	}
}
