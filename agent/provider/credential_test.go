package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/agent/provider/openapi"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

func value(s string) capabilities.Secret { return capabilities.NewSecret([]byte(s)) }

// silent starts an MCP server, but at first a program that never answers; it notes what each got.
type silent struct {
	mu      sync.Mutex
	started []*piped
	env     [][]string
	begun   chan struct{}
}

func (*silent) Runs(Program) (string, string) { return "", "" }

func (*silent) Class(Program) (capabilities.IsolationClass, string, error) {
	return capabilities.ClassT1, "", nil
}

func (s *silent) Start(ctx context.Context, p Program) (Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	child := newPiped()
	s.started, s.env = append(s.started, child), append(s.env, p.Env)
	context.AfterFunc(ctx, child.Kill)
	if len(s.started) == 1 {
		go func() { _, _ = io.Copy(io.Discard, child.in) }()
		close(s.begun)
		return child, nil
	}
	go func() {
		_ = echoServer().Run(child.ctx, &mcp.IOTransport{Reader: io.NopCloser(child.in), Writer: child.to})
		child.Kill()
	}()
	return child, nil
}

func withToken(p tools.Provider) (*tools.Provider, *credentials) {
	p.Env = []tools.Credential{{Name: "TOKEN", Secret: "token"}}
	return &p, newCredentials(&p)
}

// A server that is being started while its credential is taken back, or another one comes, ends:
// nothing runs on with what it was.
func TestAStartWithAnotherCredentialEnds(t *testing.T) {
	for name, alter := range map[string]func(*credentials) (change, string){
		"taken back": func(c *credentials) (change, string) { c.clear(); return withdrawn, notYet },
		"another": func(c *credentials) (change, string) {
			why, _ := c.put("TOKEN", value("new-one"))
			return why, "new-one"
		},
	} {
		t.Run(name, func(t *testing.T) {
			record, secrets := withToken(echoRecord())
			if _, err := secrets.put("TOKEN", value("old-one")); err != nil {
				t.Fatal(err)
			}
			way, err := wayOf(record)
			if err != nil {
				t.Fatal(err)
			}
			start := &silent{begun: make(chan struct{})}
			s := newServer(record, start, way, secrets, func(*server, *tools.ToolManifest) {})
			defer s.close()
			connected := make(chan error, 1)
			go func() { _, err := s.connected(context.Background()); connected <- err }()
			<-start.begun
			first := start.started[0] // before another start writes to it
			why, want := alter(secrets)
			s.restart(why)
			<-first.ctx.Done()
			if err := <-connected; err != nil {
				t.Fatal(err)
			}
			if len(start.env) != 2 || !slices.Equal(start.env[1], []string{"TOKEN=" + want}) || s.health() != nil {
				t.Errorf("started with %q, %v", start.env, s.health())
			}
		})
	}
}

// A server at a URL is sent another value with its next request, and is not connected to anew.
func TestAServerAtAURLStaysWithAnotherValue(t *testing.T) {
	record, secrets := withToken(tools.Provider{Name: "wiki", Kind: tools.KindMCP, URL: "https://example.com/mcp"})
	s := newServer(record, nil, nil, secrets, nil)
	for _, c := range []struct {
		why   change
		wants bool
		stays bool
	}{{renewed, false, true}, {renewed, true, false}, {given, false, false}, {withdrawn, false, false}} {
		l := &live{}
		l.wants.Store(c.wants)
		s.live = l
		s.restart(c.why)
		if (s.live == l) != c.stays {
			t.Errorf("%+v", c)
		}
	}
}

// A program that runs for a call ends when the credential that it has is taken back.
func TestACommandEndsWithItsCredential(t *testing.T) {
	record, secrets := withToken(tools.Provider{Name: "c", Kind: tools.KindCommand, Manifest: json.RawMessage(`{"tools":[{"name":"a","argv":["prog"]}]}`)})
	start := &silent{begun: make(chan struct{})}
	c, err := newCommand(record, start, nil, secrets)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.put("TOKEN", value("old-one")); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.call(context.Background(), call{upstream: "a", args: json.RawMessage(`{}`)})
		ended <- err
	}()
	<-start.begun
	if !secrets.clear() {
		t.Error("there was none")
	}
	if err := <-ended; capabilities.CodeOf(err) != capabilities.CodeSecretUnavailable {
		t.Errorf("%v", err)
	}
}

