package sandbox

import (
	"context"
	"errors"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// A system may have namespaces and refuse what they are for, and says so only once they are there.
// So a runner tries it, once for this process.

var trial struct {
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
	trial.mu.Lock()
	defer trial.mu.Unlock()
	if trial.done {
		return trial.err
	}
	err := s.try(ctx)
	if ctx.Err() == nil { // else it is not known yet
		trial.done, trial.err = true, err
	}
	return err
}

// try starts a runner in namespaces of its own and hears how it fares.
func (s *Sandbox) try(ctx context.Context) error {
	child, err := s.runner(ctx, capabilities.ClassT0, true)
	if err != nil {
		return err
	}
	defer child.Close()
	return heard(ctx, child)
}
