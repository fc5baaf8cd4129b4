//go:build unix

package desk

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Stay starts a command that runs until the test ends, and returns its first line. It is
// interrupted then; where that does not end it in time, it is killed with all that it started. Its
// standard error is told if the test failed.
func Stay(t TB, cmd *exec.Cmd) (first string) {
	t.Helper()
	name := strings.Join(append([]string{filepath.Base(cmd.Path)}, cmd.Args[1:]...), " ")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	lines, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		r := bufio.NewReader(out)
		line, _ := r.ReadString('\n')
		lines <- line
		_, _ = io.Copy(io.Discard, r)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		late := time.AfterFunc(Within, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		defer late.Stop()
		<-read
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said: %s", name, tail(said.String(), 4000))
		}
	})
	select {
	case first = <-lines:
	case <-time.After(Within):
		t.Fatalf("%s says nothing", name)
	}
	return strings.TrimSpace(first)
}
