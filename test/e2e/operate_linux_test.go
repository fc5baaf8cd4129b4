package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/test/site"
)

// The commands of docs/operate.md do what they say, in the order of the page, beside a gateway
// that runs.
func TestOperateByItsPage(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the program")
	}
	page, err := os.ReadFile("../../docs/operate.md")
	must(t, err)
	home := privateDir(t)
	bin := filepath.Join(home, "bin")
	must(t, os.Mkdir(bin, 0o700))
	p := &person{t: t, program: filepath.Join(bin, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"),
		"PATH="+bin+":"+os.Getenv("PATH"))}
	site.Program(t, p.program)
	var ready struct {
		HTTP string `json:"http"`
	}
	p.leaves(&ready, "gateway", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json")
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 2 {
		t.Fatalf("%d blocks of commands", len(blocks))
	}
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			cmd := exec.Command("sh", "-ec", line)
			cmd.Env = append(p.env, "URL="+ready.HTTP)
			cmd.Dir = home
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", strings.TrimSpace(line), err, out)
			}
		}
	}
}
