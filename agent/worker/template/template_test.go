package template

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/capabilities"
)

var offered = []worker.Tool{{ID: "tool.web.fetch"}, {ID: "tool.fs.read"}, {ID: "tool.fs.list"}, {ID: "tool.fs.glob"}, {ID: "tool.fs.grep"}, {ID: "tool.fs.bash"},
	{ID: "tool.desktop.snapshot"}, {ID: "tool.browser.navigate"}, {ID: "tool.browser.snapshot"}}

// TestPlans holds what each message leads to; an empty call: words instead.
func TestPlans(t *testing.T) {
	for _, c := range []struct {
		intent        intent.Name
		message, call string
	}{
		{intent.BrowseOnce, "Read https://example.org/a, please.", `tool.web.fetch{"url":"https://example.org/a"}`},
		{intent.BrowseOnce, "What is on example.org?", `tool.web.fetch{"url":"https://example.org"}`},
		{intent.BrowseOnce, "Read that page", ""},
		{intent.FileTask, "Read the file notes.txt.", `tool.fs.read{"path":"notes.txt"}`},
		{intent.FileTask, "What's in docs/README.md?", `tool.fs.read{"path":"docs/README.md"}`},
		{intent.FileTask, "list the folder docs", `tool.fs.list{"path":"docs"}`},
		{intent.FileTask, "list the folder .", `tool.fs.list{}`},
		{intent.FileTask, "list my files", `tool.fs.list{}`},
		{intent.FileTask, "what's in the inbox folder", `tool.fs.list{"path":"inbox"}`},
		{intent.FileTask, "Was ist im inbox-Ordner?", `tool.fs.list{"path":"inbox"}`},
		{intent.FileTask, "List the files in the folder named system.", `tool.fs.list{"path":"system"}`},
		{intent.FileTask, "Qu'y a-t-il dans le dossier inbox ?", `tool.fs.list{"path":"inbox"}`},
		{intent.FileTask, "what is in this folder?", `tool.fs.list{}`},
		{intent.FileTask, "list the folder at https://example.org/docs/", `tool.fs.list{}`},
		{intent.FileTask, "write milk into the file a.txt", ""},
		{intent.FileTask, "Find all the CSV files", `tool.fs.glob{"pattern":"**/*.csv"}`},
		{intent.FileTask, `search my notes for "rent"`, `tool.fs.grep{"pattern":"rent"}`},
		{intent.FileTask, "do something", ""},
		{intent.SystemTask, `run "make test"`, `tool.fs.bash{"command":"make test"}`},
		{intent.SystemTask, "run the tests", ""},
		{intent.ScreenObserve, "what is on my screen?", `tool.desktop.snapshot{"outline":true}`},
		{intent.DesktopTask, "find the setting for dark mode", `tool.desktop.snapshot{"outline":true}`},
		{intent.BrowserTask, "fill in the form on example.org", `tool.browser.navigate{"url":"https://example.org"}`},
		{intent.LookupSearch, "weather", ""},
		{intent.MemoryWrite, "remember", ""},
		{intent.ChatOnly, "hello", ""},
	} {
		a, err := Harness{}.Next(t.Context(), worker.Turn{Intent: c.intent, Messages: []worker.Message{{Text: c.message}}, Tools: offered})
		got := ""
		if len(a.Calls) > 0 {
			got = string(a.Calls[0].Tool) + string(a.Calls[0].Args)
		}
		if err != nil || got != c.call || (got == "") == (a.Text == "") || a.Undone != (got == "") {
			t.Errorf("%s: %q leads to %q (%q), not %q", c.intent, c.message, got, a.Text, c.call)
		}
	}
}

// TestAShownResultIsNoCall: a step of a pipeline that is shown an earlier result makes its own call
// all the same, tells what that returned, and says why it makes none where its task names none.
func TestAShownResultIsNoCall(t *testing.T) {
	shown := result("tool.fs.read", 0, `{"content":"The rent is 700."}`)
	turn := worker.Turn{Intent: intent.FileTask, Messages: []worker.Message{{Text: "list the folder docs"}, shown}, Tools: offered}
	a, err := Harness{}.Next(t.Context(), turn)
	if err != nil || len(a.Calls) != 1 || a.Calls[0].Tool != "tool.fs.list" {
		t.Errorf("it made no call: %+v %v", a, err)
	}
	turn.Messages = append(turn.Messages, result("tool.fs.list", 1, `{"path":"docs","entries":[]}`))
	if a, err = (Harness{}).Next(t.Context(), turn); err != nil || !strings.HasPrefix(a.Text, "docs: ") {
		t.Errorf("%+v %v", a, err)
	}
	turn = worker.Turn{Intent: intent.FileTask, Messages: []worker.Message{{Text: "Explain in three sentences what the file says."}, shown}}
	if a, err = (Harness{}).Next(t.Context(), turn); err != nil || !a.Undone || a.Text == "" || len(a.Calls) != 0 {
		t.Errorf("without a call: %+v %v", a, err)
	}
}

// TestAResultThatIsKeptBack: where a hook keeps a result back, the answer is the hook's words, and
// nothing was done for the person.
func TestAResultThatIsKeptBack(t *testing.T) {
	kept := result("tool.fs.read", 1, "")
	kept.Result.Message = "a hook keeps the result back: seen"
	a, err := Harness{}.Next(t.Context(), worker.Turn{Intent: intent.FileTask, Messages: []worker.Message{{Text: "read a.txt"}, kept}, Tools: offered})
	if err != nil || !a.Undone || a.Text != kept.Result.Message || len(a.Calls) != 0 {
		t.Errorf("%+v %v", a, err)
	}
}

