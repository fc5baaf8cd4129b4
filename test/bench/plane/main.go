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

// row is one figure: a benchmark beside the code and its floor, both of one package.
type row struct {
	what         string
	pkg          string
	pattern      string // of -bench: both
	value, floor string // names of the benchmarks, without "Benchmark"
	iterations   string
	rounds       int
	limit        float64 // in unit
	unit         string  // µs or ms
	over         bool    // the limit is for the value less its floor
	floorIs      string  // what the floor does
}

// rows are the figures, in the order of the table.
var rows = []row{
	{
		what: "selector over 1,000 tools, one intent", pkg: "./gateway/registry", pattern: "^BenchmarkRank(Floor)?$", value: "Rank", floor: "RankFloor",
		iterations: "100x", rounds: 20, limit: 300, unit: "µs", floorIs: "one pass over the names",
	},
	{
		what: "list for a lane of 20 providers, one of them dead", pkg: "./test/e2e", pattern: "^BenchmarkPlaneList$", value: "PlaneList/list", floor: "PlaneList/floor",
		iterations: "100x", rounds: 1, limit: 5, unit: "ms", floorIs: "/healthz of the same gateway",
	},
	{
		what: "imported MCP call, over the same server called directly", pkg: "./test/e2e", pattern: "^BenchmarkPlaneCall$", value: "PlaneCall/imported", floor: "PlaneCall/direct",
		iterations: "300x", rounds: 1, limit: 1.5, unit: "ms", over: true, floorIs: "the server called directly",
	},
	{
		what: "10,000 tools of 20 providers, registered at a start", pkg: "./gateway/provider", pattern: "^BenchmarkOpenTenThousand$", value: "OpenTenThousand/open", floor: "OpenTenThousand/floor",
		iterations: "1x", rounds: 2, limit: 1000, unit: "ms", floorIs: "reading their rows",
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

// measure runs the benchmarks of one row and returns the quickest of each, in nanoseconds.
func measure(r *row) (map[string]float64, error) {
	fmt.Fprintf(os.Stderr, "bench-plane: %s %s …\n", r.pkg, r.pattern)
	text, err := exec.Command("go", "test", "-run", "^$", "-bench", r.pattern, "-benchtime", r.iterations, "-count", strconv.Itoa(r.rounds), "-timeout", "20m", r.pkg).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", r.pkg, err, text)
	}
	best := map[string]float64{}
	for l := range strings.Lines(string(text)) {
		f := strings.Fields(l)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") || f[3] != "ns/op" {
			continue
		}
		name := strings.TrimPrefix(f[0], "Benchmark")
		if at := strings.LastIndexByte(name, '-'); at > 0 {
			name = name[:at] // the number of processors
		}
		v, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is no result", r.pkg, l)
		}
		if old, seen := best[name]; !seen || v < old {
			best[name] = v
		}
	}
	for _, name := range []string{r.value, r.floor} {
		if best[name] == 0 {
			return nil, fmt.Errorf("%s was not measured: %s has no result of %s", r.what, r.pkg, name)
		}
	}
	return best, nil
}

// line is a row of the table.
func (r *row) line(best map[string]float64) string {
	per := map[string]float64{"µs": 1e3, "ms": 1e6}[r.unit]
	value, floor := best[r.value]/per, best[r.floor]/per
	shown := value
	if r.over {
		shown = value - floor
	}
	verdict := "missed"
	if shown <= r.limit {
		verdict = "met"
	}
	return fmt.Sprintf("%-58s %8.3g %-3s ≤ %-6g %-7s %s %.3g %s", r.what, shown, r.unit, r.limit, verdict, r.floorIs, floor, r.unit)
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
	fmt.Fprintf(&text, "%s; quickest of several rounds; load average at the start %s.\n\n", time.Now().Format("2006-01-02"), load)
	for i := range rows {
		best, err := measure(&rows[i])
		if err != nil {
			return err
		}
		fmt.Fprintln(&text, rows[i].line(best))
	}
	text.WriteString("```")
	fmt.Println(text.String())
	if out == "" {
		return nil
	}
	return figures.Save(out, beginMark, endMark, text.Bytes())
}
