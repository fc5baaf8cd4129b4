package screen

import (
	"context"
	"slices"
	"sync"

	"github.com/jezek/xgb/shm"

	"github.com/handrail-dev/handrail/platform/x11/wire"
)

const (
	// maxLent and maxLentBytes bound what is lent at a time: the frame that a view keeps, the next
	// one, and one that is still looked at, twice. A caller who gets none makes room himself and
	// has it copied.
	maxLent      = 4
	maxLentBytes = 128 << 20
)

// shared is memory that the server writes images into, in segments of one image each. A
// segment is lent to whoever has that image, and written to again only after he gave it
// back. Only give is called from several goroutines.
type shared struct {
	c   *wire.Conn
	off bool // there is none

	mu     sync.Mutex // above what follows
	all    []*segment
	closed bool
}

// segment is memory for one image.
type segment struct {
	id    shm.Seg
	mem   []byte
	unmap func()
	lent  bool
	// doubtful says that the server may write to it still: nobody waited for its answer.
	doubtful bool
}

func newShared(ctx context.Context, c *wire.Conn) (*shared, error) {
	e, err := c.Extension(ctx, "MIT-SHM")
	if err != nil {
		return nil, err
	}
	c.Carries(e.Major)
	return &shared{c: c, off: !e.Present || !c.Local()}, nil
}

// Lend returns memory of size bytes that Grab fills without a copy, as long as the rows of
// the image are whole and the server's pixels like ours; nil if there is none to give.
// back may be called from any goroutine, once; until then the memory stays, whatever
// becomes of s and the server.
func (s *Screen) Lend(ctx context.Context, size int) (pix []byte, back func()) {
	g := s.shm.take(ctx, size, false)
	if g == nil {
		return nil, nil
	}
	return g.mem[:size:size], func() { s.shm.give(g) }
}

// Trim returns the memory that is not lent back to the system.
func (s *Screen) Trim() { s.shm.remove(func(*segment) bool { return true }) }

// of returns the segment that is lent and that pix is the beginning of; nil for other memory.
func (s *shared) of(pix []byte) *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.all {
		if g.lent && !g.doubtful && len(pix) > 0 && &g.mem[0] == &pix[0] {
			return g
		}
	}
	return nil
}

// take returns a segment of at least size bytes; nil if there is none, or would be too many
// of them. must says that it is given back at once: for that there is always room.
func (s *shared) take(ctx context.Context, size int, must bool) *segment {
	if s.off {
		return nil
	}
	s.remove(func(g *segment) bool { return g.doubtful })
	if g, enough := s.free(size, must); g != nil || enough {
		return g
	}
	// Those that are there are too small, or all are lent.
	s.remove(func(g *segment) bool { return len(g.mem) < size })
	for _, attach := range []func(context.Context, int) (*segment, error){s.attachFd, s.attachID} {
		if g, err := attach(ctx, size); err == nil {
			return g
		}
		if ctx.Err() != nil {
			return nil // says nothing about the server
		}
	}
	s.mu.Lock()
	s.off = len(s.all) == 0
	s.mu.Unlock()
	return nil
}

// free lends the smallest segment of at least size bytes that is free; enough says that
// no more may be lent.
func (s *shared) free(size int, must bool) (fit *segment, enough bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lent, bytes := 0, size
	for _, g := range s.all {
		switch {
		case g.lent:
			lent, bytes = lent+1, bytes+len(g.mem)
		case len(g.mem) >= size && (fit == nil || len(g.mem) < len(fit.mem)):
			fit = g
		}
	}
	if !must && (lent >= maxLent || lent > 0 && bytes > maxLentBytes) {
		return nil, true
	}
	if fit != nil {
		fit.lent = true
	}
	return fit, false
}

// give takes a segment back.
func (s *shared) give(g *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.lent = false
	if s.closed {
		g.unmap()
	}
}

// doubt says that the server may write to g still. It is not lent again.
func (s *shared) doubt(g *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.doubtful = true
}

// remove has the server forget the segments of a kind that are not lent.
func (s *shared) remove(kind func(*segment) bool) {
	var gone []*segment
	s.mu.Lock()
	s.all = slices.DeleteFunc(s.all, func(g *segment) bool {
		removed := !g.lent && kind(g)
		if removed {
			gone = append(gone, g)
		}
		return removed
	})
	s.mu.Unlock()
	for _, g := range gone { // without the lock: who gives back waits for no server
		shm.Detach(s.c.X, g.id)
		g.unmap()
	}
}

// attachFd passes the server a descriptor: nothing is left behind by a crash, and
// nobody else can reach the memory.
func (s *shared) attachFd(ctx context.Context, size int) (*segment, error) {
	fd, mem, unmap, err := newMemory(size)
	if err != nil {
		return nil, err
	}
	return s.attach(ctx, mem, unmap, func(id shm.Seg) error {
		s.c.SendAlong(fd)
		defer s.c.SendAlong(-1) // closes what was not sent
		return shm.AttachFdChecked(s.c.X, id, false).Check()
	})
}

// attachID is for servers older than the passing of descriptors.
func (s *shared) attachID(ctx context.Context, size int) (*segment, error) {
	id, mem, unmap, err := newSysvMemory(size)
	if err != nil {
		return nil, err
	}
	defer removeSysv(id) // from then on it lives as long as its users
	return s.attach(ctx, mem, unmap, func(seg shm.Seg) error { return shm.AttachChecked(s.c.X, seg, uint32(id), false).Check() })
}

// attach returns a segment that is lent.
func (s *shared) attach(ctx context.Context, mem []byte, unmap func(), request func(shm.Seg) error) (*segment, error) {
	id, err := shm.NewSegId(s.c.X)
	if err == nil {
		err = s.c.Do(ctx, func() error { return request(id) })
	}
	if err != nil {
		unmap()
		return nil, err
	}
	g := &segment{id: id, mem: mem, unmap: unmap, lent: true}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, g)
	return g, nil
}

// close has the server forget all segments. Those that are lent stay readable until they
// are given back.
func (s *shared) close() {
	s.remove(func(*segment) bool { return true })
	s.mu.Lock()
	s.closed = true
	lent := s.all
	s.all = nil
	s.mu.Unlock()
	for _, g := range lent {
		shm.Detach(s.c.X, g.id)
	}
}
