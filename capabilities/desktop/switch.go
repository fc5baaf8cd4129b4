package desktop

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

// toggled roles are on or off.
var toggled = []string{"checkbox", "radio", "switch", "togglebutton", "menuitemcheckbox", "menuitemradio"}

// toggle turns the element on or off, or to the other one. check and uncheck do
// nothing to what is so already.
func (c *deed) toggle(ctx context.Context) error {
	if !has(toggled, c.e.Role) && !is(&c.e, "checked") && !has(c.e.Actions, "toggle") {
		return unsupported("The element, of role %s, is nothing that is on or off.", c.e.Role)
	}
	was := on(&c.e)
	to := c.a.Kind == "check" || c.a.Kind == "toggle" && !was
	how := map[bool]string{true: "it is on", false: "it is off"}[to]
	if was == to && !is(&c.e, "mixed") {
		return c.done(how + " already")
	}
	if !to && strings.HasSuffix(c.e.Role, "radio") {
		return unsupported("A radio button is turned off by turning another one on.")
	}
	goal := func(e *platform.Element) string {
		if on(e) == to && !is(e, "mixed") {
			return how + " now: its state was read back"
		}
		return ""
	}
	return c.press(ctx, goal)
}

// press uses the main action, or a click, for a goal.
func (c *deed) press(ctx context.Context, goal func(e *platform.Element) string) error {
	err := c.try(ctx, goal, func(ctx context.Context) error { return c.d.Accessibility.Do(ctx, c.e.Ref, platform.Press) })
	if !cannot(err) {
		return err
	}
	return c.clickFor(ctx, goal)
}

// clickFor clicks and reads back a goal.
func (c *deed) clickFor(ctx context.Context, goal func(e *platform.Element) string) error {
	if err := c.pointerFor(ctx, platform.ButtonLeft, 1, goal); err != nil || c.verdict.effect == capabilities.EffectConfirmed {
		return err
	}
	if v, ok := c.seen.check(ctx, goal); ok { // by now the pointer is away again
		c.verdict = v
	}
	return nil
}

// selects selects the element in what holds it, or, with a value, the option of
// that name in it.
func (c *deed) selects(ctx context.Context) error {
	if c.a.Value != nil {
		return c.choose(ctx, *c.a.Value)
	}
	if is(&c.e, "selected") {
		return c.done("it was selected already")
	}
	err := c.try(ctx, holds("selected", "it is selected"),
		func(ctx context.Context) error { return c.d.Accessibility.Select(ctx, c.e.Ref, false) })
	if err == nil && c.verdict.effect == capabilities.EffectConfirmed || err != nil && !cannot(err) {
		return err
	}
	if c.e.Role == "option" || c.e.Role == "menuitem" || c.e.Role == "radio" {
		return c.press(ctx, func(e *platform.Element) string {
			if is(e, "selected") || is(e, "checked") {
				return "it is selected"
			}
			return ""
		})
	}
	return c.clickFor(ctx, holds("selected", "it is selected"))
}

// options are the roles of what can be chosen.
var options = []string{"option", "listitem", "menuitem", "menuitemradio", "radio", "tab", "cell", "treeitem", "row"}

// choose takes the option of that name in a list, a combobox, a group of tabs or
// of radio buttons. A combobox whose options are made only when it opens is opened.
func (c *deed) choose(ctx context.Context, name string) error {
	root := c.e
	combo := root.Role == "combobox"
	shows := func(e *platform.Element) string {
		if combo && c.face(ctx, e, name) {
			return "it shows that option"
		}
		return ""
	}
	if shows(&root) != "" {
		return c.done("it showed that option")
	}
	option, at, names, err := c.option(ctx, root, name, false)
	if err != nil {
		return err
	}
	opened := false
	if option == nil && combo {
		if err := c.openCombo(ctx, root); err != nil {
			return err
		}
		opened = true
		if _, err := c.until(ctx, settle, func() (bool, error) {
			option, at, names, err = c.option(ctx, root, name, true)
			return option != nil, err
		}); err != nil {
			return err
		}
	}
	if option == nil {
		if opened {
			c.escape(ctx)
		}
		if combo && len(names) == 0 && c.in != nil && is(&root, "focusable") {
			// It tells none of its options: nearly all find the one that is typed.
			err := c.keys(ctx, shows, func(ctx context.Context) error { return c.typing(ctx, name) })
			if err != nil || c.verdict.effect == capabilities.EffectConfirmed {
				return err
			}
			if c.verdict.effect == capabilities.EffectPartial {
				c.verdict.evidence = "the option's name was typed into it, and it changed; it does not tell what it shows"
				return nil
			}
		}
		return (&capabilities.Error{Code: capabilities.CodeElementNotFound, Message: "There is no such option."}).
			WithDetails(map[string]any{"options": names})
	}
	goal := shows
	if !combo {
		goal = func(*platform.Element) string {
			now, err := c.d.Accessibility.Element(ctx, option.Ref)
			if err == nil && (is(&now, "selected") || is(&now, "checked")) {
				return "the option is selected"
			}
			return ""
		}
	}
	if err := c.pickOption(ctx, *option, combo, goal); err != nil || c.verdict.effect == capabilities.EffectConfirmed {
		return err
	}
	if !combo || c.in == nil || !opened && !is(&c.e, "focusable") {
		if c.verdict.effect == "" {
			return unsupported("The option does not show, and cannot be chosen by itself.")
		}
		return nil
	}
	// Some comboboxes take a choice by keys only: in the list that popped up, or else
	// in the combobox itself.
	steps := func(ctx context.Context) error {
		if err := chord(ctx, c.in, []string{"Home"}, 1, 0); err != nil {
			return err
		}
		if at > 0 {
			if err := chord(ctx, c.in, []string{"ArrowDown"}, at, 0); err != nil {
				return err
			}
		}
		if opened {
			return chord(ctx, c.in, []string{"Enter"}, 1, 0)
		}
		return nil
	}
	if !opened {
		return c.keys(ctx, goal, steps)
	}
	if _, err := mayType(ctx, c.d); err != nil {
		return err
	}
	c.seen.forget()
	if err := steps(ctx); err != nil {
		return err
	}
	c.route = routeInput
	c.verdict, err = c.seen.await(ctx, goal, nil)
	return err
}

