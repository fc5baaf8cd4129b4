package products

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/suite"
)

// place is where a server runs: below which folder its packages are, a folder of its own,
// and its port.
type place struct{ packages, dir, port string }

// server says how a product's server is started.
type server struct {
	// program is its file below node_modules, args follow it.
	program string
	args    func(p place) []string
	env     func(p place) []string // nil: none of its own
	files   map[string]string      // are written to its folder first; {port} is its port
	ready   string                 // path that is answered, not by an error of the server, once it is up
	// fill brings in, by its API, what the tasks find there. nil: nothing.
	fill func(ctx context.Context, address string) error
}

// Servers are running servers of products.
type Servers struct {
	mu      sync.Mutex // guards what follows
	running map[string]*running
}

type running struct {
	address, dir string
	cmd          *exec.Cmd
	in           io.Closer
	ended        chan struct{} // closed when the process has ended
}

// Start starts the servers that the chosen tasks need, side by side. Packages is the folder that
// .ci/libraries fills. With an error, none runs.
func Start(ctx context.Context, packages string, chosen []*suite.Behaviour) (*Servers, error) {
	if _, err := exec.LookPath("node"); err != nil {
		return nil, fmt.Errorf("products run in Node.js: %w", err)
	}
	packages, err := filepath.Abs(packages)
	if err != nil {
		return nil, err
	}
	s := &Servers{running: map[string]*running{}}
	wanted := map[string]bool{}
	for _, b := range chosen {
		wanted[b.Family()] = true
	}
	var starts sync.WaitGroup
	var errs []error
	for _, p := range all() {
		if !wanted[p.name] {
			continue
		}
		starts.Go(func() {
			r, err := p.server.start(ctx, packages)
			s.mu.Lock()
			defer s.mu.Unlock()
			if r != nil {
				s.running[p.name] = r
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", p.pkg, err))
			}
		})
	}
	starts.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Addresses returns where the servers answer, by the product's name.
func (s *Servers) Addresses() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := map[string]string{}
	for name, r := range s.running {
		of[name] = r.address
	}
	return of
}

// Close ends the servers and removes their folders. It may be called again.
func (s *Servers) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for name, r := range s.running {
		errs = append(errs, r.end())
		delete(s.running, name)
	}
	return errors.Join(errs...)
}

// endWithUs ends a server when its standard input does, which is when its parent has ended,
// however that was.
const endWithUs = `process.stdin.on('end', () => process.exit()).on('error', () => process.exit()).resume()`

// upWithin bounds a server's start.
const upWithin = time.Minute

// start starts a server and returns once it is up. With an error, what it returns is to be ended
// if it is not nil.
func (s server) start(ctx context.Context, packages string) (*running, error) {
	dir, err := os.MkdirTemp("", "handrail-product-")
	if err != nil {
		return nil, err
	}
	r := &running{dir: dir, ended: make(chan struct{})}
	port, err := freePort()
	if err != nil {
		return r, err
	}
	r.address = "http://" + net.JoinHostPort("127.0.0.1", port)
	p := place{packages: packages, dir: dir, port: port}
	for name, text := range s.files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return r, err
		}
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "{port}", port)), 0o600); err != nil {
			return r, err
		}
	}
	ending := filepath.Join(dir, "end-with-parent.cjs")
	if err := os.WriteFile(ending, []byte(endWithUs), 0o600); err != nil {
		return r, err
	}
	args := []string{"--require", ending, filepath.Join(packages, "node_modules", filepath.FromSlash(s.program))}
	cmd := exec.Command("node", append(args, s.args(p)...)...)
	cmd.Dir = dir
	// Its home is its folder: what it keeps there goes with it.
	cmd.Env = append(os.Environ(), "HOME="+dir, "NO_UPDATE_NOTIFIER=1", "NODE_ENV=production")
	if s.env != nil {
		cmd.Env = append(cmd.Env, s.env(p)...)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return r, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if r.in, err = cmd.StdinPipe(); err != nil {
		return r, err
	}
	if err := cmd.Start(); err != nil {
		return r, err
	}
	r.cmd = cmd
	go func() {
		_ = cmd.Wait() // how it ends is its own matter
		close(r.ended)
	}()
	if err := r.up(ctx, s.ready); err != nil {
		said, _ := os.ReadFile(log.Name())
		return r, fmt.Errorf("%w; it said: %.2000s", err, said)
	}
	if s.fill != nil {
		return r, s.fill(ctx, r.address)
	}
	return r, nil
}

// up waits until the server answers.
func (r *running) up(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, upWithin)
	defer cancel()
	for {
		status, _, err := ask(ctx, http.MethodGet, r.address+path, nil)
		if err == nil && status < http.StatusInternalServerError {
			return nil
		}
		select {
		case <-r.ended:
			return errors.New("the server ended at its start")
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// end ends the server and removes its folder.
func (r *running) end() error {
	if r.cmd != nil {
		_ = r.in.Close()
		select {
		case <-r.ended:
		case <-time.After(5 * time.Second):
			_ = r.cmd.Process.Kill()
			<-r.ended
		}
	}
	return os.RemoveAll(r.dir)
}

// freePort returns a port of 127.0.0.1 at which nobody listens.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
