package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
)

// recorder keeps what it is given, and can refuse from the n-th packet on.
type recorder struct {
	list   []Record
	failAt int // 0: never
}

func (r *recorder) RecordSelection(_ context.Context, rec Record) error {
	if r.failAt > 0 && len(r.list)+1 >= r.failAt {
		return errors.New("no space left on device")
	}
	r.list = append(r.list, rec)
	return nil
}

var who = Context{Lane: "lane-1", Principal: "agent-1", Role: "agent"}

func TestSelect(t *testing.T) {
	r := New(embedded(t), quiet())
	for _, c := range []struct {
		text, args string
		want       capabilities.ToolID
	}{
		{"open the web page of the news", `{"url":"https://example.com/"}`, "tool.browser.navigate"},
		{"click the Save button in the browser", `{"ref":"e1"}`, "tool.browser.click"},
		{"take a screenshot of the page", ``, "tool.browser.screenshot"},
		{"screenshot of my desktop", `{"display":"primary"}`, "tool.desktop.screenshot"},
		{"go back", ``, "tool.browser.navigate-back"},
		{"where is the device, its gps position?", ``, "tool.location.get"},
		{"record the voice with the microphone", `{"duration_ms":3000}`, "tool.audio.record"},
		{"take a photo", ``, "tool.camera.capture-photo"},
		{"which nodes are available", ``, "tool.node.list"},
		{"read the console errors", ``, "tool.browser.console-messages"},
		{"copy the password secret", `{"secret_alias":"a"}`, "tool.secret.copy-to-node-clipboard"},
		// "browser" alone fits many; the arguments say which.
		{"browser", `{"expression":"1"}`, "tool.browser.evaluate"},
	} {
		rec := &recorder{}
		sel, err := r.Select(t.Context(), rec, Intent{Text: c.text, Args: json.RawMessage(c.args)}, who, nil)
		if err != nil || sel.SelectedTool != c.want {
			t.Errorf("%s: %s %v %v", c.text, sel.SelectedTool, sel.CandidateTools, err)
			continue
		}
		d, _ := r.Get(sel.SelectedTool)
		if sel.IntentSummary == "" || sel.WhySelected == "" || sel.RollbackPlan == "" || sel.ExpectedSideEffects != d.SideEffects ||
			sel.Confidence < 0.5 || sel.Confidence > 1 || !json.Valid(sel.Args) {
			t.Errorf("%s: %+v", c.text, sel)
		}
		if len(rec.list) != 2 || rec.list[0].Kind != KindSelectRequest || rec.list[1].Kind != KindSelectResult ||
			rec.list[1].Tool != c.want || rec.list[0].Lane != "lane-1" || rec.list[1].Principal != "agent-1" {
			t.Errorf("%s: recorded %+v", c.text, rec.list)
		}
	}
}

func TestSelectRefuses(t *testing.T) {
	r := New(embedded(t), quiet())
	for name, c := range map[string]struct {
		intent     Intent
		candidates []capabilities.ToolID
		code       capabilities.Code
		records    int
	}{
		"no text":                      {Intent{}, nil, capabilities.CodeInvalidRequest, 0},
		"too much text":                {Intent{Text: strings.Repeat("x", 5000)}, nil, capabilities.CodeInvalidRequest, 0},
		"an unregistered candidate":    {Intent{Text: "click"}, []capabilities.ToolID{"tool.browser.click", "tool.node.dispatch"}, capabilities.CodeUnknownTool, 0},
		"one that is not for models":   {Intent{Text: "write the clipboard"}, []capabilities.ToolID{"tool.desktop.clipboard-write"}, capabilities.CodeUnknownTool, 0},
		"no word fits":                 {Intent{Text: "quantum chromodynamics"}, nil, capabilities.CodeNotFound, 2},
		"no candidate at all":          {Intent{Text: "click"}, []capabilities.ToolID{}, capabilities.CodeNotFound, 2},
		"no tool with the tags":        {Intent{Text: "click", Tags: []string{"sensor"}}, nil, capabilities.CodeNotFound, 2},
		"arguments are missing":        {Intent{Text: "click", Args: json.RawMessage(`{}`)}, nil, capabilities.CodeInvalidArguments, 2},
		"arguments fit no candidate":   {Intent{Text: "click", Args: json.RawMessage(`{"nonsense":1}`)}, nil, capabilities.CodeInvalidArguments, 2},
		"arguments are no strict JSON": {Intent{Text: "click", Args: json.RawMessage(`{"ref":1,"ref":2}`)}, nil, capabilities.CodeInvalidRequest, 2},
	} {
		rec := &recorder{}
		sel, err := r.Select(t.Context(), rec, c.intent, who, c.candidates)
		if capabilities.CodeOf(err) != c.code || sel.SelectedTool != "" || len(rec.list) != c.records {
			t.Errorf("%s: %+v, %v, %d records", name, sel, err, len(rec.list))
		}
		for _, r := range rec.list[min(1, len(rec.list)):] {
			if body, _ := json.Marshal(r.Body); !strings.Contains(string(body), `"error":"`+string(c.code)+`"`) {
				t.Errorf("%s: the result packet is %s", name, body)
			}
		}
	}
}

