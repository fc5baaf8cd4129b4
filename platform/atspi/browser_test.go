package atspi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

// page is a page of about 1,400 elements.
func page(script string) string {
	var b strings.Builder
	b.WriteString(`<title>Page</title><input id=i aria-label=field value=hello><input type=password id=p value=secret aria-label=pw>` +
		`<textarea id=t aria-label=area>one</textarea><button id=b onclick='document.title="clicked"'>Go</button>` +
		`<input type=checkbox id=c aria-label=box onchange='document.title=this.checked'><input type=range id=r min=0 max=10 value=3 aria-label=range oninput='document.title=this.value'><ul id=u>`)
	for i := range 300 {
		fmt.Fprintf(&b, "<li><a href='#%d'>link %d</a> <b>bold %d</b></li>", i, i, i)
	}
	b.WriteString("</ul><script>" + script + "</script>")
	return b.String()
}

// openPage shows a page; accessibility has to be enabled before a browser starts.
func openPage(t testing.TB, d *desk.Desk, a *Accessibility, script string) *desk.App {
	read(t, a, platform.TreeQuery{})
	c := d.Chromium(page(script), "--force-renderer-accessibility")
	named(t, a, 0, "button", "Go")
	find(t, a, 0, "last link", func(e platform.Element) bool { return e.Name == "link 299" })
	return c
}

func TestBrowser(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	a := ears(t, d)
	c := openPage(t, d, a, "")
	ctx := t.Context()
	get := func(role, name string) platform.Element { t.Helper(); return named(t, a, 0, role, name) }

	field := get("textbox", "field")
	if field.Value != "hello" || field.Bounds.Empty() || field.Window != "x11:"+c.Window.ID {
		t.Errorf("the field is %+v", field)
	}
	if err := a.SetText(ctx, field.Ref, many); !errors.Is(err, platform.ErrCannot) { // typing is the way in
		t.Errorf("setting the field: %v", err)
	}
	if err := a.Focus(ctx, field.Ref); err != nil {
		t.Errorf("focusing: %v", err)
	}
	d.Activate(c.Window.ID)
	find(t, a, 0, "focused field", func(e platform.Element) bool { return e.Ref == field.Ref && slices.Contains(e.States, "focused") })
	d.Xdotool("key", "ctrl+a", "BackSpace")
	d.Xdotool("type", "typed")
	find(t, a, 0, "field's new value", func(e platform.Element) bool { return e.Ref == field.Ref && e.Value == "typed" })
	if text, err := a.Text(ctx, field.Ref, 100); text != "typed" || err != nil {
		t.Errorf("the field has %q (%v)", text, err)
	}
	if text, err := a.Text(ctx, get("textbox", "area").Ref, 100); text != "one" || err != nil {
		t.Errorf("the area has %q (%v)", text, err)
	}
	pw := get("textbox", "pw")
	if text, err := a.Text(ctx, pw.Ref, 100); text != "" || !errors.Is(err, platform.ErrCannot) || pw.Value != "" || !slices.Contains(pw.States, "protected") {
		t.Errorf("the password field is %+v, gave %q (%v)", pw, text, err)
	}
	if err := a.Do(ctx, get("button", "Go").Ref, platform.Press); err != nil {
		t.Errorf("pressing: %v", err)
	}
	desk.Await(t, "the click", func() bool { return strings.HasPrefix(c.Title(), "clicked") })
	if err := a.Do(ctx, get("checkbox", "box").Ref, platform.Press); err != nil {
		t.Errorf("checking: %v", err)
	}
	desk.Await(t, "the check", func() bool { return strings.HasPrefix(c.Title(), "true") })
	find(t, a, 0, "checked box", func(e platform.Element) bool { return e.Name == "box" && slices.Contains(e.States, "checked") })
	if err := a.SetNumber(ctx, get("slider", "range").Ref, 7); err != nil {
		t.Errorf("setting the range: %v", err)
	}
	desk.Await(t, "the range", func() bool { return strings.HasPrefix(c.Title(), "7") })

	// An element that somebody else scrolls into view is seen, though nothing tells.
	last := find(t, a, 0, "last link", func(e platform.Element) bool { return e.Name == "link 299" && e.Role == "link" })
	if !last.Bounds.Empty() || !slices.Contains(last.States, "offscreen") {
		t.Errorf("the last link is %+v", last)
	}
	if err := a.Reveal(ctx, last.Ref); err != nil {
		t.Errorf("revealing: %v", err)
	}
	find(t, a, 0, "last link on the screen", func(e platform.Element) bool {
		return e.Ref == last.Ref && slices.Contains(e.States, "visible") && !e.Bounds.Empty()
	})
	d.Activate(c.Window.ID)
	d.Xdotool("mousemove", fmt.Sprint(c.Window.X+100), fmt.Sprint(c.Window.Y+400), "click", "--repeat", "100", "--delay", "5", "4")
	desk.Await(t, "the top to be back", func() bool {
		tree := read(t, a, platform.TreeQuery{}) // without bounds, too
		i := slices.IndexFunc(tree.Elements, func(e platform.Element) bool { return e.Ref == field.Ref })
		return i >= 0 && slices.Contains(tree.Elements[i].States, "visible")
	})
}

// The mirror of a page that changes by itself becomes what a first reading makes. Elements that the
// first three kinds of change turn over are not what they were at the end.
func TestBrowserMirror(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	a := ears(t, d)
	openPage(t, d, a, `
		let n = 0, kinds = [
			() => { b.textContent = "Go " + n; b.disabled = !b.disabled },
			() => { c.checked = !c.checked; r.disabled = !r.disabled },
			() => { p.type = p.type == "text" ? "password" : "text" },
			() => { let e = document.createElement("li"); e.textContent = "new " + n; u.insertBefore(e, u.children[n % u.children.length]) },
			() => { u.children[(n * 7) % u.children.length].remove() },
			() => { let e = u.children[(n * 3) % u.children.length]; e.style.display = e.style.display ? "" : "none" },
			() => { let e = u.children[0]; u.appendChild(e) },
			() => { i.setAttribute("aria-label", "field " + n) },
			() => { u.children[1].innerHTML = "<p>some <i>text</i> " + n + "</p>" },
			() => { let a = u.children[(n * 5) % u.children.length].querySelector("a"); if (a) a.toggleAttribute("href") },
		]
		b.onclick = () => { let timer = setInterval(() => { kinds[n % kinds.length](); if (++n == 203) { clearInterval(timer); document.title = "done " + [...u.children].filter(e => e.style.display == "").length } }, 20) }`)
	if err := a.Do(t.Context(), named(t, a, 0, "button", "Go").Ref, platform.Press); err != nil {
		t.Fatal(err)
	}
	for {
		tree := read(t, a, platform.TreeQuery{Bounds: true})
		if slices.ContainsFunc(tree.Elements, func(e platform.Element) bool { return e.Role == "window" && strings.HasPrefix(e.Name, "done") }) {
			break
		}
	}
	sameAsCold(t, d, a, platform.TreeQuery{Bounds: true})
}
