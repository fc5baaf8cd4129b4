package sandbox

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform/procguard"
)

// Both kinds of cgroups are found where they are mounted, seen from the mount's own root.
func TestCgroupsAreFound(t *testing.T) {
	const mounts = `30 23 0:26 / /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate
31 23 0:27 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 23 0:29 / /proc rw - proc proc rw
broken
`
	const own = "4:memory:/docker/x/y\n2:cpu,cpuacct:/a\n0::/user.slice/s\n"
	list := mountsOf(mounts)
	if len(list) != 3 {
		t.Fatalf("%+v", list)
	}
	for i, c := range []struct{ controller, path, dir string }{
		{"", "/user.slice/s", "/sys/fs/cgroup/unified/user.slice/s"},
		{"memory", "/docker/x/y", "/sys/fs/cgroup/memory/y"},
		{"cpu", "/a", "/sys/fs/cgroup/cpu,cpuacct/a"},
	} {
		path, ok := ownGroup(own, c.controller)
		dir, in := list[i].folder(path)
		if !ok || !in || path != c.path || dir != c.dir {
			t.Errorf("%q: %s, %s", c.controller, path, dir)
		}
	}
	if _, ok := ownGroup(own, "pids"); ok {
		t.Error("pids")
	}
	if dir, ok := list[1].folder("/elsewhere"); ok {
		t.Errorf("a cgroup that the mount does not show is at %s", dir)
	}
}

// needGroups skips where there are none.
func needGroups(t *testing.T) []hierarchy {
	t.Helper()
	list, err := trees()
	if err != nil {
		t.Skip("no cgroup can be made here: ", err)
	}
	return list
}

// A program is in a cgroup with the limits of its class, says so, and the cgroup is gone behind it.
func TestProgramsAreBoundTogether(t *testing.T) {
	list := needGroups(t)
	box := New(procguard.New(procguard.Options{}))
	for _, c := range []struct {
		class  capabilities.IsolationClass
		limits Limits
		want   map[string]string
	}{
		{capabilities.ClassT0, Limits{}, map[string]string{"pids.max": "64", "memory.max": "201326592", "memory.limit_in_bytes": "201326592", "cpu.max": "100000 100000", "cpu.cfs_quota_us": "100000"}},
		{capabilities.ClassT1, Limits{Memory: 1 << 30, Processes: 10, Processors: 2}, map[string]string{
			"pids.max": "136", "memory.max": "1140850688", "memory.limit_in_bytes": "1140850688", "cpu.max": "200000 100000", "cpu.cfs_quota_us": "200000",
		}},
	} {
		p, err := box.Start(t.Context(), Program{Argv: []string{"cat"}, Class: c.class, Limits: c.limits})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Stdin().Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Stdout().Read(make([]byte, 1)); err != nil { // it runs
			t.Fatal(err)
		}
		if !slices.Contains(p.Walls(), WallGroup) {
			t.Errorf("%s: %v", c.class, p.Walls())
		}
		g := groupOf(p.child)
		for _, h := range g.parts {
			for _, name := range []string{"pids.max", "memory.max", "memory.limit_in_bytes", "cpu.max", "cpu.cfs_quota_us"} {
				text, err := os.ReadFile(filepath.Join(h.dir, name))
				if err == nil && strings.TrimSpace(string(text)) != c.want[name] {
					t.Errorf("%s: %s is %s, want %s", c.class, name, text, c.want[name])
				}
			}
			pids := wordsOf(filepath.Join(h.dir, "cgroup.procs"))
			if !slices.Contains(pids, strconv.Itoa(p.child.PID())) || len(pids) < 2 {
				t.Errorf("%s: %v are in it, and the runner is %d", c.class, pids, p.child.PID())
			}
		}
		_ = p.Stdin().Close()
		if code, err := p.Wait(); code != 0 || err != nil {
			t.Error(code, err)
		}
		g.remove()
		for _, h := range g.parts {
			if _, err := os.Stat(h.dir); !os.IsNotExist(err) {
				t.Errorf("%s is still there: %v", h.dir, err)
			}
		}
	}
	if len(list) == 0 {
		t.Error("none")
	}
}

// A cgroup of version 2 takes a process and what it starts, ends all of them at once, and is gone.
// Such a hierarchy may be mounted where memory and processes are counted by version 1.
func TestAGroupOfVersion2EndsWhatIsInIt(t *testing.T) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Skip(err)
	}
	at := slices.IndexFunc(mountsOf(string(mounts)), func(m mount) bool { return m.kind == "cgroup2" })
	if at < 0 {
		t.Skip("no cgroup of version 2 is mounted")
	}
	h := hierarchy{dir: filepath.Join(mountsOf(string(mounts))[at].at, groupName()), version: 2}
	if err := os.Mkdir(h.dir, 0o755); err != nil {
		t.Skip(err)
	}
	g := &group{parts: []hierarchy{h}}
	t.Cleanup(g.remove)
	program := exec.Command("sh", "-c", "read go; sleep 1000 & echo on; sleep 1000")
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err == nil {
		err = program.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := h.write("cgroup.procs", strconv.Itoa(program.Process.Pid)); err != nil {
		_ = program.Process.Kill()
		_ = program.Wait()
		t.Skip("no process can be put into it: ", err)
	}
	_, _ = in.Write([]byte("go\n"))
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if in := wordsOf(filepath.Join(h.dir, "cgroup.procs")); len(in) < 2 {
		t.Errorf("%v are in it", in)
	}
	g.remove()
	if err := program.Wait(); err == nil || program.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", err)
	}
	if _, err := os.Stat(h.dir); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// Memory that each process may have, and not all together, ends a program.
func TestMemoryTogether(t *testing.T) {
	needGroups(t)
	t.Setenv("PATH", "/usr/local/bin:/usr/bin:/bin") // a person's own programs are elsewhere
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	const script = `import os,sys
r,w=os.pipe()
pids=[]
for i in range(8):
    pids.append(os.fork())
    if pids[-1]==0:
        b=bytearray(16<<20)
        for j in range(0,len(b),4096): b[j]=1
        os.write(w,b"x"); os.close(w)
        sys.stdin.read(); os._exit(0)
os.close(w)
while os.read(r,1): pass
print(sum(os.waitpid(p,os.WNOHANG)[0]==0 for p in pids))
`
	for name, box := range map[string]*Sandbox{"together": New(procguard.New(procguard.Options{})), "each": New(procguard.New(procguard.Options{})).WithoutGroups()} {
		p, err := box.Start(t.Context(), Program{Argv: []string{"python3", "-c", script}, Limits: Limits{Memory: 40 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		said := make([]byte, 16)
		n, _ := p.Stdout().Read(said)
		p.Kill()
		if got := strings.TrimSpace(string(said[:n])); (got == "8") != (name == "each") {
			t.Errorf("%s: %q of 8 have their memory: %s", name, got, p.Stderr())
		}
	}
}

// Groups that a process left which is gone are taken away, and no others.
func TestGroupsAreSwept(t *testing.T) {
	for _, h := range needGroups(t) {
		gone, here := filepath.Join(h.dir, groupPrefix+"4194305-1"), filepath.Join(h.dir, groupPrefix+strconv.Itoa(os.Getpid())+"-0")
		for _, dir := range []string{gone, here} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		h.sweep()
		if _, err := os.Stat(gone); !os.IsNotExist(err) {
			t.Error("it was left", err)
		}
		if err := os.Remove(here); err != nil {
			t.Error(err)
		}
	}
}
