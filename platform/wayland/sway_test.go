//go:build linux

package wayland

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A Sway that has no time takes no more callers than it can; that is not its end.
func TestSwayWithoutTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sway")
	listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(listener)
	if err := errors.Join(unix.Bind(listener, &unix.SockaddrUnix{Name: path}), unix.Listen(listener, 0)); err != nil {
		t.Fatal(err)
	}
	s := &sway{path}
	first, err := s.dial(t.Context()) // waits for Sway
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.dial(over); !errors.Is(err, context.Canceled) {
		t.Errorf("in a call that ended: %v", err)
	}
	late := &unpunctual{Context: t.Context(), done: make(chan struct{})}
	told := make(chan error, 1)
	go func() {
		_, err := s.dial(late)
		told <- err
	}()
	close(late.done)
	if err := <-told; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("when the time is over: %v", err)
	}
	go func() {
		c, err := s.dial(t.Context())
		if err == nil {
			err = c.Close()
		}
		told <- err
	}()
	for range 2 {
		fd, _, err := unix.Accept(listener)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
	}
	if err := <-told; err != nil {
		t.Errorf("when Sway had time again: %v", err)
	}
}

// unpunctual is a context whose time is over, and that ends when done is closed.
type unpunctual struct {
	//lint:ignore containedctx a context of our own
	context.Context
	done chan struct{}
}

func (u *unpunctual) Deadline() (time.Time, bool) { return time.Unix(1, 0), true }
func (u *unpunctual) Done() <-chan struct{}       { return u.done }
func (u *unpunctual) Err() error {
	select {
	case <-u.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
