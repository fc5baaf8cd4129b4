package desktop

import (
	"fmt"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// An agent's waiting, and what it does with windows.

func await(args obj, status string) step {
	return func(r *run) {
		if _, ok := args["timeout_ms"]; !ok {
			args["timeout_ms"] = 20000
		}
		call("wait-for", args)(r)
		field("status", status)(r)
	}
}

func waiting() []*behaviour {
	late := func(what string) string { return "setTimeout(() => { " + what + " }, 500)" }
	some := html(
		`<button id=b>Ready</button><button id=o disabled>Off</button><label><input type=checkbox id=k>Keep</label><label>Name <input id=f></label>
<button class=m id=m style="left:40px;top:160px"></button>`)
	begins := found("role:button && name:Ready")
	return []*behaviour{
		b("wait.exists", "an element that comes later", "satisfied when it is there, with the element", some, begins,
			inPage(late("document.body.append(Object.assign(document.createElement('button'), { textContent: 'Late' }))")),
			await(with("selector", in("role:button && name:Late"), "state", "exists"), "satisfied"), field("match.node.name", "Late")),
		b("wait.gone", "an element that goes", "satisfied when it is gone", some, begins, inPage(late("el('b').remove()")),
			await(with("selector", in("role:button && name:Ready"), "state", "gone"), "satisfied"), holds("el('b')", nil)),
		b("wait.hidden", "an element that is hidden", "satisfied when nobody can see it", some, begins,
			inPage(late("el('b').style.display = 'none'")),
			await(with("selector", in("role:button && name:Ready"), "state", "hidden"), "satisfied")),
		b("wait.enabled", "a button that is enabled later", "satisfied then", some, begins, inPage(late("el('o').disabled = false")),
			await(with("selector", in("role:button && name:Off"), "state", "enabled"), "satisfied"), holds("el('o').disabled", false)),
		b("wait.checked", "a checkbox that is checked later", "satisfied then", some, begins, inPage(late("el('k').click()")),
			await(with("selector", in("role:checkbox && name:Keep"), "state", "checked"), "satisfied"), holds("el('k').checked", true)),
		b("wait.focused", "a field that gets the focus", "satisfied then", some, begins, inPage(late("el('f').focus()")),
			await(with("selector", in("role:textbox && name:Name"), "state", "focused"), "satisfied"), holds("document.activeElement.id", "f")),
		b("wait.value", "a field that gets a value", "satisfied when it has exactly that", some, begins, inPage(late("el('f').value = 'done'")),
			await(with("selector", in("role:textbox && name:Name"), "state", "value", "value", "done"), "satisfied"),
			holds("el('f').value", "done")),
		b("wait.timeout", "an element that never comes", "timeout, which is no error, after that time", some, begins, func(r *run) {
			began := time.Now()
			await(with("selector", in("role:button && name:Never"), "state", "exists", "timeout_ms", 700), "timeout")(r)
			if took := time.Since(began); took < 700*time.Millisecond {
				r.Fail("it gave up after %s", took)
			}
		}),
		b("wait.window", "a window that opens, and closes", "satisfied when it is there, and when it is gone", needsGTK,
			await(with("window", "no such window at all", "state", "gone"), "satisfied"), editor("gtk", ""),
			await(with("window", "{editor}", "state", "exists"), "satisfied"), act(`window:~"{editor}"`, "close"),
			await(with("window", "{editor}", "state", "gone"), "satisfied")),
		b("wait.region", "an area whose pixels change", "satisfied when they do", some, begins, shot(), find("m", magenta), func(r *run) {
			x, y := r.vars["m.x"].(float64), r.vars["m.y"].(float64)
			meanwhile(await(with("region", with("x", x-10, "y", y-10, "width", 20, "height", 20, "frame_id", r.vars["frame"]), "state", "changed"),
				"satisfied"),
				inPage("new Promise(d => setTimeout(() => { el('m').style.background = '#000'; d(1) }, 700))"))(r)
		}),
		b("wait.stable", "an area that comes to rest", "satisfied when it has been still that long, and "+
			"not before", some, begins, shot(), find("m", magenta), func(r *run) {
			x, y := r.vars["m.x"].(float64), r.vars["m.y"].(float64)
			// Each colour is another, for who looks seldom may meet one of two each time; and they
			// come with the page's frames, so that one that is late is a gap.
			inPage("(() => { let n = 0, due = 0; window.last = Date.now(); window.gap = 0; (function draw() { const now = Date.now(); if (now >= " +
				"due) { due = now + 60; gap = Math.max(gap, now - last); last = now; el('m').style.background = `hsl(${n++ * 16} 100% 50%)` } if (n " +
				"> 20) el('m').id = 'rest'; else requestAnimationFrame(draw) })() })()")(r)
			await(with("region", with("x", x-10, "y", y-10, "width", 20, "height", 20, "frame_id", r.vars["frame"]), "state", "stable",
				"stable_ms", 600), "satisfied")(r)
			// On a busy machine the page itself may have rested that long in between.
			holds("el('rest') !== null || Math.max(gap, Date.now() - last) >= 500", true)(r)
		}),
	}
}

// windowIs waits until the list has the suite's window so.
func windowIs(so func(r *run, w map[string]any) string) step {
	return soon(func(r *run) string {
		call("snapshot", obj{})(r)
		w := r.entry("windows", "{title}")
		if w == nil {
			return "the window is not listed"
		}
		return so(r, w)
	})
}

func windows() []*behaviour {
	plain := html("<p>A window.</p>")
	near := func(w map[string]any, path string, want, off float64) bool {
		d := suite.Number(w, path) - want
		return d >= -off && d <= off
	}
	back := step(func(r *run) {
		r.clean = append(r.clean, func() {
			r.Made(r.Call("act", action(`window:"{title}"`, "resize", with("width", 900, "height", 640))))
			r.Made(r.Call("act", action(`window:"{title}"`, "move", with("x", 40, "y", 30))))
		})
	})
	return []*behaviour{
		b("window.move", "a window is moved", "it is there, and the page knows", plain, back,
			act(`window:"{title}"`, "move", with("x", 120, "y", 90)), effect(confirmed), field("route", "window_manager"),
			windowIs(func(r *run, w map[string]any) string {
				if !near(w, "bounds.x", 120, 2) || !near(w, "bounds.y", 90, 2) {
					return "it is at " + suite.Brief(w["bounds"])
				}
				return ""
			}), func(r *run) {
				if r.s.o.Window == nil {
					becomes("Math.abs(screenX * devicePixelRatio - 120) <= 12", true)(r)
					return
				}
				r.desktopSays(func(x, y int, shown bool) bool { return shown && max(x-120, 120-x) <= 12 && y >= 88 && y <= 130 })
			}),
		b("window.resize", "a window is resized", "it is that large, and the page knows", plain, back, inPage("window.before = innerWidth"),
			act(`window:"{title}"`, "resize", with("width", 640, "height", 480)),
			windowIs(func(r *run, w map[string]any) string {
				if !near(w, "bounds.width", 640, 2) || !near(w, "bounds.height", 480, 2) {
					return "it is " + suite.Brief(w["bounds"])
				}
				return ""
			}), becomes("innerWidth < before", true)),
		b("window.minimize", "a window is minimized and activated again", "it is hidden, and then in front", plain,
			act(`window:"{title}"`, "minimize"),
			func(r *run) {
				if r.s.o.Window == nil {
					becomes("document.hidden", true)(r)
					act(`window:"{title}"`, "activate")(r)
					becomes("document.hidden", false)(r)
					return
				}
				r.desktopSays(func(_, _ int, shown bool) bool { return !shown })
				act(`window:"{title}"`, "activate")(r)
				r.desktopSays(func(_, _ int, shown bool) bool { return shown })
			}, windowIs(func(r *run, w map[string]any) string {
				if w["focused"] != true || w["minimized"] == true {
					return suite.Brief(w)
				}
				return ""
			}), func(r *run) {
				// Chrome does not take itself for focused again under every manager; the next
				// behaviours get a new window.
				r.clean = append(r.clean, r.s.closeWindow)
			}),
		b("window.activate", "a covered window is activated", "it is on top and has the focus", plain, needsGTK, editor("gtk", ""),
			becomes("document.hasFocus()", false),
			act(`window:"{title}"`, "activate"), becomes("document.hasFocus()", true), windowIs(func(r *run, w map[string]any) string {
				if w["focused"] != true || suite.Number(w, "z") != 0 {
					return suite.Brief(w)
				}
				return ""
			})),
		b("window.close", "a window is closed", "it is gone, as its program wants", needsGTK, editor("gtk", "untouched"),
			act(`window:~"{editor}"`, "close"), soon(func(r *run) string {
				call("snapshot", obj{})(r)
				if e := r.entry("windows", "{editor}"); e != nil {
					return "it is still listed: " + suite.Brief(e)
				}
				return ""
			}), holdsFile("untouched")),
		b("window.launch", "a program is started with arguments", "its window comes, and the result has its process", needsGTK,
			editor("gtk", "text of the file"),
			check(func(r *run, c *suite.Call) string {
				if r.vars["pid"].(float64) <= 0 {
					return "no process"
				}
				return ""
			}), query(`window:~"{editor}" >> role:textbox && state:multiline`), field("matches.0.node.value", "text of the file")),
		b("window.launch-none", "a program that is not installed", "app_not_found, and nothing is started",
			refused(capabilities.CodeAppNotFound, "act", with("action", with("kind", "launch", "app", "no-such-program-here")))),
	}
}

// desktopSays waits until the desktop itself tells of the suite's window so.
func (r *run) desktopSays(so func(x, y int, shown bool) bool) {
	soon(func(r *run) string {
		x, y, shown := r.s.o.Window(r.s.title)
		if so(x, y, shown) {
			return ""
		}
		return fmt.Sprintf("the desktop says that the window is at %d, %d, shown: %v", x, y, shown)
	})(r)
}

func refusals() []*behaviour {
	plain := html("<p>A window.</p>")
	return []*behaviour{
		b("refusal.outside", "a place on no display",
			"outside_desktop", refused(capabilities.CodeOutsideDesktop, "mouse", with("action", "move", "x", 900000, "y", 900000))),
		b("refusal.window", "a screenshot of a window that is not there", "window_not_found", refused(capabilities.CodeWindowNotFound,
			"screenshot", with("display", "primary", "window", "no such window at all"))),
		b("refusal.scroll", "a wheel that turns by nothing", "invalid_arguments", plain,
			refused(capabilities.CodeInvalidArguments, "mouse", with("action", "scroll", "x", 10, "y", 10))),
		b("refusal.arguments", "an argument that does not belong", "invalid_arguments that names it",
			refused(capabilities.CodeInvalidArguments, "act", with("action", with("kind", "click", "app", "x"), "target", "e1"), "app")),
		b("refusal.unsupported", "a text into a button", "a refusal that says what the element is", someForm, found(`name:"Save as"`),
			func(r *run) {
				c := r.Made(r.Call("act", action(in(`role:button && name:"Save as"`), "set_value", with("value", "x"))))
				if c.Code != capabilities.CodeActionUnsupported || c.Hint == "" {
					r.Fail("set_value on a button: %s", c.End())
				}
			}),
	}
}
