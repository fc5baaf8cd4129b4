package bridge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/gateway/client"
)

// The stdio bridge relays JSON-RPC messages as they are; it understands only
// what the transports themselves need: which message is a request, the protocol
// version, sessions, and cancellation. So every protocol revision passes, also
// ones newer than this program.
//
//	stdin line ──POST──▶ /mcp/l/{lane} ──JSON or event stream──▶ stdout line
//	                     GET /mcp/l/{lane} (revisions with sessions) ──▶ stdout line
const (
	maxMessage   = 4 << 20 // of one line of standard input; the gateway takes 1 MiB
	maxInFlight  = 256
	drainTimeout = 10 * time.Second // for running calls after standard input ends

	headerProtocol = "Mcp-Protocol-Version"
	headerSession  = "Mcp-Session-Id"

	// From this revision on there are no sessions; the method and name of a request
	// are repeated in headers, and closing its response stream cancels it.
	revisionStateless = "2026-07-28"
	metaProtocol      = "io.modelcontextprotocol/protocolVersion"
	metaRequestID     = "dev.handrail/request_id"
)

// Gateway is what a bridge asks of one; gateway/client implements it. A bridge calls it from
// several goroutines and closes nothing.
type Gateway interface {
	Address() string
	Send(*http.Request) (*http.Response, error)
	Unreachable(ctx context.Context, err error) error
	Do(ctx context.Context, method, path string, in, out any) error
}

// Options says between which ends a bridge relays.
type Options struct {
	Connect func() (Gateway, error) // required; finds the gateway, again after it moved
	Told    func(error) error       // required; adds to an error of Unreachable what a person can do
	Path    string                  // required; path and query of the endpoint
	In      io.Reader               // required; one JSON-RPC message a line
	Out     io.Writer               // required
	Log     io.Writer               // required; words for a person
}

// Bridge is one conversation. Run may be called once.
type Bridge struct {
	o    Options
	work sync.WaitGroup // requests under way
	side sync.WaitGroup // the standing stream

	outMu sync.Mutex // guards writes to o.Out

	renewMu sync.Mutex // held while a lost session is opened anew

	mu          sync.Mutex // guards what follows
	gateway     Gateway
	running     map[string]context.CancelFunc // by request ID as JSON
	named       map[string]string             // of those, Handrail's own request IDs
	version     string                        // negotiated; "" before initialize
	session     string
	initialize  []byte // the client's own initialize, to open the session anew
	initialized []byte
	standing    bool // the standing stream was started
}

// New makes a bridge. It connects to nothing and reads nothing before Run.
func New(o Options) *Bridge {
	return &Bridge{o: o, running: map[string]context.CancelFunc{}, named: map[string]string{}}
}

// message is what the bridge reads of a JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string                     `json:"name"`
		URI       string                     `json:"uri"`
		TaskID    string                     `json:"taskId"`
		RequestID json.RawMessage            `json:"requestId"`
		Meta      map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
}

func (m message) isRequest() bool { return m.Method != "" && len(m.ID) > 0 && string(m.ID) != "null" }

// version is the revision the message itself names, as newer ones do.
func (m message) version() string {
	var v string
	_ = json.Unmarshal(m.Params.Meta[metaProtocol], &v)
	return v
}

// named is the request ID by which a call is known to Handrail, if it has one.
func (m message) named() string {
	var id string
	_ = json.Unmarshal(m.Params.Meta[metaRequestID], &id)
	return id
}

// Run relays until standard input ends or ctx does.
func (b *Bridge) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer b.side.Wait()
	defer cancel()

	lines := make(chan []byte)
	ended := make(chan error, 1)
	go func() { ended <- readLines(ctx, b.o.In, lines) }() // ends with the input; a blocked read ends with the process
	for {
		select {
		case <-ctx.Done():
			b.cancelAll()
			b.work.Wait()
			b.endSession()
			return ctx.Err()
		case line := <-lines:
			b.take(ctx, line)
		case err := <-ended:
			b.drain()
			b.endSession()
			return err
		}
	}
}

