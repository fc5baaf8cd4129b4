package browser

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// typing: text into fields as a person would, and no faster than the page can
// follow.
func typing() []*behaviour {
	types := func(selector, text string) step {
		return call("type", with("selector", selector, "text", text))
	}
	long := strings.Repeat("lorem ipsum ", 400)
	return []*behaviour{
		b("type.appends", "a field with a value", "the text is added at the end", html(`<input id=f value=old>`), types("#f", " new"),
			holds(`f.value`, "old new")),
		b("type.clear", "a field with a value, to be emptied first", "only the new text is there", html(`<input id=f value=old>`),
			call("type", with("selector", "#f", "text", "new", "clear", true)), holds(`f.value`, "new")),
		b("type.only-clear", "an empty text", "the field is empty and the page was told",
			html(`<input id=f value=old oninput="document.title='told'">`), call("type", with("selector", "#f", "text", "", "clear", true)),
			holds(`[f.value, document.title]`, []string{"", "told"})),
		b("type.events", "a page that listens to input", "it gets input and change as from a person", file("type.events.html"),
			types("#f", "abc"), holds(`[log[0], log.includes('inputtrue'), f.value]`, []any{"focustrue", true, "abc"})),
		b("type.keys", "a page that listens to keys", "each character is a trusted key press",
			html(`<input id=f><script>var d='';f.addEventListener('keydown',e=>{if(e.isTrusted)d+=e.key})</script>`), types("#f", "Hi there"),
			holds(`[f.value, d.replaceAll('Shift','')]`, []string{"Hi there", "Hi there"})),
		b("type.keys-far", "a listener far up the page", "keys are real as well",
			html(`<div><form><input id=f></form></div><script>var n=0;document.addEventListener('keydown',()=>n++)</script>`), types("#f", "abcd"),
			holds(`[f.value, n]`, []any{"abcd", 4})),
		b("type.keypress-filter", "a field that takes digits only", "what it refuses is not there",
			html(`<input id=f onkeydown="if(!/^[0-9]$/.test(event.key)&&event.key.length==1)event.preventDefault()">`), types("#f", "1a2b3"),
			holds(`f.value`, "123")),
		b("type.slowly", "real keys asked for", "they are real though nothing listens yet", file("type.slowly.html"),
			call("type", with("selector", "#f", "text", "abc", "slowly", true)), holds(`[f.value, document.title]`, []string{"abc", "3"})),
		b("type.autocomplete", "a field with suggestions", "they appear, and one can be chosen", file("type.autocomplete.html"),
			types("#f", "ri"), call("click", with("ref", at{`option "Riga"`})), holds(`f.value`, "Riga")),
		b("type.unicode", "text beyond ASCII", "it arrives as it is", html(`<input id=f>`), types("#f", "Grüße 🙂 日本"),
			holds(`f.value`, "Grüße 🙂 日本")),
		b("type.unicode-keys", "text beyond ASCII where keys are listened to", "it arrives as it is", html(`<input id=f onkeydown="1">`),
			types("#f", "é🙂ß"), holds(`f.value`, "é🙂ß")),
		b("type.long", "thousands of characters", "all arrive", html(`<textarea id=f></textarea>`), types("#f", long),
			holds(`f.value.length`, len(long))),
		b("type.lines", "several lines into a text area", "the lines stay", html(`<textarea id=f></textarea>`), types("#f", "one\ntwo"),
			holds(`f.value`, "one\ntwo")),
		b("type.lines-rich", "several lines into rich text", "the lines stay", html(`<div id=f contenteditable></div>`), types("#f", "one\ntwo"),
			holds(`f.innerText.trim().split(/\n+/).join('|')`, "one|two")),
		b("type.rich", "rich text with content", "the text is added", html(`<div id=f contenteditable><b>bold</b> text</div>`), types("#f", "!"),
			holds(`f.innerText`, "bold text!")),
		b("type.submit", "text and Enter", "the form is sent with it", html(`<form action=go><input id=f name=q></form>`),
			page{"go", `<title>went</title>`}, call("type", with("selector", "#f", "text", "find me", "submit", true)), served("go", "q=find+me"),
			holds(`document.title`, "went")),
		b("type.submit-script", "Enter where a script takes it", "the script gets it",
			html(`<input id=f onkeydown="if(event.key=='Enter')document.title='sent '+this.value">`),
			call("type", with("selector", "#f", "text", "hi", "submit", true)), holds(`document.title`, "sent hi")),
		b("type.number", "a number field", "the number is there", html(`<input id=f type=number>`), types("#f", "-12.5"),
			holds(`f.valueAsNumber`, -12.5)),
		b("type.date", "a date field", "the date is there", html(`<input id=f type=date>`), types("#f", "2026-02-03"),
			holds(`f.value`, "2026-02-03")),
		b("type.max-length", "a field with a limit", "what fits is there, and the call does not claim more", html(`<input id=f maxlength=3>`),
			types("#f", "abcdef"), effect(capabilities.EffectPartial), holds(`f.value`, "abc")),
		b("type.formatting", "a field that rewrites its text", "the text is as the page wants it, and the call says partial",
			html(`<input id=f oninput="this.value=this.value.toUpperCase()">`), types("#f", "shout"), effect(capabilities.EffectPartial),
			holds(`f.value`, "SHOUT")),
		b("type.masked", "a phone number mask", "the mask's own characters are kept", file("type.masked.html"), types("#f", "123456"),
			holds(`f.value`, "123-456")),
		b("type.controlled", "a field that its framework holds", "the framework's state has the text", file("type.controlled.html"),
			types("#f", "react"), holds(`[state, f.value]`, []string{"react", "react"})),
		b("type.readonly", "a field that may not be changed", "refused; the value stays", html(`<input id=f readonly value=fix>`),
			refused(capabilities.CodeElementDisabled, "type", with("selector", "#f", "text", "x")), holds(`f.value`, "fix")),
		b("type.disabled", "a disabled field", "refused; the value stays", html(`<input id=f disabled value=fix>`),
			refused(capabilities.CodeElementDisabled, "type", with("selector", "#f", "text", "x")), holds(`f.value`, "fix")),
		b("type.not-a-field", "a paragraph", "refused; it stays as it is", html(`<p id=f>text</p>`),
			either("type", with("selector", "#f", "text", "x")), check(func(_ *run, c *suite.Call) string {
				if c.Code == "" {
					return "it was not refused"
				}
				return ""
			}), holds(`f.textContent`, "text")),
		b("type.covered", "a field below an overlay", "refused or typed; never typed into something else",
			html(`<input id=f><div style="position:fixed;inset:0"><input id=g></div>`), either("type", with("selector", "#f", "text", "x")),
			holds(`g.value`, "")),
		b("type.password-secret", "a password", "it is in the field and in no answer", html(`<input id=f type=password>`),
			types("#f", "correct horse"), without("horse"), holds(`f.value=="correct horse"`, true), call("snapshot", nil), without("horse")),
		b("type.password-submit", "a password sent by a form", "it is in the server's hands and in no answer",
			html(`<form action=go><input id=f type=password name=p></form>`), page{"go", `<title>in</title>`},
			call("type", with("selector", "#f", "text", "s3cret!", "submit", true)), without("s3cret"), without("s3cret%21"),
			served("go", "p=s3cret")),
		b("type.focus-moves", "a field whose focus handler moves on", "the text is not in another field",
			html(`<input id=f onfocus="g.focus()"><input id=g>`), either("type", with("selector", "#f", "text", "x")),
			holds(`[f.value, g.value].join('|') != 'x|x'`, true)),
		b("type.scrolls", "a field far below", "it is scrolled to and filled", html(`<div style="height:4000px"></div><input id=f>`),
			types("#f", "x"), holds(`[f.value, scrollY>0]`, []any{"x", true})),
		b("type.caret-end", "a text area with text, the caret at its start", "the text is added at the end",
			html(`<textarea id=f>abc</textarea>`), holds(`f.focus(), f.setSelectionRange(0,0), 1`, 1), types("#f", "d"), holds(`f.value`, "abcd")),
		b("type.otp", "six boxes for one digit each", "each gets its digit", file("type.otp.html"), func(r *run) {
			for i, digit := range "135790" {
				types("#o"+string(rune('0'+i)), string(digit))(r)
			}
		}, holds(`[...d.children].map(f=>f.value).join('')`, "135790")),
		b("type.ref", "a field by its ref", "that field gets the text", html(`<input aria-label=A id=a><input aria-label=B id=z>`),
			call("type", with("ref", at{`"B"`}, "text", "x")), holds(`[a.value,z.value]`, []string{"", "x"})),
		b("type.design-mode", "a document edited as a whole, in a frame", "the text is there",
			html(`<iframe id=i srcdoc="<body>"></iframe><script>i.onload=()=>{i.contentDocument.designMode='on'}</script>`),
			becomes(`i.contentDocument.designMode`, "on"), call("click", with("selector", "#i")), call("press-key", with("key", "a")),
			holds(`i.contentDocument.body.textContent`, "a")),
	}
}
