package procguard

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

func selfPath() string {
	self, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return self
}

// inherit hands the guard the child's two ends of the command pipe; a handle
// keeps its value across inheritance, so the orders can name them. Our own ends
// are made private first: os.Pipe makes them inheritable.
func inherit(cmd *exec.Cmd, s *spec, childR, childW *os.File, locks, private []*os.File) error {
	for _, f := range private {
		if err := windows.SetHandleInformation(windows.Handle(f.Fd()), windows.HANDLE_FLAG_INHERIT, 0); err != nil {
			return fmt.Errorf("making a pipe private: %w", err)
		}
	}
	handles := make([]syscall.Handle, 0, 4)
	for _, f := range append([]*os.File{childR, childW}, locks...) {
		h := windows.Handle(f.Fd())
		if err := windows.SetHandleInformation(h, windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
			return fmt.Errorf("passing a pipe on: %w", err)
		}
		handles = append(handles, syscall.Handle(h))
	}
	s.Handles = [2]uintptr{uintptr(handles[0]), uintptr(handles[1])}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		AdditionalInheritedHandles: handles,
		CreationFlags:              windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW,
	}
	return nil
}

func quietSignals() []os.Signal { return []os.Signal{os.Interrupt} }

// killOrphans has nothing to do: the guard held the only handle of a job object
// that kills its processes when it closes.
func killOrphans(int, string) {}

// child is the program under guard, alone with its descendants in a job object.
type child struct {
	pid    int
	job    windows.Handle
	exited chan struct{}
}

// procResume wakes a process that was created suspended.
var procResume = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")

// startChild creates the program suspended, puts it into a job that dies with
// the guard, and only then lets it run: no helper can start outside the job.
func startChild(s spec) (*child, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("job object: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
		},
	}
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		windows.CloseHandle(job)
		return nil, fmt.Errorf("job object: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	p, err := os.StartProcess(s.Path, append([]string{s.Path}, s.Args...), &os.ProcAttr{
		Dir: s.Scratch, Env: s.Env,
		Files: []*os.File{null, os.Stderr, os.Stderr},
		Sys: &syscall.SysProcAttr{
			CreationFlags:              windows.CREATE_SUSPENDED,
			AdditionalInheritedHandles: []syscall.Handle{syscall.Handle(s.Handles[0]), syscall.Handle(s.Handles[1])},
		},
	})
	if err != nil {
		windows.CloseHandle(job)
		return nil, err
	}
	if err := adopt(job, p.Pid); err != nil {
		p.Kill()
		windows.CloseHandle(job)
		return nil, err
	}
	// Only the child may hold its ends: it has to see the end of file.
	windows.CloseHandle(windows.Handle(s.Handles[0]))
	windows.CloseHandle(windows.Handle(s.Handles[1]))
	c := &child{pid: p.Pid, job: job, exited: make(chan struct{})}
	go func() {
		p.Wait()
		close(c.exited)
	}()
	return c, nil
}

func adopt(job windows.Handle, pid int) error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE|windows.PROCESS_SUSPEND_RESUME, false, uint32(pid))
	if err != nil {
		return fmt.Errorf("opening the child: %w", err)
	}
	defer windows.CloseHandle(h)
	if err := windows.AssignProcessToJobObject(job, h); err != nil {
		return fmt.Errorf("job object: %w", err)
	}
	if status, _, _ := procResume.Call(uintptr(h)); status != 0 {
		return fmt.Errorf("resuming the child: NTSTATUS %#x", status)
	}
	return nil
}

func (c *child) killAll() {
	windows.TerminateJobObject(c.job, 1)
	<-c.exited
}
