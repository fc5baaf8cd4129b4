package fake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/platform"
)

type accessibility struct{ d *Desktop }

// element is an Element with what does not show in it.
type element struct {
	platform.Element
	parent string // its Ref
	text   string // also of a protected field
	number [4]float64
	hung   bool
	press  func(d *Desktop)
}

// Option says more of an element than platform.Element does.
type Option func(e *element)

// Under puts the element below another one.
func Under(ref string) Option { return func(e *element) { e.parent = ref } }

// OnPress is what pressing it does, by the mouse or as an action.
func OnPress(f func(d *Desktop)) Option { return func(e *element) { e.press = f } }

// Numeric makes it a slider or spin button.
func Numeric(value, least, most, step float64) Option {
	return func(e *element) { e.number = [4]float64{value, least, most, step} }
}

// AddElement adds e at the end of its parent and returns its Ref, made if empty.
func (d *Desktop) AddElement(e platform.Element, options ...Option) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seq++
	if e.Ref == "" {
		e.Ref = fmt.Sprintf("fake:e%d", d.seq)
	}
	own := element{Element: e, text: e.Value}
	for _, o := range options {
		o(&own)
	}
	if own.press != nil && !slices.Contains(own.Actions, platform.Press) {
		own.Actions = append(slices.Clone(own.Actions), platform.Press)
	}
	own.showText()
	d.elements = append(d.elements, own)
	d.elementWatch.send(platform.ElementEvent{PID: e.PID, Ref: e.Ref, Kind: "added"}, joinEvents)
	return e.Ref
}

// EditElement changes an element; false if it is gone.
func (d *Desktop) EditElement(ref string, edit func(e *platform.Element)) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.elementLocked(ref)
	if i < 0 {
		return false
	}
	was := d.elements[i].Value
	edit(&d.elements[i].Element)
	if v := d.elements[i].Value; v != was {
		d.elements[i].text = v
	}
	d.elements[i].showText()
	d.elementChangedLocked(i, "changed")
	return true
}

// RemoveElement takes an element away with all below it.
func (d *Desktop) RemoveElement(ref string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.elementLocked(ref)
	if i < 0 {
		return
	}
	pid := d.elements[i].PID
	gone := map[string]bool{ref: true}
	for again := true; again; {
		again = false
		for _, e := range d.elements {
			if gone[e.parent] && !gone[e.Ref] {
				gone[e.Ref], again = true, true
			}
		}
	}
	d.elements = slices.DeleteFunc(d.elements, func(e element) bool { return gone[e.Ref] })
	d.elementWatch.send(platform.ElementEvent{PID: pid, Ref: ref, Kind: "removed"}, joinEvents)
}

// SetHung has an application stop answering, or answer again.
func (d *Desktop) SetHung(pid int, hung bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.elements {
		if d.elements[i].PID == pid {
			d.elements[i].hung = hung
		}
	}
}

// TextOf returns what a field holds, also a protected one.
func (d *Desktop) TextOf(ref string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := d.elementLocked(ref); i >= 0 {
		return d.elements[i].text
	}
	return ""
}

func (e *element) showText() {
	if e.Value = e.text; slices.Contains(e.States, "protected") {
		e.Value = ""
	}
}

func (e *element) has(state string) bool { return slices.Contains(e.States, state) }

func (e *element) set(state string, on bool) {
	states := slices.DeleteFunc(slices.Clone(e.States), func(s string) bool { return s == state })
	if on {
		states = append(states, state)
	}
	slices.Sort(states)
	e.States = states
}

func (d *Desktop) elementLocked(ref string) int {
	return slices.IndexFunc(d.elements, func(e element) bool { return e.Ref == ref })
}

func (d *Desktop) elementChangedLocked(i int, kind string) {
	e := &d.elements[i]
	d.elementWatch.send(platform.ElementEvent{PID: e.PID, Ref: e.Ref, Kind: kind}, joinEvents)
	if !e.Bounds.Empty() {
		d.changedLocked(e.Bounds)
	}
}

// joinEvents is what a receiver gets that does not keep up.
func joinEvents(old, v platform.ElementEvent) platform.ElementEvent {
	return platform.ElementEvent{Kind: "changed"}
}

