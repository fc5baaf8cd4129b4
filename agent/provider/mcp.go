package provider

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// Bounds of an MCP server.
const (
	maxMessage  = 16 << 20 // bytes of one message of it
	maxPages    = 64       // of its list
	connectTime = 60 * time.Second
	listTime    = 30 * time.Second
	urlTime     = 5 * time.Minute // for the header of an answer; calls have deadlines of their own
	firstPause  = time.Second     // after a failure, before it is tried again
	lastPause   = time.Minute
)

// server is an MCP server as a provider: a program behind walls, or one at a URL. It is
// started with its first call, and again after it ended; a server that fails is left alone for
// a while, and one call then tries it.
type server struct {
	record *tools.Provider
	start  Starter
	way    *egress.Way
	secret *credentials
	news   func(*server, *tools.ToolManifest) // told what it offers on each connection, and when that changed
	writes paths
	inside paths // the folders in which its programs changed something
	tries  tries // what its programs were refused beside hosts and files
	misses       // of the programs that it starts

	mu      sync.Mutex // above what follows; never held while the server is waited for
	live    *live
	opening chan struct{} // closed when the attempt that is under way ends; nil: none is
	abort   func()        // ends that attempt
	epoch   int           // of the credentials; a connection of an earlier one is none
	failed  *capabilities.Error
	pause   time.Duration
	until   time.Time // no attempt before
	closed  bool
}

// live is one connection to a server.
type live struct {
	ran     atomic.Pointer[capabilities.Ran] // what its program runs in; nil: it has none, or that is not known yet
	wants   atomic.Bool                      // it answered that it wants another credential
	refused atomic.Bool                      // its last answer refused a request
	session *mcp.ClientSession               // set before ready is closed
	process Process                          // nil: it is at a URL
	http    *egress.Transport                // of one at a URL
	way     *egress.Way
	secret  *credentials
	ready   chan struct{}
	gone    chan struct{}

	mu       sync.Mutex
	progress map[string]func(capabilities.Progress) // by token
	calls    map[capabilities.CallID]*asker         // that run now
	looking  bool                                   // it is asked what it offers, or will be
	pause    time.Duration                          // before it is asked again
	words    map[string]string                      // the hash of what it says of each tool
}

func newServer(p *tools.Provider, start Starter, way *egress.Way, secrets *credentials, news func(*server, *tools.ToolManifest)) *server {
	return &server{record: p, start: start, way: way, secret: secrets, news: news}
}

// restart ends the connection that there is, or that is being made; that is no failure. A server
// at a URL is sent another value with the next request, unless it has refused the one before.
func (s *server) restart(why change) {
	s.mu.Lock()
	l := s.live
	s.failed, s.pause = nil, 0
	if why == renewed && s.record.URL != "" && s.opening == nil && (l == nil || !l.wants.Load()) {
		s.mu.Unlock()
		return
	}
	s.epoch++
	if s.opening != nil {
		s.abort()
	}
	s.live = nil
	s.mu.Unlock()
	if l != nil {
		l.end()
	}
}

func (s *server) refused() []egress.Refused { return s.way.Refused() }

func (s *server) moved() map[string]uint64 {
	if s.record.URL != "" { // its requests are told with the calls that make them
		return nil
	}
	return s.way.Moved()
}

func (s *server) changes() map[string]int { return s.inside.all() }

func (s *server) wrote() map[string]int { return s.writes.all() }

func (s *server) tried() map[attempt]int { return s.tries.all() }

func (s *server) denied() map[string]int { return s.writes.all() }

func (s *server) hold(on bool) { s.way.Hold(on) }

// health says whether the server is left alone after a failure.
func (s *server) health() *capabilities.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// One that wants another credential does so until it gets one, whoever tries it meanwhile.
	if s.failed != nil && (time.Now().Before(s.until) || s.failed.Code == capabilities.CodeSecretUnavailable) {
		return s.failed
	}
	return nil
}