func readLines(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 0, 64<<10), maxMessage)
	for scanner.Scan() {
		line := bytes.TrimSpace(scanner.Bytes())
		if len(line) == 0 {
			continue
		}
		select {
		case lines <- bytes.Clone(line):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return capabilities.Errorf(capabilities.CodeBodyTooLarge, "a message on standard input is larger than %d MiB", maxMessage>>20)
	}
	return scanner.Err()
}

// drain returns running calls a bounded time to finish, then cancels them.
func (b *Bridge) drain() {
	done := make(chan struct{})
	go func() { b.work.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(drainTimeout):
		b.cancelAll()
		<-done
	}
}

func (b *Bridge) cancelAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, cancel := range b.running {
		cancel()
	}
}

// take relays one line. Requests run side by side; what opens the conversation,
// and notifications, keep their order.
func (b *Bridge) take(ctx context.Context, line []byte) {
	var one message
	if line[0] == '[' { // batches exist in revision 2025-03-26
		var all []message
		if err := json.Unmarshal(line, &all); err != nil {
			b.refuseLine()
			return
		}
		var ids []json.RawMessage
		for _, m := range all {
			if m.isRequest() {
				ids = append(ids, m.ID)
			}
		}
		b.start(ctx, line, message{}, ids)
		return
	}
	if err := json.Unmarshal(line, &one); err != nil {
		b.refuseLine()
		return
	}
	switch {
	case one.Method == "initialize":
		b.mu.Lock()
		b.initialize = line
		b.mu.Unlock()
		b.post(ctx, line, one, []json.RawMessage{one.ID})
	case one.isRequest():
		b.start(ctx, line, one, []json.RawMessage{one.ID})
	case one.Method == "notifications/cancelled":
		b.cancelled(ctx, line, one)
	default: // other notifications, and answers to the gateway's own requests
		if one.Method == "notifications/initialized" {
			b.mu.Lock()
			b.initialized = line
			b.mu.Unlock()
		}
		b.post(ctx, line, one, nil)
		if one.Method == "notifications/initialized" {
			b.listen(ctx)
		}
	}
}

// refuseLine answers what is not JSON-RPC as the specification says (code -32700).
func (b *Bridge) refuseLine() {
	b.write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is not a JSON-RPC message"}}`))
}

// start posts a request in its own goroutine, under a context that a
// cancellation ends.
func (b *Bridge) start(ctx context.Context, line []byte, m message, ids []json.RawMessage) {
	ctx, cancel := context.WithCancel(ctx)
	b.mu.Lock()
	full := len(b.running) >= maxInFlight
	if !full {
		for _, id := range ids {
			b.running[string(id)] = cancel
			if named := m.named(); named != "" {
				b.named[string(id)] = named
			}
		}
	}
	b.mu.Unlock()
	if full {
		cancel()
		b.fail(ids, &capabilities.Error{Code: capabilities.CodeOverloaded})
		return
	}
	b.work.Go(func() {
		defer cancel()
		b.post(ctx, line, m, ids)
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, id := range ids {
			delete(b.running, string(id))
			delete(b.named, string(id))
		}
	})
}

// cancelled passes a cancellation on: as the notification where there are
// sessions, and by closing the request, which is the cancellation where there
// are none, and covers a request that has not left yet.
func (b *Bridge) cancelled(ctx context.Context, line []byte, m message) {
	b.mu.Lock()
	cancel, known := b.running[string(m.Params.RequestID)]
	named := b.named[string(m.Params.RequestID)]
	g := b.gateway
	sessions := b.session != ""
	b.mu.Unlock()
	if sessions {
		b.post(ctx, line, m, nil)
	}
	if known {
		cancel()
	}
	if known && !sessions && named != "" && g != nil {
		// A call with a request ID outlives its connection, which says nothing then.
		b.work.Go(func() {
			err := b.o.Told(g.Do(ctx, http.MethodDelete, client.Path("calls", "request", named), nil, nil))
			if err != nil && capabilities.CodeOf(err) != capabilities.CodeNotFound {
				fmt.Fprintf(b.o.Log, "handrail mcp: a call could not be cancelled: %v\n", err)
			}
		})
	}
}