// hitLocked returns the last, so innermost, element at p in the window that is on
// top there; -1 if there is none.
func (d *Desktop) hitLocked(p platform.Point) int {
	w := d.windowAtLocked(p)
	hit := -1
	for i, e := range d.elements {
		inTop := w < 0 || e.Window == "" || e.Window == d.windows[w].Ref
		if inTop && e.Bounds.Has(p) && !e.has("hidden") {
			hit = i
		}
	}
	return hit
}

func (d *Desktop) focusElementLocked(i int) {
	if !d.elements[i].has("focusable") && !d.elements[i].has("editable") {
		return
	}
	for k := range d.elements {
		d.elements[k].set("focused", k == i)
	}
	d.elementChangedLocked(i, "focused")
}

// pressLocked returns what pressing element i does, to be run without the lock.
func (d *Desktop) pressLocked(i int) func() {
	e := &d.elements[i]
	if !e.has("enabled") {
		return nil
	}
	switch e.Role {
	case "checkbox", "switch", "togglebutton":
		e.set("checked", !e.has("checked"))
		d.elementChangedLocked(i, "changed")
	}
	press := e.press
	if press == nil {
		return nil
	}
	return func() { press(d) }
}

// editLocked changes the text of the focused field.
func (d *Desktop) editLocked(f func(string) string) {
	for i := range d.elements {
		if e := &d.elements[i]; e.has("focused") && e.has("editable") && !e.has("readonly") {
			e.text = f(e.text)
			e.showText()
			d.elementChangedLocked(i, "text")
			return
		}
	}
}

