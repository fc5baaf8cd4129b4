package desk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Process is a running program.
type Process struct {
	Name string
	PID  int
	// Done closes when it has ended; Err then says how.
	Done chan struct{}
	Err  error

	t   TB
	cmd *exec.Cmd
	out *log
}

// log keeps what a program prints.
type log struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// Command is exec.Command on this desk, not yet started.
func (d *Desk) Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = d.Env, d.Home
	return cmd
}

// Run runs a program to its end and returns its standard output.
func (d *Desk) Run(name string, args ...string) string {
	d.T.Helper()
	out, err := d.Try(name, args...)
	if err != nil {
		d.T.Fatalf("%s: %v", strings.Join(append([]string{name}, args...), " "), err)
	}
	return out
}

// Try is Run with its error.
func (d *Desk) Try(name string, args ...string) (string, error) {
	d.T.Helper()
	if !filepath.IsAbs(name) {
		Need(d.T, name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Within)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = d.Env, d.Home, time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && stderr.Len() > 0 {
		err = errors.New(err.Error() + ": " + strings.TrimSpace(stderr.String()))
	}
	return string(out), err
}

// Start starts a program; it is killed when the desk closes.
func (d *Desk) Start(name string, args ...string) *Process {
	d.T.Helper()
	return d.spawn(d.Command(name, args...), nil)
}

// spawn starts cmd. With ready, it waits for one line on descriptor 3.
func (d *Desk) spawn(cmd *exec.Cmd, ready func(line string)) *Process {
	d.T.Helper()
	if !filepath.IsAbs(cmd.Args[0]) {
		Need(d.T, cmd.Args[0])
	}
	p := &Process{Name: filepath.Base(cmd.Args[0]), Done: make(chan struct{}), t: d.T, cmd: cmd, out: &log{}}
	// Into a file: a grandchild that keeps the output open must not hold up Wait.
	file, err := os.CreateTemp(d.dir, p.Name+"-*.log")
	if err != nil {
		d.T.Fatalf("%v", err)
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	var read, write *os.File
	if ready != nil {
		if read, write, err = os.Pipe(); err != nil {
			d.T.Fatalf("%v", err)
		}
		defer read.Close()
		cmd.ExtraFiles = []*os.File{write}
	}
	err = cmd.Start()
	if write != nil {
		_ = write.Close()
	}
	if err != nil {
		d.T.Fatalf("%v", err)
	}
	p.PID = cmd.Process.Pid
	go func() {
		p.Err = cmd.Wait()
		if text, err := os.ReadFile(file.Name()); err == nil {
			_, _ = p.out.Write(text)
		}
		close(p.Done)
	}()
	d.T.Cleanup(func() { // runs before the desk closes
		p.end()
		if d.T.Failed() && p.out.String() != "" {
			d.T.Logf("%s said:\n%s", p.Name, tail(p.out.String(), 4000))
		}
	})
	if ready != nil {
		_ = read.SetReadDeadline(time.Now().Add(Within))
		line := firstLine(read)
		if line == "" {
			_ = cmd.Process.Kill()
			<-p.Done
			d.T.Fatalf("%s did not start: %s", p.Name, tail(p.out.String(), 4000))
		}
		ready(line)
	}
	return p
}

// Ended reports whether the program has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// end ends it as the desk does: an X server may clear up behind itself.
func (p *Process) end() {
	if (p.Name == "Xvfb" || p.Name == "Xephyr") && !p.Ended() {
		_ = p.thaw()
		_ = p.cmd.Process.Signal(os.Interrupt)
		select {
		case <-p.Done:
		case <-time.After(10 * time.Second):
		}
	}
	p.Kill()
}

// Kill ends it at once and waits.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.Done
}

// KillServer ends the X server as a crash would. Its number stays taken until the desk
// closes, so that no other server answers in its place: servers that are started with a
// number leave alone what a living process has locked.
func (d *Desk) KillServer() {
	d.T.Helper()
	number := strings.TrimPrefix(d.Display, ":")
	lock, socket := "/tmp/.X"+number+"-lock", "/tmp/.X11-unix/X"+number
	mine := lock + "-" + strconv.Itoa(os.Getpid())
	err := os.WriteFile(mine, fmt.Appendf(nil, "%10d\n", os.Getpid()), 0o444)
	if err == nil {
		err = os.Rename(mine, lock)
	}
	if err != nil {
		d.T.Fatalf("keeping the number of display %s: %v", d.Display, err)
	}
	d.T.Cleanup(func() { _, _ = os.Remove(socket), os.Remove(lock) })
	d.Server.Kill()
}

func tail(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return "…" + s[len(s)-most:]
}
