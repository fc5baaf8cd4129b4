package template

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/agent/worker/named"
	"github.com/handrail-dev/handrail/capabilities"
)

// maxShown is how much of a page, a file or an output is shown, in bytes.
const maxShown = 8 << 10

// maxQuery is how much of a message is searched for, in bytes.
const maxQuery = 500

// Harness is the harness. It is safe for concurrent use.
type Harness struct{}

var (
	_ worker.Harness = Harness{}
	_ worker.Planner = Harness{}
)

// Next makes the calls of the intent's template, one a round, and then says what they returned.
func (Harness) Next(_ context.Context, t worker.Turn) (worker.Answer, error) {
	if t.Keeps && t.Intent == intent.MemoryWrite {
		return worker.Answer{}, nil // it is kept after the turn, which says so
	}
	if t.Keeps && t.Intent == intent.MemoryRead {
		return recalled(t.Memory), nil
	}
	plan, otherwise := planOf(t)
	done := worker.Made(t)
	if len(done) > 0 {
		last := done[len(done)-1].Result
		if withheld := worker.Withheld(last); withheld || last.Status != capabilities.StatusOK {
			return worker.Answer{Text: failure(*last), Undone: withheld}, nil
		}
	}
	if len(done) == len(plan) {
		if len(plan) == 0 {
			return worker.Answer{Text: otherwise, Undone: true}, nil
		}
		text, left := tell(t.Messages[0].Text, done), undone(t.Intent, t.Messages[0].Text)
		return worker.Answer{Text: strings.TrimSpace(text + left), Undone: left != ""}, nil
	}
	return worker.Answer{Calls: []worker.ToolCall{plan[len(done)]}}, nil
}

// Plan returns the tools of the intent's template.
func (Harness) Plan(t worker.Turn) []capabilities.ToolID {
	plan, _ := planOf(t)
	all := make([]capabilities.ToolID, 0, len(plan))
	for _, c := range plan {
		all = append(all, c.Tool)
	}
	return all
}

func call(tool capabilities.ToolID, pairs ...string) worker.ToolCall {
	args := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			args[pairs[i]] = pairs[i+1]
		}
	}
	data, _ := json.Marshal(args)
	return worker.ToolCall{Tool: tool, Args: data}
}

func recalled(facts []worker.Fact) worker.Answer {
	if len(facts) == 0 {
		return worker.Answer{Text: "I remember nothing. Tell me something to keep: remember that …"}
	}
	lines := make([]string, 0, len(facts))
	for _, f := range facts {
		lines = append(lines, "- "+f.Text)
	}
	return worker.Answer{Text: "You told me:\n" + strings.Join(lines, "\n")}
}

// planOf returns the calls for a message, or else what to say.
func planOf(t worker.Turn) (plan []worker.ToolCall, otherwise string) {
	plan, otherwise = wanted(t.Intent, t.Messages[0].Text)
	for _, c := range plan {
		if !slices.ContainsFunc(t.Tools, func(o worker.Tool) bool { return o.ID == c.Tool }) {
			return nil, fmt.Sprintf("That needs %s, which this worker is not offered: no device is ready for it, policy hides it, or the "+
				"step of a pipeline does not name it. The console's page Devices says what a device lacks.", c.Tool)
		}
	}
	return plan, otherwise
}

func wanted(name intent.Name, message string) ([]worker.ToolCall, string) {
	switch name {
	case intent.BrowseOnce:
		if url := named.Page(message); url != "" {
			return []worker.ToolCall{call("tool.web.fetch", "url", url)}, ""
		}
		return nil, "Which page? Write its address."
	case intent.LookupSearch, intent.OneShotDiscovery:
		return []worker.ToolCall{call("tool.web.search", "query", capabilities.Clip(message, maxQuery))}, ""
	case intent.ScreenObserve, intent.DesktopTask:
		return []worker.ToolCall{{Tool: "tool.desktop.snapshot", Args: json.RawMessage(`{"outline":true}`)}}, ""
	case intent.BrowserTask:
		if url := named.Page(message); url != "" {
			return []worker.ToolCall{call("tool.browser.navigate", "url", url), call("tool.browser.snapshot")}, ""
		}
		return []worker.ToolCall{call("tool.browser.snapshot")}, ""
	case intent.FileTask:
		return files(message)
	case intent.SystemTask:
		if command := named.Quote(message); command != "" {
			return []worker.ToolCall{call("tool.fs.bash", "command", command)}, ""
		}
		return nil, "Which command? Write it in quotation marks: run \"make test\"."
	case intent.MemoryRead, intent.MemoryWrite:
		return nil, "This worker keeps no memory."
	default:
		return nil, "Without a model there is no talk. It can read a page (its address), list, read and search files of the workspace, look at " +
			"the screen, " +
			"and run a command (in quotation marks)."
	}
}

