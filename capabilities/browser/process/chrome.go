package process

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/egress"
	"github.com/handrail-dev/handrail/platform"
)

// Chrome is one that runs: its program, the protocol with it, and what it said of itself. Safe
// for concurrent use.
type Chrome struct {
	Program  Program
	Conn     *devtools.Conn
	Root     *devtools.Session
	Version  string
	Headless bool
	Attached bool // a person's: nothing but our own tabs is ours

	departing atomic.Bool
	mu        sync.Mutex
	workers   map[string]*devtools.Session // that are held and no page's, by session
}

// Program is what a Chrome's pages live in.
type Program interface {
	egress.Process
	PID() int
	Scratch() string
	Done() <-chan struct{}
	Output() string
	Close() error
}

var _ Program = platform.Process(nil)

// Tenant works in a Chrome. It hears what the Chrome itself says, and its end.
type Tenant interface {
	// Event takes an event of no session, on the reading goroutine: it must not block.
	Event(method string, params []byte)
	// Ended is called once, when the connection has ended.
	Ended(err error)
}

// Alive reports whether the connection holds.
func (c *Chrome) Alive() bool {
	select {
	case <-c.Conn.Done():
		return false
	default:
		return true
	}
}

// Close ends the program with everything below it. Idempotent.
func (c *Chrome) Close() error {
	c.Conn.Fail(devtools.ErrClosed)
	return c.Program.Close()
}

// Depart notes that it is about to be closed; its profile goes home then.
func (c *Chrome) Depart() { c.departing.Store(true) }

// Departing reports whether it is being closed, or has ended.
func (c *Chrome) Departing() bool { return c.departing.Load() || !c.Alive() }

// Workers returns the sessions of workers that a stop holds and that are no page's.
func (c *Chrome) Workers() map[string]*devtools.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.workers)
}

// DropWorker forgets such a session, and reports whether id was one.
func (c *Chrome) DropWorker(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.workers[id] != nil
	delete(c.workers, id)
	return known
}

// sessions returns the session of every target that is ours to hold.
func (c *Chrome) sessions() []*devtools.Session {
	return slices.DeleteFunc(c.Conn.Sessions(), func(s *devtools.Session) bool { return s.Theirs() })
}
