//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/platform/chrome"
	"github.com/handrail-dev/handrail/test/bench/figures"
)

func TestMain(m *testing.M) {
	if value := os.Getenv(wayRoleEnv); value != "" {
		if err := serveWay(value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// The measuring itself works: every operation is done by every subject on both
// pages, proven by the page, and lands in the tables. No time is judged.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary and runs three browsers; run without -short")
	}
	if _, err := chrome.New(chrome.Options{}).Find(t.Context()); err != nil {
		t.Skip(err)
	}
	var log bytes.Buffer
	profiles := t.TempDir()
	r, err := measure(options{rounds: 1, times: 1, log: &log, profile: profiles})
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	for _, name := range []string{"gateway.prof", "node.prof", "mcp.prof", "protocol.txt"} {
		if info, err := os.Stat(filepath.Join(profiles, name)); err != nil || info.Size() == 0 {
			t.Errorf("--profile: %s holds nothing (%v)", name, err)
		}
	}
	var text bytes.Buffer
	r.markdown(&text)
	if len(r.tables) != 4 {
		t.Fatalf("want two pages, sizes and cold start, got %d tables:\n%s", len(r.tables), &text)
	}
	for _, table := range r.tables[:2] {
		if len(table.lines) != len(goals) {
			t.Errorf("%s has %d lines for %d operations", table.title, len(table.lines), len(goals))
		}
		for _, l := range table.lines {
			for i, v := range l.values {
				if strings.Trim(v, "0123456789.,") != "" || strings.Trim(v, "0.,") == "" {
					t.Errorf("%s, %s, %s: %q is no figure", table.title, l.what, table.columns[i], v)
				}
			}
		}
	}
	if !strings.Contains(text.String(), "The way alone, in turn") {
		t.Error("the way alone was not measured")
	}
	if t.Failed() {
		t.Logf("%s\n%s", &log, &text)
	}
	if text := text.String(); !strings.Contains(text, "PEERS=dir") {
		t.Error("the report does not say that no peers were measured")
	}
}

// The pages' promise about their size is true, as Chrome counts it.
func TestPages(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a browser; run without -short")
	}
	b, err := chrome.New(chrome.Options{}).Find(t.Context())
	if err != nil {
		t.Skip(err)
	}
	site, err := servePages()
	if err != nil {
		t.Fatal(err)
	}
	defer site.close()
	c, err := startBare(b, os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer c.end()
	const count = `(function w(n){var k=0;n.querySelectorAll('*').forEach(function(e){k++
if(e.shadowRoot)k+=w(e.shadowRoot)
if(e.tagName==='IFRAME')try{k+=w(e.contentDocument.body)}catch(x){}});return k})(document.body)`
	for page, want := range map[string]int{"small": 27, "large": 5100} {
		if err := c.navigate(site.url(page, 1)); err != nil {
			t.Fatal(err)
		}
		var got int
		if err := c.value(count, &got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("the %s page has %d elements, want %d", page, got, want)
		}
	}
	var foreign bool
	if err := c.value(`(function(){try{return !document.querySelector('[title=Elsewhere]').contentDocument}catch(e){return true}})()`, &foreign); err != nil || !foreign {
		t.Errorf("the other site's frame can be read from the page (%v)", err)
	}
}

// A page that shows no effect proves nothing, whatever the answer said.
func TestProven(t *testing.T) {
	before := counts{"clicks": "1", "notes": "0"}
	for _, c := range []struct {
		op    operation
		after counts
		ok    bool
	}{
		{opClick, counts{"clicks": "3"}, true},
		{opClick, counts{"clicks": "2"}, false},
		{opClick, counts{"clicks": "4"}, false},
		{opType, counts{"notes": "2", "plain": note(7)}, true},
		{opType, counts{"notes": "2", "plain": note(6)}, false},
		{opType, counts{"notes": "1", "plain": note(7)}, false},
		{opFill, counts{"name": "Ada 7", "city": "Lund 7", "street": "Long Street 7", "sort": "Oldest"}, true},
		{opFill, counts{"name": "Ada 7", "city": "Lund 7", "street": "Long Street 7", "sort": "Newest"}, false},
		{opNavigate, counts{"view": "7"}, true},
		{opNavigate, counts{"view": "6"}, false},
	} {
		if err := proven(c.op, before, c.after, 2, 7); (err == nil) != c.ok {
			t.Errorf("%s with %v: %v, want proven: %v", c.op, c.after, err, c.ok)
		}
	}
	if len(note(3)) != 20 {
		t.Errorf("the typed text has %d characters", len(note(3)))
	}
}

func TestReferences(t *testing.T) {
	lines := ""
	for i, name := range named {
		lines += fmt.Sprintf("uid=1_%d button %q\n", i, name)
	}
	for _, text := range []string{lines, strings.ReplaceAll(strings.ReplaceAll(lines, "uid=1_", "- "), "\"\n", "\" [level=1] [ref=e5]: \"x\"\n"), `{"snapshot":` + fmt.Sprintf("%q", lines) + `}`} {
		u := toolUser{by: fixedAnswer{text}, words: ours}
		if err := u.aim(); err != nil {
			t.Error(err)
		}
	}
	u := toolUser{by: fixedAnswer{strings.ReplaceAll(lines, "Keys", "Locks")}, words: ours}
	if err := u.aim(); err == nil || !strings.Contains(err.Error(), "Keys") {
		t.Errorf("a control that is not in the snapshot: %v", err)
	}
}

type fixedAnswer struct{ text string }

func (f fixedAnswer) call(string, any) (answer, error) { return answer{text: f.text}, nil }

func TestJudge(t *testing.T) {
	columns := []string{"ours", "handler", "floor", "quick", "slow"}
	for _, c := range []struct {
		values  []float64
		limit   float64
		verdict string
	}{
		{[]float64{10, 1, 1, 20, 30}, 12, "met"},
		{[]float64{10, 1, 1, 5, 30}, 9, "**missed**, **behind quick**"},
		{[]float64{10, 1, 1, 0, 0}, 0, ""},
		{[]float64{0, 1, 1, 5, 30}, 9, "**no figure**"},
	} {
		var l line
		if l.judge(c.values, c.limit, "", columns); l.verdict != c.verdict {
			t.Errorf("%v with limit %v: %q, want %q", c.values, c.limit, l.verdict, c.verdict)
		}
	}
	r := &report{}
	if _, text := r.cell(&cell{rounds: []float64{3}, fault: noEffectError{errors.New("nothing")}}, "x", "small", opClick); text != "no effect" {
		t.Errorf("an unproven time is shown as %q", text)
	}
}

func TestSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "doc.md")
	r := &report{machine: "here", tables: []*table{{title: "T", columns: []string{"a"}, lines: []line{{what: "w", values: []string{"1"}}}}}}
	if err := os.WriteFile(path, []byte("no marks\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if figures.Check(path, beginMark, endMark) == nil || r.save(path) == nil {
		t.Error("a document without marks was written to")
	}
	if err := os.WriteFile(path, []byte("before\n"+beginMark+"\nold\n"+endMark+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := errors.Join(figures.Check(path, beginMark, endMark), r.save(path)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); strings.Contains(s, "old") || !strings.HasPrefix(s, "before\n"+beginMark+"\n\nhere") || !strings.HasSuffix(s, "\n\n"+endMark+"\nafter\n") || strings.Count(s, "### T") != 1 {
		t.Errorf("saved:\n%s", s)
	}
}
