package route

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
)

const click = capabilities.CapabilityID("tyrum.browser.click")

var (
	bothModes = []capabilities.SelectionMode{capabilities.SelectAttached, capabilities.SelectSole}
	soleOnly  = []capabilities.SelectionMode{capabilities.SelectSole} // secret delivery (S0-21)
)

// good makes a node that is eligible for click.
func good(id capabilities.NodeID) Node {
	return Node{
		ID: id, Paired: StateApproved, Connected: true, Allow: AllowPatterns(string(click)),
		Summary:   capabilities.NodeSummary{Label: "label of " + string(id), Platform: "linux", Trust: "trusted"},
		Readiness: map[capabilities.CapabilityID]capabilities.Readiness{click: {Capability: click, Isolation: capabilities.ClassT2}},
	}
}

func with(n Node, change func(*Node)) Node { change(&n); return n }

func notReady(n *Node) {
	n.Readiness = map[capabilities.CapabilityID]capabilities.Readiness{
		click: {Capability: click, Reason: capabilities.ReasonBackendMissing, Fix: "Install chromium."},
	}
}

// causes breaks each leg of S0-14, with the code that S0-16 wants for it.
var causes = []struct {
	name   string
	change func(*Node)
	code   capabilities.Code
	reason capabilities.Reason
}{
	{"pending", func(n *Node) { n.Paired = StatePending }, capabilities.CodeNodeNotPaired, capabilities.ReasonNodeNotPaired},
	{"denied", func(n *Node) { n.Paired = StateDenied }, capabilities.CodeNodeNotPaired, capabilities.ReasonNodeNotPaired},
	{"revoked", func(n *Node) { n.Paired = StateRevoked }, capabilities.CodeNodeNotPaired, capabilities.ReasonNodeNotPaired},
	{"revoked flag wins", func(n *Node) { n.Revoked = true }, capabilities.CodeNodeNotPaired, capabilities.ReasonNodeNotPaired},
	{"unknown state", func(n *Node) { n.Paired = "" }, capabilities.CodeNodeNotPaired, capabilities.ReasonNodeNotPaired},
	{"not advertised", func(n *Node) { n.Readiness = nil }, capabilities.CodeCapabilityNotAdvertised, capabilities.ReasonNotAdvertised},
	{"advertised as not advertised", func(n *Node) {
		n.Readiness = map[capabilities.CapabilityID]capabilities.Readiness{click: {Reason: capabilities.ReasonNotAdvertised}}
	}, capabilities.CodeCapabilityNotAdvertised, capabilities.ReasonNotAdvertised},
	{"another capability ready", func(n *Node) {
		n.Readiness = map[capabilities.CapabilityID]capabilities.Readiness{"tyrum.browser.type": {}}
	}, capabilities.CodeCapabilityNotAdvertised, capabilities.ReasonNotAdvertised},
	{"no allowlist", func(n *Node) { n.Allow = nil }, capabilities.CodeCapabilityNotAllowlisted, capabilities.ReasonNotAllowlisted},
	{"not allowlisted", func(n *Node) { n.Allow = AllowPatterns("tyrum.browser.type", "tyrum.desktop.*") }, capabilities.CodeCapabilityNotAllowlisted, capabilities.ReasonNotAllowlisted},
	{"backend missing", notReady, capabilities.CodeNodeNotReady, capabilities.ReasonBackendMissing},
	{"offline", func(n *Node) { n.Connected = false }, capabilities.CodeNodeNotReady, capabilities.ReasonNodeOffline},
	{"offline and silent", func(n *Node) { n.Connected, n.Readiness = false, nil }, capabilities.CodeNodeNotReady, capabilities.ReasonNodeOffline},
	{"stopped", func(n *Node) { n.Stopped = true }, capabilities.CodeNodeNotReady, capabilities.ReasonNodeStopped},
	{"denied by policy", func(n *Node) { n.Denied = true }, capabilities.CodeNodeDeniedByPolicy, capabilities.ReasonHiddenByPolicy},
}

