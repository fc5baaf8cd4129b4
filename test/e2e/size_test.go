package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/test/site"
)

// TestTheProgramHasItsSize: the program as it is released, without symbols, has at most 80 MB
// (decision 137). A library that takes more than its use is worth shows here.
func TestTheProgramHasItsSize(t *testing.T) {
	const most = 80_000_000
	file := filepath.Join(t.TempDir(), "handrail")
	site.Program(t, file)
	found, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MB", float64(found.Size())/1e6)
	if found.Size() > most {
		t.Errorf("the program has %d bytes, %d more than it may", found.Size(), found.Size()-most)
	}
}

// TestTheProgramStartsWithLittle: no package of ours takes more than 1 MB of memory before main
// begins. Each command, program behind walls and idle node would pay for it.
func TestTheProgramStartsWithLittle(t *testing.T) {
	const most = 1 << 20
	file := filepath.Join(t.TempDir(), "handrail")
	site.Program(t, file)
	cmd := exec.Command(file, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ours := regexp.MustCompile(`init (github\.com/handrail-dev/\S+) @\S+ ms, \S+ ms clock, (\d+) bytes`).FindAllSubmatch(out, -1)
	if len(ours) < 10 {
		t.Fatalf("%d packages of ours were told of: %s", len(ours), out)
	}
	for _, m := range ours {
		if n, err := strconv.Atoi(string(m[2])); err != nil || n > most {
			t.Errorf("%s takes %s bytes, %v; a pattern of many words is a capabilities.Pattern", m[1], m[2], err)
		}
	}
}

// TestAGuardBeginsBeforeTheProgram: a process that is a guard or a runner takes over before the
// largest packages begin (decision 304). Each browser and each program behind walls would pay.
func TestAGuardBeginsBeforeTheProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "handrail")
	site.Program(t, file)
	begun := func(args ...string) string {
		cmd := exec.Command(file, args...)
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		out, _ := cmd.CombinedOutput() // neither gets an order, and ends with a failure
		return string(out)
	}
	large := []string{"init github.com/santhosh-tekuri/jsonschema/v6 ", "init github.com/handrail-dev/handrail/capabilities/catalog/tools "}
	all := begun("version")
	for _, args := range [][]string{{"__guard"}, {"sandbox-runner", "t1", "0"}} {
		few := begun(args...)
		if !strings.Contains(few, "init os ") {
			t.Fatalf("%v: %s", args, few)
		}
		for _, one := range large {
			if !strings.Contains(all, one) || strings.Contains(few, one) {
				t.Errorf("%v: %q began, or the program does not have it any more", args, one)
			}
		}
	}
}
