package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
)

// conn speaks the DevTools protocol over Chrome's debugging pipe: JSON messages,
// each ended by a zero byte, both ways; "flat" sessions named in each message.
//
// It is our own because actions are pipelined: start puts a command in the queue
// in the caller's order and wait collects its answer, so that a click's hit test,
// three input events and the observer of their outcome cost one trip, not five.
// The protocol's types are cdproto's.
type conn struct {
	w     io.Writer
	queue chan []byte
	done  chan struct{} // closed when the pipe ended; err says why

	mu       sync.Mutex
	next     int64
	pending  map[int64]*pending
	sessions map[string]*session
	err      error
}

// maxMessage bounds one message from Chrome before it is held in memory: a
// full-page image in base64 is the largest there is.
const maxMessage = 96 << 20

var errConnClosed = errors.New("the browser closed its pipe")

// newConn makes a connection; run has to be started for it to live.
func newConn(w io.Writer) *conn {
	return &conn{
		w: w, queue: make(chan []byte, 256), done: make(chan struct{}),
		pending: map[int64]*pending{}, sessions: map[string]*session{},
	}
}

// run reads until the pipe ends. onEvent is called for events of no session, on
// the reading goroutine: it must not block.
func (c *conn) run(r io.Reader, onEvent func(method string, params []byte)) error {
	var writer sync.WaitGroup
	writer.Go(c.write)
	in := messages{r: r}
	var err error
	for err == nil {
		var b []byte
		if b, err = in.next(); err == nil && len(b) > 0 {
			err = c.take(b, onEvent)
		}
	}
	if err == io.EOF {
		err = errConnClosed
	}
	c.fail(err)
	writer.Wait()
	return err
}

// messages takes the stream apart. Nearly all messages fit into the buffer; one that
// does not, an image or a body, is read into room of its own, as large as the last
// such message from the start, for images mostly come in rows.
type messages struct {
	r          io.Reader
	buf        [64 << 10]byte
	start, end int // what of buf is not given yet
	last       int // length of the last message that did not fit
}

// keptRoom bounds the room that is made because of the last message alone.
const keptRoom = 8 << 20

// next returns the message up to the zero byte, which it drops. The bytes are the
// caller's. It fails as the reader does, also within a message.
func (m *messages) next() ([]byte, error) {
	for seen := m.start; ; {
		if n := bytes.IndexByte(m.buf[seen:m.end], 0); n >= 0 {
			b := bytes.Clone(m.buf[m.start : seen+n])
			m.start = seen + n + 1
			return b, nil
		}
		m.end = copy(m.buf[:], m.buf[m.start:m.end])
		m.start, seen = 0, m.end
		if m.end == len(m.buf) {
			return m.large()
		}
		n, err := m.r.Read(m.buf[m.end:])
		if m.end += n; n == 0 && err != nil {
			return nil, err
		}
	}
}

// large goes on with a message whose beginning fills the buffer.
func (m *messages) large() ([]byte, error) {
	whole := append(make([]byte, 0, max(4*len(m.buf), min(m.last+1, keptRoom))), m.buf[:]...)
	m.end = 0
	for {
		if len(whole) == cap(whole) {
			whole = slices.Grow(whole, len(whole))
		}
		part := whole[len(whole):min(cap(whole), len(whole)+len(m.buf))] // what follows the message has to fit into buf
		n, err := m.r.Read(part)
		at := bytes.IndexByte(part[:n], 0)
		if at >= 0 {
			m.end = copy(m.buf[:], part[at+1:n])
			n = at
		}
		whole = whole[:len(whole)+n]
		switch {
		case len(whole) > maxMessage:
			return nil, fmt.Errorf("the browser sent a message larger than %d bytes", maxMessage)
		case at >= 0:
			m.last = len(whole)
			return whole, nil
		case n == 0 && err != nil:
			return nil, err
		}
	}
}

// take hands one message to whom it is for.
func (c *conn) take(b []byte, onEvent func(string, []byte)) error {
	m, err := scanMessage(b)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if m.id != 0 {
		p := c.pending[m.id]
		delete(c.pending, m.id)
		c.mu.Unlock()
		if p != nil {
			p.result, p.fault = m.result, m.fault
			close(p.done)
		}
		return nil
	}
	s := c.sessions[m.session]
	c.mu.Unlock()
	switch {
	case s != nil:
		s.onEvent(m.method, m.result)
	case m.session == "":
		onEvent(m.method, m.result)
	}
	return nil
}

// write sends what is queued; several waiting messages go in one write.
func (c *conn) write() {
	for {
		var b []byte
		select {
		case b = <-c.queue:
		case <-c.done:
			return
		}
		for more := true; more && len(b) < 64<<10; {
			select {
			case next := <-c.queue:
				b = append(b, next...)
			default:
				more = false
			}
		}
		if _, err := c.w.Write(b); err != nil {
			c.fail(fmt.Errorf("%w: writing: %w", errConnClosed, err)) // it may be noticed here first
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

// pending is a command on its way. Its fields are valid after done is closed;
// both empty then means that the connection ended.
type pending struct {
	conn          *conn
	id            int64
	method        string
	session       string
	done          chan struct{}
	result, fault []byte
	err           error // it was never sent
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

	b := make([]byte, 0, len(body)+len(method)+len(s.id)+64)
	b = append(b, `{"id":`...)
	b = strconv.AppendInt(b, p.id, 10)
	b = append(append(append(b, `,"method":"`...), method...), `","params":`...)
	b = append(b, body...)
	if s.id != "" {
		b = append(append(append(b, `,"sessionId":"`...), s.id...), '"')
	}
	b = append(b, '}', 0)
	select {
	case c.queue <- b:
		return p
	default:
	}
	select {
	case c.queue <- b:
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
	case p.fault != nil:
		var e struct {
			Code    int64  `json:"code"`
			Message string `json:"message"`
		}
		if err := jsonv2.Unmarshal(p.fault, &e, jsonv2.AllowInvalidUTF8(true)); err != nil {
			return nil, fmt.Errorf("%s: %w", p.method, errMessage)
		}
		return nil, &protocolError{p.method, e.Code, e.Message}
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
