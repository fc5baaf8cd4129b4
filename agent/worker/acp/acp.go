package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// Bounds of a connection.
const (
	maxLine     = 4 << 20  // of a message of the editor's, in bytes
	maxPrompt   = 64 << 10 // of a person's message, in bytes
	maxSessions = 64
)

// Session is one conversation with a worker. Run is called by one goroutine at a time.
type Session interface {
	// Run does what a message wants, and tells the session's editor what the person is to see. It
	// reports whether the turn was cut off at a bound.
	Run(ctx context.Context, message string) (cut bool, err error)
	Close()
}

// Options of New.
type Options struct {
	In      io.Reader                                             // required; one message a line
	Out     io.Writer                                             // required
	Log     io.Writer                                             // required; words for a person
	Open    func(ctx context.Context, e *Editor) (Session, error) // required; begins a conversation
	Program string                                                // version of this program
}

// Server is one connection with an editor. Run may be called once.
type Server struct {
	o    Options
	work sync.WaitGroup // requests under way

	outMu sync.Mutex // guards writes to o.Out

	mu       sync.Mutex // guards what follows
	greeted  bool       // initialize came
	sessions map[string]*session
	opening  int
	asked    map[string]chan received // requests to the editor, by ID
	lastAsk  int
}

// session is a conversation as the connection knows it.
type session struct {
	id  string
	cwd string
	is  Session

	// Of the prompt that runs; end is nil if none does. The server's mu guards them.
	end     context.CancelCauseFunc
	request string
	closed  bool
}

var (
	errCancelled = errors.New("the editor cancelled it")
	errGone      = errors.New("the editor is gone")
	errRefused   = errors.New("the editor answers with an error")
)

// New makes a server. It reads nothing before Run.
func New(o Options) (*Server, error) {
	if o.In == nil || o.Out == nil || o.Log == nil || o.Open == nil {
		return nil, errors.New("acp: Options.In, Out, Log and Open are required")
	}
	return &Server{o: o, sessions: map[string]*session{}, asked: map[string]chan received{}}, nil
}

// Run serves until the input ends or ctx does, and ends what runs then. A read that waits for the
// editor ends with the input alone.
func (s *Server) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer s.close(end)
	lines, failed := make(chan []byte), make(chan error, 1)
	go func() {
		defer close(lines)
		scan := bufio.NewScanner(s.o.In)
		scan.Buffer(nil, maxLine)
		for scan.Scan() {
			select {
			case lines <- slices.Clone(scan.Bytes()):
			case <-ctx.Done():
				failed <- nil // the end of lines may be seen first
				return
			}
		}
		failed <- scan.Err()
	}()
	for {
		select {
		case line, ok := <-lines:
			if ok {
				s.receive(ctx, line)
				continue
			}
			err := <-failed
			if errors.Is(err, bufio.ErrTooLong) {
				err = capabilities.Errorf(capabilities.CodeBodyTooLarge, "a message of the editor has at most %d bytes", maxLine)
			}
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// close ends what runs and every conversation.
func (s *Server) close(end context.CancelCauseFunc) {
	end(errGone)
	s.work.Wait()
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.sessions))
	s.sessions = map[string]*session{}
	s.mu.Unlock()
	for _, one := range all {
		one.is.Close()
	}
}

// receive takes one message. It waits for nothing: the next may cancel what this one began.
func (s *Server) receive(ctx context.Context, line []byte) {
	var r received
	if err := json.Unmarshal(line, &r); err != nil {
		s.fail(json.RawMessage("null"), &fault{Code: codeParse, Message: "the line is no message of JSON-RPC"})
		return
	}
	switch {
	case r.JSONRPC != "2.0":
		s.fail(idOf(r.ID), &fault{Code: codeRequest, Message: "jsonrpc must be 2.0"})
	case r.Method == "":
		s.heard(r)
	case !r.asked():
		s.notified(r)
	default:
		if f := s.request(ctx, r); f != nil {
			s.fail(r.ID, f)
		}
	}
}

func idOf(id json.RawMessage) json.RawMessage {
	if len(id) == 0 {
		return json.RawMessage("null")
	}
	return id
}

// heard hands an answer of the editor to what waits for it.
func (s *Server) heard(r received) {
	var id string
	_ = json.Unmarshal(r.ID, &id)
	s.mu.Lock()
	waits := s.asked[id]
	delete(s.asked, id)
	s.mu.Unlock()
	if waits != nil {
		waits <- r // it has room for one
	}
}

// notified takes a message that wants no answer. Those that are not known say nothing here.
func (s *Server) notified(r received) {
	switch r.Method {
	case "session/cancel":
		var in sessionID
		if json.Unmarshal(r.Params, &in) == nil {
			s.cancel(func(one *session) bool { return one.id == in.Session })
		}
	case "$/cancel_request":
		var in cancelRequest
		if json.Unmarshal(r.Params, &in) == nil && len(in.Request) > 0 {
			s.cancel(func(one *session) bool { return one.request == string(in.Request) })
		}
	}
}

func (s *Server) cancel(which func(*session) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.sessions {
		if one.end != nil && which(one) {
			one.end(errCancelled)
		}
	}
}