// Tree returns the elements in the order of a walk from the applications down.
func (a *accessibility) Tree(ctx context.Context, q platform.TreeQuery) (platform.Tree, error) {
	d := a.d
	if err := d.begin(ctx, "accessibility.tree"); err != nil {
		return platform.Tree{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var t platform.Tree
	var walk func(e element, parent int)
	walk = func(e element, parent int) {
		if q.MaxElements > 0 && len(t.Elements) >= q.MaxElements {
			t.Truncated = true
			return
		}
		out := e.Element
		out.Parent = parent
		out.States = slices.Clone(out.States)
		if !q.Bounds {
			out.Bounds, out.Actions, out.Value = platform.Rect{}, nil, ""
		}
		t.Elements = append(t.Elements, out)
		at := len(t.Elements) - 1
		for _, c := range d.elements {
			if c.parent == e.Ref {
				walk(c, at)
			}
		}
	}
	for _, e := range d.elements {
		top := q.Root == "" && d.elementLocked(e.parent) < 0 || q.Root == e.Ref
		switch {
		case !top || q.PID != 0 && e.PID != q.PID:
		case e.hung:
			if !slices.Contains(t.Hung, e.App) {
				t.Hung = append(t.Hung, e.App)
			}
		default:
			walk(e, -1)
		}
	}
	if q.Root != "" && len(t.Elements) == 0 && len(t.Hung) == 0 {
		return t, fmt.Errorf("fake: %s: %w", q.Root, platform.ErrGone)
	}
	return t, nil
}

// use runs f on an element that exists and answers, and records it if it is an act.
func (a *accessibility) use(ctx context.Context, e Event, f func(i int, e *element) error) error {
	d := a.d
	if err := d.begin(ctx, e.Op); err != nil {
		return err
	}
	d.mu.Lock()
	i := d.elementLocked(e.Ref)
	err := fmt.Errorf("fake: %s: %w", e.Ref, platform.ErrGone)
	if i >= 0 {
		if err = f(i, &d.elements[i]); d.elements[i].hung {
			err = fmt.Errorf("fake: %s: %w", d.elements[i].App, platform.ErrHung)
		}
	}
	d.mu.Unlock()
	if err == nil && !slices.Contains([]string{"accessibility.element", "accessibility.text", "accessibility.number"}, e.Op) {
		d.tell(e)
	}
	return err
}

// Element reads one element.
func (a *accessibility) Element(ctx context.Context, ref string) (out platform.Element, err error) {
	err = a.use(ctx, Event{Op: "accessibility.element", Ref: ref}, func(_ int, e *element) error {
		out = e.Element
		out.States = slices.Clone(out.States)
		out.Parent = -1
		return nil
	})
	return out, err
}

// Text reads a field's text; a protected one's is ErrCannot.
func (a *accessibility) Text(ctx context.Context, ref string, most int) (text string, err error) {
	err = a.use(ctx, Event{Op: "accessibility.text", Ref: ref}, func(_ int, e *element) error {
		if e.has("protected") {
			return fmt.Errorf("fake: a protected field: %w", platform.ErrCannot)
		}
		text = e.text
		for utf8.RuneCountInString(text) > most {
			_, n := utf8.DecodeLastRuneInString(text)
			text = text[:len(text)-n]
		}
		return nil
	})
	return text, err
}

// Do presses, or has the script do another action.
func (a *accessibility) Do(ctx context.Context, ref, action string) error {
	var press func()
	err := a.use(ctx, Event{Op: "accessibility.do", Ref: ref, Key: action}, func(i int, e *element) error {
		if !slices.ContainsFunc(e.Actions, func(s string) bool { return strings.EqualFold(s, action) }) {
			return fmt.Errorf("fake: no action %q: %w", action, platform.ErrCannot)
		}
		if action == platform.Press {
			press = a.d.pressLocked(i)
		}
		return nil
	})
	if press != nil && err == nil {
		press()
	}
	return err
}

// SetText replaces a field's text.
func (a *accessibility) SetText(ctx context.Context, ref, text string) error {
	return a.use(ctx, Event{Op: "accessibility.settext", Ref: ref, Text: text}, func(i int, e *element) error {
		if !e.has("editable") || e.has("readonly") {
			return fmt.Errorf("fake: not editable: %w", platform.ErrCannot)
		}
		e.text = text
		e.showText()
		a.d.elementChangedLocked(i, "text")
		return nil
	})
}

// SetNumber sets a value within its bounds.
func (a *accessibility) SetNumber(ctx context.Context, ref string, value float64) error {
	return a.use(ctx, Event{Op: "accessibility.setnumber", Ref: ref}, func(i int, e *element) error {
		if e.number == [4]float64{} {
			return fmt.Errorf("fake: no number: %w", platform.ErrCannot)
		}
		e.number[0] = min(max(value, e.number[1]), e.number[2])
		e.text = fmt.Sprint(e.number[0])
		e.showText()
		a.d.elementChangedLocked(i, "changed")
		return nil
	})
}

// Number reads a value with its bounds.
func (a *accessibility) Number(ctx context.Context, ref string) (value, least, most, step float64, err error) {
	err = a.use(ctx, Event{Op: "accessibility.number", Ref: ref}, func(_ int, e *element) error {
		if e.number == [4]float64{} {
			return fmt.Errorf("fake: no number: %w", platform.ErrCannot)
		}
		value, least, most, step = e.number[0], e.number[1], e.number[2], e.number[3]
		return nil
	})
	return value, least, most, step, err
}

// Focus focuses an element.
func (a *accessibility) Focus(ctx context.Context, ref string) error {
	return a.use(ctx, Event{Op: "accessibility.focus", Ref: ref}, func(i int, e *element) error {
		if !e.has("focusable") && !e.has("editable") {
			return fmt.Errorf("fake: not focusable: %w", platform.ErrCannot)
		}
		a.d.focusElementLocked(i)
		return nil
	})
}

// Select selects a child of a container.
func (a *accessibility) Select(ctx context.Context, ref string, more bool) error {
	return a.use(ctx, Event{Op: "accessibility.select", Ref: ref}, func(i int, e *element) error {
		if !e.has("selectable") {
			return fmt.Errorf("fake: not selectable: %w", platform.ErrCannot)
		}
		for k := range a.d.elements {
			if o := &a.d.elements[k]; o.parent == e.parent && o.has("selectable") && !more {
				o.set("selected", false)
			}
		}
		e.set("selected", true)
		a.d.elementChangedLocked(i, "changed")
		return nil
	})
}

// Reveal makes an element that is off the screen visible.
func (a *accessibility) Reveal(ctx context.Context, ref string) error {
	return a.use(ctx, Event{Op: "accessibility.reveal", Ref: ref}, func(i int, e *element) error {
		e.set("offscreen", false)
		a.d.elementChangedLocked(i, "changed")
		return nil
	})
}

// Events delivers the changes of elements and windows.
func (a *accessibility) Events(ctx context.Context) (<-chan platform.ElementEvent, error) {
	if err := a.d.begin(ctx, "accessibility.events"); err != nil {
		return nil, err
	}
	a.d.mu.Lock()
	defer a.d.mu.Unlock()
	return add(a.d, &a.d.elementWatch, ctx, 64), nil
}