// Why a tool was selected names words as they were written, each once: no stem and no pair of
// neighbours written as one.
func TestWhyNamesWordsAsWritten(t *testing.T) {
	r := New(embedded(t), quiet())
	for text, want := range map[string]string{
		"navigating to a page":                "navigating, page",
		"Read a file, reading the whole file": "read, file",
		"take screenshots of the page":        "screenshots, page",
	} {
		sel, err := r.Select(t.Context(), discard{}, Intent{Text: text}, who, nil)
		if err != nil || sel.WhySelected != "Its name, tags or description hold: "+want+"." {
			t.Errorf("%s: %s because %q %v", text, sel.SelectedTool, sel.WhySelected, err)
		}
	}
}

// Nothing is selected that was not recorded (S4-39).
func TestSelectNeedsTheLedger(t *testing.T) {
	r := New(embedded(t), quiet())
	for _, failAt := range []int{1, 2} {
		sel, err := r.Select(t.Context(), &recorder{failAt: failAt}, Intent{Text: "go back"}, who, nil)
		if capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable || sel.SelectedTool != "" {
			t.Errorf("failing at %d: %+v, %v", failAt, sel, err)
		}
	}
}

// S4-34: a selection has every field, each with what it is said to hold. The summary has the words
// that were said, not what the index makes of them, and no word that is no tool's.
func TestASelectionHasEveryField(t *testing.T) {
	r := New(embedded(t), quiet())
	args := json.RawMessage(`{"ref":"e1"}`)
	sel, err := r.Select(t.Context(), &recorder{}, Intent{Text: "Please be clicking the buttons named swordfish in a browser", Args: args}, who, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := r.Get("tool.browser.click")
	if sel.IntentSummary != "clicking buttons named browser" {
		t.Errorf("the summary is %q", sel.IntentSummary)
	}
	if sel.SelectedTool != d.Tool || sel.CandidateTools[0] != d.Tool || len(sel.CandidateTools) < 2 || string(sel.Args) != string(args) {
		t.Errorf("%+v", sel)
	}
	if !strings.Contains(sel.WhySelected, "clicking") || sel.ExpectedSideEffects != d.SideEffects || sel.RollbackPlan != rollback(d) ||
		sel.Confidence < 0.5 || sel.Confidence >= 1 {
		t.Errorf("%+v", sel)
	}
}

// S0-31, S0-34: neither the words of the intent that no tool knows nor arguments
// beyond the allowlist reach a packet.
func TestPacketsHoldNoSecrets(t *testing.T) {
	r := New(embedded(t), quiet())
	rec := &recorder{}
	sel, err := r.Select(t.Context(), rec, Intent{
		Text: "type the password hunter2 into the browser field", Tags: []string{"browser"},
		Args: json.RawMessage(`{"ref":"e1","text":"hunter2"}`),
	}, who, nil)
	if err != nil || sel.SelectedTool != "tool.browser.type" || !strings.Contains(string(sel.Args), "hunter2") {
		t.Fatalf("%+v %v", sel, err)
	}
	for _, record := range rec.list {
		body, err := json.Marshal(record.Body)
		if err != nil || strings.Contains(string(body), "hunter2") {
			t.Errorf("%s: %s %v", record.Kind, body, err)
		}
	}
	body, _ := json.Marshal(rec.list[1].Body)
	for _, field := range []string{
		"intent_summary", "candidate_tools", "selected_tool", "args", "why_selected", "expected_side_effects", "rollback_plan", "confidence",
	} {
		if !strings.Contains(string(body), `"`+field+`":`) {
			t.Errorf("the packet lacks %s: %s", field, body)
		}
	}
	if !strings.Contains(string(body), `"args":{"ref":"e1"}`) {
		t.Errorf("%s", body)
	}
}

// S4-02, S4-35 … S4-37, S4-40, S4-48 for any words: the same answer every time, in any
// order of candidates, and always a registered candidate that its arguments fit.
func TestSelectProperties(t *testing.T) {
	r := New(embedded(t), quiet())
	var vocabulary []string
	ids := make([]capabilities.ToolID, 0, r.Len())
	for _, d := range r.List(nil, "") {
		if d.ModelFacing {
			ids = append(ids, d.Tool)
			vocabulary = append(vocabulary, words(d.Description+" "+d.Title)...)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		intent := Intent{
			Text: strings.Join(rapid.SliceOfN(rapid.SampledFrom(vocabulary), 1, 6).Draw(t, "words"), " "),
			Args: json.RawMessage(rapid.SampledFrom([]string{``, `{}`, `{"ref":"e1"}`, `{"url":"https://a.b/"}`, `{"selector":"a"}`, `{"node_id":"n1"}`}).Draw(t, "args")),
		}
		candidates := rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 1, 12, rapid.ID[capabilities.ToolID]).Draw(t, "candidates")
		first, err1 := r.Select(t.Context(), &recorder{}, intent, who, candidates)
		shuffled := rapid.Permutation(candidates).Draw(t, "order")
		second, err2 := r.Select(t.Context(), &recorder{}, intent, who, shuffled)
		if fmt.Sprint(first, err1) != fmt.Sprint(second, err2) {
			t.Fatalf("%+v %v\n%+v %v", first, err1, second, err2)
		}
		if err1 != nil {
			return
		}
		d, ok := r.Get(first.SelectedTool)
		if !ok || !slices.Contains(candidates, first.SelectedTool) || !slices.Contains(first.CandidateTools, first.SelectedTool) {
			t.Fatalf("%+v of %v", first, candidates)
		}
		if len(intent.Args) == 0 {
			if string(first.Args) != "null" {
				t.Fatalf("arguments that nobody gave: %s", first.Args)
			}
		} else if _, bad, err := d.SplitArgs(first.Args); bad != nil || err != nil {
			t.Fatalf("%s: %v %v", first.SelectedTool, bad, err)
		}
	})
}

