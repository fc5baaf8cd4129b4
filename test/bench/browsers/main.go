package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/chrome"
	"github.com/handrail-dev/handrail/test/bench/figures"
)

func main() {
	run := command
	if value := os.Getenv(wayRoleEnv); value != "" {
		run = func() error { return serveWay(value) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "browsers:", err)
		os.Exit(1)
	}
}

func command() error {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "fewer and shorter rounds: a hint, not a result")
	flag.StringVar(&o.peers, "peers", os.Getenv("PEERS"), "folder whose node_modules holds the peers' npm packages (default $PEERS)")
	flag.StringVar(&o.browser, "browser", "", "path of Chrome or Chromium (default: found)")
	flag.StringVar(&o.dir, "dir", "", "folder on the disk to measure (default the system's for temporary files)")
	flag.StringVar(&o.profile, "profile", "", "folder for CPU profiles of our processes and a trace of the protocol")
	only := flag.String("only", "", "what to measure, separated by commas: small, large, cold, or beginnings of operations (default all)")
	out := flag.String("out", "", "document to put the tables into, between their marks")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	if *out != "" {
		if err := figures.Check(*out, beginMark, endMark); err != nil {
			return err // before minutes are spent
		}
	}
	o.log = os.Stderr
	r, err := measure(o)
	if r == nil {
		return err
	}
	r.text(os.Stdout)
	if *out != "" && err == nil {
		err = r.save(*out)
	}
	return err
}

type options struct {
	quick         bool
	only          []string
	peers         string
	browser, dir  string
	profile       string
	rounds, times int // 0: as quick says
	log           io.Writer
}

// wants reports whether a part was asked for; kinds are all words of its kind.
func (o options) wants(word string, kinds ...string) bool {
	asked := false
	for _, w := range o.only {
		for _, k := range kinds {
			asked = asked || strings.HasPrefix(k, w)
		}
		if strings.HasPrefix(word, w) {
			return true
		}
	}
	return !asked
}

var pageNames = []string{"small", "large"}

func opNames() (all []string) {
	for _, g := range goals {
		all = append(all, string(g.op))
	}
	return all
}

// wantsPage, wantsOp and wantsCold: "large" means all operations on it, "click"
// clicks on both pages, "cold" nothing else.
func (o options) wantsPage(page string) bool { return o.wants(page, pageNames...) && !o.onlyCold() }
func (o options) wantsOp(op operation) bool  { return o.wants(string(op), opNames()...) }
func (o options) wantsCold() bool            { return len(o.only) == 0 || slices.Contains(o.only, "cold") }
func (o options) onlyCold() bool             { return len(o.only) == 1 && o.only[0] == "cold" }

// cell is one subject's times of one operation on one page.
type cell struct {
	rounds []float64 // medians in ms
	worst  float64   // in ms
	fault  error     // why there is no figure
	lacks  string    // the part of the page that the answer left out
	bytes  int       // of the latest answer's text
}

type cellKey struct {
	subject, page string
	op            operation
}

// bench is one run.
type bench struct {
	o       options
	rounds  int
	times   int           // of an operation in a round
	budget  time.Duration // of an operation in a round
	dir     string
	site    *pages
	browser platform.Browser
	h       *handrail
	way     *way // nil: not measured
	found   []peer
	cells   map[cellKey]*cell
	order   []string // subjects' names as columns
	views   map[string]int
	report  *report
}

// measure does everything that was asked for. With an error it still returns what was measured, if
// anything was.
func measure(o options) (r *report, err error) {
	b := &bench{o: o, rounds: 5, times: 15, budget: 4 * time.Second, cells: map[cellKey]*cell{}, views: map[string]int{}}
	if o.quick {
		b.rounds, b.times, b.budget = 2, 6, 2*time.Second
	}
	if o.rounds > 0 {
		b.rounds, b.times = o.rounds, o.times
	}
	if b.browser, err = chrome.New(chrome.Options{Path: o.browser}).Find(context.Background()); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp(o.dir, "handrail-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.site, err = servePages(); err != nil {
		return nil, err
	}
	defer b.site.close()
	if o.profile != "" {
		if o.profile, err = filepath.Abs(o.profile); err != nil {
			return nil, err
		}
		if err = os.MkdirAll(o.profile, 0o755); err != nil {
			return nil, err
		}
	}
	b.report = &report{
		when: time.Now(), machine: figures.Machine(), browser: b.browser.Product + " " + b.browser.Version, load: figures.Load(),
		rounds: b.rounds, quick: o.quick,
	}
	b.h = &handrail{dir: b.dir, site: b.site, browser: b.browser, profile: o.profile}
	root, err := repository()
	if err != nil {
		return nil, err
	}
	b.say("building")
	if err = b.h.build(root); err != nil {
		return nil, err
	}
	b.findPeers()
	if !o.onlyCold() {
		if err = b.operations(); err != nil {
			return b.report, err
		}
	}
	if o.wantsCold() {
		b.say("cold start")
		err = b.cold()
	}
	return b.report, err
}

func (b *bench) say(format string, args ...any) {
	if b.o.log != nil {
		fmt.Fprintf(b.o.log, "browsers: "+format+"\n", args...)
	}
}

func repository() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// findPeers notes which peers are installed, and which are not.
func (b *bench) findPeers() {
	if b.o.peers == "" {
		b.report.note("No peers were measured: none are installed here (PEERS=dir names a folder with their packages).")
		return
	}
	dir, err := filepath.Abs(b.o.peers)
	if err != nil {
		dir = b.o.peers
	}
	b.o.peers = dir
	for _, p := range peers {
		_, _, version, err := p.find(dir, b.browser)
		if err != nil {
			b.report.note("%s was not measured: %v.", p.called, err)
			continue
		}
		p.called += " " + version
		b.found = append(b.found, p)
	}
}

