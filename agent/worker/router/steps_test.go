package router

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/intent"
)

func wantOf(all []Found) string {
	if all[0].Ask != "" {
		return "?"
	}
	names := make([]string, 0, len(all))
	for _, f := range all {
		names = append(names, string(f.Intent))
	}
	return strings.Join(names, ">")
}

// TestMixed measures messages that ask for several things, or look as if they did: at least 85 of
// 100 of the third that nobody tuned by are what a person would want, and no message opens more
// than its steps say (S2-04, S2-18, S2-49).
func TestMixed(t *testing.T) {
	r := router(t, nil)
	right, all := map[bool]int{}, map[bool]int{}
	for _, row := range rows(t, "testdata/mixed.tsv", 3) {
		held := labelled{text: row[2]}.held()
		got := r.Steps(t.Context(), row[2])
		all[held]++
		switch {
		case wantOf(got) == row[1]:
			right[held]++
		case !held:
			t.Logf("%q is %s, not %s (%s)", row[2], wantOf(got), row[1], got[0].Ask)
		}
		for i, f := range got {
			if len(got) > 1 && (f.Step != i+1 || f.Of != len(got) || !strings.Contains(row[2], f.Text) || f.Text == "") {
				t.Errorf("%q: step %d is %+v", row[2], i, f)
			}
			if got[0].Ask == "" && !slices.Contains(strings.Split(strings.ReplaceAll(row[1], "?", string(intent.ChatOnly)), ">"), string(f.Intent)) &&
				f.RiskLevel == intent.High {
				t.Errorf("%q opens %s, which nobody wants", row[2], f.Intent)
			}
		}
	}
	t.Logf("tuned %d of %d, held %d of %d", right[false], all[false], right[true], all[true])
	if 100*right[true] < 85*all[true] || 100*right[false] < 95*all[false] {
		t.Errorf("tuned %d of %d, held %d of %d", right[false], all[false], right[true], all[true])
	}
}

// TestOneRequestIsOneStep: what people ask for one thing is not parted into several.
func TestOneRequestIsOneStep(t *testing.T) {
	r := router(t, nil)
	parted := map[bool]int{}
	for _, row := range rows(t, "testdata/utterances.tsv", 3) {
		l := labelled{row[0], row[1], row[2]}
		if got := wantOf(r.Steps(t.Context(), l.text)); strings.Contains(got, ">") || got == "?" && r.Route(t.Context(), l.text).Ask == "" {
			parted[l.held()]++
			if !l.held() {
				t.Logf("%q is %s", l.text, got)
			}
		}
	}
	if parted[false]+parted[true] > 6 {
		t.Errorf("%v are parted", parted)
	}
}

// TestStepsWidenNothing holds steps to the messages that try to get more than they need.
func TestStepsWidenNothing(t *testing.T) {
	r := router(t, nil)
	for _, row := range rows(t, "testdata/adversarial.tsv", 2) {
		for _, f := range r.Steps(t.Context(), row[1]) {
			narrow := f.Ask != ""
			for name := range strings.SplitSeq(row[0], "|") {
				narrow = narrow || needsNoMore(f.Intent, intent.Name(name))
			}
			if !narrow {
				t.Errorf("%q: %s needs more than %s", row[1], f.Intent, row[0])
			}
		}
	}
	for _, text := range []string{
		"/chat list docs and read https://example.com", strings.Repeat("Read a.txt and then look up the weather. ", 20),
	} {
		if got := r.Steps(t.Context(), text); len(got) != 1 {
			t.Errorf("%.60q has %d steps", text, len(got))
		}
	}
	if got := r.Steps(t.Context(), "list docs/, then look up the weather, then read b.txt, then search the web for tea, then list music/"); wantOf(got) != "?" {
		t.Errorf("so many things are %s", wantOf(got))
	}
}

type answers map[string]string

func (a answers) Classify(_ context.Context, _, message string, _ json.RawMessage) ([]byte, error) {
	return []byte(a[message]), nil
}

// TestAModelNarrowsAStep: a model is asked about each step by itself, and can make none wider.
func TestAModelNarrowsAStep(t *testing.T) {
	const message, first, second = "List the folder docs and then search the web for tea.", "List the folder docs", "search the web for tea."
	for _, c := range []struct{ first, second, want string }{
		{`{"intent":"file_task","confidence":0.9}`, `{"intent":"lookup_search","confidence":0.9}`, "file_task>lookup_search"},
		{`{"intent":"file_task","confidence":0.9}`, `{"intent":"chat_only","confidence":0.9}`, "file_task>chat_only"},
		{`{"intent":"file_task","confidence":0.9}`, `{"intent":"system_task","confidence":0.9}`, "?"},
		{`no`, `no`, "file_task>lookup_search"},
	} {
		if got := wantOf(router(t, answers{first: c.first, second: c.second}).Steps(t.Context(), message)); got != c.want {
			t.Errorf("%s, %s: %s", c.first, c.second, got)
		}
	}
	if got := wantOf(router(t, said{text: `{"intent":"file_task","confidence":1}`}).Steps(t.Context(), "Summarise the folder inbox and send it.")); got != "?" {
		t.Errorf("a model answered for the person: %s", got)
	}
}
