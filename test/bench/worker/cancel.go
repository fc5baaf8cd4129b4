package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/test/bench/figures"
)

// patience is how long anything of a round may take.
const patience = time.Minute

// cancels returns how long after the request that cancels it a job is over, with the model's answer
// that it waited for, and how long a plain request takes, in ms.
func (s *site) cancels(rounds int) (ended, heard float64, err error) {
	token, err := os.ReadFile(filepath.Join(s.dir, "site", "gateway", "agent.token"))
	if err != nil {
		return 0, 0, err
	}
	c, err := client.New(s.url, client.NewToken(string(token)))
	if err != nil {
		return 0, 0, err
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	asked, given := make(chan struct{}, 1), make(chan time.Time, 1)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		slow := time.NewTicker(20 * time.Millisecond)
		defer slow.Stop()
		for first := true; ; first = false { // a word at a time, and no end
			_, _ = io.WriteString(w, `data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"well "}}]}`+"\n\n")
			w.(http.Flusher).Flush()
			if first {
				asked <- struct{}{}
			}
			select {
			case <-slow.C:
			case <-r.Context().Done():
				given <- time.Now()
				return
			}
		}
	})}
	go func() { _ = server.Serve(at) }()
	defer server.Close()
	w := s.command("worker", "--model", "small", "--endpoint", "http://"+at.Addr().String()+"/v1")
	if err := w.Start(); err != nil {
		return 0, 0, err
	}
	defer func() {
		_ = w.Process.Signal(syscall.SIGTERM)
		_ = w.Wait()
	}()
	ctx, over := context.WithTimeout(context.Background(), time.Duration(rounds)*patience)
	defer over()
	var all, plain []float64
	for range rounds {
		began := time.Now()
		job, err := c.PutJob(ctx, api.NewJob{Text: "/chat hello"})
		if err != nil {
			return 0, 0, err
		}
		plain = append(plain, float64(time.Since(began))/1e6)
		select {
		case <-asked:
		case <-time.After(patience):
			return 0, 0, fmt.Errorf("no worker asked the model about %s", job.ID)
		}
		began = time.Now()
		if _, err := c.CancelJob(ctx, job.ID); err != nil {
			return 0, 0, err
		}
		err = c.WatchJob(ctx, job.ID, func(j api.Job) error { job = j; return nil })
		if err != nil || job.State != api.JobCancelled {
			return 0, 0, fmt.Errorf("the job is %s: %w", job.State, err)
		}
		last := time.Now()
		if gone := <-given; gone.After(last) {
			last = gone
		}
		all = append(all, float64(last.Sub(began))/1e6)
	}
	return figures.Median(all), figures.Median(plain), nil
}
