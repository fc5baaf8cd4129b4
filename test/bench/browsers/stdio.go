package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// server is an MCP server that runs as a child, spoken to over its standard input
// and output. One request is under way at a time.
type server struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	next int
	late time.Duration // after which a request is given up
}

// startServer starts the program; env is added to the environment. Its standard
// error goes to a file, which is what there is to read when it fails.
func startServer(path string, args, env []string, dir string) (*server, error) {
	s := &server{cmd: exec.Command(path, args...), late: time.Minute}
	s.cmd.Dir = dir
	s.cmd.Env = append(os.Environ(), env...)
	log, err := os.CreateTemp(dir, "stderr-")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd.Stderr = log
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReaderSize(out, 1<<20)
	return s, s.cmd.Start()
}

type rpc struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// ask sends a request and waits for its answer, answering pings meanwhile.
func (s *server) ask(method string, params any) (json.RawMessage, error) {
	s.next++
	if err := s.send(map[string]any{"jsonrpc": "2.0", "id": s.next, "method": method, "params": params}); err != nil {
		return nil, err
	}
	late := time.AfterFunc(s.late, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	want := fmt.Sprint(s.next)
	for {
		line, err := s.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("%s: the server ended: %w", method, err)
		}
		var m rpc
		if err := json.Unmarshal(line, &m); err != nil {
			continue // some print words of their own
		}
		switch {
		case m.Method != "" && len(m.ID) > 0:
			answer := map[string]any{"jsonrpc": "2.0", "id": m.ID}
			if m.Method == "ping" {
				answer["result"] = struct{}{}
			} else {
				answer["error"] = map[string]any{"code": -32601, "message": "not offered"}
			}
			if err := s.send(answer); err != nil {
				return nil, err
			}
		case m.Method == "" && string(m.ID) == want:
			if m.Error != nil {
				return nil, fmt.Errorf("%s: %s", method, m.Error.Message)
			}
			return m.Result, nil
		}
	}
}

func (s *server) send(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = s.in.Write(append(line, '\n'))
	return err
}

func (s *server) initialize() error {
	if _, err := s.ask("initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": struct{}{}, "clientInfo": map[string]string{"name": "bench", "version": "1"},
	}); err != nil {
		return err
	}
	return s.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
}

// answer is what a tool returned.
type answer struct {
	text  string // of all its text parts
	image []byte // base64, of the first image
}

// call calls a tool; a tool that says it failed is an error.
func (s *server) call(tool string, args any) (answer, error) {
	raw, err := s.ask("tools/call", map[string]any{"name": tool, "arguments": args})
	if err != nil {
		return answer{}, err
	}
	var result struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
			Data string `json:"data"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return answer{}, err
	}
	var a answer
	for _, c := range result.Content {
		a.text += c.Text
		if c.Type == "image" && a.image == nil {
			a.image = []byte(c.Data)
		}
	}
	if result.IsError {
		return a, fmt.Errorf("%s: %.300s", tool, a.text)
	}
	return a, nil
}

// listBytes is the size of everything that tools/list returns, and without its output schemas.
func (s *server) listBytes() (all, without int, err error) {
	cursor := ""
	for {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		raw, err := s.ask("tools/list", params)
		if err != nil {
			return 0, 0, err
		}
		all += len(raw)
		var list struct {
			Tools      []map[string]json.RawMessage `json:"tools"`
			NextCursor string                       `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			return 0, 0, err
		}
		without += len(raw)
		for _, t := range list.Tools {
			if schema, ok := t["outputSchema"]; ok {
				without -= len(`,"outputSchema":`) + len(schema)
			}
		}
		if cursor = list.NextCursor; cursor == "" {
			return all, without, nil
		}
	}
}

// end closes its input, as clients do, and kills it if that does not end it.
func (s *server) end() error {
	_ = s.in.Close()
	return endProcess(s.cmd, s.out)
}

// endProcess waits for a process whose input ended; after a while it is asked to
// stop, and at last killed.
func endProcess(cmd *exec.Cmd, out io.Reader) error {
	var drained sync.WaitGroup
	drained.Go(func() { _, _ = io.Copy(io.Discard, out) })
	ask := time.AfterFunc(2*time.Second, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	kill := time.AfterFunc(15*time.Second, func() { _ = cmd.Process.Kill() })
	defer ask.Stop()
	defer kill.Stop()
	drained.Wait()
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil // how it ends is its own matter
	}
	return err
}
