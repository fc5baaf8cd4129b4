package drift

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Seen is what a node saw one call do, and what the call was allowed.
type Seen struct {
	Grants   []string                    // effective grants: full keys, KEY:VALUE where narrowed
	Declared []string                    // full keys that the tool declares
	Needed   capabilities.IsolationClass // the least that the call was to run in
	Given    capabilities.IsolationClass // what it ran in; empty: nobody told
	Session  bool                        // the call may live in a person's session
	Uses     []Use
	Refused  []Use // was tried, and did not happen
}

// Use is what was seen under one capability key.
type Use struct {
	Key    string
	Detail string // such as a host's name; may be empty
	Count  uint32
	Among  string // the calls of which one did it, where nobody can tell which; "": the one that tells
	// Granted says that those of Among might do it: so says their node, which could say nothing.
	Granted bool
}

// Calls are those of Among.
func (u Use) Calls() (all []capabilities.CallID) {
	for _, one := range strings.Fields(u.Among) {
		all = append(all, capabilities.CallID(one))
	}
	return all
}

// Difference is one thing that was seen and not granted (S1-43).
type Difference struct {
	Use
	Signal   Number
	Severity Severity
	Declared bool // by the tool; the call was not granted it, or not all of it
	Refused  bool // it was tried, and did not happen
}

// alike are keys under which the same thing may be seen: where one of a pair is granted, the other
// is a harmless mismatch (S1-50).
var alike = map[string]string{
	"data.capture.screen": "data.read.screen", "data.read.screen": "data.capture.screen",
	"data.write.temp": "data.write.workspace", "data.read.tool_cache": "data.read.workspace",
}

// Observed compares what was seen with what was granted. Differences come worst first, then in
// the order of their keys.
func Observed(s Seen) []Difference {
	granted := func(key string) bool {
		return slices.ContainsFunc(s.Grants, func(g string) bool {
			name, _, _ := strings.Cut(g, ":")
			return name == key
		})
	}
	var all []Difference
	for _, u := range s.Uses {
		if u.Key == "" || granted(u.Key) && u.Among == "" { // of another call its node compared
			continue
		}
		if u.Granted && u.Among != "" && !strings.HasPrefix(u.Key, "privileged.") {
			continue
		}
		d := Difference{Use: u, Signal: signalOf(u.Key), Severity: Violation, Declared: slices.Contains(s.Declared, u.Key)}
		switch other := alike[u.Key]; {
		case strings.HasPrefix(u.Key, "privileged."):
			d.Severity = Critical
		case other != "" && granted(other) && u.Among == "":
			d.Severity = Warning
		}
		all = append(all, d)
	}
	for _, u := range s.Refused { // whatever else is granted under the key (S1-50)
		d := Difference{Use: u, Signal: signalOf(u.Key), Severity: Violation, Declared: slices.Contains(s.Declared, u.Key), Refused: true}
		switch {
		case strings.HasPrefix(u.Key, "privileged."):
			d.Severity = Critical
		case u.Key == capabilities.KeyTemp, // every program has a folder of its own for these
			u.Key == capabilities.KeyLookup,    // a program that looks at its own machine has such a socket, too
			u.Key == capabilities.KeyInterface: // it leads to what the program has anyway
			d.Severity = Warning
		}
		all = append(all, d)
	}
	if s.Given != "" && !s.Given.Meets(s.Needed, s.Session) { // S1-48, S1-63
		all = append(all, Difference{
			Use:    Use{Key: "isolation." + string(s.Given), Detail: fmt.Sprintf("%s where %s was needed", s.Given, s.Needed), Count: 1},
			Signal: Worker, Severity: Critical, Declared: true,
		})
	}
	sort.SliceStable(all, func(i, j int) bool {
		a, b := all[i], all[j]
		return cmp.Or(cmp.Compare(b.Severity.rank(), a.Severity.rank()), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Detail, b.Detail)) < 0
	})
	return all
}

// Worse reports whether s is worse than another.
func (s Severity) Worse(than Severity) bool { return s.rank() > than.rank() }

func (s Severity) rank() int {
	return slices.Index([]Severity{Warning, Violation, Critical}, s)
}
