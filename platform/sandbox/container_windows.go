package sandbox

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// An AppContainer is a package's: a file that names neither the package nor all packages is shut to
// its programs. Each program gets a package of its own, without capabilities, so without a network.
// The files that it may use name that package, for as long as it runs.

var (
	userenv          = windows.NewLazySystemDLL("userenv.dll")
	procMakeProfile  = userenv.NewProc("CreateAppContainerProfile")
	procDropProfile  = userenv.NewProc("DeleteAppContainerProfile")
	procNameToSID    = userenv.NewProc("DeriveAppContainerSidFromAppContainerName")
	procRestrict     = windows.NewLazySystemDLL("advapi32.dll").NewProc("CreateRestrictedToken")
	errNoContainer   = errors.New("this Windows has no AppContainer")
	errNotInside     = errors.New("the program is in no AppContainer")
	errMorePrivilege = errors.New("the program has privileges")
)

// containerPrefix begins the names of packages, and of their folders.
const containerPrefix = "handrail."

// container is the AppContainer of one program.
type container struct {
	name string
	sid  *windows.SID

	mu    sync.Mutex
	named []string // what names it
}

// newContainer makes one under a name that nothing had before.
func newContainer() (*container, error) {
	sweepContainers()
	var random [16]byte
	_, _ = rand.Read(random[:])
	c := &container{name: containerPrefix + hex.EncodeToString(random[:])}
	if procMakeProfile.Find() != nil {
		return nil, errNoContainer
	}
	name, err := windows.UTF16PtrFromString(c.name)
	if err != nil {
		return nil, err
	}
	result, _, _ := procMakeProfile.Call(uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(name)),
		0, 0, uintptr(unsafe.Pointer(&c.sid)))
	if int32(result) < 0 || c.sid == nil {
		return nil, fmt.Errorf("%w (CreateAppContainerProfile: %#x)", errNoContainer, uint32(result))
	}
	return c, nil
}

// containerNamed returns the package of a container that another process made.
func containerNamed(name string) (*windows.SID, error) {
	if procNameToSID.Find() != nil {
		return nil, errNoContainer
	}
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	var sid *windows.SID
	if result, _, _ := procNameToSID.Call(uintptr(unsafe.Pointer(text)), uintptr(unsafe.Pointer(&sid))); int32(result) < 0 || sid == nil {
		return nil, fmt.Errorf("%w (DeriveAppContainerSidFromAppContainerName: %#x)", errNoContainer, uint32(result))
	}
	return sid, nil
}

const (
	mayRead  = windows.FILE_GENERIC_READ | windows.FILE_GENERIC_EXECUTE
	mayWrite = mayRead | windows.FILE_GENERIC_WRITE | windows.DELETE
)

// furnish has the files of an order name the container.
func (c *container) furnish(o *order) error {
	for _, path := range append([]string{o.Path}, o.Read...) {
		if err := c.allow(path, mayRead); err != nil {
			return err
		}
	}
	for _, path := range o.Write {
		if err := c.allow(path, mayWrite); err != nil {
			return err
		}
	}
	return nil
}

// allow lets the container's programs use a file, or a folder with what is in it.
func (c *container) allow(path string, access windows.ACCESS_MASK) error {
	if withinWindows(path) {
		return nil // it names all packages, and nobody changes it
	}
	if err := c.edit(path, windows.GRANT_ACCESS, access); err != nil {
		return &fs.PathError{Op: "allow", Path: path, Err: err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.named = append(c.named, path)
	return nil
}

// allowSelf lets its programs start this binary, which is their relay.
func (c *container) allowSelf() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return c.allow(self, mayRead)
}

// withinWindows reports whether a path is of the system's own programs.
func withinWindows(path string) bool {
	for _, name := range []string{"SystemRoot", "ProgramFiles", "ProgramFiles(x86)", "ProgramW6432"} {
		folder := os.Getenv(name)
		if folder == "" {
			continue
		}
		if rel, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// edit changes what the list of a file says of the container.
func (c *container) edit(path string, how windows.ACCESS_MODE, access windows.ACCESS_MASK) error {
	descriptor, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return err
	}
	list, _, err := descriptor.DACL()
	if err != nil {
		return err
	}
	list, err = windows.ACLFromEntries([]windows.EXPLICIT_ACCESS{{
		AccessPermissions: access, AccessMode: how, Inheritance: windows.SUB_CONTAINERS_AND_OBJECTS_INHERIT,
		Trustee: windows.TRUSTEE{
			TrusteeForm: windows.TRUSTEE_IS_SID, TrusteeType: windows.TRUSTEE_IS_WELL_KNOWN_GROUP, TrusteeValue: windows.TrusteeValueFromSID(c.sid),
		},
	}}, list)
	if err != nil {
		return err
	}
	return windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION, nil, nil, list, nil)
}

// close takes the container's name off all that named it, and removes it. Its program has ended.
func (c *container) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, path := range c.named {
		_ = c.edit(path, windows.REVOKE_ACCESS, 0) // what is gone names nobody
	}
	c.named = nil
	dropContainer(c.name)
	_ = windows.FreeSid(c.sid)
}

