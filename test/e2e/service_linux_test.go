package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// The units that the program writes are good by systemd's own judgement, and their command starts
// the gateway. systemctl switches the service of a system that does not run on and off.
func TestServices(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the program")
	}
	home := privateDir(t)
	p := &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home)}
	site.Program(t, p.program)
	dir := filepath.Join(home, "a site") // with a space
	type plan struct {
		Name     string            `json:"name"`
		Files    map[string]string `json:"files"`
		Commands [][]string        `json:"commands"`
	}
	gateway := items[plan](p, "service", "install", "--gateway", "--dry-run", "--data", dir, "--", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json")[0]
	node := items[plan](p, "service", "install", "--node", "--dry-run", "--data", dir)[0]
	if gateway.Name != "handrail-gateway.service" || node.Name != "handrail-node.service" || len(gateway.Commands) < 2 || len(node.Commands) < 2 {
		t.Fatalf("%+v %+v", gateway, node)
	}
	if left, err := filepath.Glob(filepath.Join(home, ".config", "*")); err != nil || len(left) > 0 {
		t.Errorf("a dry run wrote %v", left)
	}
	var start string
	for file, text := range gateway.Files {
		for line := range strings.Lines(text) {
			if command, ok := strings.CutPrefix(line, "ExecStart="); ok && strings.HasSuffix(file, gateway.Name) {
				start = strings.TrimSpace(command)
			}
		}
	}
	if start == "" {
		t.Fatalf("no unit among %v", gateway.Files)
	}
	// A shell reads these words as systemd does.
	var ready struct {
		HTTP string `json:"http"`
		Site string `json:"site_id"`
	}
	cmd := exec.Command("sh", "-c", "exec "+start)
	cmd.Env = p.env
	if err := json.Unmarshal([]byte(desk.Stay(t, cmd)), &ready); err != nil || ready.Site == "" {
		t.Errorf("%s: %v", start, err)
	}

	for _, after := range []string{"--nosuch", "stop"} {
		if out, code := p.tries("", "service", "install", "--node", "--dry-run", "--", after); code != 2 || !strings.Contains(out, "invalid_request") {
			t.Errorf("%s: %d %s", after, code, out)
		}
	}
	p.refuses("invalid_request", 2, "service", "install", "--dry-run")
	p.refuses("invalid_request", 2, "service", "install", "--dry-run", "--node", "--gateway")

	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Logf("no systemd here: %v", err)
		return
	}
	units := filepath.Join(home, "units")
	must(t, os.Mkdir(units, 0o700))
	for _, one := range []plan{gateway, node} {
		for file, text := range one.Files {
			if !strings.HasSuffix(file, ".service") {
				continue
			}
			to := filepath.Join(units, filepath.Base(file))
			must(t, os.WriteFile(to, []byte(text), 0o600))
			words := []string{"verify", "--man=no", to}
			if one.Name == node.Name {
				words = append([]string{"--user"}, words...)
			}
			verify := exec.Command("systemd-analyze", words...)
			verify.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+units)
			out, err := verify.CombinedOutput()
			if err != nil && !strings.Contains(string(out), filepath.Base(file)) {
				t.Logf("systemd-analyze does not run here: %v: %s", err, out)
				continue
			}
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, filepath.Base(file)) && !strings.Contains(line, "Failed to connect") {
					t.Errorf("systemd-analyze verify: %s", line)
				}
			}
		}
	}

	// An image: the unit is there and wanted, and gone again.
	image := filepath.Join(home, "image")
	must(t, os.MkdirAll(filepath.Join(image, "etc", "systemd", "system"), 0o755))
	p.does("service", "install", "--gateway", "--root", image, "--data", "/var/lib/handrail")
	wanted := filepath.Join(image, "etc/systemd/system/multi-user.target.wants", gateway.Name)
	if _, err := os.Lstat(wanted); err != nil {
		t.Errorf("systemctl did not switch it on: %v", err)
	}
	unit, err := os.ReadFile(filepath.Join(image, "etc/systemd/system", gateway.Name))
	must(t, err)
	for _, line := range []string{"StateDirectory=handrail", "NoNewPrivileges=yes", "ProtectSystem=strict", "User=handrail", "RestartPreventExitStatus=2 7"} {
		if !strings.Contains(string(unit), "\n"+line+"\n") {
			t.Errorf("the unit has no %s", line)
		}
	}
	if out, code := p.tries("", "service", "status", "--gateway", "--root", image); code != 4 || !strings.Contains(out, "installed, not running") {
		t.Errorf("%d: %s", code, out)
	}
	p.does("service", "uninstall", "--gateway", "--root", image)
	if _, err := os.Lstat(wanted); err == nil {
		t.Error("an uninstalled service is wanted still")
	}
	p.refuses("not_found", 1, "service", "uninstall", "--gateway", "--root", image)
}
