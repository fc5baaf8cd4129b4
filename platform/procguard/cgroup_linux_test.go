package procguard

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A child begins in the cgroups of its order, of each version that this machine lets it, and its
// guard is in none of them once it has started.
func TestAChildBeginsInItsCgroups(t *testing.T) {
	name := "handrail-test-" + strconv.Itoa(os.Getpid())
	var folders []string
	for _, at := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		var fs unix.Statfs_t
		if unix.Statfs(at, &fs) != nil || fs.Type != unix.CGROUP_SUPER_MAGIC && fs.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		dir := filepath.Join(at, name)
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = unix.Rmdir(dir) })
		folders = append(folders, dir)
	}
	if len(folders) == 0 {
		t.Skip("no cgroup can be made here")
	}
	c := command(t.TempDir())
	c.Cgroups = folders
	p, err := New(Options{}).Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	in := func(threads string) (all []string) {
		list, _ := filepath.Glob(threads)
		for _, file := range list {
			text, _ := os.ReadFile(file) // a thread may have ended
			for line := range strings.Lines(string(text)) {
				if strings.HasSuffix(strings.TrimSpace(line), "/"+name) {
					all = append(all, strings.TrimSpace(line))
				}
			}
		}
		return all
	}
	if is := in(fmt.Sprintf("/proc/%d/cgroup", p.PID())); len(is) != len(folders) {
		t.Errorf("the child is in %q, and was to begin in %q", is, folders)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	guard := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[1]
	if is := in("/proc/" + guard + "/task/*/cgroup"); len(is) > 0 {
		t.Errorf("its guard is in %q", is)
	}
}
