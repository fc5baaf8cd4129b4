//go:build unix

package bridge

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Input from a pipe is waited for without a thread; all else is left as it is.
func TestPolledInput(t *testing.T) {
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil {
		t.Fatal(err)
	}
	in, out := os.NewFile(uintptr(ends[0]), "in"), os.NewFile(uintptr(ends[1]), "out")
	defer in.Close()
	if err := in.SetReadDeadline(time.Now()); err == nil {
		t.Fatal("the pipe is polled as it is: the test shows nothing")
	}
	got, ok := polled(in).(*os.File)
	if !ok {
		t.Fatal("no file")
	}
	defer got.Close()
	if err := got.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatalf("a pipe is not polled: %v", err)
	}
	if _, err := out.WriteString("a line\n"); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 16)
	if n, err := got.Read(line); err != nil || string(line[:n]) != "a line\n" {
		t.Errorf("read %q, %v", line[:n], err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := got.Read(line); n != 0 || err == nil {
		t.Errorf("after the end: %d bytes, %v", n, err)
	}

	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("a line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if polled(file) != file {
		t.Error("a file is polled")
	}
	if b := bytes.NewBufferString("x"); polled(b) != b {
		t.Error("what is no file is changed")
	}
}

// A socket that is input and output at once is left blocking: what does not fit into
// it at once would be lost.
func TestPolledInputLeavesASharedSocket(t *testing.T) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := syscall.Dup(ends[0])
	if err != nil {
		t.Fatal(err)
	}
	in, out, far := os.NewFile(uintptr(ends[0]), "in"), os.NewFile(uintptr(ours), "out"), os.NewFile(uintptr(ends[1]), "far")
	defer in.Close()
	defer out.Close()
	defer far.Close()
	if polled(in, out) != in {
		t.Fatal("a socket that is the output, too, is polled")
	}
	const size = 4 << 20
	read := make(chan int64, 1)
	go func() {
		n, _ := io.CopyN(io.Discard, far, size)
		read <- n
	}()
	if n, err := out.Write(make([]byte, size)); n != size || err != nil {
		t.Fatalf("%d of %d bytes written, %v", n, size, err)
	}
	if n := <-read; n != size {
		t.Errorf("%d of %d bytes arrived", n, size)
	}
	if polled(in, os.Stderr) == in {
		t.Error("a socket of its own is not polled")
	}
}
