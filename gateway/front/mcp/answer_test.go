package mcp

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAnswer(t *testing.T) {
	const (
		response = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n"
		body     = `{"jsonrpc":"2.0","id":7,"result":{}}`
		progress = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n"
		request  = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n"
		named    = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"a\\\"b\\\\\",\"error\":{\"code\":1}}\n\n"
	)
	for name, c := range map[string]struct {
		writes []string
		want   string
		kind   string
	}{
		"a response":             {[]string{response}, body, "application/json"},
		"an error, a named ID":   {[]string{named}, `{"jsonrpc":"2.0","id":"a\"b\\","error":{"code":1}}`, "application/json"},
		"progress first":         {[]string{progress, response}, progress + response, "text/event-stream"},
		"a batch":                {[]string{response, response}, response + response, "text/event-stream"},
		"something after it":     {[]string{response, progress, response}, response + progress + response, "text/event-stream"},
		"a request to clients":   {[]string{request}, request, "text/event-stream"},
		"two events at once":     {[]string{response + response}, response + response, "text/event-stream"},
		"an event not yet whole": {[]string{response[:len(response)-1], "\n"}, response, "text/event-stream"},
		"an ID without an end":   {[]string{"event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"a\\\n\n"}, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"a\\\n\n", "text/event-stream"},
		"nothing":                {nil, "", "text/event-stream"},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			a := &answer{ResponseWriter: w}
			a.Header().Set("Content-Type", "text/event-stream")
			a.Header().Set("Connection", "keep-alive")
			for _, text := range c.writes {
				if n, err := a.Write([]byte(text)); n != len(text) || err != nil {
					t.Fatal(n, err)
				}
				if err := http.NewResponseController(a).Flush(); err != nil {
					t.Fatal(err)
				}
			}
			a.end()
			if got := w.Body.String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got := w.Header().Get("Content-Type"); got != c.kind {
				t.Errorf("got %s, want %s", got, c.kind)
			}
		})
	}
}

// An answer in pieces goes out at once: progress does not wait for the end.
func TestAnswerIsNotHeldBack(t *testing.T) {
	w := httptest.NewRecorder()
	a := &answer{ResponseWriter: w}
	a.Header().Set("Content-Type", "text/event-stream")
	_ = http.NewResponseController(a).Flush()
	if !w.Flushed {
		t.Error("the headers were held back")
	}
	w = httptest.NewRecorder()
	a = &answer{ResponseWriter: w}
	a.Header().Set("Content-Type", "application/json")
	a.WriteHeader(http.StatusBadRequest)
	_, _ = a.Write([]byte(`{}`))
	a.end()
	if w.Code != http.StatusBadRequest || w.Body.String() != `{}` {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// A text is quoted to the same value as by encoding/json, whatever is in it.
func TestQuote(t *testing.T) {
	for _, text := range []string{"", "a", "\x00\x1f\"\\/<>&\b\t\n\f\r", "\u2028\u2029é😀\u007f", "\xffa\xc3\x28", "{\"text\":\"a\\nb\"}"} {
		got, err := quote(text)
		if err != nil {
			t.Fatal(err)
		}
		theirs, _ := json.Marshal(text)
		var one, other string
		if json.Unmarshal(got, &one) != nil || json.Unmarshal(theirs, &other) != nil || one != other || !oneLine(got) {
			t.Errorf("%q became %s", text, got)
		}
	}
}
