package desktop

import (
	"github.com/handrail-dev/handrail/capabilities"

	"github.com/handrail-dev/handrail/suite"
)

// The actions of an agent on elements.

const confirmed = capabilities.EffectConfirmed

// doubled wants two clicks to be a double one. Where a busy machine makes them further
// apart than systems wait for the second, they say nothing, and are made again.
func doubled(id string, clicks step) step {
	return func(r *run) {
		for {
			inPage("log.length = 0")(r)
			clicks(r)
			becomes("had('mouseup', e => e.id === '"+id+"')", 2)(r)
			if apart, _ := r.eval("(d => d[1].at - d[0].at)(log.filter(e => e.t === 'mousedown'))").(float64); apart < 400 {
				break
			}
		}
		becomes("had('dblclick', e => e.id === '"+id+"')", 1)(r)
	}
}

// dropped wants what is dragged to be dropped. Where a busy machine lets the page come to the
// press after the button is up again, the browser forgets the drag and says that it
// ended: that says nothing, and it is made again.
func dropped(drag step) step {
	return func(r *run) {
		for range 5 {
			inPage("log.length = 0")(r)
			drag(r)
			becomes("had('dragend') + had('mouseup') > 0", true)(r)
			if n, _ := r.eval("had('drop')").(float64); n > 0 {
				return
			}
		}
		r.Fail("five drags, and nothing was dropped")
	}
}

