package platform

import (
	"context"
	"io"
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
	// Build gives arguments (without the program's name) and the whole
	// environment, once the scratch folder is known. Required.
	Build func(scratch string) (args, env []string)
	// Name begins the scratch folder's name, such as "chrome". Required.
	Name string
	// ScratchBase is where the scratch folder is made. Default: the system's
	// folder for temporary files. It has to be reachable for User.
	ScratchBase string
	// User is whom the child runs as. Nil: as this process does.
	User *User
}

// Process is a running guarded child. Its methods are safe for concurrent use.
type Process interface {
	// In and Out are the command pipe: what the child reads on descriptor 3 and
	// writes on descriptor 4 (on Windows: see PipeHandles). Close closes both.
	In() io.Writer
	Out() io.Reader
	// PID is the child's own, not its guard's.
	PID() int
	// Scratch is the folder that dies with the child.
	Scratch() string
	// Done is closed when the child, all its descendants and its scratch folder
	// are gone.
	Done() <-chan struct{}
	// Output gives the end of what the child wrote to its standard output and
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