// request begins to answer a request; a fault is its answer.
func (s *Server) request(ctx context.Context, r received) *fault {
	s.mu.Lock()
	greeted := s.greeted
	s.greeted = greeted || r.Method == "initialize"
	s.mu.Unlock()
	if !greeted && r.Method != "initialize" {
		return &fault{Code: codeRequest, Message: "the first request is initialize"}
	}
	switch r.Method {
	case "initialize":
		s.send(message{ID: r.ID, Result: initialized{
			ProtocolVersion:   Version,
			AgentCapabilities: abilities{},
			AuthMethods:       []empty{},
			AgentInfo:         &implementation{"handrail", "Handrail", s.o.Program},
		}})
		return nil
	case "session/new":
		return s.open(ctx, r)
	case "session/prompt":
		return s.prompt(ctx, r)
	case "session/close":
		return s.shut(r)
	}
	return &fault{Code: codeMethod, Message: "there is no such method"}
}

// params reads the parameters of a request.
func params(r received, into any) *fault {
	if err := json.Unmarshal(r.Params, into); err != nil {
		return &fault{Code: codeParams, Message: "the parameters cannot be read"}
	}
	return nil
}

// open begins a session.
func (s *Server) open(ctx context.Context, r received) *fault {
	var in newSession
	if f := params(r, &in); f != nil {
		return f
	}
	s.mu.Lock()
	full := len(s.sessions)+s.opening >= maxSessions
	if !full {
		s.opening++
	}
	s.mu.Unlock()
	if full {
		return &fault{Code: codeRequest, Message: fmt.Sprintf("there are at most %d sessions: close one", maxSessions)}
	}
	if len(in.MCPServers) > 0 {
		fmt.Fprintf(s.o.Log, "The editor names %d MCP servers, which this worker does not use: it calls tools through its gateway alone.\n",
			len(in.MCPServers))
	}
	s.work.Go(func() {
		one := &session{id: newSessionID(), cwd: in.CWD}
		is, err := s.o.Open(ctx, &Editor{server: s, session: one.id})
		one.is = is
		s.mu.Lock()
		s.opening--
		if err == nil {
			s.sessions[one.id] = one
		}
		s.mu.Unlock()
		if err != nil {
			s.fail(r.ID, faultOf(err))
			return
		}
		s.send(message{ID: r.ID, Result: sessionID{one.id}})
		s.notify(one.id, commandsUpdate())
	})
	return nil
}

// prompt begins a turn.
func (s *Server) prompt(ctx context.Context, r received) *fault {
	var in prompt
	if f := params(r, &in); f != nil {
		return f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.sessions[in.Session]
	switch {
	case one == nil:
		return noSession()
	case one.end != nil:
		return &fault{Code: codeRequest, Message: "a prompt of this session runs already"}
	}
	text, f := in.message(one.cwd)
	if f != nil {
		return f
	}
	turn, end := context.WithCancelCause(ctx)
	one.end, one.request = end, string(r.ID)
	s.work.Go(func() {
		defer end(nil)
		cut, err := one.is.Run(turn, text)
		cause := context.Cause(turn)
		s.mu.Lock()
		one.end, one.request = nil, ""
		closed := one.closed
		s.mu.Unlock()
		if closed {
			one.is.Close()
		}
		switch {
		case errors.Is(cause, errCancelled):
			s.send(message{ID: r.ID, Result: prompted{stopCancelled}})
		case err != nil:
			s.fail(r.ID, faultOf(err))
		case cut:
			s.send(message{ID: r.ID, Result: prompted{stopBound}})
		default:
			s.send(message{ID: r.ID, Result: prompted{stopEnd}})
		}
	})
	return nil
}

// shut ends a session, and the prompt that it runs.
func (s *Server) shut(r received) *fault {
	var in sessionID
	if f := params(r, &in); f != nil {
		return f
	}
	s.mu.Lock()
	one := s.sessions[in.Session]
	delete(s.sessions, in.Session)
	runs := one != nil && one.end != nil
	if runs {
		one.closed = true
		one.end(errCancelled)
	}
	s.mu.Unlock()
	if one == nil {
		return noSession()
	}
	if !runs {
		one.is.Close()
	}
	s.send(message{ID: r.ID, Result: empty{}})
	return nil
}

func noSession() *fault { return &fault{Code: codeNotFound, Message: "there is no such session"} }

// ask puts a request to the editor and waits for its answer.
func (s *Server) ask(ctx context.Context, method string, in, out any) error {
	waits := make(chan received, 1)
	s.mu.Lock()
	s.lastAsk++
	id := "handrail-" + strconv.Itoa(s.lastAsk)
	s.asked[id] = waits
	s.mu.Unlock()
	s.send(message{ID: json.RawMessage(strconv.Quote(id)), Method: method, Params: in})
	select {
	case r := <-waits:
		if r.Error != nil {
			return errRefused
		}
		return json.Unmarshal(r.Result, out)
	case <-ctx.Done():
		s.mu.Lock()
		delete(s.asked, id)
		s.mu.Unlock()
		return context.Cause(ctx)
	}
}

func (s *Server) fail(id json.RawMessage, f *fault) { s.send(message{ID: id, Error: f}) }

func (s *Server) notify(session string, update any) {
	s.send(message{Method: "session/update", Params: notification{session, update}})
}

// send writes one message. One that cannot be written is lost with the editor.
func (s *Server) send(m message) {
	m.JSONRPC = "2.0"
	line, err := json.Marshal(m)
	if err != nil {
		line, _ = json.Marshal(message{JSONRPC: "2.0", ID: m.ID, Error: faultOf(err)})
	}
	s.outMu.Lock()
	defer s.outMu.Unlock()
	_, _ = s.o.Out.Write(append(line, '\n'))
}
