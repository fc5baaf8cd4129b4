package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// How often locks and processes are looked at.
const (
	lockEvery   = 20 * time.Millisecond
	unusedEvery = time.Second
)

// maxLog bounds what is kept in memory of what a gateway said, in bytes.
const maxLog = 64 << 10

// Place is where conversations and their gateway meet.
type Place struct{ dir string }

// At returns the place below an existing folder that only its owner can enter.
func At(dir string) Place { return Place{dir: dir} }

// The files of a place.
func (p Place) users() string { return filepath.Join(p.dir, "standalone.users") } // held by conversations, shared
func (p Place) start() string { return filepath.Join(p.dir, "standalone.start") } // held while one starts a gateway
func (p Place) log() string   { return filepath.Join(p.dir, "standalone.log") }   // of the latest gateway

// Share is one conversation's part in the gateway.
type Share struct {
	place   Place
	gateway Gateway
	users   *flock.Flock
}

// Leave ends the part. A process that ends without it has left, too.
func (s *Share) Leave() { _ = s.users.Close() }

// Gateway says how a gateway is started and seen.
type Gateway struct {
	// Command returns what starts it, by Serve; its output and errors go to the place's log.
	Command func() *exec.Cmd
	// Up reports whether one answers, started by whom ever.
	Up func(context.Context) bool
	// Ready reports whether what the new one has printed says that it can be used.
	Ready func(said []byte) bool
}

// RefusedError says that a gateway ended before it could be used.
type RefusedError struct {
	Said []byte // what it printed, at most the last 64 KiB
	Code int    // its exit code; -1 if a signal ended it
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the gateway ended with exit code %d", e.Code)
}

// Join takes part in the gateway of a place and starts one where none is up. It waits for one that
// is ending or starting until ctx ends. The error is a *RefusedError where a gateway was started
// and did not become ready.
func (p Place) Join(ctx context.Context, g Gateway) (*Share, error) {
	users := flock.New(p.users(), flock.SetPermissions(0o600))
	if err := locked(users.TryRLockContext(ctx, lockEvery)); err != nil {
		return nil, err
	}
	share := &Share{place: p, gateway: g, users: users}
	if err := share.Ensure(ctx); err != nil {
		share.Leave()
		return nil, err
	}
	return share, nil
}

// Ensure starts a gateway where none is up, as one may have been ended since; errors as of Join.
func (s *Share) Ensure(ctx context.Context) error {
	p, g := s.place, s.gateway
	if g.Up(ctx) {
		return nil
	}
	start := flock.New(p.start(), flock.SetPermissions(0o600))
	if err := locked(start.TryLockContext(ctx, lockEvery)); err != nil {
		return err
	}
	defer start.Close()
	if g.Up(ctx) { // somebody else has started it meanwhile
		return nil
	}
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_TRUNC|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := g.Command()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, log, log
	apart(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { // it ends with the gateway, or with this process
		_ = cmd.Wait()
		close(ended)
	}()
	for tick := time.NewTicker(lockEvery); ; {
		select {
		case <-ended:
			said, err := read(log)
			return errors.Join(&RefusedError{Said: said, Code: cmd.ProcessState.ExitCode()}, err)
		case <-ctx.Done():
			tick.Stop()
			return ctx.Err() // without a user it ends by itself
		case <-tick.C:
			if said, err := read(log); err != nil || g.Ready(said) {
				tick.Stop()
				return err
			}
		}
	}
}

// read returns the end of what a gateway printed.
func read(log *os.File) ([]byte, error) {
	info, err := log.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, info.Size()-maxLog)
	return io.ReadAll(io.NewSectionReader(log, from, info.Size()-from))
}

// Serve runs a gateway until nobody has taken part for a while, or ctx ends, and returns its error.
// Nobody can join from the moment at which it is told to end until it has ended.
func (p Place) Serve(ctx context.Context, unused time.Duration, gateway func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- gateway(ctx) }()
	users := flock.New(p.users(), flock.SetPermissions(0o600))
	defer users.Close()
	alone := time.Time{} // since when nobody is there; zero: somebody is, or was just now
	for tick := time.NewTicker(unusedEvery); ; {
		select {
		case err := <-done:
			tick.Stop()
			return err
		case <-tick.C:
		}
		if users.Locked() {
			continue // it is on its way to its end
		}
		free, err := users.TryLock()
		gone := errors.Is(err, fs.ErrNotExist) // the whole place: nobody can come any more
		switch {
		case !free && !gone:
			alone = time.Time{}
		case alone.IsZero() || time.Since(alone) < unused:
			if alone.IsZero() {
				alone = time.Now()
			}
			_ = users.Unlock()
		default:
			stop() // and the lock is held to the end
		}
	}
}

// locked makes an error of a lock that was not got.
func locked(got bool, err error) error {
	if err == nil && !got {
		return errors.New("the lock was not got")
	}
	return err
}
