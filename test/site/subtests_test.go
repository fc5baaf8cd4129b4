package site

import (
	"flag"
	"testing"
)

func TestSubtests(t *testing.T) {
	run := flag.Lookup("test.run").Value
	was := run.String()
	t.Cleanup(func() { _ = run.Set(was) })
	for pattern, wants := range map[string]string{
		"": "all", "TestBehaviours": "all", "^TestBehaviours$/": "all", `^TestBehaviours$/^(a\.b|c)$`: "some", "Test/^a.b$/x": "some", "Test/(": "all",
	} {
		if err := run.Set(pattern); err != nil {
			t.Fatal(err)
		}
		got := Subtests()
		if (got == nil) != (wants == "all") || got != nil && (!got.MatchString("a.b") || got.MatchString("a.bc")) {
			t.Errorf("%q: %v", pattern, got)
		}
	}
}
