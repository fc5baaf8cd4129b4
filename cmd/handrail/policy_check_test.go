package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// 'policy check' and 'policy test' accept what an activation accepts: the file that an approval of
// a provider writes, too, whether the gateway runs or not. Where only this program's tools are
// known, a refusal says so.
func TestPolicyCheckKnowsProvidersTools(t *testing.T) {
	s := site.Start(t, site.Options{})
	data := t.TempDir()
	must(t, os.Symlink(s.Dir, filepath.Join(data, "gateway")))
	macro := filepath.Join("..", "..", "examples", "macros", "read-all.yaml")
	tokens := map[principal.Role]string{principal.RoleAdmin: s.MustToken("admin", principal.RoleAdmin), principal.RoleAgent: s.MustToken("robot", principal.RoleAgent)}
	running := func(role principal.Role) []string {
		return []string{"HANDRAIL_URL=" + s.URL(), "HANDRAIL_TOKEN=" + tokens[role]}
	}
	run := func(env []string, args ...string) (string, int) {
		t.Helper()
		self, err := os.Executable()
		must(t, err)
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Args = append([]string{"handrail", "--data", data}, args...)
		cmd.Env = append(append(os.Environ(), "XDG_STATE_HOME="+t.TempDir()), env...)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	for _, args := range [][]string{{"provider", "add", "macro", "read-all", macro}, {"tools", "approve", "tool.macro.read-all", "--effect", "allow", "--yes"}} {
		if out, code := run(running(principal.RoleAdmin), args...); code != 0 {
			t.Fatalf("%q: %d %s", args, code, out)
		}
	}
	file := filepath.Join(s.Dir, "policy", "provider-read-all.cedar")
	cases := filepath.Join(t.TempDir(), "cases")
	must(t, os.WriteFile(cases, []byte(`{"principal": "a", "tool": "tool.macro.read-all", "args": {"pattern": "*.md"}, "expect": "allow"}`), 0o600))
	accepts := func(env []string) {
		t.Helper()
		if out, code := run(env, "policy", "check", file); code != 0 || !strings.Contains(out, "good: provider-read-all.cedar") {
			t.Errorf("check: %d %s", code, out)
		}
		if out, code := run(env, "policy", "test", "--files", file, cases); code != 0 || !strings.Contains(out, "1 case, 0 failed") {
			t.Errorf("test: %d %s", code, out)
		}
	}
	accepts(running(principal.RoleAdmin))
	if out, code := run(running(principal.RoleAdmin), "policy", "check", filepath.Join(s.Dir, "policy")); code != 0 {
		t.Errorf("the policy folder: %d %s", code, out)
	}
	if out, code := run(running(principal.RoleAgent), "policy", "check", file); code != 2 || !strings.Contains(out, "none of a provider") {
		t.Errorf("as an agent: %d %s", code, out)
	}
	s.Move(t.TempDir()) // the folder of before is that of a gateway that does not run
	accepts(nil)
	must(t, os.WriteFile(file, []byte(`permit (principal, action == Action::"tool.macro.nosuch", resource);`), 0o600))
	if out, code := run(nil, "policy", "check", file); code != 2 || !strings.Contains(out, "tool.macro.nosuch") || strings.Contains(out, "none of a provider") {
		t.Errorf("a tool that is not there: %d %s", code, out)
	}
}
