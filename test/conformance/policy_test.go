package conformance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// judge is the process that decides with Cedar's own implementation.
type judge struct {
	in  io.Writer
	out *bufio.Reader
}

// verdict is its answer about one policy file.
type verdict struct {
	Errors    []string `json:"errors"` // why the file must not load
	Decisions []ruling `json:"decisions"`
}

// ruling is a decision, with everything that both sides have to agree on.
type ruling struct {
	Effect    string   `json:"effect"`
	By        []string `json:"by"` // the rules that made it so
	Withheld  []string `json:"withheld"`
	Escalated []string `json:"escalated"`
	Watched   []string `json:"watched"` // what log-only rules would have done
}

func (r ruling) String() string {
	for _, list := range []*[]string{&r.By, &r.Withheld, &r.Escalated, &r.Watched} {
		*list = slices.Clone(*list)
		slices.Sort(*list)
		*list = slices.Compact(*list)
		if len(*list) == 0 {
			*list = nil // none and null are the same here
		}
	}
	text, _ := json.Marshal(r)
	return string(text)
}

func ours(d policy.Decision) ruling {
	return ruling{Effect: d.Effect.String(), By: d.Determining, Withheld: d.Withheld, Escalated: d.Escalated, Watched: d.LogOnly}
}

func startJudge(t *testing.T, dir string, cat *catalog.Catalog) *judge {
	t.Helper()
	script, err := filepath.Abs("testdata/cedar.mjs")
	if err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(dir, "node_modules")
	cmd := exec.Command(filepath.Join(modules, ".bin", "node"), script, modules)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // ends it
		if t.Failed() {
			_ = cmd.Process.Kill()
		}
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	j := &judge{in: in, out: bufio.NewReaderSize(out, 1<<20)}
	empty, err := policy.Load(nil, cat)
	if err != nil {
		t.Fatal(err)
	}
	tools := map[string]any{}
	for _, d := range cat.All() {
		p := policy.NewProfile(d)
		tools[string(d.Tool)] = map[string]any{
			"effects": d.SideEffects, "node": d.NodeCapability() != "", "keys": append([]string{}, d.Manifest.Keys()...), "optional": append([]string{}, d.Optional...),
			"evidence": append([]string{}, d.Evidence.Args...), "input": d.Input, "risk": p.Risk, "isolation": p.Isolation, "approval": d.Defaults.RequiresApproval, "session": d.InSession(),
		}
	}
	j.ask(t, map[string]any{"schema": empty.Schema(), "tools": tools}, nil)
	return j
}

// ask sends one line and reads its answer.
func (j *judge) ask(t *testing.T, q, answer any) {
	t.Helper()
	line, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.in.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	back, err := j.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("%v, after\n%s", err, line)
	}
	if answer == nil {
		return
	}
	if err := json.Unmarshal(back, answer); err != nil {
		t.Fatalf("%v\n%.2000s", err, back)
	}
}

// fromEnv reads a number that a person may set to look further than every run does.
func fromEnv(t *testing.T, name string, preset int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return preset
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Our decisions, with the rules that made them, the keys that were withheld and what
// log-only rules say, are those of Cedar's own implementation; and what its type
// checker refuses does not load here. HANDRAIL_POLICY_SEED and HANDRAIL_POLICY_FILES
// look elsewhere and longer.
func TestDecisionsOfAnotherImplementation(t *testing.T) {
	dir := packages(t)
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	seed, files := fromEnv(t, "HANDRAIL_POLICY_SEED", 20261121), fromEnv(t, "HANDRAIL_POLICY_FILES", 120)
	const each = 10
	d := newDrawer(cat, uint64(seed))
	j := startJudge(t, dir, cat)
	counts := map[string]int{}
	// A generator whose calls are all denied compares nothing. Rare decisions are drawn for longer:
	// the tools that a call is drawn from grow in number.
	least := map[string]int{
		"allow": files, "ask": files, "deny": files, "withheld": files / 40, "escalated": files / 40, "log-only": files / 8, "rules that failed": files / 8,
		"files that do not load": files / 10,
	}
	short := func() (missing []string) {
		for what, n := range least {
			if counts[what] < n {
				missing = append(missing, fmt.Sprintf("%s: %d, less than %d", what, counts[what], n))
			}
		}
		return missing
	}
	drawn := 0
	for n := 0; n < files || n < 5*files && short() != nil; n++ {
		drawn++
		text, check := d.file(d.IntN(6)), n%12 == 0
		if n%10 == 9 {
			text, check = d.rule(0)+d.mistaken(0), true
		}
		var requests []policy.Request
		calls := []any{}
		for range each {
			q, call := d.call()
			requests, calls = append(requests, q), append(calls, call)
		}
		engine, err := policy.Load([]policy.Source{{Name: "a.cedar", Data: []byte(text)}}, cat)
		var v verdict
		j.ask(t, map[string]any{"file": text, "calls": calls, "check": check || err != nil}, &v)
		if (err != nil) != (len(v.Errors) > 0) {
			t.Fatalf("file %d: here %v, there %v\n%s", n, err, v.Errors, text)
		}
		if err != nil {
			counts["files that do not load"]++
			continue
		}
		for i, q := range requests {
			decision := engine.Decide(q)
			mine, other := ours(decision), v.Decisions[i]
			if mine.String() != other.String() {
				call, _ := json.Marshal(calls[i])
				t.Fatalf("file %d:\nhere  %s\nthere %s\n%s\n%s", n, mine, other, call, text)
			}
			counts[mine.Effect]++
			counts["rules that failed"] += len(decision.Errors)
			for what, some := range map[string][]string{"withheld": mine.Withheld, "escalated": mine.Escalated, "log-only": mine.Watched} {
				if len(some) > 0 {
					counts[what]++
				}
			}
		}
	}
	for _, said := range short() {
		t.Errorf("%s; the generator says little", said)
	}
	t.Logf("seed %d, %d files: %v", seed, drawn, counts)
}
