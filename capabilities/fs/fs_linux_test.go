package fs

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

type shell struct{ box *sandbox.Sandbox }

func (s shell) Start(ctx context.Context, c Command) (Process, error) {
	program := sandbox.Program{Argv: c.Argv, Write: []string{c.Dir}, Call: true, Keys: c.Keys, Wrote: c.Wrote, Refused: c.Refused, Denied: c.Denied, Changed: func(string) { c.Changed() }}
	if c.Net != nil {
		door, err := c.Net.Open()
		if err != nil {
			return nil, err
		}
		program.Door = door
	}
	p, err := s.box.Start(ctx, program)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (s shell) Runs(Command) (string, string) { return "", "" }

func (s shell) Class(net bool) (capabilities.IsolationClass, error) { return s.box.Class(net) }

// rig is a handler over a workspace, with a folder beside it that nobody may reach.
type rig struct {
	t        *testing.T
	h        *Handler
	dir, out string
}

func open(t *testing.T) *rig {
	t.Helper()
	base := t.TempDir()
	r := &rig{t: t, dir: filepath.Join(base, "work"), out: filepath.Join(base, "out")}
	for _, d := range []string{r.dir, r.out} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.file(filepath.Join(r.out, "secret"), "unseen")
	h, err := New(Options{Workspace: r.dir, Start: shell{sandbox.New(procguard.New(procguard.Options{}))}})
	if err != nil {
		t.Fatal(err)
	}
	r.h = h
	t.Cleanup(func() { _ = h.Close() })
	return r
}

func (r *rig) file(path, text string) {
	r.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) has(path, want string) {
	r.t.Helper()
	got, err := os.ReadFile(filepath.Join(r.dir, path))
	if err != nil || string(got) != want {
		r.t.Errorf("%s holds %q, want %q (%v)", path, got, want, err)
	}
}

// call makes a call by a tool's schema and holds its result against it.
func (r *rig) call(action string, args any) (map[string]any, error) {
	r.t.Helper()
	cat, err := catalog.Embedded()
	if err != nil {
		r.t.Fatal(err)
	}
	c := capabilities.CapabilityID("tyrum.fs." + action)
	d, ok := cat.ByCapability(c)
	if !ok {
		r.t.Fatalf("no %s", c)
	}
	text, err := json.Marshal(args)
	if err != nil {
		r.t.Fatal(err)
	}
	split, bad, err := d.SplitArgs(text)
	if err != nil || bad != nil {
		r.t.Fatalf("%s %s: %v %v", action, text, bad, err)
	}
	out, err := r.h.Handle(context.Background(), capabilities.Invocation{Capability: c, Args: split.Canonical, Grants: d.Manifest.Keys()})
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(out.Result)
	if err != nil {
		r.t.Fatal(err)
	}
	if bad := d.ValidateResult(data); bad != nil {
		r.t.Errorf("%s: %v in %s", action, bad, data)
	}
	var result map[string]any
	if err := json.Unmarshal(data, &result); err != nil {
		r.t.Fatal(err)
	}
	return result, nil
}

func (r *rig) must(action string, args any) map[string]any {
	r.t.Helper()
	out, err := r.call(action, args)
	if err != nil {
		r.t.Fatalf("%s: %v", action, err)
	}
	return out
}

func (r *rig) refused(code capabilities.Code, action string, args any) {
	r.t.Helper()
	if out, err := r.call(action, args); capabilities.CodeOf(err) != code {
		r.t.Errorf("%s %v: %v %v, want %s", action, args, out, err, code)
	}
}

type m = map[string]any

func TestFilesAreReadAndWritten(t *testing.T) {
	r := open(t)
	r.file("a.txt", "one\ntwo\nthree\n")
	if got := r.must("read", m{"path": "a.txt", "offset": 1, "limit": 1}); got["content"] != "two\n" || got["truncated"] != false {
		t.Errorf("%v", got)
	}
	if got := r.must("read", m{"path": filepath.Join(r.dir, "a.txt")}); got["path"] != "a.txt" {
		t.Errorf("%v", got)
	}
	r.must("write", m{"path": "sub/b.txt", "content": "new"})
	r.has("sub/b.txt", "new")
	r.must("edit", m{"path": "a.txt", "old_string": "two", "new_string": "2"})
	r.has("a.txt", "one\n2\nthree\n")
	if info, err := os.Stat(filepath.Join(r.dir, "a.txt")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("an edit changed the mode to %v", info.Mode())
	}
	r.refused(capabilities.CodeInvalidArguments, "edit", m{"path": "a.txt", "old_string": "gone", "new_string": "x"})
	r.refused(capabilities.CodeInvalidArguments, "edit", m{"path": "a.txt", "old_string": "e", "new_string": "x"})
	r.must("edit", m{"path": "a.txt", "old_string": "e", "new_string": "E", "replace_all": true})
	r.has("a.txt", "onE\n2\nthrEE\n")
	if got := r.must("list", m{}); len(got["entries"].([]any)) != 2 {
		t.Errorf("%v", got)
	}
	r.file("bytes", "a\x00b")
	r.refused(capabilities.CodeInvalidArguments, "read", m{"path": "bytes"})
	r.refused(capabilities.CodeNotFound, "read", m{"path": "gone"})
}

// No name and no link leads out of the workspace, to read or to write.
func TestNothingLeadsOut(t *testing.T) {
	r := open(t)
	for name, to := range map[string]string{"link": filepath.Join(r.out, "secret"), "dir": r.out, "up": "../out/secret"} {
		if err := os.Symlink(to, filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"../out/secret", "link", "dir/secret", "up", filepath.Join(r.out, "secret"), "/etc/passwd", "sub/../../out/secret"} {
		r.refused(capabilities.CodeInvalidArguments, "read", m{"path": path})
		r.refused(capabilities.CodeInvalidArguments, "write", m{"path": path, "content": "x"})
		r.refused(capabilities.CodeInvalidArguments, "edit", m{"path": path, "old_string": "unseen", "new_string": "x"})
		r.refused(capabilities.CodeInvalidArguments, "apply-patch", m{"patch": "*** Begin Patch\n*** Update File: " + path + "\n-unseen\n+x\n*** End Patch"})
	}
	r.refused(capabilities.CodeInvalidArguments, "list", m{"path": "dir"})
	r.refused(capabilities.CodeInvalidArguments, "write", m{"path": "dir/new", "content": "x"})
	r.refused(capabilities.CodeInvalidArguments, "apply-patch", m{"patch": "*** Begin Patch\n*** Add File: dir/new\n+x\n*** End Patch"})
	if got := r.must("grep", m{"pattern": "unseen"}); len(got["matches"].([]any)) != 0 {
		t.Errorf("%v", got)
	}
	if entries, err := os.ReadDir(r.out); err != nil || len(entries) != 1 {
		t.Errorf("the folder beside has %v", entries)
	}
	if got, err := os.ReadFile(filepath.Join(r.out, "secret")); err != nil || string(got) != "unseen" {
		t.Errorf("%s %v", got, err)
	}
}

func TestFilesAreFound(t *testing.T) {
	r := open(t)
	for path, text := range map[string]string{"a.go": "package a // TODO", "b/c.go": "package b", "b/d.ts": "todo()", "node_modules/x.go": "TODO", "e.md": "x"} {
		r.file(path, text)
	}
	for glob, want := range map[string]string{"*.go": "a.go b/c.go", "**/*.go": "a.go b/c.go", "b/*": "b/c.go b/d.ts", "*.{go,md}": "a.go b/c.go e.md", "[a-b].go": "a.go", "b/**": "b/c.go b/d.ts"} {
		got := []string{}
		for _, one := range r.must("glob", m{"pattern": glob})["matches"].([]any) {
			got = append(got, one.(string))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s finds %v, want %s", glob, got, want)
		}
	}
	if got := r.must("grep", m{"pattern": "todo", "ignore_case": true, "include": "*.go"})["matches"].([]any); len(got) != 1 || got[0].(m)["line"] != 1.0 {
		t.Errorf("%v", got)
	}
	r.refused(capabilities.CodeInvalidArguments, "grep", m{"pattern": "(", "regex": true})
	r.refused(capabilities.CodeInvalidArguments, "glob", m{"pattern": "{a"})
}

// A patch changes all of its files or none.
func TestPatches(t *testing.T) {
	r := open(t)
	r.file("a.txt", "one\ntwo\nthree\nfour\n")
	r.file("b.txt", "gone")
	got := r.must("apply-patch", m{"patch": "*** Begin Patch\n*** Update File: a.txt\n@@ one\n two\n-three\n+3\n+3b\n four\n*** Add File: new/c.txt\n+hello\n*** Delete File: b.txt\n*** End Patch"})
	if len(got["applied"].([]any)) != 3 {
		t.Errorf("%v", got)
	}
	r.has("a.txt", "one\ntwo\n3\n3b\nfour\n")
	r.has("new/c.txt", "hello\n")
	if _, err := os.Stat(filepath.Join(r.dir, "b.txt")); !os.IsNotExist(err) {
		t.Error("b.txt is there")
	}
	r.refused(capabilities.CodeInvalidArguments, "apply-patch", m{"patch": "*** Begin Patch\n*** Add File: d.txt\n+x\n*** Update File: a.txt\n-nowhere\n+y\n*** End Patch"})
	if _, err := os.Stat(filepath.Join(r.dir, "d.txt")); !os.IsNotExist(err) {
		t.Error("a patch that does not fit changed something")
	}
	r.refused(capabilities.CodeConflict, "apply-patch", m{"patch": "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch"})
	r.must("apply-patch", m{"patch": "*** Begin Patch\n*** Update File: a.txt\n*** Move to: moved.txt\n-one\n+1\n*** End Patch"})
	r.has("moved.txt", "1\ntwo\n3\n3b\nfour\n")
	for _, bad := range []string{"", "*** Begin Patch", "*** Begin Patch\nx\n*** End Patch", "*** Begin Patch\n*** Update File: moved.txt\n*** End Patch", "*** Begin Patch\n*** Delete File: moved.txt\n+x\n*** End Patch"} {
		if bad != "" {
			r.refused(capabilities.CodeInvalidArguments, "apply-patch", m{"patch": bad})
		}
	}
}

// A command works in the workspace, and nowhere else.
func TestCommands(t *testing.T) {
	r := open(t)
	if _, err := r.h.opts.Start.Class(false); err != nil {
		t.Skip(err)
	}
	r.file("sub/a.txt", "one two")
	if got := r.must("bash", m{"command": "wc -w < a.txt; echo to stderr >&2; exit 3", "cwd": "sub"}); got["exit_code"] != 3.0 || got["output"] != "2\nto stderr\n" {
		t.Errorf("%v", got)
	}
	r.must("bash", m{"command": "mkdir -p made && echo x > made/y"})
	r.has("made/y", "x\n")
	// Behind namespaces files elsewhere are not there at all.
	const gone = "No such file or directory"
	for command, want := range map[string][]string{
		"cat " + filepath.Join(r.out, "secret"):   {"Permission denied", gone},
		"echo x > " + filepath.Join(r.out, "new"): {"Permission denied", gone},
		"exec 3<>/dev/tcp/127.0.0.1/1":            {"Permission denied"},
		"ls -la /root; cat /proc/1/environ":       {"ermission denied", gone},
		"kill -9 1":                               {"not permitted"},
		"unshare -U true":                         {"not permitted"},
	} {
		got := r.must("bash", m{"command": command})
		text, _ := got["output"].(string)
		if got["exit_code"] == 0.0 || !slices.ContainsFunc(want, func(w string) bool { return strings.Contains(text, w) }) {
			t.Errorf("%s: %v", command, got)
		}
	}
	if got := r.must("bash", m{"command": "sleep 60 & echo began; sleep 60", "timeout_ms": 3000}); got["exit_code"] != nil || got["timed_out"] != true || got["output"] != "began\n" {
		t.Errorf("%v", got)
	}
	if got := r.must("bash", m{"command": "yes | head -c 1000000; echo end"}); got["truncated"] != true || !strings.HasSuffix(got["output"].(string), "end\n") {
		t.Errorf("%v", got["truncated"])
	}
	r.refused(capabilities.CodeInvalidArguments, "bash", m{"command": "true", "cwd": ".."})
	r.refused(capabilities.CodeNotFound, "bash", m{"command": "true", "cwd": "gone"})
}

// A command reaches what both the owner and the call's envelope name. Each connection is told as
// one of the call's doings (S1-44), and each refusal with the flag that allows it.
func TestCommandsReachWhatWasNamed(t *testing.T) {
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("here I am")) }))
	t.Cleanup(served.Close)
	at := strings.TrimPrefix(served.URL, "http://")
	box := sandbox.New(procguard.New(procguard.Options{}))
	if _, err := box.Class(true); err != nil {
		t.Skip(err)
	}
	h, err := New(Options{Workspace: t.TempDir(), Hosts: []string{at, "other.example"}, Start: shell{box}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	for _, r := range h.Readiness(t.Context()) {
		if bash := r.Capability == "tyrum.fs.bash"; bash != (len(r.Hosts) == 2) || bash && r.Isolation != capabilities.ClassT2 {
			t.Errorf("%+v", r)
		}
	}
	run := func(command string, grants ...string) (capabilities.Output, map[string]any, []string) {
		t.Helper()
		var mu sync.Mutex
		var seen []string
		args, err := json.Marshal(m{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		out, err := h.Handle(t.Context(), capabilities.Invocation{Capability: "tyrum.fs.bash", Args: args, Grants: append([]string{capabilities.KeySpawn, capabilities.KeyWrite}, grants...), Observe: func(key, detail string) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, key+" "+detail)
		}})
		if err != nil {
			t.Fatal(err)
		}
		return out, out.Result.(map[string]any), seen
	}
	fetch := `exec 3<>/dev/tcp/` + strings.Replace(at, ":", "/", 1) + ` && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && cat <&3`
	all := []string{capabilities.KeyEgress, capabilities.NarrowDomains + at, capabilities.NarrowDomains + "other.example"}
	if _, got, seen := run(fetch, all...); !strings.Contains(got["output"].(string), "here I am") || !slices.Contains(seen, capabilities.KeyEgress+" "+at) {
		t.Errorf("%v %v", got, seen)
	}
	for name, grants := range map[string][]string{
		"no grant":       nil,
		"no key":         all[1:],
		"another's host": {all[0], all[2]},
		"never named":    {all[0], capabilities.NarrowDomains + "evil.example"},
	} {
		if _, got, seen := run(fetch, grants...); got["exit_code"] == 0 || strings.Contains(got["output"].(string), "here I am") || slices.ContainsFunc(seen, func(s string) bool { return strings.HasPrefix(s, "network.") }) {
			t.Errorf("%s: %v %v", name, got, seen)
		}
	}
	// A caller that is not told tries again, and is in quarantine the third time.
	out, got, _ := run("for i in 1 2 3; do exec 3<>/dev/tcp/127.0.0.1/9; done 2>/dev/null")
	if refused, _ := got["refused"].([]string); !slices.Equal(refused, []string{"an IPv4 socket: no network was granted"}) || out.Hint != noWay {
		t.Errorf("%v %q", got, out.Hint)
	}
	out, got, _ = run("exec 3<>/dev/tcp/127.0.0.1/9; exec 3<>/dev/tcp/127.0.0.2/7", all...)
	want := capabilities.Action{Key: capabilities.ActionNameHost, Name: "127.0.0.2:7"}
	if refused, _ := got["refused"].([]string); len(refused) != 2 || out.Action != want || !strings.Contains(out.Hint, "allow it with --workspace-net 127.0.0.2:7") {
		t.Errorf("%v %q %+v", got, out.Hint, out.Action)
	}
	for _, bad := range [][]string{{"https://example.com"}, {"Example.com"}, {"[::1]:80"}, {"*.com"}, {""}, make([]string, capabilities.MaxHosts+1)} {
		if _, err := New(Options{Workspace: t.TempDir(), Hosts: bad}); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := New(Options{Hosts: all[2:]}); err == nil {
		t.Error("hosts without a workspace")
	}
}

func TestWithoutAWorkspaceNothingIsReady(t *testing.T) {
	h, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	list := h.Readiness(context.Background())
	if len(list) != 8 {
		t.Errorf("%v", list)
	}
	for _, r := range list {
		if r.Reason != capabilities.ReasonOwnerDisabled || r.Fix == "" {
			t.Errorf("%+v", r)
		}
	}
	if _, err := h.Handle(context.Background(), capabilities.Invocation{Capability: "tyrum.fs.read", Args: json.RawMessage(`{"path":"/etc/passwd"}`)}); capabilities.CodeOf(err) != capabilities.CodeNodeNotReady {
		t.Errorf("%v", err)
	}
}

func FuzzPatch(f *testing.F) {
	f.Add("*** Begin Patch\n*** Update File: a\n@@ x\n-y\n+z\n*** End Patch", "x\ny\n")
	f.Add("*** Begin Patch\n*** Add File: a\n+y\n*** End Patch", "")
	f.Fuzz(func(t *testing.T, patch, text string) {
		list, err := parsePatch(patch)
		if err != nil {
			return
		}
		for _, c := range list {
			if got, err := apply("a", text, c.hunks); err != nil && got != "" {
				t.Fatal("a text beside an error")
			}
		}
	})
}

func FuzzPattern(f *testing.F) {
	f.Add("**/*.{go,ts}", "a/b.go")
	f.Add("[!a]?", "bc")
	f.Fuzz(func(t *testing.T, glob, name string) {
		if re, err := pattern(glob); err == nil {
			re.MatchString(name)
		}
	})
}

// S1-13: a key that policy withholds from a call is not there for its command either.
func TestWithheldKeysNarrowACommand(t *testing.T) {
	r := open(t)
	for memory, keys := range map[string][]string{
		"4194304": {capabilities.KeySpawn, capabilities.KeyWrite, capabilities.KeyMemory}, "524288": {capabilities.KeySpawn, capabilities.KeyWrite},
	} {
		out, err := r.h.Handle(t.Context(), capabilities.Invocation{
			Capability: "tyrum.fs.bash", Args: json.RawMessage(`{"command":"ulimit -d"}`), Grants: keys,
			Progress: func(capabilities.Progress) {}, Observe: func(string, string) {},
		})
		if result, _ := out.Result.(map[string]any); err != nil || result["output"] != memory+"\n" {
			t.Errorf("with %v: %v %v, want %s KiB", keys, out.Result, err, memory)
		}
	}
}
