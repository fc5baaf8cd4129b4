package chrome

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/handrail-dev/handrail/platform"
	"golang.org/x/sys/unix"
)

// localNamespaces tries what Chrome's sandbox needs: a new user namespace,
// created by the account Chrome will run under. Switches of the kernel are read
// first, because they explain the refusal better than an error number does.
func localNamespaces(user *platform.User, path string) (why, fix string) {
	if setuidHelper(path) {
		return "", "" // the older sandbox, which needs no user namespaces
	}
	read := func(name string) string {
		b, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	switch {
	case read("user/max_user_namespaces") == "0":
		return "User namespaces are switched off on this host (user.max_user_namespaces is 0).",
			"Run: sysctl -w user.max_user_namespaces=16384"
	case read("kernel/unprivileged_userns_clone") == "0":
		return "User namespaces are switched off for ordinary accounts (kernel.unprivileged_userns_clone is 0).",
			"Run: sysctl -w kernel.unprivileged_userns_clone=1"
	case read("kernel/apparmor_restrict_unprivileged_userns") == "1" && !apparmorAllows(path):
		return "AppArmor keeps ordinary programs from using user namespaces here (Ubuntu 24.04 and later).",
			"Install Google Chrome's .deb, which brings its AppArmor profile, or run: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	}
	if err := tryUserNamespace(user); err != nil {
		return "This host does not allow user namespaces (" + err.Error() + "), as in a default Docker container.",
			"Run the container with --security-opt seccomp=unconfined or a profile that allows them."
	}
	return "", ""
}

// localAccount looks the account up in the map of our own user namespace.
func localAccount(user platform.User) bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return true // a kernel without user namespaces has every account
	}
	for line := range strings.Lines(string(b)) {
		var inside, outside, count uint64
		if n, _ := fmt.Sscan(line, &inside, &outside, &count); n == 3 && uint64(user.UID) >= inside && uint64(user.UID) < inside+count {
			return true
		}
	}
	return false
}

// setuidHelper reports whether Chrome's setuid sandbox helper is installed
// beside it and could work: it needs a root that may create namespaces.
func setuidHelper(path string) bool {
	info, err := os.Stat(filepath.Join(filepath.Dir(path), "chrome-sandbox"))
	if err != nil || info.Mode()&os.ModeSetuid == 0 {
		return false
	}
	set, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_ADMIN, 0, 0, 0)
	return err == nil && set == 1
}

// apparmorAllows reports whether a loaded-by-default profile names the program
// and lets it use user namespaces.
func apparmorAllows(path string) bool {
	profiles, _ := filepath.Glob("/etc/apparmor.d/*")
	for _, p := range profiles {
		b, err := os.ReadFile(p)
		if err == nil && strings.Contains(string(b), path) && strings.Contains(string(b), "userns") {
			return true
		}
	}
	return false
}

// tryUserNamespace creates a user namespace as user and lets it go again. Only
// a raw clone can do that: unshare refuses in a program with threads, and
// os/exec creates the namespace before it changes the account. The thread takes
// on the account for good and is thrown away.
func tryUserNamespace(user *platform.User) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if user != nil {
			if _, _, e := syscall.RawSyscall(unix.SYS_SETRESGID, uintptr(user.GID), uintptr(user.GID), uintptr(user.GID)); e != 0 {
				result <- e
				return
			}
			if _, _, e := syscall.RawSyscall(unix.SYS_SETRESUID, uintptr(user.UID), uintptr(user.UID), uintptr(user.UID)); e != 0 {
				result <- e
				return
			}
		}
		pid, _, e := syscall.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_NEWPID|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if e == 0 && pid == 0 {
			// The copy: nothing but leaving is safe here.
			for {
				syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
		}
		if e != 0 {
			result <- e
			return
		}
		syscall.Wait4(int(pid), nil, 0, nil)
		result <- nil
	}()
	return <-result
}

func smallShm() bool {
	var st unix.Statfs_t
	if unix.Statfs("/dev/shm", &st) != nil {
		return true
	}
	return st.Blocks*uint64(st.Bsize) < 256<<20
}
