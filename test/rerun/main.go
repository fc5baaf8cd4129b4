package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

const (
	maxTries    = 2
	maxFailures = 10
)

func main() {
	flags, packages := os.Args[1:], []string(nil)
	if i := slices.Index(flags, "--"); i >= 0 {
		flags, packages = flags[:i], flags[i+1:]
	}
	if len(packages) == 0 {
		fmt.Fprintln(os.Stderr, "usage: go run ./test/rerun FLAGS -- PACKAGES")
		os.Exit(2)
	}
	os.Exit(run(flags, packages, os.Stdout, goTest))
}

// goTest runs go test and writes its output to out, each package's when it ends, and returns
// whether it passed.
func goTest(args []string, out io.Writer) bool {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	passed := make(chan bool, 1)
	go func() {
		err := cmd.Run()
		w.Close()
		passed <- err == nil
	}()
	relay(r, out)
	return <-passed
}

// run returns the exit code.
func run(flags, packages []string, out io.Writer, test func(args []string, out io.Writer) bool) int {
	failed, passed := watch(out, func(w io.Writer) bool { return test(slices.Concat(flags, packages), w) })
	if passed {
		return 0
	}
	count := 0
	for _, f := range failed {
		if f.why != "" {
			fmt.Fprintf(out, "not run again: %s: %s\n", f.pkg, f.why)
			return 1
		}
		for _, top := range f.tops() {
			count += len(f.leaves(top))
		}
	}
	if count == 0 || count > maxFailures {
		fmt.Fprintf(out, "not run again: %d failed tests\n", count)
		return 1
	}
	var flaky []string
	for _, f := range failed {
		for _, top := range f.tops() {
			try := 1
			for ; try <= maxTries; try++ {
				pattern := f.pattern(top, try)
				fmt.Fprintf(out, "again, alone: %s %s\n", f.pkg, pattern)
				again, passed := watch(out, func(w io.Writer) bool {
					return test(slices.Concat(flags, []string{"-count=1", "-run", pattern, f.pkg}), w)
				})
				if passed {
					break
				}
				if len(again) != 1 || again[0].why != "" {
					return 1
				}
			}
			if try > maxTries {
				fmt.Fprintf(out, "FAIL\t%s %s: failed %d times\n", f.pkg, top, 1+maxTries)
				return 1
			}
			for _, name := range f.leaves(top) {
				flaky = append(flaky, fmt.Sprintf("flaky: %s %s: failed, and passed alone at try %d", f.pkg, name, 1+try))
			}
		}
	}
	for _, line := range flaky {
		fmt.Fprintln(out, line)
	}
	return 0
}

// failure is a package that failed.
type failure struct {
	pkg   string
	tests []string // a subtest as TOP/SUB, beside the test that it is of
	slow  []string // those that waited in vain and found nothing else
	why   string   // it is not forgiven; "" if it may be chance
}

// onlySlow reports whether nothing failed but waits.
func (f failure) onlySlow() bool {
	for _, top := range f.tops() {
		for _, leaf := range f.leaves(top) {
			if !slices.Contains(f.slow, leaf) {
				return false
			}
		}
	}
	return len(f.tests) > 0
}

// tops are the failed tests at the top level.
func (f failure) tops() []string {
	var tops []string
	for _, name := range f.tests {
		if top, _, _ := strings.Cut(name, "/"); !slices.Contains(tops, top) {
			tops = append(tops, top)
		}
	}
	return tops
}

// leaves are what failed of a test: its subtests, each down to the one that failed by itself, or
// the test where none of them did.
func (f failure) leaves(top string) []string {
	var leaves []string
	for _, name := range f.tests {
		below := func(other string) bool { return strings.HasPrefix(other, name+"/") }
		if (name == top || strings.HasPrefix(name, top+"/")) && !slices.ContainsFunc(f.tests, below) {
			leaves = append(leaves, name)
		}
	}
	return leaves
}

// pattern is what -run is told: of a test with subtests, the first try runs those that failed and
// the test's own part, which may be a hundredth of it; the last runs all of it, since a subtest may
// need those before it.
func (f failure) pattern(top string, try int) string {
	whole := "^" + regexp.QuoteMeta(top) + "$"
	leaves := f.leaves(top)
	if try == maxTries || slices.Contains(leaves, top) {
		return whole
	}
	var subs []string
	for _, leaf := range leaves {
		sub := regexp.QuoteMeta(strings.Split(leaf, "/")[1])
		if !slices.Contains(subs, sub) {
			subs = append(subs, sub)
		}
	}
	return whole + "/^(" + strings.Join(subs, "|") + ")$"
}

var (
	endOf    = regexp.MustCompile(`^(ok  |FAIL|\?   )\t(\S+)`)
	failedAt = regexp.MustCompile(`^ *--- FAIL: (\S+) \(`)
	graves   = []string{"WARNING: DATA RACE", "panic: ", "fatal error: ", "grave: ", "[build failed]", "[setup failed]"}
)

// watch copies what test writes to out, and reads from it which packages failed. A package's
// output comes in one piece, its verdict last.
func watch(out io.Writer, test func(io.Writer) bool) (failed []failure, passed bool) {
	r, w := io.Pipe()
	done := make(chan bool, 1)
	go func() {
		ok := test(w)
		w.Close()
		done <- ok
	}()
	now := failure{}
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		_, _ = io.WriteString(out, line)
		if test, told := strings.CutPrefix(line, onlySlowSays); told {
			now.slow = append(now.slow, strings.TrimSpace(test))
		}
		if m := failedAt.FindStringSubmatch(line); m != nil {
			now.tests = append(now.tests, m[1])
		}
		for _, grave := range graves {
			if strings.Contains(line, grave) {
				now.why = strings.TrimSpace(line)
			}
		}
		if m := endOf.FindStringSubmatch(line); m != nil {
			now.pkg = m[2]
			switch {
			case m[1] != "FAIL":
				now = failure{}
				continue
			case now.why != "":
			case strings.HasSuffix(now.pkg, "/test/attack") && !now.onlySlow():
				now.why = "an attack"
			case len(now.tests) == 0:
				now.why = "no test of it failed"
			}
			failed, now = append(failed, now), failure{}
		}
		if err != nil {
			break
		}
	}
	return failed, <-done
}
