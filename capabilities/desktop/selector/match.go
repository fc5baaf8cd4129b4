package selector

import (
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// Scene is one reading of the desktop's elements, prepared for matching. It holds
// no element of this program's own windows.
type Scene struct {
	Elements  []platform.Element
	Windows   []platform.Window
	Hung      []string
	Truncated bool

	Last  []int          // the last place of an element's subtree, once ordered is true
	Title map[string]int // places in windows, by ref
	long  func(string) string

	scopes map[string]map[string]bool // by term: the titles or names it means
	folds  bool                       // case does not matter
}

// NewScene prepares a reading. windows are all there are, own ones too; long returns the platform's
// ref for a short one.
func NewScene(tree platform.Tree, windows []platform.Window, long func(string) string) *Scene {
	s := &Scene{Hung: tree.Hung, Truncated: tree.Truncated, Title: map[string]int{}, long: long, scopes: map[string]map[string]bool{}}
	own, ownPID := map[string]bool{}, map[int]bool{}
	for _, w := range windows {
		if w.Own {
			own[w.Ref] = true
			if w.PID != 0 {
				ownPID[w.PID] = true
			}
			continue
		}
		s.Title[w.Ref] = len(s.Windows)
		s.Windows = append(s.Windows, w)
	}
	s.order(tree.Elements, func(e *platform.Element) bool { return own[e.Window] || ownPID[e.PID] })
	return s
}

// order puts the elements so that each subtree is in one piece, and leaves out
// what is hidden from calls, with all below it.
func (s *Scene) order(all []platform.Element, hide func(*platform.Element) bool) {
	first, next := make([]int, len(all)), make([]int, len(all)) // children, as linked lists
	roots, tail := -1, make([]int, len(all))
	for i := range all {
		first[i], next[i], tail[i] = -1, -1, -1
	}
	lastRoot := -1
	for i := range all {
		switch p := all[i].Parent; {
		case p >= 0 && p < i && tail[p] < 0:
			first[p], tail[p] = i, i
		case p >= 0 && p < i:
			next[tail[p]], tail[p] = i, i
		case lastRoot < 0:
			roots, lastRoot = i, i
		default:
			next[lastRoot], lastRoot = i, i
		}
	}
	s.Elements, s.Last = make([]platform.Element, 0, len(all)), make([]int, 0, len(all))
	type open struct{ from, at int } // an element's place before and now
	var path []open
	for i := roots; i >= 0 || len(path) > 0; {
		if i < 0 {
			top := path[len(path)-1]
			path = path[:len(path)-1]
			s.Last[top.at] = len(s.Elements) - 1
			i = next[top.from]
			continue
		}
		if hide(&all[i]) {
			i = next[i]
			continue
		}
		e := all[i]
		e.Parent = -1
		if len(path) > 0 {
			e.Parent = path[len(path)-1].at
		}
		path = append(path, open{i, len(s.Elements)})
		s.Elements, s.Last = append(s.Elements, e), append(s.Last, 0)
		i = first[i]
	}
}

// Find returns what a selector matches, in its order: by distance where a relation
// says so, else as on the screen. Names are taken as they are written; if nothing
// matches so, case does not matter.
func (s *Scene) Find(sel *Selector) []int {
	for _, s.folds = range []bool{false, true} {
		if found := s.chain(sel, nil); len(found) > 0 {
			return found
		}
	}
	return nil
}

// chain matches all steps, the first below the elements of within, or anywhere if
// that is nil.
func (s *Scene) chain(sel *Selector, within []int) []int {
	found, ok := within, within != nil
	for _, st := range sel.steps {
		var candidates []int
		if ok {
			candidates = s.below(found)
		} else {
			candidates = s.all()
		}
		found, ok = s.step(st, candidates), true
		if len(found) == 0 {
			return nil
		}
	}
	return found
}

func (s *Scene) all() []int {
	list := make([]int, len(s.Elements))
	for i := range list {
		list[i] = i
	}
	return list
}

// below lists what is somewhere below the elements of roots, each once, in order.
func (s *Scene) below(roots []int) []int {
	sorted := slices.Clone(roots)
	slices.Sort(sorted)
	var list []int
	end := -1
	for _, r := range sorted {
		for i := max(r+1, end+1); i <= s.Last[r]; i++ {
			list = append(list, i)
		}
		end = max(end, s.Last[r])
	}
	return list
}

func (s *Scene) step(st step, candidates []int) []int {
	var found []int
	for _, i := range candidates {
		if st.filter == nil || s.holds(st.filter, i) {
			found = append(found, i)
		}
	}
	if onlyScope(st.filter) {
		found = s.topmost(found)
	}
	for _, r := range st.relations {
		found = s.related(r, found, candidates)
	}
	switch n := st.nth; {
	case n == 0:
		return found
	case n > 0 && n <= len(found):
		return found[n-1 : n]
	case n < 0 && -n <= len(found):
		return found[len(found)+n:][:1]
	}
	return nil
}

// onlyScope reports whether a filter says nothing but in which application or
// window: then it means that itself, not all that is in it.
func onlyScope(e expr) bool {
	switch e := e.(type) {
	case term:
		return e.field == "app" || e.field == "window"
	case both:
		return !slices.ContainsFunc(e, func(e expr) bool { return !onlyScope(e) })
	}
	return false
}

// topmost leaves out what is below another one of found.
func (s *Scene) topmost(found []int) []int {
	var top []int
	end := -1
	for _, i := range found {
		if i > end {
			top = append(top, i)
			end = s.Last[i]
		}
	}
	return top
}

func (s *Scene) holds(e expr, i int) bool {
	switch e := e.(type) {
	case nil:
		return true
	case both:
		for _, part := range e {
			if !s.holds(part, i) {
				return false
			}
		}
		return true
	case either:
		for _, part := range e {
			if s.holds(part, i) {
				return true
			}
		}
		return false
	case negated:
		return !s.holds(e.of, i)
	case holding:
		return len(s.chain(e.of, []int{i})) > 0
	case term:
		return s.is(e, i)
	}
	return false
}

// is compares one field of an element.
func (s *Scene) is(t term, i int) bool {
	e := &s.Elements[i]
	switch t.field {
	case "role":
		return e.Role == t.value
	case "name":
		return s.same(t, e.Name)
	case "value":
		return s.same(t, e.Value)
	case "text":
		t.part = true
		return s.same(t, e.Name) || s.same(t, e.Value) || s.same(t, e.Description)
	case "state":
		return InState(e, t.value)
	case "ref":
		return e.Ref == s.long(t.value) || e.Window == t.value && IsWindow(e)
	case "app":
		return s.scope(t)[e.App] || t.value == strconv.Itoa(e.PID) && e.PID != 0
	case "window":
		return s.inWindow(t, i)
	}
	return false
}

// same compares a text with a term's value: needless space never matters, case if
// the scene does not fold it, parts in any case.
func (s *Scene) same(t term, text string) bool {
	if text == "" {
		return false
	}
	if t.part {
		return strings.Contains(Folded(text), Folded(t.value))
	}
	if text == t.value {
		return true
	}
	if s.folds {
		return Folded(text) == Folded(t.value) || once(Folded(text)) == Folded(t.value)
	}
	return Simple(text) == Simple(t.value)
}

// once is a text without its repetition: some toolkits name a button by its label
// and its tip, which are the same.
func once(s string) string {
	if half := len(s) / 2; len(s)%2 == 1 && s[half] == ' ' && s[:half] == s[half+1:] {
		return s[:half]
	}
	return s
}

// InState reports whether an element is in a state, or, after "!", not in it.
func InState(e *platform.Element, state string) bool {
	rest, not := strings.CutPrefix(state, "!")
	if rest == "visible" || rest == "hidden" {
		return Visible(e) == (rest == "visible") != not
	}
	return slices.Contains(e.States, rest) != not
}

// Visible reports whether an element is on the screen, scrolled into view or not.
func Visible(e *platform.Element) bool {
	return slices.Contains(e.States, "visible") && !slices.Contains(e.States, "hidden")
}

func IsWindow(e *platform.Element) bool {
	return e.Role == "window" || e.Role == "dialog" || e.Role == "alert"
}

// WindowOf returns the place of the window that holds an element; -1 if none does.
func (s *Scene) WindowOf(i int) int {
	for ; i >= 0; i = s.Elements[i].Parent {
		if IsWindow(&s.Elements[i]) {
			return i
		}
	}
	return -1
}

// inWindow reports whether an element is in a window that a term means, or is it:
// by the window's ref, by its title as the desktop shows it, or by its name in the
// tree. A dialog within a window is in that window, too.
func (s *Scene) inWindow(t term, i int) bool {
	wanted := s.scope(t)
	for ; i >= 0; i = s.Elements[i].Parent {
		e := &s.Elements[i]
		if !IsWindow(e) {
			continue
		}
		if wanted[e.Name] || e.Window != "" && e.Window == t.value {
			return true
		}
		if at, ok := s.Title[e.Window]; ok && wanted[s.Windows[at].Title] {
			return true
		}
	}
	return false
}

// scope returns the names of applications or titles of windows that a term means:
// those that are its value, in any case if there is none, and else those with it
// as a part.
func (s *Scene) scope(t term) map[string]bool {
	key := t.field + ":" + t.value
	if t.part {
		key = t.field + "~" + t.value
	}
	if known, ok := s.scopes[key]; ok {
		return known
	}
	names := map[string]bool{}
	for i := range s.Elements {
		switch e := &s.Elements[i]; {
		case t.field == "app":
			names[e.App] = true
		case IsWindow(e):
			names[e.Name] = true
		}
	}
	if t.field == "window" {
		for _, w := range s.Windows {
			names[w.Title] = true
		}
	}
	meant := map[string]bool{}
	for _, like := range []func(string) bool{
		func(n string) bool { return !t.part && Simple(n) == Simple(t.value) },
		func(n string) bool { return !t.part && Folded(n) == Folded(t.value) },
		func(n string) bool { return strings.Contains(Folded(n), Folded(t.value)) },
	} {
		for n := range names {
			if n != "" && like(n) {
				meant[n] = true
			}
		}
		if len(meant) > 0 {
			break
		}
	}
	s.scopes[key] = meant
	return meant
}

// One narrows what a selector matched to the one element it means: the nearest
// where it asks by distance; else the only one, the only visible one, or the only
// one that is in view.
func (s *Scene) One(sel *Selector, found []int) (int, bool) {
	if len(found) == 0 {
		return 0, false
	}
	if sel.Ordered() || len(found) == 1 {
		return found[0], true
	}
	if found = s.holders(found); len(found) == 1 {
		return found[0], true
	}
	for _, better := range []func(*platform.Element) bool{
		Visible,
		func(e *platform.Element) bool { return Visible(e) && !slices.Contains(e.States, "offscreen") },
	} {
		kept := slices.DeleteFunc(slices.Clone(found), func(i int) bool { return !better(&s.Elements[i]) })
		if len(kept) == 1 {
			return kept[0], true
		}
	}
	return 0, false
}

// holders leaves out the labels and pictures in what matched as well, such as the
// label of a button, which has its name.
func (s *Scene) holders(found []int) []int {
	inert := []string{"label", "generic", "image", "group", "paragraph"}
	return slices.DeleteFunc(slices.Clone(found), func(i int) bool {
		return slices.Contains(inert, s.Elements[i].Role) && slices.ContainsFunc(found, func(above int) bool {
			return above < i && i <= s.Last[above] && !slices.Contains(inert, s.Elements[above].Role) && !IsWindow(&s.Elements[above])
		})
	})
}

// Names returns the applications that hang, as results do.
func (s *Scene) Names() []string {
	var list []string
	for _, name := range s.Hung[:min(len(s.Hung), 32)] {
		list = append(list, capabilities.Clip(name, 256))
	}
	return list
}
