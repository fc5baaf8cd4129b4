package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/gateway/principal"
)

// bare is the floor: the SDK's own server with a tool that does nothing, for both
// kinds of revisions on one address, without admission.
func bare(b *testing.B) string {
	b.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "bare", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "test_noop", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "{}"}}, StructuredContent: json.RawMessage(`{}`)}, nil
		})
	get := func(*http.Request) *sdk.Server { return server }
	stateful := sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{JSONResponse: true})
	stateless := sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" {
			stateless.ServeHTTP(w, r)
			return
		}
		stateful.ServeHTTP(w, r)
	}))
	b.Cleanup(func() {
		for session := range server.Sessions() {
			_ = session.Close()
		}
		s.Close()
	})
	return s.URL
}

// BenchmarkCall compares a no-op tool call through the front with one of the bare
// SDK server: same client, same process, same run. The promise is a rate of at
// least 0.6 of the floor's.
func BenchmarkCall(b *testing.B) {
	f := start(b)
	token := f.Token("alice", principal.RoleAgent)
	client := f.Client(token) // the floor ignores the token
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		for _, callers := range []int{1, 64} {
			for _, at := range []struct{ name, url string }{{"bare", bare(b)}, {"front", f.URL + "/mcp"}} {
				b.Run(fmt.Sprintf("%s/callers=%d/%s", revision, callers, at.name), func(b *testing.B) {
					c := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
					session, err := c.Connect(b.Context(), &sdk.StreamableClientTransport{Endpoint: at.url, HTTPClient: client, DisableStandaloneSSE: true},
						&sdk.ClientSessionOptions{ProtocolVersion: revision})
					if err != nil {
						b.Fatal(err)
					}
					defer session.Close()
					parallel(b, callers, func() error {
						res, err := session.CallTool(context.Background(), &sdk.CallToolParams{Name: "test_noop"})
						if err == nil && res.IsError {
							err = fmt.Errorf("%s", text(res))
						}
						return err
					})
				})
			}
		}
	}
}

// BenchmarkRawCall leaves the SDK's client out, which costs more than the server.
func BenchmarkRawCall(b *testing.B) {
	f := start(b)
	token := f.Token("alice", principal.RoleAgent)
	client := f.Client(token)
	for _, callers := range []int{1, 64} {
		for _, at := range []struct{ name, url string }{{"bare", bare(b)}, {"front", f.URL + "/mcp"}} {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, at.name), func(b *testing.B) {
				post := func(body, session string) (*http.Response, error) {
					req, _ := http.NewRequest("POST", at.url, strings.NewReader(body))
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("Accept", "application/json, text/event-stream")
					if session != "" {
						req.Header.Set("Mcp-Session-Id", session)
					}
					return client.Do(req)
				}
				resp, err := post(initialize, "")
				if err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
				session := resp.Header.Get("Mcp-Session-Id")
				if resp, err = post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, session); err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
				var mu sync.Mutex
				id := 1
				parallel(b, callers, func() error {
					mu.Lock()
					id++
					body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"test_noop","arguments":{}}}`, id)
					mu.Unlock()
					resp, err := post(body, session)
					if err != nil {
						return err
					}
					defer resp.Body.Close()
					_, err = io.Copy(io.Discard, resp.Body)
					if err == nil && resp.StatusCode != 200 {
						err = fmt.Errorf("%s", resp.Status)
					}
					return err
				})
			})
		}
	}
}

// parallel runs do b.N times from that many callers and reports the rate.
func parallel(b *testing.B, callers int, do func() error) {
	b.Helper()
	b.ReportAllocs()
	work := make(chan struct{}, callers)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range work {
				if err := do(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.ResetTimer()
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	group.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
