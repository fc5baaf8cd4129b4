package browser

// shadow: elements that keep their content to themselves.
func shadow() []*behaviour {
	root := func(mode, inner string) string {
		return `<div id=h></div><script>var sr=h.attachShadow({mode:'` + mode + `',delegatesFocus:true});sr.innerHTML=` + "`" + inner + "`" +
			`</script>`
	}
	const button = `<button onclick="document.title='shadow'">Inner</button>`
	said := holds(`document.title`, "shadow")
	press := call("click", with("ref", at{`button "Inner"`}))
	return []*behaviour{
		b("shadow.open", "a button in an open root", "shown and pressed", html(root("open", button)), press, said),
		b("shadow.closed", "a button in a closed root", "shown and pressed", html(root("closed", button)), press, said),
		b("shadow.closed-selector", "a selector that only a closed root matches", "the button is pressed",
			html(root("closed", `<button id=deep onclick="document.title='shadow'">Inner</button>`)), call("click", with("selector", "#deep")),
			said),
		b("shadow.open-selector", "a selector that only an open root matches", "the button is pressed",
			html(root("open", `<button id=deep onclick="document.title='shadow'">Inner</button>`)), call("click", with("selector", "#deep")), said),
		b("shadow.nested", "open roots within open roots", "the innermost button is pressed", file("shadow.nested.html"), press, said),
		b("shadow.closed-in-open", "a closed root within an open one", "the button is pressed", html(root("open", `<div id=k></div>`)+
			`<script>sr.querySelector('#k').attachShadow({mode:'closed'}).innerHTML="<button onclick=\"document.title='shadow'\">Inner</button>"</script>`),
			press, said),
		b("shadow.closed-in-closed", "a closed root within a closed one", "the button is pressed", html(root("closed", `<div id=k></div>`)+
			`<script>sr.querySelector('#k').attachShadow({mode:'closed'}).innerHTML="<button onclick=\"document.title='shadow'\">Inner</button>"</script>`),
			press, said),
		b("shadow.slots", "content that a slot takes in", "it is shown once, and pressed", file("shadow.slots.html"), line("Frame"), press, said),
		b("shadow.type", "a field in an open root", "it gets the text", html(root("open", `<input aria-label=F>`)),
			call("type", with("ref", at{`"F"`}, "text", "hi")), holds(`sr.querySelector('input').value`, "hi")),
		b("shadow.type-closed", "a field in a closed root", "it gets the text", html(root("closed", `<input aria-label=F>`)),
			call("type", with("ref", at{`"F"`}, "text", "hi")), holds(`sr.querySelector('input').value`, "hi")),
		b("shadow.fill-closed", "fields in a closed root", "one call fills them",
			html(root("closed", `<input aria-label=F><input type=checkbox aria-label=C>`)),
			call("fill-form", with("fields", []any{with("ref", at{`"F"`}, "value", "x"), with("ref", at{`"C"`}, "value", "true")})),
			holds(`[sr.querySelector('input').value, sr.querySelector('[type=checkbox]').checked]`, []any{"x", true})),
		b("shadow.label", "a label within the root", "it names its field", html(root("open", `<label for=q>Query</label><input id=q>`)),
			call("type", with("ref", at{`"Query"`}, "text", "x")), holds(`sr.querySelector('#q').value`, "x")),
		b("shadow.late", "a root that is attached later", "its button is pressed", file("shadow.late.html"),
			call("wait-for", with("text", "Inner", "timeout_ms", 5000)), press, said),
		b("shadow.covered", "a button in a root below an overlay of the page",
			"refused", html(root("open", button)+`<div id=ov style="position:fixed;inset:0"></div>`),
			refused("element_obscured", "click", with("ref", at{`button "Inner"`}), "ov"), holds(`document.title`, "Test page")),
		b("shadow.frame-in", "a frame within a closed root", "its button is pressed",
			html(`<script>var heard=[];onmessage=e=>heard.push(e.data)</script>`+root("closed", `<iframe src=in></iframe>`)),
			page{"in", `<button onclick="top.postMessage('pressed','*')">Inner</button>`}, press, becomes(`heard.join()`, "pressed")),
		b("shadow.in-frame", "a closed root within a frame of another origin", "its button is pressed",
			html(`<script>var heard=[];onmessage=e=>heard.push(e.data)</script><iframe src="{B}in"></iframe>`),
			page{
				"in",
				`<div id=h></div><script>h.attachShadow({mode:'closed'}).innerHTML="<button onclick=\"top.postMessage('pressed','*')\">Inner</button>"</script>`,
			},
			press, becomes(`heard.join()`, "pressed")),
		b("shadow.custom-select", "a choice built of custom elements", "its entry is chosen", file("shadow.custom-select.html"),
			call("click", with("ref", at{`button "Pick"`})), call("click", with("ref", at{`option "Blue"`})), holds(`document.title`, "Blue")),
		b("shadow.user-agent", "a page that guards attachShadow", "its own function is untouched by us",
			html(`<script>var native=Element.prototype.attachShadow.toString()</script>`+root("closed", button)), line("Inner"),
			holds(
				`[native.includes('[native code]'), Element.prototype.attachShadow.toString()==native, Object.keys(globalThis).filter(k=>/handrail/i.test(k)).length]`,
				[]any{true, true, 0})),
	}
}
