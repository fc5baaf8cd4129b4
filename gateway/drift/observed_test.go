package drift

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
)

// Each of the signals that a node sees is told from what was granted, with its severity (S1-44,
// S1-45, S1-46, S1-48, S1-50).
func TestObserved(t *testing.T) {
	s := Seen{
		Grants:   []string{"network.browser.session", "network.egress.domain_allowlist:example.com", "data.read.screen"},
		Declared: []string{"network.browser.session", "network.egress.https"}, Needed: capabilities.ClassT2, Given: capabilities.ClassT2,
		Uses: []Use{{Key: "network.browser.session", Detail: "a", Count: 1}, {Key: "network.egress.domain_allowlist", Detail: "", Count: 1}, {Key: "data.capture.screen", Detail: "", Count: 1}, {Key: "network.egress.https", Detail: "evil.example", Count: 4}, {Key: "data.write.workspace", Detail: "x", Count: 1}, {Key: "privileged.secret.read", Detail: "", Count: 1}, {Key: "data.read.location", Detail: "", Count: 1}},
	}
	want := []Difference{
		{Use: Use{Key: "privileged.secret.read", Detail: "", Count: 1}, Signal: Secret, Severity: Critical},
		{Use: Use{Key: "data.read.location", Detail: "", Count: 1}, Severity: Violation},
		{Use: Use{Key: "data.write.workspace", Detail: "x", Count: 1}, Signal: Write, Severity: Violation},
		{Use: Use{Key: "network.egress.https", Detail: "evil.example", Count: 4}, Signal: Network, Severity: Violation, Declared: true},
		{Use: Use{Key: "data.capture.screen", Detail: "", Count: 1}, Severity: Warning},
	}
	if got := Observed(s); !slices.Equal(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	s.Uses, s.Given = nil, capabilities.ClassT1
	if got := Observed(s); len(got) != 1 || got[0].Severity != Critical || got[0].Signal != Worker {
		t.Errorf("below its class: %+v", got)
	}
	if s.Given = capabilities.ClassSession; len(Observed(s)) != 1 {
		t.Errorf("in a session that its tool does not name: %+v", Observed(s))
	}
	if s.Session = true; len(Observed(s)) != 0 {
		t.Errorf("in a session that its tool names: %+v", Observed(s))
	}
	s.Given = ""
	if got := Observed(s); len(got) != 0 {
		t.Errorf("nobody told: %+v", got)
	}
}

// An attempt that was refused is a violation whatever else is granted under its key, and critical
// if it is privileged; a temporary file in the wrong folder is harmless (S1-44, S1-45, S1-50).
func TestRefusedAttempts(t *testing.T) {
	s := Seen{Grants: []string{"network.egress.https"}, Declared: []string{"network.egress.https"}, Refused: []Use{{Key: "network.egress.https", Detail: "evil.example:443", Count: 2}, {Key: "privileged.secret.read", Detail: "", Count: 1}, {Key: "data.write.workspace", Detail: "/etc/passwd", Count: 1}, {Key: "data.write.temp", Detail: "/tmp/x", Count: 1}}}
	want := []Difference{
		{Use: Use{Key: "privileged.secret.read", Detail: "", Count: 1}, Signal: Secret, Severity: Critical, Refused: true},
		{Use: Use{Key: "data.write.workspace", Detail: "/etc/passwd", Count: 1}, Signal: Write, Severity: Violation, Refused: true},
		{Use: Use{Key: "network.egress.https", Detail: "evil.example:443", Count: 2}, Signal: Network, Severity: Violation, Declared: true, Refused: true},
		{Use: Use{Key: "data.write.temp", Detail: "/tmp/x", Count: 1}, Signal: Write, Severity: Warning, Refused: true},
	}
	if got := Observed(s); !slices.Equal(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

// Nothing that is granted is a difference, and nothing else is none (S1-43).
func TestObservedIsExact(t *testing.T) {
	keys := []string{"network.egress.https", "data.write.workspace", "privileged.secret.read", "execution.proc.spawn", "data.read.location"}
	rapid.Check(t, func(t *rapid.T) {
		s := Seen{Grants: rapid.SliceOfDistinct(rapid.SampledFrom(keys), rapid.ID[string]).Draw(t, "grants")}
		seen := rapid.SliceOfDistinct(rapid.SampledFrom(keys), rapid.ID[string]).Draw(t, "seen")
		for _, k := range seen {
			s.Uses = append(s.Uses, Use{Key: k, Count: 1})
		}
		got := Observed(s)
		for _, k := range seen {
			if slices.ContainsFunc(got, func(d Difference) bool { return d.Key == k }) == slices.Contains(s.Grants, k) {
				t.Fatalf("%s granted %v: %+v", k, slices.Contains(s.Grants, k), got)
			}
		}
	})
}

// A file that a page left after the call that caused it had ended is drift of that call, also where
// the call that tells of it may leave files (S1-45).
func TestOfACallThatHadEnded(t *testing.T) {
	s := Seen{Grants: []string{"data.write.temp"}, Uses: []Use{{Key: "data.write.temp", Detail: "a.pdf", Count: 1, Among: "call_1"}, {Key: "data.write.temp", Detail: "b.pdf", Count: 1}}}
	if got := Observed(s); len(got) != 1 || got[0].Detail != "a.pdf" || got[0].Severity != Violation || got[0].Signal != Write {
		t.Errorf("%+v", got)
	}
}
