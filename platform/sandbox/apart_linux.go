//go:build linux && (amd64 || arm64)

package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Namespaces are a wall behind the others, where the system has them. The guard starts the runner
// as the first process of its own. The runner's locked thread, which starts the program, parts
// with the network and with every file but those of the order. The runner's other threads stay
// where they were: the keeper makes connections, and so the program's sockets, in the machine's
// network.

// oldRoot is where the machine's files are until the program's are laid; noRoot is an empty folder.
const (
	oldRoot = "/.handrail-old"
	noRoot  = "/.handrail-none"
)

// part has this thread, which is locked, see no network and no files but the system's programs.
// It is the same for every program.
func part() error {
	if os.Getpid() != 1 {
		return errors.New("the runner is not the first process")
	}
	// Mounts that are made here stay here; /proc is of the processes that there are here.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("files and network: %w", err)
	}
	base := os.TempDir() // the scratch folder
	if err := unix.Mount("handrail", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return fmt.Errorf("a root: %w", err)
	}
	if err := errors.Join(os.Mkdir(base+oldRoot, 0o700), os.Mkdir(base+noRoot, 0o700)); err != nil {
		return err
	}
	if err := unix.PivotRoot(base, base+oldRoot); err != nil {
		return fmt.Errorf("a root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	for _, path := range append(slices.Clone(systemFolders), "/dev/null", "/proc") {
		if err := lay(path, path != "/proc" && !strings.HasPrefix(path, "/dev/")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for name, to := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(to, "/dev/"+name); err != nil {
			return err
		}
	}
	return nil
}

// furnish lays what the program may use beside the system's files, and takes away all else.
func furnish(o *order) error {
	type place struct {
		path  string
		write bool
	}
	var places []place
	for _, path := range append(programFiles(o.Path), o.Read...) {
		places = append(places, place{path, false})
	}
	for _, path := range o.Write {
		places = append(places, place{path, true})
	}
	// Outer folders first. A folder that lies in one that may be written is part of it: a second
	// mount there could not be moved.
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(len(filepath.Clean(a.path)), len(filepath.Clean(b.path))) })
	var written []string
	for _, p := range places {
		inside := func(folder string) bool {
			rel, err := filepath.Rel(folder, p.path)
			return err == nil && filepath.IsLocal(rel)
		}
		if slices.ContainsFunc(written, inside) {
			continue
		}
		if p.write {
			written = append(written, p.path)
		} else if slices.ContainsFunc(systemFolders, inside) {
			continue
		}
		if err := lay(p.path, !p.write); err != nil {
			return err
		}
	}
	if err := nameHosts(o.Names); err != nil {
		return err
	}
	// It may start in a folder of which it sees nothing.
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	// A folder that is mounted over cannot be reached. To take the machine's mounts away would wait,
	// in the kernel, until every processor has passed by.
	if err := unix.Mount(noRoot, oldRoot, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return restrict("/", unix.MOUNT_ATTR_RDONLY, 0)
}

// hostsFile is the system's list of hosts, ownHosts what is laid over it.
const (
	hostsFile = "/etc/hosts"
	ownHosts  = "/.handrail-hosts"
)

// nameHosts has the program find hosts where its door leads to them, before those of the machine's
// list. There is no name service.
func nameHosts(names map[string]netip.Addr) error {
	if len(names) == 0 {
		return nil
	}
	machines, err := os.ReadFile(hostsFile)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(hostsFile), 0o755); err == nil {
			err = os.WriteFile(hostsFile, nil, 0o644)
		}
	}
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, host := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&text, "%s %s\n", names[host], host)
	}
	text.Write(machines)
	if err := os.WriteFile(ownHosts, []byte(text.String()), 0o644); err != nil {
		return err
	}
	if err := unix.Mount(ownHosts, hostsFile, "", unix.MS_BIND, ""); err != nil {
		return &fs.PathError{Op: "mount", Path: hostsFile, Err: err}
	}
	return restrict(hostsFile, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_RDONLY, 0)
}

// lay shows a file or folder of the machine's where it has always been, with the links that lead
// there.
func lay(path string, only bool) error {
	path = filepath.Clean(path)
	done, rest := "/", strings.Split(strings.Trim(path, "/"), "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(done, rest[0])
		info, err := os.Lstat(oldRoot + next)
		if err != nil {
			return &fs.PathError{Op: "lay", Path: path, Err: errors.Unwrap(err)}
		}
		rest = rest[1:]
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(oldRoot + next)
			if err != nil {
				return err
			}
			if err := os.Symlink(to, next); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if links++; links > 40 {
				return &fs.PathError{Op: "lay", Path: path, Err: unix.ELOOP}
			}
			if !filepath.IsAbs(to) {
				to = filepath.Join(done, to)
			}
			rest = append(slices.DeleteFunc(strings.Split(to, "/"), func(s string) bool { return s == "" }), rest...)
			done = "/"
			continue
		case info.IsDir():
			err = os.Mkdir(next, 0o755)
		case len(rest) == 0:
			var f *os.File
			if f, err = os.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
				err = f.Close()
			}
		default:
			return &fs.PathError{Op: "lay", Path: path, Err: unix.ENOTDIR}
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		done = next
	}
	if err := unix.Mount(oldRoot+done, done, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return &fs.PathError{Op: "mount", Path: path, Err: err}
	}
	attributes := uint64(unix.MOUNT_ATTR_NOSUID)
	if only {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	return restrict(done, attributes, unix.AT_RECURSIVE)
}

// restrict adds attributes to a mount.
func restrict(path string, attributes uint64, how uint) error {
	if err := unix.MountSetattr(unix.AT_FDCWD, path, how, &unix.MountAttr{Attr_set: attributes}); err != nil {
		return &fs.PathError{Op: "restrict", Path: path, Err: err}
	}
	return nil
}

// addFD is struct seccomp_notif_addfd.
type addFD struct {
	id                          uint64
	flags, source, target, mode uint32
}

// socket makes a program's socket in the machine's network, in place of its own empty one: TCP of
// IPv4, which connects where the keeper connects it.
//
// The program gets the descriptor first and its answer after. The kernel could do both at once
// (SECCOMP_ADDFD_FLAG_SEND); but if a signal interrupts the runner between the two, it answers with
// descriptor 0, and adds none.
func (k *keeper) socket(n *notification, r *response) error {
	kind, protocol := int(n.args[1]), int(n.args[2])
	if n.args[0] != unix.AF_INET || kind&0xf != unix.SOCK_STREAM || protocol != 0 && protocol != unix.IPPROTO_TCP {
		return unix.EACCES
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|kind&unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	add := addFD{id: n.id, source: uint32(fd), mode: uint32(kind & unix.SOCK_CLOEXEC)}
	its, errno := control(k.listener, unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&add))
	if errno != 0 {
		return errno
	}
	r.value = int64(its)
	return nil
}
