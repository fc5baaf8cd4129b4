package policy

import (
	"fmt"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func BenchmarkDecide(b *testing.B) {
	for _, c := range []struct {
		name string
		tool capabilities.ToolID
		args string
	}{
		{"navigate", "tool.browser.navigate", `{"url":"https://example.com/some/page?q=1"}`},
		{"click", "tool.browser.click", `{"ref":"e12"}`},
		{"ask", "tool.desktop.screenshot", `{"display":"primary"}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := defaultEngine(b)
			r := request(c.tool, c.args)
			if c.name == "ask" {
				r.Given = capabilities.ClassSession
			}
			if e.Decide(r).Effect == Deny {
				b.Fatal("denied")
			}
			b.ReportAllocs()
			for b.Loop() {
				e.Decide(r)
			}
		})
	}
	// 200 policies that can apply to one call: the most that one call should meet.
	b.Run("200policies", func(b *testing.B) {
		text := permitAll
		for i := range 199 {
			text += fmt.Sprintf("forbid (principal, action == Action::\"tool.browser.navigate\", resource) when { context.args.host == \"h%d.example\" };\n", i)
		}
		e := mustLoad(b, text)
		r := request("tool.browser.navigate", `{"url":"https://example.com/"}`)
		b.ReportAllocs()
		for b.Loop() {
			e.Decide(r)
		}
	})
}

func BenchmarkPossibleWholeCatalog(b *testing.B) {
	e := defaultEngine(b)
	all := testCatalog(b).All()
	b.ReportAllocs()
	for b.Loop() {
		for _, d := range all {
			e.Possible(request(d.Tool, ""))
		}
	}
}

func BenchmarkBuildEnvelope(b *testing.B) {
	in := envelopeInput()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := BuildEnvelope(in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenEnvelope(b *testing.B) {
	data := mustBuild(b, envelopeInput()).Bytes
	b.ReportAllocs()
	for b.Loop() {
		if _, err := OpenEnvelope(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoadDefault(b *testing.B) {
	cat := testCatalog(b)
	for b.Loop() {
		if _, err := Load([]Source{{Name: DefaultName, Data: DefaultSource()}}, cat); err != nil {
			b.Fatal(err)
		}
	}
}
