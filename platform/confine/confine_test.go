//go:build linux

package confine

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The test's process is confined for good, so it is another one.
func TestMain(m *testing.M) {
	switch os.Getenv("CONFINE_TEST") {
	case "":
		os.Exit(m.Run())
	case "memory":
		if err := Self(64 << 20); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		var kept [][]byte
		for range 4096 {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			kept = append(kept, b)
		}
		fmt.Println("took", len(kept), "MiB")
		os.Exit(0)
	case "reach":
		reach(os.Getenv("CONFINE_AT"))
	}
	if err := Self(64 << 20); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_, file := os.Open("/etc/hostname")
	_, create := os.Create("/tmp/confine-test")
	_, dial := net.Dial("tcp", "127.0.0.1:1")
	run := exec.Command("/bin/true").Run()
	for _, err := range []error{file, create, dial, run} {
		fmt.Println(err)
	}
	os.Exit(0)
}

func child(t *testing.T, mode string) (string, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"CONFINE_TEST=" + mode}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestNothingCanBeOpened(t *testing.T) {
	out, err := child(t, "open")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err != nil || len(lines) != 4 {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, what := range []string{"a file", "a new file", "a connection", "a program"} {
		if lines[i] == "<nil>" {
			t.Errorf("%s could be used", what)
		}
	}
	for _, i := range []int{0, 1, 2} {
		if !strings.Contains(lines[i], "too many open files") && !strings.Contains(lines[i], "operation not permitted") {
			t.Errorf("refused for another reason: %s", lines[i])
		}
	}
}

// reach tries what needs no descriptor, below a folder and at the parent.
func reach(at string) {
	if err := Self(64 << 20); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	parent, file := os.Getppid(), at+"/kept"
	ptr := func(s string) uintptr { p, _ := unix.BytePtrFromString(s); return uintptr(unsafe.Pointer(p)) }
	var word [8]byte
	local, remote := unix.Iovec{Base: &word[0], Len: 8}, unix.RemoteIovec{Base: uintptr(unsafe.Pointer(&word[0])), Len: 8}
	_, read := unix.ProcessVMReadv(parent, []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0)
	child, _, _ := unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
	if child == 0 {
		unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
	var forked error = unix.EPERM
	if int(child) > 0 {
		forked = nil
	}
	_, _, traced := unix.Syscall(unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(parent), 0)
	_, _, keys := unix.Syscall(unix.SYS_KEYCTL, 0, uintptr(0xfffffffd), 0)
	_, _, exec := unix.Syscall6(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE, ^uintptr(0), 0)
	_, _, run := unix.Syscall(unix.SYS_EXECVE, ptr("/bin/nothing"), 0, 0)
	for what, err := range map[string]error{
		"remove a file": os.Remove(file), "rename": os.Rename(file, at+"/moved"), "make a folder": os.Mkdir(at+"/made", 0o700),
		"cut a file": unix.Truncate(file, 0), "change who may": unix.Chmod(file, 0), "link": unix.Symlink(file, at+"/link"),
		"signal the parent": unix.Kill(parent, unix.SIGCONT), "signal all of the account's": unix.Kill(-1, 0), "read the parent's memory": read, "trace the parent": none(traced),
		"start a process": forked, "namespaces": unix.Unshare(unix.CLONE_NEWUSER), "keys": none(keys), "limits of another": unix.Prlimit(parent, unix.RLIMIT_CORE, nil, &unix.Rlimit{}),
		"code of its own": none(exec), "another program": none(run), "a new root": unix.Chroot(at), "another folder": unix.Chdir(at),
	} {
		if err != unix.EPERM && !strings.Contains(fmt.Sprint(err), "operation not permitted") {
			fmt.Println(what, "ends with", err)
		}
	}
	fmt.Println("tried")
	os.Exit(0)
}

func none(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

// Nor can it do what needs no descriptor: change files, reach other processes, start some.
func TestNothingElseCanBeReached(t *testing.T) {
	at := t.TempDir()
	if err := os.WriteFile(at+"/kept", []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"CONFINE_TEST=reach", "CONFINE_AT=" + at}
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "tried\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if data, err := os.ReadFile(at + "/kept"); err != nil || string(data) != "kept" {
		t.Errorf("the file: %q, %v", data, err)
	}
	if list, err := os.ReadDir(at); err != nil || len(list) != 1 {
		t.Errorf("in the folder: %v, %v", list, err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	out, err := child(t, "memory")
	// Code that asks the system in vain says so in its own words: the allocator, or
	// the race detector's.
	for _, refusal := range []string{"out of memory", "cannot allocate memory", "address space", "failed to allocate"} {
		if err != nil && strings.Contains(out, refusal) {
			return
		}
	}
	t.Fatalf("%v\n%.500s", err, out)
}
