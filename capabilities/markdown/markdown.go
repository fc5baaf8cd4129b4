package markdown

import (
	"net/url"
	"strings"

	"codeberg.org/readeck/go-readability/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/handrail-dev/handrail/capabilities"
)

// Page is what is left of an HTML document.
type Page struct {
	Title string
	Text  string // Markdown
	Links []Link
	Cut   bool // the document was longer than what is read
}

// Link is a place that a page leads to.
type Link struct {
	Text string `json:"text"`
	URL  string `json:"url"`
}

// Bounds of a page.
const (
	maxTitle    = 300 // characters
	maxLinks    = 200
	maxLinkText = 200     // characters
	maxMainSize = 30_000  // nodes up to which the main part is looked for
	maxBare     = 4 << 20 // bytes of one token of a document that is no tree
	maxMarkdown = 8 << 20
)

// Convert makes a page of an HTML document: where main is set, of its main content alone, or of all
// but menus, banners and footers if none stands out. It never fails: what cannot be read as a
// document is read as text. It ends by itself, within what prune leaves.
func Convert(text string, at *url.URL, main bool) (p Page) {
	defer func() {
		if recover() != nil { // a library's fault is a worse text, and not the node's end
			p = Page{Text: bare(text)}
		}
	}()
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil { // nested deeper than any page is
		return Page{Text: bare(text)}
	}
	p.Title = titleOf(doc)
	size, cut := prune(doc, at)
	p.Cut = cut
	from := doc
	if main {
		var found *html.Node
		if size <= maxMainSize {
			found = mainPart(doc, at)
		}
		if found != nil {
			from = found
		} else {
			unframe(doc)
		}
	}
	p.Links = linksOf(from)
	markdown, err := writer().ConvertNode(from)
	if err != nil {
		return Page{Title: p.Title, Text: bare(text), Links: p.Links}
	}
	p.Text = Clean(capabilities.Clip(strings.TrimSpace(string(markdown)), maxMarkdown))
	return p
}

// writer makes Markdown. Cells are not padded: that would make a table as wide as its widest
// cell in every row.
func writer() *converter.Converter {
	return converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(),
		table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal), table.WithHeaderPromotion(true))))
}

// mainPart is a document's main content; nil where it has none that stands out, as a page that
// is a list of links.
func mainPart(doc *html.Node, at *url.URL) *html.Node {
	reader := readability.NewParser()
	reader.DisableJSONLD = true
	if !reader.CheckDocument(doc) {
		return nil
	}
	article, err := reader.ParseDocument(doc, at)
	if err != nil || article.Node == nil {
		return nil
	}
	return article.Node
}

func titleOf(doc *html.Node) string {
	for n := range doc.Descendants() {
		if n.DataAtom == atom.Title && n.Namespace == "" {
			return capabilities.Brief(line(n), maxTitle)
		}
	}
	return ""
}

// line is a node's text on one line.
func line(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode && b.Len() < 4096 {
			b.WriteString(capabilities.Clip(c.Data, 4096))
			b.WriteByte(' ')
		}
	}
	return strings.Join(strings.Fields(capabilities.Printable(strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' {
			return ' '
		}
		return c
	}, b.String()))), " ")
}

// linksOf lists where a part of a document leads, each place once, in order.
func linksOf(from *html.Node) []Link {
	var all []Link
	seen := map[string]bool{}
	for n := range from.Descendants() {
		if n.DataAtom != atom.A {
			continue
		}
		to := attribute(n, "href")
		if to == "" || seen[to] {
			continue
		}
		seen[to] = true
		all = append(all, Link{Text: capabilities.Brief(line(n), maxLinkText), URL: to})
		if len(all) == maxLinks {
			break
		}
	}
	return all
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}

// bare is the text of a document that is no tree: its words, without tags and scripts.
func bare(text string) string {
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(text))
	z.SetMaxBuf(maxBare)
	for skip := ""; ; {
		switch z.Next() {
		case html.ErrorToken:
			return Clean(strings.TrimSpace(b.String()))
		case html.StartTagToken:
			if name, _ := z.TagName(); string(name) == "script" || string(name) == "style" {
				skip = string(name)
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); string(name) == skip {
				skip = ""
			}
		case html.TextToken:
			if words := strings.Fields(string(z.Text())); skip == "" && len(words) > 0 {
				b.WriteString(strings.Join(words, " ") + "\n")
			}
		}
	}
}

// Clean takes out what nobody sees: it is there to say something to a model that people do not
// read. Lines and tabs stay.
func Clean(text string) string {
	return strings.Map(func(c rune) rune {
		if c != '\n' && c != '\t' && capabilities.Hidden(c) {
			return -1
		}
		return c
	}, text)
}
