package process

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/chromedp/chromedp"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/egress"
	"github.com/handrail-dev/handrail/platform"
)

// Options of New. All are required, but Dir.
type Options struct {
	// Finder finds the browser.
	Finder platform.BrowserFinder
	// Launcher starts it so that it cannot outlive this process.
	Launcher platform.Launcher
	Sandbox  Sandbox
	// Dir is where Chrome's temporary profile is made. Default: the system's folder for
	// temporary files.
	Dir string
	// Rules are those of the way out: they hold it during a stop, and say whether there is one.
	Rules *egress.Rules
	Log   *slog.Logger
}

// Set is every Chrome of a node that runs. Safe for concurrent use.
type Set struct {
	o    Options
	work sync.WaitGroup // readers of what Chromes say, and holding what a stop holds
	//lint:ignore containedctx the life of the set
	life context.Context // ends with Close
	kill context.CancelFunc

	pausing sync.Mutex // held while a stop begins or ends, and what is attached meanwhile; before mu

	mu      sync.Mutex
	closed  bool
	running map[*Chrome]bool // but a person's own
	version string           // of the latest that was started
}

// ErrClosed says that the set takes no Chrome any more.
var ErrClosed = errors.New("the browsers of this node are closed")

// New makes an empty Set; it starts nothing.
func New(o Options) *Set {
	life, kill := context.WithCancel(context.Background())
	return &Set{o: o, life: life, kill: kill, running: map[*Chrome]bool{}}
}

// Close has no Chrome started from now on: one that is only just starting is given up. Those
// that run are closed by those who have them. Idempotent.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.kill()
}

// Wait waits until every Chrome of a closed set has ended.
func (s *Set) Wait() { s.work.Wait() }

// Running returns the Chromes that run, but a person's own.
func (s *Set) Running() []*Chrome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.running))
}

// Version is what the Chrome that was started last said of itself; empty before the first.
func (s *Set) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// speak opens the protocol with a Chrome.
func (s *Set) speak(p Program, t chromedp.Transport, how How) (*Chrome, error) {
	c := &Chrome{Program: p, Conn: devtools.New(t), Headless: how.Headless, Attached: how.attached, workers: map[string]*devtools.Session{}}
	c.Root = c.Conn.Root()
	tenant := how.Tenant(c)
	s.mu.Lock()
	closed := s.closed
	if !closed {
		if !c.Attached {
			s.running[c] = true
		}
		s.work.Go(func() {
			err := c.Conn.Run(tenant.Event)
			s.mu.Lock()
			delete(s.running, c)
			s.mu.Unlock()
			tenant.Ended(err)
			p.Close()
		})
	}
	s.mu.Unlock()
	if closed {
		p.Close()
		return nil, ErrClosed
	}
	if !c.Attached {
		s.seekIfPaused(c)
	}
	return c, nil
}
