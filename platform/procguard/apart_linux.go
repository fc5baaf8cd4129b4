package procguard

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// apart has a child begin in namespaces of its own. Accounts have the same numbers there as here:
// root all that this process knows, others their own, with the one privilege that mounts take.
func apart(attr *syscall.SysProcAttr) error {
	attr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if uid := os.Geteuid(); uid != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
		return nil
	}
	var err error
	if attr.UidMappings, err = sameNumbers("/proc/self/uid_map"); err == nil {
		attr.GidMappings, err = sameNumbers("/proc/self/gid_map")
	}
	attr.GidMappingsEnableSetgroups = true
	return err
}

// sameNumbers maps each number of a map's file to itself.
func sameNumbers(file string) ([]syscall.SysProcIDMap, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []syscall.SysProcIDMap
	for line := range strings.Lines(string(text)) {
		var inside, outside, count int
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: count})
	}
	return all, nil
}
