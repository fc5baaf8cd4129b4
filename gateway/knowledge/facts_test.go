package knowledge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/fact"
	"github.com/handrail-dev/handrail/gateway/knowledge"
	"github.com/handrail-dev/handrail/gateway/store"
)

func open(t *testing.T, now func() time.Time, record func(kind string, body any)) *knowledge.Facts {
	t.Helper()
	db, err := store.Open(context.Background(), store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Migrations: knowledge.Migrations(), ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	k, err := knowledge.New(knowledge.Options{Store: db, Now: now, Record: func(_ *store.Tx, kind string, _ capabilities.PrincipalID, body any) error {
		record(kind, body)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func about(attribute, text string) knowledge.Fact {
	return knowledge.Fact{Principal: "alice", Subject: "project", Attribute: attribute, Text: text, Source: "call_1", Confidence: 0.75, Sensitivity: fact.Low}
}

// S4-32: facts are put, read by their owner alone, replaced, expire and are forgotten; the ledger
// has which and not what.
func TestFacts(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var recorded []string
	k := open(t, func() time.Time { return at }, func(kind string, body any) {
		text, err := json.Marshal(body)
		if err != nil {
			t.Error(err)
		}
		recorded = append(recorded, kind+" "+string(text))
	})
	ctx := t.Context()
	kept := map[string]string{}
	put := func(f knowledge.Fact) {
		t.Helper()
		f, err := k.Put(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		kept[f.Attribute] = f.ID
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	gone := func(attribute string) {
		t.Helper()
		if f, err := k.Get(ctx, "alice", kept[attribute]); capabilities.CodeOf(err) != capabilities.CodeNotFound {
			t.Errorf("%s: %+v, %v", attribute, f, err)
		}
	}
	put(about("language", "Rust"))
	first := kept["language"]
	put(about("language", "Go"))
	if kept["language"] != first {
		t.Error("a fact that is replaced has another ID")
	}
	short := about("deadline", "Friday")
	short.Expires = at.Add(time.Hour)
	put(short)
	f, err := k.Get(ctx, "alice", first)
	if err != nil || f.Text != "Go" || f.Confidence != 0.75 || f.Source != "call_1" || f.Sensitivity != fact.Low || !f.Created.Equal(at) || !f.Expires.IsZero() {
		t.Errorf("%+v, %v", f, err)
	}
	if list, err := k.List(ctx, "alice", 10); err != nil || len(list) != 2 || list[0].Attribute != "deadline" || !list[0].Expires.Equal(short.Expires) {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := k.List(ctx, "bob", 10); err != nil || len(list) != 0 {
		t.Errorf("another's: %+v, %v", list, err)
	}
	at = at.Add(time.Hour)
	gone("deadline")
	must(k.Forget(ctx, "alice", first))
	gone("language")
	if err := k.Forget(ctx, "alice", first); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("forgotten twice: %v", err)
	}
	if len(recorded) != 4 || !strings.HasPrefix(recorded[0], "knowledge.fact.stored") || !strings.HasPrefix(recorded[3], "knowledge.fact.forgotten") || strings.Contains(strings.Join(recorded, ""), "Rust") {
		t.Errorf("recorded %q", recorded)
	}
}

func TestFactsOutOfBounds(t *testing.T) {
	k := open(t, time.Now, func(string, any) {})
	for name, change := range map[string]func(*knowledge.Fact){
		"nobody's":           func(f *knowledge.Fact) { f.Principal = "" },
		"about nothing":      func(f *knowledge.Fact) { f.Subject = "" },
		"no text":            func(f *knowledge.Fact) { f.Text = "" },
		"too much":           func(f *knowledge.Fact) { f.Text = strings.Repeat("x", knowledge.MaxText+1) },
		"no UTF-8":           func(f *knowledge.Fact) { f.Text = "\xff" },
		"from nowhere":       func(f *knowledge.Fact) { f.Source = "" },
		"surer than sure":    func(f *knowledge.Fact) { f.Confidence = 1.1 },
		"sure by no number":  func(f *knowledge.Fact) { f.Confidence = math.NaN() },
		"of no sensitivity":  func(f *knowledge.Fact) { f.Sensitivity = "" },
		"expired when it is": func(f *knowledge.Fact) { f.Expires = time.Now().Add(-time.Second) },
	} {
		f := about("language", "Go")
		change(&f)
		if _, err := k.Put(t.Context(), f); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPrivateFactsAreAgreedTo: the words decide how private a fact is, and a credential is kept by
// nobody's agreement (S2-40).
func TestPrivateFactsAreAgreedTo(t *testing.T) {
	k := open(t, time.Now, func(string, any) {})
	for text, want := range map[string][2]capabilities.Code{
		"I prefer tabs":          {"", ""},
		"I am allergic to nuts":  {capabilities.CodeAcknowledgementRequired, ""},
		"my password is hunter2": {capabilities.CodeForbidden, capabilities.CodeForbidden},
	} {
		for i, agreed := range []bool{false, true} {
			f := about("habit", text)
			f.Agreed = agreed
			kept, err := k.Put(t.Context(), f)
			if err == nil && want[i] != "" || err != nil && capabilities.CodeOf(err) != want[i] {
				t.Errorf("%q, agreed %t: %v, want %q", text, agreed, err, want[i])
			}
			if err == nil && agreed && text != "I prefer tabs" && kept.Sensitivity != fact.High {
				t.Errorf("%q is %s", text, kept.Sensitivity)
			}
		}
	}
	kept, err := k.Put(t.Context(), about("habit", "I prefer tabs"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Edit(t.Context(), "alice", "alice", kept.ID, knowledge.Edit{Text: "I moved to Leipzig"}); capabilities.CodeOf(err) != capabilities.CodeAcknowledgementRequired {
		t.Errorf("edited without agreement: %v", err)
	}
	if f, err := k.Edit(t.Context(), "alice", "ada", kept.ID, knowledge.Edit{Text: "I prefer spaces"}); err != nil || f.ID != kept.ID || f.Text != "I prefer spaces" {
		t.Errorf("%+v, %v", f, err)
	}
	// The turn that a fact is from does not have its new words, and its source says whose they are.
	for _, by := range []capabilities.PrincipalID{"ada", "bob"} {
		f, err := k.Edit(t.Context(), "alice", by, kept.ID, knowledge.Edit{Text: "I prefer both"})
		if want := string(by) + ", who gave it other words; before: " + kept.Source; err != nil || f.Source != want {
			t.Errorf("said by %q, want %q, %v", f.Source, want, err)
		}
	}
	long := about("long", "I like long sources")
	long.Source = strings.Repeat("s", 256)
	if long, err = k.Put(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	if f, err := k.Edit(t.Context(), "alice", "ada", long.ID, knowledge.Edit{Text: "I like short ones"}); err != nil || !strings.HasPrefix(f.Source, "ada, ") || len(f.Source) != 256 {
		t.Errorf("a source at its bound: %+v, %v", f, err)
	}
	if _, err := k.Edit(t.Context(), "bob", "bob", kept.ID, knowledge.Edit{Text: "I prefer spaces"}); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("edited by another: %v", err)
	}
}

// TestAnEndIsChanged: a fact's end is set, kept with other words, and taken off, and its words need
// no second agreement; it is gone after its end.
func TestAnEndIsChanged(t *testing.T) {
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	var recorded []string
	k := open(t, func() time.Time { return now }, func(_ string, body any) { recorded = append(recorded, fmt.Sprintf("%+v", body)) })
	private := about("habit", "I am allergic to nuts")
	private.Agreed = true
	kept, err := k.Put(t.Context(), private)
	if err != nil {
		t.Fatal(err)
	}
	end, edit := now.Add(time.Hour), func(e knowledge.Edit) (knowledge.Fact, error) {
		return k.Edit(t.Context(), "alice", "alice", kept.ID, e)
	}
	for _, e := range []knowledge.Edit{{Expires: end}, {Expires: end, Text: kept.Text}} {
		if f, err := edit(e); err != nil || !f.Expires.Equal(end) || f.Text != kept.Text || f.Source != kept.Source || !f.Created.Equal(kept.Created) {
			t.Errorf("%+v, %v", f, err)
		}
	}
	if !strings.Contains(recorded[len(recorded)-1], "2026-11-30 10:00") {
		t.Errorf("recorded %s", recorded[len(recorded)-1])
	}
	if f, err := edit(knowledge.Edit{Text: "I am allergic to fish", Agreed: true}); err != nil || !f.Expires.Equal(end) {
		t.Errorf("with other words: %+v, %v", f, err)
	}
	for _, e := range []knowledge.Edit{{}, {Agreed: true}, {Lasting: true, Expires: end}, {Expires: now}} {
		if _, err := edit(e); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if f, err := edit(knowledge.Edit{Lasting: true}); err != nil || !f.Expires.IsZero() {
		t.Errorf("it has an end: %+v, %v", f, err)
	}
	if _, err := edit(knowledge.Edit{Expires: end}); err != nil {
		t.Error(err)
	}
	now = end
	if _, err := k.Get(t.Context(), "alice", kept.ID); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("after its end: %v", err)
	}
}

// TestSearch finds facts by words, whatever their accents, endings and order, and only one's own.
func TestSearch(t *testing.T) {
	k := open(t, time.Now, func(string, any) {})
	for i, text := range []string{"The project is called Heron", "I prefer short answers", "Die Bücher stehen im Regal", "deploys are frozen in December"} {
		if _, err := k.Put(t.Context(), about(fmt.Sprint(i), text)); err != nil {
			t.Fatal(err)
		}
	}
	for q, want := range map[string]string{
		"What is my project called?":      "The project is called Heron",
		"Which answer do I prefer?":       "I prefer short answers",
		"wo ist das bucher":               "Die Bücher stehen im Regal",
		"deployment":                      "deploys are frozen in December",
		`" OR text : * NEAR( -- "'`:       "",
		"":                                "",
		"the who what":                    "",
		strings.Repeat("word ", 10_000):   "",
		"knowledge_words MATCH \x00 {{}}": "",
	} {
		list, err := k.Search(t.Context(), "alice", q, 3)
		if err != nil || want == "" && len(list) > 0 || want != "" && (len(list) == 0 || list[0].Text != want) {
			t.Errorf("%.40q: %+v, %v", q, list, err)
		}
		if list, err := k.Search(t.Context(), "bob", q, 3); err != nil || len(list) > 0 {
			t.Errorf("%.40q by another: %+v, %v", q, list, err)
		}
	}
}

// TestForgottenIsOverwritten reads the files of the store: the words of a fact that was forgotten
// are in none of them.
func TestForgottenIsOverwritten(t *testing.T) {
	dir := t.TempDir()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "store.db"), Migrations: knowledge.Migrations(), ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	k, err := knowledge.New(knowledge.Options{Store: db})
	if err != nil {
		t.Fatal(err)
	}
	var gone string
	for i := range 50 {
		f, err := k.Put(t.Context(), about(fmt.Sprint(i), fmt.Sprintf("the canary%d sings", i)))
		if err != nil {
			t.Fatal(err)
		}
		if i == 17 {
			gone = f.ID
		}
	}
	if err := k.Forget(t.Context(), "alice", gone); err != nil {
		t.Fatal(err)
	}
	if list, err := k.Search(t.Context(), "alice", "canary17", 3); err != nil || len(list) > 0 {
		t.Errorf("found: %+v, %v", list, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	others := false
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("canary17")) {
			t.Errorf("%s has the words of what was forgotten", f.Name())
		}
		others = others || bytes.Contains(data, []byte("canary18"))
	}
	if !others {
		t.Error("the facts that are kept were not found either: the test is broken")
	}
}

func BenchmarkSearch(b *testing.B) {
	db, err := store.Open(b.Context(), store.Options{Path: filepath.Join(b.TempDir(), "store.db"), Migrations: knowledge.Migrations(), ReserveBytes: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	words := strings.Fields("river heron window garden answer project deploy branch server letter train coffee tea colour music book lamp table chair door road bridge engine paper pencil")
	if err := db.Write(b.Context(), func(tx *store.Tx) error {
		for i := range 100_000 {
			text := fmt.Sprintf("the %s of the %s is %s number%d", words[i%len(words)], words[(i/7)%len(words)], words[(i/31)%len(words)], i)
			if _, err := tx.Exec(`INSERT INTO knowledge_facts (id, principal, subject, attribute, text, source, confidence, sensitivity, created_ms, expires_ms) VALUES ($1, $2, 's', $3, $4, 'x', 1, 'low', 1, 0)`,
				fmt.Sprint("fact_", i), fmt.Sprint("p", i%10), fmt.Sprint(i), text); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	k, err := knowledge.New(knowledge.Options{Store: db})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("search", func(b *testing.B) {
		for b.Loop() {
			if list, err := k.Search(b.Context(), "p3", "Which colour has the lamp of number77773?", 8); err != nil || len(list) == 0 {
				b.Fatal(list, err)
			}
		}
	})
	b.Run("floor", func(b *testing.B) { // one fact by its key
		for b.Loop() {
			if _, err := k.Get(b.Context(), "p3", "fact_77773"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
