package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// hooks are those of one command before calls of tool.fs.*.
func hooks(t *testing.T, command string, timeout float64) *Hooks {
	t.Helper()
	text, _ := json.Marshal(command)
	h, err := Read([]byte(fmt.Sprintf(`{"hooks":{"PreToolUse":[{"matcher":"tool_fs_.*","hooks":[{"type":"command","command":%s,"timeout":%v}]}]}}`, text, timeout)))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var read = Event{Session: "s", When: Before, ID: "tool.fs.read", Input: json.RawMessage(`{"path":"a.txt"}`)}

// TestHooksOnlyNarrow: exit code 2 and every refusal in JSON refuse; so does a hook that fails,
// hangs, says too much or what cannot be read, or wants other arguments. Consent is worth as much
// as silence.
func TestHooksOnlyNarrow(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are a POSIX shell's")
	}
	for command, want := range map[string]string{
		"true":                          "",
		"echo fine":                     "",
		`echo '{"decision":"approve"}'`: "",
		`echo '{"hookSpecificOutput":{"permissionDecision":"allow"}}'`: "",
		"echo not this >&2; exit 2":                                    "not this",
		"exit 2":                                                       "a hook refused",
		"exit 1":                                                       "a hook failed",
		"no-such-command":                                              "a hook failed",
		"kill -9 $$":                                                   "a hook failed",
		`echo '{"decision":"block","reason":"no"}'`:                                                        "no",
		`echo '{"continue":false,"stopReason":"enough"}'`:                                                  "enough",
		`echo '{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"private"}}'`: "private",
		`echo '{"hookSpecificOutput":{"permissionDecision":"ask"}}'`:                                       "a hook refused",
		`echo '{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"path":"/etc"}}}'`:      "a hook wanted other arguments",
		`echo '{"decision":'`:           "a hook said what cannot be read",
		"head -c 100000 /dev/zero":      "a hook said more",
		`grep -q '"path":"a.txt"'`:      "",
		`grep -q '"tool_name":"other"'`: "a hook failed",
	} {
		refused, err := hooks(t, command, 20).Run(t.Context(), read)
		if err != nil || want == "" && refused != "" || !strings.HasPrefix(refused, want) {
			t.Errorf("%s: %q, %v; want %q", command, refused, err, want)
		}
	}
	if refused, err := hooks(t, "sleep 60", 0.05).Run(t.Context(), read); err != nil || !strings.Contains(refused, "did not answer") {
		t.Errorf("%q, %v", refused, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hooks(t, "sleep 60", 20).Run(ctx, read); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestHooksAreTheirs: a hook runs for the tools and the moment that it is for, and learns no token.
func TestHooksAreTheirs(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are a POSIX shell's")
	}
	t.Setenv("HANDRAIL_TOKEN", "canary")
	t.Setenv("HANDRAIL_MODEL_KEY", "canary")
	file := filepath.Join(t.TempDir(), "seen")
	h := hooks(t, "env >>'"+file+"'", 20)
	for _, e := range []Event{{When: After, ID: "tool.fs.read"}, {When: Before, ID: "tool.desktop.mouse"}} {
		if refused, err := h.Run(t.Context(), e); refused != "" || err != nil {
			t.Error(refused, err)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it ran for what it is not for")
	}
	if refused, err := h.Run(t.Context(), read); refused != "" || err != nil {
		t.Error(refused, err)
	}
	seen, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(seen), "canary") || !strings.Contains(string(seen), "PATH=") {
		t.Errorf("%v: %s", err, seen)
	}
}

// FuzzRead: a file of hooks is read or refused.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"hooks":{"PreToolUse":[{"matcher":"a","hooks":[{"type":"command","command":"true"}]}],"PostToolUse":[]}}`))
	for _, bad := range []string{
		`{"hooks":{"Stop":[]}}`, `{"hooks":{"PreToolUse":[{"hooks":[{"type":"prompt","command":"x"}]}]}}`, `{"hook":{}}`, `[]`, `{`,
		`{"hooks":{"PreToolUse":[{"matcher":"(","hooks":[]}]}}`, `{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"x","timeout":-1}]}]}}`,
	} {
		if _, err := Read([]byte(bad)); err == nil {
			f.Errorf("%s is taken", bad)
		}
		f.Add([]byte(bad))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := Read(data)
		if (h == nil) == (err == nil) {
			t.Fatal(h, err)
		}
		_, _ = judge(data)
	})
}
