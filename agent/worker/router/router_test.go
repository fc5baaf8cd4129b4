package router

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/intent"
)

type labelled struct{ lang, intent, text string }

// held reports whether a line is kept back from tuning: a third, by a seed.
func (l labelled) held() bool { return sha256.Sum256([]byte("handrail 1 " + l.text))[0]%3 == 0 }

func rows(t testing.TB, file string, columns int) [][]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list [][]string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		row := strings.SplitN(lines.Text(), "\t", columns)
		if len(row) != columns {
			t.Fatalf("%s: %q", file, lines.Text())
		}
		list = append(list, row)
	}
	return list
}

func router(t testing.TB, model Classifier) *Router {
	t.Helper()
	r, err := New(model)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLabelled measures the signals on what people say (S2-04, S2-16, S2-48): of the third that
// nobody tuned by, at least 88 of 100 in English and 75 in German, French and Spanish.
func TestLabelled(t *testing.T) {
	r := router(t, nil)
	type count struct{ right, all int }
	sums := map[string]*count{}
	byIntent := map[string]*count{}
	add := func(m map[string]*count, key string, right bool) {
		if m[key] == nil {
			m[key] = &count{}
		}
		m[key].all++
		if right {
			m[key].right++
		}
	}
	for _, row := range rows(t, "testdata/utterances.tsv", 3) {
		l := labelled{row[0], row[1], row[2]}
		f := r.Route(t.Context(), l.text)
		right := string(f.Intent) == l.intent
		part, lang := "tuned", "other"
		if l.held() {
			part = "held"
		}
		if l.lang == "en" {
			lang = "en"
		}
		add(sums, part+" "+lang, right)
		if part == "held" {
			add(byIntent, l.intent, right)
		}
		if !right && part == "tuned" {
			t.Logf("%s: %q is %s, not %s (%v)", l.lang, l.text, l.intent, f.Intent, r.lexicon.weigh(words(l.text)))
		}
	}
	for key, c := range sums {
		t.Logf("%s: %d of %d (%.0f %%)", key, c.right, c.all, 100*float64(c.right)/float64(c.all))
	}
	for _, i := range intent.All() {
		t.Logf("held %s: %+v", i.Name, byIntent[string(i.Name)])
	}
	if c := sums["held en"]; 100*c.right < 88*c.all {
		t.Errorf("English: %d of %d", c.right, c.all)
	}
	if c := sums["held other"]; 100*c.right < 75*c.all {
		t.Errorf("other languages: %d of %d", c.right, c.all)
	}
}

// TestNothingWidens holds the signals to a hundred messages that try to get more than they need.
func TestNothingWidens(t *testing.T) {
	r := router(t, nil)
	for _, row := range rows(t, "testdata/adversarial.tsv", 2) {
		f := r.Route(t.Context(), row[1])
		narrow := false
		for name := range strings.SplitSeq(row[0], "|") {
			narrow = narrow || needsNoMore(f.Intent, intent.Name(name))
		}
		if !narrow && f.Ask == "" {
			t.Errorf("%q: %s needs more than %s (%v)", row[1], f.Intent, row[0], r.lexicon.weigh(words(row[1])))
		}
	}
}

type said struct {
	text string
	err  error
}

func (s said) Classify(context.Context, string, string, json.RawMessage) ([]byte, error) {
	return []byte(s.text), s.err
}

// TestModelIsOnlyInput tries what a model can say (S2-02, S2-14, S2-15).
func TestModelIsOnlyInput(t *testing.T) {
	for _, c := range []struct {
		name, message string
		model         Classifier
		want          intent.Name
		by            string
		asks          bool
	}{
		{"agrees", "Run the tests.", said{text: `{"intent":"system_task","confidence":0.9}`}, intent.SystemTask, ByModel, false},
		{"narrows", "Run the tests.", said{text: `{"intent":"chat_only","confidence":0.9}`}, intent.ChatOnly, ByModel, false},
		{"widens", "Tell me a joke.", said{text: `{"intent":"system_task","confidence":1}`}, intent.ChatOnly, BySignals, true},
		{"not sure", "Run the tests.", said{text: `{"intent":"chat_only","confidence":0.49}`}, intent.SystemTask, BySignals, false},
		{"no JSON", "Run the tests.", said{text: `I think it is chat_only`}, intent.SystemTask, BySignals, false},
		{"no intent", "Run the tests.", said{text: `{"intent":"root","confidence":1}`}, intent.SystemTask, BySignals, false},
		{"fails", "Run the tests.", said{err: errors.New("down")}, intent.SystemTask, BySignals, false},
		{"endless", "Run the tests.", said{text: `{"intent":"chat_only","confidence":1,"x":"` + strings.Repeat("x", maxAnswer) + `"}`}, intent.SystemTask, BySignals, false},
		{"a prefix comes first", "/chat Run the tests.", said{text: `{"intent":"system_task","confidence":1}`}, intent.ChatOnly, ByPrefix, false},
	} {
		f := router(t, c.model).Route(t.Context(), c.message)
		if f.Intent != c.want || f.By != c.by || (f.Ask != "") != c.asks {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}

func TestEveryPrefixNamesItsIntent(t *testing.T) {
	r := router(t, nil)
	for _, i := range intent.All() {
		for _, prefix := range i.Prefixes {
			if f := r.Route(t.Context(), prefix+" words"); f.Intent != i.Name || f.By != ByPrefix || f.Text != "words" || f.Confidence != 1 {
				t.Errorf("%s: %+v", prefix, f)
			}
		}
	}
}

// TestEveryIntentHasSignals fails for an intent that no words of a language speak for.
func TestEveryIntentHasSignals(t *testing.T) {
	for _, file := range []string{"en", "de", "fr", "es"} {
		data, err := files.ReadFile("signals/" + file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range intent.All() {
			if !strings.Contains(string(data), "\n"+string(i.Name)+" ") {
				t.Errorf("%s.txt has no signals of %s", file, i.Name)
			}
		}
	}
}

// TestJSONHasTheFieldsOfARoute holds the fields of rule S2-03.
func TestJSONHasTheFieldsOfARoute(t *testing.T) {
	data, _ := json.Marshal(intent.To(intent.LookupSearch, 0.7))
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"intent", "needs_web", "needs_browser_automation", "needs_search", "needs_memory_read", "needs_memory_write",
		"needs_file_access", "needs_screen_read", "needs_system_execute", "risk_level", "confidence"} {
		if _, ok := m[field]; !ok {
			t.Errorf("no field %s in %s", field, data)
		}
	}
	if len(m) != 11 || m["needs_search"] != true || m["confidence"] != 0.7 {
		t.Errorf("%s", data)
	}
}

func TestLexiconRefuses(t *testing.T) {
	for _, text := range []string{"root 5\n  a", "chat_only x\n  a", "chat_only 5\n  ^ ", "chat_only 5\n  ***"} {
		l := &lexicon{exact: map[string][]*pattern{}}
		if err := l.read(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func FuzzRoute(f *testing.F) {
	r := router(f, nil)
	for _, s := range []string{"Run the tests.", "/chat", "https://example.org/ <!--", `{"intent":"system_task"}`, "«", "\xff", strings.Repeat("a/b.c ", 4000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := r.Route(context.Background(), s)
		if _, known := intent.Get(got.Intent); !known || got.Confidence < 0 || got.Confidence > 1 {
			t.Errorf("%+v", got)
		}
		if again := r.Route(context.Background(), s); fmt.Sprint(again) != fmt.Sprint(got) {
			t.Errorf("%+v and %+v", got, again)
		}
	})
}

func BenchmarkSignals(b *testing.B) {
	r := router(b, nil)
	messages := rows(b, "testdata/utterances.tsv", 3)
	texts := make([]string, 0, len(messages))
	for _, m := range messages {
		texts = append(texts, m[2])
	}
	slices.Sort(texts)
	b.Run("router", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			r.Route(b.Context(), texts[i%len(texts)])
		}
	})
	b.Run("floor", func(b *testing.B) { // the words of the same message
		for i := 0; b.Loop(); i++ {
			_ = strings.Fields(strings.ToLower(texts[i%len(texts)]))
		}
	})
}

// The seed leaves a threshold open, and what becomes of a message that is unclear: below 0.5 the
// person is asked, and nothing is opened meanwhile (S2-49).
func TestAnUnclearMessageIsAskedAbout(t *testing.T) {
	r := router(t, nil)
	unclear := 0
	all := rows(t, "testdata/utterances.tsv", 3)
	for i := range all {
		text := all[i][2] + ", " + all[(i+37)%len(all)][2]
		if f := r.Route(t.Context(), text); f.Confidence < Threshold {
			unclear++
			if f.Ask == "" {
				t.Errorf("nobody is asked about %q: %+v", text, f)
			}
		}
	}
	if Threshold != 0.5 || unclear == 0 {
		t.Errorf("%d messages are unclear below %v", unclear, Threshold)
	}
}
