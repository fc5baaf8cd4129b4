package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/test/site"
)

// A data directory that the program of 2026-11-26 (78c7305) made for a first task is taken over as
// it is: the same site, its record, which verifies, and its node, without pairing.
func TestStartsOnADirectoryOfBefore(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the program")
	}
	home := privateDir(t)
	data := filepath.Join(home, "site")
	must(t, os.Mkdir(data, 0o700))
	unpack := exec.Command("tar", "--extract", "--gzip", "--file", "testdata/before-7.tgz", "--directory", data, "--no-same-owner")
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must(t, os.Chmod(data, 0o700))
	p := &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+data)}
	site.Program(t, p.program)
	var ready struct {
		QUIC string `json:"quic"`
		Site string `json:"site_id"`
	}
	p.leaves(&ready, "gateway", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json")
	if ready.Site != "ssw0rnd7v2424zm4w6yse355kfby0f3fgme" {
		t.Errorf("it is site %s", ready.Site)
	}
	type call struct {
		Tool   string `json:"tool_id"`
		Status string `json:"status"`
	}
	calls := items[call](p, "calls")
	if len(calls) != 5 {
		t.Errorf("%d calls of before: %+v", len(calls), calls)
	}
	for _, c := range calls {
		if !strings.HasPrefix(c.Tool, "tool.browser.") || c.Status != "ok" {
			t.Errorf("a call of before is %+v", c)
		}
	}
	if out := p.does("ledger", "verify"); !strings.Contains(out, "The ledger verifies") {
		t.Errorf("it said %s", out)
	}
	var state struct {
		Event string `json:"event"`
		Node  string `json:"node_id"`
	}
	p.leaves(&state, "node", "--gateway", ready.QUIC, "--json")
	if state.Event != "connected" || state.Node != "n2krqbxmdhxpcwkktwp" {
		t.Errorf("the node of before is %+v", state)
	}
}
