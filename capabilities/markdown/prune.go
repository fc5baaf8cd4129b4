package markdown

import (
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Bounds of a document. Each is far above what pages have, and keeps the time and the size of
// what is made of a document near those of the document itself.
const (
	maxNodes  = 50_000
	maxDepth  = 100     // elements above one another
	maxQuotes = 6       // quotes and lists inside one another: each begins every line of its text anew
	maxRefs   = 4 << 20 // bytes of all addresses, made whole
	maxRef    = 2048    // bytes of one
)

// left are elements that say nothing to a reader.
var left = []atom.Atom{
	atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Iframe, atom.Object, atom.Embed, atom.Svg, atom.Math, atom.Canvas, atom.Audio,
	atom.Video, atom.Link, atom.Meta, atom.Base, atom.Input, atom.Select, atom.Textarea, atom.Button, atom.Dialog, atom.Frameset,
}

// pruner takes from a document what is not read.
type pruner struct {
	base  *url.URL
	nodes int
	refs  int // bytes
}

// prune takes from a document what is not read, makes its addresses whole, and keeps it within the
// bounds. It returns how many nodes are left, and whether there were more.
func prune(doc *html.Node, at *url.URL) (nodes int, cut bool) {
	p := &pruner{base: baseOf(doc, at)}
	p.children(doc, 0, 0)
	return p.nodes, p.nodes >= maxNodes
}

// baseOf is what relative addresses of a document are relative to.
func baseOf(doc *html.Node, at *url.URL) *url.URL {
	for n := range doc.Descendants() {
		if n.DataAtom != atom.Base {
			continue
		}
		if to, err := at.Parse(strings.TrimSpace(attribute(n, "href"))); err == nil && (to.Scheme == "http" || to.Scheme == "https") &&
			len(to.String()) <= maxRef {
			return to
		}
		break
	}
	return at
}

// children goes through what is below a node. An element beyond a bound of nesting is put in the
// place of nothing: its children take it.
func (p *pruner) children(parent *html.Node, depth, quotes int) {
	for n := parent.FirstChild; n != nil; {
		next := n.NextSibling
		switch {
		case n.Type == html.CommentNode, n.Type == html.ElementNode && hidden(n), p.nodes >= maxNodes:
			parent.RemoveChild(n)
		case n.Type == html.ElementNode:
			inner := quotes
			if quoting(n) {
				inner++
			}
			if depth >= maxDepth || inner > maxQuotes {
				if first := n.FirstChild; first != nil {
					next = first
				}
				unwrap(n)
				break
			}
			p.nodes++
			p.attributes(n)
			p.children(n, depth+1, inner)
		default:
			p.nodes++
		}
		n = next
	}
}

func quoting(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Blockquote, atom.Ul, atom.Ol, atom.Table:
		return true
	}
	return false
}

// unwrap puts an element's children in its place.
func unwrap(n *html.Node) {
	for c := n.FirstChild; c != nil; c = n.FirstChild {
		n.RemoveChild(c)
		n.Parent.InsertBefore(c, n)
	}
	n.Parent.RemoveChild(n)
}

// hidden reports whether an element is not read: by what it is, or since no browser shows it.
func hidden(n *html.Node) bool {
	if slices.Contains(left, n.DataAtom) || n.Namespace != "" {
		return true
	}
	for _, a := range n.Attr {
		switch style := strings.ToLower(strings.Join(strings.Fields(a.Val), "")); {
		case a.Key == "hidden", a.Key == "aria-hidden" && style == "true":
			return true
		case a.Key == "style" && (strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden")):
			return true
		}
	}
	return false
}

// attributes keeps of an element's attributes what is needed: addresses, what pictures show, and
// the words by which the main part is found.
func (p *pruner) attributes(n *html.Node) {
	kept := n.Attr[:0]
	for _, a := range n.Attr {
		switch {
		case a.Namespace != "":
		case a.Key == "href" && n.DataAtom == atom.A, a.Key == "src" && n.DataAtom == atom.Img:
			if a.Val = p.whole(a.Val); a.Val != "" {
				kept = append(kept, a)
			}
		case slices.Contains([]string{"alt", "id", "class", "role", "lang", "start", "itemprop", "rel"}, a.Key) && len(a.Val) <= 512:
			kept = append(kept, a)
		}
	}
	n.Attr = kept
}

// whole is an address of the web, made whole; "" for any other, and beyond the bounds.
func (p *pruner) whole(ref string) string {
	if len(ref) > maxRef {
		return ""
	}
	to, err := p.base.Parse(strings.TrimSpace(ref))
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.User != nil {
		return ""
	}
	text := Clean(to.String())
	if len(text) > maxRef || p.refs+len(text) > maxRefs {
		return ""
	}
	p.refs += len(text)
	return text
}
