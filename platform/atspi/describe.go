package atspi

import (
	"context"
	"slices"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/platform"
)

// mostBeside bounds what is asked before the mirror is complete: of an application
// with very many elements, or a very slow one, what elements there are comes first.
const mostBeside = 8 * inFlight

// beside lists what can be asked while the mirror is completed, of elements that it
// knows already: what look needs, and what details will ask if q wants bounds.
func (p *app) beside(q platform.TreeQuery, top place) (questions []*question) {
	if p.kind != gtk3 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.visibleLocked(top, func(nd *node, _ int) bool {
		shown := nd.at == p.root || nd.at == top || nd.states&stShowing != 0
		if !shown && nd.basics && nd.ifaces&hasComponent != 0 && nd.states&stVisible != 0 {
			questions = append(questions, p.where(nd.at))
		}
		return shown
	})
	if q.Bounds {
		nodes, list, _ := p.shownLocked(q, top)
		more, _ := p.wanted(nodes, list, nil)
		questions = append(questions, more...)
	}
	questions = questions[:min(len(questions), mostBeside)]
	for _, q := range questions {
		p.noted(q)
	}
	return questions
}

// look tells what is scrolled away from what is not there at all, such as the
// other pages of a notebook. ATK's bridge says VISIBLE and not SHOWING for both,
// GTK 4 and Qt say it for neither; but what is not there has no place.
func (p *app) look(ctx context.Context, top place) error {
	p.mu.Lock()
	var questions, answers []*question
	visit := func(nd *node, depth int) bool {
		if nd.at == p.root || nd.at == top || !nd.basics || p.kind == gtk3 && nd.states&stShowing != 0 {
			return true
		}
		if nd.states&(stVisible|stShowing) != 0 && nd.ifaces&hasComponent != 0 {
			q := p.where(nd.at)
			if a := p.told[q.key()]; a != nil {
				answers = append(answers, a)
			} else {
				questions = append(questions, q)
			}
		}
		return p.kind != gtk3
	}
	switch p.kind {
	case gtk3, gtk4, qt:
		p.visibleLocked(top, visit)
	}
	p.mu.Unlock()
	if err := p.ask(ctx, questions...); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range append(answers, questions...) {
		if nd := p.nodes[q.at]; nd != nil && q.err == nil {
			nd.box, _ = decodeExtents(q.first())
			nd.away = !nd.box.real()
		}
	}
	return nil
}

// where asks for an element's place: on the desktop, and in its window in GTK 4,
// which knows no more.
func (p *app) where(at place) *question {
	const screen, window = uint32(0), uint32(1)
	if p.kind == gtk4 {
		return call(at, ifComponent+".GetExtents", window)
	}
	return call(at, ifComponent+".GetExtents", screen)
}

// onScreen returns the range of the children of a container that can be seen. The
// children at some of its points tell.
func (p *app) onScreen(ctx context.Context, nd *node, count int) (first, end int, err error) {
	where := call(nd.at, ifComponent+".GetExtents", uint32(0))
	if err := p.ask(ctx, where); err != nil {
		return 0, 0, err
	}
	e, ok := decodeExtents(where.first())
	if !ok || !e.real() {
		return 0, 0, nil
	}
	// Just inside the corners; a header may lie on top.
	var points, indices []*question
	for _, y := range []int32{4, min(48, e[3]/2), e[3] / 2, e[3] - 4} {
		for _, x := range []int32{min(24, e[2]/2), e[2] - 4} {
			points = append(points, call(nd.at, ifComponent+".GetAccessibleAtPoint", e[0]+x, e[1]+y, uint32(0)))
		}
	}
	if err := p.ask(ctx, points...); err != nil {
		return 0, 0, err
	}
	for _, q := range points {
		if at, ok := decodePlace(q.first()); ok && at != nd.at {
			indices = append(indices, call(at, ifAccessible+".GetIndexInParent"))
		}
	}
	if err := p.ask(ctx, indices...); err != nil {
		return 0, 0, err
	}
	first = count
	for _, q := range indices {
		if i := q.number(); q.err == nil && i >= 0 && i < count {
			first, end = min(first, i), max(end, i+1)
		}
	}
	if end == 0 {
		first = 0
	}
	return first, end, nil
}

