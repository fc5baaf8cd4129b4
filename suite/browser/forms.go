package browser

import (
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// forms: many fields in one call, choices of every kind, and files.
func forms() []*behaviour {
	return []*behaviour{
		b("fill.one", "one field", "its value is replaced and the page is told",
			html(`<input id=f value=old><script>var log=[];f.oninput=()=>log.push('input');f.onchange=()=>log.push('change')</script>`),
			call("fill-form", with("selector", "#f", "value", "new")), holds(`[f.value, log.includes('input')]`, []any{"new", true})),
		b("fill.many", "a form of many kinds of fields", "all are filled by one call, and the form sends them", file("fill.many.html"),
			page{"go", `<title>went</title>`},
			call("fill-form", with("fields", []any{
				with("selector", "#n", "value", "Ada"), with("selector", "#t", "value", "two\nlines"), with("selector", "#c", "value", "true"),
				with("selector", "#r2", "value", "true"), with("selector", "#s", "value", "Beta"), with("selector", "#d", "value", "2026-01-02"),
			})),
			field("filled", 6), holds(`[n.value,t.value,c.checked,r2.checked,s.value,d.value].join('|')`, "Ada|two\nlines|true|true|b|2026-01-02"),
			call("click", with("selector", "#go")), served("go", "n=Ada", "c=yes", "r=2", "s=b", "d=2026-01-02")),
		b("fill.refs", "fields by their refs", "each gets its value", html(`<input aria-label=First id=a><input aria-label=Last id=z>`),
			call("fill-form", with("fields", []any{with("ref", at{`"First"`}, "value", "Ada"), with("ref", at{`"Last"`}, "value", "L")})),
			holds(`a.value+z.value`, "AdaL")),
		b("fill.uncheck", "a checked box", "false unchecks it; false again leaves it", html(`<input type=checkbox id=c checked>`),
			call("fill-form", with("selector", "#c", "value", "false")), holds(`c.checked`, false),
			call("fill-form", with("selector", "#c", "value", "false")), holds(`c.checked`, false)),
		b("fill.check-events", "a box whose page listens", "the page is told once",
			html(`<input type=checkbox id=c><script>var n=0;c.onchange=()=>n++</script>`),
			call("fill-form", with("selector", "#c", "value", "true")), holds(`[c.checked, n]`, []any{true, 1})),
		b("fill.multi-select", "a choice of several", "lines are the options",
			html(`<select id=s multiple><option>red<option>green<option>blue</select>`),
			call("fill-form", with("selector", "#s", "value", "red\nblue")), holds(`[...s.selectedOptions].map(o=>o.value).join()`, "red,blue")),
		b("fill.rich", "rich text", "its text is replaced", html(`<div id=e contenteditable>old</div>`),
			call("fill-form", with("selector", "#e", "value", "new")), holds(`e.innerText.trim()`, "new")),
		b("fill.range", "a slider", "it is set and the page is told",
			html(`<input id=r type=range min=0 max=10 value=1 oninput="document.title=this.value">`),
			call("fill-form", with("selector", "#r", "value", "7")), holds(`[r.value, document.title]`, []string{"7", "7"})),
		b("fill.color", "a colour", "it is set", html(`<input id=c type=color>`), call("fill-form", with("selector", "#c", "value", "#ff8800")),
			holds(`c.value`, "#ff8800")),
		b("fill.datetime", "date and time", "both are set", html(`<input id=d type=datetime-local><input id=t type=time><input id=m type=month>`),
			call("fill-form", with("fields", []any{
				with("selector", "#d", "value", "2026-03-04T05:06"), with("selector", "#t", "value", "07:08"),
				with("selector", "#m", "value", "2026-09"),
			})), holds(`[d.value,t.value,m.value].join()`, "2026-03-04T05:06,07:08,2026-09")),
		b("fill.one-bad", "one of the fields does not exist", "the refusal names it", html(`<input id=a><input id=z>`), refused(
			capabilities.CodeElementNotFound,
			"fill-form", with("fields", []any{with("selector", "#a", "value", "1"), with("selector", "#nope", "value", "2")})),
			holds(`z.value`, "")),
		b("fill.disabled", "a disabled field", "refused; it stays as it is", html(`<input id=f disabled value=old>`),
			refused(capabilities.CodeElementDisabled, "fill-form", with("selector", "#f", "value", "new")), holds(`f.value`, "old")),
		b("fill.dependent", "a field that the one before enables", "both are filled by one call",
			html(`<input id=a oninput="z.disabled=!this.value"><input id=z disabled>`),
			call("fill-form", with("fields", []any{with("selector", "#a", "value", "1"), with("selector", "#z", "value", "2")})),
			holds(`a.value+z.value`, "12")),
		b("fill.password", "a password among the fields", "it is filled and in no answer", html(`<input id=u><input id=p type=password>`),
			call("fill-form", with("fields", []any{with("selector", "#u", "value", "ada"), with("selector", "#p", "value", "tr0ub4dor")})),
			without("tr0ub4dor"), holds(`p.value=="tr0ub4dor"`, true)),
		b("fill.keys-page", "fields whose page counts on key events", "what the page makes of them is there",
			html(`<input id=f onkeyup="document.title=this.value.length">`), call("fill-form", with("selector", "#f", "value", "abcd")),
			holds(`f.value`, "abcd"), becomes(`document.title`, "4")),
		b("fill.snapshot", "the outline asked for with it", "it shows the new value", html(`<input id=f aria-label=F>`),
			call("fill-form", with("selector", "#f", "value", "shown", "snapshot", "full")), field("snapshot", "shown"), holds(`f.value`, "shown")),

		b("select.value", "an option by value", "it is chosen and the page is told",
			html(`<select id=s onchange="document.title=this.value"><option value=1>One<option value=2>Two</select>`),
			call("select-option", with("selector", "#s", "values", []any{"2"})), holds(`[s.value, document.title]`, []string{"2", "2"})),
		b("select.label", "an option by its label", "it is chosen and named",
			html(`<select id=s><option value=1>One<option value=2>Two</select>`),
			call("select-option", with("selector", "#s", "values", []any{"Two"})), field("selected.0", "Two"), holds(`s.value`, "2")),
		b("select.several", "several options", "they and only they are chosen",
			html(`<select id=s multiple><option selected>a<option>b<option>c</select>`),
			call("select-option", with("selector", "#s", "values", []any{"b", "c"})), holds(`[...s.selectedOptions].map(o=>o.value).join()`, "b,c")),
		b("select.ref", "a choice by its ref", "the option is chosen", html(`<select id=s aria-label=Size><option>S<option>L</select>`),
			call("select-option", with("ref", at{`combobox "Size"`}, "values", []any{"L"})), holds(`s.value`, "L")),
		b("select.missing", "an option that is not there", "refused with those that are; nothing changes",
			html(`<select id=s><option>S<option>L</select>`), either("select-option", with("selector", "#s", "values", []any{"XXL"})),
			check(func(_ *run, c *suite.Call) string {
				if c.Code == "" {
					return "it was not refused"
				}
				return ""
			}), holds(`s.value`, "S")),
		b("select.disabled-option", "an option that may not be chosen", "refused; nothing changes",
			html(`<select id=s><option>S<option disabled>L</select>`), either("select-option", with("selector", "#s", "values", []any{"L"})),
			holds(`s.value`, "S")),
		b("select.optgroup", "an option in a group", "it is chosen",
			html(`<select id=s><optgroup label=G><option>x</optgroup><optgroup label=H><option>y</optgroup></select>`),
			call("select-option", with("selector", "#s", "values", []any{"y"})), holds(`s.value`, "y")),
		b("select.navigates", "a choice that opens a page", "the page is open when the call ends",
			html(`<select id=s onchange="location=this.value"><option value="">-<option value=next>Next</select>`),
			page{"next", `<title>next</title>`}, call("select-option", with("selector", "#s", "values", []any{"next"})),
			holds(`document.title`, "next")),
		b("select.late-options", "options that come by script", "the new ones can be chosen",
			html(`<select id=s></select><script>setTimeout(()=>s.innerHTML='<option>a<option>b',100)</script>`), becomes(`s.options.length`, 2),
			call("select-option", with("selector", "#s", "values", []any{"b"})), holds(`s.value`, "b")),
	}
}
