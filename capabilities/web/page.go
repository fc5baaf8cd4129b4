package web

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

// page is what is left of an HTML document.
type page struct {
	title string
	text  string // Markdown
	links []link
	cut   bool // the document was longer than what is read
}

// Bounds of a page.
const (
	maxTitle    = 300 // characters
	maxLinks    = 200
	maxLinkText = 200    // characters
	maxMainSize = 30_000 // nodes up to which the main part is looked for
	maxMarkdown = 8 << 20
)

// convert makes a page of an HTML document. It never fails: what cannot be read as a document is
// read as text. It ends by itself, within what prune leaves.
func convert(text string, at *url.URL, main bool) (p page) {
	defer func() {
		if recover() != nil { // a library's fault is a worse text, and not the node's end
			p = page{text: bare(text)}
		}
	}()
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil { // nested deeper than any page is
		return page{text: bare(text)}
	}
	p.title = titleOf(doc)
	size, cut := prune(doc, at)
	p.cut = cut
	from := doc
	if main && size <= maxMainSize {
		if found := mainPart(doc, at); found != nil {
			from = found
		}
	}
	p.links = linksOf(from)
	markdown, err := writer().ConvertNode(from)
	if err != nil {
		return page{title: p.title, text: bare(text), links: p.links}
	}
	p.text = clean(capabilities.Clip(strings.TrimSpace(string(markdown)), maxMarkdown))
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
func linksOf(from *html.Node) []link {
	var all []link
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
		all = append(all, link{Text: capabilities.Brief(line(n), maxLinkText), URL: to})
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
	z.SetMaxBuf(maxBody)
	for skip := ""; ; {
		switch z.Next() {
		case html.ErrorToken:
			return clean(strings.TrimSpace(b.String()))
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
