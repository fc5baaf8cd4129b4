package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/test/site"
)

// A packet is proved to somebody who has nothing but the program, the proof and the gateway's key.
// A checkpoint that was kept convicts a ledger that does not continue it.
func TestAPacketIsProvedElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the program")
	}
	home, elsewhere := privateDir(t), privateDir(t)
	program := filepath.Join(home, "handrail")
	site.Program(t, program)
	p := &person{t: t, program: program, env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}
	var ready struct{}
	p.leaves(&ready, "gateway", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json")
	first, proof := filepath.Join(home, "first"), filepath.Join(home, "proof")
	p.does("ledger", "checkpoint", "--out", first)
	p.does("token", "create", "robot")
	p.does("ledger", "checkpoint", "--since", first)
	p.does("ledger", "prove", "2", "--out", proof)
	var made api.Checkpoint
	must(t, json.Unmarshal([]byte(p.does("ledger", "checkpoint", "--json")), &made))

	verify := func(args ...string) (string, int) {
		cmd := exec.Command(program, append([]string{"ledger", "verify"}, args...)...)
		cmd.Env = []string{"HOME=" + elsewhere, "HANDRAIL_DATA=" + filepath.Join(elsewhere, "none")}
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := verify(proof, "--key", made.Key); code != 0 || !strings.Contains(out, "packet 2 is in the ledger") {
		t.Errorf("%d: %s", code, out)
	}
	if out, code := verify(proof); code != 2 || !strings.Contains(out, "--key") {
		t.Errorf("without a key: %d: %s", code, out)
	}
	text, err := os.ReadFile(proof)
	must(t, err)
	must(t, os.WriteFile(proof, []byte(strings.Replace(string(text), "\nindex 1\n", "\nindex 2\n", 1)), 0o600))
	if out, code := verify(proof, "--key", made.Key); code != 7 {
		t.Errorf("of another packet: %d: %s", code, out)
	}

	// Another gateway's ledger is no continuation.
	other := &person{t: t, program: program, env: append(os.Environ(), "HOME="+elsewhere, "HANDRAIL_DATA="+filepath.Join(elsewhere, "site"))}
	other.leaves(&ready, "gateway", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json")
	cmd := exec.Command(program, "ledger", "checkpoint", "--since", first, "--key", made.Key)
	cmd.Env = other.env
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("another ledger: %d: %s", cmd.ProcessState.ExitCode(), out)
	}
}
