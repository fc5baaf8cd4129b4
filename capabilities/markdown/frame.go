package markdown

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// minRest is how many characters a page has besides what frames it, if it is read without that.
const minRest = 80

// unframe takes out of a document what frames its content: menus, banners and footers. A page that
// says hardly anything else stays as it is.
func unframe(doc *html.Node) {
	var frames []*html.Node
	rest := 0
	var visit func(n *html.Node, content bool)
	visit = func(n *html.Node, content bool) {
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			switch {
			case c.Type == html.TextNode:
				rest += len(strings.TrimSpace(c.Data))
			case c.Type != html.ElementNode || c.DataAtom == atom.Head:
			case len(frames) >= maxLinks:
				visit(c, content)
			case framing(c, content):
				frames = append(frames, c)
			default:
				visit(c, content || c.DataAtom == atom.Article || c.DataAtom == atom.Main || c.DataAtom == atom.Section)
			}
		}
	}
	visit(doc, false)
	if rest < minRest {
		return
	}
	for _, n := range frames {
		n.Parent.RemoveChild(n)
	}
}

// framing reports whether an element frames a page's content. The header or footer of a part of
// the content is content.
func framing(n *html.Node, content bool) bool {
	switch attribute(n, "role") {
	case "navigation", "banner", "contentinfo", "menubar":
		return true
	}
	return n.DataAtom == atom.Nav || !content && (n.DataAtom == atom.Header || n.DataAtom == atom.Footer)
}
