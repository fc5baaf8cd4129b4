package tooldoc

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/script"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/platform/confine"
)

var update = flag.Bool("update", false, "write docs/tools.md")

const file = "../../docs/tools.md"

func TestMain(m *testing.M) {
	script.Main(confine.Self)
	flag.Parse()
	end := script.Unwatched()
	end(m.Run())
}

func tools(t testing.TB) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (l *lesson) descriptor(t testing.TB) *catalog.Descriptor {
	t.Helper()
	d, ok := tools(t).Get(capabilities.ToolID("tool.browser." + l.tool))
	if !ok {
		t.Fatalf("there is no %s", l.tool)
	}
	return d
}

var defaultIn = regexp.MustCompile(`default (\d+)`)

// Every browser tool has its lesson, every field its row, and no row is about a
// field that is gone.
func TestLessonsCoverTheCatalog(t *testing.T) {
	taught := map[string]bool{}
	for _, l := range lessons {
		taught[l.tool] = true
		var input struct{ Properties map[string]map[string]any }
		if err := json.Unmarshal(l.descriptor(t).Input, &input); err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, r := range l.rows {
			said = append(said, strings.Split(r.fields, ", ")...)
			if m := defaultIn.FindStringSubmatch(r.means); m != nil {
				if have := fmt.Sprint(input.Properties[r.fields]["default"]); have != m[1] {
					t.Errorf("%s: %s is said to be %s if absent, it is %s", l.tool, r.fields, m[1], have)
				}
			}
		}
		for name := range input.Properties {
			if !slices.Contains(said, name) {
				t.Errorf("%s: nothing is said about %s", l.tool, name)
			}
		}
		for _, name := range said {
			if input.Properties[name] == nil {
				t.Errorf("%s: there is no field %s", l.tool, name)
			}
		}
	}
	for _, d := range tools(t).All() {
		if d.Tool.Family() == "browser" && !taught[d.Tool.Action()] {
			t.Errorf("%s has no lesson", d.Tool)
		}
	}
}

// exchangeForm is a call and its answer, as exchange writes them.
var exchangeForm = regexp.MustCompile("(?m)^```\\n(tool_[a-z_]+) (\\{.*\\})\\n\\n(\\{(?:.*\\}|(?:\\n .*)*\\n\\}))$")

// The pages on disk, without a browser or a desktop: every call in them is valid, every answer is
// one the tool may return, every code exists.
func TestPageFitsTheCatalog(t *testing.T) {
	fits(t, file, len(lessons)-1) // an audit needs what this machine may not have
}

func TestDesktopPageFitsTheCatalog(t *testing.T) {
	fits(t, "../../docs/desktop.md", 4)
}

func fits(t *testing.T, file string, least int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, block := range exchangeForm.FindAllStringSubmatch(string(text), -1) {
		d, ok := tools(t).ByWireName(block[1])
		if !ok {
			t.Errorf("there is no %s", block[1])
			continue
		}
		calls++
		if _, bad, err := d.SplitArgs([]byte(block[2])); err != nil || bad != nil {
			t.Errorf("%s %s: %v %v", block[1], block[2], bad, err)
		}
		if bad := d.ValidateResult([]byte(block[3])); bad != nil {
			t.Errorf("%s cannot answer %s: %v", block[1], block[3], bad)
		}
	}
	if calls < least {
		t.Errorf("%s: %d calls, at least %d are expected", file, calls, least)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [^|]+ \\| [^|]+ \\|$").FindAllStringSubmatch(string(text), -1) {
		if !capabilities.Code(m[1]).Known() {
			t.Errorf("there is no code %s", m[1])
		}
	}
}