func result(tool capabilities.ToolID, round int, output string) worker.Message {
	return worker.Message{
		Call: &worker.ToolCall{Tool: tool}, Round: round,
		Result: &capabilities.Result{Tool: tool, Status: capabilities.StatusOK, Output: json.RawMessage(output)},
	}
}

// TestOnlyWhatIsOffered: a tool that is not offered is not called, and the answer says so.
func TestOnlyWhatIsOffered(t *testing.T) {
	a, err := Harness{}.Next(t.Context(), worker.Turn{Intent: intent.FileTask, Messages: []worker.Message{{Text: "read a.txt"}}})
	if err != nil || len(a.Calls) != 0 || !strings.Contains(a.Text, "tool.fs.read") {
		t.Errorf("%+v %v", a, err)
	}
}

func told(t *testing.T, message string, tool capabilities.ToolID, status capabilities.Status, output string) string {
	t.Helper()
	a, err := Harness{}.Next(t.Context(), worker.Turn{Intent: intent.FileTask, Tools: offered, Messages: []worker.Message{{Text: message},
		{Call: &worker.ToolCall{Tool: tool}, Round: 1, Result: &capabilities.Result{Status: status, Output: json.RawMessage(output), Message: "no", Hint: "ask"}}}})
	if err != nil || len(a.Calls) != 0 {
		t.Fatalf("%+v %v", a, err)
	}
	return a.Text
}

func TestTellsWhatCallsReturned(t *testing.T) {
	for _, c := range []struct {
		message string
		tool    capabilities.ToolID
		status  capabilities.Status
		output  string
		want    string
	}{
		{"read a.txt", "tool.fs.read", capabilities.StatusOK, `{"content":"hi\u001b[31m"}`, "hi"},
		{"read a.txt", "tool.fs.read", capabilities.StatusDenied, `null`, "no\nask"},
		{"list my files", "tool.fs.list", capabilities.StatusOK, `{"path":".","entries":[{"name":"a.go","type":"file","size":3},{"name":"b.go","type":"file","size":4},{"name":"d","type":"folder"}]}`,
			".: 1 folder, 2 files, 7 bytes (2 .go)\n  a.go\n  b.go\n  d/"},
		{`find "x"`, "tool.fs.grep", capabilities.StatusOK, `{"matches":[{"path":"a","line":3,"text":"x y"}],"truncated":true}`, "a:3: x y\n(more)"},
		{`find "x"`, "tool.fs.grep", capabilities.StatusOK, `{"matches":[]}`, "Nothing found."},
		{"read a.txt", "tool.fs.read", capabilities.StatusOK, `{"content":"` + strings.Repeat("x", maxShown+1) + `"}`, "(the first 8192 of 8193 bytes)"},
	} {
		got := told(t, c.message, c.tool, c.status, c.output)
		if !strings.Contains(got, c.want) || strings.Contains(got, "\x1b") {
			t.Errorf("%q", capabilities.Clip(got, 200))
		}
	}
}

// TestFindsOnTheDesktop holds what is shown of an outline: what the message names, with what it is
// inside of.
func TestFindsOnTheDesktop(t *testing.T) {
	const outline = `- application "Settings" [ref=e1]
  - window "Appearance" [ref=e2]
    - checkbox "Dark mode" [ref=e3] [checked]
    - slider "Text size" [ref=e4]: "12"
  - window "Power" [ref=e5]
    - checkbox "Dark screen when idle" [ref=e6]`
	for message, want := range map[string]string{
		"Where is the setting for dark mode?":         `application "Settings" › window "Appearance" › checkbox "Dark mode" [checked]`,
		`find "text size"`:                            `application "Settings" › window "Appearance" › slider "Text size": "12"`,
		"Such die Einstellung Power auf dem Desktop.": `application "Settings" › window "Power"`,
		"What is on my screen?":                       outline,
		"find the setting for bluetooth":              "Nothing that is shown has the words bluetooth. This is shown:\n" + outline,
	} {
		if got := about(message, outline); got != want {
			t.Errorf("%q:\n%s\nwant\n%s", message, got, want)
		}
	}
}

// TestWhatIsLeftIsSaid: a template shows and looks up; what else a message asks for is named, and
// the turn did not do all of it.
func TestWhatIsLeftIsSaid(t *testing.T) {
	for message, left := range map[string]string{
		"list docs and send it to Anna":     "send it to Anna",
		"list docs and delete the old ones": "delete the old ones",
		"list docs and tell me how many":    "",
	} {
		a, err := Harness{}.Next(t.Context(), worker.Turn{Intent: intent.FileTask, Tools: offered, Messages: []worker.Message{
			{Text: message}, result("tool.fs.list", 1, `{"path":"docs","entries":[]}`),
		}})
		if err != nil || a.Undone != (left != "") || !strings.HasPrefix(a.Text, "docs: ") || !strings.HasSuffix(a.Text, left) {
			t.Errorf("%q: %+v %v", message, a, err)
		}
	}
	for name, message := range map[intent.Name]string{
		intent.BrowserTask: "open https://example.org and click OK", intent.DesktopTask: "turn on dark mode",
	} {
		if undone(name, message) == "" {
			t.Errorf("%s: %q leaves nothing", name, message)
		}
	}
	if got := undone(intent.SystemTask, `start "make test"`); got != "" {
		t.Error(got)
	}
}