// A program may tell the values that it had before: they are kept back, too, as many as are
// remembered, and none is lost for that which it has now.
func TestEarlierValuesAreKeptBack(t *testing.T) {
	_, secrets := withToken(echoRecord())
	put := func(s string) {
		if _, err := secrets.put("TOKEN", value(s)); err != nil {
			t.Fatal(err)
		}
	}
	put("value-first")
	put("value-second")
	secrets.clear()
	put("value-third")
	if got := secrets.withheld().Text("value-first value-second value-third"); got != "[secret] [secret] [secret]" {
		t.Error(got)
	}
	for i := range 3 * maxEarlier {
		put(fmt.Sprintf("value-no-%04d", i))
	}
	if len(secrets.known) != maxEarlier+1 {
		t.Errorf("%d are remembered", len(secrets.known))
	}
	if got := secrets.withheld().Text(fmt.Sprintf("value-no-%04d value-no-%04d", 3*maxEarlier-1, 2*maxEarlier-1)); got != "[secret] [secret]" {
		t.Error(got)
	}
	if why, err := secrets.put("TOKEN", value(fmt.Sprintf("value-no-%04d", 3*maxEarlier-1))); why != unchanged || err != nil {
		t.Error(why, err)
	}
	if _, err := secrets.put("OTHER", value("x")); err == nil {
		t.Error("took one that the record does not name")
	}
}

// A provider's words are cut nowhere in a value, however it is placed.
func TestWordsAreFilteredBeforeTheyAreCut(t *testing.T) {
	const token = "CANARY-token-0123456789"
	_, secrets := withToken(echoRecord())
	if _, err := secrets.put("TOKEN", value(token)); err != nil {
		t.Fatal(err)
	}
	across := func(most int) string { return strings.Repeat("x", most-len(token)+1) + token }
	heard := make(chan string, 1)
	l := &live{secret: secrets, progress: map[string]func(capabilities.Progress){"t": func(p capabilities.Progress) { heard <- p.Message }}}
	for name, said := range map[string]func() any{
		"an error": func() any {
			_, err := resultOf(&mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: across(maxSaid)}}}, secrets)
			return err
		},
		"a link": func() any {
			out, _ := resultOf(&mcp.CallToolResult{Content: []mcp.Content{&mcp.ResourceLink{URI: across(2048), Name: across(256), MIMEType: across(128)}}}, secrets)
			return out.Result
		},
		"bytes": func() any {
			out, _ := resultOf(&mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{Data: []byte("x"), MIMEType: across(128)}}}, secrets)
			return fmt.Sprint(out.Result, out.Blobs)
		},
		"progress": func() any {
			l.heard(&mcp.ProgressNotificationParams{ProgressToken: "t", Message: across(200)})
			return <-heard
		},
		"a tool that is too large": func() any {
			one, _, _ := remoteOf(&mcp.Tool{Name: across(256), Description: strings.Repeat("x", tools.MaxToolBytes)}, secrets)
			return one.Name
		},
		"a program's line":       func() any { return lastLine([]byte(across(200)), secrets.withheld()) },
		"half of a line":         func() any { return lastLine([]byte("it is "+token[:len(token)-1]), secrets.withheld()) },
		"the end of a long line": func() any { return lastLine([]byte(token+strings.Repeat("x", 400-len(token)+1)), secrets.withheld()) },
		"an API's refusal": func() any {
			resp := &http.Response{StatusCode: 500, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(across(4<<10) + "more"))}
			_, err := openapi.Result(resp, &tools.Request{Method: http.MethodGet}, secrets.withheld())
			details, _ := json.Marshal(capabilities.AsError(err).Details)
			return string(details)
		},
	} {
		if text := fmt.Sprint(said()); strings.Contains(text, "CANARY") || strings.Contains(text, "01234567") || !strings.Contains(text, "x") && !strings.Contains(text, "[secret") {
			t.Errorf("%s: %s", name, text[max(0, len(text)-100):])
		}
	}
}

// Where a provider wanted to connect is told without the value that it put there.
func TestTriedTargetsAreFiltered(t *testing.T) {
	record, secrets := withToken(echoRecord())
	if _, err := secrets.put("TOKEN", value("canary-0123")); err != nil {
		t.Fatal(err)
	}
	way, err := wayOf(record)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := way.Transport(egress.TransportOptions{}).RoundTrip(httptest.NewRequest(http.MethodGet, "http://canary-0123.example.com/", nil)); err == nil {
		t.Fatal("it was let")
	}
	s := newServer(record, nil, way, secrets, nil)
	list := tried(&hosted{backend: s, credentials: secrets}, nil)
	if text := fmt.Sprint(list); len(list) != 1 || strings.Contains(text, "canary-0123") {
		t.Errorf("%v", list)
	}
}
