package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	// Guards and runners are this program started again, which has what the product has in it.
	_ "github.com/handrail-dev/handrail/capabilities/browser"
	_ "github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/platform/sandbox"
	"github.com/handrail-dev/handrail/test/bench/figures"
)

// The lines between which --out puts the table.
const (
	beginMark = "<!-- figures of spawn: written by test/bench/spawn -->"
	endMark   = "<!-- end of the figures of spawn -->"
)

func main() {
	out := flag.String("out", "", "document to put the table into, between its marks")
	peers := flag.String("peers", "", "folder of node_modules with @anthropic-ai/sandbox-runtime; default: without it and bwrap")
	rounds := flag.Int("rounds", 40, "starts of each kind")
	flag.Parse()
	if err := run(*out, *peers, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench-spawn:", err)
		os.Exit(1)
	}
}

// took is how long one start took.
type took struct{ first, whole float64 } // milliseconds

// way is one way to start a program in a folder.
type way struct {
	name   string
	limit  float64 // of first; 0: none
	seldom bool    // it takes so long that a fifth of the rounds will do
	start  func(ctx context.Context, dir string) (out io.Reader, end func() error, err error)
	before func(ctx context.Context) error // waits until it can be measured; nil: nothing to wait for
	all    []took
}

var program = []string{"/bin/echo", "x"}

func run(out, peers string, rounds int) error {
	if out != "" {
		if err := figures.Check(out, beginMark, endMark); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	dir, err := os.MkdirTemp("", "handrail-spawn-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	warm := sandbox.New(procguard.New(procguard.Options{}))
	cold := sandbox.New(procguard.New(procguard.Options{}))
	over := make(chan error, 1)
	go func() { over <- warm.Run(ctx) }()
	ways := []*way{
		{name: "bare, without any wall", start: command(func(string) []string { return program })},
		{name: "a runner stands ready", limit: 3, start: boxed(warm), before: func(ctx context.Context) error { return stands(ctx, warm) }},
		{name: "no runner stands ready", limit: 25, start: boxed(cold)},
		{name: "the same, without namespaces", limit: 25, start: boxed(cold.WithoutNamespaces())},
	}
	if peers != "" {
		ways = append(ways,
			&way{name: "`bwrap`, all unshared", start: command(bwrap)},
			&way{name: "`@anthropic-ai/sandbox-runtime`", seldom: true, start: command(srt(peers))})
	}
	for round := range rounds {
		for _, w := range ways {
			if w.seldom && round%5 != 0 {
				continue
			}
			if err := w.once(ctx, dir, round == 0); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	stop()
	if err := <-over; err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s, %d cores; load average %s; medians of %d starts of `echo`.\n\n", figures.Machine(), runtime.NumCPU(), figures.Load(),
		rounds)
	b.WriteString("| | to its first output | target | | to its end |\n|---|---|---|---|---|\n")
	for _, w := range ways {
		var first, whole []float64
		for _, t := range w.all {
			first, whole = append(first, t.first), append(whole, t.whole)
		}
		target, verdict := "", ""
		if w.limit > 0 {
			target, verdict = fmt.Sprintf("≤ %g ms", w.limit), "missed"
			if figures.Median(first) <= w.limit {
				verdict = "met"
			}
		}
		fmt.Fprintf(&b, "| %s | %.2f ms | %s | %s | %.2f ms |\n", w.name, figures.Median(first), target, verdict, figures.Median(whole))
	}
	fmt.Print(b.String())
	if out == "" {
		return nil
	}
	return figures.Save(out, beginMark, endMark, b.Bytes())
}

// once starts the program once and notes how long it took, unless it is only to warm the caches.
func (w *way) once(ctx context.Context, dir string, only bool) error {
	if w.before != nil && !only {
		if err := w.before(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	out, end, err := w.start(ctx, dir)
	if err != nil {
		return err
	}
	var letter [1]byte
	if _, err := io.ReadFull(out, letter[:]); err != nil {
		if ended := end(); ended != nil {
			return ended
		}
		return fmt.Errorf("it ended without a word: %w", err)
	}
	first := time.Since(began)
	if _, err := io.Copy(io.Discard, out); err != nil {
		return err
	}
	if err := end(); err != nil {
		return err
	}
	if !only {
		w.all = append(w.all, took{milliseconds(first), milliseconds(time.Since(began))})
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// stands waits until the pool is full, so that nothing else is under way.
func stands(ctx context.Context, box *sandbox.Sandbox) error {
	for until := time.Now().Add(30 * time.Second); ; {
		if n, _, _ := box.Ready(capabilities.ClassT1); n >= 2 {
			return nil
		}
		if time.Now().After(until) {
			return errors.New("no runner came to stand ready")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func boxed(box *sandbox.Sandbox) func(context.Context, string) (io.Reader, func() error, error) {
	return func(ctx context.Context, dir string) (io.Reader, func() error, error) {
		p, err := box.Start(ctx, sandbox.Program{Argv: program, Write: []string{dir}})
		if err != nil {
			return nil, nil, err
		}
		return p.Stdout(), func() error {
			code, err := p.Wait()
			if err == nil && code != 0 {
				err = fmt.Errorf("it ended with %d: %s", code, p.Stderr())
			}
			return err
		}, nil
	}
}

func command(of func(dir string) []string) func(context.Context, string) (io.Reader, func() error, error) {
	return func(ctx context.Context, dir string) (io.Reader, func() error, error) {
		argv := of(dir)
		c := exec.CommandContext(ctx, argv[0], argv[1:]...)
		var said bytes.Buffer
		c.Dir, c.Stderr = dir, &said
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		return out, func() error {
			err := c.Wait()
			if err != nil {
				err = fmt.Errorf("%s: %w: %s", argv[0], err, bytes.TrimSpace(said.Bytes()))
			}
			return err
		}, err
	}
}

func bwrap(dir string) []string {
	argv := []string{"bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"}
	for _, system := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		argv = append(argv, "--ro-bind", system, system)
	}
	return append(append(argv, "--bind", dir, dir, "--chdir", dir, "--"), program...)
}

func srt(peers string) func(dir string) []string {
	return func(dir string) []string {
		settings := filepath.Join(dir, "settings.json")
		text, err := json.Marshal(map[string]any{
			"network":    map[string]any{"allowedDomains": []string{}, "deniedDomains": []string{}},
			"filesystem": map[string]any{"denyRead": []string{}, "allowWrite": []string{dir}, "denyWrite": []string{}},
		})
		if err == nil {
			err = os.WriteFile(settings, text, 0o600)
		}
		if err != nil {
			return []string{"false"}
		}
		return []string{filepath.Join(peers, "node_modules/.bin/srt"), "--settings", settings, "-c", program[0] + " " + program[1]}
	}
}
