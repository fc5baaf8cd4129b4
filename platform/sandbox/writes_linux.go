//go:build linux && (amd64 || arm64)

package sandbox

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Landlock refuses what a program would write outside its folders, and tells nobody. So the calls
// that write wait for the keeper, who looks at their names and always has the kernel go on: what it
// makes of a name decides nothing, and a program that changes the name meanwhile only goes unseen.

// change is where a call says what it would change.
type change struct {
	names []name
	// content says that it changes what a link leads to, and no folder.
	content bool
	flags   int  // the place of its open flags; 0: it has none
	far     bool // they are the first field of what the argument points to
}

// name is one of those names: the places of its folder (-1: where the program is) and of its path
// among the arguments, and whether something may be there already, or has to be.
type name struct {
	folder, path int
	there        presence
}

type presence int

const (
	either presence = iota
	before          // else the call fails by itself
	never           // else the call fails by itself
)

// writing are the calls that change files by name, on every system.
var writing = map[int32]change{
	unix.SYS_OPENAT:    {names: []name{{0, 1, before}}, content: true, flags: 2},
	unix.SYS_OPENAT2:   {names: []name{{0, 1, before}}, content: true, flags: 2, far: true},
	unix.SYS_TRUNCATE:  {names: []name{{-1, 0, before}}, content: true},
	unix.SYS_MKDIRAT:   {names: []name{{0, 1, never}}},
	unix.SYS_MKNODAT:   {names: []name{{0, 1, never}}},
	unix.SYS_SYMLINKAT: {names: []name{{1, 2, never}}},
	unix.SYS_LINKAT:    {names: []name{{2, 3, never}}},
	unix.SYS_UNLINKAT:  {names: []name{{0, 1, before}}},
	unix.SYS_RENAMEAT:  {names: []name{{0, 1, before}, {2, 3, either}}},
	unix.SYS_RENAMEAT2: {names: []name{{0, 1, before}, {2, 3, either}}},
}

// writes are the flags of an open that changes files.
const writes = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC

// looks tells of what a call of the program would write outside its folders, and of the folder in
// which it writes.
func (k *keeper) looks(n *notification, c *change, to teller) {
	flags, ok := k.flags(n, c)
	if !ok {
		return
	}
	for _, one := range c.names {
		if c.flags > 0 && flags&unix.O_CREAT != 0 {
			if one.there = either; flags&unix.O_EXCL != 0 {
				one.there = never
			}
		}
		path, err := k.named(n, one)
		if err != nil {
			return
		}
		real, ok := leadsTo(path, c.content && flags&unix.O_NOFOLLOW == 0, one.there)
		if !ok {
			return
		}
		place := real
		if !c.content { // it is the folder that changes
			place = filepath.Dir(real)
		}
		folder := k.mayWrite(place)
		switch {
		case folder != nil && folder.told != nil && !(folder.told.once && folder.told.done.Swap(true)):
			_ = to.changes(folder.told.folder)
		case folder == nil && k.asks(n) == nil:
			_ = to.wrote(real)
			return
		}
	}
}

// flags are those of an open; false: it changes nothing, or they cannot be read.
func (k *keeper) flags(n *notification, c *change) (flags uint64, ok bool) {
	if c.flags == 0 {
		return 0, true
	}
	flags = n.args[c.flags]
	if c.far {
		var how [8]byte
		got, err := unix.ProcessVMReadv(int(n.pid), []unix.Iovec{{Base: &how[0], Len: uint64(len(how))}},
			[]unix.RemoteIovec{{Base: uintptr(flags), Len: len(how)}}, 0)
		if err != nil || got != len(how) {
			return 0, false
		}
		flags = binary.NativeEndian.Uint64(how[:])
	}
	return flags, flags&writes != 0 && flags&unix.O_PATH == 0
}

// named reads a name of a call.
func (k *keeper) named(n *notification, one name) (string, error) {
	text, err := textAt(int(n.pid), uintptr(n.args[one.path]))
	if err != nil {
		return "", err
	}
	process := "/proc/" + strconv.Itoa(int(n.pid)) + "/"
	if rest, ok := strings.CutPrefix(text, "/proc/self/"); ok {
		return process + rest, nil
	}
	if filepath.IsAbs(text) {
		return text, nil
	}
	base := "cwd"
	if one.folder >= 0 && int32(n.args[one.folder]) != unix.AT_FDCWD {
		base = "fd/" + strconv.Itoa(int(int32(n.args[one.folder])))
	}
	at, err := os.Readlink(process + base)
	if err != nil {
		return "", err
	}
	return at + "/" + text, nil
}

// maxLinks bounds the links that are followed to a file that is not there yet.
const maxLinks = 8

// leadsTo returns where a name leads that a program would write to. False: the call fails by
// itself, or nobody's data is there.
func leadsTo(path string, follow bool, there presence) (string, bool) {
	real, err := resolved(path, follow)
	switch {
	case err == nil:
		return real, there != never && filepath.IsAbs(real)
	case there == before || !errors.Is(err, unix.ENOENT):
		return "", false
	}
	for range maxLinks {
		path = strings.TrimRight(path, "/")
		last := strings.LastIndexByte(path, '/') + 1
		folder, err := resolved(path[:last], true)
		if err != nil || !filepath.IsAbs(folder) {
			return "", false
		}
		link, err := os.Readlink(filepath.Join(folder, path[last:]))
		switch {
		case !follow || err != nil:
			return filepath.Join(folder, path[last:]), true
		case !filepath.IsAbs(link):
			link = folder + "/" + link
		}
		path = link
	}
	return "", false
}

// errNoData is what no program's data is in: terminals and other devices, shared memory, what the
// kernel says of itself.
var errNoData = errors.New("no file")

// resolved is the real path of what is there.
func resolved(path string, follow bool) (string, error) {
	how := unix.O_PATH | unix.O_CLOEXEC
	if !follow {
		how |= unix.O_NOFOLLOW
	}
	fd, err := unix.Open(path, how, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &fs)); err != nil {
		return "", err
	}
	switch int64(fs.Type) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEVPTS_SUPER_MAGIC:
		return "", errNoData
	}
	if st.Mode&unix.S_IFMT == unix.S_IFCHR {
		return "", errNoData
	}
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if strings.HasPrefix(real+"/", "/dev/shm/") {
		return "", errNoData
	}
	return real, err
}

// mayWrite returns the folder in which a real path lies, of those that the program may write; nil:
// in none.
func (k *keeper) mayWrite(path string) *writable {
	for i := range k.folders {
		if rel, err := filepath.Rel(k.folders[i].path, path); err == nil && filepath.IsLocal(rel) {
			return &k.folders[i]
		}
	}
	return nil
}
