package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/handrail-dev/handrail/test/bench/figures"
)

// report is the result of one run, as tables.
type report struct {
	when                   time.Time
	machine, browser, load string
	rounds                 int
	quick                  bool
	tables                 []*table
	notes                  []string
}

// table has a line for each thing measured and a column for each subject.
type table struct {
	title   string
	columns []string
	lines   []line
}

type line struct {
	what    string
	target  string
	values  []string // by column
	verdict string
}

func (r *report) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// The first three columns are ours, our handler alone and the floor; what follows
// are peers.
const peersFrom = 3

// operations makes a table for each page.
func (r *report) operations(b *bench) {
	for _, page := range pageNames {
		if !b.o.wantsPage(page) {
			continue
		}
		t := &table{
			title: map[string]string{"small": "Small page (27 elements), ms", "large": "Large page (5,100 elements), ms"}[page], columns: b.order,
		}
		for _, g := range goals {
			if g.op != opNavigate && !b.o.wantsOp(g.op) {
				continue
			}
			values := make([]float64, len(b.order))
			l := line{what: string(g.op)}
			for i, name := range b.order {
				text := "–"
				if c := b.cells[cellKey{name, page, g.op}]; c != nil {
					values[i], text = r.cell(c, name, page, g.op)
				}
				l.values = append(l.values, text)
			}
			limit := map[string]float64{"small": g.small, "large": g.large}[page]
			if g.op == opNavigate && values[2] > 0 {
				limit = values[2] * 1.15
			}
			l.judge(values, limit, "", b.order)
			t.lines = append(t.lines, l)
		}
		r.tables = append(r.tables, t)
	}
}

// cell returns the median and its text; what has none says why.
func (r *report) cell(c *cell, name, page string, op operation) (float64, string) {
	var none noEffectError
	switch {
	case errors.Is(c.fault, errNoTool):
		return 0, "no tool"
	case errors.As(c.fault, &none):
		r.note("%s, %s, %s page: %v.", name, op, page, c.fault)
		return 0, "no effect"
	case c.fault != nil:
		r.note("%s, %s, %s page: %.160v", name, op, page, strings.ReplaceAll(c.fault.Error(), "\n", " "))
		return 0, "failed"
	case len(c.rounds) == 0:
		return 0, "–"
	}
	if c.lacks != "" && op == opFull {
		r.note("%s's snapshot of the large page is without %q.", name, c.lacks)
	}
	v := figures.Median(c.rounds)
	return v, figure(v)
}

// judge compares our value with the target and with every peer's.
func (l *line) judge(values []float64, limit float64, unit string, columns []string) {
	if limit > 0 {
		l.target = "≤ " + figure(limit) + unit
	}
	if len(values) == 0 || values[0] == 0 {
		l.verdict = "**no figure**"
		return
	}
	var words []string
	if limit > 0 {
		words = append(words, map[bool]string{true: "met", false: "**missed**"}[values[0] <= limit])
	}
	for i := peersFrom; i < len(values); i++ {
		if values[i] > 0 && values[i] < values[0] {
			words = append(words, "**behind "+columns[i]+"**")
		}
	}
	l.verdict = strings.Join(words, ", ")
}