// own are the questions for the data of an element that is not known, or changed.
func (p *app) own(nd *node) []*question {
	all := []*question{call(nd.at, ifAccessible+".GetState")}
	switch {
	case nd.basics && nd.stale == 0:
	case p.kind == gtk3:
		// One for three; most of what a question costs is that it is one.
		all = append(all, call(nd.at, ifProperties+".GetAll", ifAccessible))
	default:
		all = append(all, property(nd.at, ifAccessible, "Name"))
		if p.kind != web { // where GetChildren costs nothing
			all = append(all, property(nd.at, ifAccessible, "ChildCount"))
		}
	}
	if !nd.basics || nd.stale != 0 && p.kind == web {
		all = append(all, call(nd.at, ifAccessible+".GetRole"))
	}
	if !nd.basics {
		nd.faced = false
		switch p.kind {
		case gtk3:
			all = append(all, call(nd.at, ifAccessible+".GetInterfaces"))
		case web: // of whose many only those on the screen are asked for more
		default:
			all = append(all, faces(nd.at)...)
		}
	}
	return all
}

// managed are the children of an element that makes them when they are asked for.
type managed struct {
	nd    *node
	count int
	kids  []place               // all of them, if they are not too many
	cut   bool                  // there came to be more meanwhile
	own   map[place][]*question // what each is
}

// ask asks how many there are, and for all of them unless they are many; for places
// of those on the screen, too, if bounds says so.
func (m *managed) ask(p *app, bounds bool) *question {
	number := property(m.nd.at, ifAccessible, "ChildCount")
	number.then = func(q *question) []*question {
		*m = managed{nd: m.nd, count: q.number(), own: map[place][]*question{}}
		if m.count <= 0 || m.count > manyKids {
			return nil
		}
		all := call(m.nd.at, ifAccessible+".GetChildren")
		all.then = func(q *question) []*question { return m.each(p, q, bounds) }
		return []*question{all}
	}
	return number
}

func (m *managed) each(p *app, q *question, bounds bool) (questions []*question) {
	m.kids, m.cut = decodePlaces(q.first(), manyKids)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range m.kids {
		nd := p.nodes[at]
		if nd == nil {
			nd = &node{at: at}
		}
		nd.stale = max(nd.stale, 1) // what scrolls says nothing of it
		own := p.own(nd)
		if bounds {
			own[0].then = func(q *question) []*question {
				if stateBits(q.first())&stShowing == 0 {
					return nil
				}
				return []*question{p.noted(p.where(at))}
			}
		}
		m.own[at] = own
		questions = append(questions, own...)
	}
	return questions
}

// takeLocked takes the answers into the mirror.
func (m *managed) takeLocked(p *app, since uint64) {
	p.adoptLocked(m.nd, m.kids, m.cut, since)
	for _, at := range m.kids {
		if nd := p.nodes[at]; nd != nil {
			p.takeLocked(nd, m.own[at], since)
		}
	}
}

// describe asks bare nodes for their own data and unlisted ones for their
// children, all at once, and what else there is to ask.
func (p *app) describe(ctx context.Context, bare, unlisted []*node, beside []*question, since uint64, bounds bool) error {
	var questions []*question
	from := make([]int, len(bare)+1)
	p.mu.Lock()
	for i, nd := range bare {
		questions = append(questions, p.own(nd)...)
		from[i+1] = len(questions)
	}
	p.mu.Unlock()
	lists := len(questions)
	type container struct {
		nd    *node
		count int
	}
	var listed []*node
	var ranges []container
	var made []*managed
	var first []*question
	p.mu.Lock()
	for _, nd := range unlisted {
		switch manages := nd.states&stManagesDescendants != 0; {
		case manages && p.kind == gtk3:
			m := &managed{nd: nd}
			first, made = append(first, m.ask(p, bounds)), append(made, m)
			continue
		case manages:
			ranges = append(ranges, container{nd, -1})
			continue
		case nd.count > manyKids && p.kind != web && p.kind != gtk3: // theirs are there anyway
			ranges = append(ranges, container{nd, nd.count})
			continue
		}
		questions = append(questions, call(nd.at, ifAccessible+".GetChildren"))
		listed = append(listed, nd)
	}
	p.mu.Unlock()
	if err := p.ask(ctx, slices.Concat(first, questions, beside)...); err != nil {
		return err
	}
	p.mu.Lock()
	for i, nd := range bare {
		p.takeLocked(nd, questions[from[i]:from[i+1]], since)
	}
	for i, nd := range listed {
		q := questions[lists+i]
		kids, cut := decodePlaces(q.first(), maxNodes)
		p.adoptLocked(nd, kids, cut, since)
	}
	for _, m := range made {
		if m.count > manyKids {
			ranges = append(ranges, container{m.nd, m.count})
		} else {
			m.takeLocked(p, since)
		}
	}
	p.mu.Unlock()
	for _, c := range ranges {
		if err := p.window(ctx, c.nd, c.count, since); err != nil {
			return err
		}
	}
	return nil
}

