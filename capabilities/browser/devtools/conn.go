package devtools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// Conn speaks the DevTools protocol with a Chrome: "flat" sessions, named in each
// message. The transport, a pipe or a WebSocket, is chromedp's, and the protocol's types
// are cdproto's; what lies between is our own.
//
// For actions are pipelined: Start puts a command in the queue in the caller's order and
// Wait collects its answer, so that a click's hit test, three input events and the
// observer of their outcome cost one trip, not five. chromedp's own browser waits for each
// answer, and drops what sessions say that it did not open itself, such as those of
// frames of other sites, of workers and of popups that are held before their first script.
type Conn struct {
	t     chromedp.Transport
	queue chan *cdproto.Message
	done  chan struct{} // closed when the transport ended; err says why

	mu       sync.Mutex
	next     int64
	pending  map[int64]*Pending
	sessions map[string]*Session
	err      error
}

var (
	ErrClosed  = errors.New("the browser closed its connection")
	ErrMessage = errors.New("malformed protocol message")
)

// New makes a connection; Run has to be started for it to live. It never closes the
// transport: who opened that does.
func New(t chromedp.Transport) *Conn {
	return &Conn{
		t: t, queue: make(chan *cdproto.Message, 256), done: make(chan struct{}),
		pending: map[int64]*Pending{}, sessions: map[string]*Session{},
	}
}

// Run reads until the transport ends. onEvent is called for events of no session, on
// the reading goroutine: it must not block.
func (c *Conn) Run(onEvent func(method string, params []byte)) error {
	var writer sync.WaitGroup
	writer.Go(c.write)
	var err error
	for err == nil {
		m := new(cdproto.Message) // its parts are the receiver's
		err = c.receive(m, c.t.Read(context.Background(), m), onEvent)
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = ErrClosed
	}
	c.Fail(err)
	writer.Wait()
	return err
}

// receive hands one message to whom it is for.
//
// A message that cannot be decoded is one command's misfortune if its number was read, and
// an event that never was if its name was: pages can make such ones, for example by an
// object whose names differ in half a surrogate pair only, and the browser is not only
// theirs. One without either ends the connection.
func (c *Conn) receive(m *cdproto.Message, broken error, onEvent func(string, []byte)) error {
	if m.ID == 0 && m.Method == "" {
		return cmp.Or(broken, ErrMessage)
	}
	c.mu.Lock()
	if m.ID != 0 {
		p := c.pending[m.ID]
		delete(c.pending, m.ID)
		c.mu.Unlock()
		switch {
		case p == nil:
			return nil
		case broken != nil:
			p.err = fmt.Errorf("%s: %w: %w", p.method, ErrMessage, broken)
		case m.Error != nil:
			p.err = &ProtocolError{p.method, m.Error.Code, m.Error.Message}
		}
		p.result = m.Result
		close(p.done)
		return nil
	}
	s := c.sessions[string(m.SessionID)]
	c.mu.Unlock()
	switch {
	case broken != nil:
	case s != nil:
		s.onEvent(string(m.Method), m.Params)
	case m.SessionID == "":
		onEvent(string(m.Method), m.Params)
	}
	return nil
}

// write sends what is queued.
func (c *Conn) write() {
	for {
		select {
		case m := <-c.queue:
			if err := c.t.Write(context.Background(), m); err != nil {
				c.Fail(fmt.Errorf("%w: writing: %w", ErrClosed, err)) // it may be noticed here first
				return
			}
		case <-c.done:
			return
		}
	}
}

// Done is closed when the connection ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Fail ends the connection and everything that waits on it. The first reason
// stays.
func (c *Conn) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	for _, p := range c.pending {
		close(p.done)
	}
	c.pending = map[int64]*Pending{}
	close(c.done)
}

// Session is one attached target; the zero ID is the browser itself.
type Session struct {
	conn *Conn
	id   string
	// onEvent runs on the reading goroutine and must not block.
	onEvent func(method string, params []byte)
	under   *Session // whose end is this one's, too; nil: it is forgotten by itself
	theirs  bool     // of a person's Chrome and perhaps none of our pages': no stop holds it
}

// ID is Chrome's name for the session.
func (s *Session) ID() string { return s.id }

// Theirs reports that it is of a person's Chrome and perhaps of none of our pages.
func (s *Session) Theirs() bool { return s.theirs }

// Sessions returns the sessions that are known.
func (c *Conn) Sessions() []*Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.sessions))
}

// Open makes the session known, so that its events have a place to go.
func (c *Conn) Open(id string, onEvent func(string, []byte)) *Session {
	s := &Session{conn: c, id: id, onEvent: onEvent}
	c.mu.Lock()
	c.sessions[id] = s
	c.mu.Unlock()
	return s
}

