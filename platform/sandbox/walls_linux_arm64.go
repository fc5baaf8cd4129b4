package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// olderOwning are calls that only another system has, which change owners and times.
var olderOwning map[int32]owned

// chmods are the calls that change a mode by name, with the place of the path's folder among their
// arguments: -1 for none.
var chmods = map[int32]int{unix.SYS_FCHMODAT: 0, unix.SYS_FCHMODAT2: 0}

// forks are the calls beside clone that make a process.
var forks = []int32{}

// olderWriting are the calls that only another system has, which change files by name.
var olderWriting map[int32]change

// olderReading are the calls that have another name on other systems, which look at files by name.
var olderReading = map[int32]name{unix.SYS_FSTATAT: {0, 1, before}}