// connected returns a connection that works, as far as is known, and makes one if there is
// none. Of several callers one tries, and the others wait for it.
func (s *server) connected(ctx context.Context) (*live, error) {
	for {
		s.mu.Lock()
		switch {
		case s.closed:
			s.mu.Unlock()
			return nil, &capabilities.Error{Code: capabilities.CodeCancelled}
		case s.live != nil:
			l := s.live
			s.mu.Unlock()
			return l, nil
		case s.opening != nil:
			wait := s.opening
			s.mu.Unlock()
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		case s.failed != nil && time.Now().Before(s.until):
			e := s.failed
			s.mu.Unlock()
			return nil, e
		}
		over := make(chan struct{})
		attempt, cancel := context.WithTimeout(context.Background(), connectTime)
		s.opening, s.abort = over, cancel
		epoch := s.epoch
		s.mu.Unlock()
		l, err := s.open(attempt)
		cancel()
		s.mu.Lock()
		s.opening = nil
		if !s.closed && s.epoch != epoch { // what it was started with is not so any more
			s.mu.Unlock()
			close(over)
			if err == nil {
				l.drop()
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			continue
		}
		if err == nil && s.closed {
			go l.drop()
			err = &capabilities.Error{Code: capabilities.CodeCancelled}
		}
		if err != nil {
			s.failLocked(capabilities.AsError(err))
		} else {
			s.live, s.failed, s.pause = l, nil, 0
			go s.watch(l)
		}
		s.mu.Unlock()
		close(over)
		if err != nil {
			return nil, err
		}
	}
}

func (s *server) failLocked(e *capabilities.Error) {
	s.pause = min(max(2*s.pause, firstPause), lastPause)
	s.failed, s.until = e, time.Now().Add(s.pause)
}

// watch takes a connection away when it ends.
func (s *server) watch(l *live) {
	_ = l.session.Wait() // that it ended says it all
	close(l.gone)
	l.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == l {
		s.live = nil
		if !s.closed {
			s.failLocked(l.unavailable(nil))
		}
	}
}

// refused401 ends a connection whose server wants another credential: until one comes nobody is
// sent there.
func (s *server) refused401(l *live) {
	s.mu.Lock()
	if s.live == l {
		s.live = nil
		s.failLocked(l.unavailable(nil))
	}
	s.mu.Unlock()
	l.end()
}

// unavailable words that a server does not answer.
func (l *live) unavailable(cause error) *capabilities.Error {
	if l != nil && l.wants.Load() {
		e := capabilities.Errorf(capabilities.CodeSecretUnavailable, "the MCP server wants a credential, or another one than it has")
		if len(l.secret.want) == 0 {
			return e.WithAction(capabilities.Action{Key: capabilities.ActionGiveSignIn},
				"Add it anew with a sign-in, and sign in then; or with a stored secret in its place.")
		}
		return e.WithHint("Sign in again, or store another secret.")
	}
	text := "The MCP server ended or does not answer."
	if why := egress.Unreached(cause); l != nil && l.http != nil {
		if why == "" && l.refused.Load() {
			why = "Something answers at its address, and does not speak MCP there."
		}
		text = strings.TrimSpace("The MCP server does not answer. " + why)
	}
	e := capabilities.Wrap(capabilities.CodeExecutionFailed, cause, text)
	if l == nil {
		return e
	}
	if hint := triedHint(l.way.Refused()); hint != "" {
		e = e.WithHint(hint)
	}
	if l.process != nil {
		if said := strings.TrimSpace(string(l.secret.withheld().Cut([]byte(l.process.Stderr())))); said != "" {
			return e.WithDetails(map[string]any{"stderr": capabilities.Clip(said, 2048)})
		}
	}
	return e
}

// triedHint names the newest connection that was refused, and the flag that allows it.
func triedHint(refused []egress.Refused) string {
	if len(refused) == 0 {
		return ""
	}
	if r := refused[0]; r.Flag != "" {
		return "It tried " + r.Target + "; allow it with " + r.Flag + "."
	}
	return "It tried " + refused[0].Target + ", which may not be reached: " + refused[0].Why + "."
}

func (l *live) end() {
	if l.process != nil {
		l.process.Kill() // first: a server that reads no more would keep a farewell waiting
	}
	if l.session != nil {
		go func() { // one at a URL is told, if it listens
			_ = l.session.Close()
			if l.http != nil {
				l.http.CloseIdleConnections()
			}
		}()
	}
}

// drop ends a connection that nobody was given.
func (l *live) drop() {
	close(l.gone)
	l.end()
}

// open starts the server and shakes hands with it. Its life is not that of the call for which
// it is started; ctx bounds the attempt.
func (s *server) open(ctx context.Context) (*live, error) {
	l := &live{
		way: s.way, secret: s.secret, ready: make(chan struct{}), gone: make(chan struct{}), progress: map[string]func(capabilities.Progress){},
		calls: map[capabilities.CallID]*asker{},
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "handrail", Version: "1"}, &mcp.ClientOptions{
		// No roots, no sampling, and of questions only those with fields.
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}},
		ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return l.elicit(ctx, r.Params)
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { l.heard(r.Params) },
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			go s.look(l) // the handler must not wait for the server itself
		},
	})
	client.AddReceivingMiddleware(l.noSampling)
	transport, err := s.transport(l)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { // whatever the attempt waits for
		if l.process != nil {
			l.process.Kill()
		}
	})
	defer stop()
	if l.session, err = client.Connect(ctx, transport, nil); err != nil {
		e := l.unavailable(err)
		l.drop()
		return nil, e
	}
	close(l.ready)
	// A server may have changed its words while nobody listened.
	m, err := s.list(ctx, l)
	if err != nil {
		l.drop()
		return nil, err
	}
	if ctx.Err() != nil { // what it was started with was taken back
		l.drop()
		return nil, context.Cause(ctx)
	}
	s.news(s, m)
	return l, nil
}

