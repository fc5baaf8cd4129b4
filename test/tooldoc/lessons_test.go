package tooldoc

import "slices"

// lesson is what the page says about one tool beyond the catalog.
type lesson struct {
	tool string
	says string  // after the catalog's description; may be empty
	rows []row   // every field of the tool, in the order of reading
	at   string  // the shop's page it happens on
	past []step  // calls made first, which the page does not show
	args string  // the call that is shown, if any; {ref NAME} is the ref of what has that name
	back string  // what to look for in the answer; may be empty
	bad  []wrong // refusals one meets
}

type row struct{ fields, means string }

type step struct{ tool, args string }

// wrong is a call that is refused. The page shows the code, what the answer said
// and what it said to do.
type wrong struct {
	at   string
	past []step
	args string
}

const (
	target = "which element: its ref in a snapshot (best), or a CSS selector; both reach into frames and shadow roots"
	after  = "`delta`: the answer brings what changed since the snapshot before (all, if there is none); `full`: the whole page; default `none`"
)

// lessons are of every tool, the usual ones first.
var lessons = slices.Concat(usual, requested)

var usual = []lesson{
	{
		tool: "launch",
		says: "The state of a browser is empty at first and gone at the end, unless a profile or a stored state is named. A stored state stays on the node.",
		rows: []row{
			{"headless", "`false` shows a window on the node; shipped policy asks a person first"},
			{"browser", "`chromium`, the only one"},
			{"profile", "keeps cookies and logins on the node under this name; one conversation at a time may use it"},
			{"storage_state", "loads what `close` saved under this name"},
			{"attach", "works in the Chrome that the person runs, where the node's owner allows it and a person agrees"},
		},
		args: `{"headless": true}`,
		bad:  []wrong{{args: `{"storage_state": "never-saved"}`}, {args: `{"attach": true, "headless": true}`}},
	},
	{
		tool: "navigate",
		rows: []row{
			{"url", "with its scheme"},
			{"wait_until", "`load` (default: until the page can be worked with), `domcontentloaded`, `network_quiet` (nothing loads any more), or `none` (waits a second for the server, no longer)"},
			{"snapshot", after},
		},
		args: `{"url": "https://shop.example/", "snapshot": "full"}`,
		back: "`status` is that of the page. A dialog that opens meanwhile is in `dialog`, a file that came instead of a page in `downloads`.",
		bad:  []wrong{{args: `{"url": "file:///etc/passwd"}`}, {args: `{"url": "https://nowhere.invalid/"}`}},
	},
	{
		tool: "navigate-back",
		rows: []row{{"direction", "`back` (default), `forward` or `reload`"}, {"snapshot", after}},
		at:   "/", past: []step{{"navigate", `{"url": "https://shop.example/order"}`}},
		args: `{}`,
		bad:  []wrong{{at: "/", args: `{"direction": "forward"}`}},
	},
	{
		tool: "snapshot",
		says: "One outline for the document, its frames and its shadow roots. Each line is a role, a name, states in brackets and the value; what can be acted on, or dropped on (`dropzone`), has a ref. " +
			"Hidden things are left out, and so is what a password field holds. Long pages are cut, and say so: take a part by `ref`, or look with `search`. " +
			"A field's text is cut after 300 characters, with a count, and a list after 12 choices: by its `ref` it is whole.",
		rows: []row{
			{"ref, selector", "only this part of the page"},
			{"search", "only the lines with this text, in any case of letters, and what they are in"},
			{"regex", "then `search` is a pattern of RE2, of at most 1000 bytes: `^` is the line's role, and `(?i)` ignores the case of letters"},
			{"context_lines", "with `search`: so many lines before and after each line found, too"},
			{"interactive_only", "only what can be acted on"},
			{"depth", "how many levels deep"},
			{"max_chars", "how long it may be, 200 to 200000; default 14000"},
			{"boxes", "adds `[box=x,y,width,height]`, in CSS pixels of the viewport"},
			{"since", "only what changed since that `snapshot_id`, or since the `last` one of this tab"},
		},
		at: "/", args: `{}`,
		back: "`truncated` and `omitted_chars` say that something was left out; `snapshot_id` is for a later `since`, whose answer has `delta`, or says first why it is not a delta.",
		bad:  []wrong{{at: "/", args: `{"selector": "#nothing"}`}},
	},
	{
		tool: "click",
		says: "Real input: the element is scrolled into view, tested for being covered or disabled, and clicked. The answer comes at the first thing that happened, or with what the requests that the click began brought (`still_open` names what had not come after 2 s); if nothing happened for 250 ms, its effect is `suspected_noop`.",
		rows: []row{
			{"ref, selector", target},
			{"x, y", "instead: a point of the viewport in CSS pixels, for canvas and the like"},
			{"position", "offset from the element's top left corner; default its centre"},
			{"button, count, modifiers", "`right`; 2 for a double click; held keys such as `Shift`"},
			{"hold_ms", "how long the button is held"},
			{"action", "`down` or `up` alone, to build gestures of one's own; a button that is down is not pressed again (`conflict`)"},
			{"snapshot", after},
		},
		at: "/", past: []step{{"snapshot", `{}`}}, args: `{"ref": "{ref Add bolt}", "snapshot": "delta"}`,
		bad: []wrong{
			{at: "/board", args: `{"selector": "#archive"}`}, {at: "/", args: `{"ref": "{ref Add washer}"}`},
			{at: "/", args: `{"ref": "e999"}`}, {at: "/", args: `{"selector": "button"}`},
		},
	},
	{
		tool: "type",
		says: "Text goes in at once where nothing listens to keys, and key by key where something does. It is in no answer, log or ledger.",
		rows: []row{
			{"ref, selector", target + "; without, the text goes where the focus is"},
			{"text", "what to type"},
			{"clear", "empties the field first"},
			{"submit", "presses Enter after"},
			{"slowly", "always key by key"},
			{"snapshot", after},
		},
		at: "/", args: `{"ref": "{ref Search}", "text": "hex bolt"}`,
		bad: []wrong{{at: "/", args: `{"ref": "{ref Add bolt}", "text": "x"}`}},
	},
	{
		tool: "fill-form",
		says: "Editors of rich text and of code are fields, too: what they would make of typed text (indents, closing brackets, lists), they do not make of this.",
		rows: []row{
			{"fields", "up to 64 of `ref` or `selector` with `value`"},
			{"ref, selector", "or one field: " + target},
			{"value", "text; `true` or `false` for a checkbox or radio button; the label or value for a select (one a line, if it takes several)"},
			{"snapshot", after},
		},
		at: "/order", args: `{"fields": [{"ref": "{ref Name}", "value": "Ada"}, {"ref": "{ref Delivery}", "value": "Express"}, {"ref": "{ref As a gift}", "value": "true"}]}`,
		bad: []wrong{{at: "/order", args: `{"selector": "#delivery", "value": "By pigeon"}`}},
	},
	{
		tool: "select-option",
		says: "The list may be native or one that the page draws itself. Of a native one that is hidden behind the page's own, the value is set first, and holds if the page's own shows it. " +
			"Otherwise the page's own list is opened, scrolled or searched, clicked in and closed; the evidence says which way it was, and `selected` what is shown then. " +
			"A choice that the list does not have leaves it closed and as it was.",
		rows: []row{{"ref, selector", target}, {"values", "labels or values of the options; an empty list chooses none"}, {"snapshot", after}},
		at:   "/order", args: `{"ref": "{ref Delivery}", "values": ["Express"]}`,
		bad: []wrong{{at: "/order", args: `{"selector": "#name", "values": ["x"]}`}},
	},
	{
		tool: "hover",
		rows: []row{
			{"ref, selector", target}, {"x, y", "instead: a point of the viewport in CSS pixels"},
			{"wheel_x, wheel_y", "turns the wheel there by so many pixels; positive is right and down"},
			{"snapshot", after},
		},
		at: "/board", past: []step{{"snapshot", `{}`}}, args: `{"selector": ".more", "snapshot": "delta"}`,
	},
	{
		tool: "drag",
		rows: []row{
			{"source_ref, source_selector", "what to drag"}, {"target_ref, target_selector", "where to drop it"},
			{"path", "instead: 2 to 256 points of the viewport that the pressed pointer goes along"},
			{"data", "instead of a source: a `text`, `html` or `uri`, or several of them, as another program would let it be dropped. Files are dropped by `upload-file`"},
			{"duration_ms", "how long that takes"}, {"snapshot", after},
		},
		at: "/board", past: []step{{"snapshot", `{}`}}, args: `{"source_selector": "#card", "target_selector": "#done", "snapshot": "delta"}`,
	},
	{
		tool: "press-key",
		rows: []row{
			{"key", "a name such as `Enter` or `ArrowDown`, a character, or a chord such as `Control+Shift+K`"},
			{"modifiers", "held keys, if the chord does not say them"},
			{"ref, selector", "focused first; default: where the focus is"},
			{"count, hold_ms", "how often; how long it is held"},
			{"snapshot", after},
		},
		at: "/", past: []step{{"snapshot", `{}`}}, args: `{"key": "Tab", "snapshot": "delta"}`,
		bad: []wrong{{at: "/", args: `{"key": "Hyper"}`}},
	},
	{
		tool: "screenshot",
		rows: []row{
			{"ref, selector", "only this element"}, {"full_page", "all of the page, not only the viewport"},
			{"clip", "only this rectangle, in CSS pixels"}, {"scale", "0.1 to 3: smaller or larger than on the screen"},
			{"format, quality", "`png` (default), `jpeg` or `webp`; 1 to 100"},
			{"annotate", "draws the refs on it, with a `legend`"},
			{"keep_as", "keeps the picture as a file (an [artifact](artifacts.md)) of this name, and leaves it out of the answer"},
		},
		at: "/", past: []step{{"resize", `{"width": 800, "height": 600}`}}, args: `{"annotate": true, "scale": 0.5}`,
		back: "The image itself comes as image content. It has at most 8,000 pixels on a side, and 5 MB in base64: models take no more. A full page that is longer, or larger, is cut: `left_out` says from where on (`y`) and how much (`height`), and the same call with a `clip` from there returns the rest. Anything else is scaled down, and `scale` says to what. A picture that `keep_as` keeps may have 16,384 pixels on a side, and 32 MiB.",
	},
	{
		tool: "evaluate",
		rows: []row{
			{"expression", "JavaScript; a promise is awaited until the call's deadline"},
			{"ref", "then `expression` is a function that is given this element"},
			{"max_chars", "how much of the value is given: 32768 unless said, at most 1048576"},
		},
		at: "/", args: `{"expression": "document.links.length"}`,
		back: "A longer value is cut: `result` is then the beginning of the text, or of the JSON, with `…`, and `omitted_chars` counts the rest. More than 1 MiB is refused. A script of `run-code` is given all.",
		bad:  []wrong{{at: "/", args: `{"expression": "basket.vlaue.trim()"}`}, {at: "/", args: `{"expression": "new Promise(() => {})", "timeout_ms": 300}`}},
	},
	{
		tool: "wait-for",
		says: "Rarely needed: calls answer when their effect shows. It ends as soon as all that is given holds at once.",
		rows: []row{
			{"text, text_gone", "this text is on the page, or is not"},
			{"selector, state", "this element is `visible` (default), `hidden` or `attached`"},
			{"url", "the address holds this, or fits this pattern with `*`"},
			{"load_state", "`domcontentloaded`, `load`, or `network_quiet`"},
			{"function", "a JavaScript expression that becomes true; it cannot change the page"},
			{"timeout_ms", "0 to 60000; default 30000; the page is asked once at least"},
		},
		at: "/soon", args: `{"text": "Thank you", "timeout_ms": 5000}`,
		back: "Not in time is no error: `matched` is then false.",
		bad:  []wrong{{at: "/", args: `{"state": "hidden"}`}},
	},
	{
		tool: "tabs",
		rows: []row{
			{"action", "`list` (default), `new`, `select` or `close`"},
			{"index", "for `select` and `close`: the tab's place in the list"}, {"url", "for `new`"},
			{"switch_to", "the same as `select` with this index"},
		},
		at: "/", args: `{"action": "new", "url": "https://shop.example/order"}`,
		bad: []wrong{{at: "/", args: `{"action": "select", "index": 7}`}},
	},
	{
		tool: "upload-file",
		rows: []row{
			{"ref, selector", "the file input, or what takes dropped files; without one, the file chooser that the page has opened"},
			{"paths", "files of the node, in the folders that its owner allows"},
		},
		at: "/order", args: `{"ref": "{ref Drawing}", "paths": ["bolt.svg"]}`,
		bad: []wrong{{at: "/order", args: `{"selector": "#file", "paths": ["/etc/passwd"]}`}},
	},
	{
		tool: "console-messages",
		rows: []row{
			{"level", "the least severe to give: `error`, `warning`, `info` or `debug`"},
			{"since", "only what came after this `last` of an earlier answer; 0 for all that is kept, of pages before, too"},
			{"before", "only what is older than this `seq`"},
			{"limit", "at most so many, the newest, in 200 KiB; unless said 100, in 32 KiB"},
			{"clear", "forgets them after"},
		},
		back: "Unless `since` is given, it lists what the tab's present document said; `evidence` counts what pages before it did. `omitted` counts the older ones that were left out: `before` with the first `seq` of the answer returns them.",
		at:   "/soon", past: []step{{"wait-for", `{"text": "Thank you"}`}}, args: `{"level": "error"}`,
	},
	{
		tool: "network-requests",
		rows: []row{
			{"filter", "only addresses that hold this"}, {"types", "only these: `document`, `script`, `xhr`, `fetch`, …"},
			{"since", "only what came after this `last` of an earlier answer; 0 for all that are kept, those of pages before, too"},
			{"before", "only what is older than the one with this `id`"},
			{"limit", "at most so many, the newest, in 200 KiB; unless said 100, in 32 KiB"},
			{"id", "one request in detail"}, {"body", "with `id`: its bodies too"},
			{"download", "the `id` of a download: returns its bytes"},
			{"keep_as", "with `download`: keeps the file as an [artifact](artifacts.md) of this name, and leaves it out of the answer"},
		},
		at: "/soon", past: []step{{"wait-for", `{"text": "Thank you"}`}}, args: `{"types": ["fetch"]}`,
		back: "Unless `since` is given, it lists what the tab's present document asked for, itself and what was redirected to it included. `omitted` counts the older ones that were left out: a larger `limit` returns them, or `before` with the `id` of the oldest listed. A tab's newest 1000 are kept; `evidence` counts the others. In detail, `Cookie`, `Set-Cookie`, `Authorization` and `Proxy-` headers are named, their values hidden.",
		bad:  []wrong{{at: "/", args: `{"id": "r999"}`}},
	},
	{
		tool: "resize",
		says: "Holds for every tab of the conversation, also for new ones. A setting that is not given stays as it is. `cpu_slowdown` and `network_speed` need the key `network.browser.throttle`, which shipped policy grants.",
		rows: []row{
			{"width, height", "of the viewport; both or neither"}, {"device_scale_factor, mobile, user_agent", "the device"},
			{"color_scheme, reduced_motion", "what its person prefers"}, {"locale, timezone, geolocation", "the place, such as `de-CH`, `Europe/Zurich`; its `accuracy` is in metres"},
			{"offline", "no network at all"}, {"network_speed", "`fast-4g`, `slow-4g`, `3g`, or `full` again"}, {"cpu_slowdown", "how many times slower scripts run; `1` again as fast"},
		},
		at: "/", args: `{"width": 390, "height": 844, "mobile": true, "color_scheme": "dark"}`,
	},
	{
		tool: "close",
		rows: []row{{"save_storage_state", "keeps cookies and storage on the node under this name, for `launch`"}},
		at:   "/", args: `{"save_storage_state": "shop"}`,
	},
	{
		tool: "handle-dialog",
		says: "Dialogs never block a call: whatever call meets one reports it in `dialog`.",
		rows: []row{{"accept", "`true` for yes, `false` for no"}, {"prompt_text", "what to enter into a prompt"}, {"snapshot", after}},
		at:   "/order", past: []step{{"click", `{"ref": "{ref Send order}"}`}}, args: `{"accept": true, "snapshot": "delta"}`,
	},
	{
		tool: "run-code",
		says: "For many steps without a look between them. `page` has every tool of the browser but launch, close, upload-file and run-code, in camel case; each returns its tool's answer with `effect` beside it, " +
			"or throws an Error with `code`, `message` and `hint`. `page.ref(name, role)` is the ref of the one element of that name, so that a form of ten fields costs one call: " +
			"`page.fillForm({fields: [{ref: page.ref('Name'), value: 'Ada'}, …]})`. `page.expect(ok, what)` ends the script where `ok` does not hold, and says what was expected. " +
			"`page.keep(name, value)` keeps a value: an error's details have it under `kept`, with `done`, the number of steps that stay done. [run-code.d.ts](run-code.d.ts) declares all of it for TypeScript. The script runs apart from the page, in a process that has no files and no network of its own; for the page's own variables use `page.evaluate`.",
		rows: []row{{"code", "the body of an async function, or a function of `page`; `console.log` adds to `log`, which comes in an error's details too"}},
		at:   "/", args: `{"code": "page.click({ref: '{ref Add bolt}'}); page.click({ref: '{ref Order}'}); console.log(page.tabs().tabs.length, 'tab'); return page.evaluate('document.title')"}`,
		bad: []wrong{{at: "/", args: `{"code": "page.click({ref: 'e999'})"}`}, {at: "/", args: `{"code": "while (true) {}", "timeout_ms": 500}`}},
	},
}
