package connect

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
)

const tryTime = 30 * time.Second

// try does what the client will do with the entry that is in its file: start the program or
// call the address, and ask for the tools. It returns their number.
func (s Site) try(ctx context.Context, entry map[string]any) (tools int, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	var transport mcp.Transport
	said := &tail{}
	if own, _ := entry["command"].(string); own != "" {
		path, err := exec.LookPath(own)
		if err != nil {
			return 0, command.Advise(capabilities.Errorf(capabilities.CodeNotFound, "the program %s cannot be started: %v", own, err),
				"Run ", command.Here("connect"), " again with the program where it is now.")
		}
		program := exec.CommandContext(ctx, path, words(entry["args"])...)
		program.Stderr = said
		transport = &mcp.CommandTransport{Command: program, TerminateDuration: 10 * time.Second}
	} else {
		address, headers := remoteOf(entry)
		transport = &mcp.StreamableClientTransport{
			Endpoint: address, HTTPClient: &http.Client{Transport: withHeaders(headers)}, MaxRetries: -1, DisableStandaloneSSE: true,
		}
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "handrail-connect", Version: s.Version}, nil).Connect(ctx, transport, nil)
	if err != nil {
		return 0, tryFailure(err, said)
	}
	defer session.Close()
	for _, err := range session.Tools(ctx, nil) {
		if err != nil {
			return 0, tryFailure(err, said)
		}
		tools++
	}
	return tools, nil
}

// tryFailure prefers what the program said itself to what the protocol noticed.
func tryFailure(err error, said *tail) error {
	if text := said.String(); text != "" {
		message, hint, _ := strings.Cut(text, "\n  -> ")
		return capabilities.Errorf(capabilities.CodeExecutionFailed, "the client's own command does not work: %s",
			strings.TrimPrefix(strings.TrimSpace(message), "handrail: ")).
			WithHint(strings.TrimSpace(hint))
	}
	return command.Advise(capabilities.Errorf(capabilities.CodeExecutionFailed, "the client's way to the gateway does not work: %v", err),
		command.Here("connect", "--check"), " says what is wrong.")
}

// remoteOf returns address and headers of an entry by URL, whatever its fields are
// called.
func remoteOf(entry map[string]any) (address string, headers map[string]string) {
	for _, name := range []string{"url", "httpUrl"} {
		if s, _ := entry[name].(string); s != "" {
			address = s
		}
	}
	headers = map[string]string{}
	for _, name := range []string{"headers", "http_headers"} {
		table, _ := entry[name].(map[string]any)
		for k, v := range table {
			headers[k] = fmt.Sprint(v)
		}
	}
	return address, headers
}

func words(v any) []string {
	list, _ := v.([]any)
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = fmt.Sprint(w)
	}
	return out
}

// withHeaders adds an entry's headers to every request.
type withHeaders map[string]string

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for k, v := range h {
		r.Header.Set(k, v)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// tail keeps the last words of a program.
type tail struct {
	mu   sync.Mutex // guards text
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - most; over > 0 {
		t.text = bytes.Clone(t.text[over:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