// The page is what the tools answer today.
func TestPageIsTrue(t *testing.T) {
	if testing.Short() && !*update {
		t.Skip("drives Chrome")
	}
	p := open(t)
	made := p.page()
	if *update {
		if err := os.WriteFile(file, made, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, made) {
		t.Errorf("docs/tools.md is not what the tools answer; look at the difference, then: go test ./test/tooldoc -update\n%s", difference(have, made))
	}
}

// difference shows the first lines in which two texts differ.
func difference(a, b []byte) string {
	left, right := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
	for i := range min(len(left), len(right)) {
		if left[i] != right[i] {
			return fmt.Sprintf("line %d:\n- %s\n+ %s", i+1, strings.Join(left[i:min(i+6, len(left))], "\n- "), strings.Join(right[i:min(i+6, len(right))], "\n+ "))
		}
	}
	return fmt.Sprintf("%d lines, %d lines", len(left), len(right))
}

// page makes docs/tools.md.
func (p *place) page() []byte {
	var b bytes.Buffer
	head, err := os.ReadFile("testdata/head.txt")
	if err != nil {
		p.t.Fatal(err)
	}
	b.WriteString(strings.NewReplacer("{{walk}}\n", p.walk(), "{{refusal}}\n", p.refusal()).Replace(string(head)))
	b.WriteString("\n## The browser's tools\n\n")
	var index []string
	for _, l := range lessons {
		index = append(index, fmt.Sprintf("[%s](#%s)", l.tool, l.tool))
	}
	b.WriteString(strings.Join(index, " ·\n") + "\n\n")
	for i := range lessons {
		p.section(&b, &lessons[i])
	}
	p.others(&b)
	return b.Bytes()
}

// walk is the worked example of how a page is worked with.
func (p *place) walk() string {
	var b strings.Builder
	k := p.talk()
	defer k.end()
	for _, s := range []struct{ says, tool, args string }{
		{"Open the page and read it in one call.", "navigate", `{"url": "https://shop.example/", "snapshot": "full"}`},
		{"Act on a ref, and see what changed.", "click", `{"ref": "{ref Add bolt}", "snapshot": "delta"}`},
		{"Everything that was not in the delta is as it was. The other refs still hold, so the next step needs no new reading.", "click", `{"ref": "{ref Order}", "snapshot": "full"}`},
		{"Fill a form in one call.", "fill-form", `{"fields": [{"ref": "{ref Name}", "value": "Ada"}, {"ref": "{ref As a gift}", "value": "true"}]}`},
	} {
		args, r := k.call(s.tool, s.args)
		fmt.Fprintf(&b, "%s\n\n", s.says)
		p.exchange(&b, s.tool, args, r)
	}
	return b.String()
}

// refusal is one as a model reads it.
func (p *place) refusal() string {
	k := p.begin("/board", nil)
	defer k.end()
	args, r := k.call("click", `{"selector": "#archive"}`)
	if !r.IsError {
		p.t.Errorf("a covered element was clicked: %s", said(r))
	}
	return "```\n" + wire("click") + " " + args + "\n\n" + p.steady(said(r)).(string) + "\n```\n"
}

func (p *place) section(b *bytes.Buffer, l *lesson) {
	d := l.descriptor(p.t)
	fmt.Fprintf(b, "### %s\n\n**%s.** %s", l.tool, d.Title, d.Description)
	if l.says != "" {
		b.WriteString(" " + l.says)
	}
	if d.OnRequest {
		b.WriteString(" It is [listed on request](clients.md).")
	}
	b.WriteString("\n\n| field | |\n|---|---|\n")
	for _, r := range l.rows {
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.ReplaceAll(r.fields, ", ", "`, `"), r.means)
	}
	b.WriteString("\n")
	if l.args != "" { // else it needs what this machine may not have
		k := p.begin(l.at, l.past)
		args, r := k.call(l.tool, l.args)
		if r.IsError {
			p.t.Errorf("%s %s: %s", l.tool, args, said(r))
		}
		k.end()
		p.exchange(b, l.tool, args, r)
	}
	if l.back != "" {
		b.WriteString(l.back + "\n\n")
	}
	var more []string
	for _, e := range d.Examples {
		if compact(e.Args) != compact([]byte(l.args)) {
			more = append(more, fmt.Sprintf("- %s: `%s`", e.Title, spaced(e.Args)))
		}
	}
	if len(more) > 0 {
		fmt.Fprintf(b, "More calls:\n\n%s\n\n", strings.Join(more, "\n"))
	}
	if len(l.bad) == 0 {
		return
	}
	b.WriteString("| refused with | for example | what to do |\n|---|---|---|\n")
	defer b.WriteString("\n")
	for _, w := range l.bad {
		k := p.begin(w.at, w.past)
		args, r := k.call(l.tool, w.args)
		k.end()
		if !r.IsError {
			p.t.Errorf("%s %s is not refused: %s", l.tool, args, said(r))
			continue
		}
		var body struct {
			Error struct {
				Code          capabilities.Code
				Message, Hint string
			}
		}
		raw, _ := json.Marshal(p.steady(r.StructuredContent))
		if err := json.Unmarshal(raw, &body); err != nil {
			p.t.Fatal(err)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", body.Error.Code, cell(body.Error.Message), cell(body.Error.Hint))
	}
}

func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(s)
}

