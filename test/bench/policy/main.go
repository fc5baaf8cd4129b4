package main

import (
	"bytes"
	"encoding/json"
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

// The lines between which --out puts the table.
const (
	beginMark = "<!-- figures of policy: written by test/bench/policy -->"
	endMark   = "<!-- end of the figures of policy -->"
)

func main() {
	out := flag.String("out", "", "document to put the table into, between its marks")
	rounds := flag.Int("rounds", 60, "short rounds of what takes microseconds")
	flag.Parse()
	if err := run(*out, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench-policy:", err)
		os.Exit(1)
	}
}

// line is one line of the table.
type line struct {
	what  string
	value float64
	unit  string
	limit float64
	least bool // the value must reach the limit
	floor string
}

func (l line) String() string {
	sign, met := "≤", l.value <= l.limit
	if l.least {
		sign, met = "≥", l.value >= l.limit
	}
	verdict := "missed"
	if met {
		verdict = "met"
	}
	target := sign + " " + number(l.limit)
	if l.limit == 0 {
		target, verdict = "", ""
	}
	return fmt.Sprintf("%-68s %8s %-9s %-9s %-6s %s", l.what, number(l.value), l.unit, target, verdict, l.floor)
}

func number(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// best is the best of all rounds of each benchmark and unit: the least time, the
// highest rate.
type best map[string]map[string]float64

// measure runs benchmarks of one package; iterations is what one round does.
func (b best) measure(pkg, pattern, iterations string, rounds int) error {
	fmt.Fprintf(os.Stderr, "bench-policy: %s %s …\n", pkg, pattern)
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", pattern, "-benchtime", iterations, "-count", strconv.Itoa(rounds), "-timeout",
		"20m", pkg)
	text, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", pkg, err, text)
	}
	for l := range strings.Lines(string(text)) {
		f := strings.Fields(l)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(f[0], "Benchmark")
		if at := strings.LastIndexByte(name, '-'); at > 0 {
			name = name[:at] // the number of processors
		}
		if b[name] == nil {
			b[name] = map[string]float64{}
		}
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return fmt.Errorf("%s: %q is no result", pkg, l)
			}
			old, seen := b[name][f[i+1]]
			rate := strings.HasSuffix(f[i+1], "/s")
			if !seen || (rate && v > old) || (!rate && v < old) {
				b[name][f[i+1]] = v
			}
		}
	}
	return nil
}

// µs returns a benchmark's time, and rate its packets per second; 0 fails the run.
func (b best) µs(name string) float64 { return b[name]["ns/op"] / 1000 }

// routed asks test/bench for whole calls, and picks the rows with a target and what
// a busy machine changes less: the ratio to the floors, and processor time.
func routed() ([]line, error) {
	fmt.Fprintln(os.Stderr, "bench-policy: whole calls …")
	cmd := exec.Command("go", "run", "./test/bench", "--only", "routed", "--json")
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var report struct {
		Rows []struct {
			What  string
			Value float64
			Unit  string
			Limit float64
			Least bool
			Note  string
		}
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, err
	}
	var lines []line
	for _, r := range report.Rows {
		if r.Limit != 0 || strings.Contains(r.What, "over the sum") || strings.HasSuffix(r.What, "processor time per call") {
			lines = append(lines, line{what: "allowed call, " + r.What, value: r.Value, unit: r.Unit, limit: r.Limit, least: r.Least, floor: r.Note})
		}
	}
	return lines, nil
}

func run(out string, rounds int) error {
	if out != "" {
		if err := figures.Check(out, beginMark, endMark); err != nil {
			return err // before minutes are spent
		}
	}
	load := figures.Load()
	b := best{}
	for _, m := range []struct {
		pkg, pattern, iterations string
		rounds                   int
	}{
		{"./capabilities/policy", "HundredPolicies", "20x", rounds},
		{"./agent/guard", "TicketMadeAndChecked", "100x", rounds},
		{"./gateway/consent", "BenchmarkCheck$", "200x", rounds},
		{"./gateway/ledger", "BenchmarkVerify/chain", "2x", rounds},
		{"./gateway/ledger", "BenchmarkVerify/(floor|export)$", "1x", 5},
		{"./test/e2e", "BenchmarkStop$", "20x", 1},
	} {
		if err := b.measure(m.pkg, m.pattern, m.iterations, m.rounds); err != nil {
			return err
		}
	}
	calls, err := routed()
	if err != nil {
		return err
	}
	both, bare := b.µs("HundredPolicies/both"), b.µs("HundredPolicies/floor")
	stop := b["Stop"]
	lines := append([]line{
		{
			what: "both evaluations over 100 policies, over one of cedar-go", value: both / bare, unit: "×", limit: 2.5,
			floor: fmt.Sprintf("%.1f µs, cedar-go alone, once, %.1f µs", both, bare),
		},
		{
			what: "consent check, among 64 grants", value: b.µs("Check/check"), unit: "µs", limit: 10,
			floor: fmt.Sprintf("a bare list behind a lock %.2f µs", b.µs("Check/floor")),
		},
		{
			what: "ticket, made and checked", value: b.µs("TicketMadeAndChecked/made-and-checked"), unit: "µs", limit: 15,
			floor: fmt.Sprintf("hashing its bytes on both sides %.1f µs", b.µs("TicketMadeAndChecked/floor")),
		},
	}, calls...)
	lines = append(lines,
		line{what: "stop, until every handler on 100 nodes ended, p99", value: stop["ended-p99-ms"], unit: "ms", limit: 300,
			floor: fmt.Sprintf("p50 %.0f ms; one frame to 100 nodes and back %.0f ms", stop["ended-p50-ms"], stop["told-p99-ms"])},
		line{
			what: "stop, until 100 nodes said that they obey, p99", value: stop["obeyed-p99-ms"], unit: "ms", limit: 300,
			floor: fmt.Sprintf("p50 %.0f ms", stop["obeyed-p50-ms"]),
		},
		line{what: "ledger check, the chain", value: b["Verify/chain"]["packets/s"], unit: "packets/s", limit: 200_000, least: true,
			floor: fmt.Sprintf("SHA-256 of the same %.0f; an export with JSON and signatures %.0f", b["Verify/chain-floor"]["packets/s"],
				b["Verify/export"]["packets/s"])},
	)
	var text bytes.Buffer
	fmt.Fprintf(&text, "```\n%s, %d cores, %s\n", figures.Machine(), runtime.NumCPU(), runtime.Version())
	fmt.Fprintf(&text, "%s; quickest of %d short rounds for what takes microseconds; load average at the start %s.\n\n", time.Now().
		Format("2006-01-02"), rounds, load)
	for _, l := range lines {
		if l.value == 0 {
			return fmt.Errorf("%s was not measured", l.what)
		}
		fmt.Fprintln(&text, strings.TrimRight(l.String(), " "))
	}
	text.WriteString("```")
	fmt.Println(text.String())
	if out == "" {
		return nil
	}
	return figures.Save(out, beginMark, endMark, text.Bytes())
}
