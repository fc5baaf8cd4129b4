package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that is started again whenever it ends, as a service is.
type process struct {
	t    *testing.T
	name string
	make func() *exec.Cmd
	log  *os.File

	busy sync.Mutex // one fault at a time has it

	mu     sync.Mutex
	cmd    *exec.Cmd
	held   bool // it is not started now
	closed bool
	ends   int
	wake   *sync.Cond
	over   sync.WaitGroup
}

// again is how long after its end a program is started again.
const again = 200 * time.Millisecond

func starts(t *testing.T, name, log string, command func() *exec.Cmd) *process {
	t.Helper()
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	p := &process{t: t, name: name, make: command, log: f}
	p.wake = sync.NewCond(&p.mu)
	p.over.Go(p.run)
	t.Cleanup(p.close)
	return p
}

func (p *process) run() {
	for {
		p.mu.Lock()
		for p.held && !p.closed {
			p.wake.Wait()
		}
		if p.closed {
			p.mu.Unlock()
			return
		}
		cmd := p.make()
		cmd.Stdout, cmd.Stderr = p.log, p.log
		fmt.Fprintf(p.log, "--- %s is started\n", time.Now().UTC().Format("15:04:05.000"))
		if err := cmd.Start(); err != nil {
			p.mu.Unlock()
			p.t.Errorf("%s: %v", p.name, err)
			return
		}
		p.cmd = cmd
		p.mu.Unlock()
		err := cmd.Wait()
		p.mu.Lock()
		p.cmd = nil
		p.ends++
		fmt.Fprintf(p.log, "--- %s ended: %v\n", time.Now().UTC().Format("15:04:05.000"), err)
		p.wake.Broadcast()
		p.mu.Unlock()
		time.Sleep(again)
	}
}

// signal reaches the program if it runs.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s) // it may have ended just now
	}
}

// down ends the program by a signal, and has it start again after a while.
func (p *process) down(s syscall.Signal, lasts time.Duration) {
	p.mu.Lock()
	p.held = true
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s)
	}
	for p.cmd != nil {
		p.wake.Wait()
	}
	p.mu.Unlock()
	time.Sleep(lasts)
	p.mu.Lock()
	p.held = false
	p.wake.Broadcast()
	p.mu.Unlock()
}

func (p *process) close() {
	p.mu.Lock()
	p.closed = true
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
	}
	p.wake.Broadcast()
	p.mu.Unlock()
	p.over.Wait()
	_ = p.log.Close()
}
