package console

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"iter"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template/parse"
)

// Each page is a file of pages, which defines what stands in the frame of parts/layout.html.
// A page says {{.Name}}; what that becomes is decided here, once for all, by the place that
// it stands in. Nothing in a page can decide it otherwise.

//go:embed pages/*.html parts/*.html
var markup embed.FS

// functions are what pages can call. Those of special end what an action says; every other
// action is ended by show, or in code by term.
var functions = template.FuncMap{
	"show": show, "term": term, "lines": lines, "value": value, "kept": kept, "at": within, "own": own,
	"named": pairOf, "list": list, "took": took, "count": count, "stamp": stamp, "clock": clock,
}

// special are the functions that an action may end with in place of show.
var special = []string{"lines", "value", "kept", "at", "own"}

// templates are the pages of this program; the first console has their parts parsed.
var templates = sync.OnceValues(func() (*pages, error) { return readPages(markup) })

// pages are templates by their names. A page holds a copy of all parts, because the same part is
// escaped by where it stands, so each is made when it is first wanted: made at once, they took
// 12 MB of a gateway whose console nobody opens.
type pages struct {
	made map[string]func() (*template.Template, error)
}

// readPages reads the parts of a folder, and which pages it has.
func readPages(from fs.FS) (*pages, error) {
	base, err := template.New("parts").Funcs(functions).ParseFS(from, "parts/*.html")
	if err != nil {
		return nil, err
	}
	if err := settle(base, base); err != nil {
		return nil, err
	}
	files, err := fs.Glob(from, "pages/*.html")
	if err != nil {
		return nil, err
	}
	all := &pages{made: map[string]func() (*template.Template, error){}}
	for _, file := range files {
		all.made[strings.TrimSuffix(path.Base(file), ".html")] = sync.OnceValues(func() (*template.Template, error) {
			return makePage(base, from, file)
		})
	}
	return all, nil
}

// names returns the pages' names, in no order.
func (p *pages) names() iter.Seq[string] { return maps.Keys(p.made) }

// page returns a page. The error says that there is none of that name, or what is wrong with it.
func (p *pages) page(name string) (*template.Template, error) {
	made := p.made[name]
	if made == nil {
		return nil, fmt.Errorf("console: there is no page %q", name)
	}
	return made()
}

// makePage makes a page of a file and the parts.
func makePage(base *template.Template, from fs.FS, file string) (*template.Template, error) {
	mine, err := template.New("page").Funcs(functions).ParseFS(from, file)
	if err != nil {
		return nil, err
	}
	page, err := base.Clone()
	if err != nil {
		return nil, err
	}
	for _, t := range mine.Templates() {
		if t.Tree == nil || t.Name() == path.Base(file) { // what stands outside of definitions is for readers
			continue
		}
		if _, err := page.AddParseTree(t.Name(), t.Tree); err != nil {
			return nil, err
		}
	}
	if err := settle(mine, page); err != nil {
		return nil, fmt.Errorf("console: %s: %w", file, err)
	}
	return page, nil
}

// settle decides what becomes of each action in some templates; whole has all that they can
// name.
func settle(some, whole *template.Template) error {
	var errs []error
	for _, t := range some.Templates() {
		if t.Tree == nil || t.Tree.Root == nil {
			continue
		}
		r := reader{name: t.Name(), whole: whole}
		if end := r.walk(t.Tree.Root, spot{}, nil); end.in != inText {
			r.refuse("it ends within a tag")
		}
		errs = append(errs, r.errs...)
	}
	return errors.Join(errs...)
}

// spot is where in a page's markup something stands.
type spot struct {
	in    region
	tag   string // the last that was opened
	attr  string // in a value: whose
	value string // in a value: what it has so far, actions as {{…}}
	src   bool   // in a tag: it has a src
}

type region int

const (
	inText region = iota
	inTag
	inValue
)

