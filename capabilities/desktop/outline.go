package desktop

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

const (
	maxSnapshots    = 16      // that later ones can be compared with
	maxSnapshotText = 1 << 20 // bytes of all of them
	maxLine         = 240     // characters of a name or value in a line
)

// line is one window or element of an outline. Its key says what it is about, so
// that two outlines can be compared.
type line struct {
	key   string
	depth int
	text  string
}

// outlined is an outline that is kept.
type outlined struct {
	id    string
	lines []line
}

func (o outlined) text() string {
	var b strings.Builder
	for _, l := range o.lines {
		l.write(&b, "")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (l line) write(b *strings.Builder, mark string) {
	b.WriteString(mark)
	for range l.depth {
		b.WriteString("  ")
	}
	b.WriteString("- ")
	b.WriteString(l.text)
	b.WriteByte('\n')
}

// diff tells what is different from an earlier outline: + came, - went, ~ is
// different now. Each group of changes is headed by its window.
func (o outlined) diff(before outlined) string {
	was := make(map[string]line, len(before.lines))
	for _, l := range before.lines {
		was[l.key] = l
	}
	is := make(map[string]bool, len(o.lines))
	var b strings.Builder
	var above []line // the lines that the present one is below
	written := map[string]bool{}
	for _, l := range o.lines {
		is[l.key] = true
		for len(above) > 0 && above[len(above)-1].depth >= l.depth {
			above = above[:len(above)-1]
		}
		old, known := was[l.key]
		if !known || old.text != l.text {
			if len(above) > 0 && !written[above[0].key] {
				written[above[0].key] = true
				above[0].write(&b, "  ")
			}
			written[l.key] = true
			mark := "~ "
			if !known {
				mark = "+ "
			}
			l.write(&b, mark)
		}
		above = append(above, l)
	}
	for _, l := range before.lines {
		if !is[l.key] {
			line{depth: 0, text: l.text}.write(&b, "- ")
		}
	}
	if b.Len() == 0 {
		return "(nothing changed)"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// snapshotTable keeps the last outlines.
type snapshotTable struct {
	tag string

	mu   sync.Mutex
	next int
	size int
	list []outlined // oldest first
}

func newSnapshotTable() *snapshotTable { return &snapshotTable{tag: rand.Text()[:4]} }

// add keeps an outline and sets its ID.
func (t *snapshotTable) add(o outlined) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	o.id = "s" + strconv.Itoa(t.next) + "-" + t.tag
	t.list = append(t.list, o)
	t.size += o.bytes()
	for len(t.list) > maxSnapshots || t.size > maxSnapshotText && len(t.list) > 1 {
		t.size -= t.list[0].bytes()
		t.list = slices.Delete(t.list, 0, 1)
	}
	return o.id
}

func (t *snapshotTable) get(id string) (outlined, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.list, func(o outlined) bool { return o.id == id })
	if i < 0 {
		return outlined{}, false
	}
	return t.list[i], true
}

func (o outlined) bytes() int {
	n := 0
	for _, l := range o.lines {
		n += len(l.key) + len(l.text) + 48
	}
	return n
}

// outline tells the windows without elements and the applications with theirs, a
// line each.
func (v *view) outline(windows []platform.Window) outlined {
	o := &outliner{view: v}
	named := map[string]bool{}
	for i := range v.Elements {
		named[v.Elements[i].Window] = true
	}
	for _, w := range windows {
		if !named[w.Ref] && !o.add("w"+w.Ref, 0, windowLine(w)) {
			break
		}
	}
	o.walk(v.roots, 0, "", "")
	return outlined{lines: o.lines}
}

func windowLine(w platform.Window) string {
	text := "window " + selector.Quote(capabilities.First(selector.Simple(w.Title), maxLine)) + " [ref=" + capabilities.Clip(w.Ref, 256) + "]"
	if w.App != "" {
		text += " [app=" + capabilities.First(selector.Simple(w.App), 60) + "]"
	}
	if w.Focused {
		text += " [focused]"
	}
	if w.Minimized {
		text += " [minimized]"
	}
	return text + ": no elements"
}

type outliner struct {
	*view
	lines []line
	chars int
}

// add appends a line; false if a bound is reached.
func (o *outliner) add(key string, depth int, text string) bool {
	n := utf8.RuneCountInString(text) + 2*depth + 3
	if len(o.lines) >= o.maxNodes || o.chars+n > o.maxText {
		o.cut = true
		return false
	}
	o.chars += n
	o.lines = append(o.lines, line{key, depth, text})
	return true
}

// walk tells elements and what is below them; plain containers without a name are
// left out, their content is not. Long runs of what is scrolled out of sight are
// only counted.
func (o *outliner) walk(list []int, depth int, above, in string) bool {
	away, runs := 0, 0
	counted := func() bool {
		n := away
		if n == 0 {
			return true
		}
		away = 0
		runs++
		return o.add(fmt.Sprintf("away %d %s", runs, in), depth, fmt.Sprintf("(%d more, not on the screen)", n))
	}
	for _, i := range list {
		e := &o.Elements[i]
		if !told(e) {
			continue
		}
		if is(e, "offscreen") {
			away++
			continue
		}
		if !counted() {
			return false
		}
		below := depth
		if o.worth(e, above) {
			if !o.add("e"+e.Ref, depth, o.line(e)) {
				return false
			}
			below++
		}
		if !o.walk(o.children[i], min(below, maxTreeDepth), firstOf(e.Name, above), e.Ref) {
			return false
		}
	}
	return counted()
}

// containers are roles that say nothing by themselves.
var containers = map[string]bool{
	"generic": true, "group": true, "section": true, "scrollarea": true, "unknown": true, "page": true, "splitter": true, "tabpanel": true,
	"label": true, "paragraph": true, "image": true, "separator": true, "scrollbar": true, "canvas": true, "document": true, "row": true,
}

// worth reports whether an element has a line of its own.
func (o *outliner) worth(e *platform.Element, above string) bool {
	if !containers[e.Role] {
		return true
	}
	if e.Role == "separator" || e.Role == "scrollbar" {
		return false
	}
	name := selector.Simple(e.Name)
	if name == "" && e.Value == "" {
		return is(e, "focused") || is(e, "editable")
	}
	return name != selector.Simple(above) || is(e, "editable") // a button's own label says nothing new
}

// shownStates are the states that a line tells.
var shownStates = []string{
	"active", "busy", "checked", "collapsed", "expanded", "focused", "invalid", "mixed", "modal", "pressed", "protected", "readonly",
	"required", "selected",
}

// line tells an element as browser snapshots do: - button "Save" [ref=e12].
func (o *outliner) line(e *platform.Element) string {
	var b strings.Builder
	b.WriteString(capabilities.First(e.Role, 64))
	if name := selector.Simple(e.Name); name != "" {
		b.WriteString(" " + selector.Quote(capabilities.First(name, maxLine)))
	}
	b.WriteString(" [ref=" + o.refs.name(*e) + "]")
	if !is(e, "enabled") && e.Role != "application" && e.Role != "label" {
		b.WriteString(" [disabled]")
	}
	for _, s := range shownStates {
		if is(e, s) {
			b.WriteString(" [" + s + "]")
		}
	}
	if at, ok := o.Title[e.Window]; ok && selector.IsWindow(e) && o.Windows[at].Minimized {
		b.WriteString(" [minimized]")
	}
	if value := selector.Simple(e.Value); value != "" && value != selector.Simple(e.Name) || is(e, "editable") && !is(e, "protected") {
		b.WriteString(": " + selector.Quote(capabilities.First(value, maxLine)))
	}
	return b.String()
}
