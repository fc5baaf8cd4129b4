package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// tty is a terminal that a program of a person's runs in.
type tty struct {
	t      *testing.T
	master *os.File
	mu     sync.Mutex
	shown  strings.Builder
}

// opens runs the program in a terminal of its own until the test ends.
func (p *person) opens(args ...string) *tty {
	p.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	must(p.t, err)
	must(p.t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(p.t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(p.t, err)
	cmd := exec.CommandContext(p.t.Context(), p.program, args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.env, slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(p.t, cmd.Start())
	must(p.t, slave.Close())
	s := &tty{t: p.t, master: master}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			s.mu.Lock()
			s.shown.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	p.t.Cleanup(func() { _ = cmd.Wait(); _ = master.Close(); <-read })
	return s
}

func (s *tty) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.String()
}

// says waits for a text that was not there when what was typed last was typed.
func (s *tty) says(text string) {
	s.t.Helper()
	until(s.t, "the terminal says "+text, func() bool { return strings.Contains(s.text(), text) })
}

// interrupts is ctrl-C, on a clean screen.
func (s *tty) interrupts() {
	s.mu.Lock()
	s.shown.Reset()
	s.mu.Unlock()
	_, err := s.master.WriteString("\x03")
	must(s.t, err)
}

// types a line, on a clean screen.
func (s *tty) types(line string) {
	s.mu.Lock()
	s.shown.Reset()
	s.mu.Unlock()
	_, err := s.master.WriteString(line + "\n")
	must(s.t, err)
}
