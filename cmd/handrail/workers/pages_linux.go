package workers

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// givePagesBack unmaps the pages of the program's file. Its start touches half of them, through the
// initialisation of packages that a worker has no use for, and they stay resident for as long as it
// waits. The few that it does use come back from the page cache when they are touched, without a
// read of the disk.
func givePagesBack() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	var from, to uint64 // of a mapping of the file that nobody can write to; 0: of another
	for lines := bufio.NewScanner(f); lines.Scan(); {
		head, rest, _ := strings.Cut(lines.Text(), " ")
		if !strings.HasSuffix(head, ":") {
			from, to = 0, 0
			first, last, _ := strings.Cut(head, "-")
			if (strings.HasPrefix(rest, "r-xp ") || strings.HasPrefix(rest, "r--p ")) && strings.HasSuffix(rest, " "+self) {
				from, _ = strconv.ParseUint(first, 16, 64)
				to, _ = strconv.ParseUint(last, 16, 64)
			}
			continue
		}
		// A page that was written to before it was protected would be lost: such a mapping stays.
		if head == "Anonymous:" && from < to && strings.TrimSpace(rest) == "0 kB" {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_DONTNEED)
		}
	}
}
