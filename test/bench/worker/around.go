package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/test/bench/figures"
)

// perTurn is how many calls a measured turn makes.
const perTurn = 24

// around returns what a worker needs for each call of a turn beyond the call itself, in ms: from
// the model's answer that asks for them to the worker's next question, with the check of each
// permission, less the same calls made one after the other by a bare client.
func (s *site) around(rounds int) (more, alone float64, err error) {
	token, err := os.ReadFile(filepath.Join(s.dir, "site", "gateway", "agent.token"))
	if err != nil {
		return 0, 0, err
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	var round, sent, next atomic.Int64
	var asks atomic.Bool // the next question is answered by calls
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived := time.Now()
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		delta, finish := map[string]any{"content": "That is all."}, "stop"
		if asks.CompareAndSwap(true, false) {
			var calls []any
			for i := range perTurn {
				calls = append(calls, map[string]any{"index": i, "id": fmt.Sprint("c", i), "type": "function", "function": map[string]any{
					"name": "tool_fs_read", "arguments": fmt.Sprintf(`{"path":%q}`, fileOf("turn", round.Load(), i)),
				}})
			}
			delta, finish = map[string]any{"tool_calls": calls}, "tool_calls"
		} else {
			next.Store(arrived.UnixNano())
		}
		data, _ := json.Marshal(map[string]any{"object": "chat.completion.chunk", "choices": []any{
			map[string]any{"index": 0, "delta": delta, "finish_reason": finish},
		}})
		fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", data)
		w.(http.Flusher).Flush()
		if finish == "tool_calls" {
			sent.Store(time.Now().UnixNano())
		}
	})}
	go func() { _ = server.Serve(at) }()
	defer server.Close()
	var turns, bare []float64
	for n := range int64(rounds) {
		for i := range perTurn {
			for _, kind := range []string{"turn", "bare"} {
				if err := os.WriteFile(filepath.Join(s.dir, "work", fileOf(kind, n, i)), []byte("The rent is 700.\n"), 0o600); err != nil {
					return 0, 0, err
				}
			}
		}
		round.Store(n)
		asks.Store(true)
		out, err := s.command("run", "--model", "small", "--endpoint", "http://"+at.Addr().String()+"/v1", "--json", "/file read them").Output()
		if err != nil {
			return 0, 0, fmt.Errorf("a turn with calls: %w", err)
		}
		var turn struct {
			Calls []struct{ Status string } `json:"calls"`
		}
		if err := json.Unmarshal(out, &turn); err != nil || len(turn.Calls) != perTurn || turn.Calls[perTurn-1].Status != "ok" {
			return 0, 0, fmt.Errorf("a turn made other calls: %w %.300s", err, out)
		}
		turns = append(turns, float64(next.Load()-sent.Load())/1e6/perTurn)
		took, err := s.calls(strings.TrimSpace(string(token)), n)
		if err != nil {
			return 0, 0, err
		}
		bare = append(bare, took/perTurn)
	}
	alone = figures.Median(bare)
	return figures.Median(turns) - alone, alone, nil
}

// calls makes a round's calls by a bare client, and returns how long they took, in ms.
func (s *site) calls(token string, round int64) (float64, error) {
	call := func(i int) error {
		body := fmt.Appendf(nil, `{"tool":"tool.fs.read","args":{"path":%q}}`, fileOf("bare", round, i))
		req, err := http.NewRequest(http.MethodPost, s.url+"/v1/calls", bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err == nil && !bytes.Contains(answer, []byte(`"status":"ok"`)) {
			err = fmt.Errorf("a bare call: %.300s", answer)
		}
		return err
	}
	began := time.Now()
	for i := range perTurn {
		if err := call(i); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(began)) / 1e6, nil
}

func fileOf(kind string, round int64, i int) string {
	return fmt.Sprintf("%s-%d-%d.txt", kind, round, i)
}
