package board

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

func newBoard() *board {
	return &board{words: Words{
		Told: func(*api.Told) []string { return nil }, Waits: func(int, bool) string { return "" }, Lending: func(bool, string) string { return "" },
		Ago: func(_, _ time.Time) string { return "now" }, Clock: time.TimeOnly, Family: func(s string) string { return s },
		Count: func(n int, what string) string { return fmt.Sprint(n, what) },
	}}
}

func question(id string, at int64) api.Approval {
	return api.Approval{ID: id, Principal: "bot", Tool: "tool.desktop.act", Risk: "high", Longest: "lease", Created: time.Unix(at, 0), Arguments: map[string]any{"x": strings.Repeat("long ", 60) + "end"}}
}

// A key answers what the person looks at, whatever comes and goes meanwhile.
func TestKeysAnswerWhatIsShown(t *testing.T) {
	b := newBoard()
	b.news([]api.Approval{question("a2", 2), question("a1", 1)}, nil, api.Stop{})
	if b.approval != "a1" {
		t.Fatalf("the oldest is selected first, not %q", b.approval)
	}
	if d := b.key("a"); d != nil || b.notice == "" {
		t.Errorf("what was not looked at is answered: %+v", d)
	}
	b.key("down")
	b.key("enter")
	b.news([]api.Approval{question("a0", 0), question("a2", 2), question("a3", 3)}, nil, api.Stop{})
	if d := b.key("a"); d == nil || d.what != "allow" || d.approval.ID != "a2" {
		t.Fatalf("the answer goes to %+v", d)
	}
	if d := b.key("a"); d != nil {
		t.Errorf("the same key again answers %+v", d)
	}
	// The question that is looked at is answered elsewhere: nothing takes its place under the key.
	b.key("enter")
	b.news([]api.Approval{question("a3", 3)}, nil, api.Stop{})
	if d := b.key("a"); d != nil || b.open {
		t.Errorf("a key meant for another answers %+v", d)
	}
	b.key("enter")
	once := question("a4", 4)
	once.Longest = "call"
	b.news([]api.Approval{once}, nil, api.Stop{})
	b.key("enter")
	if d := b.key("5"); d != nil {
		t.Errorf("five minutes of what may be allowed once: %+v", d)
	}
	for _, keys := range []string{"sn", "sq", "rx"} {
		b.key(keys[:1])
		if d := b.key(keys[1:]); d != nil || b.ask != "" {
			t.Errorf("%s does %+v", keys, d)
		}
	}
	b.key("s")
	if d := b.key("y"); d == nil || d.what != "stop" {
		t.Errorf("s y does %+v", d)
	}
}

// One key answers all questions of a task that are looked at, where none of them is asked
// about at each call, and no other.
func TestOneKeyForOneTask(t *testing.T) {
	b := newBoard()
	of := func(id, lane string, at int64) api.Approval {
		q := question(id, at)
		q.Lane = capabilities.LaneID(lane)
		return q
	}
	b.news([]api.Approval{of("a3", "one", 3), of("a2", "two", 2), of("a1", "one", 1)}, nil, api.Stop{})
	if got := []string{b.approvals[0].ID, b.approvals[1].ID, b.approvals[2].ID}; !slices.Equal(got, []string{"a1", "a3", "a2"}) {
		t.Errorf("in order of %v", got)
	}
	b.key("t")
	if text := strings.Join(b.frame(time.Unix(9, 0), 200, 60), "\n"); !strings.Contains(text, "2 questions of bot in lane one") || !strings.Contains(text, "FOR ALL OF THEM") || strings.Contains(text, "a2  ") {
		t.Errorf("the task is not shown:\n%s", text)
	}
	// One that comes while they are looked at is not answered with them.
	b.news([]api.Approval{of("a3", "one", 3), of("a2", "two", 2), of("a1", "one", 1), of("a4", "one", 4)}, nil, api.Stop{})
	if d := b.key("a"); d == nil || d.what != "allow" || !slices.Equal(d.together, []string{"a1", "a3"}) {
		t.Errorf("the answer goes to %+v", d)
	}
	if d := b.key("a"); d != nil {
		t.Errorf("the same key again answers %+v", d)
	}
	b.key("enter")
	if d := b.key("a"); d == nil || d.together != nil || d.approval.ID != "a1" {
		t.Errorf("one alone: %+v", d)
	}
	bound := of("a5", "one", 5)
	bound.Longest = "call"
	b.news([]api.Approval{of("a1", "one", 1), bound}, nil, api.Stop{})
	b.key("t")
	if d := b.key("a"); d != nil || b.notice == "" {
		t.Errorf("what is asked about at each call is allowed with others: %+v", d)
	}
	if d := b.key("d"); d == nil || !slices.Equal(d.together, []string{"a1", "a5"}) {
		t.Errorf("denying goes to %+v", d)
	}
	b.news([]api.Approval{of("a1", "one", 1)}, nil, api.Stop{})
	if b.key("t"); b.open {
		t.Error("one question is a task of several")
	}
}

