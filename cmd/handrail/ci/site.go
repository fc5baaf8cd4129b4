package ci

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// startTime bounds how long a site may take to be ready, endTime to be gone.
const (
	startTime = time.Minute
	endTime   = 20 * time.Second
)

// Site is a gateway and a node in a process of their own.
type Site struct {
	HTTP      string `json:"http"`
	MCP       string `json:"mcp"`
	TokenFile string `json:"token_file"`
	process   *exec.Cmd
	alive     io.Closer // the site ends when this is closed
}

// StartError is why a site did not start, which the site itself has said on its standard error.
type StartError struct{ Code int } // the exit code of its process

// Error says so.
func (*StartError) Error() string { return "the gateway and the node did not start" }

// LateError says that a site was not ready in time.
type LateError struct{ After time.Duration }

// Error says so.
func (e *LateError) Error() string {
	return fmt.Sprintf("the gateway and the node were not ready within %s", e.After)
}

// Start starts a site: process has to run Serve, and to print as its first line of standard
// output an object with the fields of Site. A signal while it starts ends it; the error is then
// context.Canceled.
func Start(process *exec.Cmd, signals <-chan os.Signal) (*Site, error) {
	s := &Site{process: process}
	in, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.alive = in
	if err := process.Start(); err != nil {
		return nil, err
	}
	first := make(chan string, 1)
	go func() {
		r := bufio.NewReader(out)
		line, _ := r.ReadString('\n')
		first <- line
		_, _ = io.Copy(io.Discard, r) // what it says later is nobody's
	}()
	late := time.NewTimer(startTime)
	defer late.Stop()
	select {
	case line := <-first:
		if json.Unmarshal([]byte(line), s) == nil && s.MCP != "" {
			return s, nil
		}
		s.End() // it has said why on standard error
		return nil, &StartError{Code: process.ProcessState.ExitCode()}
	case <-signals:
		s.End()
		return nil, context.Canceled
	case <-late.C:
		s.End()
		return nil, &LateError{startTime}
	}
}

// End ends the site and waits for it.
func (s *Site) End() {
	_ = s.alive.Close()
	late := time.AfterFunc(endTime, func() { _ = s.process.Process.Kill() })
	defer late.Stop()
	_ = s.process.Wait()
}

// Serve runs a site in this process until in ends. Signals are the command's, which may need
// the site to the last.
func Serve(ctx context.Context, in io.Reader, site func(context.Context) error) error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	return site(ctx)
}

// Remove deletes a site's folder, which something may still be writing to.
func Remove(dir string) {
	for range 20 {
		if os.RemoveAll(dir) == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