// operations measures everything on both pages with all subjects running.
func (b *bench) operations() (err error) {
	in, err := b.h.install(mainName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.end()) }()
	us, ourServer, err := in.subject()
	if err != nil {
		return err
	}
	subjects := []subject{us}
	defer func() {
		for _, s := range subjects {
			err = errors.Join(err, s.end())
		}
	}()
	var trace io.Writer
	if f, ferr := traceFile(b.o.profile, "protocol.txt"); ferr == nil {
		defer f.Close()
		trace = f
	}
	handler, err := newAlone(b.browser, b.site, trace)
	if err != nil {
		return err
	}
	subjects = append(subjects, handler)
	floor, err := startBare(b.browser, os.TempDir())
	if err != nil {
		return err
	}
	subjects = append(subjects, floor)
	servers := map[string]*server{us.name(): ourServer}
	for _, p := range b.found {
		s, server, err := p.subject(b.o.peers, b.dir, b.browser)
		if err != nil {
			b.report.note("%s was not measured: %v.", p.called, err)
			continue
		}
		servers[p.called] = server
		subjects = append(subjects, s)
	}
	for _, s := range subjects {
		b.order = append(b.order, s.name())
	}
	if b.o.wantsOp(opTabs) {
		if b.way, err = startWay(b.dir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.way.end()) }()
	}
	for round := range b.rounds {
		b.say("round %d of %d", round+1, b.rounds)
		turn := slices.Clone(subjects)
		if round%2 == 1 {
			slices.Reverse(turn)
		}
		for _, page := range pageNames {
			if b.o.wantsPage(page) {
				b.round(place{b.site, page}, turn)
			}
		}
	}
	b.report.operations(b)
	return b.report.sizes(b, servers, in.node.cmd.Process.Pid)
}

// round measures every operation on one page, subject after subject.
func (b *bench) round(p place, turn []subject) {
	for _, s := range turn {
		b.batch(goals[0], p, s)
		if c := b.cell(s, p, opNavigate); c.fault != nil {
			continue
		}
		if err := s.aim(); err != nil {
			b.cell(s, p, opNavigate).fault = err // nothing can be done on that page
		}
	}
	for _, g := range goals[1:] {
		if !b.o.wantsOp(g.op) {
			continue
		}
		for _, s := range turn {
			if b.cell(s, p, opNavigate).fault == nil {
				b.batch(g, p, s)
			}
		}
		if g.op == opTabs {
			if err := b.way.batch(b.times); err != nil {
				b.report.note("The way alone: %.160v", err)
			}
		}
	}
}

func (b *bench) cell(s subject, p place, op operation) *cell {
	k := cellKey{s.name(), p.page, op}
	if b.cells[k] == nil {
		b.cells[k] = &cell{}
	}
	return b.cells[k]
}

// batch measures an operation some times by one subject, and lets the page prove it. A subject that
// failed once gets no figure and is not tried again.
func (b *bench) batch(g goal, p place, s subject) {
	op := g.op
	c := b.cell(s, p, op)
	if c.fault != nil {
		return
	}
	median, worst, err := b.timed(g, p, s, c)
	if err != nil {
		c.fault = err
		if !errors.Is(err, errNoTool) {
			b.say("%s, %s, %s page: %v", s.name(), op, p.page, err)
		}
		return
	}
	c.rounds, c.worst = append(c.rounds, median), max(c.worst, worst)
}

func (b *bench) timed(g goal, p place, s subject, c *cell) (median, worst float64, err error) {
	op := g.op
	look := func() (counts, error) {
		text, err := s.evaluate("state()")
		if err != nil {
			return nil, err
		}
		return readCounts(text)
	}
	var before counts
	if op != opNavigate {
		if op == opPress {
			if _, err := s.evaluate(`document.getElementById('keys').focus(),1`); err != nil {
				return 0, 0, err
			}
		}
		if before, err = look(); err != nil {
			return 0, 0, err
		}
	}
	times := b.times
	if op == opNavigate {
		times = max(2, times/3)
	}
	var took []float64
	var a answer
	done := 0
	began := time.Now()
	for i := range times + 1 { // the first is to warm up
		if i > 2 && time.Since(began) > b.budget {
			break
		}
		b.views[s.name()]++
		if g.apart {
			time.Sleep(pause(i))
		}
		start := time.Now()
		if a, err = s.do(op, p, b.views[s.name()]); err != nil {
			return 0, 0, err
		}
		if i > 0 {
			took = append(took, float64(time.Since(start).Microseconds())/1000)
		}
		done++
	}
	after, err := look()
	if err != nil {
		return 0, 0, err
	}
	c.bytes = len(a.text)
	if f, err := traceFile(b.o.profile, fmt.Sprintf("%s-%s-%s.txt", op, p.page, s.name())); err == nil {
		_, err = io.WriteString(f, a.text)
		if err = errors.Join(err, f.Close()); err != nil {
			return 0, 0, err
		}
	}
	if err := answered(op, p, a); err != nil {
		var partly partlyError
		if !errors.As(err, &partly) {
			return 0, 0, err
		}
		c.lacks = partly.lacks
	}
	if err := proven(op, before, after, done, b.views[s.name()]); err != nil {
		return 0, 0, noEffectError{err}
	}
	return figures.Median(took), slices.Max(took), nil
}

// noEffectError says that the page does not show what the subject said it did.
type noEffectError struct{ error }