func (s *server) transport(l *live) (mcp.Transport, error) {
	if s.record.URL != "" {
		at, err := url.Parse(s.record.URL)
		if err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "")
		}
		l.http = s.way.Transport(egress.TransportOptions{Origin: at, Credentials: s.secret.header, MaxBytes: maxMessage, HeaderTimeout: urlTime})
		return &mcp.StreamableClientTransport{
			Endpoint: s.record.URL, HTTPClient: onlyTo(at, heard401{l.http, at, l}), MaxRetries: 2, MaxEventSize: maxMessage,
		}, nil
	}
	program := Program{
		Argv: s.record.Command, Env: s.secret.env(), Read: s.record.Read, Write: s.record.Write, Net: s.way.For(l.reach), Wrote: s.writes.add,
		Denied: s.tries.add, Ran: func(r capabilities.Ran) { l.ran.Store(&r) }, Changed: s.inside.add, Missed: s.teller(),
	}
	p, err := s.start.Start(context.Background(), program)
	if err != nil {
		return nil, err
	}
	l.process = p
	return &mcp.IOTransport{Reader: io.NopCloser(p.Stdout()), Writer: p.Stdin(), MaxLineLength: maxMessage}, nil
}

// lookPause is how long a server that says that its list changed is not asked at first; each time
// it is twice as long: one that says so all the time keeps nobody busy.
const lookPause = time.Second

// look asks the server what it offers after it said that this changed.
func (s *server) look(l *live) {
	l.mu.Lock()
	looking := l.looking
	l.looking = true
	l.mu.Unlock()
	if looking {
		return
	}
	select {
	case <-l.ready: // it may say so before it has introduced itself
	case <-l.gone:
		return
	}
	l.mu.Lock()
	l.pause = min(max(2*l.pause, lookPause), lastPause)
	pause := l.pause
	l.mu.Unlock()
	select {
	case <-time.After(pause):
	case <-l.gone:
		return
	}
	l.mu.Lock()
	l.looking = false // what changes from here on is asked about again
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), listTime)
	defer cancel()
	if m, err := s.list(ctx, l); err == nil {
		s.news(s, m)
	}
}

func (s *server) manifest(ctx context.Context) (*tools.ToolManifest, error) {
	l, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	return s.list(ctx, l)
}

// list reads all pages of the server's tools.
func (s *server) list(ctx context.Context, l *live) (*tools.ToolManifest, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	m := &tools.ToolManifest{Provider: s.record.Name}
	if info := l.session.InitializeResult(); info != nil && info.ServerInfo != nil {
		m.Version = s.secret.said(info.ServerInfo.Version, 64)
	}
	cursor, size, origin := "", 0, tools.OriginOf(s.record, nil)
	words := map[string]string{}
	for page := 0; ; page++ {
		r, err := l.session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, l.unavailable(err)
		}
		for _, t := range r.Tools {
			one, n, err := remoteOf(t, s.secret)
			if err != nil {
				return nil, err
			}
			if one, err = s.secret.free(one); err != nil {
				return nil, err
			}
			one.Origin = origin
			if size += n; size > maxListed {
				return nil, capabilities.Errorf(capabilities.CodeResultTooLarge, "the server's list has more than %d bytes", maxListed)
			}
			words[one.Name] = one.Hash()
			m.Tools = append(m.Tools, one)
		}
		if len(m.Tools) > tools.MaxTools || page == maxPages {
			return nil, capabilities.Errorf(capabilities.CodeResultTooLarge, "the server lists more than %d tools", tools.MaxTools)
		}
		if cursor = r.NextCursor; cursor == "" {
			l.mu.Lock()
			l.words = words
			l.mu.Unlock()
			return m, nil
		}
	}
}

// maxListed bounds what a server says of its tools together.
const maxListed = 4 << 20

// remoteOf returns a tool in its server's words, and how many bytes they are. One that has too
// many keeps its name alone, and what is made of it is a refusal.
func remoteOf(t *mcp.Tool, secret *credentials) (tools.RemoteTool, int, error) {
	one := tools.RemoteTool{Name: t.Name, Title: t.Title, Description: t.Description}
	for _, s := range []struct {
		from any
		to   *json.RawMessage
	}{{t.InputSchema, &one.Input}, {t.OutputSchema, &one.Output}} {
		if s.from == nil {
			continue
		}
		data, err := json.Marshal(s.from)
		if err != nil {
			return one, 0, capabilities.AsError(err)
		}
		*s.to = data
	}
	if a := t.Annotations; a != nil {
		one.ReadOnly, one.Destructive, one.Idempotent, one.OpenWorld = &a.ReadOnlyHint, a.DestructiveHint, &a.IdempotentHint, a.OpenWorldHint
		if one.Title == "" {
			one.Title = a.Title
		}
	}
	size := len(one.Name) + len(one.Title) + len(one.Description) + len(one.Input) + len(one.Output)
	if size > tools.MaxToolBytes {
		return tools.RemoteTool{Name: capabilities.Clip(secret.withheld().Text(t.Name), 256), Input: json.RawMessage(`"too large"`)}, size, nil
	}
	return one, size, nil
}

