package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/test/bench/figures"
)

// The lines between which -out puts the table.
const (
	beginMark = "<!-- figures of the tool plane: written by test/bench/plane -->"
	endMark   = "<!-- end of the figures of the tool plane -->"
)

// row is one figure of a benchmark beside the code, with its floors out of the same run. A figure
// is named after its benchmark and what it is of: "PlaneCall/imported" is the time of a
// sub-benchmark, or the metric "imported-ns" of the whole one.
type row struct {
	what    string
	bench   *bench
	value   string   // the figure
	floors  []string // what it stands on; together, if there are several
	limit   float64  // in unit
	unit    string   // µs, ms, × the floors, or one of the metric's own
	over    bool     // the limit is for the value less its floors
	floorIs string   // what the floors do
	beside  []beside // more figures to show
}

// bench is one run of benchmarks.
type bench struct {
	pkg        string
	pattern    string // of -bench
	iterations string
	rounds     int

	best map[string]float64 // of each figure; nil: it has not run
}

// beside is another figure of a row's benchmark.
type beside struct {
	value, unit, is string
}

var (
	rank      = &bench{pkg: "./gateway/registry", pattern: "^BenchmarkRank(Floor)?$", iterations: "100x", rounds: 20}
	list      = &bench{pkg: "./test/e2e", pattern: "^BenchmarkPlaneList$", iterations: "100x", rounds: 1}
	call      = &bench{pkg: "./test/e2e", pattern: "^BenchmarkPlaneCall$", iterations: "400x", rounds: 1}
	satellite = &bench{pkg: "./test/satellites", pattern: "^BenchmarkPlaneSatellite$", iterations: "400x", rounds: 1}
	beats     = &bench{pkg: "./test/satellites", pattern: "^BenchmarkPlaneBeats$", iterations: "1x", rounds: 1}
	macro     = &bench{pkg: "./test/e2e", pattern: "^BenchmarkPlaneMacro$", iterations: "100x", rounds: 1}
	start     = &bench{pkg: "./gateway", pattern: "^BenchmarkStartTenThousand$", iterations: "1x", rounds: 3}
)

// rows are the figures, in the order of the table.
var rows = []row{
	{
		what: "selector over 1,000 tools, one intent", bench: rank, value: "Rank", floors: []string{"RankFloor"},
		limit: 300, unit: "µs", floorIs: "one pass over the names",
	},
	{
		what: "list for a lane of 20 providers, one of them dead", bench: list, value: "PlaneList/list", floors: []string{"PlaneList/floor"},
		limit: 5, unit: "ms", floorIs: "/healthz of the same gateway",
	},
	{
		what: "imported MCP call, over the same server called directly", bench: call, value: "PlaneCall/imported",
		floors: []string{"PlaneCall/direct"}, limit: 1.5, unit: "ms", over: true, floorIs: "the server called directly",
		beside: []beside{
			{"PlaneCall/node", "ms", "a call that the node answers itself"}, {"PlaneCall/imported-cpu", "ms", "processor time"},
			{"PlaneCall/node-cpu", "ms", "of a call that the node answers"},
		},
	},
	{
		what: "satellite's call over HTTP, over its floors", bench: satellite, value: "PlaneSatellite/call",
		floors: []string{"PlaneSatellite/http", "PlaneSatellite/bus", "PlaneSatellite/commits"}, limit: 1.6, unit: "×",
		floorIs: "HTTP echo, bare bus, two commits",
		beside:  []beside{{"PlaneSatellite/call", "ms", "the call"}, {"PlaneSatellite/call-cpu", "ms", "processor time"}},
	},
	{
		what: "macro of ten steps, over one call of its step", bench: macro, value: "PlaneMacro/macro", floors: []string{"PlaneMacro/single"},
		limit: 10.5, unit: "×", floorIs: "the call",
	},
	{
		what: "1,000 heartbeating satellites, of a core", bench: beats, value: "PlaneBeats/busy", floors: []string{"PlaneBeats/idle"},
		limit: 3, unit: "%", floorIs: "the gateway without them",
		beside: []beside{{"PlaneBeats/bare", "%", "a bare NATS server with as many who say as much"}},
	},
	{
		what: "1,000 heartbeating satellites, memory over the gateway's", bench: beats, value: "PlaneBeats/memory",
		floors: []string{"PlaneBeats/alone"}, limit: 60, unit: "MB", floorIs: "the gateway without them",
		beside: []beside{{"PlaneBeats/barely", "MB", "the bare server's"}},
	},
	{
		what: "10,000 tools of 20 providers: start of the gateway, over none", bench: start, value: "StartTenThousand/start",
		floors: []string{"StartTenThousand/floor"}, limit: 1000, unit: "ms", over: true, floorIs: "the same gateway without tools of providers",
	},
}

