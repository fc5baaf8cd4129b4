package tooldoc

// requested are the lessons of the tools that are listed on request.
var requested = []lesson{
	{
		tool: "read",
		says: "Only what is shown is read, shadow roots and frames of the same origin included; fields and buttons are left out. What a page says costs a half or less of what its outline does.",
		rows: []row{
			{"ref, selector", "only this part of the page: one table, one article"},
			{"main_content", "`false` reads all of it, menus, footers and frames of other origins too; default: the main content, where one stands out, else all but menus, banners and footers"},
			{"start_index", "where to begin, for the next part: `next_index` of the answer before"},
			{"max_chars", "at most so many characters; default 20000"},
			{"links", "lists each place it leads to once, beside the links in the text"},
		},
		at: "/", args: `{}`,
		bad: []wrong{{at: "/", args: `{"selector": "#nothing"}`}},
	},
	{
		tool: "cookies",
		says: "They are the conversation's own. The value of a cookie is withheld where its server keeps it from the page's scripts (`http_only`), or its name speaks of a session, a token or a sign-in. " +
			"Setting one asks a person by shipped policy; in a person's own Chrome nothing is read or changed.",
		rows: []row{
			{"action", "`list`, `set` or `delete`"}, {"origin", "whose; default that of the page"},
			{"name", "the one of that name; `delete` without deletes all of the origin"},
			{"value, path, secure, http_only, same_site", "of the cookie that is set; the path is `/` unless given"},
			{"lasts_s", "seconds that it lasts; without, it ends with the browser"},
		},
		at: "/", args: `{"action": "list"}`,
		bad: []wrong{{at: "/", args: `{"action": "list", "origin": "file:///etc"}`}},
	},
	{
		tool: "storage",
		says: "Values are cut after 200 characters in a list; with `key` one is whole, up to 32 KiB.",
		rows: []row{
			{"action", "`list`, `set` or `delete`"}, {"kind", "`local` (default), or `session`, which is of this tab's page only"},
			{"origin", "whose; default that of the page. Another's is read in an empty page of it, which asks its server nothing"},
			{"key", "the one of that key; `delete` without deletes all"}, {"value", "of the entry that is set"},
		},
		at: "/", args: `{"action": "set", "key": "basket", "value": "1 bolt"}`,
		bad: []wrong{{at: "/", args: `{"action": "list", "kind": "session", "origin": "https://other.example"}`}},
	},
	{
		tool: "pdf",
		rows: []row{
			{"keep_as", "the name of the [artifact](artifacts.md); default `page.pdf`"},
			{"paper, landscape, css_page_size", "`a4` (default), `letter` and others; `css_page_size` takes what the page's style names"},
			{"background", "colours and pictures behind the text, too; default `true`"},
			{"scale", "of what is on it, 0.1 to 2"}, {"pages", "only these, such as `1-3, 5`"},
		},
		at: "/", args: `{"keep_as": "shop.pdf"}`,
		bad: []wrong{{at: "/", args: `{"pages": "900"}`}},
	},
	{
		tool: "network-rules",
		says: "The latest rule that matches counts. They hold in frames and workers, too, and a page's service worker is passed by meanwhile. A mock's answer has the header `X-Handrail-Rule`; " +
			"every call's `evidence` says how many requests rules answered, blocked, delayed or changed since the call before. Shipped policy lets an agent block, delay and record, and asks a person about " +
			"`mock`, `headers` and `replay`, which need the key `network.browser.mock`. In a person's own Chrome there are none.",
		rows: []row{
			{"action", "`add` one, `list`, `remove` (one by `id`, or all), `record` the tab's requests as a HAR 1.2 file, `replay` the answers of one"},
			{"id", "of the rule to remove"},
			{"kind", "`block`; `mock`: answer in the server's place; `delay`; `headers`: add these to requests for one origin, and to no redirect elsewhere"},
			{"match", "whole addresses; `*` stands for any characters"}, {"method", "only requests of it"},
			{"status, content_type, body", "of a mock's answer; `200` unless said"}, {"headers", "of the mock's answer, or of the requests"},
			{"delay_ms", "how long to wait; of a mock, too"}, {"har", "for `replay`: the file's text; at most 200 requests"},
			{"bodies", "for `record`: the answers' bodies too, 16 MiB together; headers with secrets are without their values"},
			{"keep_as", "for `record`: the name of the [artifact](artifacts.md); default `requests.har`"},
		},
		at: "/", args: `{"action": "add", "kind": "block", "match": "https://ads.example/*"}`,
		bad: []wrong{{at: "/", args: `{"action": "add", "kind": "headers", "match": "*", "headers": {"X-Test": "1"}}`}},
	},
	{
		tool: "performance",
		says: "Times are in milliseconds. An interaction below 104 ms counts for INP only if it was the page's first. A trace is of the main threads of the page and its frames: what kind of work they did (`main_thread`), " +
			"the scripts that it was due to, and the longest tasks. Chrome records one at a time; other calls of the conversation have their turn meanwhile, unless the page is loaded anew.",
		rows: []row{
			{"reload", "loads the page anew first, as `navigate-back` does"},
			{"trace_ms", "record for so long; with `reload`, from before it until so long after the page can be worked with"},
		},
		at: "/", args: `{}`,
	},
	{
		tool: "audit",
		says: "Handrail does not ship axe-core: the node's owner fetches it (`npm pack axe-core`), and names its file and what it must be with `--browser-audit` and `--browser-audit-sha256`; a file that is another is not run. " +
			"It runs apart from the page's own scripts, in the frames of the page too, whoever's they are: `frame` of a place is where it is, `frames_left_out` counts those that did not answer. `to_be_looked_at` are rules that only a person can judge on this page.",
		rows: []row{
			{"selector", "only this part of the page"}, {"tags", "only rules of these, such as `wcag2a`, `wcag2aa`, `best-practice`"},
			{"max_places", "of each rule that is broken; default 3"},
		},
		bad: []wrong{{at: "/", args: `{}`}},
	},
}
