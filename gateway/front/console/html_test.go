package console

import (
	"strings"
	"testing"

	"golang.org/x/net/html/atom"

	nethtml "golang.org/x/net/html"

	"github.com/handrail-dev/handrail/capabilities"
)

// Whatever is given as text is one text to a browser's parser, and whatever is given
// as the value of an attribute comes back as that value.
func FuzzMarkup(f *testing.F) {
	for _, s := range []string{
		"plain", "<script>x</script>", `"><img src=x onerror=x>`, "'`&amp;&#60;", "\x00<\x00!--", "\xff\xfe<", "\u202e<b>", "]]>", "</p><p>", "\r\n\t", "&", "<!--", "<![CDATA[", "\u2028",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, piece := range map[string]html{"text": text(s), "lines": lines(s)} {
			body := parse(t, el("p", attrs{"title", s, "data-x", s}, piece).s)
			para := body.FirstChild
			if para == nil || para.DataAtom != atom.P || para.NextSibling != nil {
				t.Fatalf("%s: %q breaks out", name, s)
			}
			if c := para.FirstChild; c != nil && (c.Type != nethtml.TextNode || c.NextSibling != nil) {
				t.Fatalf("%s: %q is not one text", name, s)
			}
			if len(para.Attr) != 2 {
				t.Fatalf("%q makes attributes: %v", s, para.Attr)
			}
			for _, a := range para.Attr {
				if !strings.ContainsAny(s, "\x00") && strings.ToValidUTF8(s, "") == s && a.Val != s {
					t.Fatalf("an attribute gives %q for %q", a.Val, s)
				}
			}
		}
		for _, r := range strings.ReplaceAll(text(s).s, "\\", "") {
			if capabilities.Hidden(r) {
				t.Fatalf("%q leaves %U hidden", s, r)
			}
		}
		link := el("a", attrs{"href", s, "onclick", s, "style", s}, text("x")).s
		a := parse(t, link).FirstChild
		if strings.ToValidUTF8(s, "") != s {
			return // what is no text is written out, behind what was checked
		}
		if len(a.Attr) != 1 || !ownAddress(a.Attr[0].Val) {
			t.Fatalf("an address leads away: %s", link)
		}
	})
}

func parse(t *testing.T, s string) *nethtml.Node {
	t.Helper()
	doc, err := nethtml.Parse(strings.NewReader("<!doctype html><body>" + s))
	if err != nil {
		t.Fatal(err)
	}
	return doc.LastChild.LastChild
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
}
