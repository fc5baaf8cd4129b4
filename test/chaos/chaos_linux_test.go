package chaos

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/test/site"
)

var (
	seed    = flag.Uint64("seed", 1, "which schedule")
	minutes = flag.Float64("minutes", 3, "how long things are broken")
	keep    = flag.String("keep", "", "a folder that does not exist yet, in which everything stays")
	many    = flag.Int("nodes", 6, "how many nodes")
	built   = flag.String("program", "", "the built program; default: it is built")
	plant   = flag.String("plant", "", "plant the faults of Mutations that have this in their names; all: every one")
)

// options are of one run.
type options struct {
	seed     uint64
	length   time.Duration
	gateways int
	nodes    int
	callers  int
	program  string
	dir      string
	clerks   int           // who do admin work all the time
	only     []Kind        // of faults; nil: all
	long     bool          // faults that may outlast the leases of gateways do
	settles  time.Duration // how long callers still try, and calls may take to end at last; default patience and within
}

// TestChaos is a run of seconds: each kind of fault at most once.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the program")
	}
	report(t, runs(t, options{seed: 2, length: 15 * time.Second, gateways: 3, nodes: 3, callers: 6, clerks: 1}))
}

// TestChaosAtLength is a run of three minutes, or of as many as are wanted, by a seed.
func TestChaosAtLength(t *testing.T) {
	report(t, runs(t, options{
		seed: *seed, length: time.Duration(*minutes * float64(time.Minute)), gateways: 3, nodes: *many, callers: 64, clerks: 2, dir: *keep,
	}))
}

// TestPlanted builds the program with each planted fault, and wants a run to find it.
func TestPlanted(t *testing.T) {
	if *plant == "" {
		t.Skip("make chaos-mutations plants faults")
	}
	for _, m := range Mutations {
		if *plant != "all" && !strings.Contains(m.Name, *plant) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			root, err := filepath.Abs("../..")
			must(t, err)
			overlay, err := m.Overlay(root, t.TempDir())
			must(t, err)
			program := filepath.Join(t.TempDir(), "handrail")
			build := exec.Command("go", "build", "-overlay", overlay, "-trimpath", "-ldflags=-s -w", "-o", program, "./cmd/handrail")
			build.Dir = root
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			found := runs(t, options{
				seed: *seed, length: time.Duration(*minutes * float64(time.Minute)), gateways: 3, nodes: 3, callers: 32, program: program,
				clerks: 1 + m.Clerks, only: m.Kinds, long: m.Long, settles: 20 * time.Second,
			})
			for i, b := range found {
				if i < 3 {
					t.Logf("found: %s", b)
				}
			}
			t.Logf("found: %s", tally(found))
			if !slices.ContainsFunc(found, func(b Breach) bool { return slices.Contains(m.Finds, b.Rule) }) {
				t.Errorf("grave: the judge does not find it: %s", m.Name)
			}
		})
	}
}

// tally is how often each rule was broken.
func tally(found []Breach) string {
	n := map[Rule]int{}
	for _, b := range found {
		n[b.Rule]++
	}
	return fmt.Sprint(n)
}

// runs breaks a fleet for a while, and returns what the judge found.
func runs(t *testing.T, o options) []Breach {
	t.Helper()
	if _, err := site.NewWalls(); err != nil {
		t.Skip(err)
	}
	if o.dir == "" {
		o.dir = t.TempDir()
	} else {
		must(t, os.Mkdir(o.dir, 0o700))
	}
	must(t, os.Chmod(o.dir, 0o700))
	if o.program == "" && *built != "" {
		o.program = *built
	} else if o.program == "" {
		o.program = filepath.Join(o.dir, "handrail")
		site.Program(t, o.program)
	}
	f := builds(t, o)
	s, l := newStorm(f, o), newLoad(f)
	t.Logf("seed %d, %s, %d gateways, %d nodes, %d callers, %d faults", o.seed, o.length, o.gateways, o.nodes, o.callers, len(s.plan))
	loaded := make(chan struct{})
	go func() { defer close(loaded); l.run(o) }()
	f.await("calls under way", func() bool { return l.answered() >= o.callers }) // or what is broken first meets none
	began := time.Now()
	s.run()
	time.Sleep(time.Until(began.Add(o.length)))
	close(l.over)
	l.deadline.Store(time.Now().Add(cmp.Or(o.settles, patience)).UnixNano())
	<-loaded

	packets, export := f.settle(t, cmp.Or(o.settles, within))
	effects, err := l.effects()
	must(t, err)
	found, err := Judge(&Evidence{Packets: packets, Effects: effects, Told: l.told, Halts: s.halts})
	must(t, err)
	found = append(found, f.verify(export)...)
	happened := 0
	for _, e := range effects {
		happened += len(e)
	}
	t.Logf("seed %d: %d requests, %d answers, %d effects of %d requests, %d packets, %d answers of a person, %d grants", o.seed, l.next.Load(), len(l.told),
		happened, len(effects), len(packets), l.asks.Load(), count(packets, "gateway.grant.made"))
	t.Logf("answers: %v; %d pieces of admin work", l.ends, l.works.Load())
	t.Logf("faults: %s", s.summary())
	if o.only == nil && (happened < 20 || len(l.told) < 20) {
		t.Errorf("%d effects are no load", happened)
	}
	return found
}

func count(packets []ledger.Packet, kind ledger.Kind) (n int) {
	for i := range packets {
		if packets[i].Kind == kind {
			n++
		}
	}
	return n
}

// report fails a test with each breach.
func report(t *testing.T, found []Breach) {
	t.Helper()
	for i, b := range found {
		if i == 20 {
			t.Errorf("and %d more", len(found)-i)
			break
		}
		t.Errorf("grave: %s", b)
	}
}

// settle waits until every call has its end, as long as that may take, and returns the ledger. A
// gateway that exports it has to be there within as long as anything.
func (f *fleet) settle(t *testing.T, long time.Duration) ([]ledger.Packet, string) {
	t.Helper()
	to := filepath.Join(f.home, "ledger.jsonl")
	var packets []ledger.Packet
	for began := time.Now(); ; time.Sleep(2 * time.Second) {
		err := f.export(to)
		if err == nil {
			var file *os.File
			file, err = os.Open(to)
			must(t, err)
			packets, err = ReadExport(file)
			must(t, file.Close())
		}
		if err == nil {
			found, err := Judge(&Evidence{Packets: packets})
			must(t, err)
			if !slices.ContainsFunc(found, func(b Breach) bool { return b.Rule == Endless }) || time.Since(began) > long {
				return packets, to
			}
		}
		if err != nil && time.Since(began) > within {
			t.Fatalf("no gateway exports the ledger: %v", err)
		}
	}
}

// verify has the program verify the export, and against what each node has seen of it.
func (f *fleet) verify(export string) (found []Breach) {
	args := []string{"ledger", "verify", export}
	for _, n := range f.nodes {
		heads, err := filepath.Glob(filepath.Join(n.data, "node/journal/*/heads.json"))
		if err != nil || len(heads) == 0 {
			found = append(found, Breach{Rule: Chain, Why: fmt.Sprintf("%s has seen no head of the ledger: %v", n.label, err)})
		}
		for _, h := range heads {
			args = append(args, "--heads", h)
		}
	}
	out, err := f.tries(0, f.gateways[0].data, "", args...)
	if err != nil || !strings.Contains(out, "verifies") {
		found = append(found, Breach{Rule: Chain, Why: fmt.Sprintf("%s %v", out, err)})
	}
	return found
}
