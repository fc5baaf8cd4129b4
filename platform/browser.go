package platform

import "context"

// Browser is an installed Chrome or Chromium.
type Browser struct {
	// Path is the program itself, not a wrapper script where one was found.
	Path string
	// Product is "chromium" or "chrome".
	Product string
	// Version is such as "156.0.8078.79"; empty if it could not be read.
	Version string
	// RunAs is the account it has to run under for its sandbox to work. Nil: as
	// this process does.
	RunAs *User
	// NoSandbox says why this host cannot give the browser its sandbox. Empty:
	// it can.
	NoSandbox string
	// SandboxFix says what a person can do about NoSandbox.
	SandboxFix string
	// SmallShm is true where /dev/shm is too small for the browser to use.
	SmallShm bool
}

// BrowserFinder finds a usable browser. Errors are *MissingError.
type BrowserFinder interface {
	Find(ctx context.Context) (Browser, error)
}

// MissingError says that the host lacks something, and what a person can do.
type MissingError struct {
	What string // one plain sentence
	Fix  string // one plain sentence, with a command where there is one
	// Permission tells that the system has it and the person has not allowed it.
	Permission bool
}

// Error returns What and Fix.
func (e *MissingError) Error() string { return e.What + " " + e.Fix }