// Every frame fits, whatever others wrote; and what is decided about is whole.
func TestFramesFit(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBoard()
	b.address = "http://127.0.0.1:7480"
	evil := question("a1", 1)
	evil.Principal, evil.NodeLabel = "\x1b[2Jbot\u202e", "漢字漢字漢字"
	calls := make([]api.Call, 50)
	for i := range calls {
		calls[i] = api.Call{ID: capabilities.CallID(strings.Repeat("c", i+1)), Tool: "tool.browser.click", State: "ended", Status: "ok", StartedAt: now}
	}
	b.news([]api.Approval{evil, question("a2", 2)}, calls, api.Stop{Stopped: true, By: "op", Reason: "x\ny", Since: now})
	for _, size := range [][2]int{{1, 1}, {20, 6}, {40, 10}, {80, 24}, {300, 100}} {
		for _, keys := range []string{"", "enter", "tab", "enter", "esc", "?", "?"} {
			b.key(keys)
			lines := b.frame(now, size[0], size[1])
			if len(lines) != max(size[1], 6) {
				t.Errorf("%v: %d lines", size, len(lines))
			}
			for _, l := range lines {
				if clipTo(l, max(size[0], 20)) != l || strings.ContainsAny(l, "\x1b\n\r\u202e") {
					t.Errorf("%v: line %q", size, l)
				}
			}
		}
		if b.pane == 1 {
			b.key("tab")
		}
	}
	if text := strings.Join(b.question(now, evil, 40), ""); !strings.Contains(strings.ReplaceAll(text, "    ", ""), "end") {
		t.Errorf("the end of an argument is cut off:\n%s", text)
	}
	if foot := newBoard().frame(now, 80, 24)[23]; !strings.HasSuffix(foot, "q quit") {
		t.Errorf("80 columns cut the keys off: %q", foot)
	}
	if f := strings.Join(b.frame(now, 80, 24), "\n"); !strings.Contains(f, "STOPPED by op") || !strings.Contains(f, ">") {
		t.Errorf("state and selection are not in words:\n%s", f)
	}
}

// A question that is longer than the screen is read to its end by turning pages, and a
// key that answers still answers it.
func TestLongQuestionsAreScrolled(t *testing.T) {
	b := newBoard()
	long := question("a1", 1)
	long.Arguments = map[string]any{"x": strings.Repeat("long ", 400) + "THE-END"}
	long.Through = []string{"provider words (command wc)", "no network"}
	b.news([]api.Approval{long}, nil, api.Stop{})
	b.key("enter")
	text := func() string { return strings.Join(b.frame(time.Unix(9, 0), 80, 12), "\n") }
	if strings.Contains(text(), "THE-END") {
		t.Fatalf("it fits:\n%s", text())
	}
	for range 20 {
		b.key("pgdown")
	}
	if f := text(); !strings.Contains(f, "THE-END") || !strings.Contains(f, "0 below") || len(strings.Split(f, "\n")) != 12 {
		t.Errorf("at the end:\n%s", f)
	}
	for range 20 {
		b.key("pgup")
	}
	if f := text(); !strings.Contains(f, "bot wants") || !strings.Contains(f, "through: provider words (command wc); no network") {
		t.Errorf("back at the beginning:\n%s", f)
	}
	if d := b.key("a"); d == nil || d.approval.ID != "a1" {
		t.Errorf("the answer goes to %+v", d)
	}
}

// Wide characters, and those that join into one, take the columns that terminals give them.
func TestColumns(t *testing.T) {
	for s, columns := range map[string]int{"漢字": 4, "e\u0301x": 2, "ab": 2, "가": 2} {
		for width := range columns {
			if got := clipTo(s, width); got == s {
				t.Errorf("%q fits into %d columns", s, width)
			}
		}
		if got := clipTo(s, columns); got != s {
			t.Errorf("%q does not fit into %d columns: %q", s, columns, got)
		}
	}
}

func FuzzKeys(f *testing.F) {
	names := []string{"up", "down", "enter", "tab", "esc", "pgdown", "pgup", "space", "?", "a", "5", "g", "d", "t", "s", "r", "y", "n", "ctrl+c", "é"}
	f.Add([]byte{1, 2, 9, 0, 3, 2})
	f.Add([]byte{2, 5, 5, 6, 9, 14, 16})
	f.Fuzz(func(t *testing.T, keys []byte) {
		b := newBoard()
		b.news([]api.Approval{question("a1", 1)}, nil, api.Stop{})
		for _, k := range keys {
			open := b.open
			if d := b.key(names[int(k)%len(names)]); d != nil && d.what == "allow" && !open {
				t.Fatal("what was not looked at is allowed")
			}
			b.frame(time.Unix(9, 0), 80, 24)
		}
	})
}
