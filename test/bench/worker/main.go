package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/handrail-dev/handrail/test/bench/figures"
)

// The lines between which --out puts the table.
const (
	beginMark = "<!-- figures of worker: written by test/bench/worker -->"
	endMark   = "<!-- end of the figures of worker -->"
)

func main() {
	out := flag.String("out", "", "document to put the table into, between its marks")
	program := flag.String("program", "bin/handrail", "the built program")
	rounds := flag.Int("rounds", 20, "turns with a model, and short rounds of benchmarks")
	flag.Parse()
	if err := run(*out, *program, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench-worker:", err)
		os.Exit(1)
	}
}

// line is one line of the table.
type line struct {
	what  string
	value float64
	unit  string
	limit float64
	floor string
}

// quickest returns the least time of each benchmark of a package, in µs.
func quickest(pkg, pattern, iterations string, rounds int) (map[string]float64, error) {
	fmt.Fprintf(os.Stderr, "bench-worker: %s %s …\n", pkg, pattern)
	text, err := exec.Command("go", "test", "-vet=off", "-run", "^$", "-bench", pattern, "-benchtime", iterations, "-count",
		strconv.Itoa(rounds), "-timeout", "20m", pkg).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", pkg, err, text)
	}
	best := map[string]float64{}
	for l := range strings.Lines(string(text)) {
		f := strings.Fields(l)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(f[0], "Benchmark")
		if at := strings.LastIndexByte(name, '-'); at > 0 {
			name = name[:at] // the number of processors
		}
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is no result", pkg, l)
			}
			if f[i+1] == "ns/op" && (best[name] == 0 || v < best[name]*1000) {
				best[name] = v / 1000
			}
		}
	}
	return best, nil
}

func run(out, program string, rounds int) error {
	if out != "" {
		if err := figures.Check(out, beginMark, endMark); err != nil {
			return err // before minutes are spent
		}
	}
	load := figures.Load()
	all := map[string]float64{}
	for _, m := range []struct{ pkg, pattern, iterations string }{
		{"./agent/worker/router", "Signals", "400x"},
		{"./agent/worker/gate", "Decide", "1000x"},
		{"./agent/worker", "EngineCall", "20x"},
		{"./gateway/knowledge", "Search", "20x"},
	} {
		some, err := quickest(m.pkg, m.pattern, m.iterations, rounds)
		if err != nil {
			return err
		}
		for name, v := range some {
			all[name] = v
		}
	}
	s, err := begin(program)
	if err != nil {
		return err
	}
	defer s.end()
	idle, own, err := s.idle()
	if err != nil {
		return err
	}
	shown, bare, err := s.firstWords(rounds)
	if err != nil {
		return err
	}
	ended, heard, err := s.cancels(rounds)
	if err != nil {
		return err
	}
	more, alone, check, err := s.around(3 * rounds)
	if err != nil {
		return err
	}
	lines := []line{
		{"router, by its signals", all["Signals/router"], "µs", 200, fmt.Sprintf("folding the same words %.2f µs", all["Signals/floor"])},
		{"gate", all["Decide/gate"], "µs", 50, fmt.Sprintf("a copy of its row %.2f µs", all["Decide/floor"])},
		{"facts for a turn, of 100,000", all["Search/search"] / 1000, "ms", 5,
			fmt.Sprintf("one fact by its key %.3f ms", all["Search/floor"]/1000)},
		{"around each call of a turn, the check of its permission included", more, "ms", 0.3,
			fmt.Sprintf("the call alone %.2f ms; a check by a bare client %.2f ms; the engine's part %.4f ms", alone, check, all["EngineCall/engine"]/24/1000)},
		{"idle worker, resident", idle, "MB", 40, fmt.Sprintf("%.3g MB of it its own", own)},
		{"a job cancelled, in the middle of a model's answer", ended, "ms", 200, fmt.Sprintf("a request of the same gateway %.2f ms", heard)},
		{"first words shown, after the endpoint's", shown, "ms", 50, fmt.Sprintf("a bare HTTP client %.2f ms", bare)},
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s, %d cores, %s; load average at the start %s.\n\n", figures.Machine(), runtime.NumCPU(), runtime.Version(), load)
	text.WriteString("| | | target | | floor |\n|---|---|---|---|---|\n")
	for _, l := range lines {
		if l.value == 0 {
			return fmt.Errorf("%s was not measured", l.what)
		}
		verdict := "missed"
		if l.value <= l.limit {
			verdict = "met"
		}
		fmt.Fprintf(&text, "| %s | %.3g %s | ≤ %g %s | %s | %s |\n", l.what, l.value, l.unit, l.limit, l.unit, verdict, l.floor)
	}
	fmt.Println(text.String())
	if out == "" {
		return nil
	}
	return figures.Save(out, beginMark, endMark, text.Bytes())
}

// site is one gateway with its node, in a folder of its own.
type site struct {
	program, dir string
	url          string
	env          []string
	up           *exec.Cmd
}

// begin starts a site and waits until it is ready.
func begin(program string) (*site, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "handrail-bench-worker-")
	if err != nil {
		return nil, err
	}
	s := &site{program: program, dir: dir, env: append(os.Environ(), "HOME="+dir, "HANDRAIL_DATA="+filepath.Join(dir, "site"))}
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		return nil, err
	}
	s.up = s.command("up", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--no-task", "--json", "--desktop", "off",
		"--workspace", filepath.Join(dir, "work"))
	said, err := s.up.StdoutPipe()
	if err == nil {
		err = s.up.Start()
	}
	if err != nil {
		return nil, err
	}
	lines := bufio.NewReader(said)
	var ready struct{ HTTP string }
	first, err := lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(first, &ready)
	}
	if err != nil {
		s.end()
		return nil, fmt.Errorf("the site does not start: %w", err)
	}
	s.url = "http://" + strings.TrimPrefix(ready.HTTP, "http://")
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return s, nil
}

