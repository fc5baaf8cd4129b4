package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// olderRefused are calls that only this system has besides, for the same.
var olderRefused = []uint32{unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}

// chmods are the calls that change a mode by name, with the place of the path's folder among their
// arguments: -1 for none.
var chmods = map[int32]int{unix.SYS_CHMOD: -1, unix.SYS_FCHMODAT: 0, unix.SYS_FCHMODAT2: 0}

// forks are the calls beside clone that make a process.
var forks = []int32{unix.SYS_FORK, unix.SYS_VFORK}