// The attributes of places.
var (
	addresses = []string{"href", "src", "action", "formaction", "data-passkey"} // lead somewhere
	spoken    = []string{"title", "alt", "placeholder", "aria-label"}           // are read by people
	banned    = []string{"style", "srcdoc"}                                     // and what begins with on
	bannedTag = []string{"style", "iframe", "object", "embed", "base", "frame", "applet"}
)

// reader walks one template.
type reader struct {
	name  string
	whole *template.Template
	errs  []error
}

func (r *reader) refuse(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("template %s: %s", r.name, fmt.Sprintf(format, args...)))
}

// walk settles nodes that begin at p, where the visitor is offered some routes, and returns
// where they end.
func (r *reader) walk(list *parse.ListNode, p spot, offered []string) spot {
	if list == nil {
		return p
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			n.Text = r.text(n.Text, &p, offered)
		case *parse.ActionNode:
			if len(n.Pipe.Decl) == 0 {
				r.action(n.Pipe, &p)
			}
		case *parse.IfNode:
			p = r.branch(&n.BranchNode, p, offered)
		case *parse.WithNode:
			p = r.branch(&n.BranchNode, p, offered)
		case *parse.RangeNode:
			p = r.branch(&n.BranchNode, p, offered)
		case *parse.TemplateNode:
			if p.in != inText {
				r.refuse("it names %q within a tag", n.Name)
			}
			if r.whole.Lookup(n.Name) == nil {
				r.refuse("there is no %q", n.Name)
			}
		}
	}
	return p
}

func (r *reader) branch(n *parse.BranchNode, p spot, offered []string) spot {
	yes := r.walk(n.List, p, append(slices.Clip(offered), offers(n.Pipe)...))
	if no := r.walk(n.ElseList, p, offered); no.in != yes.in {
		r.refuse("%s ends elsewhere than it begins", n.Pipe)
	}
	return yes
}

// offers are the routes that a condition asks about, as they are written there.
func offers(pipe *parse.PipeNode) []string {
	var all []string
	for _, c := range pipe.Cmds {
		if id, ok := c.Args[0].(*parse.IdentifierNode); ok && id.Ident != "and" {
			continue // not, or: what it holds does not say that all of it holds
		}
		for i, a := range c.Args {
			if inner, ok := a.(*parse.PipeNode); ok {
				all = append(all, offers(inner)...)
			}
			if s := a.String(); i+1 < len(c.Args) && (s == ".Offers" || strings.HasSuffix(s, ".Offers")) {
				all = append(all, c.Args[i+1].String())
			}
		}
	}
	return all
}

// action ends an action by the function that its place wants.
func (r *reader) action(pipe *parse.PipeNode, p *spot) {
	last := ""
	for i, c := range pipe.Cmds {
		id, ok := c.Args[0].(*parse.IdentifierNode)
		if ok && i == len(pipe.Cmds)-1 && slices.Contains(special, id.Ident) {
			last = id.Ident
		} else if ok && slices.Contains(special, id.Ident) {
			r.refuse("%s goes on after %s", pipe, id.Ident)
		}
	}
	wants := "show"
	switch leads := last == "at" || last == "own"; {
	case p.in == inTag:
		r.refuse("%s stands in a tag", pipe)
	case p.in == inValue && slices.Contains(addresses, p.attr):
		if !leads || p.value != "" {
			r.refuse("%s is an address that neither at nor own makes", pipe)
		}
		wants = last
	case leads:
		r.refuse("%s is no address", pipe)
	case p.in == inText && p.tag == "textarea":
		wants = "kept"
	case p.in == inText && last == "lines":
		wants = last
	case p.in == inValue && last == "value" && !slices.Contains(spoken, p.attr):
		wants = last
	}
	if p.in == inValue {
		p.value += "{{" + pipe.String() + "}}"
	}
	switch {
	case last == wants:
	case last != "" || wants != "show":
		r.refuse("%s has to end with %s where it stands", pipe, wants)
	default:
		if p.in == inText && p.tag == "code" {
			wants = "term"
		}
		pipe.Cmds = append(pipe.Cmds,
			&parse.CommandNode{NodeType: parse.NodeCommand, Pos: pipe.Pos, Args: []parse.Node{parse.NewIdentifier(wants).SetPos(pipe.Pos)}})
	}
}