// post sends one line and relays what comes back. Every ID in ids is answered:
// by the gateway, or here with the reason why it could not be.
func (b *Bridge) post(ctx context.Context, line []byte, m message, ids []json.RawMessage) {
	open := newIDs(ids)
	err := b.exchange(ctx, line, m, open)
	var lost *sessionLostError
	if errors.As(err, &lost) { // the gateway was restarted: open the session anew, once
		if err = b.renew(ctx, lost.session); err == nil {
			err = b.exchange(ctx, line, m, open)
		}
	}
	if ctx.Err() != nil {
		return // cancelled: nobody waits for an answer
	}
	if err == nil && len(open) > 0 {
		err = capabilities.Errorf(capabilities.CodeUnknownOutcome, "the gateway ended the connection without an answer")
	}
	if err == nil {
		return
	}
	if len(ids) == 0 {
		fmt.Fprintf(b.o.Log, "handrail mcp: %s was not delivered: %v\n", m.Method, err)
		return
	}
	b.fail(open.list(), err)
}

// idSet are the requests of a line that have no answer yet.
type idSet map[string]json.RawMessage

func newIDs(ids []json.RawMessage) idSet {
	s := idSet{}
	for _, id := range ids {
		s[string(id)] = id
	}
	return s
}

func (s idSet) list() []json.RawMessage {
	var all []json.RawMessage
	for _, id := range s {
		all = append(all, id)
	}
	return all
}

// sessionLostError says that the gateway no longer knows the session.
type sessionLostError struct{ session string }

func (e *sessionLostError) Error() string { return "the session has ended" }

// note learns from an answer: the negotiated revision, and which IDs are settled.
func (b *Bridge) note(data []byte, m message, open idSet) {
	type reply struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Result struct {
			Version string `json:"protocolVersion"`
		} `json:"result"`
	}
	var replies []reply
	if head, ok := readHead(data); ok && m.Method != "initialize" {
		if head.method == nil {
			delete(open, string(head.id))
		}
		return
	}
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '[' {
		_ = json.Unmarshal(trimmed, &replies)
	} else {
		var one reply
		_ = json.Unmarshal(data, &one) // another form of result only leaves Version empty
		replies = append(replies, one)
	}
	for _, r := range replies {
		if r.Method != "" {
			continue // the gateway's own request or notification
		}
		delete(open, string(r.ID))
		if m.Method == "initialize" && r.Result.Version != "" {
			b.mu.Lock()
			b.version = r.Result.Version
			b.mu.Unlock()
		}
	}
}

// write puts one message on one line.
func (b *Bridge) write(data []byte) {
	line := data
	if _, ok := readHead(data); !ok { // not on one line, or not a message
		var compact bytes.Buffer
		if json.Compact(&compact, data) != nil {
			fmt.Fprintf(b.o.Log, "handrail mcp: the gateway sent something that is not JSON (%d bytes)\n", len(data))
			return
		}
		line = compact.Bytes()
	}
	b.outMu.Lock()
	defer b.outMu.Unlock()
	if len(line) < 64<<10 {
		line = append(line[:len(line):len(line)], '\n')
		_, _ = b.o.Out.Write(line)
		return
	}
	_, _ = b.o.Out.Write(line) // an image is not copied for the sake of one byte
	_, _ = b.o.Out.Write([]byte{'\n'})
}

// fail answers requests that the gateway did not.
func (b *Bridge) fail(ids []json.RawMessage, err error) {
	coded := capabilities.AsError(err)
	message := coded.PublicMessage()
	if coded.Code == capabilities.CodeInternal {
		message = err.Error()
	}
	hint := command.OfError(err)
	for _, id := range ids {
		data, _ := json.Marshal(map[string]any{
			"jsonrpc": "2.0", "id": id,
			"error": map[string]any{
				"code": -32000, "message": message + " " + hint,
				"data": map[string]any{"code": coded.Code, "hint": hint},
			},
		})
		b.write(data)
	}
}
