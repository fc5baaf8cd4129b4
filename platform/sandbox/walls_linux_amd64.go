package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// olderOwning are calls that only this system has besides, which change owners and times.
var olderOwning = map[int32]owned{
	unix.SYS_CHOWN: {name: name{-1, 0, before}}, unix.SYS_LCHOWN: {name: name{-1, 0, before}},
	unix.SYS_UTIME: {name: name{-1, 0, before}}, unix.SYS_UTIMES: {name: name{-1, 0, before}}, unix.SYS_FUTIMESAT: {name: name{0, 1, before}},
}

// chmods are the calls that change a mode by name, with the place of the path's folder among their
// arguments: -1 for none.
var chmods = map[int32]int{unix.SYS_CHMOD: -1, unix.SYS_FCHMODAT: 0, unix.SYS_FCHMODAT2: 0}

// forks are the calls beside clone that make a process.
var forks = []int32{unix.SYS_FORK, unix.SYS_VFORK}

// olderWriting are the calls that only this system has besides, which change files by name.
var olderWriting = map[int32]change{
	unix.SYS_OPEN:    {names: []name{{-1, 0, before}}, content: true, flags: 1},
	unix.SYS_CREAT:   {names: []name{{-1, 0, either}}, content: true},
	unix.SYS_MKDIR:   {names: []name{{-1, 0, never}}},
	unix.SYS_MKNOD:   {names: []name{{-1, 0, never}}},
	unix.SYS_SYMLINK: {names: []name{{-1, 1, never}}},
	unix.SYS_LINK:    {names: []name{{-1, 1, never}}},
	unix.SYS_UNLINK:  {names: []name{{-1, 0, before}}},
	unix.SYS_RMDIR:   {names: []name{{-1, 0, before}}},
	unix.SYS_RENAME:  {names: []name{{-1, 0, before}, {-1, 1, either}}},
}

// olderReading are the calls that only this system has besides, which look at files by name.
var olderReading = map[int32]name{
	unix.SYS_NEWFSTATAT: {0, 1, before}, unix.SYS_OPEN: {-1, 0, before}, unix.SYS_STAT: {-1, 0, before},
	unix.SYS_LSTAT: {-1, 0, before}, unix.SYS_ACCESS: {-1, 0, before},
}