func acts() []*behaviour {
	button := html(`<button id=go onclick="el('out').textContent = 'gone ' + ++count">Go</button> <button id=off disabled>Never</button>
<p id=out>waiting</p><script>let count = 0</script>`)
	field_ := html(`<label>Name <input id=f value=old></label> <label>Size <input id=n type=number min=0 max=10 step=2 value=4></label>
<label>Level <input id=s type=range min=0 max=100 value=50></label>`)
	list := file("choices.html")
	return []*behaviour{
		b("act.click", "a button is clicked by its name", "it does what it does, once, and the result says by which route", button,
			found("role:button && name:Go"),
			act(in("role:button && name:Go"), "click"), effect(confirmed), becomes("el('out').textContent", "gone 1"),
			becomes("had('click', e => e.id === 'go')", 1),
			keep("route", "route")),
		b("act.click-quietly", "a button that can press itself", "the pointer does not move", button, found("role:button && name:Go"),
			shot(), call("mouse", with("action", "move", "x", 5, "y", 5)), inPage("moves.length = 0"),
			act(in("role:button && name:Go"), "click"), field("route", "accessibility"), noField("moved_pointer"),
			becomes("el('out').textContent", "gone 1"), holds("moves.length", 0)),
		b("act.double", "a double click", "the page has one", button, found("role:button && name:Go"),
			doubled("go", act(in("role:button && name:Go"), "double_click"))),
		b("act.right", "a click with the right button", "the page is asked for its menu", button, found("role:button && name:Go"),
			act(in("role:button && name:Go"), "right_click"), becomes("had('contextmenu', e => e.id === 'go')", 1)),
		b("act.middle", "a click with the middle button", "the page has one", button, found("role:button && name:Go"),
			act(in("role:button && name:Go"), "middle_click"), becomes("had('auxclick', e => e.id === 'go' && e.b === 1)", 1)),
		b("act.hover", "the pointer over an element", "the page shows that it is there",
			html(`<style>#h:hover { outline: 2px solid red }</style><button id=h style="margin:60px">Here</button>`), found("name:Here"),
			call("mouse", with("action", "move", "x", 3, "y", 3)), act(in("role:button && name:Here"), "hover"),
			becomes("el('h').matches(':hover')", true)),
		b("act.disabled", "a button that is disabled", "element_disabled, and nothing is clicked", button, found("role:button && name:Never"),
			refused(capabilities.CodeElementDisabled, "act", action(in("role:button && name:Never"), "click")), holds("had('mousedown')", 0)),
		b("act.not-found", "an element that is not there", "element_not_found", button, found("role:button && name:Go"),
			refused(capabilities.CodeElementNotFound, "act", action(in(`role:button && name:"No such thing"`), "click")), holds("had('click')", 0)),
		b("act.not-unique", "several elements match", "element_not_unique with candidates, and nothing is clicked", someForm,
			found(`name:"Save as"`),
			refused(capabilities.CodeElementNotUnique, "act", action(in("role:button && name:Open"), "click")), holds("had('click')", 0)),
		b("act.gone", "the element behind a ref is removed", "a refusal, and nothing is clicked", button, found("role:button && name:Go"),
			query(in("role:button && name:Go")), keep("ref", "matches.0.element_ref"), inPage("el('go').remove()"),
			soon(func(r *run) string {
				c := r.Made(r.Call("query", with("selector", in("role:button && name:Go"))))
				if c.Code == "" && suite.Number(c.Result, "matches.length") > 0 {
					return "the button is still found"
				}
				return ""
			}),
			func(r *run) {
				c := r.Made(r.Call("act", action("{ref}", "click")))
				if c.Code != capabilities.CodeStaleRef && c.Code != capabilities.CodeElementNotFound {
					r.Fail("a click on what is gone: %s", c.End())
				}
			}, holds("had('click')", 0)),
		b("act.set-value", "a field gets a text of six languages",
			"the field has exactly it, and the result says it was read back; or (Chromium under Wayland, see keyboard.type-chromium) a refusal",
			field_, found("role:textbox && name:Name"),
			func(r *run) {
				text := six
				if wayland() {
					refused(capabilities.CodeTextUntypable, "act", action(in("role:textbox && name:Name"), "set_value", with("value", six)))(r)
					text = sixPlain + "漢"
				}
				act(in("role:textbox && name:Name"), "set_value", with("value", text))(r)
				effect(confirmed)(r)
				becomes("el('f').value", text)(r)
			}),
		b("act.clear", "a field is emptied", "it is empty", field_, found("role:textbox && name:Name"),
			act(in("role:textbox && name:Name"), "clear"), becomes("el('f').value", "")),
		b("act.type", "text is typed into a field", "each character comes as typed ones do", field_, found("role:textbox && name:Name"),
			act(in("role:textbox && name:Name"), "clear"), act(in("role:textbox && name:Name"), "type", with("text", "Grüße, мир")),
			becomes("el('f').value", "Grüße, мир"), holds("had('input') > 0", true), without("мир")),
		b("act.focus", "a field is focused", "it has the focus", field_, found("role:textbox && name:Name"),
			inPage("document.activeElement.blur()"), act(in("role:textbox && name:Name"), "focus"), becomes("document.activeElement.id", "f")),
		b("act.increment", "a number is counted up and down", "by its step", field_, found("role:spinbutton"),
			act(in("role:spinbutton"), "increment"), becomes("el('n').value", "6"), act(in("role:spinbutton"), "decrement"),
			becomes("el('n').value", "4")),
		b("act.slider", "a slider is set", "to that value", field_, found("role:slider"),
			act(in("role:slider"), "set_value", with("value", "80")), becomes("el('s').value", "80")),
		b("act.select", "an entry of a list", "it is chosen", list, found("role:combobox"),
			act(in("role:combobox && name:Colour"), "select", with("value", "green")), becomes("el('c').value", "green")),
		b("act.toggle", "a checkbox", "changes each time", list, found("role:checkbox && name:Keep"),
			act(in("role:checkbox && name:Keep"), "toggle"), effect(confirmed), becomes("el('k').checked", true),
			act(in("role:checkbox && name:Keep"), "toggle"), becomes("el('k').checked", false)),
		b("act.check", "a checkbox is checked twice", "it is checked, and the second time nothing is done", list,
			found("role:checkbox && name:Keep"),
			act(in("role:checkbox && name:Keep"), "check"), becomes("el('k').checked", true),
			soon(func(r *run) string {
				act(in("role:checkbox && name:Keep"), "check")(r)
				if r.Last().Result["route"] != "none" {
					return "it was checked, and yet something was done: " + suite.Brief(r.Last().Result)
				}
				return ""
			}), becomes("el('k').checked", true), act(in("role:checkbox && name:Keep"), "uncheck"), becomes("el('k').checked", false)),
		b("act.radio", "one of several choices", "it is the chosen one", list, found("role:radio && name:Second"),
			act(in("role:radio && name:Second"), "click"), becomes("el('r2').checked", true)),
		b("act.expand", "what can be opened", "opens and closes", list, found("name:More"),
			func(r *run) {
				// Browsers differ in what they call it.
				call("query", with("selector", in("name:More && (state:collapsed || role:button)")))(r)
				keep("ref", "matches.0.element_ref")(r)
			},
			act("{ref}", "expand"), becomes("el('d').open", true), act("{ref}", "collapse"), becomes("el('d').open", false)),
		b("act.drag", "one element dragged onto another", "it is dropped there", file("drag.html"),
			found("name:Card"), dropped(act(in("role:image && name:Card"), "drag", with("to", in("role:group && name:Tray")))),
			becomes("el('out').textContent", "card")),
		b("act.scroll-into-view", "an element far below", "it is in view",
			html(`<div style="height:4000px"></div><button id=far>Far</button><div style="height:2000px"></div>`),
			found("role:button && name:Far"), act(in("role:button && name:Far"), "scroll", with("into_view", true)),
			becomes("(() => { const b = el('far').getBoundingClientRect(); return b.top >= 0 && b.bottom <= innerHeight })()", true)),
		b("act.scroll", "three lines down", "the page moved down",
			html(`<div role=region aria-label=Pane tabindex=0 style="height:300px;overflow:auto" id=p><div style="height:4000px">tall</div></div>`),
			found("name:Pane"),
			act(in("name:Pane"), "scroll", with("direction", "down", "lines", 3)), becomes("el('p').scrollTop > 20", true),
			act(in("name:Pane"), "scroll", with("direction", "up", "pages", 3)), becomes("el('p').scrollTop", 0)),
		b("act.then-wait", "a click, and what comes of it awaited in the same call", "the answer comes when it is there",
			html(
				`<button onclick="setTimeout(() => document.body.append(Object.assign(document.createElement('button'), { textContent: 'Late' })), 400)">Start</button>`),
			found("role:button && name:Start"), func(r *run) {
				args := action(in("role:button && name:Start"), "click")
				args["then_wait"] = with("selector", in("role:button && name:Late"), "state", "exists", "timeout_ms", 20000)
				call("act", args)(r)
			}, field("wait.status", "satisfied")),
		b("act.menu", "an entry of a program's menu", "the program does it", needsGTK, editor("gtk", "before"),
			act(`window:~"{editor}" >> role:textbox && state:multiline`, "set_value", with("value", "by the menu")),
			act(`window:~"{editor}"`, "menu", with("path", []any{"File", "Save"})), holdsFile("by the menu")),
		b("act.gtk", "a text in a GTK editor", "its file has it", needsGTK, editor("gtk", "before"),
			act(`window:~"{editor}" >> role:textbox && state:multiline`, "set_value", with("value", six)), effect(confirmed), saved(six)),
		b("act.qt", "a text in a Qt editor", "its file has it", needsQt, editor("qt", "before"),
			act(`window:~"{editor}" >> role:textbox && state:multiline`, "set_value", with("value", six)), effect(confirmed), saved(six)),
	}
}