// S0-15, S0-16: a named node is the only target, and each cause has its code.
func TestExplicit(t *testing.T) {
	for _, c := range causes {
		t.Run(c.name, func(t *testing.T) {
			nodes := []Node{with(good("n1"), c.change), good("n2")}
			// Another eligible node, even an attached one, is never used instead.
			_, err := Select(Input{Requested: "n1", Attached: []capabilities.NodeID{"n2"}, Capability: click, Implicit: bothModes, Nodes: nodes})
			if err == nil || err.Code != c.code {
				t.Fatalf("got %v, want %s", err, c.code)
			}
			if d := err.Details.(Candidate); d.Node != "n1" || d.Reason != c.reason {
				t.Fatalf("details %+v", d)
			}
			if c.reason == capabilities.ReasonBackendMissing && err.PublicHint() != "Install chromium." {
				t.Fatalf("the node's own fix is lost: %q", err.PublicHint())
			}
			if err.PublicHint() == "" {
				t.Fatal("no hint")
			}
		})
	}
	t.Run("unknown node", func(t *testing.T) {
		_, err := Select(Input{Requested: "n9", Capability: click, Implicit: bothModes, Nodes: []Node{good("n1")}})
		if err == nil || err.Code != capabilities.CodeNodeNotFound {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("policy denies the real arguments", func(t *testing.T) {
		_, err := Select(Input{Requested: "n1", Capability: click, Nodes: []Node{good("n1")}, PolicyDenied: func(capabilities.NodeID) bool { return true }})
		if err == nil || err.Code != capabilities.CodeNodeDeniedByPolicy {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("eligible", func(t *testing.T) {
		// No implicit mode is needed to name a node.
		got, err := Select(Input{Requested: "n2", Attached: []capabilities.NodeID{"n1"}, Capability: click, Nodes: []Node{good("n1"), good("n2")}})
		if err != nil || got.Node != "n2" || got.Mode != capabilities.SelectExplicit {
			t.Fatalf("got %+v, %v", got, err)
		}
		r := got.Routing("n2")
		if r.Requested != "n2" || r.Selected != "n2" || r.Node.Label != "label of n2" {
			t.Fatalf("routing %+v", r)
		}
	})
}

// S0-17, S0-18, S0-20 … S0-23.
func TestImplicit(t *testing.T) {
	type ids = []capabilities.NodeID
	pending := func(id capabilities.NodeID) Node { return with(good(id), func(n *Node) { n.Paired = StatePending }) }
	broken := func(id capabilities.NodeID) Node { return with(good(id), notReady) }
	revoked := func(id capabilities.NodeID) Node { return with(good(id), func(n *Node) { n.Revoked = true }) }
	for _, c := range []struct {
		name     string
		nodes    []Node
		attached ids
		implicit []capabilities.SelectionMode
		denied   ids
		want     capabilities.NodeID
		mode     capabilities.SelectionMode
		detail   string
		listed   ids
	}{
		{name: "one attached, eligible, alone", nodes: []Node{good("n1")}, attached: ids{"n1"}, implicit: bothModes, want: "n1", mode: capabilities.SelectAttached},
		{name: "one attached among several eligible", nodes: []Node{good("n1"), good("n2"), good("n3")}, attached: ids{"n2"}, implicit: bothModes, want: "n2", mode: capabilities.SelectAttached},
		{name: "the same node attached twice is one", nodes: []Node{good("n1"), good("n2")}, attached: ids{"n2", "n2"}, implicit: bothModes, want: "n2", mode: capabilities.SelectAttached},
		{name: "none attached, one eligible", nodes: []Node{good("n1"), broken("n2"), pending("n3")}, implicit: bothModes, want: "n1", mode: capabilities.SelectSole},
		{name: "attached but ineligible, one eligible elsewhere", nodes: []Node{broken("n1"), good("n2")}, attached: ids{"n1"}, implicit: bothModes, want: "n2", mode: capabilities.SelectSole},
		{name: "attached is gone from the roster, one eligible", nodes: []Node{good("n2")}, attached: ids{"n1"}, implicit: bothModes, want: "n2", mode: capabilities.SelectSole},
		{name: "two attached, one of them revoked", nodes: []Node{good("n1"), revoked("n2"), good("n3")}, attached: ids{"n1", "n2"}, implicit: bothModes, want: "n1", mode: capabilities.SelectAttached},
		{name: "secret: the attached one is revoked, one eligible", nodes: []Node{revoked("n1"), good("n2")}, attached: ids{"n1"}, implicit: soleOnly, want: "n2", mode: capabilities.SelectSole},
		{name: "two attached, one eligible in all", nodes: []Node{good("n1"), broken("n2")}, attached: ids{"n1", "n2"}, implicit: bothModes, want: "n1", mode: capabilities.SelectSole},
		{name: "policy leaves one", nodes: []Node{good("n1"), good("n2")}, denied: ids{"n1"}, implicit: bothModes, want: "n2", mode: capabilities.SelectSole},
		{name: "attached one is denied by policy, one elsewhere", nodes: []Node{good("n1"), good("n2")}, attached: ids{"n1"}, denied: ids{"n1"}, implicit: bothModes, want: "n2", mode: capabilities.SelectSole},

		{name: "several eligible, none attached", nodes: []Node{good("n2"), good("n1"), broken("n3")}, implicit: bothModes, detail: DetailSeveral, listed: ids{"n1", "n2"}},
		{name: "two attached and both eligible", nodes: []Node{good("n1"), good("n2")}, attached: ids{"n1", "n2"}, implicit: bothModes, detail: DetailSeveral, listed: ids{"n1", "n2"}},
		{name: "two attached, a third eligible too", nodes: []Node{good("n1"), broken("n2"), good("n3")}, attached: ids{"n1", "n2"}, implicit: bothModes, detail: DetailSeveral, listed: ids{"n1", "n3"}},
		{name: "attached ineligible, several elsewhere", nodes: []Node{broken("n1"), good("n2"), good("n3")}, attached: ids{"n1"}, implicit: bothModes, detail: DetailSeveral, listed: ids{"n2", "n3"}},
		{name: "a lane with one living and one unknown node attached", nodes: []Node{good("n1"), good("n2")}, attached: ids{"n1", "n9"}, implicit: bothModes, detail: DetailSeveral, listed: ids{"n1", "n2"}},
		{name: "no nodes", implicit: bothModes, detail: DetailNone},
		{name: "none eligible", nodes: []Node{broken("n2"), pending("n1")}, implicit: bothModes, detail: DetailNone, listed: ids{"n1", "n2"}},
		{name: "the only attached one is revoked, one eligible", nodes: []Node{revoked("n1"), good("n2")}, attached: ids{"n1"}, implicit: bothModes, detail: DetailSeveral, listed: ids{"n2"}},
		{name: "none eligible, revoked are not listed", nodes: []Node{broken("n2"), with(good("n1"), func(n *Node) { n.Revoked = true })}, implicit: bothModes, detail: DetailNone, listed: ids{"n2"}},
		{name: "all denied by policy", nodes: []Node{good("n1"), good("n2")}, denied: ids{"n1", "n2"}, implicit: bothModes, detail: DetailNone, listed: ids{"n1", "n2"}},

		{name: "secret: one eligible", nodes: []Node{good("n1"), broken("n2")}, implicit: soleOnly, want: "n1", mode: capabilities.SelectSole},
		{name: "secret: attachment breaks no tie", nodes: []Node{good("n1"), good("n2")}, attached: ids{"n1"}, implicit: soleOnly, detail: DetailSeveral, listed: ids{"n1", "n2"}},
		{name: "secret: one attached and eligible alone is sole", nodes: []Node{good("n1")}, attached: ids{"n1"}, implicit: soleOnly, want: "n1", mode: capabilities.SelectSole},
		{name: "no implicit mode at all", nodes: []Node{good("n1")}, attached: ids{"n1"}, detail: DetailSeveral, listed: ids{"n1"}},
		{name: "attached only", nodes: []Node{good("n1"), broken("n2")}, attached: ids{"n2"}, implicit: bothModes[:1], detail: DetailSeveral, listed: ids{"n1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Select(Input{
				Attached: c.attached, Capability: click, Implicit: c.implicit, Nodes: c.nodes,
				PolicyDenied: func(id capabilities.NodeID) bool { return slices.Contains(c.denied, id) },
			})
			if c.want != "" {
				if err != nil || got.Node != c.want || got.Mode != c.mode {
					t.Fatalf("got %+v, %v; want %s by %s", got, err, c.want, c.mode)
				}
				if r := got.Routing(""); r.Requested != "" || r.Selected != c.want {
					t.Fatalf("routing %+v", r)
				}
				return
			}
			if err == nil || err.Code != capabilities.CodeAmbiguousNode {
				t.Fatalf("got %+v, %v; want ambiguity", got, err)
			}
			a := err.Details.(Ambiguity)
			var listed ids
			for _, x := range a.Candidates {
				listed = append(listed, x.Node)
				if (x.Code == "") != (c.detail == DetailSeveral) {
					t.Errorf("candidate %+v does not fit detail %s", x, a.Detail)
				}
			}
			if a.Detail != c.detail || !slices.Equal(listed, c.listed) {
				t.Fatalf("detail %s %v, want %s %v", a.Detail, listed, c.detail, c.listed)
			}
			if err.PublicHint() == "" || err.PublicMessage() == "" {
				t.Fatal("no words for a person")
			}
		})
	}
}

func TestAmbiguityIsBounded(t *testing.T) {
	for _, eligible := range []bool{true, false} {
		var nodes []Node
		for i := range 40 {
			n := good(capabilities.NodeID(fmt.Sprintf("n%02d", 39-i)))
			if !eligible {
				notReady(&n)
			}
			nodes = append(nodes, n)
		}
		asked := 0
		_, err := Select(Input{Capability: click, Implicit: bothModes, Nodes: nodes, PolicyDenied: func(capabilities.NodeID) bool { asked++; return false }})
		a := err.Details.(Ambiguity)
		if len(a.Candidates) != MaxCandidates || !a.More || a.Candidates[0].Node != "n00" {
			t.Fatalf("eligible=%v: %d candidates, more=%v, first %s", eligible, len(a.Candidates), a.More, a.Candidates[0].Node)
		}
		if asked > MaxCandidates+3 {
			t.Fatalf("policy was asked %d times", asked)
		}
	}
}

// The reason is what the candidates have in common, and only readiness passes by itself.
func TestWhyNoNode(t *testing.T) {
	denied := func(n *Node) { n.Denied = true }
	broken := func(id capabilities.NodeID) Node { return with(good(id), notReady) }
	pending := func(id capabilities.NodeID) Node { return with(good(id), func(n *Node) { n.Paired = StatePending }) }
	revoked := func(id capabilities.NodeID) Node { return with(good(id), func(n *Node) { n.Revoked = true }) }
	for name, c := range map[string]struct {
		nodes   []Node
		why     Why
		passing bool
		away    bool
	}{
		"none at all":                {nil, WhyNoNode, false, false},
		"only revoked":               {[]Node{revoked("n1")}, WhyNoNode, false, false},
		"pending":                    {[]Node{pending("n1")}, WhyNoNode, false, false},
		"pending, and one without":   {[]Node{pending("n1"), with(good("n2"), func(n *Node) { n.Readiness = nil })}, WhyNoNode, false, false},
		"two that could":             {[]Node{good("n1"), good("n2"), broken("n3")}, WhySeveral, false, false},
		"the only one is away":       {[]Node{with(good("n1"), func(n *Node) { n.Connected = false })}, WhyNotReady, true, true},
		"the only one lacks a thing": {[]Node{broken("n1")}, WhyNotReady, true, false},
		"denied on the only one":     {[]Node{with(good("n1"), denied)}, WhyDenied, false, false},
		"not allowlisted":            {[]Node{with(good("n1"), func(n *Node) { n.Allow = nil })}, WhyDenied, false, false},
		"denied on one, one broken":  {[]Node{with(good("n1"), denied), broken("n2")}, WhyMixed, true, false},
		"denied on one, one pending": {[]Node{with(good("n1"), denied), pending("n2")}, WhyMixed, false, false},
	} {
		_, err := Select(Input{Capability: click, Implicit: bothModes, Nodes: c.nodes})
		if err == nil || err.Code != capabilities.CodeAmbiguousNode {
			t.Fatalf("%s: %v", name, err)
		}
		if a := err.Details.(Ambiguity); a.Reason != c.why || err.Retryable() != c.passing || Away(err) != c.away {
			t.Errorf("%s: %s, retryable %v, away %v; want %s, %v, %v", name, a.Reason, err.Retryable(), Away(err), c.why, c.passing, c.away)
		}
	}
}

// The details are part of the contract: {"detail","reason","candidates":[{"node_id",…}]}.
func TestAmbiguityJSON(t *testing.T) {
	_, err := Select(Input{Capability: click, Implicit: bothModes, Nodes: []Node{with(good("n1"), notReady)}})
	got, _ := json.Marshal(err.Details)
	want := `{"detail":"no_eligible_node","reason":"not_ready","candidates":[{"node_id":"n1","label":"label of n1","platform":"linux","code":"node_not_ready","reason":"backend_missing","fix":"Install chromium."}]}`
	if string(got) != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// Where one node is all there is, the hint is about what that node lacks.
func TestHintOfTheOnlyNode(t *testing.T) {
	_, err := Select(Input{Capability: "tyrum.browser.nothing", Implicit: bothModes, Nodes: []Node{good("n1")}})
	if err == nil || err.PublicHint() != capabilities.CodeCapabilityNotAdvertised.Info().Hint {
		t.Fatalf("%v: %q", err, err.PublicHint())
	}
	_, err = Select(Input{Capability: click, Implicit: bothModes, Nodes: []Node{with(good("n1"), notReady)}})
	if err == nil || err.PublicHint() != "Install chromium." {
		t.Fatalf("%v: %q", err, err.PublicHint())
	}
}

func TestAllowPatterns(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		want     bool
	}{
		{nil, false}, {[]string{""}, false}, {[]string{"*"}, true}, {[]string{"tyrum.browser.*"}, true}, {[]string{"tyrum.*"}, true},
		{[]string{"tyrum.browser.click"}, true}, {[]string{"tyrum.browser"}, false}, {[]string{"tyrum.browser.cl*"}, false},
		{[]string{"tyrum.b*"}, false}, {[]string{"tyrum.browserx.*"}, false}, {[]string{".*"}, false},
	} {
		if got := AllowPatterns(c.patterns...)(click); got != c.want {
			t.Errorf("%q: got %v", c.patterns, got)
		}
	}
}

// S0-19: labels, platform, trust and order never change the answer; a selected
// node is always eligible; implicit answers are one of the two modes.
func TestSelectionNeverGuesses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(0, 6).Draw(t, "nodes")
		var nodes []Node
		denied := map[capabilities.NodeID]bool{}
		var attached []capabilities.NodeID
		for i := range count {
			n := good(capabilities.NodeID(fmt.Sprintf("n%d", i)))
			if k := rapid.IntRange(-6, len(causes)-1).Draw(t, "cause"); k >= 0 {
				causes[k].change(&n)
			}
			denied[n.ID] = rapid.IntRange(0, 3).Draw(t, "denied") == 0
			if rapid.IntRange(0, 2).Draw(t, "attached") == 0 {
				attached = append(attached, n.ID)
			}
			nodes = append(nodes, n)
		}
		in := Input{
			Attached: attached, Capability: click, Nodes: nodes,
			Implicit:     rapid.SampledFrom([][]capabilities.SelectionMode{nil, soleOnly, bothModes, bothModes[:1]}).Draw(t, "modes"),
			PolicyDenied: func(id capabilities.NodeID) bool { return denied[id] },
		}
		if rapid.Bool().Draw(t, "explicit") {
			in.Requested = capabilities.NodeID(fmt.Sprintf("n%d", rapid.IntRange(0, 6).Draw(t, "requested")))
		}
		first, firstErr := Select(in)

		other := in
		other.Nodes = rapid.Permutation(nodes).Draw(t, "order")
		other.Nodes = slices.Clone(other.Nodes)
		for i := range other.Nodes {
			other.Nodes[i].Summary = capabilities.NodeSummary{
				Label: rapid.String().Draw(t, "label"), Platform: rapid.String().Draw(t, "platform"), Trust: rapid.String().Draw(t, "trust"),
			}
		}
		other.Attached = rapid.Permutation(attached).Draw(t, "attached order")
		second, secondErr := Select(other)
		if first.Node != second.Node || first.Mode != second.Mode || (firstErr == nil) != (secondErr == nil) {
			t.Fatalf("order or labels decided: %+v %v, %+v %v", first, firstErr, second, secondErr)
		}
		if firstErr != nil {
			if firstErr.Code != secondErr.Code {
				t.Fatalf("codes differ: %s, %s", firstErr.Code, secondErr.Code)
			}
			return
		}
		n := find(nodes, first.Node)
		if n == nil || !Check(n, click, in.PolicyDenied).Eligible() {
			t.Fatalf("%s is not eligible", first.Node)
		}
		if in.Requested != "" {
			if first.Node != in.Requested || first.Mode != capabilities.SelectExplicit {
				t.Fatalf("asked for %s, got %+v", in.Requested, first)
			}
			return
		}
		if !slices.Contains(in.Implicit, first.Mode) {
			t.Fatalf("mode %s is not among %v", first.Mode, in.Implicit)
		}
	})
}

func BenchmarkSelectAmongThousand(b *testing.B) {
	var nodes []Node
	for i := range 1000 {
		n := good(capabilities.NodeID(fmt.Sprintf("n%d", i)))
		if i > 0 {
			notReady(&n)
		}
		nodes = append(nodes, n)
	}
	in := Input{Capability: click, Implicit: bothModes, Nodes: nodes}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Select(in); err != nil {
			b.Fatal(err)
		}
	}
}
