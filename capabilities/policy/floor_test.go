package policy

import (
	"fmt"
	"strings"
	"testing"

	cedar "github.com/cedar-policy/cedar-go"
)

// hundred are 100 policies that can all apply to one call, which asks: one permit
// with consent and 99 forbids about hosts.
func hundred() string {
	var b strings.Builder
	b.WriteString("permit (principal, action, resource) when { context.consent };\n")
	for i := range 99 {
		fmt.Fprintf(&b, "forbid (principal, action == Action::\"tool.browser.navigate\", resource) when { context.args.host == \"h%d.example\" };\n", i)
	}
	return b.String()
}

// BenchmarkHundredPolicies measures one decision, both evaluations, translation and
// arguments included, beside the floor: cedar-go alone, once, over the same policies
// with everything translated already.
func BenchmarkHundredPolicies(b *testing.B) {
	e := mustLoad(b, hundred())
	r := request("tool.browser.navigate", `{"url":"https://example.com/"}`)
	b.Run("floor", func(b *testing.B) {
		set, err := cedar.NewPolicySetFromBytes("a.cedar", []byte(hundred()))
		if err != nil {
			b.Fatal(err)
		}
		env, ok := e.environment(&r, e.tools[r.Tool], true)
		if !ok {
			b.Fatal("no environment")
		}
		q := env.withConsent(true)
		b.ReportAllocs()
		for b.Loop() {
			if d, _ := cedar.Authorize(set, &env.entities, q); d != cedar.Allow {
				b.Fatal("denied")
			}
		}
	})
	b.Run("both", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if e.Decide(r).Effect != Ask {
				b.Fatal("not asked")
			}
		}
	})
}

// BenchmarkEnvelope measures making an envelope and opening it.
func BenchmarkEnvelope(b *testing.B) {
	in := envelopeInput()
	b.ReportAllocs()
	for b.Loop() {
		s, err := BuildEnvelope(in)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := OpenEnvelope(s.Bytes); err != nil {
			b.Fatal(err)
		}
	}
}
