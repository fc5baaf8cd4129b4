package memory

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// unmapOwnPages takes the pages of the program's own file out of this process's
// memory. The kernel keeps them for as long as it has room for them, and maps those
// that are touched again, with their neighbours, without reading anything. A start
// touches most of the program, once; what is mapped counts as this process's and is
// the last that the kernel takes when memory is short.
//
// Only mappings that can not be written and have no page of their own go: a debugger's
// breakpoints and a loader's relocations are such pages, and would be lost.
func unmapOwnPages() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	var m mapping
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if next, ok := parseMapping(lines.Text()); ok {
			m = next
			continue
		}
		if own, ok := strings.CutPrefix(lines.Text(), "Anonymous:"); ok && strings.TrimSpace(own) == "0 kB" && m.path == program && strings.HasPrefix(m.mode, "r-") {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED)
		}
	}
}

// mapping is one of a process's mappings, as proc_pid_maps(5) writes it.
type mapping struct {
	from, to uintptr
	mode     string // r-xp
	path     string // "" for what is of no file
}

// parseMapping reads the first line of a mapping in /proc/self/smaps; the lines that
// follow it are of another form.
func parseMapping(line string) (mapping, bool) {
	var m mapping
	var offset, device, inode string
	if n, _ := fmt.Sscanf(line, "%x-%x %s %s %s %s", &m.from, &m.to, &m.mode, &offset, &device, &inode); n != 6 {
		return mapping{}, false
	}
	if at := strings.IndexByte(line, '/'); at >= 0 {
		m.path = line[at:]
	}
	return m, true
}
