package desktop

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// An agent's reading: windows, trees, and what selectors find.

var someForm = file("form.html")

// outline reads the outline of the suite's window.
func outline(more ...obj) step {
	args := with("outline", true, "window", "{title}")
	for _, m := range more {
		for k, v := range m {
			args[k] = v
		}
	}
	return call("snapshot", args)
}

// shows reads the outline until a line of it holds all the words: a browser tells
// of a new page in its own time.
func shows(words ...string) step {
	return soon(func(r *run) string {
		outline()(r)
		text, _ := r.Last().Result["outline"].(string)
		for line := range strings.Lines(text) {
			all := true
			for _, w := range words {
				all = all && strings.Contains(line, w)
			}
			if all {
				return ""
			}
		}
		return "the outline has no line with " + strings.Join(words, ", ") + ":\n" + capabilities.Brief(text, 2500)
	})
}

// found waits until a selector finds something.
func found(selector string) step {
	return func(r *run) {
		call("wait-for", with("selector", in(selector), "state", "exists", "timeout_ms", 20000))(r)
		field("status", "satisfied")(r)
	}
}

func snapshots() []*behaviour {
	return []*behaviour{
		b("snapshot.windows", "the list of windows", "each with title, application, process and bounds; the active one is on top and focused",
			someForm,
			call("snapshot", obj{}), among("windows", "{title}"), check(func(r *run, c *suite.Call) string {
				e := r.entry("windows", "{title}")
				if e["focused"] != true || suite.Number(e, "z") != 0 || suite.Number(e, "bounds.width") < 300 || suite.Number(e, "pid") == 0 ||
					e["app"] == "" || e["app"] == nil {
					return suite.Brief(e)
				}
				return ""
			})),
		b("snapshot.outline", "the elements as text", "one element a line, with role, name and ref", someForm, shows("button", "Save", "e"),
			shows("checkbox", "Wrap lines"),
			func(r *run) {
				// A ref of the outline is one that query understands.
				text, _ := r.Last().Result["outline"].(string)
				ref := refIn(text, "Spelling")
				if ref == "" {
					r.Fail("no ref on the line with Spelling:\n%s", capabilities.Brief(text, 2500))
				}
				r.vars["ref"] = ref
				call("query", with("selector", "{ref}"))(r)
				field("matches.0.node.name", "Spelling")(r)
			}),
		b("snapshot.tree", "the elements as JSON", "a tree with roles, names, states and bounds", someForm, shows("Save as"),
			call("snapshot", with("include_tree", true, "window", "{title}")), func(r *run) {
				n := inTree(suite.Pick(r.Last().Result, "tree.root"), "button", "Save")
				if n == nil || suite.Number(n, "bounds.width") < 10 {
					r.Fail("the tree has no button Save with bounds: %s", suite.Brief(n))
				}
			}),
		b("snapshot.diff", "what changed since the last one", "only the changed lines", someForm, shows("Save as"),
			soon(func(r *run) string {
				keep("id", "snapshot_id")(r)
				outline(with("diff_since", known("id")))(r)
				if text, _ := r.Last().Result["outline"].(string); strings.TrimSpace(text) != "" && !strings.Contains(text, "nothing") {
					keep("id", "snapshot_id")(r)
					return "nothing was changed, and the difference is " + capabilities.Brief(text, 800)
				}
				return ""
			}),
			keep("id", "snapshot_id"), inPage("document.body.append(Object.assign(document.createElement('button'), { textContent: 'Fresh' }))"),
			found("role:button && name:Fresh"),
			outline(with("diff_since", known("id"))), field("diff_of", known("id")), field("outline", "Fresh"), noField("outline", "Wrap lines")),
		b("snapshot.bounded", "at most twenty elements", "twenty, and it says that there are more", someForm, shows("Save as"),
			outline(with("max_nodes", 20)), field("truncated", true), check(func(r *run, c *suite.Call) string {
				text, _ := c.Result["outline"].(string)
				if n := strings.Count(strings.TrimSpace(text), "\n") + 1; n > 30 {
					return "the outline has " + suite.Brief(n) + " lines"
				}
				return ""
			})),
		b("snapshot.protected", "a field for a password", "its value is nowhere in an answer", someForm, shows("Pass"), without("hunter2"),
			call("snapshot", with("include_tree", true, "window", "{title}")), without("hunter2"),
			call("query", with("selector", in("role:textbox"), "limit", 10)), without("hunter2")),
		b("snapshot.image", "with an image", "the picture and its frame come along when asked for", twoSquares,
			call("snapshot", with("include_image", true)), squaresStep, keep("frame", "frame_id"), clickFrame, struck(1)),
	}
}

// refIn returns the ref on the line of an outline that holds a text.
func refIn(outline, text string) string {
	for line := range strings.Lines(outline) {
		if !strings.Contains(line, text) {
			continue
		}
		for word := range strings.FieldsFuncSeq(line, func(c rune) bool { return strings.ContainsRune(" []()=,:", c) }) {
			if rest := strings.TrimLeft(word, "0123456789"); len(word) > 1 && word[0] == 'e' && strings.Trim(word[1:], "0123456789\n") == "" &&
				rest == word {
				return strings.TrimSpace(word)
			}
		}
	}
	return ""
}

