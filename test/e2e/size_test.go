package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
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
