//go:build unix

package desk

import "syscall"

// Freeze stops a program as SIGSTOP does: it hangs, and its windows stay.
func (p *Process) Freeze() {
	p.t.Helper()
	if err := syscall.Kill(p.PID, syscall.SIGSTOP); err != nil {
		p.t.Fatalf("%v", err)
	}
}

// Thaw lets it run on.
func (p *Process) Thaw() {
	p.t.Helper()
	if err := p.thaw(); err != nil {
		p.t.Fatalf("%v", err)
	}
}

func (p *Process) thaw() error { return syscall.Kill(p.PID, syscall.SIGCONT) }
