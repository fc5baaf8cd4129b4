package agent

import (
	"context"
	"crypto/ed25519"
	"path/filepath"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// The log tells whose something is only while one principal alone made such calls.
func TestSoleUser(t *testing.T) {
	dir := t.TempDir()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(journal.Options{Dir: filepath.Join(dir, "journal", "n1"), Chain: "n1", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	start := func(call capabilities.CallID, tool capabilities.ToolID, who string) {
		t.Helper()
		if err := j.Started(context.Background(), &wire.Ticket{Call: call, Tool: tool, Lane: "l", Args: []byte("{}"), Envelope: []byte(`{"principal":"` + who + `"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	sole := func(want capabilities.PrincipalID) {
		t.Helper()
		a := &Agent{opts: Options{Dir: dir}, made: time.Now()}
		got, known := a.SoleUser("tool.browser.launch", "tool.browser.close")
		if got != want || known != (want != "") {
			t.Errorf("%q, %v; want %q", got, known, want)
		}
	}
	sole("")
	start("c1", "tool.browser.launch", "alice")
	start("c2", "tool.browser.navigate", "bob")
	start("c3", "tool.browser.close", "alice")
	sole("alice")
	a := &Agent{opts: Options{Dir: dir}, made: time.Now()}
	start("c4", "tool.browser.launch", "bob")
	if got, known := a.SoleUser("tool.browser.launch"); got != "alice" || !known {
		t.Errorf("a call after the start counts: %q, %v", got, known)
	}
	sole("")
}