func (s *site) command(args ...string) *exec.Cmd {
	c := exec.Command(s.program, args...)
	c.Env, c.Stderr = s.env, io.Discard
	return c
}

func (s *site) end() {
	if s.up != nil && s.up.Process != nil {
		_ = s.up.Process.Signal(syscall.SIGTERM)
		_ = s.up.Wait()
	}
	_ = os.RemoveAll(s.dir)
}

// settles is how long a worker is left alone before its memory is read.
const settles = 5 * time.Second

// idle is what a worker that waits for jobs has, in MB: with the program's file, and without it.
func (s *site) idle() (all, own float64, err error) {
	w := s.command("worker", "--offline")
	if err := w.Start(); err != nil {
		return 0, 0, err
	}
	defer func() {
		_ = w.Process.Signal(syscall.SIGTERM)
		_ = w.Wait()
	}()
	time.Sleep(settles)
	if err := w.Process.Signal(syscall.Signal(0)); err != nil {
		return 0, 0, fmt.Errorf("the worker ended: %w", err)
	}
	return float64(figures.Resident(w.Process.Pid)) / 1e6, float64(figures.Anonymous(w.Process.Pid)) / 1e6, nil
}

// firstWords returns how long after the endpoint's first words the program and a bare client show
// them, in ms.
func (s *site) firstWords(rounds int) (shown, bare float64, err error) {
	var sent atomic.Int64
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(text, finish string) {
			choice := map[string]any{"index": 0, "delta": map[string]any{"content": text}}
			if finish != "" {
				choice["finish_reason"] = finish
			}
			data, _ := json.Marshal(map[string]any{"object": "chat.completion.chunk", "choices": []any{choice}})
			fmt.Fprintf(w, "data: %s\n\n", data)
			w.(http.Flusher).Flush()
		}
		sent.Store(time.Now().UnixNano())
		say("Hello", "")
		time.Sleep(100 * time.Millisecond) // the rest must not be what is waited for
		say(" you.", "stop")
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	})}
	go func() { _ = server.Serve(at) }()
	defer server.Close()
	url := "http://" + at.Addr().String() + "/v1"
	var all, plain []float64
	for range rounds {
		c := s.command("run", "--model", "small", "--endpoint", url, "/chat hello")
		said, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			return 0, 0, err
		}
		_, err = said.Read(make([]byte, 1))
		all = append(all, float64(time.Now().UnixNano()-sent.Load())/1e6)
		_, _ = io.Copy(io.Discard, said)
		if err := errors.Join(err, c.Wait()); err != nil {
			return 0, 0, fmt.Errorf("a turn with a model: %w", err)
		}
		resp, err := http.Post(url, "application/json", strings.NewReader("{}"))
		if err != nil {
			return 0, 0, err
		}
		_, err = resp.Body.Read(make([]byte, 1))
		plain = append(plain, float64(time.Now().UnixNano()-sent.Load())/1e6)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return 0, 0, err
		}
	}
	return figures.Median(all), figures.Median(plain), nil
}
