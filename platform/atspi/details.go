package atspi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// batch are questions that go out together.
type batch struct {
	told      map[asked]*question // answered in this reading, not to be asked again
	questions []*question
}

// asked is what two questions have in common that have one answer.
type asked struct {
	at     place
	method string
	args   string
}

func (q *question) key() asked { return asked{q.at, q.method, fmt.Sprint(q.args...)} }

// add has take called with the answer.
func (b *batch) add(q *question, take func(*question)) {
	b.follow(q, func(q *question) []*question { take(q); return nil })
}

// follow adds a question from whose answer others may follow.
func (b *batch) follow(q *question, then func(*question) []*question) {
	q.then = then
	var a *question
	if len(b.told) > 0 {
		a = b.told[q.key()]
	}
	if a == nil {
		b.questions = append(b.questions, q)
		return
	}
	q.body, q.err = a.body, a.err
	if then != nil {
		for _, more := range then(q) {
			b.follow(more, more.then)
		}
	}
}

// noted has the answer, and those to what follows from it, kept for this reading.
func (p *app) noted(q *question) *question {
	then := q.then
	q.then = func(q *question) []*question {
		p.told[q.key()] = q
		if then == nil {
			return nil
		}
		more := then(q)
		for _, q := range more {
			p.noted(q)
		}
		return more
	}
	return q
}

// details reads bounds, actions and values of what is on the screen; with only, of
// those alone. moved tells that something is elsewhere in its window than it was.
func (p *app) details(ctx context.Context, nodes []node, list []platform.Element, only []bool) (moved bool, err error) {
	if err := p.face(ctx, nodes, list, only); err != nil {
		return false, err
	}
	questions, done := p.wanted(nodes, list, only)
	if err := p.ask(ctx, questions...); err != nil {
		return false, err
	}
	done()
	return p.remember(nodes, list, only), nil
}

// wanted are the questions of details; done is to be called after their answers.
func (p *app) wanted(nodes []node, list []platform.Element, only []bool) (questions []*question, done func()) {
	b := batch{told: p.told}
	var unnamed []int
	first, same := map[kindOf]int{}, map[int]int{}
	// chosen asks for what a combo box shows, which is the name of something in it.
	chosen := func(i int, at place) *question {
		q := property(at, ifAccessible, "Name")
		q.then = func(q *question) []*question {
			list[i].Value = capabilities.Clip(label(q.text(), p.kind), maxName)
			return nil
		}
		return q
	}
	for i := range nodes {
		nd := &nodes[i]
		if nd.states&stShowing == 0 || only != nil && !only[i] {
			continue
		}
		if nd.ifaces&hasComponent != 0 && (only != nil || p.kind != gtk4 && p.kind != qt) { // look has asked those
			p.placeOf(&b, nd)
		}
		switch {
		case nd.ifaces&hasAction == 0:
		case nd.acts:
			list[i].Actions = offered(nd.actions)
		case p.alike(first, same, list, i, nd):
		default:
			b.follow(call(nd.at, ifAction+".GetActions"), func(q *question) []*question {
				nd.actions, nd.acts = decodeActions(q.first()), q.err == nil
				if p.kind.namesActions() {
					list[i].Actions = offered(nd.actions)
					return nil
				}
				unnamed = append(unnamed, i)
				names := actionNames(nd.at, len(nd.actions))
				for j, name := range names {
					name.then = func(q *question) []*question {
						nd.actions[j] = actionWord(keep(q.text(), 40))
						return nil
					}
				}
				return names
			})
		}
		if slices.Contains(list[i].States, "protected") {
			continue
		}
		switch {
		case nd.shown():
			b.follow(property(nd.at, ifText, "CharacterCount"), func(q *question) []*question {
				if q.number() <= 0 {
					return nil
				}
				text := call(nd.at, ifText+".GetText", int32(0), int32(min(q.number(), maxValue)))
				if p.kind != gtk4 {
					text.then = func(q *question) []*question { hold(&list[i], q.text(), masked(q.text())); return nil }
					return []*question{text}
				}
				shows := asShown(nd.at)
				shows.then = func(q *question) []*question {
					hold(&list[i], text.text(), masked(text.text()) || differs(text.text(), q.text()))
					return nil
				}
				return []*question{text, shows}
			})
		case nd.role == roleComboBox && p.kind == qt:
			list[i].Value = list[i].Name // it names them by what they show
		case nd.role == roleComboBox && p.kind == gtk4:
			// Theirs publish nothing but what they are made of: the first label in it.
			if at, ok := p.labelIn(nd.at); ok {
				q := chosen(i, at)
				b.follow(q, q.then)
			}
		case nd.role == roleComboBox && nd.ifaces&hasSelection != 0:
			b.follow(call(nd.at, ifSelection+".GetSelectedChild", int32(0)), func(q *question) []*question {
				if at, ok := decodePlace(q.first()); ok {
					return []*question{chosen(i, at)}
				}
				return nil
			})
		case nd.ifaces&hasValue != 0:
			b.add(property(nd.at, ifValue, "CurrentValue"), func(q *question) {
				if v, ok := q.first().(float64); ok {
					list[i].Value = formatNumber(v)
				}
			})
		}
	}
	return b.questions, func() {
		for _, i := range unnamed {
			list[i].Actions = offered(nodes[i].actions)
		}
		for i, of := range same {
			nodes[i].actions, nodes[i].acts = slices.Clone(nodes[of].actions), nodes[of].acts
			list[i].Actions = offered(nodes[i].actions)
		}
	}
}

