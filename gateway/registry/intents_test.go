package registry

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// recallBar is the share of intents for which a tool that would do is among the five best.
const recallBar = 0.95

// fixture reads the tools of testdata as a provider's tools become descriptors, and returns their
// IDs by PROVIDER.NAME.
func fixture(t testing.TB) (all []*catalog.Descriptor, ids map[string]capabilities.ToolID) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "selector", "tools.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	manifests := map[string]*tools.ToolManifest{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct {
			Provider, Name, Title, Description string
			Args                               []string
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		properties := map[string]any{}
		for _, name := range line.Args {
			properties[name] = map[string]any{"type": "string"}
		}
		input, err := json.Marshal(map[string]any{"type": "object", "properties": properties})
		if err != nil {
			t.Fatal(err)
		}
		m := manifests[line.Provider]
		if m == nil {
			m = &tools.ToolManifest{Provider: line.Provider}
			manifests[line.Provider] = m
		}
		m.Tools = append(m.Tools, tools.RemoteTool{Name: line.Name, Title: line.Title, Description: line.Description, Input: input})
	}
	ids = map[string]capabilities.ToolID{}
	for name, m := range manifests {
		list, refused := tools.Describe(&tools.Provider{Name: name, Kind: tools.KindMCP}, m)
		if len(refused) > 0 {
			t.Fatalf("%s: %+v", name, refused)
		}
		for _, d := range list {
			all = append(all, d.Descriptor)
			ids[name+"."+d.Upstream] = d.Tool
		}
	}
	return all, ids
}

// big is a registry of our own tools and those of the fixture, n times under other names.
func big(t testing.TB) (*Registry, map[string]capabilities.ToolID) {
	t.Helper()
	r := New(embedded(t), quiet())
	all, ids := fixture(t)
	list := make([]Tool, 0, len(all))
	for _, d := range all {
		list = append(list, Tool{Descriptor: d})
	}
	if err := r.Register(list...); err != nil {
		t.Fatal(err)
	}
	return r, ids
}

type wanted struct {
	text  string
	tools []capabilities.ToolID
}

// intents reads the intents: those to tune on, and every third, which is held out.
func intents(t testing.TB, ids map[string]capabilities.ToolID) (tuned, held []wanted) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "selector", "intents.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		intent, names, _ := strings.Cut(strings.TrimSpace(line), "\t")
		w := wanted{text: intent}
		for _, name := range strings.Fields(names) {
			id := ids[name]
			if strings.HasPrefix(name, "tool.") {
				id = capabilities.ToolID(name)
			}
			if id == "" {
				t.Fatalf("%q names no tool: %s", intent, name)
			}
			w.tools = append(w.tools, id)
		}
		if n++; n%3 == 0 {
			held = append(held, w)
		} else {
			tuned = append(tuned, w)
		}
	}
	return tuned, held
}

// five returns the five best tools for an intent.
func five(x *index, text string) []capabilities.ToolID {
	var list []capabilities.ToolID
	for _, m := range x.rank(x.concepts(text), only(nil)) {
		if list = append(list, m.d.Tool); len(list) == 5 {
			break
		}
	}
	return list
}

// S4-18, S4-38: among 500 tools of real servers, one that would do is among the five best for 95 of
// 100 intents, whether they were looked at when the selector was tuned or not.
func TestRecall(t *testing.T) {
	r, ids := big(t)
	facing := 0
	for _, d := range r.All() {
		if d.ModelFacing {
			facing++
		}
	}
	if facing < 500 {
		t.Fatalf("%d tools", facing)
	}
	tuned, held := intents(t, ids)
	if len(tuned)+len(held) < 200 {
		t.Fatalf("%d intents", len(tuned)+len(held))
	}
	x := r.Now().index()
	for name, list := range map[string][]wanted{"tuned": tuned, "held out": held} {
		found, first := 0, 0
		for _, w := range list {
			got := five(x, w.text)
			at := slices.IndexFunc(got, func(id capabilities.ToolID) bool { return slices.Contains(w.tools, id) })
			if at >= 0 {
				found++
			} else if name == "tuned" { // nobody looks at the others
				t.Logf("%q: want %v, got %v", w.text, w.tools, got)
			}
			if at == 0 {
				first++
			}
		}
		t.Logf("%s: %d of %d among the five best, %d the best", name, found, len(list), first)
		if float64(found) < recallBar*float64(len(list)) {
			t.Errorf("%s: %d of %d are found", name, found, len(list))
		}
	}
}

// Words of other languages find what has them in its name or tags.
func TestOtherLanguages(t *testing.T) {
	r, _ := big(t)
	x := r.Now().index()
	for text, want := range map[string]capabilities.ToolID{
		"mach einen Screenshot vom Desktop":      "tool.desktop.screenshot",
		"GPS-Position des Geräts":                "tool.location.get",
		"enregistre le son avec le microphone":   "tool.audio.record",
		"clic en el botón del browser con click": "tool.browser.click",
		"abre una tab en el browser":             "tool.browser.tabs",
	} {
		if got := five(x, text); !slices.Contains(got, want) {
			t.Errorf("%q finds %v", text, got)
		}
	}
}

// BenchmarkRank is the selector over 1,000 tools without the ledger; BenchmarkRankFloor is one pass
// over as many names, which is the least that any search has to do.
func BenchmarkRank(b *testing.B) {
	x := thousand(b)
	b.ReportAllocs()
	for b.Loop() {
		if len(five(x, "search for code in the repositories of an organization")) != 5 {
			b.Fatal("nothing found")
		}
	}
}

func BenchmarkRankFloor(b *testing.B) {
	x := thousand(b)
	for b.Loop() {
		n := 0
		for _, d := range x.tools {
			if strings.Contains(string(d.Tool), "search") {
				n++
			}
		}
		if n == 0 {
			b.Fatal("nothing found")
		}
	}
}

func BenchmarkIndex(b *testing.B) {
	x := thousand(b)
	for b.Loop() {
		newIndex(x.tools)
	}
}

// thousand is an index of 1,000 tools: those of 500 twice, the second time under other names.
func thousand(b *testing.B) *index {
	b.Helper()
	r, _ := big(b)
	all := r.All()
	for _, d := range r.All() {
		all = append(all, &catalog.Descriptor{
			Tool: d.Tool + "-2", Title: d.Title, Description: d.Description, Tags: d.Tags, Input: d.Input,
			SideEffects: d.SideEffects, ModelFacing: d.ModelFacing,
		})
	}
	return newIndex(all[:1000])
}
