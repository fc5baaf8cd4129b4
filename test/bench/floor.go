package main

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

type floorReady struct {
	HTTP string `json:"http"`
	MCP  string `json:"mcp"`
	QUIC string `json:"quic"`
}

// replySizeHeader tells the echo how long its answer is to be.
const replySizeHeader = "Reply-Size"

// floorRole serves what the hops of a call cost without us: an HTTP echo, a QUIC
// echo with a stream per call, and the MCP SDK's own server with a tool that does
// nothing.
func floorRole(json.RawMessage) (any, func(json.RawMessage) (any, error), func(), error) {
	fail := func(err error) (any, func(json.RawMessage) (any, error), func(), error) { return nil, nil, nil, err }
	mux := http.NewServeMux()
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		size, _ := strconv.Atoi(r.Header.Get(replySizeHeader))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(padding[:min(size, len(padding))]) // a caller that left
	})
	mux.Handle("/mcp", bareServer())
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fail(err)
	}
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(web) }() // ends with Close

	key, cert, err := selfSigned()
	if err != nil {
		return fail(err)
	}
	listener, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{echoALPN}, ClientAuth: tls.RequireAnyClientCert,
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}},
	}, &quic.Config{MaxIncomingStreams: 1024})
	if err != nil {
		return fail(err)
	}
	go acceptEcho(listener)
	stop := func() { _ = server.Close(); _ = listener.Close() }
	at := "http://" + web.Addr().String()
	return floorReady{HTTP: at + "/echo", MCP: at + "/mcp", QUIC: listener.Addr().String()}, nil, stop, nil
}

const echoALPN = "bench-echo"

// padding is what an echo answers with.
var padding = func() []byte {
	b := make([]byte, 1<<16)
	for i := range b {
		b[i] = 'x'
	}
	return b
}()

func selfSigned() (ed25519.PrivateKey, *x509.Certificate, error) {
	key, err := pairing.NewKey()
	if err != nil {
		return nil, nil, err
	}
	cert, err := pairing.SelfSigned(key, time.Now())
	return key, cert, err
}

// acceptEcho answers each stream with as many bytes as its first two say.
func acceptEcho(l *quic.Listener) {
	for {
		conn, err := l.Accept(context.Background())
		if err != nil {
			return
		}
		go func() {
			for {
				stream, err := conn.AcceptStream(context.Background())
				if err != nil {
					return
				}
				go func() {
					request, err := io.ReadAll(stream)
					if err != nil || len(request) < 2 {
						stream.CancelWrite(1)
						return
					}
					_, _ = stream.Write(padding[:int(request[0])<<8|int(request[1])]) // a caller that left
					_ = stream.Close()
				}()
			}
		}()
	}
}

// bareServer is the SDK's own server, set up as ours is, for both kinds of
// revisions on one address.
func bareServer() http.Handler {
	server := sdk.NewServer(&sdk.Implementation{Name: "bare", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "tool_fixture_echo", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{
				Content: []sdk.Content{&sdk.TextContent{Text: string(req.Params.Arguments)}}, StructuredContent: req.Params.Arguments,
			}, nil
		})
	get := func(*http.Request) *sdk.Server { return server }
	stateful := sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{JSONResponse: true})
	stateless := sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" {
			stateless.ServeHTTP(w, r)
			return
		}
		stateful.ServeHTTP(w, r)
	})
}

type commitsConfig struct {
	Dir     string   `json:"dir"`
	Packets []packet `json:"packets"`
}

// commitsRole makes the commits of a call and nothing else: its packets before
// and after, in two transactions, and the node's "started", on the same disk.
func commitsRole(raw json.RawMessage) (any, func(json.RawMessage) (any, error), func(), error) {
	fail := func(err error) (any, func(json.RawMessage) (any, error), func(), error) { return nil, nil, nil, err }
	var config commitsConfig
	if err := json.Unmarshal(raw, &config); err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := store.Open(ctx, store.Options{Path: filepath.Join(config.Dir, "store.db"), Migrations: ledger.Migrations, Log: quiet()})
	if err != nil {
		cancel()
		return fail(err)
	}
	key, err := pairing.NewKey()
	if err != nil {
		cancel()
		return fail(err)
	}
	l, err := ledger.Open(ctx, ledger.Options{Store: s, Chain: "bench", Key: key, Log: quiet()})
	if err != nil {
		cancel()
		return fail(err)
	}
	j, err := journal.Open(journal.Options{Dir: filepath.Join(config.Dir, "journal"), Chain: "node", Key: key, Log: quiet()})
	if err != nil {
		cancel()
		return fail(err)
	}
	ran := make(chan error, 3)
	go func() { ran <- s.Run(ctx) }()
	go func() { ran <- l.Run(ctx) }()
	go func() { ran <- j.Run(ctx) }()
	stop := func() {
		cancel()
		if err := errors.Join(<-ran, <-ran, <-ran, j.Close(), s.Close()); err != nil {
			fmt.Fprintln(os.Stderr, "bench: commits:", err)
		}
	}
	c := &commits{store: s, ledger: l, journal: j}
	if err := c.prepare(config.Packets); err != nil {
		return nil, nil, stop, err
	}
	return struct{}{}, func(raw json.RawMessage) (any, error) {
		var m measure
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, err
		}
		return m.run(func() (operation, func(), error) { return c.one, func() {}, nil })
	}, stop, nil
}

type commits struct {
	store   *store.Store
	ledger  *ledger.Ledger
	journal *journal.Journal
	before  []ledger.Draft
	after   ledger.Draft
	ticket  wire.Ticket
	calls   atomic.Uint64
}

// prepare takes the packets and the ticket of a real call.
func (c *commits) prepare(packets []packet) error {
	var drafts []ledger.Draft
	for _, p := range packets {
		body, err := ledger.Encode(p.Body)
		if err != nil {
			return err
		}
		drafts = append(drafts,
			ledger.Draft{Kind: p.Kind, Call: p.Call, Tool: p.Tool, Principal: p.Principal, Lane: p.Lane, Node: p.Node, Body: body})
	}
	last := len(drafts) - 1
	c.before, c.after = drafts[:last], drafts[last]
	var decision struct {
		Envelope json.RawMessage `json:"envelope"`
	}
	if err := json.Unmarshal(packets[1].Body, &decision); err != nil {
		return err
	}
	args := []byte(echoArgs)
	c.ticket = wire.Ticket{
		Tool: packets[0].Tool, Lane: packets[0].Lane, Node: packets[0].Node, Args: args, ArgsDigest: sha256.Sum256(args),
		Envelope: decision.Envelope,
	}
	return nil
}

// one makes the commits of one call, in the order in which a call waits for them.
func (c *commits) one(ctx context.Context) error {
	n := c.calls.Add(1)
	call := capabilities.CallID(fmt.Sprintf("c%026d", n))
	before := append([]ledger.Draft(nil), c.before...)
	for i := range before {
		before[i].Call = call
	}
	after := c.after
	after.Call = call
	ticket := c.ticket
	ticket.Call, ticket.Sequence = call, n
	if err := c.store.Write(ctx, func(tx *store.Tx) error {
		_, err := c.ledger.AppendIn(tx, before...)
		return err
	}); err != nil {
		return err
	}
	if err := c.journal.Started(ctx, &ticket); err != nil {
		return err
	}
	return c.store.Write(ctx, func(tx *store.Tx) error {
		_, err := c.ledger.AppendIn(tx, after)
		return err
	})
}
