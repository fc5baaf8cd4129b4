//go:build !unix

package desk

// Freeze is for systems that can stop a program.
func (p *Process) Freeze() { p.t.Skipf("programs are frozen on Unix only") }

// Thaw lets it run on.
func (p *Process) Thaw() {}

func (p *Process) thaw() error { return nil }
