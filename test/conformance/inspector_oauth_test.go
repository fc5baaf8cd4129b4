package conformance

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/oauth"
)

// The inspector has the address of a gateway behind a TLS proxy and nothing else. It asks its
// person to go to the gateway's page, is let in there, and lists. Later it calls with what it kept,
// without the person.
func TestInspectorComesInByOAuth(t *testing.T) {
	dir := packages(t)
	b := startBehind(t)
	bin, keeps := filepath.Join(dir, "node_modules", ".bin"), t.TempDir()
	inspect := func(args ...string) *exec.Cmd {
		program := filepath.Join(dir, "node_modules", filepath.FromSlash(inspector))
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "node"), append([]string{program, "--cli", b.base + "/mcp", "--transport", "http"}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "NODE_EXTRA_CA_CERTS="+b.authority(), "HOME="+keeps,
			"MCP_STORAGE_DIR="+keeps, "MCP_INSPECTOR_SECRET_STORE=file", "MCP_AUTO_OPEN_ENABLED=true", "BROWSER=true")
		return cmd
	}
	cmd := inspect("--callback-url", "http://127.0.0.1:0/oauth/callback", "--method", "tools/list")
	var printed strings.Builder
	cmd.Stdout = &printed
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if _, sent, asks := strings.Cut(lines.Text(), "navigate to: "); asks {
			if _, _, at := b.get(b.letsIn(strings.TrimSpace(sent), "inspector", "node")); at.Hostname() != "127.0.0.1" {
				t.Errorf("sent back to %s", at)
			}
		}
	}
	err = cmd.Wait()
	var list struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err != nil || json.Unmarshal([]byte(printed.String()), &list) != nil || len(list.Tools) != 1 || list.Tools[0].Name != "tool_node_list" {
		t.Fatalf("%v: it lists %s\n%s", err, printed.String(), said.String())
	}
	seen := map[oauth.Kind]bool{}
	for _, s := range b.Clients.Steps() {
		seen[s.What] = true
	}
	for _, want := range []oauth.Kind{oauth.Challenged, oauth.ReadResource, oauth.ReadServer, oauth.Registered, oauth.Asked, oauth.Allowed, oauth.Fetched, oauth.Called} {
		if !seen[want] {
			t.Errorf("no step %q", want)
		}
	}
	call := func() (string, error) {
		out, err := inspect("--stored-auth-only", "--method", "tools/call", "--tool-name", "tool_node_list").CombinedOutput()
		return string(out), err
	}
	if out, err := call(); err != nil || !strings.Contains(out, `"nodes"`) {
		t.Errorf("with what it kept: %v\n%s", err, out)
	}
}