// OpenTheirs is Open for what may be a person's own.
func (c *Conn) OpenTheirs(id string, onEvent func(string, []byte)) *Session {
	s := &Session{conn: c, id: id, onEvent: onEvent, theirs: true}
	c.mu.Lock()
	c.sessions[id] = s
	c.mu.Unlock()
	return s
}

// OpenWorker makes the session of a worker known, which runs under another's page.
func (c *Conn) OpenWorker(under *Session, id string, onEvent func(string, []byte)) *Session {
	s := &Session{conn: c, id: id, onEvent: onEvent, under: under}
	c.mu.Lock()
	c.sessions[id] = s
	c.mu.Unlock()
	return s
}

// Forget drops an ended session, and those of its workers.
func (c *Conn) Forget(id string) {
	c.mu.Lock()
	delete(c.sessions, id)
	for other, s := range c.sessions {
		if s.under != nil && s.under.id == id {
			delete(c.sessions, other)
		}
	}
	c.mu.Unlock()
}

// Abandon ends every wait for a session that ended or crashed: Chrome may never
// answer.
func (c *Conn) Abandon(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, p := range c.pending {
		if p.session == id {
			p.err = &ProtocolError{p.method, 0, "Inspected target navigated or closed"}
			delete(c.pending, n)
			close(p.done)
		}
	}
}

// Root is the session of the browser itself.
func (c *Conn) Root() *Session { return &Session{conn: c} }

// Pending is a command on its way. Its fields are valid after done is closed; both result
// and err empty then mean that the connection ended.
type Pending struct {
	conn    *Conn
	id      int64
	method  string
	session string
	done    chan struct{}
	result  []byte
	err     error // Chrome's refusal, or why there is no answer
}

// ProtocolError is Chrome's refusal of a command.
type ProtocolError struct {
	Method  string
	Code    int64
	Message string
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("%s: %s (%d)", e.Method, e.Message, e.Code)
}

// Send queues a command and returns at once, unless the queue is full: then it
// waits for room until ctx ends. Commands of one goroutine stay in order.
func (s *Session) Send(ctx context.Context, method string, params any) *Pending {
	c := s.conn
	p := &Pending{conn: c, method: method, session: s.id, done: make(chan struct{})}
	refuse := func(err error) *Pending {
		p.err = err
		close(p.done)
		return p
	}
	body, err := jsonv2.Marshal(params, jsonv2.AllowInvalidUTF8(true))
	if err != nil {
		return refuse(fmt.Errorf("%s: encoding: %w", method, err))
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return refuse(c.err)
	}
	c.next++
	p.id = c.next
	c.pending[p.id] = p
	c.mu.Unlock()

	m := &cdproto.Message{ID: p.id, SessionID: target.SessionID(s.id), Method: cdproto.MethodType(method), Params: body}
	select {
	case c.queue <- m:
		return p
	default:
	}
	select {
	case c.queue <- m:
	case <-c.done:
	case <-ctx.Done():
		if c.drop(p) {
			return refuse(ctx.Err())
		}
	}
	return p
}

// drop forgets a command nobody waits for any more; it reports whether the
// command was still open.
func (c *Conn) drop(p *Pending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, open := c.pending[p.id]
	delete(c.pending, p.id)
	return open
}

// Done is closed when the answer is there, or will not come.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Answered reports whether the answer is there.
func (p *Pending) Answered() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Wait returns the raw result of the command, or why there is none.
func (p *Pending) Wait(ctx context.Context) ([]byte, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		select {
		case <-p.done: // what ended the wait, a dialog say, came after the answer
		default:
			p.conn.drop(p)
			return nil, ctx.Err()
		}
	}
	switch {
	case p.err != nil:
		return nil, p.err
	case p.result == nil:
		p.conn.mu.Lock()
		defer p.conn.mu.Unlock()
		if p.conn.err != nil {
			return nil, p.conn.err
		}
		return nil, nil
	}
	return p.result, nil
}

// Reply is a typed pending command.
type Reply[R any] struct{ *Pending }

// Start queues a typed command; see Send.
func Start[P, R any](ctx context.Context, s *Session, cmd cdp.Command[P, R], params P) Reply[R] {
	return Reply[R]{s.Send(ctx, cmd.Method, &params)}
}

// Get waits for the answer and decodes it.
func (r Reply[R]) Get(ctx context.Context) (result R, err error) {
	raw, err := r.Wait(ctx)
	if err != nil || raw == nil {
		return result, err
	}
	if err := jsonv2.Unmarshal(raw, &result, jsonv2.AllowInvalidUTF8(true)); err != nil {
		return result, fmt.Errorf("%s: decoding the answer: %w", r.method, err)
	}
	return result, nil
}

// Do is Start and Get.
func Do[P, R any](ctx context.Context, s *Session, cmd cdp.Command[P, R], params P) (R, error) {
	return Start(ctx, s, cmd, params).Get(ctx)
}