// figure writes three significant digits.
func figure(v float64) string {
	switch {
	case math.Abs(v) >= 1000:
		s := fmt.Sprintf("%.0f", v)
		return s[:len(s)-3] + "," + s[len(s)-3:]
	case math.Abs(v) >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// sizes adds what the answers cost a model, and what the servers take.
func (r *report) sizes(b *bench, servers map[string]*server, node int) error {
	t := &table{title: "Size and memory", columns: b.order}
	tokens := func(what, page string, op operation, limit float64) {
		if !b.o.wantsPage(page) || !b.o.wantsOp(op) {
			return
		}
		l := line{what: what}
		values := make([]float64, len(b.order))
		for i, name := range b.order {
			c := b.cells[cellKey{name, page, op}]
			if c == nil || c.fault != nil || c.bytes == 0 {
				l.values = append(l.values, "–")
				continue
			}
			values[i] = float64(c.bytes) / 4
			l.values = append(l.values, figure(math.Round(values[i])))
		}
		l.judge(values[:1], limit, "", nil)
		t.lines = append(t.lines, l)
	}
	tokens("snapshot of the small page, tokens (bytes / 4)", "small", opSnapshot, 0)
	tokens("snapshot of the large page, default, tokens", "large", opSnapshot, 4000)
	tokens("snapshot of the large page, all of it, tokens", "large", opFull, 24000)

	with, without := line{what: "tools/list, KB"}, line{what: "tools/list without output schemas, KB"}
	var all, bare float64
	for i, name := range b.order {
		s := servers[name]
		if s == nil {
			with.values, without.values = append(with.values, "–"), append(without.values, "–")
			continue
		}
		a, w, err := s.listBytes()
		if err != nil {
			return fmt.Errorf("%s: tools/list: %w", name, err)
		}
		if i == 0 {
			all, bare = float64(a)/1000, float64(w)/1000
		}
		with.values, without.values = append(with.values, figure(float64(a)/1000)), append(without.values, figure(float64(w)/1000))
	}
	with.judge([]float64{all}, 40, "", nil)
	without.judge([]float64{bare}, 24, "", nil)
	t.lines = append(t.lines, with, without)

	if b.o.wantsPage("large") {
		memory := line{what: "memory of our node, of the peers' servers, after the large page, MB"}
		var ours float64
		for i, name := range b.order {
			bytes := int64(0)
			switch {
			case i == 0:
				bytes = figures.Resident(node)
				ours = float64(bytes) / 1e6
			case servers[name] != nil:
				bytes = residentBelow(filepath.Join(b.o.peers, "node_modules"), name, servers[name].cmd.Process.Pid)
			}
			text := "–"
			if bytes > 0 {
				text = figure(float64(bytes) / 1e6)
			}
			memory.values = append(memory.values, text)
		}
		memory.judge([]float64{ours}, 60, "", nil)
		t.lines = append(t.lines, memory)
	}
	r.tables = append(r.tables, t)
	if b.way != nil && len(b.way.rounds) > 0 {
		r.note("The way alone, in turn with the list of tabs: %s ms. Three processes, standard input, HTTP, QUIC, and a record of %d bytes "+
			"appended and synced before and after; none of our code, and no browser.", figure(figures.Median(b.way.rounds)), wayRecord)
	}
	return nil
}

// residentBelow adds up the processes whose program or script is the peer's: some
// leave their work to a daemon.
func residentBelow(modules, name string, server int) int64 {
	total := figures.Resident(server)
	for _, p := range peers {
		if !strings.HasPrefix(name, p.called) {
			continue
		}
		root := filepath.Join(modules, filepath.FromSlash(p.pkg)) + string(filepath.Separator)
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			var pid int
			if _, err := fmt.Sscan(e.Name(), &pid); err != nil || pid == server {
				continue
			}
			line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
			if parts := bytes.Split(line, []byte{0}); bytes.HasPrefix(parts[0], []byte(root)) ||
				len(parts) > 1 && bytes.HasPrefix(parts[1], []byte(root)) {
				total += figures.Resident(pid)
			}
		}
	}
	return total
}

// cold adds the starts.
func (r *report) cold(all []*starter) {
	t := &table{title: "Cold start: from the start of the process to the first page, ms"}
	l := line{what: "small page"}
	var values []float64
	for _, s := range all {
		t.columns = append(t.columns, s.called)
		values = append(values, s.median())
		if s.fault != nil {
			r.note("cold start of %s: %.160v", s.called, s.fault)
			values[len(values)-1] = 0
			l.values = append(l.values, "failed")
			continue
		}
		l.values = append(l.values, figure(math.Round(s.median())))
	}
	limit := 0.0
	if values[2] > 0 {
		limit = math.Round(values[2] + 120)
	}
	l.judge(values, limit, "", t.columns)
	t.lines = append(t.lines, l)
	r.tables = append(r.tables, t)
}

func (r *report) head() string {
	how := fmt.Sprintf("%s, %d cores, %s.\n%s; medians of %d rounds; load average at the start %s.", r.machine, runtime.NumCPU(), r.browser,
		r.when.Format("2006-01-02"), r.rounds, r.load)
	if r.quick {
		how += " A quick run: take the figures as hints."
	}
	return how
}

// text writes the report for a terminal.
func (r *report) text(w io.Writer) {
	fmt.Fprintln(w, r.head())
	for _, t := range r.tables {
		fmt.Fprintf(w, "\n%s\n", t.title)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(tw, "  \ttarget\t%s\t\n", strings.Join(t.columns, "\t"))
		for _, l := range t.lines {
			fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\n", l.what, l.target, strings.Join(l.values, "\t"), strings.ReplaceAll(l.verdict, "**", ""))
		}
		_ = tw.Flush()
	}
	if len(r.notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range r.notes {
		fmt.Fprintln(w, "-", n)
	}
}

// markdown writes it for docs.
func (r *report) markdown(w io.Writer) {
	fmt.Fprintln(w, r.head())
	for _, t := range r.tables {
		fmt.Fprintf(w, "\n### %s\n\n| | target | %s | |\n|---|---|%s---|\n", t.title, strings.Join(t.columns, " | "),
			strings.Repeat("---|", len(t.columns)))
		for _, l := range t.lines {
			fmt.Fprintf(w, "| %s | %s | %s | %s |\n", l.what, l.target, strings.Join(l.values, " | "), l.verdict)
		}
	}
	if len(r.notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range r.notes {
		fmt.Fprintln(w, "-", n)
	}
}

// The tables stand between these lines of the document.
const (
	beginMark = "<!-- figures of the browser family: written by test/bench/browsers -->"
	endMark   = "<!-- end of the browser family's figures -->"
)

func (r *report) save(path string) error {
	var text bytes.Buffer
	r.markdown(&text)
	return figures.Save(path, beginMark, endMark, text.Bytes())
}
