package fs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// A link that lies where a write may put its text first leads no other file to be written.
func TestNothingLiesInAWritesWay(t *testing.T) {
	r := open(t)
	r.file(".git/hooks/pre-commit", "orig")
	r.ok(os.Symlink(".git/hooks/pre-commit", filepath.Join(r.dir, "a.txt.handrail-new")))
	r.must("write", m{"path": "a.txt", "content": "new"})
	r.has("a.txt", "new")
	r.has(".git/hooks/pre-commit", "orig")
	if left, err := filepath.Glob(filepath.Join(r.dir, ".handrail-*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	long := strings.Repeat("n", 255)
	r.must("write", m{"path": long, "content": "x"})
	r.has(long, "x")
}

// A file passes its mode on to what is written in its place, whatever new files get.
func TestAFileKeepsItsMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	r := open(t)
	for name, mode := range map[string]os.FileMode{"key": 0o600, "run.sh": 0o755, "shared": 0o664} {
		r.file(name, "old")
		r.ok(os.Chmod(filepath.Join(r.dir, name), mode))
		for _, change := range []func(){
			func() { r.must("write", m{"path": name, "content": "one"}) },
			func() { r.must("edit", m{"path": name, "old_string": "one", "new_string": "two"}) },
			func() {
				r.must("apply-patch", m{"patch": "*** Begin Patch\n*** Update File: " + name + "\n-two\n+three\n*** End Patch"})
			},
		} {
			change()
			if info, err := os.Stat(filepath.Join(r.dir, name)); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s has the mode %v, had %v", name, info.Mode(), mode)
			}
		}
		r.has(name, "three")
	}
}

// A pipe that nobody serves holds no call up, neither its own nor another's.
func TestAPipeHoldsNobodyUp(t *testing.T) {
	r := open(t)
	r.ok(syscall.Mkfifo(filepath.Join(r.dir, "pipe"), 0o600))
	r.ok(os.Symlink("pipe", filepath.Join(r.dir, "link")))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, name := range []string{"pipe", "link"} {
			r.refused(capabilities.CodeInvalidArguments, "read", m{"path": name})
			r.refused(capabilities.CodeInvalidArguments, "list", m{"path": name})
			r.refused(capabilities.CodeInvalidArguments, "edit", m{"path": name, "old_string": "a", "new_string": "b"})
			r.refused(capabilities.CodeInvalidArguments, "write", m{"path": name, "content": "x"})
			r.refused(capabilities.CodeInvalidArguments, "apply-patch", m{"patch": "*** Begin Patch\n*** Update File: " + name + "\n-a\n+b\n*** End Patch"})
		}
		if _, err := r.call("write", m{"path": "z", "content": "x"}); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("a call waits for a pipe")
	}
}

// private has the owner's file refuse one folder of the workspace.
func (r *rig) private() {
	real, err := filepath.EvalSymlinks(r.dir)
	r.ok(err)
	private := filepath.Join(real, "private")
	r.ok(os.Mkdir(private, 0o700))
	r.h.opts.Check = func(path string) *capabilities.Error {
		if path == private || strings.HasPrefix(path, private+"/") {
			return &capabilities.Error{Code: capabilities.CodeDeniedByNode}
		}
		return nil
	}
}

// The owner's word holds for a file that is not there yet, behind whatever link it would be made.
func TestTheOwnersWordHoldsForNewFiles(t *testing.T) {
	r := open(t)
	r.private()
	r.ok(os.Symlink("private", filepath.Join(r.dir, "link")))
	r.ok(os.Symlink("private/later", filepath.Join(r.dir, "dangling")))
	for _, path := range []string{"link/new", "link/deep/new", "private/new", "dangling", "dangling/new"} {
		r.refused(capabilities.CodeDeniedByNode, "write", m{"path": path, "content": "x"})
		r.refused(capabilities.CodeDeniedByNode, "apply-patch", m{"patch": "*** Begin Patch\n*** Add File: " + path + "\n+x\n*** End Patch"})
	}
	if made, err := os.ReadDir(filepath.Join(r.dir, "private")); err != nil || len(made) > 0 {
		t.Errorf("there is %v %v", made, err)
	}
	r.must("write", m{"path": "new/fine", "content": "x"})
}

// No rule about a part of the workspace can be held against a command, so none runs beside one.
func TestNoCommandBesideARuleOfTheOwners(t *testing.T) {
	r := open(t)
	if _, err := r.h.opts.Start.Class(false); err != nil {
		t.Skip(err)
	}
	reason := func() (capabilities.Reason, string) {
		for _, one := range r.h.Readiness(context.Background()) {
			if one.Capability == "tyrum.fs.bash" {
				return one.Reason, one.Fix
			}
		}
		return "absent", ""
	}
	if reason, _ := reason(); reason != "" {
		t.Fatalf("it is %q without a rule", reason)
	}
	real, err := filepath.EvalSymlinks(r.dir)
	r.ok(err)
	r.h.opts.Whole = func(folder string) *capabilities.Error {
		if folder != real {
			t.Errorf("asked about %s", folder)
		}
		return (&capabilities.Error{Code: capabilities.CodeDeniedByNode}).WithHint("as the owner says")
	}
	if reason, fix := reason(); reason != capabilities.ReasonOwnerDisabled || fix != "as the owner says" {
		t.Errorf("it is %q: %s", reason, fix)
	}
	r.refused(capabilities.CodeDeniedByNode, "bash", m{"command": "true"})
	r.must("write", m{"path": "a", "content": "x"})
}