// undone says which requests of a message no template carries out.
func undone(name intent.Name, message string) string {
	var b strings.Builder
	for i, c := range named.Clauses(message) {
		left := c.Verb == named.Acts || c.Verb == named.Sends || c.Verb == named.Changes && (i > 0 || name != intent.SystemTask) ||
			c.Verb == named.Opens && name == intent.DesktopTask
		if left {
			fmt.Fprintf(&b, "\nNot done, as it needs a model: %s", strings.TrimSpace(message[c.From:c.To]))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n" + b.String()
}

var (
	folders = []func() *regexp.Regexp{
		capabilities.Pattern(`(?i)\b(?:folder|directory|ordner|verzeichnis|dossier|répertoire|carpeta|directorio)\s+` +
			`(?:(?:named|called|namens|nommé|appelé|llamad[oa])\s+)?([\pL\d_.-]+)`),
		capabilities.Pattern(`(?i)(?:^|[\s(])([\pL\d_.-]+)[ -](?:folder|directory|ordner|verzeichnis)\b`),
	}
	// nameless are words beside "folder" that are no folder's name.
	nameless = wordSet(`and or with is are that which for of in to on at as by the a an my your our this these those current same whole entire
		root workspace each every any all sub parent home first last other new working what whose please again then i you we
		und oder mit ist der die das den dem im in am von zu für mein meine meinem meinen diesen diesem ganzen jeder bitte
		et ou avec est de du des dans pour qui que y o con es del en para que por`)
	kind = capabilities.Pattern(
		`(?i)\b(csv|pdf|md|txt|json|ya?ml|xml|html?|log|go|py|js|ts|docx?|xlsx?|odt|jpe?g|png|gif|mp3|mp4|zip)[ -](?:files|dateien)\b`)
	lists = capabilities.Pattern(
		`(?i)\b(list|folder|directory|which files|files|ordner|verzeichnis|dateien|dossier|fichiers|carpeta|archivos)\b`)
)

// folderOf returns the folder that a message names by a word beside "folder"; "" if it names none.
func folderOf(message string) string {
	for _, form := range folders {
		for _, m := range form().FindAllStringSubmatch(message, -1) {
			if name := strings.TrimRight(m[1], "."); name != "" && !nameless[strings.ToLower(name)] || m[1] == "." {
				return name
			}
		}
	}
	return ""
}

func files(message string) ([]worker.ToolCall, string) {
	rest := named.Unquoted(message)
	where := cmp.Or(named.File(rest), folderOf(rest))
	switch word := named.Quote(message); {
	case named.Clauses(message)[0].Verb == named.Changes:
		return nil, "Without a model files are listed, read and searched, and none is changed."
	case word != "":
		return []worker.ToolCall{call("tool.fs.grep", "pattern", word, "path", where)}, ""
	case where != "" && path.Ext(where) != "":
		return []worker.ToolCall{call("tool.fs.read", "path", where)}, ""
	case kind().MatchString(rest) && where == "":
		return []worker.ToolCall{call("tool.fs.glob", "pattern", "**/*."+strings.ToLower(kind().FindStringSubmatch(rest)[1]))}, ""
	case where != "" || lists().MatchString(rest):
		return []worker.ToolCall{call("tool.fs.list", "path", where)}, ""
	}
	return nil, "Which file or folder? Write its name, or the words to look for in quotation marks."
}

func failure(r capabilities.Result) string {
	text := r.Message
	if text == "" {
		text = "it did not work: " + string(r.Code)
	}
	return strings.TrimSpace(text + "\n" + r.Hint)
}

// output is the fields of results that are shown, of all the templates' tools.
type output struct {
	// tool.web.fetch, tool.fs.read
	Title   string `json:"title"`
	Content string `json:"content"`
	URL     string `json:"url"`
	Path    string `json:"path"`
	// tool.web.search
	Results []struct {
		Title string `json:"title"`
		URL   string `json:"url"`
		Text  string `json:"text"`
	} `json:"results"`
	// tool.fs.list
	Entries []struct {
		Name string `json:"name"`
		Type string `json:"type"`
		Size int64  `json:"size"`
	} `json:"entries"`
	Truncated bool `json:"truncated"`
	// tool.fs.glob and tool.fs.grep
	Matches []json.RawMessage `json:"matches"`
	// tool.fs.bash
	Output   string `json:"output"`
	ExitCode *int   `json:"exit_code"`
	// tool.desktop.snapshot, tool.browser.snapshot
	Outline  string `json:"outline"`
	Snapshot string `json:"snapshot"`
}

// tell puts into words what the last call returned.
func tell(message string, done []worker.Message) string {
	last := done[len(done)-1]
	var o output
	if err := json.Unmarshal(last.Result.Output, &o); err != nil {
		return "The result cannot be read: " + err.Error()
	}
	switch last.Call.Tool {
	case "tool.web.fetch":
		return shown(strings.TrimSpace(cmp.Or(o.Title, o.URL) + "\n\n" + o.Content))
	case "tool.web.search":
		return shown(found(o))
	case "tool.fs.read":
		return shown(o.Content)
	case "tool.fs.list":
		return listing(o)
	case "tool.fs.glob", "tool.fs.grep":
		return shown(matches(o))
	case "tool.fs.bash":
		return shown(fmt.Sprintf("%s\n(exit code %d)", strings.TrimRight(o.Output, "\n"), value(o.ExitCode)))
	case "tool.desktop.snapshot":
		return shown(about(message, o.Outline))
	case "tool.browser.snapshot":
		return shown(about(message, o.Snapshot))
	}
	return shown(string(last.Result.Output))
}

func value(n *int) int {
	if n == nil {
		return -1
	}
	return *n
}

func shown(text string) string {
	text = capabilities.EscapeBut(text, map[rune]string{'\n': "\n", '\t': "\t"})
	if len(text) <= maxShown {
		return text
	}
	return capabilities.Clip(text, maxShown) + fmt.Sprintf("\n(the first %d of %d bytes)", maxShown, len(text))
}

// listing summarises a folder: how much of what there is, the largest, and the names.
func listing(o output) string {
	kinds, folders, total := map[string]int{}, 0, int64(0)
	var b strings.Builder
	for _, e := range o.Entries {
		if e.Type == "folder" {
			folders++
			continue
		}
		kinds[cmp.Or(strings.ToLower(path.Ext(e.Name)), "without an ending")]++
		total += e.Size
	}
	fmt.Fprintf(&b, "%s: %s, %s, %s", cmp.Or(o.Path, "."), count(folders, "folder"), count(len(o.Entries)-folders, "file"),
		count(int(total), "byte"))
	names := make([]string, 0, len(kinds))
	for k := range kinds {
		names = append(names, k)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(kinds[b]-kinds[a], cmp.Compare(a, b)) })
	for i, k := range names[:min(len(names), 8)] {
		b.WriteString([]string{" (", ", "}[min(i, 1)] + fmt.Sprintf("%d %s", kinds[k], k))
	}
	if len(names) > 0 {
		b.WriteString(")")
	}
	for _, e := range o.Entries {
		mark := ""
		if e.Type == "folder" {
			mark = "/"
		}
		fmt.Fprintf(&b, "\n  %s%s", e.Name, mark)
	}
	if o.Truncated {
		b.WriteString("\n  (more)")
	}
	return shown(b.String())
}

// found lists the pages of a search.
func found(o output) string {
	if len(o.Results) == 0 {
		return "Nothing found."
	}
	lines := make([]string, 0, 3*len(o.Results))
	for i, r := range o.Results {
		lines = append(lines, fmt.Sprintf("%d. %s", i+1, r.Title), "   "+r.URL)
		if r.Text != "" {
			lines = append(lines, "   "+r.Text)
		}
	}
	return strings.Join(lines, "\n")
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func matches(o output) string {
	if len(o.Matches) == 0 {
		return "Nothing found."
	}
	lines := make([]string, 0, len(o.Matches)+1)
	for _, m := range o.Matches {
		var hit struct {
			Path string `json:"path"`
			Line int    `json:"line"`
			Text string `json:"text"`
		}
		var file string
		switch {
		case json.Unmarshal(m, &file) == nil:
			lines = append(lines, file)
		case json.Unmarshal(m, &hit) == nil:
			lines = append(lines, fmt.Sprintf("%s:%d: %s", hit.Path, hit.Line, hit.Text))
		}
	}
	if o.Truncated {
		lines = append(lines, "(more)")
	}
	return strings.Join(lines, "\n")
}
