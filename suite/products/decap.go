package products

import (
	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
)

// decap is an editor of a site's posts, kept as files by a server beside it.
func decap() *product {
	p := &product{name: "decap", pkg: "decap-cms-app", server: server{
		program: "decap-server/dist/index.js",
		args:    func(place) []string { return nil },
		env: func(p place) []string {
			return []string{"PORT=" + p.port, "BIND_HOST=127.0.0.1", "MODE=fs", "GIT_REPO_DIRECTORY=" + p.dir}
		},
		files: map[string]string{
			"posts/first.md": "---\ntitle: First\nkind: note\ndraft: false\n---\nOnce upon a time\n",
			"posts/old.md":   "---\ntitle: Old\nkind: note\ndraft: false\n---\nTo be thrown away\n",
		},
		ready: "/",
	}}
	start := browser.HTML(page("decap.html"))
	entry := func(name string) map[string]any {
		return map[string]any{"action": "getEntry", "params": map[string]any{"branch": "main", "path": "posts/" + name + ".md"}}
	}
	entered := []any{start, comes("Login"), click(`button "Login"`), comes("First")}
	publish := []any{click(`button "Publish"`), click("Publish now")}
	p.does("write", "writes a post with a title, a kind, a switch and a text, and publishes it", "the file has all four",
		append(append(entered, click("Create entry of type Post"), comes("Rich Text"), filled("Second", `textbox "Title"`),
			chosen("essay", `combobox "Kind"`), filled("true", `switch "Draft`), typed("Hello ", "textbox", "[multiline]"),
			click(`button "Bold"`), typedHere("world")),
			publish[0], publish[1],
			answers("{decap}/api/v1", entry("second"), holds("title: Second", "kind: essay", "draft: true", "Hello **world**")))...)
	p.does("edit", "opens a post, replaces its text and publishes it", "the file has the text, and the title as it was", append(entered,
		click(`link "First"`), comes("Rich Text"), filled("Twice upon a time", "textbox", "[multiline]"), publish[0], publish[1],
		answers("{decap}/api/v1", entry("first"), holds("title: First", "Twice upon a time")))...)
	p.does("delete", "opens a post, deletes it and accepts the question", "the file is there no more", append(entered,
		click(`link "Old"`), comes("Rich Text"), click("Delete"), browser.Do("handle-dialog", suite.With("accept", true)),
		answers("{decap}/api/v1", map[string]any{"action": "entriesByFolder",
			"params": map[string]any{"branch": "main", "folder": "posts", "extension": "md", "depth": 1}}, lacks("old.md")))...)
	return p
}