func TestTerms(t *testing.T) {
	for in, want := range map[string]string{
		"Click the 2 BUTTONS, please!": "click 2 button",
		"tool.desktop.wait-for":        "tool desktop wait",
		"press  press\x1b[2J":          "press 2j",
		"":                             "",
		"Größe ändern":                 "größ ändern",
		"getPet createPets":            "get pet cre",
	} {
		if got := strings.Join(terms(in, false), " "); got != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
	if got := terms("local storage", true); !slices.Contains(got, stem("localstorage")) {
		t.Errorf("neighbours are not joined: %q", got)
	}
	if got := words(strings.Repeat("ab ", 9) + strings.Join(manyWords(1000), " ")); len(got) != maxWords {
		t.Errorf("%d words", len(got))
	}
}

// Inflected forms are one word; words that only look alike are not.
func TestStem(t *testing.T) {
	for _, group := range []string{
		"create creates created creating creation", "delete deletes deleted deleting", "merge merging merged", "directory directories",
		"process processes processing", "run running runs", "navigate navigation navigating", "follow followers following", "branch branches",
	} {
		list := strings.Fields(group)
		for _, w := range list {
			if stem(w) != stem(list[0]) {
				t.Errorf("%s is %q, %s is %q", w, stem(w), list[0], stem(list[0]))
			}
		}
	}
	for _, pair := range [][2]string{{"string", "strip"}, {"status", "state"}, {"press", "pres"}, {"list", "listen"}} {
		if stem(pair[0]) == stem(pair[1]) {
			t.Errorf("%s and %s are both %q", pair[0], pair[1], stem(pair[0]))
		}
	}
}

func manyWords(n int) []string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("w%dx", i)
	}
	return words
}

func BenchmarkSelect(b *testing.B) {
	r := New(embedded(b), quiet())
	rec := discard{}
	for b.Loop() {
		if _, err := r.Select(b.Context(), rec, Intent{Text: "click the save button in the browser", Args: json.RawMessage(`{"ref":"e1"}`)}, who, nil); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) RecordSelection(context.Context, Record) error { return nil }

var _ Recorder = discard{}
