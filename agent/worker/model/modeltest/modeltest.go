package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Call is a call that the model makes, by the name that it saw.
type Call struct{ Name, Args string }

// Step is one answer.
type Step struct {
	Text   string
	Calls  []Call
	Length bool   // ends for want of tokens
	Break  bool   // the connection ends in mid-sentence
	Status int    // answered instead, with Text as error
	Raw    string // written as the stream instead
	Hang   <-chan struct{}
	Slow   <-chan time.Time // each word but the first waits for one value, such as a tick
	Again  bool             // the text never ends: its words come again and again
	Ended  func()           // is told when who asked has gone while it hangs or is slow; default: nobody
}

// Endpoint is one that runs.
type Endpoint struct {
	URL string // base URL for Options.Endpoint

	next     func(n int, body Request) Step
	mu       sync.Mutex
	requests []Request
}

// Request is what was asked.
type Request struct {
	Body      map[string]any
	Raw       string
	Key       string // Authorization
	Responses bool   // by that API
	Classify  bool   // for an answer by schema
}

// Start runs an endpoint until the test ends. next is called for the n-th request, from 0; requests
// for an answer by schema are not counted and get classified (an object, or nothing for 404).
func Start(t testing.TB, classified string, next func(n int, r Request) Step) *Endpoint {
	e := &Endpoint{next: next}
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(io.LimitReader(r.Body, 16<<20))
		req := Request{Raw: string(data), Key: r.Header.Get("Authorization"), Responses: strings.HasSuffix(r.URL.Path, "/responses")}
		_ = json.Unmarshal(data, &req.Body)
		_, format := req.Body["response_format"]
		_, text := req.Body["text"]
		req.Classify = format || text
		e.mu.Lock()
		e.requests = append(e.requests, req)
		i := n
		if !req.Classify {
			n++
		}
		e.mu.Unlock()
		if req.Classify {
			classify(w, req, classified)
			return
		}
		step := e.next(i, req)
		if step.Status != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(step.Status)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": step.Text, "type": "t", "code": "c", "param": ""}})
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		s := stream{w: w, r: r, step: step}
		switch {
		case step.Raw != "":
			_, _ = io.WriteString(w, step.Raw)
		case req.Responses:
			s.responses()
		default:
			s.chat()
		}
	}))
	t.Cleanup(server.Close)
	e.URL = server.URL + "/v1"
	return e
}

// Requests returns what was asked so far.
func (e *Endpoint) Requests() []Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Request(nil), e.requests...)
}

func classify(w http.ResponseWriter, r Request, text string) {
	w.Header().Set("Content-Type", "application/json")
	if text == "" {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":{"message":"no such model"}}`)
		return
	}
	var body any = map[string]any{"object": "chat.completion", "choices": []any{map[string]any{
		"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": text},
	}}}
	if r.Responses {
		body = response("completed", text, nil)
	}
	_ = json.NewEncoder(w).Encode(body)
}

type stream struct {
	w    http.ResponseWriter
	r    *http.Request
	step Step
}

func (s *stream) send(event string, body any) {
	if event != "" {
		fmt.Fprintf(s.w, "event: %s\n", event)
	}
	data, _ := json.Marshal(body)
	fmt.Fprintf(s.w, "data: %s\n\n", data)
	s.w.(http.Flusher).Flush()
}

// paused waits in the middle of an answer, and reports whether it is to go on.
func (s *stream) paused() bool {
	if s.step.Hang != nil {
		select {
		case <-s.step.Hang:
		case <-s.r.Context().Done():
			if s.step.Ended != nil {
				s.step.Ended()
			}
			return false
		}
	}
	if s.step.Break {
		panic(http.ErrAbortHandler)
	}
	return true
}

// words says a text as models stream it, and reports whether it is to go on.
func (s *stream) words(say func(word string)) bool {
	all := strings.SplitAfter(s.step.Text, " ")
	for i := 0; i < len(all) || s.step.Again; i++ {
		if i > 0 && !s.waits() {
			return false
		}
		say(all[i%len(all)])
		if i == 0 && !s.paused() {
			return false
		}
	}
	return true
}

// waits returns when a slow answer's next word is due; false: who asked has gone.
func (s *stream) waits() bool {
	due := s.step.Slow
	if due == nil {
		now := make(chan time.Time)
		close(now)
		due = now
	}
	select {
	case <-s.r.Context().Done():
	case <-due:
		if s.r.Context().Err() == nil {
			return true
		}
	}
	if s.step.Ended != nil {
		s.step.Ended()
	}
	return false
}

func (s *stream) chat() {
	chunk := func(delta map[string]any, finish any) {
		s.send("", map[string]any{"id": "x", "object": "chat.completion.chunk", "choices": []any{
			map[string]any{"index": 0, "delta": delta, "finish_reason": finish},
		}})
	}
	if !s.words(func(word string) { chunk(map[string]any{"role": "assistant", "content": word}, nil) }) {
		return
	}
	for i, c := range s.step.Calls {
		function := map[string]any{"name": c.Name, "arguments": ""}
		chunk(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": fmt.Sprint("c", i), "type": "function", "function": function}}},
			nil)
		for part := range strings.SplitAfterSeq(c.Args, ",") {
			chunk(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": part}}}}, nil)
		}
	}
	finish := "stop"
	switch {
	case s.step.Length:
		finish = "length"
	case len(s.step.Calls) > 0:
		finish = "tool_calls"
	}
	chunk(map[string]any{}, finish)
	s.send("", map[string]any{"id": "x", "object": "chat.completion.chunk", "choices": []any{}, "usage": map[string]any{"total_tokens": 40}})
	fmt.Fprint(s.w, "data: [DONE]\n\n")
}

func response(status, text string, calls []Call) map[string]any {
	output := []any{map[string]any{"type": "message", "id": "m", "role": "assistant", "status": "completed",
		"content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}}}}
	for i, c := range calls {
		output = append(output,
			map[string]any{"type": "function_call", "id": fmt.Sprint("f", i), "call_id": fmt.Sprint("c", i), "name": c.Name, "arguments": c.Args})
	}
	return map[string]any{"id": "r", "object": "response", "status": status, "output": output, "usage": map[string]any{"total_tokens": 40}}
}

func (s *stream) responses() {
	if !s.words(func(word string) {
		s.send("response.output_text.delta", map[string]any{"type": "response.output_text.delta", "delta": word})
	}) {
		return
	}
	status := "completed"
	if s.step.Length {
		status = "incomplete"
	}
	s.send("response."+status, map[string]any{"type": "response." + status, "response": response(status, s.step.Text, s.step.Calls)})
}
