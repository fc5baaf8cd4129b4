package browser

import "github.com/handrail-dev/handrail/capabilities"

// keys: single keys and chords, where the focus is.
func keys() []*behaviour {
	press := func(key string) step { return call("press-key", with("key", key)) }
	log := file("key.log.html")
	return []*behaviour{
		b("key.character", "a letter", "it is a trusted key press with its code, and typed", log, press("a"), holds(`[log.join(), f.value]`, []string{"a:KeyA", "a"})),
		b("key.capital", "a capital letter", "it is typed", log, press("A"), holds(`f.value`, "A")),
		b("key.symbol", "a symbol", "it is typed", log, press("?"), holds(`f.value`, "?")),
		b("key.space", "the space bar", "a focused button is pressed", html(`<button id=x onclick="document.title='pressed'">x</button><script>x.focus()</script>`), press("Space"), holds(`document.title`, "pressed")),
		b("key.enter-submits", "Enter in a field", "the form is sent", html(`<form action=go><input name=q value=1 id=f></form><script>f.focus()</script>`), page{"go", `<title>went</title>`}, press("Enter"), served("go", "q=1"), holds(`document.title`, "went")),
		b("key.tab", "Tab", "the focus moves on", html(`<input id=a><input id=z><script>a.focus()</script>`), press("Tab"), holds(`document.activeElement.id`, "z")),
		b("key.shift-tab", "Shift and Tab", "the focus moves back", html(`<input id=a><input id=z><script>z.focus()</script>`), press("Shift+Tab"), holds(`document.activeElement.id`, "a")),
		b("key.escape", "Escape", "a dialog closes", html(`<dialog id=d>x</dialog><script>d.showModal()</script>`), press("Escape"), holds(`d.open`, false)),
		b("key.arrows", "arrows in a list of choices", "the choice moves", html(`<input type=radio name=r id=a checked><input type=radio name=r id=z><script>a.focus()</script>`), press("ArrowDown"), holds(`z.checked`, true)),
		b("key.backspace", "Backspace", "the last character goes", html(`<input id=f value=abc><script>f.focus();f.setSelectionRange(3,3)</script>`), press("Backspace"), holds(`f.value`, "ab")),
		b("key.delete", "Delete", "the character behind the caret goes", html(`<input id=f value=abc><script>f.focus();f.setSelectionRange(0,0)</script>`), press("Delete"), holds(`f.value`, "bc")),
		b("key.home-end", "Home and End", "the caret moves", html(`<input id=f value=abc><script>f.focus();f.setSelectionRange(1,1)</script>`), press("Home"), holds(`f.selectionStart`, 0), press("End"), holds(`f.selectionStart`, 3)),
		b("key.chord", "Control, Shift and K", "the page gets the chord", log, press("Control+Shift+K"), holds(`log.at(-1)`, "C-S-K:KeyK")),
		b("key.modifiers", "modifiers given apart", "the same chord", log, call("press-key", with("key", "k", "modifiers", []any{"Control"})), holds(`log.at(-1)`, "C-k:KeyK")),
		b("key.select-all", "Control and A, then a letter", "the text is replaced", html(`<input id=f value=old><script>f.focus()</script>`), press("Control+a"), press("x"), holds(`f.value`, "x")),
		b("key.function", "a function key", "the page gets it", log, press("F2"), holds(`log.join()`, "F2:F2")),
		b("key.page-down", "PageDown", "the page scrolls", html(`<div style="height:5000px"></div>`), press("PageDown"), becomes(`scrollY>0`, true)),
		b("key.count", "a key several times", "each time is an event", log, call("press-key", with("key", "ArrowDown", "count", 5)), holds(`log.length`, 5)),
		b("key.hold", "a key held down", "it is down that long", html(`<script>onkeydown=e=>{if(!e.repeat)t0=e.timeStamp};onkeyup=e=>document.title=e.timeStamp-t0>=100</script>`), call("press-key", with("key", "a", "hold_ms", 200)), holds(`document.title`, "true")),
		b("key.target", "an element to focus first", "the key goes there", html(`<input id=a><input id=z>`), call("press-key", with("key", "x", "selector", "#z")), holds(`[a.value, z.value]`, []string{"", "x"})),
		b("key.target-ref", "an element by ref to focus first", "the key goes there", html(`<div id=x tabindex=0 role=button aria-label=Box onkeydown="document.title=event.key">b</div>`), call("press-key", with("key", "Enter", "ref", at{`button "Box"`})), holds(`document.title`, "Enter")),
		b("key.unknown", "a key that does not exist", "refused; nothing is pressed", log, refused(capabilities.CodeInvalidArguments, "press-key", with("key", "NoSuchKey")), holds(`log.length`, 0)),
		b("key.shortcut-page", "a shortcut that the page has", "the page's own handler runs", html(`<script>onkeydown=e=>{if(e.ctrlKey&&e.key=='s'){e.preventDefault();document.title='saved'}}</script>`), press("Control+s"), holds(`document.title`, "saved")),
		b("key.frame-focus", "the focus is in a frame", "the key goes to the frame", html(`<iframe id=i srcdoc="<input id=f>"></iframe>`), becomes(`!!i.contentDocument.querySelector('#f')`, true), holds(`i.contentDocument.querySelector('#f').focus(), 1`, 1), press("q"), holds(`i.contentDocument.querySelector('#f').value`, "q")),
		b("key.released", "a chord, then a plain key", "no modifier stays down", log, press("Control+k"), press("z"), holds(`log.at(-1)`, "z:KeyZ")),
		b("key.menu-keyboard", "a menu worked by keys alone", "its second entry is chosen", file("key.menu-keyboard.html"), press("ArrowDown"), press("Enter"), holds(`document.title`, "B")),
	}
}
