//go:build linux && (amd64 || arm64)

package sandbox

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A program does not see, or is refused, the files that it may not read, and nobody is told. For
// somebody who wants to know what it lacks, each look at a file by name waits for the keeper, too,
// who tells of names outside the program's folders and always has the kernel go on.

// reading are the calls that look at files by name, on every system.
var reading = map[int32]name{
	unix.SYS_OPENAT: {0, 1, before}, unix.SYS_OPENAT2: {0, 1, before}, unix.SYS_STATX: {0, 1, before},
	unix.SYS_FACCESSAT: {0, 1, before}, unix.SYS_FACCESSAT2: {0, 1, before},
}

// maxReads bounds the paths that are told of, and what is kept of them.
const maxReads = 256

// reads are the looks of one program.
type reads struct {
	folders []string // that it may read, and what it is known to find nothing in

	mu   sync.Mutex
	told map[string]bool
}

func newReads(o *order) *reads {
	r := &reads{told: map[string]bool{}, folders: append(slices.Clone(systemFolders), "/proc", "/sys", "/dev", o.Dir)}
	for _, path := range slices.Concat(programFiles(o.Path), o.Read, o.Write) {
		r.folders = append(r.folders, filepath.Clean(path))
	}
	return r
}

// look tells once of each path that a call of the program wants to read and may not. False: it is
// no such call.
func (r *reads) look(k *keeper, n *notification, wants func(path string) error) bool {
	one, ok := reading[n.nr]
	if !ok {
		if one, ok = olderReading[n.nr]; !ok {
			return false
		}
	}
	if n.nr == unix.SYS_OPENAT && n.args[2]&unix.O_ACCMODE == unix.O_WRONLY {
		return true // that is told of as a change
	}
	path, err := k.named(n, one)
	if err != nil {
		return true
	}
	path = filepath.Clean(path)
	if !filepath.IsAbs(path) || slices.ContainsFunc(r.folders, func(folder string) bool {
		// A program goes through the folders above its own.
		return path == "/" || strings.HasPrefix(path+"/", folder+"/") || strings.HasPrefix(folder, path+"/")
	}) {
		return true
	}
	r.mu.Lock()
	known := r.told[path] || len(r.told) == maxReads
	if !known {
		r.told[path] = true
	}
	r.mu.Unlock()
	if !known {
		_ = wants(path)
	}
	return true
}
