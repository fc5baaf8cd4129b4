package atspi

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// perElement is how long an application may take over one element.
const perElement = 3 * time.Second

// target is an element that a call is about.
type target struct {
	s  *session
	at place
}

func (a *Accessibility) target(ctx context.Context, ref string) (target, error) {
	s, err := a.open(ctx)
	if err != nil {
		return target{}, err
	}
	at, err := s.place(ref)
	if err != nil {
		return target{}, err
	}
	s.mu.Lock()
	s.used = time.Now()
	s.mu.Unlock()
	return target{s, at}, nil
}

// ask asks about the element, in the time that one element has.
func (t target) ask(ctx context.Context, questions ...*question) error {
	limited, cancel := context.WithTimeout(ctx, perElement)
	defer cancel()
	heard := func(*question) {}
	if p := t.s.owner(t.at.bus); p != nil {
		heard = p.heardFrom
	}
	err := ask(limited, t.s.bus, heard, questions...)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return platform.ErrHung
	}
	return err
}

// refused returns the condition for an answer that is an error: the element is
// gone, or it cannot do that.
func (t target) refused(ctx context.Context, err error) error {
	if noPeer(err) {
		return platform.ErrGone
	}
	state := call(t.at, ifAccessible+".GetState")
	if err := t.ask(ctx, state); err != nil {
		return err
	}
	if state.err != nil || stateBits(state.first())&stDefunct != 0 {
		return platform.ErrGone
	}
	return platform.ErrCannot
}

// alive is ErrGone if the answer to GetState says so: some toolkits answer for a
// dead element, and say that it is.
func (t target) alive(ctx context.Context, state *question) error {
	if state.err != nil {
		return t.refused(ctx, state.err)
	}
	if stateBits(state.first())&stDefunct != 0 {
		return platform.ErrGone
	}
	return nil
}

// order has the element do something that answers with true or false.
func (t target) order(ctx context.Context, q *question) error {
	state := call(t.at, ifAccessible+".GetState")
	if err := t.ask(ctx, state, q); err != nil {
		return err
	}
	if err := t.alive(ctx, state); err != nil {
		return err
	}
	if q.err != nil {
		return t.refused(ctx, q.err)
	}
	if done, told := q.first().(bool); told && !done {
		return platform.ErrCannot
	}
	return nil
}

// Element reads one element anew.
func (a *Accessibility) Element(ctx context.Context, ref string) (platform.Element, error) {
	t, err := a.target(ctx, ref)
	if err != nil {
		return platform.Element{}, err
	}
	if err := t.s.follow(ctx); err != nil {
		return platform.Element{}, err
	}
	p := t.s.owner(t.at.bus)
	if p == nil {
		if _, err := t.s.applications(ctx); err != nil {
			return platform.Element{}, err
		}
		if p = t.s.owner(t.at.bus); p == nil {
			return platform.Element{}, platform.ErrGone
		}
	}
	limited, cancel := context.WithTimeout(ctx, perElement)
	defer cancel()
	if err := p.meet(limited); err != nil {
		return platform.Element{}, hungUnless(ctx, err)
	}
	frames, stop := t.s.frames(limited)
	defer stop()
	// Its parents tell its window, and whether it is part of a protected field.
	chain, err := p.chain(limited, t.at)
	if err != nil {
		return platform.Element{}, hungUnless(ctx, err)
	}
	if len(chain) == 0 {
		return platform.Element{}, platform.ErrGone
	}
	slices.Reverse(chain)
	nodes, list, only := chain, make([]platform.Element, len(chain)), make([]bool, len(chain))
	last := len(chain) - 1
	secret, above := false, uint64(stShowing|stEnabled)
	for i := range nodes {
		secret = secret || nodes[i].role == rolePassword
		above = p.effective(&nodes[i], above)
		nodes[i].states = above
		list[i] = p.locked(func() platform.Element { return p.element(&nodes[i], i-1, secret) })
		// The window tells the place, what scrolls how much of it can be seen.
		only[i] = i == last || i == 1 || p.clips() && scrolls[list[i].Role]
	}
	if _, err := p.details(limited, nodes, list, only); err != nil {
		return platform.Element{}, hungUnless(ctx, err)
	}
	if clip := everywhere; p.clips() {
		for i := range nodes {
			if only[i] {
				clip = nodes[i].clipped(clip)
			}
		}
		hidden := slices.Contains(list[last].States, "protected") // the text may have told
		list[last].States = stateWords(nodes[last].states, hidden)
	}
	p.settle(nodes, list, frames(limited), true)
	e := list[last]
	e.Parent = -1
	return e, nil
}

// hungUnless returns the condition for an application that did not answer in time,
// unless it was the caller's time that ended.
func hungUnless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return platform.ErrHung
	}
	return err
}

