package desktop

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// toggled roles are on or off.
var toggled = []string{"checkbox", "radio", "switch", "togglebutton", "menuitemcheckbox", "menuitemradio"}

// toggle turns the element on or off, or to the other one. check and uncheck do
// nothing to what is so already.
func (c *deed) toggle(ctx context.Context) error {
	if !slices.Contains(toggled, c.e.Role) && !is(&c.e, "checked") && !slices.Contains(c.e.Actions, "toggle") {
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
	if err := c.pointer(ctx, platform.ButtonLeft, 1); err != nil {
		return err
	}
	if v, ok := c.seen.check(ctx, goal); ok {
		c.verdict = v
		return nil
	}
	v, err := c.seen.await(ctx, goal, nil)
	c.verdict = v
	return err
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
	err := c.try(ctx, holds("selected", "it is selected"), func(ctx context.Context) error { return c.d.Accessibility.Select(ctx, c.e.Ref, false) })
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
// of radio buttons. Options that are made only when a combobox opens are waited for.
func (c *deed) choose(ctx context.Context, name string) error {
	root := c.e
	shows := func(e *platform.Element) string {
		if root.Role == "combobox" && (simple(e.Name) == simple(name) || simple(e.Value) == simple(name)) {
			return "it shows that option"
		}
		return ""
	}
	if shows(&root) != "" {
		return c.done("it showed that option")
	}
	option, names, err := c.option(ctx, root, name)
	if err != nil {
		return err
	}
	opened := false
	if option == nil && root.Role == "combobox" {
		opened = true
		if err := c.press(ctx, nil); err != nil {
			return err
		}
		if _, err := c.until(ctx, settle, func() (bool, error) {
			option, names, err = c.option(ctx, root, name)
			return option != nil, err
		}); err != nil {
			return err
		}
	}
	if option == nil {
		if opened {
			c.escape(ctx)
		}
		return (&capabilities.Error{Code: capabilities.CodeElementNotFound, Message: "There is no such option."}).
			WithDetails(map[string]any{"options": names})
	}
	if err := c.take(ctx, root, *option); err != nil {
		return err
	}
	if root.Role == "combobox" && c.verdict.effect != capabilities.EffectConfirmed {
		if v, ok := c.seen.check(ctx, shows); ok {
			c.verdict = v
		}
	}
	return nil
}

// take selects an option in its container, and reads back either of the two.
func (c *deed) take(ctx context.Context, root, option platform.Element) error {
	acc := c.d.Accessibility
	goal := func(e *platform.Element) string {
		now, err := acc.Element(ctx, option.Ref)
		if err == nil && (is(&now, "selected") || is(&now, "checked")) {
			return "the option is selected"
		}
		if root.Role == "combobox" && (simple(e.Name) == simple(option.Name) || simple(e.Value) == simple(option.Name)) {
			return "it shows that option"
		}
		return ""
	}
	err := c.try(ctx, goal, func(ctx context.Context) error { return acc.Select(ctx, option.Ref, false) })
	if err == nil && c.verdict.effect == capabilities.EffectConfirmed {
		return nil
	}
	if err != nil && !cannot(err) {
		return err
	}
	err = c.try(ctx, goal, func(ctx context.Context) error { return acc.Do(ctx, option.Ref, platform.Press) })
	if !cannot(err) {
		return err
	}
	c.e = option
	return c.clickFor(ctx, goal)
}

// option finds an option by its name below a container, or in what popped up in
// its application; without it, it gives the names of those there are.
func (c *deed) option(ctx context.Context, root platform.Element, name string) (*platform.Element, []string, error) {
	acc := c.d.Accessibility
	names := []string{}
	for _, q := range []platform.TreeQuery{
		{Root: root.Ref, PID: root.PID, MaxElements: maxElements, PerApp: perApp},
		{PID: root.PID, MaxElements: maxElements, PerApp: perApp},
	} {
		if q.Root == "" && root.Role != "combobox" {
			break
		}
		tree, err := acc.Tree(ctx, q)
		if err != nil {
			if isGone(err) && q.Root != "" {
				continue
			}
			return nil, nil, err
		}
		for _, fold := range []bool{false, true} {
			for _, e := range tree.Elements {
				if !slices.Contains(options, e.Role) || e.Name == "" || q.Root == "" && (e.Role != "option" && e.Role != "listitem" && e.Role != "menuitem" || !visible(&e)) {
					continue
				}
				if simple(e.Name) == simple(name) || fold && folded(e.Name) == folded(name) {
					e.Window = firstOf(e.Window, root.Window)
					return &e, nil, nil
				}
				if label := clip(simple(e.Name), 80); fold && len(names) < 20 && !slices.Contains(names, label) {
					names = append(names, label)
				}
			}
		}
	}
	return nil, names, nil
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
	if inState(&c.e, state) && (state == "expanded" || is(&c.e, "collapsed")) {
		return c.done("it was so already")
	}
	how := map[string]string{"expand": "it is expanded: its state was read back", "collapse": "it is collapsed: its state was read back"}[c.a.Kind]
	goal := holds(state, how)
	acc := c.d.Accessibility
	for _, name := range c.e.Actions {
		plain := strings.ReplaceAll(name, "_", "")
		if strings.HasPrefix(plain, c.a.Kind) || slices.Contains([]string{"toggleexpand", "expandcontract", "expandorcollapse", "expandorcontract"}, plain) {
			return c.try(ctx, goal, func(ctx context.Context) error { return acc.Do(ctx, c.e.Ref, name) })
		}
	}
	opens := is(&c.e, "expanded") || is(&c.e, "collapsed")
	if opens && !slices.Contains([]string{"treeitem", "row", "cell"}, c.e.Role) || slices.Contains([]string{"combobox", "menu"}, c.e.Role) {
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
	if slices.Contains(c.e.Actions, c.a.Kind) {
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
