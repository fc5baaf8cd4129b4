package pgtest

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Server is a PostgreSQL of one test.
type Server struct {
	t       testing.TB
	bin     string
	dir     string
	as      *syscall.Credential
	cmd     *exec.Cmd
	schemas atomic.Int64
}

// Start makes a cluster and starts its server. The test fails where PostgreSQL is not installed:
// ".ci/setup test" installs it.
func Start(t testing.TB) *Server {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		t.Fatalf("no PostgreSQL below /usr/lib/postgresql (%v): run .ci/setup test", err)
	}
	slices.Sort(found)
	dir, err := os.MkdirTemp("", "pg") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s := &Server{t: t, bin: filepath.Dir(found[len(found)-1]), dir: dir}
	if os.Getuid() == 0 { // the server refuses to run as root
		s.as = account(t)
		if err := os.Chown(dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := s.command("initdb", "-D", s.data(), "-U", "handrail", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8",
		"--no-sync").CombinedOutput()
	if err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.Go()
	t.Cleanup(s.Stop)
	return s
}

func account(t testing.TB) *syscall.Credential {
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, badUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, badGID := strconv.ParseUint(u.Gid, 10, 32)
	if badUID != nil || badGID != nil {
		t.Fatalf("the account postgres has the IDs %s and %s", u.Uid, u.Gid)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

// Go starts the server and returns once it answers.
func (s *Server) Go() {
	s.t.Helper()
	var said bytes.Buffer
	s.cmd = s.command("postgres", "-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "shared_buffers=16MB")
	s.cmd.Stdout, s.cmd.Stderr = &said, &said
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if s.command("pg_isready", "-q", "-h", s.dir).Run() == nil {
			return
		}
		if time.Now().After(until) {
			s.Stop()
			s.t.Fatalf("PostgreSQL does not answer:\n%s", said.String())
		}
	}
}

// Stop ends the server at once, with its connections; Kill without a word to them.
func (s *Server) Stop() { s.end(syscall.SIGINT) }

// Kill ends the server as a machine does that loses its power, but for the disk's own memory.
func (s *Server) Kill() { s.end(syscall.SIGQUIT) }

func (s *Server) end(with syscall.Signal) {
	if s.cmd == nil {
		return
	}
	if err := s.cmd.Process.Signal(with); err != nil {
		s.t.Error(err)
	}
	_ = s.cmd.Wait() // its status says how it was ended
	s.cmd = nil
}

// URL returns the address of a schema that nobody used yet.
func (s *Server) URL() string { return s.Named(fmt.Sprintf("site_%d", s.schemas.Add(1))) }

// Named returns the address of a schema by its name.
func (s *Server) Named(schema string) string {
	q := url.Values{"host": {s.dir}, "schema": {schema}}
	return "postgres://handrail@/postgres?" + q.Encode()
}
