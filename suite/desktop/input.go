package desktop

import (
	"fmt"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// The actions of an agent by mouse and keyboard.

// six is text in six languages' scripts, and a character beyond the first plane;
// sixPlain is without that one.
const (
	sixPlain = "Hello Grüße Привет こんにちは 漢字 مرحبا "
	six      = sixPlain + "😀"
)

// area notes what a mouse does on it.
const area = html(`<button class=m id=m style="left:40px;top:60px"></button>
<div id=pad style="position:fixed;left:200px;top:60px;width:400px;height:300px;background:#eee;touch-action:none"></div>`)

// at is the square's middle by the last image.
func mouse(do string, more ...obj) step {
	args := with("action", do, "x", known("m.x"), "y", known("m.y"), "frame_id", known("frame"))
	for _, m := range more {
		for k, v := range m {
			args[k] = v
		}
	}
	return call("mouse", args)
}

func mice() []*behaviour {
	see := step(func(r *run) { shot()(r); find("m", magenta)(r) })
	return []*behaviour{
		b("mouse.move", "the pointer is moved", "it is there, and the page sees it come", area, see, mouse("move"), effect(confirmed),
			becomes("moves.length > 0 && Math.abs(moves.at(-1)[0] - 80) <= 1 && Math.abs(moves.at(-1)[1] - 90) <= 1", true),
			holds("had('mousedown')", 0)),
		b("mouse.double", "two clicks", "the page has a double click", area, see, doubled("m", mouse("click", with("count", 2)))),
		b("mouse.buttons", "right and middle", "the page has each", area, see, mouse("click", with("button", "right")),
			becomes("had('contextmenu')", 1),
			mouse("click", with("button", "middle")), becomes("had('auxclick', e => e.b === 1)", 1)),
		b("mouse.modifiers", "a click with Control and Shift", "both are held during it, and up again after it", area, see,
			mouse("click", with("modifiers", []any{"Control", "Shift"})), becomes("had('click', e => e.ctrl && e.shift)", 1),
			mouse("click"), becomes("had('click', e => !e.ctrl && !e.shift)", 1)),
		b("mouse.down-up", "a button kept down over two calls", "it stays down until it is let go", area, see,
			mouse("down"), field("held.0", "left"), becomes("had('mousedown')", 1), holds("had('mouseup')", 0), mouse("up"), noField("held"),
			becomes("had('mouseup')", 1)),
		b("mouse.drag", "a drag along a path", "the button is down all the way, and every corner is touched", area, see,
			func(r *run) {
				x, y := r.vars["m.x"].(float64), r.vars["m.y"].(float64) // the page's 80, 90
				scale := r.vars["m.width"].(float64) / 80
				at := func(px, py float64) obj { return with("x", x+(px-80)*scale, "y", y+(py-90)*scale) }
				end := at(500, 300)
				call("mouse", with("action", "drag", "path", []any{at(250, 100), at(450, 120), at(260, 280)}, "x", end["x"], "y", end["y"],
					"frame_id", r.vars["frame"], "duration_ms", 400))(r)
			},
			becomes("had('mousedown', e => Math.abs(e.x - 250) <= 2 && Math.abs(e.y - 100) <= 2)", 1),
			becomes("had('mouseup', e => Math.abs(e.x - 500) <= 2 && Math.abs(e.y - 300) <= 2)", 1),
			holds("[[450, 120], [260, 280]].every(([x, y]) => moves.some(m => Math.hypot(m[0] - x, m[1] - y) < 40))", true)),
		b("mouse.scroll", "the wheel, three clicks down and one up", "the page gets both", area, see,
			mouse("scroll", with("scroll_y", 3)), becomes("log.filter(e => e.t === 'wheel').reduce((n, e) => n + e.dy, 0) > 0", true),
			inPage("log.length = 0"),
			mouse("scroll", with("scroll_y", -1)), becomes("log.filter(e => e.t === 'wheel').reduce((n, e) => n + e.dy, 0) < 0", true)),
		b("mouse.noop", "a click where nothing is", "the result does not claim an effect",
			html(`<button class=m id=m style="left:40px;top:60px;background:#f0f;outline:0;pointer-events:none"></button>`), see,
			mouse("move"), mouse("click"), check(func(r *run, c *suite.Call) string {
				if c.Effect == confirmed && !strings.Contains(c.Evidence, "pointer") {
					return "it claims an effect: " + c.Evidence
				}
				return ""
			})),
	}
}

func press(key string, more ...obj) step {
	args := with("action", "press", "key", key)
	for _, m := range more {
		for k, v := range m {
			args[k] = v
		}
	}
	return call("keyboard", args)
}

func typing(text string) step { return call("keyboard", with("action", "type", "text", text)) }

func keyboards() []*behaviour {
	box := html(
		`<textarea id=t autofocus rows=6 cols=60 spellcheck=false></textarea><script>addEventListener('load', () => el('t').focus())</script>`)
	ready := becomes("document.activeElement.id", "t")
	return []*behaviour{
		b("keyboard.type-chromium", "text in six languages, into a page",
			"exactly it, or (Chromium under Wayland, which takes no emoji from a keyboard) a refusal and no part of it; nothing of it in the answer",
			box, ready,
			func(r *run) {
				if wayland() {
					refused(capabilities.CodeTextUntypable, "keyboard", with("action", "type", "text", six))(r)
					without("Привет")(r)
					holds("el('t').value", "")(r)
					typing(sixPlain)(r)
					becomes("el('t').value", sixPlain)(r)
					return
				}
				typing(six)(r)
				field("typed", len([]rune(six)))(r)
				without("Привет")(r)
				becomes("el('t').value", six)(r)
			}),
		b("keyboard.type-gtk", "the same into a GTK editor", "its file has exactly it", needsGTK, editor("gtk", ""), typing(six), saved(six)),
		b("keyboard.type-qt", "the same into a Qt editor", "its file has exactly it", needsQt, editor("qt", ""), typing(six), saved(six)),
		b("keyboard.type-xterm", "the same into a terminal", "the program in it reads exactly it", terminal(), typing(six), press("Enter"),
			holdsFile(six)),
		b("keyboard.type-lines", "text of several lines with tabs", "line ends and tabs arrive", needsGTK, editor("gtk", ""),
			typing("one\ntwo\tand\nthree"), saved("one\ntwo\tand\nthree")),
		b("keyboard.type-long", "two thousand characters", "none is lost", box, ready, func(r *run) {
			text := strings.Repeat("The quick brown fox jumps over the lazy dog 0123456789. ", 36)
			typing(text)(r)
			becomes("el('t').value", text)(r)
		}),
		b("keyboard.rare", "sixty characters that no key makes", "none is lost, and keys still make what they did", box, ready, func(r *run) {
			var text strings.Builder
			for i := range 60 {
				text.WriteRune(rune(0x4e00 + i*37))
			}
			typing(text.String() + "abc")(r)
			becomes("el('t').value", text.String()+"abc")(r)
		}),
		b("keyboard.chord", "Control+A, then a character", "all is replaced", box, ready, typing("to be replaced"),
			becomes("el('t').value", "to be replaced"),
			press("Control+a"), typing("x"), becomes("el('t').value", "x"), holds("had('keydown', e => e.k === 'a' && e.ctrl)", 1)),
		b("keyboard.keys", "keys with names", "each is that key", box, ready, typing("ab"), press("ArrowLeft"), typing("-"), press("Home"),
			press("Delete"), press("End"), press("Backspace"),
			press("Enter"), typing("z"), becomes("el('t').value", "-\nz"), press("F2"), becomes("had('keydown', e => e.k === 'F2')", 1),
			press("Escape"), becomes("had('keyup', e => e.k === 'Escape')", 1)),
		b("keyboard.count", "a key five times", "five times", box, ready, press("x", with("count", 5)), becomes("el('t').value", "xxxxx")),
		b("keyboard.hold", "a key held for a time", "it is down that long, and up after it", box, ready, press("F4", with("hold_ms", 300)),
			becomes("had('keydown', e => e.k === 'F4') > 0 && had('keyup', e => e.k === 'F4')", 1)),
		b("keyboard.shifted", "capitals and signs", "as typed, and no modifier stays down", box, ready, typing("ABC!?@#€ß"),
			becomes("el('t').value", "ABC!?@#€ß"), press("a"), becomes("el('t').value", "ABC!?@#€ßa")),
		b("keyboard.bad-key", "a key that is none", "invalid_arguments, and nothing is pressed", box, ready,
			refused(capabilities.CodeInvalidArguments, "keyboard", with("action", "press", "key", "Control+Nonsense")), holds("had('keydown')", 0)),
	}
}

func clipboards() []*behaviour {
	two := html(`<textarea id=t rows=3 cols=60>` + six + `</textarea><textarea id=u rows=3 cols=60></textarea>`)
	return []*behaviour{
		b("clipboard.copy-paste", "copied in one field, pasted into another", "the same text", two,
			inPage("el('t').focus()"), press("Control+a"), press("Control+c"), becomes("had('copy')", 1), inPage("el('u').focus()"),
			press("Control+v"), becomes("el('u').value", six)),
		b("clipboard.across", "copied in a page, pasted into another program", "its file has it", needsGTK, two,
			inPage("el('t').focus()"), press("Control+a"), press("Control+c"), becomes("had('copy')", 1), editor("gtk", ""), press("Control+v"),
			pasted(six)),
	}
}

func people() []*behaviour {
	box := html(`<textarea id=t autofocus rows=6 cols=60></textarea><button class=m id=m style="left:40px;top:260px"></button>`)
	touch := step(func(r *run) {
		if err := r.s.o.Person(r.ctx); err != nil {
			r.Fail("the person: %v", err)
		}
	})
	// rested waits until the node lets calls use the mouse again.
	rested := soon(func(r *run) string {
		c := r.Made(r.Call("mouse", with("action", "move", "x", 4, "y", 4)))
		if c.Code != "" {
			return "after the quiet time: " + c.End()
		}
		return ""
	})
	return []*behaviour{
		b("person.interrupts", "the person moves the mouse while text is typed",
			"the call ends as interrupted_by_person, and says how far it came", box, needsPerson,
			inPage("el('t').focus()"), meanwhile(func(r *run) {
				c := r.Made(r.Call("keyboard", with("action", "press", "key", "F4", "hold_ms", 10000)))
				if c.Code != capabilities.CodeInterruptedByPerson {
					r.Fail("a key held while the person came: %s", c.End())
				}
			}, becomes("had('keydown', e => e.k === 'F4') > 0", true), touch, func(r *run) {
				r.vars["touched"] = time.Now()
			}, becomes("had('keyup', e => e.k === 'F4')", 1)),
			func(r *run) {
				if took := r.Last().Answered.Sub(r.vars["touched"].(time.Time)); took > 5*time.Second {
					r.Fail("the call went on for %s after the person came", took)
				}
			}, rested),
		b("person.refuses", "a call right after the person took over", "interrupted_by_person until they have rested; then calls work again", box,
			needsPerson,
			inPage("el('t').focus()"), func(r *run) {
				for {
					var began time.Time
					inPage("log.length = 0")(r)
					meanwhile(func(r *run) { r.Made(r.Call("keyboard", with("action", "press", "key", "F4", "hold_ms", 10000))) },
						becomes("had('keydown', e => e.k === 'F4') > 0", true), func(r *run) { began = time.Now(); touch(r) })(r)
					c := r.Made(r.Call("mouse", with("action", "move", "x", 9, "y", 9)))
					// On a busy machine they may have rested by the time the call came.
					if c.Code != "" || c.Answered.Sub(began) < r.s.o.Quiet {
						suite.Refusal(r, c, capabilities.CodeInterruptedByPerson)
						return
					}
				}
			}, rested),
		b("person.looking", "the person is at it, and the agent only looks", "screenshots and snapshots work", box, needsPerson,
			touch, shot(), call("snapshot", obj{}), rested),
		b("person.ours", "our own input", "is not taken for the person's", box, inPage("el('t').focus()"), typing("mine"),
			call("mouse", with("action", "move", "x", 30, "y", 30)), typing(" all mine"),
			becomes("el('t').value", "mine all mine")),
	}
}

func hung() []*behaviour {
	stop := step(func(r *run) {
		pid := int(r.vars["pid"].(float64))
		if err := freeze(pid); err != nil {
			r.Fail("%v", err)
		}
		r.clean = append(r.clean, func() { _ = thaw(pid) })
	})
	wake := step(func(r *run) { _ = thaw(int(r.vars["pid"].(float64))) })
	return []*behaviour{
		b("hung.snapshot", "a program hangs", "the others are read all the same, in time, and the hung one is named", needsFreeze, needsGTK,
			someForm, found(`name:"Save as"`), editor("gtk", "some text"),
			stop, func(r *run) {
				began := time.Now()
				call("snapshot", with("outline", true))(r)
				if took := time.Since(began); took > 15*time.Second {
					r.Fail("it took %s", took)
				}
			}, check(func(r *run, c *suite.Call) string {
				if list, _ := c.Result["hung"].([]any); len(list) != 1 {
					return "hung is " + suite.Brief(c.Result["hung"])
				}
				return ""
			}), field("outline", "Save as"), wake),
		b("hung.act", "an act on an element of a program that hangs", "app_hung, in time; when it runs again, so does the act", needsFreeze,
			needsGTK, editor("gtk", "some text"),
			query(`window:~"{editor}" >> role:textbox && state:multiline`), keep("ref", "matches.0.element_ref"), stop,
			refused(capabilities.CodeAppHung, "act", action("{ref}", "set_value", with("value", "late"))), wake,
			soon(func(r *run) string {
				if c := r.Made(r.Call("act", action("{ref}", "set_value", with("value", "awake")))); c.Code != "" {
					return c.End()
				}
				return ""
			}), saved("awake")),
	}
}

func displays() []*behaviour {
	second := step(func(r *run) {
		shot(with("display", "all"))(r)
		whole := r.Last().Result["frame"]
		primary := r.Call("screenshot", with("display", "primary")).Result["frame"]
		if suite.Number(whole, "width") == suite.Number(primary, "width") && suite.Number(whole, "height") == suite.Number(primary, "height") {
			panic(lack{string(needsDisplays)})
		}
		r.vars["px"], r.vars["pw"] = suite.Number(primary, "x"), suite.Number(primary, "width")
		r.vars["wx"], r.vars["ww"] = suite.Number(whole, "x"), suite.Number(whole, "width")
	})
	// beside moves the window to the display right or left of the primary one.
	beside := step(func(r *run) {
		px, pw, wx := r.vars["px"].(float64), r.vars["pw"].(float64), r.vars["wx"].(float64)
		x := px + pw + 10
		if wx < px {
			x = wx + 10
		}
		act(`window:"{title}"`, "resize", with("width", 560, "height", 480))(r)
		act(`window:"{title}"`, "move", with("x", x, "y", 150))(r)
		r.clean = append(r.clean, func() {
			r.Made(r.Call("act", action(`window:"{title}"`, "move", with("x", 40, "y", 30))))
			r.Made(r.Call("act", action(`window:"{title}"`, "resize", with("width", 900, "height", 640))))
		})
	})
	return []*behaviour{
		b("display.click", "a click on a second display, by an image of both", "it comes to that place", twoSquares, second, beside,
			shot(with("display", "all")), find("m", magenta), clickFrame, struck(1)),
		b("display.primary", "the primary display's image while the window is on the other one", "the window is not on it", twoSquares, second,
			beside, shot(), func(r *run) {
				if area, n := patch(suite.Picture(r), magenta); n > 20 {
					r.Fail("the square is on it at %v", area)
				}
			}),
		b("display.scaled", "a click on a second display, in a smaller image of it", "it comes to that place", twoSquares, second, beside,
			shot(with("display", "all", "max_width", 800)), find("m", magenta), clickFrame, struck(4)),
		b("display.element", "an element on a second display", "its bounds are there, and a click comes to it", twoSquares, second, beside,
			shot(with("display", "all")), find("m", magenta), onDesktop("m", "at"), query(in("role:button && nth:1")),
			check(func(r *run, c *suite.Call) string {
				b := suite.Pick(c.Result, "matches.0.node.bounds")
				if x := suite.Number(b, "x") + suite.Number(b, "width")/2 - r.vars["at.x"].(float64); x < -2 || x > 2 {
					return fmt.Sprintf("its bounds are %s, and it is at %v", suite.Brief(b), r.vars["at.x"])
				}
				return ""
			}), act(in("role:button && nth:1"), "click"), becomes("had('click', e => e.id === 'm')", 1)),
	}
}