// face reports whether a combobox shows an option: as its value or name, or as a
// label in it. That an option is selected in the list that pops up proves nothing.
func (c *deed) face(ctx context.Context, e *platform.Element, name string) bool {
	if selector.Simple(e.Value) == selector.Simple(name) || selector.Simple(e.Name) == selector.Simple(name) {
		return true
	}
	tree, err := c.d.Accessibility.Tree(ctx, platform.TreeQuery{Root: e.Ref, PID: e.PID, MaxElements: 256, PerApp: perApp, Bounds: true})
	if err != nil {
		return false
	}
	for _, inner := range tree.Elements {
		if inner.Ref == e.Ref || !selector.Visible(&inner) {
			continue
		}
		label := inner.Role == "label" && selector.Simple(inner.Name) == selector.Simple(name) && !e.Bounds.Intersect(inner.Bounds).Empty()
		field := inner.Role == "textbox" && selector.Simple(inner.Value) == selector.Simple(name)
		if label || field {
			return true
		}
	}
	return false
}

// openCombo opens a combobox by itself, by the button in it, or by a click.
func (c *deed) openCombo(ctx context.Context, root platform.Element) error {
	acc := c.d.Accessibility
	err := acc.Do(ctx, root.Ref, platform.Press)
	if !cannot(err) {
		return err
	}
	tree, err := acc.Tree(ctx, platform.TreeQuery{Root: root.Ref, PID: root.PID, MaxElements: 64, PerApp: perApp, Bounds: true})
	if err == nil {
		for _, e := range tree.Elements {
			if (e.Role == "button" || e.Role == "togglebutton") && len(e.Actions) > 0 {
				if err := acc.Do(ctx, e.Ref, platform.Press); !cannot(err) {
					return err
				}
			}
		}
	}
	return c.pointer(ctx, platform.ButtonLeft, 1)
}

// pickOption selects an option in its container, by its own action, or, where it shows
// in a list, by a click. It leaves no verdict if no route was open.
func (c *deed) pickOption(ctx context.Context, option platform.Element, combo bool, goal func(e *platform.Element) string) error {
	acc := c.d.Accessibility
	routes := []func(ctx context.Context) error{
		func(ctx context.Context) error { return acc.Select(ctx, option.Ref, false) },
		func(ctx context.Context) error { return acc.Do(ctx, option.Ref, platform.Press) },
	}
	if combo && strings.HasPrefix(option.Role, "menu") { // to select in a menu is to point at it, no more
		routes = routes[1:]
	}
	for i, route := range routes {
		err := c.try(ctx, goal, route)
		if err != nil && !cannot(err) {
			return err
		}
		if err == nil && (c.verdict.effect == capabilities.EffectConfirmed ||
			c.verdict.effect == capabilities.EffectPartial && i == len(routes)-1 && strings.HasPrefix(option.Role, "menu")) {
			return nil
		}
	}
	now, err := acc.Element(ctx, option.Ref) // it may have been closed meanwhile
	if err != nil || combo || !selector.Visible(&now) || now.Bounds.Empty() || c.in == nil {
		return nil
	}
	root := c.e
	now.Window = option.Window
	option = now
	c.e = option
	err = c.pointer(ctx, platform.ButtonLeft, 1)
	c.e = root
	if err != nil {
		return err
	}
	c.verdict, err = c.seen.await(ctx, goal, nil)
	return err
}

