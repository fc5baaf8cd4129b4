//go:build linux && (amd64 || arm64)

package confine

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calm are the system calls that the Go runtime, its collector and reading and writing what
// is open already need. Everything else is refused: limits alone leave what needs no
// descriptor, such as removing files and signalling or reading other processes.
var calm = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,
	unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_BRK, unix.SYS_MEMBARRIER,
	unix.SYS_FUTEX, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_GETTIMEOFDAY,
	unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE, unix.SYS_SETITIMER,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETRANDOM, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// Offsets in struct seccomp_data (linux/seccomp.h); both systems are little-endian.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16 // 8 bytes each
)

// filterCalls refuses to every thread of this process, for good, what is not calm.
func filterCalls() error {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	jump := func(how uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	end := func(what uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: what}
	}
	refuse := end(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	allow := end(unix.SECCOMP_RET_ALLOW)
	program := []unix.SockFilter{
		load(offArch), jump(unix.BPF_JEQ, auditArch, 1, 0), end(unix.SECCOMP_RET_KILL_PROCESS),
		load(offNumber),
		jump(unix.BPF_JGE, 0x40000000, 0, 1), refuse, // the numbers of x32
	}
	// Its arguments cannot be looked at; told that there is no such call, a C library makes
	// threads by the older one.
	program = append(program, jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), end(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)))
	for _, number := range append(slices.Clone(calm), older...) {
		program = append(program, jump(unix.BPF_JEQ, number, 0, 1), allow)
	}
	// A call that is fine with some arguments: number, argument, mask, value, fine if equal.
	when := func(number, arg uint32, how uint16, k uint32, fine bool) {
		yes, no := allow, refuse
		if !fine {
			yes, no = refuse, allow
		}
		program = append(program, jump(unix.BPF_JEQ, number, 0, 4), load(offArgs+8*arg), jump(how, k, 0, 1), yes, no)
	}
	when(unix.SYS_MMAP, 2, unix.BPF_JSET, unix.PROT_EXEC, false)
	when(unix.SYS_MPROTECT, 2, unix.BPF_JSET, unix.PROT_EXEC, false)
	when(unix.SYS_CLONE, 0, unix.BPF_JSET, unix.CLONE_THREAD, true)
	when(unix.SYS_TGKILL, 0, unix.BPF_JEQ, uint32(os.Getpid()), true) // the runtime preempts its threads
	when(unix.SYS_PRCTL, 0, unix.BPF_JEQ, unix.PR_SET_VMA, true)      // and names its memory
	program = append(program, refuse)

	// Both are of the thread that asks, and the filter then of all.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("filter of system calls: %w", errno)
	}
	return nil
}
