package knowledge_test

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
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

func fact(attribute, text string) knowledge.Fact {
	return knowledge.Fact{Principal: "alice", Subject: "project", Attribute: attribute, Text: text, Source: "call_1", Confidence: 0.75, Sensitivity: knowledge.Low}
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
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	gone := func(attribute string) {
		t.Helper()
		if f, err := k.Get(ctx, "alice", "project", attribute); capabilities.CodeOf(err) != capabilities.CodeNotFound {
			t.Errorf("%s: %+v, %v", attribute, f, err)
		}
	}
	must(k.Put(ctx, fact("language", "Rust")))
	must(k.Put(ctx, fact("language", "Go")))
	short := fact("deadline", "Friday")
	short.Expires = at.Add(time.Hour)
	must(k.Put(ctx, short))
	f, err := k.Get(ctx, "alice", "project", "language")
	if err != nil || f.Text != "Go" || f.Confidence != 0.75 || f.Source != "call_1" || f.Sensitivity != knowledge.Low || !f.Created.Equal(at) || !f.Expires.IsZero() {
		t.Errorf("%+v, %v", f, err)
	}
	if list, err := k.List(ctx, "alice", ""); err != nil || len(list) != 2 || list[0].Attribute != "deadline" || !list[0].Expires.Equal(short.Expires) {
		t.Errorf("%+v, %v", list, err)
	}
	for _, other := range []struct{ who, subject string }{{"bob", ""}, {"alice", "elsewhere"}} {
		if list, err := k.List(ctx, capabilities.PrincipalID(other.who), other.subject); err != nil || len(list) != 0 {
			t.Errorf("%v: %+v, %v", other, list, err)
		}
	}
	at = at.Add(time.Hour)
	gone("deadline")
	must(k.Forget(ctx, "alice", "project", "language"))
	gone("language")
	if err := k.Forget(ctx, "alice", "project", "language"); capabilities.CodeOf(err) != capabilities.CodeNotFound {
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
		f := fact("language", "Go")
		change(&f)
		if err := k.Put(t.Context(), f); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}
