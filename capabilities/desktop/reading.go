package desktop

import (
	"slices"

	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

// Toolkits list what is in a container in the order in which it was put there, or the other
// way round. Where a form's fields have no names, only its labels tell them apart, and those
// by where they stand: so such a container is told as it is read, line by line.

// fields are the roles of what a form is filled in with.
var fields = map[string]bool{"textbox": true, "combobox": true, "spinbutton": true, "slider": true, "checkbox": true, "switch": true}

// sorted are the roles of containers whose order says nothing: lists and the like have one.
var sorted = map[string]bool{
	"generic": true, "group": true, "section": true, "page": true, "tabpanel": true, "scrollarea": true, "window": true, "dialog": true,
}

// inReadingOrder puts the children of forms with nameless fields into the order in which
// they are read. A document keeps its own.
func (v *view) inReadingOrder() {
	nameless := make([]bool, len(v.Elements)) // it holds such a field
	document := make([]bool, len(v.Elements))
	for i := range v.Elements {
		e := &v.Elements[i]
		document[i] = e.Role == "document" || e.Parent >= 0 && e.Parent < i && document[e.Parent]
	}
	for i := len(v.Elements) - 1; i >= 0; i-- { // those below come later
		e := &v.Elements[i]
		if fields[e.Role] && selector.Simple(e.Name) == "" && selector.Visible(e) && !document[i] {
			nameless[i] = true
		}
		if nameless[i] && e.Parent >= 0 && e.Parent < i {
			nameless[e.Parent] = true
		}
	}
	for i, list := range v.children {
		if nameless[i] && sorted[v.Elements[i].Role] {
			v.children[i] = v.read(list)
		}
	}
}

// read sorts elements into lines, from the top, and each from the left. An element that has no
// place on the screen comes last, as it stood.
func (v *view) read(list []int) []int {
	box := func(i int) platform.Rect { return v.Elements[i].Bounds }
	var placed, others []int
	for _, i := range list {
		if e := &v.Elements[i]; e.Bounds.Empty() || !selector.Visible(e) {
			others = append(others, i)
		} else {
			placed = append(placed, i)
		}
	}
	slices.SortStableFunc(placed, func(a, b int) int { return box(a).Y - box(b).Y })
	var out []int
	for len(placed) > 0 {
		// One line: whose middles are beside the first one's.
		first, n := box(placed[0]), 1
		for n < len(placed) && box(placed[n]).Center().Y < first.Y+first.Height && first.Center().Y >= box(placed[n]).Y {
			n++
		}
		line := placed[:n]
		slices.SortStableFunc(line, func(a, b int) int { return box(a).X - box(b).X })
		out, placed = append(out, line...), placed[n:]
	}
	return append(out, others...)
}
