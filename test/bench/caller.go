package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/quic-go/quic-go"
)

// The no-op call that every caller makes.
const (
	echoTool = "tool.fixture.echo"
	echoWire = "tool_fixture_echo"
	echoArgs = `{"text":"ping"}`
	echoCall = `{"tool":"` + echoTool + `","args":` + echoArgs + `}`
)

// measure is one measurement.
type measure struct {
	Callers int    `json:"callers"`
	MS      int    `json:"ms"`
	Target  target `json:"target"`
}

// target is what a caller calls.
type target struct {
	Kind     string          `json:"kind"` // "rest", "http", "quic", "mcp"
	URL      string          `json:"url"`
	Token    string          `json:"token,omitempty"`
	Revision string          `json:"revision,omitempty"` // mcp
	Tool     string          `json:"tool,omitempty"`     // mcp
	Args     json.RawMessage `json:"args,omitempty"`     // mcp
	Before   []step          `json:"before,omitempty"`   // mcp: calls made once, first
	Send     int             `json:"send,omitempty"`     // quic: bytes of a request
	Receive  int             `json:"receive,omitempty"`  // http, quic: bytes of an answer
}

type step struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

// operation is one call; it fails unless the call did what it should.
type operation func(ctx context.Context) error

// warmup is how much of a measurement's time passes before it counts.
const warmup = 5 // a fifth

// run measures open's operation with m.Callers callers side by side.
func (m measure) run(open func() (operation, func(), error)) (sample, error) {
	type caller struct {
		all []time.Duration
		err error
	}
	callers := make([]caller, m.Callers)
	ops := make([]operation, m.Callers)
	for i := range callers {
		op, done, err := open()
		if err != nil {
			return sample{}, err
		}
		defer done()
		ops[i] = op
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	length := time.Duration(m.MS) * time.Millisecond
	counts := time.Now().Add(length / warmup)
	ends := counts.Add(length)
	var group sync.WaitGroup
	for i := range callers {
		c := &callers[i]
		group.Go(func() {
			for {
				began := time.Now()
				if !began.Before(ends) {
					return
				}
				if c.err = ops[i](ctx); c.err != nil {
					return
				}
				if !began.Before(counts) {
					c.all = append(c.all, time.Since(began))
				}
			}
		})
	}
	group.Wait()
	took := time.Since(counts)
	var all []time.Duration
	for _, c := range callers {
		if c.err != nil {
			return sample{}, c.err
		}
		all = append(all, c.all...)
	}
	if len(all) == 0 {
		return sample{}, errors.New("no call ended in time")
	}
	return summarise(all, took), nil
}

// callerRole is the client of everything that is measured.
func callerRole(json.RawMessage) (any, func(json.RawMessage) (any, error), func(), error) {
	pool := &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, DisableCompression: true}
	answer := func(raw json.RawMessage) (any, error) {
		var m measure
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, err
		}
		t := m.Target
		switch t.Kind {
		case "rest":
			return m.run(t.post(pool, echoCall, []byte(`"status":"ok"`)))
		case "http":
			return m.run(t.post(pool, echoCall, nil))
		case "mcp":
			return m.run(t.mcp(pool))
		case "quic":
			conn, err := t.dial()
			if err != nil {
				return nil, err
			}
			defer conn.CloseWithError(0, "")
			return m.run(t.stream(conn))
		}
		return nil, fmt.Errorf("no target of kind %q", t.Kind)
	}
	return struct{}{}, answer, pool.CloseIdleConnections, nil
}

// bearer adds the token.
type bearer struct {
	http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.RoundTripper.RoundTrip(r)
}

// post is a call over plain HTTP; the answer must hold want.
func (t target) post(pool *http.Transport, body string, want []byte) func() (operation, func(), error) {
	header := http.Header{"Content-Type": {"application/json"}, replySizeHeader: {strconv.Itoa(t.Receive)}}
	if t.Token != "" {
		header.Set("Authorization", "Bearer "+t.Token)
	}
	return func() (operation, func(), error) {
		var answer bytes.Buffer
		return func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, bytes.NewReader([]byte(body)))
			if err != nil {
				return err
			}
			req.Header = header
			resp, err := pool.RoundTrip(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			answer.Reset()
			if _, err := answer.ReadFrom(resp.Body); err != nil {
				return err
			}
			if resp.StatusCode != http.StatusOK || !bytes.Contains(answer.Bytes(), want) {
				return fmt.Errorf("%s: %.300s", resp.Status, answer.Bytes())
			}
			return nil
		}, func() {}, nil
	}
}

// mcp is a call by the SDK's client, one session for each caller.
func (t target) mcp(pool *http.Transport) func() (operation, func(), error) {
	return func() (operation, func(), error) {
		c := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
		session, err := c.Connect(context.Background(), &sdk.StreamableClientTransport{
			Endpoint: t.URL, HTTPClient: &http.Client{Transport: bearer{pool, t.Token}}, DisableStandaloneSSE: true, MaxRetries: -1,
		}, &sdk.ClientSessionOptions{ProtocolVersion: t.Revision})
		if err != nil {
			return nil, nil, err
		}
		call := func(ctx context.Context, name string, args json.RawMessage) error {
			res, err := session.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: args})
			if err != nil {
				return err
			}
			if res.IsError {
				return fmt.Errorf("%s: %s", name, text(res))
			}
			return nil
		}
		done := func() { _ = session.Close() }
		if got := session.InitializeResult().ProtocolVersion; t.Revision != "" && got != t.Revision {
			done()
			return nil, nil, fmt.Errorf("revision %s was negotiated, not %s", got, t.Revision)
		}
		for _, s := range t.Before {
			if err := call(context.Background(), s.Tool, s.Args); err != nil {
				done()
				return nil, nil, err
			}
		}
		return func(ctx context.Context) error { return call(ctx, t.Tool, t.Args) }, done, nil
	}
}

func text(res *sdk.CallToolResult) string {
	for _, c := range res.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			return t.Text
		}
	}
	return ""
}

func (t target) dial() (*quic.Conn, error) {
	key, cert, err := selfSigned()
	if err != nil {
		return nil, err
	}
	return quic.DialAddr(context.Background(), t.URL, &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{echoALPN}, ServerName: "bench.invalid",
		InsecureSkipVerify: true, // an echo on loopback; the handshake is not what is measured
		Certificates:       []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}},
	}, &quic.Config{MaxIncomingStreams: 1024})
}

// stream is a call on a QUIC stream of its own.
func (t target) stream(conn *quic.Conn) func() (operation, func(), error) {
	request := append([]byte{byte(t.Receive >> 8), byte(t.Receive)}, padding[:t.Send]...)
	return func() (operation, func(), error) {
		return func(ctx context.Context) error {
			stream, err := conn.OpenStreamSync(ctx)
			if err != nil {
				return err
			}
			if _, err := stream.Write(request); err != nil {
				return err
			}
			_ = stream.Close()
			answer, err := io.ReadAll(stream)
			if err == nil && len(answer) != t.Receive {
				err = fmt.Errorf("the echo gave %d bytes, not %d", len(answer), t.Receive)
			}
			return err
		}, func() {}, nil
	}
}
