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

// A measured turn makes few or many calls: their difference leaves out what each turn costs once.
const few, many = 8, 32

// around returns what a worker needs for each further call of a turn beyond the call itself, in ms:
// from the model's answer that asks for them to the worker's next question, with the check of each
// permission, less the same calls made one after the other by a bare client: the median over the
// rounds, since what a round is slowed by slows its turns and its client alike. alone is such a
// call, and check a check by that client.
func (s *site) around(rounds int) (more, alone, check float64, err error) {
	token, err := os.ReadFile(filepath.Join(s.dir, "site", "gateway", "agent.token"))
	if err != nil {
		return 0, 0, 0, err
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, 0, err
	}
	var round, size, sent, next atomic.Int64
	var asks atomic.Bool // the next question is answered by calls
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived := time.Now()
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		delta, finish := map[string]any{"content": "That is all."}, "stop"
		if asks.CompareAndSwap(true, false) {
			var calls []any
			for i := range int(size.Load()) {
				calls = append(calls, map[string]any{"index": i, "id": fmt.Sprint("c", i), "type": "function", "function": map[string]any{
					"name": "tool_fs_read", "arguments": fmt.Sprintf(`{"path":%q}`, fileOf("turn", size.Load(), round.Load(), i)),
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
	turn := func(n, calls int64) (float64, error) {
		round.Store(n)
		size.Store(calls)
		asks.Store(true)
		out, err := s.command("run", "--model", "small", "--endpoint", "http://"+at.Addr().String()+"/v1", "--json", "/file read them").Output()
		if err != nil {
			return 0, fmt.Errorf("a turn with calls: %w", err)
		}
		var turn struct {
			Calls []struct{ Status string } `json:"calls"`
		}
		if err := json.Unmarshal(out, &turn); err != nil || len(turn.Calls) != int(calls) || turn.Calls[calls-1].Status != "ok" {
			return 0, fmt.Errorf("a turn made other calls: %w %.300s", err, out)
		}
		return float64(next.Load()-sent.Load()) / 1e6, nil
	}
	var mores, bare, checks []float64
	for n := range int64(rounds) {
		for _, kind := range []string{"turn", "bare"} {
			for _, calls := range []int64{few, many} {
				for i := range int(calls) {
					if err := os.WriteFile(filepath.Join(s.dir, "work", fileOf(kind, calls, n, i)), []byte("The rent is 700.\n"), 0o600); err != nil {
						return 0, 0, 0, err
					}
				}
			}
		}
		short, err := turn(n, few)
		if err != nil {
			return 0, 0, 0, err
		}
		long, err := turn(n, many)
		if err != nil {
			return 0, 0, 0, err
		}
		for _, m := range []struct {
			path, shows string
			into        *[]float64
		}{{"/v1/calls", `"status":"ok"`, &bare}, {"/v1/permissions/check", `"state":"covered"`, &checks}} {
			took, err := s.requests(strings.TrimSpace(string(token)), m.path, m.shows, n)
			if err != nil {
				return 0, 0, 0, err
			}
			*m.into = append(*m.into, took/many)
		}
		mores = append(mores, (long-short)/(many-few)-bare[len(bare)-1])
	}
	return figures.Median(mores), figures.Median(bare), figures.Median(checks), nil
}

// requests asks path about each file of a round by a bare client, each answer with shows in it, and
// returns how long that took, in ms.
func (s *site) requests(token, path, shows string, round int64) (float64, error) {
	request := func(i int) error {
		body := fmt.Appendf(nil, `{"tool":"tool.fs.read","args":{"path":%q}}`, fileOf("bare", many, round, i))
		req, err := http.NewRequest(http.MethodPost, s.url+path, bytes.NewReader(body))
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
		if err == nil && !bytes.Contains(answer, []byte(shows)) {
			err = fmt.Errorf("%s by a bare client: %.300s", path, answer)
		}
		return err
	}
	began := time.Now()
	for i := range many {
		if err := request(i); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(began)) / 1e6, nil
}

func fileOf(kind string, of, round int64, i int) string {
	return fmt.Sprintf("%s-%d-%d-%d.txt", kind, of, round, i)
}
