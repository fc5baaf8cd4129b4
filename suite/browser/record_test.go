package browser_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"sync"
	"testing"
)

// -args -record FILE keeps the result of every tool call, as MCP carried it, one JSON object a
// line: what gateway/front/mcp measures its forms on.
var recordFile = flag.String("record", "", "file for the results of all calls")

// recorder is a way to the gateway that keeps what it answers to tool calls.
type recorder struct {
	mu   sync.Mutex // guards file
	file *os.File
}

func record(t *testing.T, name string) *recorder {
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return &recorder{file: file}
}

// RoundTrip sends one request.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || req.Method != http.MethodPost {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		var message struct {
			Result struct {
				Content json.RawMessage `json:"content"`
			} `json:"result"`
		}
		line = bytes.TrimPrefix(line, []byte("data: "))
		if json.Unmarshal(line, &message) == nil && len(message.Result.Content) > 0 {
			r.mu.Lock()
			_, err = r.file.Write(append(line, '\n'))
			r.mu.Unlock()
		}
	}
	return resp, err
}
