package console

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"text/template/parse"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/handrail-dev/handrail/capabilities"
)

// sheet is a folder with one page, whose body is some markup.
func sheet(body string) fstest.MapFS {
	return fstest.MapFS{
		"parts/layout.html": {Data: []byte(`<!doctype html><html><body>{{block "body" .}}{{end}}</body></html>`)},
		"parts/parts.html":  {Data: []byte(`{{define "part"}}<b>{{.}}</b>{{end}}`)},
		"pages/one.html":    {Data: []byte(`{{define "body"}}` + body + `{{end}}`)},
	}
}

// parsed returns the pages of a folder, each of which can be made.
func parsed(from fs.FS) (*pages, error) {
	all, err := readPages(from)
	if err != nil {
		return nil, err
	}
	for name := range all.names() {
		if _, err := all.page(name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// rendered is the body of such a page.
func rendered(t *testing.T, body string, data any) string {
	t.Helper()
	pages, err := parsed(sheet(body))
	if err != nil {
		t.Fatal(err)
	}
	page, err := (&Console{pages: pages}).render("one", data)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "<body>")
	before, _, _ := strings.Cut(after, "</body>")
	return before
}

// All that is given as text is one text to a browser's parser, with nothing hidden in it;
// what is given as the value of a form comes back as that value; no address leads away.
func FuzzMarkup(f *testing.F) {
	for _, s := range []string{
		"plain", "<script>x</script>", `"><img src=x onerror=x>`, "'`&amp;&#60;", "\x00<\x00!--", "\xff\xfe<", "\u202e<b>", "]]>", "</p><p>", "\r\n\t", "&", "<!--", "<![CDATA[", "\u2028",
		"</textarea><script>", "\n\nx", "javascript:x", "//evil.example", "/console/../x", "a+b", "\u200b\U000e0041",
	} {
		f.Add(s)
	}
	pages, err := parsed(sheet(`<p title="{{.}}" data-x="{{value .}}">{{.}}</p><pre>{{lines .}}</pre><textarea>{{kept .}}</textarea><input value="{{value .}}"><a href="{{own .}}">x</a><code>{{.}}</code>`))
	if err != nil {
		f.Fatal(err)
	}
	c := &Console{pages: pages}
	f.Fuzz(func(t *testing.T, s string) {
		page, err := c.render("one", s)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := html.Parse(strings.NewReader(string(page)))
		if err != nil {
			t.Fatal(err)
		}
		var got []*html.Node
		for n := range doc.LastChild.LastChild.ChildNodes() {
			got = append(got, n)
		}
		want := []atom.Atom{atom.P, atom.Pre, atom.Textarea, atom.Input, atom.A, atom.Code}
		for i, n := range got {
			if len(got) != len(want) || n.DataAtom != want[i] {
				t.Fatalf("%q breaks out: %s", s, page)
			}
		}
		for _, n := range got[:3] {
			if c := n.FirstChild; c != nil && (c.Type != html.TextNode || c.NextSibling != nil) {
				t.Fatalf("%q is not one text", s)
			}
		}
		if len(got[0].Attr) != 2 || len(got[3].Attr) != 1 || len(got[4].Attr) != 1 {
			t.Fatalf("%q makes attributes: %s", s, page)
		}
		for _, shown := range []string{got[0].Attr[0].Val, words(got[0])} {
			if strings.ContainsFunc(shown, capabilities.Hidden) {
				t.Fatalf("%q stays hidden in %q", s, shown)
			}
		}
		if i := strings.IndexFunc(words(got[1]), func(r rune) bool { return r != '\n' && r != '\t' && capabilities.Hidden(r) }); i >= 0 {
			t.Fatalf("%q stays hidden in lines", s)
		}
		if strings.ToValidUTF8(s, "") == s && !strings.ContainsRune(s, 0) {
			for _, back := range []string{got[0].Attr[1].Val, got[3].Attr[0].Val, words(got[2])} {
				if parserLines(back) != parserLines(s) {
					t.Fatalf("%q comes back as %q", s, back)
				}
			}
		}
		var code strings.Builder
		for n := range got[5].ChildNodes() {
			if n.Type != html.TextNode && n.DataAtom != atom.Wbr {
				t.Fatalf("%q makes an element of code: %s", s, page)
			}
			if n.Type == html.TextNode {
				code.WriteString(n.Data)
			}
		}
		if code.String() != words(got[0]) {
			t.Fatalf("%q reads %q in code", s, code.String())
		}
		if !ownAddress(got[4].Attr[0].Val) {
			t.Fatalf("an address leads away: %s", page)
		}
	})
}

func words(n *html.Node) string {
	if n.FirstChild == nil {
		return ""
	}
	return n.FirstChild.Data
}

// parserLines are line ends as a browser's parser reads them; forms undo it.
func parserLines(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// A template that would print something otherwise than by the function of its place is not
// taken, nor one that holds what no page holds.
func TestTemplatesAreRefused(t *testing.T) {
	for body, says := range map[string]string{
		`<p>{{value .}}</p>`:                      "has to end with show",
		`<p>{{kept .}}</p>`:                       "has to end with show",
		`<p title="{{value .}}"></p>`:             "has to end with show",
		`<p aria-label="{{lines .}}"></p>`:        "has to end with show",
		`<p>{{value . | print}}</p>`:              "goes on after value",
		`<p>{{own .}}</p>`:                        "is no address",
		`<textarea>{{.}}</textarea>`:              "has to end with kept",
		`<textarea>{{lines .}}</textarea>`:        "has to end with kept",
		`<a href="{{.}}">x</a>`:                   "is an address that neither",
		`<a href="/console/{{.}}">x</a>`:          "is an address that neither",
		`<a href="/console/{{at .}}">x</a>`:       "is an address that neither",
		`<form action="{{value .}}"></form>`:      "is an address that neither",
		`<p {{.}}>x</p>`:                          "stands in a tag",
		`<p title={{.}}>x</p>`:                    "has no quotes",
		`<p onclick="x">x</p>`:                    "has no place",
		`<p style="{{.}}">x</p>`:                  "has no place",
		`<script>x</script>`:                      "a script stands in a page",
		`<style>p{}</style>`:                      "there is no <style>",
		`<p title="{{template "part" .}}">x</p>`:  "within a tag",
		`{{template "nowhere" .}}`:                `there is no "nowhere"`,
		`<p title="x`:                             "ends within a tag",
		`{{if .}}<p title="{{else}}<p>{{end}}x`:   "ends elsewhere",
		`<form data-does="POST /v1/stop"></form>`: "without asking .Offers",
		`{{if .Offers "GET /v1/x"}}<form data-does="POST /v1/stop"></form>{{end}}`:             "without asking .Offers",
		`{{if .Offers "POST /v1/stop"}}{{else}}<form data-does="POST /v1/stop"></form>{{end}}`: "without asking .Offers",
		`{{if not (.Offers "POST /v1/stop")}}<form data-does="POST /v1/stop"></form>{{end}}`:   "without asking .Offers",
		`{{if or (.Offers "POST /v1/stop") .X}}<form data-does="POST /v1/stop"></form>{{end}}`: "without asking .Offers",
		`{{if .Offers "POST /v1/stop"}}{{end}}<form data-does="POST /v1/stop"></form>`:         "without asking .Offers",
		`{{range .}}<p data-does="{{.Route}}">x</p>{{end}}`:                                    "without asking .Offers",
	} {
		if _, err := parsed(sheet(body)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", body, err, says)
		}
	}
	for _, body := range []string{
		`{{if .Offers "POST /v1/stop"}}<form data-does="POST /v1/stop"></form>{{end}}`,
		`{{if and .X ($.Offers "POST /v1/stop")}}<form data-does="POST /v1/stop"></form>{{end}}`,
		`{{range .}}{{if $.Offers .Route}}<p data-does="{{.Route}}">x</p>{{end}}{{end}}`,
		`<option value="{{value .}}"{{if .}} selected{{end}}>{{.}}</option>`,
	} {
		if _, err := parsed(sheet(body)); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// Each action of each page that there is ends with a function that makes its value safe to
// read, or with one that only stands where nobody reads it. This looks at the trees alone,
// not at how they came to be so.
func TestEveryActionIsShown(t *testing.T) {
	pages, err := parsed(markup)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for name := range pages.names() {
		page, err := pages.page(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range page.Templates() {
			if one.Tree == nil {
				continue
			}
			eachAction(one.Tree.Root, func(a *parse.ActionNode) {
				seen++
				id, ok := a.Pipe.Cmds[len(a.Pipe.Cmds)-1].Args[0].(*parse.IdentifierNode)
				if !ok || id.Ident != "show" && id.Ident != "term" && !slices.Contains(special, id.Ident) {
					t.Errorf("%s, %s: %s prints a value as it is", name, one.Name(), a)
				}
			})
		}
	}
	if seen < 1000 {
		t.Errorf("only %d actions were looked at", seen)
	}
}

func eachAction(list *parse.ListNode, do func(*parse.ActionNode)) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			if len(n.Pipe.Decl) == 0 {
				do(n)
			}
		case *parse.IfNode:
			eachAction(n.List, do)
			eachAction(n.ElseList, do)
		case *parse.WithNode:
			eachAction(n.List, do)
			eachAction(n.ElseList, do)
		case *parse.RangeNode:
			eachAction(n.List, do)
			eachAction(n.ElseList, do)
		}
	}
}

// Line ends and indentation are for who reads a template: between elements they are nothing,
// in a sentence and in a tag they are one space.
func TestLineEndsAreForReaders(t *testing.T) {
	for body, want := range map[string]string{
		"<p>a</p>\n\t<p>b</p>\n":                "<p>a</p><p>b</p>",
		"<p>\n\t<b>x</b>\n</p>":                 "<p><b>x</b></p>",
		"<p>one\n\ttwo</p>":                     "<p>one two</p>",
		"<b>x</b> <b>y</b>":                     "<b>x</b> <b>y</b>",
		"<p\n\ttitle=\"a\n b\">x</p>":           "<p title=\"a\n b\">x</p>",
		"{{if .}}\n<b>x</b>\n{{end}}\n<i>y</i>": "<b>x</b><i>y</i>",
		"{{.}}\nand":                            "v and",
		"<input{{if .}} checked{{end}}{{if .}} required{{end}}\n\tname=\"n\">": "<input checked required name=\"n\">",
	} {
		if got := rendered(t, body, "v"); got != want {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
}

// A capability key breaks behind its dots on a phone, and anything else in code stays as it is.
func TestKeysBreakBehindDots(t *testing.T) {
	for text, want := range map[string]string{
		"privileged.admin.mutate_policy": "privileged.<wbr>admin.<wbr>mutate_<wbr>policy",
		"tool.fs.read":                   "tool.fs.read",
		"c06h2j2fid0s6u5r12hasi7317k":    "c06h2j2fid0s6u5r12hasi7317k",
		"https://auth.example/a?b=1":     "https://auth.example/a?b=1",
		"privileged.<b>.mutate.policy":   "privileged.&lt;b&gt;.mutate.policy",
	} {
		if got := rendered(t, "<code>{{.}}</code>", text); got != "<code>"+want+"</code>" {
			t.Errorf("%s: %s", text, got)
		}
	}
	if got := rendered(t, "<p>{{.}}</p>", "privileged.admin.mutate_policy"); strings.Contains(got, "wbr") {
		t.Error(got)
	}
}

// A page that cannot be made to its end is an error, whole: nobody gets the half that could.
func TestNobodyGetsHalfAPage(t *testing.T) {
	pages, err := parsed(sheet(`<p>the first half</p>{{.Missing.Field}}`))
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{API: offering(true), Sessions: noSessions{}, Passkeys: noPasskeysKept{}})
	if err != nil {
		t.Fatal(err)
	}
	c.pages = pages
	for _, name := range []string{"one", "nowhere"} {
		w := httptest.NewRecorder()
		c.write(w, httptest.NewRequest(http.MethodGet, "/console/stop", nil), http.StatusOK, name, struct{ Missing *struct{ Field string } }{})
		if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "half") || !strings.Contains(w.Body.String(), "cannot be shown") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if w.Header().Get("Content-Security-Policy") != pagePolicy {
			t.Errorf("%s: no policy", name)
		}
	}
}

func TestAddressesStayInside(t *testing.T) {
	for s, ok := range map[string]bool{
		"/console/": true, "/console/calls?x=1": true, "#main": true, "?a=b": true,
		"//evil.example": false, "https://evil.example": false, "javascript:x": false, "/\\evil.example": false, "/console/\\..": false, "": false, "/v1/stop": false,
		"/console/\t/": false, " javascript:x": false,
	} {
		if ownAddress(s) != ok {
			t.Errorf("%q: %v", s, !ok)
		}
	}
	if got := within("people", "../a b", capabilities.PrincipalID("ann")); got != "/console/people/..%2Fa%20b/ann" {
		t.Errorf("segments become %q", got)
	}
}

// Every page has a file, and every file a page.
func TestPagesAreNamed(t *testing.T) {
	pages, err := templates()
	if err != nil {
		t.Fatal(err)
	}
	for name := range pages.names() {
		if _, ok := specimens[name]; !ok {
			t.Errorf("no test fills %s", path.Join("pages", name+".html"))
		}
	}
}
