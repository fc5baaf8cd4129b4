package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/gateway/client"
)

// mcpGateway is the SDK's own server behind the two handlers a gateway has, with
// tools that echo, wait to be cancelled, and report progress.
type mcpGateway struct {
	*httptest.Server
	handler   atomic.Pointer[http.Handler]
	cancelled chan struct{}
	started   chan struct{}
	paths     sync.Map
}

func newMCPGateway(t *testing.T) *mcpGateway {
	t.Helper()
	g := &mcpGateway{cancelled: make(chan struct{}, 8), started: make(chan struct{}, 8)}
	g.restart()
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.paths.Store(r.URL.RequestURI(), true)
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":{"code":"unauthenticated","message":"No valid token came with the request.","hint":"Get one."}}`)
			return
		}
		(*g.handler.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

// restart forgets every session, as a new gateway process does.
func (g *mcpGateway) restart() {
	server := mcp.NewServer(&mcp.Implementation{Name: "gateway", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object"}`)
	server.AddTool(&mcp.Tool{Name: "echo", InputSchema: schema}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(r.Params.Arguments)}}}, nil
	})
	server.AddTool(&mcp.Tool{Name: "hang", InputSchema: schema}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		g.started <- struct{}{}
		<-ctx.Done()
		g.cancelled <- struct{}{}
		return nil, ctx.Err()
	})
	server.AddTool(&mcp.Tool{Name: "progress", InputSchema: schema}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1, Total: 2})
		return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
	})
	get := func(*http.Request) *mcp.Server { return server }
	stateful := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{PropagateRequestCancellation: true})
	stateless := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	var both http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerProtocol) >= revisionStateless {
			stateless.ServeHTTP(w, r)
			return
		}
		stateful.ServeHTTP(w, r)
	})
	g.handler.Store(&both)
}

func (g *mcpGateway) connect(token string) func() (Gateway, error) { return connectTo(g.URL, token) }

func connectTo(address, token string) func() (Gateway, error) {
	return func() (Gateway, error) { return client.New(address, client.NewToken(token)) }
}

// asIs leaves errors as they are.
func asIs(err error) error { return err }

// connectClient runs a bridge and an SDK client that talks to it through pipes,
// as a client does that started the program.
func connectClient(t *testing.T, g *mcpGateway, token string, options *mcp.ClientOptions, session *mcp.ClientSessionOptions) (*mcp.ClientSession, error) {
	t.Helper()
	toBridge, fromClient := io.Pipe()
	toClient, fromBridge := io.Pipe()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- New(Options{Connect: g.connect(token), Told: asIs, Path: "/mcp/l/lane-1?tools=browser", In: toBridge, Out: fromBridge, Log: io.Discard}).Run(ctx)
		fromBridge.Close()
	}()
	c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, options)
	s, err := c.Connect(t.Context(), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, session)
	t.Cleanup(func() {
		if s != nil {
			_ = s.Close()
		}
		fromClient.Close()
		cancel()
		toClient.Close()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("bridge ended with %v", err)
		}
	})
	return s, err
}

func TestBridgeRelaysEveryRevision(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			g := newMCPGateway(t)
			progress := make(chan float64, 4)
			s, err := connectClient(t, g, "secret", &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					progress <- r.Params.Progress
				},
			}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
			if err != nil {
				t.Fatal(err)
			}
			if got := s.InitializeResult().ProtocolVersion; got != revision {
				t.Fatalf("negotiated %q, want %q", got, revision)
			}
			r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"n": 9007199254740991, "s": "line\nline"}})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Content[0].(*mcp.TextContent).Text; got != `{"n":9007199254740991,"s":"line\nline"}` {
				t.Errorf("echoed %s", got)
			}

			params := &mcp.CallToolParams{Name: "progress", Arguments: map[string]any{}}
			params.SetProgressToken("p")
			if _, err := s.CallTool(t.Context(), params); err != nil {
				t.Fatal(err)
			}
			if p := <-progress; p != 1 {
				t.Errorf("progress %v", p)
			}

			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-g.started; cancel() }()
			if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "hang", Arguments: map[string]any{}}); err == nil {
				t.Error("a cancelled call gave a result")
			}
			<-g.cancelled // the cancellation reached the gateway's handler
			if _, ok := g.paths.Load("/mcp/l/lane-1?tools=browser"); !ok {
				t.Error("the lane's endpoint was not used")
			}
		})
	}
}

func TestBridgeOutlivesAGatewayRestart(t *testing.T) {
	g := newMCPGateway(t)
	changed := make(chan struct{}, 4)
	s, err := connectClient(t, g, "secret", &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	g.restart()
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{}}); err != nil {
		t.Fatalf("after a restart: %v", err)
	}
	<-changed // the client learns that the tools may be others now
}

func TestBridgeNamesWhatIsWrong(t *testing.T) {
	t.Run("token", func(t *testing.T) {
		_, err := connectClient(t, newMCPGateway(t), "wrong", nil, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		if err == nil || !strings.Contains(err.Error(), "No valid token") {
			t.Errorf("got %v", err)
		}
	})
	for name, c := range map[string]struct{ in, want string }{
		"not JSON":     {"hello\n", "-32700"},
		"gateway gone": {`{"jsonrpc":"2.0","id":"x","method":"tools/list"}` + "\n", `"id":"x"`},
		"batch":        {`[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"}]` + "\n", `"id":2`},
	} {
		t.Run(name, func(t *testing.T) {
			var out, log strings.Builder
			b := New(Options{
				Connect: connectTo("http://"+closedAddress(t), "secret"), Told: asIs,
				Path: "/mcp", In: strings.NewReader(c.in), Out: &out, Log: &log,
			})
			if err := b.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), c.want) {
				t.Errorf("got %q, want it to hold %q", out.String(), c.want)
			}
			for line := range strings.Lines(out.String()) {
				if !json.Valid([]byte(line)) {
					t.Errorf("line is not JSON: %s", line)
				}
			}
		})
	}
}

// closedAddress is a loopback address where nothing listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func FuzzReadEvents(f *testing.F) {
	for _, seed := range []string{
		"data: {}\n\n", "id: 1\r\nevent: message\r\ndata: a\r\ndata: b\r\n\r\n", "retry: 5\n: comment\n\n", "data\n\n", "event: other\ndata: x\n\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		total := 0
		if _, err := readEvents(strings.NewReader(stream), func(data []byte) { total += len(data) }); err != nil {
			t.Fatalf("a bounded stream failed: %v", err)
		}
		if total > len(stream) {
			t.Fatalf("%d bytes of data from a stream of %d", total, len(stream))
		}
	})
}