// labelIn returns the first visible label that the mirror has below an element.
func (p *app) labelIn(top place) (at place, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.visibleLocked(top, func(nd *node, _ int) bool {
		if !ok && roleWord(nd.role) == "label" {
			at, ok = nd.at, true
		}
		return !ok
	})
	return at, ok
}

// kindOf is what elements have in common that offer the same actions.
type kindOf struct {
	role   uint32
	ifaces uint16
	in     string // the role of what holds it
}

// alike reports that another element of this reading is asked for its actions, and notes in same
// which one. In GTK 3 they follow from the class of a widget or cell, and to ask each of them takes
// longer than all the rest of a reading. A caller who acts on an element asks that one.
func (p *app) alike(first map[kindOf]int, same map[int]int, list []platform.Element, i int, nd *node) bool {
	if p.kind != gtk3 {
		return false
	}
	k := kindOf{role: nd.role, ifaces: nd.ifaces}
	if up := list[i].Parent; up >= 0 {
		k.in = list[up].Role
	}
	of, ok := first[k]
	if !ok {
		first[k] = i
		return false
	}
	same[i] = of
	return true
}

// face asks elements on the screen what else they are, where that was put off.
func (p *app) face(ctx context.Context, nodes []node, list []platform.Element, only []bool) error {
	var b batch
	for i := range nodes {
		nd := &nodes[i]
		if nd.faced || nd.states&stShowing == 0 || only != nil && !only[i] {
			continue
		}
		for _, q := range faces(nd.at) {
			b.add(q, func(*question) {})
		}
	}
	if len(b.questions) == 0 {
		return nil
	}
	if err := p.ask(ctx, b.questions...); err != nil {
		return err
	}
	answers := map[place][]*question{}
	for _, q := range b.questions {
		answers[q.at] = append(answers[q.at], q)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range nodes {
		two := answers[nodes[i].at]
		if len(two) != 2 {
			continue
		}
		for _, nd := range []*node{&nodes[i], p.nodes[nodes[i].at]} {
			if nd != nil {
				nd.ifaces, nd.desc, nd.faced = ifaceBits(two[0].first()), keep(two[1].text(), maxName), nd.told <= p.began
			}
		}
		list[i].Description = nodes[i].desc
	}
	return nil
}

func (p *app) placeOf(b *batch, nd *node) {
	b.add(p.where(nd.at), func(q *question) {
		nd.box = extents{}
		if e, ok := decodeExtents(q.first()); ok && e.real() {
			nd.box = e
		}
	})
}

// samples looks whether things are where they were, without asking all of them.
func (p *app) samples(ctx context.Context, nodes []node, list []platform.Element) (moved bool, err error) {
	const most = 64
	if err := p.face(ctx, nodes, list, nil); err != nil {
		return false, err
	}
	only := make([]bool, len(nodes))
	b := batch{told: p.told}
	var shown []int
	for i := range nodes {
		if nodes[i].states&stShowing == 0 || nodes[i].ifaces&hasComponent == 0 {
			continue
		}
		if e := list[i].Parent; e >= 0 && list[e].Role == "application" {
			only[i] = true
			p.placeOf(&b, &nodes[i])
			continue
		}
		shown = append(shown, i)
	}
	step := max(1, len(shown)/most)
	for j := 0; j < len(shown); j += step {
		only[shown[j]] = true
		p.placeOf(&b, &nodes[shown[j]])
	}
	if err := p.ask(ctx, b.questions...); err != nil {
		return false, err
	}
	return p.remember(nodes, list, only), nil
}

// remember takes places, and of a whole reading actions, into the mirror, and tells
// whether a place in a window is not what it was. Actions of what an event told of
// since the reading began may be what they were before it: they are asked for again.
func (p *app) remember(nodes []node, list []platform.Element, only []bool) (moved bool) {
	kept := p.kept()
	p.mu.Lock()
	defer p.mu.Unlock()
	origins := make([]extents, len(nodes))
	for i := range nodes {
		switch up := list[i].Parent; {
		case up < 0 || list[up].Role == "application":
			origins[i] = nodes[i].box
		default:
			origins[i] = origins[up]
		}
		nd := p.nodes[nodes[i].at]
		if nd == nil || only != nil && !only[i] {
			continue
		}
		box := nodes[i].box
		nd.box = box
		if only == nil && nd.told <= p.began {
			nd.actions, nd.acts = nodes[i].actions, nodes[i].acts
		}
		if nd.states&stShowing == 0 || nd.ifaces&hasComponent == 0 {
			nd.placed = false
			continue
		}
		at := extents{box[0] - origins[i][0], box[1] - origins[i][1], box[2], box[3]}
		moved = moved || kept && nd.placed && nd.inside != at
		nd.inside, nd.placed = at, true
	}
	return moved
}

// shown reports that the element's text is what a person sees as its value.
func (nd *node) shown() bool {
	if nd.ifaces&hasText == 0 {
		return false
	}
	switch nd.role {
	case roleEntry, roleText, roleTerminal, roleDocumentText:
		return true
	}
	return nd.ifaces&hasEditable != 0 || nd.states&stEditable != 0
}

// masked reports a text that is nothing but the marks which stand for what is not
// to be seen. Some toolkits tell of a protected field by that alone.
func masked(text string) bool {
	return text != "" && strings.Trim(text, "\u25cf\u2022\u2b24\u2981\u26ab") == ""
}

// hold notes a field's text, or that it hides it.
func hold(e *platform.Element, text string, hidden bool) {
	if hidden {
		e.States = addState(e.States, "protected")
		return
	}
	e.Value = capabilities.Clip(text, 4*maxValue)
}

// asShown asks for the first line of a text as its field shows it. A GTK 4 entry that hides its
// text hands it out by GetText all the same, and has no role or state that tells; this question
// alone is answered with the marks that stand for it.
func asShown(at place) *question {
	const paragraph = uint32(4)
	return call(at, ifText+".GetStringAtOffset", int32(0), paragraph)
}

// differs reports that a text is not what its field shows for it. Either may be longer: one was
// cut, the other is a line.
func differs(text, shown string) bool {
	return !strings.HasPrefix(text, shown) && !strings.HasPrefix(shown, text)
}

func addState(states []string, word string) []string {
	if slices.Contains(states, word) {
		return states
	}
	states = append(states, word)
	slices.Sort(states)
	return states
}