// basics are the questions for an element's own data, of whatever toolkit.
// (Properties.GetAll is one for three of them; Qt 5 crashes when it is asked that.)
func basics(at place) []*question {
	return append([]*question{
		call(at, ifAccessible+".GetState"), call(at, ifAccessible+".GetRole"),
		property(at, ifAccessible, "Name"), property(at, ifAccessible, "ChildCount"),
	}, faces(at)...)
}

// faces are those that matter only for what is on the screen.
func faces(at place) []*question {
	return []*question{call(at, ifAccessible+".GetInterfaces"), property(at, ifAccessible, "Description")}
}

// takeLocked takes the answers to basics.
func (p *app) takeLocked(nd *node, answers []*question, since uint64) {
	if !nd.take(answers) {
		// It is gone: it is no child of its parent any more.
		delete(p.nodes, nd.at)
		if parent := p.nodes[nd.parent]; parent != nil {
			parent.kids = slices.DeleteFunc(slices.Clone(parent.kids), func(k place) bool { return k == nd.at })
		}
		return
	}
	if len(answers) > 1 && nd.stale <= since {
		nd.stale = 0
	}
}

// take takes the answers to some of basics, the first of which is GetState; false
// if the element is gone.
func (nd *node) take(answers []*question) bool {
	if answers[0].err != nil {
		return false
	}
	for _, q := range answers {
		name := q.method
		if len(q.args) == 2 { // a property
			name, _ = q.args[1].(string)
		}
		switch name {
		case ifAccessible + ".GetState":
			states := stateBits(q.first())
			nd.acts = nd.acts && nd.states == states
			nd.states, nd.glance = states, false
		case ifAccessible + ".GetRole":
			if role := uint32(q.number()); role != nd.role {
				nd.role, nd.faced, nd.acts = role, false, false
			}
			nd.basics = true
		case ifAccessible + ".GetInterfaces":
			nd.ifaces, nd.faced = ifaceBits(q.first()), true
		case ifProperties + ".GetAll":
			all, _ := q.first().(map[string]dbus.Variant)
			name, _ := all["Name"].Value().(string)
			desc, _ := all["Description"].Value().(string)
			count, _ := all["ChildCount"].Value().(int32)
			nd.name, nd.desc, nd.count = keep(name, maxName), keep(desc, maxName), int(count)
		case "Name":
			nd.name = keep(q.text(), maxName)
		case "Description":
			nd.desc = keep(q.text(), maxName)
		case "ChildCount":
			nd.count = q.number()
		}
	}
	return true
}

// adoptLocked makes kids the children of nd.
func (p *app) adoptLocked(nd *node, kids []place, part bool, since uint64) {
	for _, at := range kids {
		if kid := p.nodeLocked(at, nd.at); kid != nil {
			kid.parent = nd.at
		}
	}
	nd.kids, nd.listed, nd.part = kids, true, part
	if nd.kidsStale <= since {
		nd.kidsStale = 0
	}
}

// window asks for the children of a container that has many, or that makes them
// when they are asked for: those on the screen, and some around them.
func (p *app) window(ctx context.Context, nd *node, count int, since uint64) error {
	if count < 0 {
		number := property(nd.at, ifAccessible, "ChildCount")
		if err := p.ask(ctx, number); err != nil {
			return err
		}
		count = number.number()
	}
	first, end := 0, count
	if count > manyKids {
		var err error
		if first, end, err = p.onScreen(ctx, nd, count); err != nil {
			return err
		}
		const around = 32
		first, end = max(0, first-around), min(count, max(end, first+1)+around, first+4*manyKids)
	}
	questions := make([]*question, 0, max(0, end-first))
	for i := first; i < end; i++ {
		questions = append(questions, call(nd.at, ifAccessible+".GetChildAtIndex", int32(i)))
	}
	if err := p.ask(ctx, questions...); err != nil {
		return err
	}
	kids := make([]place, 0, len(questions))
	for _, q := range questions {
		if at, ok := decodePlace(q.first()); ok {
			kids = append(kids, at)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.adoptLocked(nd, kids, end-first < count, since)
	for _, at := range kids {
		// A container that scrolls says nothing of it.
		if kid := p.nodes[at]; kid != nil {
			kid.stale = max(kid.stale, 1)
		}
	}
	return nil
}
