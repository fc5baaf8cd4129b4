package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// job is the Job Object around a program and all that it starts: the kernel keeps its limits, and
// ends all that is in it with its last handle, which the runner has.
//
// It is nested in the guard's. Windows takes limits of the desktop
// (JOBOBJECT_BASIC_UI_RESTRICTIONS) of no nested one: the AppContainer keeps the desktop away.
type job struct{ handle windows.Handle }

// jobLimits are an order's limits in the words of a Job Object; 0: none.
func jobLimits(l Limits) (j windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION) {
	b := &j.BasicLimitInformation
	b.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION
	if l.Processes > 0 {
		b.LimitFlags |= windows.JOB_OBJECT_LIMIT_ACTIVE_PROCESS
		b.ActiveProcessLimit = uint32(min(l.Processes, 1<<31))
	}
	if l.Memory > 0 { // of each, and of all together
		b.LimitFlags |= windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY | windows.JOB_OBJECT_LIMIT_JOB_MEMORY
		j.ProcessMemoryLimit, j.JobMemoryLimit = uintptr(l.Memory), uintptr(l.Memory)
	}
	if l.CPU > 0 { // in units of 100 ns, of each
		b.LimitFlags |= windows.JOB_OBJECT_LIMIT_PROCESS_TIME
		b.PerProcessUserTimeLimit = int64(l.CPU) * 10_000_000
	}
	return j
}

// newJob makes one with limits that the system has taken, each.
func newJob(l Limits) (*job, error) {
	handle, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("job object: %w", err)
	}
	j := &job{handle}
	want := jobLimits(l)
	if _, err := windows.SetInformationJobObject(handle, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&want)),
		uint32(unsafe.Sizeof(want))); err != nil {
		j.close()
		return nil, fmt.Errorf("job object: %w", err)
	}
	return j, nil
}

// take puts a process into it, for good.
func (j *job) take(process windows.Handle) error {
	if err := windows.AssignProcessToJobObject(j.handle, process); err != nil {
		return fmt.Errorf("job object: %w", err)
	}
	return nil
}

// end ends all that is in it.
func (j *job) end() { _ = windows.TerminateJobObject(j.handle, endedByRunner) }

func (j *job) close() { _ = windows.CloseHandle(j.handle) }

// endedByRunner is the exit code of what a runner ends: -1.
const endedByRunner = 0xffffffff
