package atspi

import (
	"github.com/godbus/dbus/v5"
)

// Bounds of what an application may publish.
const (
	maxName  = 512    // bytes of a name that are kept
	maxPath  = 440    // bytes of an object's path: with its application it fits a ref
	maxNodes = 30_000 // elements of one application that are kept
	maxDepth = 200
)

// item is an element as Cache.GetItems returns it.
type item struct {
	at, parent place
	index      int // in its parent, -1 if it was not told
	count      int // children it says it has, -1 if it was not told
	kids       []place
	ifaces     uint16
	name, desc string
	role       uint32
	states     uint64
}

// The interfaces that matter, as bits.
const (
	hasAction = 1 << iota
	hasComponent
	hasEditable
	hasSelection
	hasTable
	hasText
	hasValue
)

func ifaceBits(v any) (bits uint16) {
	names, _ := v.([]string)
	for _, name := range names {
		switch name {
		case ifAction:
			bits |= hasAction
		case ifComponent:
			bits |= hasComponent
		case ifEditable:
			bits |= hasEditable
		case ifSelection:
			bits |= hasSelection
		case ifTable:
			bits |= hasTable
		case ifText:
			bits |= hasText
		case ifValue:
			bits |= hasValue
		}
	}
	return bits
}

func stateBits(v any) uint64 {
	words, _ := v.([]uint32)
	var bits uint64
	if len(words) > 0 {
		bits = uint64(words[0])
	}
	if len(words) > 1 {
		bits |= uint64(words[1]) << 32
	}
	return bits
}

// decodePlace reads an (so); ok is false for the null object and for what could
// not be a ref.
func decodePlace(v any) (p place, ok bool) {
	pair, _ := v.([]any)
	if len(pair) != 2 {
		return place{}, false
	}
	p.bus, _ = pair[0].(string)
	p.path, _ = pair[1].(dbus.ObjectPath)
	return p, validPlace(p)
}

func validPlace(p place) bool {
	if p.path == pathNull || p.path == "" || len(p.path) > maxPath || len(p.bus) < 2 || len(p.bus) > 40 || p.bus[0] != ':' {
		return false
	}
	for _, c := range []byte(p.bus[1:]) {
		if (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return p.path.IsValid()
}

// decodePlaces reads an a(so), at most most of it. Null objects are left out.
func decodePlaces(v any, most int) (all []place, cut bool) {
	list, _ := v.([][]any)
	for _, one := range list {
		p, ok := decodePlace(one)
		if !ok {
			continue
		}
		if len(all) == most {
			return all, true
		}
		all = append(all, p)
	}
	return all, false
}

// decodeItem reads one struct of GetItems, of either form:
//
//	((so)(so)(so) i i as s u s au)      self, application, parent, index, children, interfaces, name, role, description, states
//	((so)(so)(so) a(so) as s u s au)    the same with the children themselves, until 2.18 and in Qt
func decodeItem(fields []any) (it item, ok bool) {
	if len(fields) < 9 {
		return item{}, false
	}
	if it.at, ok = decodePlace(fields[0]); !ok {
		return item{}, false
	}
	it.parent, _ = decodePlace(fields[2]) // none for an application
	rest := fields[3:]
	switch v := rest[0].(type) {
	case int32:
		count, ok := rest[1].(int32)
		if !ok || len(fields) != 10 {
			return item{}, false
		}
		it.index, it.count = int(v), int(count)
		rest = rest[2:]
	case [][]any:
		if len(fields) != 9 {
			return item{}, false
		}
		var cut bool
		it.kids, cut = decodePlaces(v, maxNodes)
		it.index, it.count = -1, len(it.kids)
		if cut {
			it.count++
		}
		rest = rest[1:]
	default:
		return item{}, false
	}
	name, ok1 := rest[1].(string)
	role, ok2 := rest[2].(uint32)
	desc, ok3 := rest[3].(string)
	if !ok1 || !ok2 || !ok3 {
		return item{}, false
	}
	it.ifaces, it.role, it.states = ifaceBits(rest[0]), role, stateBits(rest[4])
	it.name, it.desc = keep(name, maxName), keep(desc, maxName)
	return it, true
}

// decodeItems reads the answer of GetItems. An entry that does not fit is left out: the rest of the
// tree is worth having, and a missing one is asked for one by one.
func decodeItems(body []any) (items []item, cut bool) {
	if len(body) == 0 {
		return nil, false
	}
	list, _ := body[0].([][]any)
	for _, fields := range list {
		it, ok := decodeItem(fields)
		if !ok {
			continue
		}
		if len(items) == maxNodes {
			return items, true
		}
		items = append(items, it)
	}
	return items, false
}

// maxActions is how many of an element's actions are looked at.
const maxActions = 16

// decodeActions reads the a(sss) of GetActions into words.
func decodeActions(v any) []string {
	list, _ := v.([][]any)
	var names []string
	for _, one := range list {
		if len(one) == 0 || len(names) == maxActions {
			break
		}
		name, _ := one[0].(string)
		names = append(names, actionWord(keep(name, 40)))
	}
	return names
}

// actionNames are the questions for the names of n actions: ATK's bridge returns in GetActions what
// people read, in their language or not at all.
func actionNames(at place, n int) []*question {
	var questions []*question
	for i := range min(n, maxActions) {
		questions = append(questions, call(at, ifAction+".GetName", int32(i)))
	}
	return questions
}

func (k toolkit) namesActions() bool { return k == gtk4 || k == qt }

// extents are x, y, width and height.
type extents [4]int32

func decodeExtents(v any) (e extents, ok bool) {
	list, _ := v.([]any)
	if len(list) != 4 {
		return e, false
	}
	for i := range e {
		if e[i], ok = list[i].(int32); !ok {
			return e, false
		}
	}
	return e, true
}

// real reports that they are a place: hidden elements of GTK have them at the
// smallest number there is.
func (e extents) real() bool {
	const far = 1 << 24
	return e[2] > 0 && e[3] > 0 && e[2] < far && e[3] < far && e[0] > -far && e[0] < far && e[1] > -far && e[1] < far
}

// meets reports that e and f share a pixel.
func (e extents) meets(f extents) bool {
	c := e.cut(f)
	return c[2] > 0 && c[3] > 0
}

// cut returns what e and f share.
func (e extents) cut(f extents) extents {
	x, y := max(e[0], f[0]), max(e[1], f[1])
	return extents{x, y, max(0, min(e[0]+e[2], f[0]+f[2])-x), max(0, min(e[1]+e[3], f[1]+f[3])-y)}
}