// inTree finds a node of a snapshot's tree.
func inTree(node any, role, name string) map[string]any {
	n, _ := node.(map[string]any)
	if n == nil {
		return nil
	}
	if n["role"] == role && n["name"] == name {
		return n
	}
	children, _ := n["children"].([]any)
	for _, c := range children {
		if found := inTree(c, role, name); found != nil {
			return found
		}
	}
	return nil
}

func query(selector any, more ...obj) step {
	args := with("selector", selector)
	for _, m := range more {
		for k, v := range m {
			args[k] = v
		}
	}
	return call("query", args)
}

func queries() []*behaviour {
	const ready = "name:\"Save as\""
	one := func(want string) step { return field("matches.0.node.name", want) }
	return []*behaviour{
		b("query.chain", "a window, a role and a name", "that button only", someForm, found(ready),
			query(in(`role:button && name:"Save"`), with("limit", 5)), field("matches.length", 1), one("Save"), keep("ref", "matches.0.element_ref"),
			query("{ref}"), one("Save")),
		b("query.object", "the older form of a selector", "role and name as fields find the same", someForm, found(ready),
			query(with("kind", "a11y", "role", "button", "name", "Save as"), with("limit", 5)), one("Save as")),
		b("query.states", "by state", "checked and unchecked boxes are told apart", someForm, found(ready),
			query(in("role:checkbox && state:checked"), with("limit", 5)), field("matches.length", 1), one("Wrap lines"),
			query(in("role:checkbox && !state:checked"), with("limit", 5)), field("matches.length", 1), one("Spelling")),
		b("query.part", "a part of a name, and alternatives", "both buttons", someForm, found(ready),
			query(in(`role:button && name~:"Save"`), with("limit", 5)), field("matches.length", 2),
			query(in(`role:button && (name:Save || name:Delete)`), with("limit", 5)), field("matches.length", 2)),
		b("query.nth", "the second of several alike", "the second on the screen", someForm, found(ready),
			query(in("role:button && name:Open && nth:2")), field("matches.length", 1), keep("ref", "matches.0.element_ref"),
			act("{ref}", "click"), becomes("log.filter(e => e.t === 'click').length", 1),
			becomes("(() => { const e = log.find(e => e.t === 'click'); return document.elementFromPoint(e.x, "+
				"e.y)?.parentElement.innerText.trim() || '' })()", "two Open")),
		b("query.near", "what stands right of a text", "the field that the text belongs to", someForm, found(ready),
			query(in(`role:textbox && right-of:"Last name"`)), field("matches.length", 1), keep("ref", "matches.0.element_ref"),
			act("{ref}", "set_value", with("value", "Lovelace")), becomes("el('last').value", "Lovelace")),
		b("query.limit", "more matches than the limit", "as many as asked for, and how many there are", someForm, found(ready),
			query(in("role:button && name:Open"), with("limit", 2)), field("matches.length", 2), field("total", 3)),
		b("query.none", "nothing matches", "no match, and the nearest names", someForm, found(ready),
			query(in(`role:button && name:"Safe"`)), field("matches.length", 0), check(func(r *run, c *suite.Call) string {
				if near := suite.Brief(c.Result["nearest"]); !strings.Contains(near, "Save") {
					return "the nearest names are " + near
				}
				return ""
			})),
		b("query.bad", "a selector with a mistake", "invalid_arguments that shows where", someForm,
			refused(capabilities.CodeInvalidArguments, "query", with("selector", `role:button && (name:`))),
		b("query.bounds", "where an element is", "its bounds are where it is drawn",
			html(`<button class=m id=m style="left:40px;top:60px" aria-label=Square></button>`), found("name:Square"),
			shot(), find("m", magenta), onDesktop("m", "at"), query(in("name:Square")), check(func(r *run, c *suite.Call) string {
				b := suite.Pick(c.Result, "matches.0.node.bounds")
				x, y := r.vars["at.x"].(float64)-suite.Number(b, "x")-suite.Number(b, "width")/2,
					r.vars["at.y"].(float64)-suite.Number(b, "y")-suite.Number(b, "height")/2
				if x < -2 || x > 2 || y < -2 || y > 2 {
					return "its middle is off by " + suite.Brief([]float64{x, y})
				}
				return ""
			})),
		b("query.ocr", "text that only shows in pixels", "found where it is drawn", needsOCR,
			html(`<canvas id=c width=600 height=200></canvas><script>
			const g = el('c').getContext('2d'); g.font = '48px sans-serif'; g.fillText('Elephant', 60, 100)</script>`),
			func(r *run) {
				c := r.Made(r.Call("query", with("selector", with("kind", "ocr", "text", "Elephant"))))
				if c.Code == capabilities.CodeNotSupported || c.Code == capabilities.CodeIsolationUnavailable {
					panic(lack{string(needsOCR)})
				}
			}, field("matches.0.kind", "ocr")),
	}
}