func dropContainer(name string) {
	if text, err := windows.UTF16PtrFromString(name); err == nil && procDropProfile.Find() == nil {
		_, _, _ = procDropProfile.Call(uintptr(unsafe.Pointer(text)))
	}
}

// packages is the folder of all packages' folders.
func packages() string { return filepath.Join(os.Getenv("LOCALAPPDATA"), "Packages") }

// folderOf is where a container's programs may write beside what names them.
func folderOf(name string) string { return filepath.Join(packages(), strings.ToLower(name)) }

// sweepContainers removes, once, those that a process left which was ended. A program that another
// process runs in one stays confined: its token has the package, whatever becomes of the folder.
var sweepContainers = sync.OnceFunc(func() {
	left, _ := filepath.Glob(filepath.Join(packages(), containerPrefix+"*"))
	for _, folder := range left {
		dropContainer(filepath.Base(folder))
	}
})

// securityCapabilities is SECURITY_CAPABILITIES.
type securityCapabilities struct {
	container    *windows.SID
	capabilities uintptr
	count        uint32
	_            uint32
}

// tokenIsAppContainer is of TOKEN_INFORMATION_CLASS.
const tokenIsAppContainer = 29

// Attributes of a process that is started, and the value of noChildren.
const (
	attributeContainer = 0x00020009 // PROC_THREAD_ATTRIBUTE_SECURITY_CAPABILITIES
	attributeChildren  = 0x0002000e // PROC_THREAD_ATTRIBUTE_CHILD_PROCESS_POLICY
	noChildren         = 1          // PROCESS_CREATION_CHILD_PROCESS_RESTRICTED
)

// launch starts a program in a job, and in a container unless sid is nil, with these streams and no
// other handle. It runs once all that was asked for is there.
func launch(o *order, files []*os.File, sid *windows.SID, in *job) (*os.Process, error) {
	if ext := strings.ToLower(filepath.Ext(o.Path)); ext == ".bat" || ext == ".cmd" {
		return nil, errors.New("a batch file has no safe arguments: name cmd.exe and the file")
	}
	token, err := unprivilegedToken()
	if err != nil {
		return nil, fmt.Errorf("privileges: %w", err)
	}
	defer token.Close()
	list, err := windows.NewProcThreadAttributeList(3)
	if err != nil {
		return nil, err
	}
	defer list.Delete()
	var handles []windows.Handle
	for _, f := range files {
		h := windows.Handle(f.Fd())
		if err := windows.SetHandleInformation(h, windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
			return nil, err
		}
		handles = append(handles, h)
	}
	size := uintptr(len(handles)) * unsafe.Sizeof(handles[0])
	if err := list.Update(windows.PROC_THREAD_ATTRIBUTE_HANDLE_LIST, unsafe.Pointer(&handles[0]), size); err != nil {
		return nil, err
	}
	inside := &securityCapabilities{container: sid}
	if sid != nil {
		if err := list.Update(attributeContainer, unsafe.Pointer(inside), unsafe.Sizeof(*inside)); err != nil {
			return nil, fmt.Errorf("AppContainer: %w", err)
		}
	}
	flags := uint32(windows.CREATE_SUSPENDED | windows.CREATE_UNICODE_ENVIRONMENT)
	flags |= windows.EXTENDED_STARTUPINFO_PRESENT | windows.CREATE_NO_WINDOW
	if o.Limits.Processes == 1 {
		policy := new(uint32)
		*policy = noChildren
		if err := list.Update(attributeChildren, unsafe.Pointer(policy), unsafe.Sizeof(*policy)); err != nil {
			return nil, fmt.Errorf("processes: %w", err)
		}
		flags = flags&^windows.CREATE_NO_WINDOW | windows.DETACHED_PROCESS // a console is a process, too
	}
	words := []*uint16{nil, nil, nil}
	for i, text := range []string{o.Path, windows.ComposeCommandLine(o.Argv), o.Dir} {
		if words[i], err = windows.UTF16PtrFromString(text); err != nil {
			return nil, err
		}
	}
	start := &windows.StartupInfoEx{ProcThreadAttributeList: list.List()}
	start.Cb, start.Flags = uint32(unsafe.Sizeof(*start)), windows.STARTF_USESTDHANDLES
	start.StdInput, start.StdOutput, start.StdErr = handles[0], handles[1], handles[2]
	var made windows.ProcessInformation
	env := environmentBlock(o.Env)
	if err := windows.CreateProcessAsUser(token, words[0], words[1], nil, nil, true, flags, env, words[2], &start.StartupInfo,
		&made); err != nil {
		return nil, &fs.PathError{Op: "start", Path: o.Path, Err: err}
	}
	defer windows.CloseHandle(made.Thread)
	defer windows.CloseHandle(made.Process)
	give := func(err error) (*os.Process, error) {
		_ = windows.TerminateProcess(made.Process, endedByRunner)
		return nil, err
	}
	if err := in.take(made.Process); err != nil {
		return give(err)
	}
	if sid != nil {
		if err := isInside(made.Process); err != nil {
			return give(err)
		}
	}
	process, err := os.FindProcess(int(made.ProcessId)) // before it can end
	if err != nil {
		return give(err)
	}
	if _, err := windows.ResumeThread(made.Thread); err != nil {
		return give(err)
	}
	return process, nil
}