// metaTrace is the field of MCP's _meta, and headerTrace the header, that says where a request
// stands in a trace: https://www.w3.org/TR/trace-context/#traceparent-header
const (
	metaTrace   = "traceparent"
	headerTrace = "Traceparent"
)

func (s *server) call(ctx context.Context, c call) (capabilities.Output, error) {
	l, err := s.connected(ctx)
	if err != nil {
		return capabilities.Output{}, err
	}
	l.mu.Lock()
	same := l.words[c.upstream] == c.hash
	l.mu.Unlock()
	if !same {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNodeNotReady,
			"the server says something else of this tool than was approved").
			WithAction(capabilities.Action{Key: capabilities.ActionReviewTool, Tool: c.inv.Capability.Tool()}, "An admin has to look at the change.")
	}
	token := string(c.id)
	l.listen(token, c.progress)
	defer l.listen(token, nil)
	ctx, one, over := l.asks(egress.WithTold(ctx, c.reached), c)
	defer over()
	if l.process != nil {
		c.ran(s.record)
	}
	if ran := l.ran.Load(); ran != nil { // it has answered by now, from behind its walls
		c.inv.ReportRan(*ran)
	}
	if at, err := url.Parse(s.record.URL); err == nil && l.http != nil {
		one.on = newOnward(s.way, one.reach, at, maxMessage, urlTime)
	}
	params := &mcp.CallToolParams{Name: c.upstream, Arguments: c.args}
	if c.inv.Trace != "" { // SEP-414
		params.Meta = mcp.Meta{metaTrace: c.inv.Trace}
	}
	params.SetProgressToken(token)
	type answer struct {
		result *mcp.CallToolResult
		err    error
	}
	answered := make(chan answer, 1)
	go func() { // beside the call's end: a server that reads no more keeps nobody
		r, err := l.session.CallTool(ctx, params)
		answered <- answer{r, err}
	}()
	var a answer
	select {
	case a = <-answered:
	case <-ctx.Done():
	}
	switch {
	case ctx.Err() != nil: // the server was told
		return capabilities.Output{Effect: capabilities.EffectUnverifiable}, context.Cause(ctx)
	case a.err == nil:
		out, err := resultOf(a.result, s.secret)
		if why := one.because(err); why != nil {
			err = why
		}
		return out, err
	}
	err = a.err
	if l.wants.Load() {
		s.refused401(l)
		return capabilities.Output{}, l.unavailable(err)
	}
	if why := one.because(err); why != nil && one.led.Load() != nil {
		return capabilities.Output{}, why
	} else if why != nil { // whatever it did up to there
		return capabilities.Output{Effect: capabilities.EffectUnverifiable}, why
	}
	var refused *jsonrpc.Error
	if errors.As(err, &refused) && refused.Code != rejectedByTransport {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeExecutionFailed, "the server: %s",
			s.secret.said(refused.Message, maxSaid))
	}
	e := l.unavailable(err)
	var here *capabilities.Error
	// Our own error is one of before the request left, and a server that knows no such session, or
	// wants another credential, took none.
	if errors.As(err, &here) || errors.Is(err, mcp.ErrSessionMissing) || e.Code == capabilities.CodeSecretUnavailable {
		return capabilities.Output{}, e
	}
	return capabilities.Output{Effect: capabilities.EffectUnverifiable}, c.unanswered(e)
}

// rejectedByTransport is the code by which the library says that a request or its answer did not
// come through; no server said so.
const rejectedByTransport = -32005

// maxSaid bounds a server's own words in a message of ours, in bytes.
const maxSaid = 500

func (l *live) listen(token string, progress func(capabilities.Progress)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if progress == nil {
		delete(l.progress, token)
		return
	}
	l.progress[token] = progress
}

func (l *live) heard(p *mcp.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	l.mu.Lock()
	progress := l.progress[token]
	l.mu.Unlock()
	if progress != nil {
		progress(capabilities.Progress{Done: p.Progress, Total: p.Total, Message: l.secret.said(p.Message, 200)})
	}
}

func (s *server) close() {
	s.mu.Lock()
	s.closed = true
	if s.opening != nil {
		s.abort()
	}
	l := s.live
	s.live = nil
	s.mu.Unlock()
	if l != nil {
		l.end()
	}
}