// begin opens the page of an example in a new conversation.
func (p *place) begin(at string, past []step) *talk {
	k := p.talk()
	if at != "" {
		past = append([]step{{"navigate", `{"url": "` + shownOrigin + at + `"}`}}, past...)
	}
	for _, s := range past {
		if _, r := k.call(s.tool, s.args); r.IsError {
			p.t.Errorf("%s %s: %s", s.tool, s.args, said(r))
		}
	}
	return k
}

func said(r *sdk.CallToolResult) string {
	var all []string
	for _, c := range r.Content {
		if text, ok := c.(*sdk.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return strings.Join(all, "\n")
}

// exchange writes a call and its answer. An outline is set below the answer,
// where its lines can be read.
func (p *place) exchange(b interface{ WriteString(string) (int, error) }, tool, args string, r *sdk.CallToolResult) {
	out, _ := p.steady(r.StructuredContent).(map[string]any)
	outline, has := out["snapshot"].(string)
	if has {
		out["snapshot"] = "…"
	}
	answer := laidOut(out)
	b.WriteString("```\n" + wire(tool) + " " + args + "\n\n" + answer + "\n")
	for _, c := range r.Content[1:] {
		if note, ok := c.(*sdk.TextContent); ok {
			b.WriteString(p.steady(note.Text).(string) + "\n")
		}
	}
	if has {
		b.WriteString("\n" + strings.TrimRight(outline, "\n") + "\n")
	}
	b.WriteString("```\n\n")
}

const lineWidth = 110

// laidOut writes an answer on one line, or else a field a line, and of lists that
// are too long an item a line.
func laidOut(out map[string]any) string {
	line := func(v any) string { text, _ := json.Marshal(v); return spaced(text) }
	whole := line(out)
	if len(whole) <= lineWidth {
		return whole
	}
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(out)) {
		value := line(out[name])
		if list, ok := out[name].([]any); ok && len(value) > lineWidth {
			items := make([]string, len(list))
			for i := range list {
				items[i] = "\n    " + line(list[i])
			}
			value = "[" + strings.Join(items, ",") + "\n  ]"
		}
		fields = append(fields, fmt.Sprintf("\n  %q: %s", name, value))
	}
	return "{" + strings.Join(fields, ",") + "\n}"
}

func compact(text []byte) string {
	var b bytes.Buffer
	_ = json.Compact(&b, text)
	return b.String()
}

// spaced writes JSON on one line as people do.
func spaced(text []byte) string {
	var b strings.Builder
	inside, escaped := false, false
	for _, c := range []byte(compact(text)) {
		b.WriteByte(c)
		switch {
		case escaped:
			escaped = false
		case inside && c == '\\':
			escaped = true
		case c == '"':
			inside = !inside
		case !inside && (c == ',' || c == ':'):
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// pageOf is the page of each family that has one of its own.
var pageOf = map[string]string{
	"desktop": "desktop.md", "camera": "sensors.md", "audio": "sensors.md", "fs": "files.md", "location": "location.md", "secret": "secrets.md", "web": "web.md",
}

// others lists the families that have a page of their own, and the gateway's tools.
func (p *place) others(b *bytes.Buffer) {
	b.WriteString("## The other families\n\nTheir names, fields and rules are fixed.\n\n| tool | what it does | |\n|---|---|---|\n")
	for _, d := range tools(p.t).All() {
		if d.Tool.Family() == "browser" || !d.ModelFacing {
			continue
		}
		where := "the gateway itself"
		if page := pageOf[d.Tool.Family()]; page != "" {
			where = "[" + page + "](" + page + ")"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", d.Tool, d.Description, where)
	}
}