// option finds an option by its name below a container, or, once it is open, in what popped up in
// its application, and tells how many come before it; without it, it returns the names of those
// there are.
func (c *deed) option(ctx context.Context, root platform.Element, name string, open bool) (*platform.Element, int, []string, error) {
	names := []string{}
	roots := []string{root.Ref}
	if open {
		roots = append(roots, "")
	}
	for _, below := range roots {
		tree, err := c.d.Accessibility.Tree(ctx,
			platform.TreeQuery{Root: below, PID: root.PID, MaxElements: maxElements, PerApp: perApp, Bounds: open})
		if err != nil {
			if isGone(err) && below != "" {
				continue
			}
			return nil, 0, nil, err
		}
		var list []*platform.Element
		for _, i := range named(tree.Elements) {
			if e := &tree.Elements[i]; e.Ref != root.Ref && (below != "" || selector.Visible(e) && e.Role != "tab" && e.Role != "radio") {
				list = append(list, e)
			}
		}
		for _, same := range []func(string) bool{
			func(s string) bool { return selector.Simple(s) == selector.Simple(name) },
			func(s string) bool { return selector.Folded(s) == selector.Folded(name) },
		} {
			if i := slices.IndexFunc(list, func(e *platform.Element) bool { return same(e.Name) }); i >= 0 {
				list[i].Window = firstOf(list[i].Window, root.Window)
				return list[i], i, nil, nil
			}
		}
		for _, e := range list {
			if label := capabilities.Clip(selector.Simple(e.Name), 80); below != "" && len(names) < 20 && !has(names, label) {
				names = append(names, label)
			}
		}
	}
	return nil, 0, names, nil
}

// named returns the places of the options that have a name; those without get that
// of the first label in them.
func named(elements []platform.Element) []int {
	var list []int
	for i := range elements {
		e := &elements[i]
		if has(options, e.Role) && e.Name != "" {
			list = append(list, i)
		}
		for at := e.Parent; e.Role == "label" && at >= 0 && at < i; at = elements[at].Parent {
			if above := &elements[at]; has(options, above.Role) {
				if above.Name == "" {
					above.Name = e.Name
					list = append(list, at)
				}
				break
			}
		}
	}
	return list
}

// escape closes what popped up, if that can be done.
func (c *deed) escape(ctx context.Context) {
	if c.in != nil {
		_ = chord(ctx, c.in, []string{"Escape"}, 1, 0) // nothing depends on it
	}
}

// expand opens or closes a tree's branch, a combobox, an expander.
func (c *deed) expand(ctx context.Context) error {
	state, key := "expanded", "ArrowRight"
	if c.a.Kind == "collapse" {
		state, key = "!expanded", "ArrowLeft"
	}
	if selector.InState(&c.e, state) && (state == "expanded" || is(&c.e, "collapsed")) {
		return c.done("it was so already")
	}
	how := map[string]string{
		"expand": "it is expanded: its state was read back", "collapse": "it is collapsed: its state was read back",
	}[c.a.Kind]
	goal := holds(state, how)
	acc := c.d.Accessibility
	for _, name := range c.e.Actions {
		plain := strings.ReplaceAll(name, "_", "")
		if strings.HasPrefix(plain, c.a.Kind) || has([]string{"toggleexpand", "expandcontract", "expandorcollapse", "expandorcontract"}, plain) {
			return c.try(ctx, goal, func(ctx context.Context) error { return acc.Do(ctx, c.e.Ref, name) })
		}
	}
	opens := is(&c.e, "expanded") || is(&c.e, "collapsed")
	if opens && !has([]string{"treeitem", "row", "cell"}, c.e.Role) || has([]string{"combobox", "menu"}, c.e.Role) {
		return c.press(ctx, goal)
	}
	if !opens {
		return unsupported("The element, of role %s, neither expands nor collapses.", c.e.Role)
	}
	return c.keys(ctx, goal, func(ctx context.Context) error { return chord(ctx, c.in, []string{key}, 1, 0) })
}

// count makes a number larger or smaller by one step.
func (c *deed) count(ctx context.Context) error {
	acc := c.d.Accessibility
	before, least, most, step, err := acc.Number(ctx, c.e.Ref)
	known := err == nil
	if err != nil && !cannot(err) {
		return err
	}
	up := c.a.Kind == "increment"
	if known && (up && before >= most || !up && before <= least) && least < most {
		return c.done("it was at its bound")
	}
	goal := func(e *platform.Element) string {
		if now, _, _, _, err := acc.Number(ctx, c.e.Ref); known && err == nil && now != before && (now > before) == up {
			return "its value was read back"
		}
		if !known && e.Value != c.e.Value {
			return "its value changed"
		}
		return ""
	}
	if !known && has(c.e.Actions, c.a.Kind) {
		err := c.try(ctx, goal, func(ctx context.Context) error { return acc.Do(ctx, c.e.Ref, c.a.Kind) })
		if !cannot(err) {
			return err
		}
	}
	if !known {
		return unsupported("The element, of role %s, has no number.", c.e.Role)
	}
	if step <= 0 || math.IsNaN(step) {
		if step = 1; most-least <= 2 && most > least {
			step = (most - least) / 100
		}
	}
	if !up {
		step = -step
	}
	to := before + step
	if least < most {
		to = min(max(to, least), most)
	}
	return c.try(ctx, goal, func(ctx context.Context) error { return acc.SetNumber(ctx, c.e.Ref, to) })
}