// chain reads an element and what it is in, up to the application; none if it is
// gone. Elements above it that the mirror knows are not asked again.
func (p *app) chain(ctx context.Context, at place) ([]node, error) {
	var chain []node
	for depth := 0; depth < maxDepth; depth++ {
		p.mu.Lock()
		nd := p.nodes[at]
		var known node
		if nd != nil {
			known = *nd
		}
		p.mu.Unlock()
		if depth > 0 && known.basics {
			chain = append(chain, known)
			if at == p.root || known.parent.bus == "" {
				return chain, nil
			}
			at = known.parent
			continue
		}
		questions := append(basics(at), property(at, ifAccessible, "Parent"))
		if err := p.ask(ctx, questions...); err != nil {
			return nil, err
		}
		fresh := node{at: at}
		if !fresh.take(questions[:len(questions)-1]) || fresh.states&stDefunct != 0 {
			return chain, nil
		}
		parent, ok := decodePlace(questions[len(questions)-1].first())
		fresh.parent, fresh.actions, fresh.acts = parent, known.actions, false
		chain = append(chain, fresh)
		if at == p.root || !ok || parent.bus == ifRegistry {
			return chain, nil
		}
		at = parent
	}
	return chain, nil
}

// Do has the element do one of its actions.
func (a *Accessibility) Do(ctx context.Context, ref, action string) error {
	t, err := a.target(ctx, ref)
	if err != nil {
		return err
	}
	state, actions := call(t.at, ifAccessible+".GetState"), call(t.at, ifAction+".GetActions")
	role := call(t.at, ifAccessible+".GetRole")
	if err := t.ask(ctx, state, actions, role); err != nil {
		return err
	}
	if err := t.alive(ctx, state); err != nil {
		return err
	}
	if t.closedMenu(uint32(role.number())) {
		return platform.ErrCannot
	}
	if actions.err != nil {
		return t.refused(ctx, actions.err)
	}
	names := decodeActions(actions.first())
	if p := t.s.owner(t.at.bus); p == nil || !p.isKnown() || !p.kind.namesActions() {
		questions := actionNames(t.at, len(names))
		if err := t.ask(ctx, questions...); err != nil {
			return err
		}
		for i, q := range questions {
			names[i] = actionWord(capabilities.Clip(q.text(), 40))
		}
	}
	states := stateBits(state.first())
	want := actionWord(action)
	i := slices.Index(names, want)
	if i < 0 {
		switch want {
		case platform.Press:
			i = mainAction(names)
		case "expand", "collapse":
			if is := states&stExpanded != 0; is == (want == "expand") && states&(stExpandable|stExpanded) != 0 {
				return nil
			}
			i = slices.Index(names, "toggle_expand")
		}
	}
	if i < 0 {
		return platform.ErrCannot
	}
	return t.start(ctx, call(t.at, ifAction+".DoAction", int32(i)))
}

// closedMenu reports a menu, or an item of one, of a program that takes the order and
// does nothing: GTK 3 under Wayland opens no menu that no event of the seat asked
// for, and takes no item of one that is not open.
func (t target) closedMenu(role uint32) bool {
	if !t.s.options.InWindows || !strings.HasPrefix(roleWord(role), "menu") {
		return false
	}
	p := t.s.owner(t.at.bus)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kind == gtk3
}

// start has the element begin something. Toolkits answer when they are done, and
// one whose action opens a dialog may be done only when that is closed: an
// application that answers a later question has begun.
func (t target) start(ctx context.Context, q *question) error {
	limited, cancel := context.WithTimeout(ctx, perElement)
	defer cancel()
	if p := t.s.owner(t.at.bus); p != nil && q.method == ifAction+".DoAction" {
		if c := p.direct(limited); c != nil {
			return hungUnless(ctx, t.startDirectly(limited, c, q))
		}
	}
	orders, states := make(chan *dbus.Call, 1), make(chan *dbus.Call, 1)
	o := t.s.bus.Object(t.at.bus, t.at.path)
	o.GoWithContext(limited, q.method, dbus.FlagNoAutoStart, orders, q.args...)
	t.s.bus.Object(t.at.bus, pathRoot).GoWithContext(limited, ifAccessible+".GetRole", dbus.FlagNoAutoStart, states)
	select {
	case r := <-orders:
		q.body, q.err = r.Body, r.Err
	case <-states:
		// Its answer overtook the action's, or the action's is right behind it.
		grace := time.NewTimer(50 * time.Millisecond)
		defer grace.Stop()
		select {
		case r := <-orders:
			q.body, q.err = r.Body, r.Err
		case <-grace.C:
			if limited.Err() == nil {
				return nil
			}
			q.err = limited.Err()
		}
	}
	if q.err != nil && !isReply(q.err) && (errors.Is(q.err, dbus.ErrClosed) || !t.s.bus.Connected()) {
		return platform.ErrLost
	}
	return hungUnless(ctx, t.ended(ctx, q))
}

