package sandbox

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// A class whose programs come has runners that stand ready (S1-39, S1-40). Each waits for its one
// order, knows its class alone, and takes no order of another: it has seen no keys, no folders and
// no call, and ends with its program.

const (
	// spare is how many runners stand ready for a class.
	spare = 2
	// idle is how long they do while no program comes.
	idle = 2 * time.Minute
	// silent is how long a program that says nothing keeps the next runner from being started.
	silent = 50 * time.Millisecond
)

// pools are the runners that stand ready, those of each class by themselves.
type pools struct {
	news chan struct{}

	mu    sync.Mutex
	class map[capabilities.IsolationClass]*pool
}

type pool struct {
	ready []platform.Process
	taken time.Time // when a program came last
	warm  uint64    // programs that found one
	cold  uint64    // those that did not
}

func newPools() *pools {
	p := &pools{news: make(chan struct{}, 1), class: map[capabilities.IsolationClass]*pool{}}
	for _, class := range Classes {
		p.class[class] = &pool{}
	}
	return p
}

// take takes a runner of the class that is still there; nil: none stands ready. Either way the
// class gets the next ones once more is called.
func (p *pools) take(class capabilities.IsolationClass) platform.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.class[class]
	of.taken = time.Now()
	for len(of.ready) > 0 {
		child := of.ready[0]
		of.ready = of.ready[1:]
		select {
		case <-child.Done():
			continue
		default:
		}
		of.warm++
		return child
	}
	of.cold++
	return nil
}

// more has Run look what classes want. A program that was just given a runner calls it only once it
// is under way: starting the next runner would take the processor from its own start.
func (p *pools) more() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// wants reports whether a class wants another runner.
func (p *pools) wants(class capabilities.IsolationClass) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.class[class]
	of.ready = slices.DeleteFunc(of.ready, func(child platform.Process) bool {
		select {
		case <-child.Done():
			return true
		default:
			return false
		}
	})
	return !of.taken.IsZero() && time.Since(of.taken) < idle && len(of.ready) < spare
}

// put has a runner stand ready.
func (p *pools) put(class capabilities.IsolationClass, child platform.Process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.class[class].ready = append(p.class[class].ready, child)
}

// drop returns the runners of classes whose programs have not come for so long, and those classes
// have none any more.
func (p *pools) drop(since time.Duration) []platform.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	var old []platform.Process
	for _, of := range p.class {
		if time.Since(of.taken) >= since {
			old = append(old, of.ready...)
			of.ready = nil
		}
	}
	return old
}

// Run keeps runners ready for the classes whose programs come, until ctx ends, and ends them then.
// Without it each program waits for a runner of its own.
func (s *Sandbox) Run(ctx context.Context) error {
	defer func() {
		for _, child := range s.pools.drop(0) {
			_ = child.Close()
		}
	}()
	look := time.NewTicker(idle / 4)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.pools.news:
		case <-look.C:
		}
		for _, class := range Classes {
			for ctx.Err() == nil && s.pools.wants(class) {
				child, err := s.prepare(ctx, class)
				if err != nil { // the next program's own start says why
					break
				}
				s.pools.put(class, child)
			}
		}
		for _, child := range s.pools.drop(idle) {
			_ = child.Close()
		}
	}
}

// prepare starts a runner and waits until it waits for its order.
func (s *Sandbox) prepare(ctx context.Context, class capabilities.IsolationClass) (platform.Process, error) {
	child, err := s.runner(ctx, class, s.apart(ctx) == nil)
	if err != nil {
		return nil, err
	}
	if err := heard(ctx, child); err != nil {
		_ = child.Close()
		return nil, err
	}
	return child, nil
}

// heard waits for a runner's word that it waits for its order.
func heard(ctx context.Context, child platform.Process) error {
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

// Ready says how many runners stand ready for a class, and how many programs found one and did not.
func (s *Sandbox) Ready(class capabilities.IsolationClass) (standing uint32, warm, cold uint64) {
	s.pools.mu.Lock()
	defer s.pools.mu.Unlock()
	of := s.pools.class[class]
	if of == nil {
		return 0, 0, 0
	}
	return uint32(len(of.ready)), of.warm, of.cold
}
