package conformance

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/test/site"
)

// The real clients read what 'handrail connect' writes, and connect by it, over both
// transports. They are large and need no account for this; .ci/clients installs them.
func TestRealClients(t *testing.T) {
	npm := os.Getenv("HANDRAIL_CLIENTS")
	if npm == "" {
		t.Skip("set HANDRAIL_CLIENTS to a folder with the clients' npm packages; make clients does")
	}
	home, data := t.TempDir(), t.TempDir()
	handrail := filepath.Join(t.TempDir(), "handrail")
	env := append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+data, "XDG_CONFIG_HOME=", "DISABLE_AUTOUPDATER=1", "GEMINI_CLI_TRUST_WORKSPACE=true",
		"PATH="+filepath.Join(npm, "node_modules", ".bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	run := func(t *testing.T, program string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		path := program
		if program != handrail {
			path = filepath.Join(npm, "node_modules", ".bin", program)
		}
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Env, cmd.Dir = env, home
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", program, args, err, out)
		}
		return string(out)
	}
	site.Program(t, handrail)
	gateway := exec.CommandContext(t.Context(), handrail, "gateway", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0")
	gateway.Env = env
	gateway.Cancel = func() error { return gateway.Process.Signal(os.Interrupt) }
	gateway.WaitDelay = time.Minute
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gateway.Process.Signal(os.Interrupt); _ = gateway.Wait() })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(data, "gateway", "gateway.json")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the gateway did not start")
		}
	}
	for _, client := range []struct {
		name, program string
		says          string // of mcp list, on the line of our entry
	}{
		{"claude-code", "claude", "Connected"}, {"gemini", "gemini", "Connected"}, {"codex", "codex", "enabled"},
	} {
		for _, transport := range []string{"stdio", "http"} {
			t.Run(client.name+"/"+transport, func(t *testing.T) {
				args := []string{"connect", client.name}
				if transport == "http" {
					args = append(args, "--http")
				}
				run(t, handrail, args...)
				list := run(t, client.program, "mcp", "list")
				ours := ""
				for line := range strings.Lines(list) {
					if strings.Contains(line, "handrail") && strings.Contains(line, client.says) && !strings.Contains(line, "WARNING") {
						ours = line
					}
				}
				if ours == "" {
					t.Errorf("%s does not say that it is %s:\n%s", client.program, client.says, list)
				}
			})
		}
	}
	if out := run(t, handrail, "connect", "--check"); strings.Count(out, "OK. It answers over http") != 3 {
		t.Errorf("after the clients rewrote their files as they like:\n%s", out)
	}
}
