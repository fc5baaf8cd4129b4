//go:build unix

package ci

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// The exit code is the command's, as a shell would tell it.
func TestRunEndsAsTheCommandDoes(t *testing.T) {
	for _, c := range []struct {
		command []string
		code    int
		started bool
	}{
		{[]string{"sh", "-c", "exit 0"}, 0, true},
		{[]string{"sh", "-c", "exit 7"}, 7, true},
		{[]string{"sh", "-c", "kill -TERM $$"}, exitSignalled + int(syscall.SIGTERM), true},
		{[]string{"no-such-command"}, exitNotThere, false},
		{[]string{t.TempDir()}, exitNotExecutable, false},
	} {
		err := Run(exec.Command(c.command[0], c.command[1:]...), nil, false)
		var ended *ExitError
		switch {
		case c.code == 0 && err != nil:
			t.Errorf("%q: %v", c.command, err)
		case c.code != 0 && (!errors.As(err, &ended) || ended.Code != c.code || ended.Started != c.started):
			t.Errorf("%q: %v, %+v", c.command, err, ended)
		}
	}
}

// A signal is the command's first.
func TestRunPassesSignalsOn(t *testing.T) {
	child := exec.Command("sh", "-c", `trap "exit 9" TERM; echo; while :; do sleep 0.01; done`)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal)
	go func() {
		_, _ = out.Read(make([]byte, 1)) // it listens now
		signals <- syscall.SIGTERM
	}()
	var ended *ExitError
	if err := Run(child, signals, false); !errors.As(err, &ended) || ended.Code != 9 {
		t.Errorf("ended with %v", err)
	}
}

// A site is ready by its first line, and ends when its input does.
func TestSite(t *testing.T) {
	s, err := Start(exec.Command("sh", "-c", `echo '{"http":"http://h","mcp":"http://h/mcp","token_file":"f"}'; cat`), nil)
	if err != nil || s.HTTP != "http://h" || s.MCP != "http://h/mcp" || s.TokenFile != "f" {
		t.Fatalf("%+v, %v", s, err)
	}
	s.End()
	if s.process.ProcessState == nil || s.process.ProcessState.ExitCode() != 0 {
		t.Errorf("it ended as %v", s.process.ProcessState)
	}

	var failed *StartError
	if _, err := Start(exec.Command("sh", "-c", "exit 5"), nil); !errors.As(err, &failed) || failed.Code != 5 {
		t.Errorf("a site that does not start: %v", err)
	}
	signals := make(chan os.Signal, 1)
	signals <- os.Interrupt
	if _, err := Start(exec.Command("cat"), signals); !errors.Is(err, context.Canceled) {
		t.Errorf("a signal while it starts: %v", err)
	}
}

// The site ends with its input, and a context that ends before does not end it.
func TestServe(t *testing.T) {
	t.Cleanup(func() { // children of later tests would ignore them, too; only this takes it back
		_, stop := Signals()
		stop()
	})
	in, alive := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Serve(ctx, in, func(ctx context.Context) error {
		if ctx.Err() != nil {
			t.Error("it ended with the context")
		}
		_ = alive.Close()
		<-ctx.Done()
		return io.EOF
	})
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// Nobody else gets the addresses before they are released.
func TestPages(t *testing.T) {
	p, err := HoldPages()
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range []bool{false, true} {
		if release {
			p.Release()
		}
		l, err := net.Listen("tcp", p.Addresses[0])
		if (err == nil) != release {
			t.Errorf("released %t: %v", release, err)
		}
		if err == nil {
			_ = l.Close()
		}
	}
}
