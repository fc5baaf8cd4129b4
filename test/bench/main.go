package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/test/bench/figures"
)

func main() {
	var err error
	if name := os.Getenv(roleEnv); name != "" {
		err = serveRole(name)
	} else {
		err = run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	report  report
	dir     string // on the disk that is measured; its own, removed at the end
	rounds  int
	ms      int // of each measurement
	nodes   int // of the crowd
	profile string
	quick   bool
}

// parts are what can be measured, in this order.
var parts = []struct {
	name string
	run  func(*bench) error
}{
	{"routed", (*bench).routed},
	{"mcp", (*bench).mcp},
	{"binary", (*bench).binary},
	{"idle", (*bench).idle},
	{"browser", (*bench).browser},
}

func run() error {
	quick := flag.Bool("quick", false, "fewer and shorter rounds: a hint, not a result")
	asJSON := flag.Bool("json", false, "print one JSON object instead of a table")
	out := flag.String("out", "", "document to put the table into, between its marks")
	only := flag.String("only", "", "parts to run, separated by commas: routed, mcp, binary, idle, browser (default all)")
	dir := flag.String("dir", "", "folder on the disk to measure (default the system's for temporary files)")
	profile := flag.String("profile", "", "folder for CPU profiles of gateway and node")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if *out != "" {
		if err := figures.Check(*out, beginMark, endMark); err != nil {
			return err // before minutes are spent
		}
	}
	var chosen []string
	if *only != "" {
		chosen = strings.Split(*only, ",")
	}
	b := &bench{rounds: 7, ms: 2000, nodes: 1000, profile: *profile, quick: *quick}
	if *quick {
		b.rounds, b.ms, b.nodes = 3, 700, 200
	}
	var err error
	if b.dir, err = os.MkdirTemp(*dir, "handrail-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	fsync, err := fsyncTime(b.dir)
	if err != nil {
		return err
	}
	b.report = report{
		When: time.Now(), Machine: figures.Machine(), Cores: runtime.NumCPU(), Go: runtime.Version(), Load: figures.Load(), Rounds: b.rounds,
		Quick: *quick, FsyncUS: float64(fsync.Microseconds()),
	}
	var errs []error
	for _, p := range parts {
		if len(chosen) > 0 && !slices.Contains(chosen, p.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s …\n", p.name)
		if err := p.run(b); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	if *asJSON {
		errs = append(errs, b.report.json(os.Stdout))
	} else {
		b.report.table(os.Stdout)
	}
	if *out != "" {
		errs = append(errs, b.report.save(*out))
	}
	return errors.Join(errs...)
}

// sub makes a folder of that name for one part.
func (b *bench) sub(name string) (string, error) {
	dir := filepath.Join(b.dir, name)
	return dir, os.MkdirAll(dir, 0o700)
}

// subject is something measured, with who carries it out.
type subject struct {
	by      *child
	measure measure
	rounds  series
}

func (s *subject) once() error {
	var x sample
	if err := s.by.ask(s.measure, &x); err != nil {
		return err
	}
	s.rounds = append(s.rounds, x)
	return nil
}

// alternate measures all subjects round by round, every second round backwards,
// so that what changes on the machine meanwhile meets them alike.
func (b *bench) alternate(subjects ...*subject) error {
	for round := range b.rounds {
		turn := slices.Clone(subjects)
		if round%2 == 1 {
			slices.Reverse(turn)
		}
		for _, s := range turn {
			if err := s.once(); err != nil {
				return err
			}
		}
	}
	return nil
}
