package sandbox

import (
	"context"
	"errors"
	"sync"
)

// A system may have namespaces and refuse what they are for, and says so only once they are there.
// So a runner tries it, once for this process.

var tried struct {
	mu   sync.Mutex
	done bool
	err  error
}

// errWhole says that a Sandbox was told to use no namespaces.
var errWhole = errors.New("they are not used")

// apart reports why programs have no namespaces of their own here; nil: they have.
func (s *Sandbox) apart(ctx context.Context) error {
	switch {
	case s.host.whole:
		return errWhole
	case s.launcher == nil:
		return errors.New("there is nobody to try them")
	}
	tried.mu.Lock()
	defer tried.mu.Unlock()
	if tried.done {
		return tried.err
	}
	err := s.try(ctx)
	if ctx.Err() == nil { // else it is not known yet
		tried.done, tried.err = true, err
	}
	return err
}

// try starts a runner in namespaces of its own and hears how it fares.
func (s *Sandbox) try(ctx context.Context) error {
	child, err := s.runner(ctx, true)
	if err != nil {
		return err
	}
	defer child.Close()
	stop := context.AfterFunc(ctx, func() { _ = child.Close() })
	defer stop()
	switch kind, data, err := readFrame(child.Out(), make([]byte, maxFrame)); {
	case err != nil:
		return err
	case kind == frameWall:
		return errors.New(string(data))
	case kind != frameReady:
		return errors.New("the runner said something else")
	}
	return nil
}