// unprivilegedToken is this process's without its privileges and without an administrator's rights.
func unprivilegedToken() (windows.Token, error) {
	var own, less windows.Token
	const access = windows.TOKEN_DUPLICATE | windows.TOKEN_QUERY | windows.TOKEN_ASSIGN_PRIMARY
	if err := windows.OpenProcessToken(windows.CurrentProcess(), access, &own); err != nil {
		return 0, err
	}
	defer own.Close()
	const disableMaxPrivilege, luaToken = 0x1, 0x4
	if ok, _, err := procRestrict.Call(uintptr(own), disableMaxPrivilege|luaToken, 0, 0, 0, 0, 0, 0, uintptr(unsafe.Pointer(&less))); ok == 0 {
		return 0, err
	}
	return less, nil
}

// isInside reports why a process is not confined: the token that it has says so.
func isInside(process windows.Handle) error {
	var token windows.Token
	if err := windows.OpenProcessToken(process, windows.TOKEN_QUERY, &token); err != nil {
		return err
	}
	defer token.Close()
	var inside, n uint32
	err := windows.GetTokenInformation(token, tokenIsAppContainer, (*byte)(unsafe.Pointer(&inside)), uint32(unsafe.Sizeof(inside)), &n)
	if err != nil || inside == 0 {
		return errNotInside
	}
	return hasNone(token)
}

// hasNone reports privileges of a token beyond the one that passes through folders.
func hasNone(token windows.Token) error {
	var n uint32
	_ = windows.GetTokenInformation(token, windows.TokenPrivileges, nil, 0, &n)
	if n < 4 || n > 64<<10 {
		return errMorePrivilege
	}
	buf := make([]uint32, (n+3)/4)
	if err := windows.GetTokenInformation(token, windows.TokenPrivileges, (*byte)(unsafe.Pointer(&buf[0])), n, &n); err != nil {
		return err
	}
	if buf[0] > 1 {
		return errMorePrivilege
	}
	return nil
}

// environmentBlock is variables as CreateProcess takes them. Windows knows a name however it is
// spelled; the last one counts.
func environmentBlock(env []string) *uint16 {
	at := map[string]int{}
	var kept []string
	for _, e := range env {
		name, _, ok := strings.Cut(e, "=")
		if !ok || name == "" || strings.ContainsRune(e, 0) {
			continue
		}
		if i, have := at[strings.ToUpper(name)]; have {
			kept[i] = e
			continue
		}
		at[strings.ToUpper(name)] = len(kept)
		kept = append(kept, e)
	}
	var block []uint16
	for _, e := range kept {
		text, err := syscall.UTF16FromString(e)
		if err == nil {
			block = append(block, text...)
		}
	}
	if len(kept) == 0 {
		block = append(block, 0)
	}
	block = append(block, 0)
	return &block[0]
}
