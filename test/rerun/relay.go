package main

import (
	"bufio"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is one line of go test -json (go doc test2json), as far as it is used here.
type event struct {
	Action, Package, Test, Output string
}

// said is a line of a package's output, and the test that it came from, if any.
type said struct{ test, line string }

// relay writes what go test -json says as go test itself would, but a package as soon as it ends:
// go test keeps all that ended behind the one that was listed before them. A package that passed
// is its verdict alone. Of one that failed, the output of tests that passed is left out, unless
// something in the package is never forgiven: that may be told amid the lines of another test.
func relay(from io.Reader, to io.Writer) {
	running := map[string][]said{}
	verdicts := map[string]map[string]bool{} // of tests that ended: whether each passed
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadString('\n')
		var e event
		switch {
		case line == "":
		case !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil:
			_, _ = io.WriteString(to, line) // of the go command itself
		case e.Action == "build-output":
			_, _ = io.WriteString(to, e.Output)
		case e.Action == "output":
			running[e.Package] = append(running[e.Package], said{e.Test, e.Output})
		case (e.Action == "pass" || e.Action == "skip" || e.Action == "fail") && e.Test != "":
			if verdicts[e.Package] == nil {
				verdicts[e.Package] = map[string]bool{}
			}
			verdicts[e.Package][e.Test] = e.Action != "fail"
		case e.Action == "pass" || e.Action == "skip" || e.Action == "fail":
			_, _ = io.WriteString(to, ended(running[e.Package], verdicts[e.Package], e.Action != "fail"))
			delete(running, e.Package)
			delete(verdicts, e.Package)
		}
		if err != nil {
			break
		}
	}
	for _, rest := range running { // go test ended before they did
		_, _ = io.WriteString(to, ended(rest, nil, false))
	}
}

// ended returns what is shown of a package's output: of one that failed, first the tests that
// failed for slowness alone.
func ended(all []said, verdicts map[string]bool, fine bool) string {
	grave := slices.ContainsFunc(all, func(s said) bool {
		return slices.ContainsFunc(graves, func(g string) bool { return strings.Contains(s.line, g) })
	})
	var b strings.Builder
	if !fine {
		for _, test := range onlySlow(all, verdicts) {
			b.WriteString(onlySlowSays + test + "\n")
		}
	}
	for _, s := range all {
		switch {
		case fine && !endOf.MatchString(s.line):
		case strings.HasPrefix(s.line, "=== ") || s.line == "PASS\n":
		case !fine && !grave && verdicts[s.test]:
		default:
			b.WriteString(s.line)
		}
	}
	return b.String()
}

// onlySlowSays begins the line that tells of a test whose waits ran out.
const onlySlowSays = "slow, and nothing else: "

var (
	// A line of t.Log and t.Error, which look the same; and what of it is no finding of the test: the
	// gateway's log, and what programs of a desk printed.
	toldAt = regexp.MustCompile(`^ *[\w.-]+\.go:\d+: (.*)`)
	aside  = regexp.MustCompile(`^(time=\S+ level=|\S+ said:)`)
)

// onlySlow returns the failed tests that said `slow:` and nothing else, neither they nor
// tests above or below them.
func onlySlow(all []said, verdicts map[string]bool) []string {
	waited, more := map[string]bool{}, map[string]bool{}
	for _, s := range all {
		m := toldAt.FindStringSubmatch(s.line)
		switch {
		case m == nil || aside.MatchString(m[1]):
		case strings.HasPrefix(m[1], "slow: "):
			waited[s.test] = true
		default:
			more[s.test] = true
		}
	}
	related := func(a, b string) bool { return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/") }
	var tests []string
	for test, passed := range verdicts {
		if passed || !waited[test] {
			continue
		}
		fine := true
		for other := range more {
			fine = fine && (other != "" && !related(other, test) || verdicts[other])
		}
		if fine {
			tests = append(tests, test)
		}
	}
	slices.Sort(tests)
	return tests
}
