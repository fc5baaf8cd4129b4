package browser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// conn speaks the DevTools protocol with a Chrome: "flat" sessions, named in each
// message. The transport, a pipe or a WebSocket, is chromedp's, and the protocol's types
// are cdproto's; what lies between is our own.
//
// For actions are pipelined: start puts a command in the queue in the caller's order and
// wait collects its answer, so that a click's hit test, three input events and the
// observer of their outcome cost one trip, not five. chromedp's own browser waits for each
// answer, and drops what sessions say that it did not open itself, such as those of
// frames of other sites, of workers and of popups that are held before their first script.
type conn struct {
	t     chromedp.Transport
	queue chan *cdproto.Message
	done  chan struct{} // closed when the transport ended; err says why

	mu       sync.Mutex
	next     int64
	pending  map[int64]*pending
	sessions map[string]*session
	err      error
}

var (
	errConnClosed = errors.New("the browser closed its connection")
	errMessage    = errors.New("malformed protocol message")
)

// newConn makes a connection; run has to be started for it to live. It never closes the
// transport: who opened that does.
func newConn(t chromedp.Transport) *conn {
	return &conn{
		t: t, queue: make(chan *cdproto.Message, 256), done: make(chan struct{}),
		pending: map[int64]*pending{}, sessions: map[string]*session{},
	}
}

// run reads until the transport ends. onEvent is called for events of no session, on
// the reading goroutine: it must not block.
func (c *conn) run(onEvent func(method string, params []byte)) error {
	var writer sync.WaitGroup
	writer.Go(c.write)
	var err error
	for err == nil {
		m := new(cdproto.Message) // its parts are the receiver's
		err = c.receive(m, c.t.Read(context.Background(), m), onEvent)
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = errConnClosed
	}
	c.fail(err)
	writer.Wait()
	return err
}

// receive hands one message to whom it is for.
//
// A message that cannot be decoded is one command's misfortune if its number was read, and
// an event that never was if its name was: pages can make such ones, for example by an
// object whose names differ in half a surrogate pair only, and the browser is not only
// theirs. One without either ends the connection.
func (c *conn) receive(m *cdproto.Message, broken error, onEvent func(string, []byte)) error {
	if m.ID == 0 && m.Method == "" {
		return cmp.Or(broken, errMessage)
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
			p.err = fmt.Errorf("%s: %w: %w", p.method, errMessage, broken)
		case m.Error != nil:
			p.err = &protocolError{p.method, m.Error.Code, m.Error.Message}
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
func (c *conn) write() {
	for {
		select {
		case m := <-c.queue:
			if err := c.t.Write(context.Background(), m); err != nil {
				c.fail(fmt.Errorf("%w: writing: %w", errConnClosed, err)) // it may be noticed here first
				return
			}
		case <-c.done:
			return
		}
	}
}

// fail ends the connection and everything that waits on it. The first reason
// stays.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	for _, p := range c.pending {
		close(p.done)
	}
	c.pending = map[int64]*pending{}
	close(c.done)
}

// session is one attached target; the zero ID is the browser itself.
type session struct {
	conn *conn
	id   string
	// onEvent runs on the reading goroutine and must not block.
	onEvent func(method string, params []byte)
	under   *session // whose end is this one's, too; nil: it is forgotten by itself
	theirs  bool     // of a person's Chrome and perhaps none of our pages': no stop holds it
}

// open makes the session known, so that its events have a place to go.
func (c *conn) open(id string, onEvent func(string, []byte)) *session {
	s := &session{conn: c, id: id, onEvent: onEvent}
	c.mu.Lock()
	c.sessions[id] = s
	c.mu.Unlock()
	return s
}

// openTheirs is open for what may be a person's own.
func (c *conn) openTheirs(id string, onEvent func(string, []byte)) *session {
	s := &session{conn: c, id: id, onEvent: onEvent, theirs: true}
	c.mu.Lock()
	c.sessions[id] = s
	c.mu.Unlock()
	return s
}

// openWorker makes the session of a worker known, which runs under another's page.
func (c *conn) openWorker(under *session, id string, onEvent func(string, []byte)) *session {
	s := &session{conn: c, id: id, onEvent: onEvent, under: under}
	c.mu.Lock()
	c.sessions[id] = s
	c.mu.Unlock()
	return s
}

// forget drops an ended session, and those of its workers.
func (c *conn) forget(id string) {
	c.mu.Lock()
	delete(c.sessions, id)
	for other, s := range c.sessions {
		if s.under != nil && s.under.id == id {
			delete(c.sessions, other)
		}
	}
	c.mu.Unlock()
}

// abandon ends every wait for a session that ended or crashed: Chrome may never
// answer.
func (c *conn) abandon(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, p := range c.pending {
		if p.session == id {
			p.err = &protocolError{p.method, 0, "Inspected target navigated or closed"}
			delete(c.pending, n)
			close(p.done)
		}
	}
}

// root is the session of the browser itself.
func (c *conn) root() *session { return &session{conn: c} }

// pending is a command on its way. Its fields are valid after done is closed; both result
// and err empty then mean that the connection ended.
type pending struct {
	conn    *conn
	id      int64
	method  string
	session string
	done    chan struct{}
	result  []byte
	err     error // Chrome's refusal, or why there is no answer
}

// protocolError is Chrome's refusal of a command.
type protocolError struct {
	method  string
	code    int64
	message string
}

func (e *protocolError) Error() string {
	return fmt.Sprintf("%s: %s (%d)", e.method, e.message, e.code)
}

// send queues a command and returns at once, unless the queue is full: then it
// waits for room until ctx ends. Commands of one goroutine stay in order.
func (s *session) send(ctx context.Context, method string, params any) *pending {
	c := s.conn
	p := &pending{conn: c, method: method, session: s.id, done: make(chan struct{})}
	refuse := func(err error) *pending {
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
func (c *conn) drop(p *pending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, open := c.pending[p.id]
	delete(c.pending, p.id)
	return open
}

// answered reports whether the answer is there.
func (p *pending) answered() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait returns the raw result of the command, or why there is none.
func (p *pending) wait(ctx context.Context) ([]byte, error) {
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

// reply is a typed pending command.
type reply[R any] struct{ *pending }

// start queues a typed command; see send.
func start[P, R any](ctx context.Context, s *session, cmd cdp.Command[P, R], params P) reply[R] {
	return reply[R]{s.send(ctx, cmd.Method, &params)}
}

// get waits for the answer and decodes it.
func (r reply[R]) get(ctx context.Context) (result R, err error) {
	raw, err := r.wait(ctx)
	if err != nil || raw == nil {
		return result, err
	}
	if err := jsonv2.Unmarshal(raw, &result, jsonv2.AllowInvalidUTF8(true)); err != nil {
		return result, fmt.Errorf("%s: decoding the answer: %w", r.method, err)
	}
	return result, nil
}

// do is start and get.
func do[P, R any](ctx context.Context, s *session, cmd cdp.Command[P, R], params P) (R, error) {
	return start(ctx, s, cmd, params).get(ctx)
}

// ptr returns optional booleans of the protocol their address.
func ptr[T any](v T) *T { return &v }
