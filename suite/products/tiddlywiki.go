package products

import (
	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
)

// tiddlyWiki is a notebook in one page, whose notes (tiddlers) are kept by its server.
func tiddlyWiki() *product {
	p := &product{name: "tiddlywiki", pkg: "tiddlywiki", server: server{
		program: "tiddlywiki/tiddlywiki.js",
		args:    func(p place) []string { return []string{p.dir, "--listen", "host=127.0.0.1", "port=" + p.port} },
		files: map[string]string{
			"tiddlywiki.info": `{"plugins":["tiddlywiki/tiddlyweb","tiddlywiki/filesystem"],` +
				`"themes":["tiddlywiki/vanilla","tiddlywiki/snowwhite"]}`,
			"tiddlers/Tea.tid":    "title: Tea\ntags: drinks\n\nGreen or black\n",
			"tiddlers/Coffee.tid": "title: Coffee\ntags: drinks\n\nBeans from Kenya\n",
			"tiddlers/Old.tid":    "title: Old\n\nTo be thrown away\n",
		},
		ready: "/status",
	}}
	tiddler := func(title string) string { return "{tiddlywiki}/recipes/default/tiddlers/" + title }
	found := func(words, title string) []any {
		return []any{open("{tiddlywiki}/"), comes("GettingStarted"), filled(words, "searchbox"), click(`link "` + title + `"`)}
	}
	editor := `"Type the text for this tiddler"`
	p.does("write", "writes a tiddler with a tag and a text, and confirms it", "the server has all three",
		open("{tiddlywiki}/"), comes("GettingStarted"), click(`button "new tiddler"`), filled("Cocoa", "tc-titlebar"),
		filled("drinks", `"tag name"`), click(`button "add"`),
		filled("Milk and sugar", editor), click(`button "Confirm changes`),
		answers(tiddler("Cocoa"), nil, holds(`"Cocoa"`, `"drinks"`, `"Milk and sugar"`)))
	p.does("search", "types into the search and clicks what is found", "the tiddler is open",
		append(found("Kenya", "Coffee"), shows("Beans from Kenya"))...)
	p.does("edit", "opens a tiddler, replaces its text and confirms it", "the server has the text, and the tag as it was",
		append(found("Green", "Tea"), click(`button "Edit this tiddler"`), filled("White or oolong", editor), click(`button "Confirm changes`),
			answers(tiddler("Tea"), nil, holds(`"White or oolong"`, `"drinks"`)))...)
	p.does("delete", "opens a tiddler, deletes it and accepts the question", "the server has it no more",
		append(found("thrown", "Old"), click(`button "Edit this tiddler"`), click(`button "Delete this tiddler"`),
			browser.Do("handle-dialog", suite.With("accept", true)), answers(tiddler("Old"), nil, gone))...)
	return p
}
