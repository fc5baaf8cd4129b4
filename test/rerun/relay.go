package main

import (
	"bufio"
	"encoding/json"
	"io"
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
	passed := map[string]map[string]bool{}
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
		case (e.Action == "pass" || e.Action == "skip") && e.Test != "":
			if passed[e.Package] == nil {
				passed[e.Package] = map[string]bool{}
			}
			passed[e.Package][e.Test] = true
		case e.Test == "" && (e.Action == "pass" || e.Action == "skip" || e.Action == "fail"):
			_, _ = io.WriteString(to, ended(running[e.Package], passed[e.Package], e.Action != "fail"))
			delete(running, e.Package)
			delete(passed, e.Package)
		}
		if err != nil {
			break
		}
	}
	for _, rest := range running { // go test ended before they did
		_, _ = io.WriteString(to, ended(rest, nil, false))
	}
}

// ended returns what is shown of a package's output.
func ended(all []said, passed map[string]bool, fine bool) string {
	grave := slices.ContainsFunc(all, func(s said) bool {
		return slices.ContainsFunc(graves, func(g string) bool { return strings.Contains(s.line, g) })
	})
	var b strings.Builder
	for _, s := range all {
		switch {
		case fine && !endOf.MatchString(s.line):
		case strings.HasPrefix(s.line, "=== ") || s.line == "PASS\n":
		case !fine && !grave && passed[s.test]:
		default:
			b.WriteString(s.line)
		}
	}
	return b.String()
}
