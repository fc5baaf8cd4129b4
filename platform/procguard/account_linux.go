package procguard

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// usedAccounts lists the IDs of the range that a user, a group or a process has.
// ok is false where this is not root's to know, or a container does not map the
// range.
func usedAccounts(first, last uint32) (used map[uint32]bool, ok bool) {
	if os.Geteuid() != 0 || !mapped("/proc/self/uid_map", first, last) || !mapped("/proc/self/gid_map", first, last) {
		return nil, false
	}
	used = map[uint32]bool{}
	note := func(text string) {
		if id, err := strconv.ParseUint(text, 10, 32); err == nil {
			used[uint32(id)] = true
		}
	}
	for _, file := range []string{"/etc/passwd", "/etc/group"} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // an image without users
		}
		for line := range strings.Lines(string(data)) {
			if fields := strings.Split(line, ":"); len(fields) > 2 {
				note(fields[2])
			}
		}
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false
	}
	for _, e := range entries {
		if e.Name()[0] < '1' || e.Name()[0] > '9' {
			continue
		}
		status, err := os.ReadFile("/proc/" + e.Name() + "/status")
		if err != nil {
			continue
		}
		for line := range bytes.Lines(status) {
			if ids, found := bytes.CutPrefix(line, []byte("Uid:")); found {
				for _, id := range bytes.Fields(ids) {
					note(string(id))
				}
				break
			}
		}
	}
	return used, true
}

// mapped reports whether one line of the map holds the whole range.
func mapped(file string, first, last uint32) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var inside, outside, count uint64
		if n, _ := fmt.Sscan(lines.Text(), &inside, &outside, &count); n == 3 && inside <= uint64(first) && uint64(last) < inside+count {
			return true
		}
	}
	return false
}
