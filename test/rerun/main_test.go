package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The real go test, over a module whose tests fail as told.
func TestRun(t *testing.T) {
	const chance = `package p
import ("os"; "testing")
func TestFine(t *testing.T) {}
func TestChance(t *testing.T) {
	if _, err := os.Stat("was"); err != nil {
		_ = os.WriteFile("was", nil, 0o600)
		t.Error("by chance")
	}
}
`
	const parts = `package p
import ("os"; "testing")
func TestParts(t *testing.T) {
	before := false
	t.Run("a part", func(t *testing.T) { before = true })
	t.Run("by chance", func(t *testing.T) {
		if _, err := os.Stat("was"); err != nil || NEEDS && !before {
			_ = os.WriteFile("was", nil, 0o600)
			t.Error("by chance")
		}
	})
}
`
	for name, c := range map[string]struct {
		code string
		want int
		says string
		runs int // of go test
	}{
		"passes":  {"package p\nimport \"testing\"\nfunc TestFine(t *testing.T) {}\n", 0, "ok  \tm", 1},
		"chance":  {chance, 0, "flaky: m TestChance: failed, and passed alone at try 2", 2},
		"part":    {strings.Replace(parts, "NEEDS", "false", 1), 0, "again, alone: m ^TestParts$/^(by_chance)$\nok  \tm", 2},
		"in part": {strings.Replace(parts, "NEEDS", "true", 1), 0, "flaky: m TestParts/by_chance: failed, and passed alone at try 3", 3},
		"grave":   {strings.Replace(chance, "by chance", "grave: it ran twice", 1), 1, "not run again: m: p_test.go:7: grave: it ran twice", 1},
		"attack":  {chance, 1, "not run again: m/test/attack: an attack", 1},
		"slow attack": {strings.Replace(strings.Replace(chance, `t.Error("by chance")`,
			`t.Log("time=12:00 level=WARN msg=late"); t.Error("slow: waited in vain")`, 1), "TestFine(t *testing.T) {", "TestFine(t *testing.T) { t.Log(1)", 1),
			0, "flaky: m/test/attack TestChance: failed, and passed alone at try 2", 2},
		"attack amid waits":  {strings.Replace(chance, `t.Error("by chance")`, `t.Error("it got through"); t.Fatal("slow: waited in vain")`, 1), 1, "not run again: m/test/attack: an attack", 1},
		"attack above waits": {strings.Replace(strings.Replace(strings.Replace(parts, "NEEDS", "false", 1), `t.Error("by chance")`, `t.Error("slow: waited in vain")`, 1), "before := false", `before := false; t.Cleanup(func() { t.Log("it got through") })`, 1), 1, "not run again: m/test/attack: an attack", 1},
		"always":             {"package p\nimport \"testing\"\nfunc TestAlways(t *testing.T) { t.Error(1) }\n", 1, "FAIL\tm TestAlways: failed 3 times", 3},
		"panics":             {"package p\nimport \"testing\"\nfunc TestPanics(t *testing.T) { panic(1) }\n", 1, "not run again: m: panic: 1", 1},
		"unbuilt":            {"package p\nimport \"testing\"\nfunc TestX(t *testing.T) { x }\n", 1, "not run again: m: FAIL\tm [build failed]", 1},
		"leaks":              {"package p\nimport (\"os\"; \"testing\")\nfunc TestFine(t *testing.T) {}\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(1) }\n", 1, "not run again: m: no test of it failed", 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			at := dir
			if strings.Contains(name, "attack") {
				at = filepath.Join(dir, "test", "attack")
			}
			for path, text := range map[string]string{filepath.Join(dir, "go.mod"): "module m\n\ngo 1.26\n", filepath.Join(at, "p_test.go"): c.code} {
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(dir)
			var out bytes.Buffer
			runs := 0
			got := run([]string{"-vet=off"}, []string{"./..."}, &out, func(args []string, w io.Writer) bool {
				runs++
				return goTest(args, w)
			})
			if got != c.want || !strings.Contains(out.String(), c.says) || runs != c.runs {
				t.Errorf("ended with %d after %d runs, and said\n%s", got, runs, &out)
			}
		})
	}
}

// Many failures are no chance, and each package's are its own.
func TestManyFailures(t *testing.T) {
	said := &strings.Builder{}
	for i := range maxFailures + 1 {
		fmt.Fprintf(said, "--- FAIL: Test%d (0.00s)\n", i)
	}
	said.WriteString("FAIL\nFAIL\tm/a\t0.1s\n--- FAIL: TestB (0.00s)\n    --- FAIL: TestB/sub (0.00s)\nFAIL\nFAIL\tm/b\t0.1s\nok  \tm/c\t0.1s\nFAIL\n")
	runs := 0
	test := func([]string, io.Writer) bool { return false }
	all, _ := watch(io.Discard, func(w io.Writer) bool { _, _ = io.WriteString(w, said.String()); return false })
	if len(all) != 2 || len(all[0].tests) != maxFailures+1 || !slices.Equal(all[1].leaves("TestB"), []string{"TestB/sub"}) || all[1].pkg != "m/b" {
		t.Errorf("%+v", all)
	}
	if run(nil, []string{"m"}, io.Discard, func(a []string, w io.Writer) bool { runs++; _, _ = io.WriteString(w, said.String()); return test(a, w) }) != 1 || runs != 1 {
		t.Errorf("ran %d times", runs)
	}
}