// text follows markup and returns it without the line ends and the indentation that are for
// its readers: between elements they go, elsewhere they are one space.
func (r *reader) text(s []byte, p *spot, offered []string) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if p.in != inValue && (c == ' ' || c == '\n' || c == '\t') {
			end := i
			for end < len(s) && (s[end] == ' ' || s[end] == '\n' || s[end] == '\t') {
				end++
			}
			switch run := s[i:end]; {
			case bytes.IndexByte(run, '\n') < 0:
				out = append(out, run...)
			case p.in == inText && (len(out) == 0 || out[len(out)-1] == '>') && (end == len(s) || s[end] == '<'):
			default:
				out = append(out, ' ')
			}
			i = end - 1
			continue
		}
		out = append(out, c)
		switch {
		case p.in == inText && c == '<':
			name := tagName(s[i+1:])
			*p = spot{in: inTag, tag: name}
			if slices.Contains(bannedTag, name) {
				r.refuse("there is no <%s> in a page", name)
			}
		case p.in == inTag && c == '>':
			if p.tag == "script" && !p.src {
				r.refuse("a script stands in a page")
			}
			p.in = inText
		case p.in == inTag && c == '=':
			p.attr, p.value = attributeName(out), ""
			p.src = p.src || p.attr == "src"
			if i+1 == len(s) || s[i+1] != '"' {
				r.refuse("the value of %s has no quotes", p.attr)
			}
			if slices.Contains(banned, p.attr) || strings.HasPrefix(p.attr, "on") {
				r.refuse("%s has no place in a page", p.attr)
			}
		case p.in == inTag && c == '"':
			p.in = inValue
		case p.in == inValue && c == '"':
			p.in = inTag
			if p.attr == "data-does" && !slices.Contains(offered, strconv.Quote(p.value)) && !slices.Contains(offered, strings.Trim(p.value, "{}")) {
				r.refuse("it shows what does %s without asking .Offers", p.value)
			}
		case p.in == inValue:
			p.value += string(c)
		}
	}
	return out
}

func tagName(s []byte) string {
	end := bytes.IndexAny(s, " \n\t>")
	if end < 0 {
		end = len(s)
	}
	return strings.ToLower(string(s[:end]))
}

func attributeName(upTo []byte) string {
	s := upTo[:len(upTo)-1]
	return strings.ToLower(string(s[bytes.LastIndexAny(s, " \"")+1:]))
}

// render makes a page of a template, whole or not at all.
func (c *Console) render(name string, data any) ([]byte, error) {
	t, err := c.pages.page(name)
	if err != nil {
		return nil, err
	}
	root := "layout.html"
	if t.Lookup("whole") != nil {
		root = "whole" // what stands in no frame
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, root, data); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// write sends a page. One that cannot be made is an answer of its own: nobody gets half of it.
func (c *Console) write(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	page, err := c.render(name, data)
	if err != nil {
		c.opts.Log.Error("console.page", "page", name, "error", err)
		status, page = http.StatusInternalServerError, []byte(broken)
	}
	guardHeaders(w)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Encoding")
	// Not packed: a page holds the session's CSRF value beside what others wrote
	// (BREACH), and loopback has room.
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(page) // the visitor went away: nobody to tell
	}
}

// broken is what there is in place of a page that cannot be made.
const broken = "<!doctype html>\n<html lang=\"en\"><title>Handrail</title><h1>This page cannot be shown</h1><p>The gateway’s log says " +
	"why. <a href=\"/console/stop\">Stop switch</a></p></html>"