// Number reads a value with its bounds.
func (a *Accessibility) Number(ctx context.Context, ref string) (value, least, most, step float64, err error) {
	t, err := a.target(ctx, ref)
	if err != nil {
		return 0, 0, 0, 0, err
	}
	state := call(t.at, ifAccessible+".GetState")
	now, low := property(t.at, ifValue, "CurrentValue"), property(t.at, ifValue, "MinimumValue")
	high, by := property(t.at, ifValue, "MaximumValue"), property(t.at, ifValue, "MinimumIncrement")
	if err := t.ask(ctx, state, now, low, high, by); err != nil {
		return 0, 0, 0, 0, err
	}
	if err := t.alive(ctx, state); err != nil {
		return 0, 0, 0, 0, err
	}
	if now.err != nil {
		return 0, 0, 0, 0, t.refused(ctx, now.err)
	}
	value, ok := now.first().(float64)
	if !ok || math.IsNaN(value) {
		return 0, 0, 0, 0, platform.ErrCannot
	}
	least, _ = low.first().(float64)
	most, _ = high.first().(float64)
	step, _ = by.first().(float64)
	return value, least, most, step, nil
}

// SetNumber sets a value.
func (a *Accessibility) SetNumber(ctx context.Context, ref string, value float64) error {
	t, err := a.target(ctx, ref)
	if err != nil {
		return err
	}
	state := call(t.at, ifAccessible+".GetState")
	set := call(t.at, ifProperties+".Set", ifValue, "CurrentValue", dbus.MakeVariant(value))
	is := property(t.at, ifValue, "CurrentValue")
	if err := t.ask(ctx, state, is); err != nil {
		return err
	}
	if err := t.alive(ctx, state); err != nil {
		return err
	}
	if is.err != nil {
		return t.refused(ctx, is.err)
	}
	if stateBits(state.first())&stSensitive == 0 && stateBits(state.first())&stEnabled == 0 {
		return platform.ErrCannot
	}
	if err := t.ask(ctx, set); err != nil {
		return err
	}
	if set.err != nil {
		return t.refused(ctx, set.err)
	}
	return nil
}

// Focus returns the element the keyboard.
func (a *Accessibility) Focus(ctx context.Context, ref string) error {
	t, err := a.target(ctx, ref)
	if err != nil {
		return err
	}
	return t.order(ctx, call(t.at, ifComponent+".GrabFocus"))
}

// Reveal scrolls the element into view.
func (a *Accessibility) Reveal(ctx context.Context, ref string) error {
	t, err := a.target(ctx, ref)
	if err != nil {
		return err
	}
	const anywhere = uint32(6)
	return t.order(ctx, call(t.at, ifComponent+".ScrollTo", anywhere))
}

// Select selects the element in what it is in.
func (a *Accessibility) Select(ctx context.Context, ref string, add bool) error {
	t, err := a.target(ctx, ref)
	if err != nil {
		return err
	}
	state, index := call(t.at, ifAccessible+".GetState"), call(t.at, ifAccessible+".GetIndexInParent")
	parent := property(t.at, ifAccessible, "Parent")
	if err := t.ask(ctx, state, index, parent); err != nil {
		return err
	}
	if err := t.alive(ctx, state); err != nil {
		return err
	}
	in, ok := decodePlace(parent.first())
	if !ok || index.err != nil || index.number() < 0 {
		return platform.ErrCannot
	}
	box := target{t.s, in}
	several := call(in, ifAccessible+".GetState")
	number := property(in, ifSelection, "NSelectedChildren")
	if err := box.ask(ctx, several, number); err != nil {
		return err
	}
	if number.err != nil {
		return box.refused(ctx, number.err)
	}
	if !add && stateBits(several.first())&stMultiselectable != 0 && number.number() > 0 {
		if err := box.order(ctx, call(in, ifSelection+".ClearSelection")); err != nil && !errors.Is(err, platform.ErrCannot) {
			return err
		}
	}
	return box.order(ctx, call(in, ifSelection+".SelectChild", int32(index.number())))
}

// formatNumber returns a value as a person would write it.
func formatNumber(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'g', 12, 64), ".0")
}

// Handled returns when an application has handled the keys that it has read. Qt
// hands each key to the registry first, which tells those who listen, and handles it
// once the registry has answered; shortcuts it carries out at once. An application
// that is not on the bus has nothing to wait for. ErrHung when it takes longer than
// ctx allows.
func (a *Accessibility) Handled(ctx context.Context, pid int) error {
	s, err := a.open(ctx)
	if err != nil {
		return nil // nobody hands keys around here
	}
	apps, err := s.applications(ctx)
	registry := func() error { return ask(ctx, s.bus, nil, property(place{ifRegistry, pathRoot}, ifAccessible, "Name")) }
	for _, p := range apps {
		if p.processID() != pid {
			continue
		}
		name := func() error { return ask(ctx, s.bus, nil, property(p.root, ifAccessible, "Name")) }
		// Each answer comes behind what was sent before it by the same one: the
		// application's behind the keys, which another thread of it hands over, and the
		// registry's behind its answers about them. Those only put the keys into the
		// application's queue; what is asked second then comes behind them.
		for _, step := range []func() error{name, registry, name, name} {
			if err == nil {
				err = step()
			}
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return platform.ErrHung
	}
	return err
}
