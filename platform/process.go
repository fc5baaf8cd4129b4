package platform

import (
	"context"
	"io"
	"net/netip"
)

// User is the account that a child runs under. It matters on Unix only.
type User struct {
	UID, GID uint32
}

// PipeHandles is a placeholder in an argument of a Command: on Windows it becomes
// the two handles of the command pipe ("123,456"); elsewhere, where the pipe is
// descriptors 3 and 4, the whole argument is left out.
const PipeHandles = "{pipe-handles}"

// Command describes a child that must never outlive this process.
type Command struct {
	// Path is the program. Required.
	Path string
	// Build returns arguments (without the program's name) and the whole
	// environment, once the scratch folder is known. Required.
	Build func(scratch string) (args, env []string)
	// Name begins the scratch folder's name, such as "chrome". Required.
	Name string
	// ScratchBase is where the scratch folder is made. Default: the system's
	// folder for temporary files. It has to be reachable for User.
	ScratchBase string
	// User is whom the child runs as. Nil: as this process does.
	User *User
	// Alone, with User, gives the child an account that nobody here has and nothing
	// else runs under, where there is one; User is what it gets otherwise.
	Alone bool
	// Lend is a folder that the child works with and that outlives it. Nil: none.
	Lend *Lend
	// Apart gives the child namespaces of its own, of users, mounts, processes, System V memory and
	// names, on Linux. It is the first process of its own, so that the kernel ends all that it
	// started with it. The start fails where the system has none. Not with User.
	Apart bool
	// Cgroups are folders of cgroups, at most one of each hierarchy, in which the child begins where
	// this process may put it there, on Linux. Its own /proc says where it is. Default: it begins
	// where this process is.
	Cgroups []string
}

// Lend is a folder that a child gets for its life: what is in it is copied into
// the scratch folder before the start and back after the end, in whatever way
// the child or this process ended. It is never half written, belongs to this
// account while it is at home, and to one child at a time.
type Lend struct {
	// Home is the folder; it is made if it is missing. Required.
	Home string
	// Name is what it is called in the scratch folder. Required.
	Name string
	// Leave names folders, anywhere in it, that are not worth keeping.
	Leave []string
	// Note tells others who has it. See LentError.
	Note string
}

// LentError says that another child has the folder.
type LentError struct {
	Note string // the holder's; may be empty
}

func (e *LentError) Error() string { return "the folder is in use: " + e.Note }

// Process is a running guarded child. Its methods are safe for concurrent use.
type Process interface {
	// In and Out are the command pipe: what the child reads on descriptor 3 and writes on
	// descriptor 4 (on Windows: see PipeHandles). The child's output is read to its end, however
	// long ago it ended; Close closes both.
	In() io.Writer
	Out() io.Reader
	// PID is the child's own, not its guard's.
	PID() int
	// Scratch is the folder that dies with the child.
	Scratch() string
	// Owns reports whether the TCP connection between those two addresses of this
	// machine was opened, at from, by the child or what it started. The error says
	// that the system does not tell.
	Owns(from, to netip.AddrPort) (bool, error)
	// Done is closed when the child, all its descendants and its scratch folder
	// are gone.
	Done() <-chan struct{}
	// Output returns the end of what the child wrote to its standard output and
	// error; at most 16 KiB.
	Output() string
	// Close kills the child and all its descendants, deletes the scratch folder
	// and waits for that, bounded. Idempotent.
	Close() error
}

// Launcher starts guarded children: whatever happens to this process, SIGKILL
// included, the child, its descendants and its scratch folder are gone soon
// after.
type Launcher interface {
	Start(ctx context.Context, c Command) (Process, error)
}
