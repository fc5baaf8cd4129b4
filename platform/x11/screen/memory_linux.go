package screen

import "golang.org/x/sys/unix"

// newMemory makes memory that a descriptor stands for; who takes that closes it.
func newMemory(size int) (fd int, mem []byte, unmap func(), err error) {
	if fd, err = unix.MemfdCreate("handrail-screen", unix.MFD_CLOEXEC); err != nil {
		return 0, nil, nil, err
	}
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = unix.Close(fd)
		return 0, nil, nil, err
	}
	return fd, mem, func() { _ = unix.Munmap(mem) }, nil
}

// newSysvMemory makes memory that a number stands for, until removeSysv; it is
// gone with its last user.
func newSysvMemory(size int) (id int, mem []byte, unmap func(), err error) {
	if id, err = unix.SysvShmGet(unix.IPC_PRIVATE, size, unix.IPC_CREAT|0o600); err != nil {
		return 0, nil, nil, err
	}
	if mem, err = unix.SysvShmAttach(id, 0, 0); err != nil {
		removeSysv(id)
		return 0, nil, nil, err
	}
	return id, mem, func() { _ = unix.SysvShmDetach(mem) }, nil
}

func removeSysv(id int) { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) }
