package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The tar.gz is unpacked by tar, and the program in it runs and does a first task. The manual lies
// beside it.
func TestTheArchiveRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("makes an archive")
	}
	to := t.TempDir()
	file := find(t, release(t, built(t, "0.1.0"), "0.1.0", "archive", ""), ".tar.gz")
	if out, err := exec.Command("tar", "-xzf", file, "-C", to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	handrail := filepath.Join(to, "handrail")
	is, err := exec.Command(handrail, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(is), "handrail 0.1.0 (") || !strings.HasSuffix(strings.TrimSpace(string(is)), runtime.GOARCH+")") {
		t.Errorf("%v: it is %s", err, is)
	}
	for _, name := range []string{"LICENSE", "README.md", "docs/operate.md"} {
		if _, err := os.Stat(filepath.Join(to, name)); err != nil {
			t.Error(err)
		}
	}
	cmd := exec.Command(handrail, "up", "--once", "--no-open", "--browser-sandbox", "auto", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "HOME="+to, "HANDRAIL_DATA="+filepath.Join(to, "site"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
