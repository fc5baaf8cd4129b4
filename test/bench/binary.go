package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/handrail-dev/handrail/test/bench/figures"
)

// program builds the real binary as releases are built, once.
func (b *bench) program() (string, error) {
	path := filepath.Join(b.dir, "handrail")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	cmd := exec.Command(".ci/build", path)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building: %w: %s", err, out)
	}
	return path, nil
}

// process is the real binary at work.
type process struct {
	cmd    *exec.Cmd
	events *bufio.Scanner
}

// event is a line of a command's --json output.
type event struct {
	Event     string `json:"event"`
	HTTP      string `json:"http"`
	MCP       string `json:"mcp"`
	TokenFile string `json:"token_file"`
	Paste     string `json:"paste"`
}

func start(program string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(program, append(args, "--json")...)}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.events = bufio.NewScanner(out)
	return p, p.cmd.Start()
}

// await reads events up to the one of that name.
func (p *process) await(name string) (event, error) {
	for p.events.Scan() {
		var e event
		if json.Unmarshal(p.events.Bytes(), &e) == nil && e.Event == name {
			return e, nil
		}
	}
	return event{}, errors.Join(fmt.Errorf("%s gave no event %q", strings.Join(p.cmd.Args[1:], " "), name), p.events.Err())
}

// end stops it as a service manager would.
func (p *process) end() error {
	go func() { _, _ = io.Copy(io.Discard, nopReader{p.events}) }()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		_ = p.cmd.Process.Kill() // a system without that signal
	}
	late := time.AfterFunc(30*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	return p.cmd.Wait()
}

// nopReader drains a scanner.
type nopReader struct{ s *bufio.Scanner }

func (r nopReader) Read([]byte) (int, error) {
	if r.s.Scan() {
		return 0, nil
	}
	return 0, io.EOF
}

func (b *bench) startGateway(program, data string) (*process, event, error) {
	p, err := start(program, "gateway", "--data", data, "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0")
	if err != nil {
		return nil, event{}, err
	}
	ready, err := p.await("ready")
	if err != nil {
		_ = p.end()
	}
	return p, ready, err
}

// binary measures the real binary: its size, how fast a gateway starts, and what
// an idle node takes.
func (b *bench) binary() error {
	program, err := b.program()
	if err != nil {
		return err
	}
	info, err := os.Stat(program)
	if err != nil {
		return err
	}
	const part = "The binary"
	b.report.add(row{Part: part, What: "size, stripped, without cgo", Value: float64(info.Size()) / 1e6, Unit: "MB", Limit: 80})

	var first, later []float64
	var data string
	for round := range b.rounds {
		if data, err = b.sub(fmt.Sprint("start-", round)); err != nil {
			return err
		}
		for again := range 2 {
			took, err := b.startTime(program, data)
			if err != nil {
				return err
			}
			if again == 0 {
				first = append(first, took)
			} else {
				later = append(later, took)
			}
		}
	}
	b.report.add(
		row{Part: part, What: "gateway, from its start to its first answer", Value: figures.Median(later), Unit: "ms", Limit: 150},
		row{
			Part: part, What: "the same with an empty data directory (keys, tables, policy are made)", Value: figures.Median(first), Unit: "ms",
			Limit: 150,
		},
	)
	rss, err := b.idleNode(program, data)
	if err != nil {
		return err
	}
	if rss > 0 {
		b.report.add(row{Part: part, What: "idle node, resident memory, Chrome not started", Value: float64(rss) / 1e6, Unit: "MB", Limit: 40})
	}
	return nil
}

// startTime is how many ms pass from a gateway's start to its first answer.
func (b *bench) startTime(program, data string) (float64, error) {
	began := time.Now()
	p, ready, err := b.startGateway(program, data)
	if err != nil {
		return 0, err
	}
	resp, err := http.Get(ready.HTTP + "/healthz")
	took := time.Since(began)
	if err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("/healthz: %s", resp.Status)
		}
	}
	return float64(took.Microseconds()) / 1000, errors.Join(err, p.end())
}

// pair makes an invitation to the gateway of data.
func (b *bench) pair(program, data string, args ...string) (string, error) {
	cmd := exec.Command(program, append([]string{"pair", "--data", data, "--json", "--yes", "--no-wait"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("pair: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Paste != "" {
			return e.Paste, nil
		}
	}
	return "", fmt.Errorf("pair gave no paste: %s", out)
}

// settle is how long an idle process gets before its memory is read.
func (b *bench) settle() time.Duration {
	if b.quick {
		return 5 * time.Second
	}
	return 30 * time.Second
}

// idleNode is the memory of a node that does nothing.
func (b *bench) idleNode(program, data string) (int64, error) {
	g, _, err := b.startGateway(program, data)
	if err != nil {
		return 0, err
	}
	defer g.end()
	paste, err := b.pair(program, data)
	if err != nil {
		return 0, err
	}
	edge, err := b.sub("idle-node")
	if err != nil {
		return 0, err
	}
	join := exec.Command(program, "node", "join", "--data", edge)
	join.Stdin = strings.NewReader(paste)
	if out, err := join.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("join: %w: %s", err, out)
	}
	n, err := start(program, "node", "--data", edge)
	if err != nil {
		return 0, err
	}
	defer n.end()
	if _, err := n.await("connected"); err != nil {
		return 0, err
	}
	time.Sleep(b.settle())
	return figures.Resident(n.cmd.Process.Pid), nil
}

// idle measures the memory of a gateway with a crowd of nodes that do nothing.
func (b *bench) idle() error {
	program, err := b.program()
	if err != nil {
		return err
	}
	data, err := b.sub("crowd-gateway")
	if err != nil {
		return err
	}
	g, _, err := b.startGateway(program, data)
	if err != nil {
		return err
	}
	defer g.end()
	paste, err := b.pair(program, data, "--uses", fmt.Sprint(b.nodes))
	if err != nil {
		return err
	}
	time.Sleep(time.Second)
	alone := figures.Resident(g.cmd.Process.Pid)
	dir, err := b.sub("crowd")
	if err != nil {
		return err
	}
	crowd, err := spawn("crowd", crowdConfig{Dir: dir, Paste: paste, Nodes: b.nodes}, nil)
	if err != nil {
		return err
	}
	defer crowd.end()
	time.Sleep(b.settle())
	rss := figures.Resident(g.cmd.Process.Pid)
	if rss == 0 {
		return nil // a system that does not tell
	}
	r := row{
		Part: "Idle nodes", What: fmt.Sprintf("gateway with %d connected, idle nodes, resident memory", b.nodes), Value: float64(rss) / 1e6,
		Unit: "MB",
		Note: fmt.Sprintf("%.0f MB without nodes; %.1f MB at the peak, while they joined", float64(alone)/1e6,
			float64(figures.PeakResident(g.cmd.Process.Pid))/1e6),
	}
	if b.nodes == 1000 {
		r.Limit = 160
	}
	b.report.add(r)
	return nil
}
