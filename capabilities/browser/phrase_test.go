package browser

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// A verdict is told with the effect and in the words of its causes.
func TestVerdictsAreWorded(t *testing.T) {
	full := capabilities.Errorf(capabilities.CodeOverloaded, "No more.").WithHint("Close one.")
	tab := evidence{cause: openedTab, tabs: []tabEntry{{Index: 1}, {Index: 2, URL: "http://a/"}}, unshown: true}
	for _, tc := range []struct {
		v    verdict
		want string
	}{
		{of(newDocument), "confirmed: a new document was opened"},
		{of(newDocument).with(evidence{cause: errorStatus, number: 404}),
			"confirmed: a new document was opened; the server answered with status 404"},
		{of(openedTab).after(newDocument), "confirmed: a new document was opened; a new tab was opened"},
		{of(sentRequest).with(evidence{cause: changedThen}), "confirmed: the page sent a request, and then changed"},
		{openedDialog.of("alert dialog").alone(), "confirmed: the page opened an alert dialog"},
		{openedDialog.of("confirm dialog").alone(), "confirmed: the page opened a confirm dialog"},
		{tabOverLimit.because(full).alone(), "partial: a new tab was closed at once. No more. Close one."},
		{errorPage.because(full).alone(), "partial: a navigation started, but ended in an error page. No more. Close one."},
		{of(changed).with(tab), "confirmed: the page changed; a new tab was opened, " +
			"tab 1, which shows nothing yet, tab 2, which the snapshot does not show"},
		{of(holdsText).with(evidence{cause: pressedEnter}).with(of(submitted).seen...).as(capabilities.EffectPartial),
			"partial: the field holds the text; Enter: a form was submitted"},
		{of(documentOpened).with(evidence{cause: showedNothing}), "confirmed: the document was opened, but showed nothing for 5 s"},
		{judge("unchanged", holdsText), "suspected_noop: the field did not change"},
		{judge("match", optionsSelected), "confirmed: the options are selected"},
		{judge("other", holdsText), "partial: the field changed, but holds something else: its page formats or limits it"},
		{changedByPage.of("fields[0], fields[2]").alone(), "partial: fields[0], fields[2]: changed or limited by the page"},
		{of(changed).after(noFieldFocus), "confirmed: no field has the focus, and the text went in as keys; the page changed"},
		{evidence{cause: tabOfBefore, number: 3}.alone(), "confirmed: tab 3 was opened by a page since the last call told of its tabs"},
	} {
		if got := string(tc.v.effect) + ": " + tc.v.words(); got != tc.want {
			t.Errorf("%s, want %s", got, tc.want)
		}
	}
}

// Each cause has its effect and words, and no two the same.
func TestEachCauseIsWorded(t *testing.T) {
	why := capabilities.Errorf(capabilities.CodeOverloaded, "No more.")
	said := map[string]cause{}
	for c := newDocument; c < causeEnd; c++ {
		e := evidence{cause: c, name: "x", why: why}
		if e.words() == "" || e.alone().effect == "" {
			t.Errorf("cause %d has no phrase", c)
		}
		if other, twice := said[e.words()]; twice {
			t.Errorf("causes %d and %d are both %q", other, c, e.words())
		}
		said[e.words()] = c
	}
	if len(phrases) != int(causeEnd)-1 {
		t.Errorf("%d phrases, %d causes", len(phrases), causeEnd-1)
	}
}

// Each answer of the page script has a cause, and each such cause is one of its answers.
func TestPageCausesAreThoseOfThePageScript(t *testing.T) {
	script, err := os.ReadFile("page/outcome.js")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	answer := regexp.MustCompile(`(?:evidence\(|found = )(?:type === 'paste' \? '(\w+)' : )?'(\w+)'`)
	for _, m := range answer.FindAllStringSubmatch(string(script), -1) {
		found[m[1]], found[m[2]] = true, true
	}
	delete(found, "")
	if got, want := slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(pageCauses)); !slices.Equal(got, want) {
		t.Errorf("the page script answers %v, known are %v", got, want)
	}
}

// No code asks what a sentence says: it asks for causes. A new wording changes nothing else.
func TestSentencesSteerNothing(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "phrase.go" {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range asksSentences(t, name, source) {
			t.Errorf("%s asks what a sentence says", at)
		}
	}
	for source, want := range map[string]int{
		`if v.words() == "x" {}`:                        1,
		`if out.Evidence != said {}`:                    1,
		`if strings.Contains(v.words(), "x") {}`:        1,
		`if strings.HasPrefix(out.Evidence, "x") {}`:    1,
		`switch out.Evidence { case "x": }`:             1,
		`if "a new tab was opened" == s {}`:             1,
		`out.Evidence = v.words() + standing.words()`:   0,
		`if v.only(newDocument) && v.has(openedTab) {}`: 0,
	} {
		if got := len(asksSentences(t, "try.go", []byte("package p\nfunc f() { "+source+" }"))); got != want {
			t.Errorf("%s: found %d, want %d", source, got, want)
		}
	}
}

// asksSentences lists where a source compares an evidence's sentence or looks into it, or
// spells one out.
func asksSentences(t *testing.T, name string, source []byte) (places []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for _, p := range phrases {
		words[p.words] = len(p.words) > 10
	}
	sentence := func(n ast.Expr) (is bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == "Evidence" || s.Sel.Name == "words") {
				is = true
			}
			return !is
		})
		return is
	}
	ast.Inspect(file, func(n ast.Node) bool {
		asks := false
		switch n := n.(type) {
		case *ast.BinaryExpr:
			asks = (n.Op == token.EQL || n.Op == token.NEQ) && (sentence(n.X) || sentence(n.Y))
		case *ast.SwitchStmt:
			asks = n.Tag != nil && sentence(n.Tag)
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok {
				if of, ok := f.X.(*ast.Ident); ok && of.Name == "strings" {
					asks = slices.ContainsFunc(n.Args, sentence)
				}
			}
		case *ast.BasicLit:
			said, err := strconv.Unquote(n.Value)
			asks = n.Kind == token.STRING && err == nil && words[said]
		}
		if asks {
			places = append(places, set.Position(n.Pos()).String())
		}
		return true
	})
	return places
}
