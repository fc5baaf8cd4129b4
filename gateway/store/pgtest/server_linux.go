package pgtest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
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
	tls     string // its TCP address, once it has one
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
	args := []string{"-D", s.data(), "-k", s.dir, "-c", "shared_buffers=16MB"}
	if s.tls == "" {
		args = append(args, "-c", "listen_addresses=")
	} else {
		_, port, _ := net.SplitHostPort(s.tls)
		args = append(args, "-c", "listen_addresses=127.0.0.1", "-p", port, "-c", "ssl=on",
			"-c", "ssl_cert_file="+filepath.Join(s.dir, "cert.pem"), "-c", "ssl_key_file="+filepath.Join(s.dir, "key.pem"))
	}
	s.cmd = s.command("postgres", args...)
	s.cmd.Stdout, s.cmd.Stderr = &said, &said
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if s.command("pg_isready", "-q", "-h", s.dir, "-p", s.port()).Run() == nil {
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

func (s *Server) port() string {
	if _, port, err := net.SplitHostPort(s.tls); err == nil {
		return port
	}
	return "5432"
}

// TLS has the server listen at a port of loopback, too, for TLS and a password only, by a
// certificate for the name db.example and for 127.0.0.1. It returns the port, and the files of the
// certificate's authority and of the password. The server starts anew for it.
func (s *Server) TLS(password string) (port, authority, passfile string) {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.tls = l.Addr().String()
	if err := l.Close(); err != nil {
		s.t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "db.example"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"db.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	authority = s.file("cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	s.file("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	s.file("data/pg_hba.conf", []byte("local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"))
	out, err := s.command("psql", "-h", s.dir, "-U", "handrail", "postgres", "-c",
		"ALTER ROLE handrail PASSWORD '"+password+"'").CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	s.Stop()
	s.Go()
	passfile = filepath.Join(s.t.TempDir(), "pass")
	if err := os.WriteFile(passfile, []byte("*:*:*:*:"+password+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return s.port(), authority, passfile
}

// file writes one of the server's own.
func (s *Server) file(name string, text []byte) string {
	s.t.Helper()
	at := filepath.Join(s.dir, name)
	err := os.WriteFile(at, text, 0o600)
	if err == nil && s.as != nil {
		err = os.Chown(at, int(s.as.Uid), int(s.as.Gid))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return at
}

// URL returns the address of a schema that nobody used yet.
func (s *Server) URL() string { return s.Named(fmt.Sprintf("site_%d", s.schemas.Add(1))) }

// Named returns the address of a schema by its name.
func (s *Server) Named(schema string) string {
	q := url.Values{"host": {s.dir}, "port": {s.port()}, "schema": {schema}}
	return "postgres://handrail@/postgres?" + q.Encode()
}