func main() {
	out := flag.String("out", "", "document to put the table into, between its marks")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "bench-plane:", err)
		os.Exit(1)
	}
}

// measure runs the benchmarks once, and keeps the least of each figure: times in nanoseconds,
// others in their own unit.
func (b *bench) measure() error {
	if b.best != nil {
		return nil
	}
	fmt.Fprintf(os.Stderr, "bench-plane: %s %s …\n", b.pkg, b.pattern)
	text, err := exec.Command("go", "test", "-run", "^$", "-bench", b.pattern, "-benchtime", b.iterations, "-count", strconv.Itoa(b.rounds),
		"-timeout", "20m", b.pkg).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", b.pkg, err, text)
	}
	b.best = map[string]float64{}
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
				return fmt.Errorf("%s: %q is no result", b.pkg, l)
			}
			figure := name
			if f[i+1] != "ns/op" {
				at := strings.LastIndexByte(f[i+1], '-')
				if at < 0 {
					continue // of the testing package itself
				}
				figure += "/" + f[i+1][:at]
			}
			if old, seen := b.best[figure]; !seen || v < old {
				b.best[figure] = v
			}
		}
	}
	return nil
}

// per is how many of what a benchmark reports make one of a unit.
var per = map[string]float64{"µs": 1e3, "ms": 1e6}

// in returns a figure in a unit.
func (b *bench) in(name, unit string) (float64, error) {
	v, ok := b.best[name]
	if !ok {
		return 0, fmt.Errorf("%s has no result of %s", b.pkg, name)
	}
	if p := per[unit]; p > 0 {
		v /= p
	}
	return v, nil
}

// line is a row of the table.
func (r *row) line() (string, error) {
	unit := r.unit
	if unit == "×" {
		unit = "ms"
	}
	shown, err := r.bench.in(r.value, unit)
	if err != nil {
		return "", err
	}
	var floor float64
	var parts []string
	for _, name := range r.floors {
		v, err := r.bench.in(name, unit)
		if err != nil {
			return "", err
		}
		floor += v
		parts = append(parts, fmt.Sprintf("%.3g", v))
	}
	switch {
	case r.over:
		shown -= floor
	case r.unit == "×":
		shown /= floor
	}
	verdict := "missed"
	if shown <= r.limit {
		verdict = "met"
	}
	text := fmt.Sprintf("%-60s %8.3g %-3s ≤ %-6g %-7s %s %s %s", r.what, shown, r.unit, r.limit, verdict, r.floorIs,
		strings.Join(parts, " + "), unit)
	for _, b := range r.beside {
		if v, err := r.bench.in(b.value, b.unit); err == nil { // not every system tells
			text += fmt.Sprintf("; %s %.3g %s", b.is, v, b.unit)
		}
	}
	return text, nil
}

func run(out string) error {
	if out != "" {
		if err := figures.Check(out, beginMark, endMark); err != nil {
			return err // before minutes are spent
		}
	}
	load := figures.Load()
	var text bytes.Buffer
	fmt.Fprintf(&text, "```\n%s, %d cores, %s\n", figures.Machine(), runtime.NumCPU(), runtime.Version())
	fmt.Fprintf(&text, "%s; medians, each in turn with its floors, or the quickest of several rounds; load average at the start %s.\n\n",
		time.Now().Format("2006-01-02"), load)
	for i := range rows {
		if err := rows[i].bench.measure(); err != nil {
			return err
		}
		line, err := rows[i].line()
		if err != nil {
			return err
		}
		fmt.Fprintln(&text, line)
	}
	text.WriteString("```")
	fmt.Println(text.String())
	if out == "" {
		return nil
	}
	return figures.Save(out, beginMark, endMark, text.Bytes())
}
