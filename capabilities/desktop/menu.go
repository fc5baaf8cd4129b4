package desktop

import (
	"context"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

// menuRoles are what a path of menus leads through. Buttons open menus in newer
// toolkits.
var menuRoles = []string{"menu", "menuitem", "menuitemcheckbox", "menuitemradio", "button", "togglebutton"}

// menu takes the item at the end of a path of names, from the window's menu bar (or a button that
// opens a menu) on. Closed menus that the application tells of are used without opening them; where
// it makes a menu's items only when it opens, it is opened, and closed again if the path leads
// nowhere.
func (c *deed) menu(ctx context.Context) error {
	if c.d.Accessibility == nil {
		return missing(c.d, platform.PartAccessibility)
	}
	root, window, err := c.menuRoot(ctx)
	if err != nil {
		return err
	}
	c.e = root
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.seen = c.h.trace(ctx, c.d, root, c.windows)
	defer c.seen.stop()
	var parent *platform.Element
	var path []platform.Element
	opened := false
	for i, name := range c.a.Path {
		item, err := c.menuItem(ctx, root, window, parent, name, i == 0)
		if err == nil && item == nil && parent != nil && !opened {
			err = c.openMenu(ctx, *parent)
			opened = err == nil
		}
		if err == nil && item == nil && opened {
			_, err = c.until(ctx, settle, func() (bool, error) {
				item, err = c.menuItem(ctx, root, window, parent, name, i == 0)
				return item != nil, err
			})
		}
		if err == nil && item == nil {
			err = c.noItem(ctx, root, window, parent, i)
		}
		if err == nil && !is(item, "enabled") {
			err = capabilities.Errorf(capabilities.CodeElementDisabled, "The item %d of the path is disabled.", i+1)
		}
		if err != nil {
			if opened {
				c.escape(ctx)
			}
			return err
		}
		parent, path = item, append(path, *item)
		if opened && i < len(c.a.Path)-1 {
			opened = false // its own menu is not open yet
		}
	}
	c.e = *parent
	c.seen.target = *parent
	c.seen.menus = c.menuRefs(ctx, root)
	was := on(parent)
	goal := func(e *platform.Element) string {
		if has(toggled, e.Role) && on(e) != was {
			return "the item's state changed"
		}
		return ""
	}
	if !has(toggled, parent.Role) {
		goal = nil
	}
	err = c.try(ctx, goal, func(ctx context.Context) error { return c.d.Accessibility.Do(ctx, parent.Ref, platform.Press) })
	if cannot(err) && selector.Visible(parent) {
		err = c.pointer(ctx, platform.ButtonLeft, 1)
	} else if cannot(err) {
		err = c.menuByKeys(ctx, root, path, goal)
	}
	if back := c.putBack(ctx); err == nil {
		err = back
	}
	return err
}

// menuByKeys takes the items of a path as a person does, where the application takes
// no order for that: the first one is clicked, the arrow keys go to the others, and
// Enter takes the last, once the application says that it is the current one.
func (c *deed) menuByKeys(ctx context.Context, root platform.Element, path []platform.Element,
	goal func(e *platform.Element) string) error {
	if c.in == nil {
		return c.noInput()
	}
	home, err := c.in.Pointer(ctx)
	if err != nil {
		return err
	}
	keep := c.keep
	c.keep = true // the pointer stays on the menu, and the focus in its window, until the item is taken
	c.e = path[0]
	if err := c.pointer(ctx, platform.ButtonLeft, 1); err != nil {
		return err
	}
	for i := 1; i < len(path) && err == nil; i++ {
		if i > 1 {
			err = chord(ctx, c.in, []string{"ArrowRight"}, 1, 0)
		}
		if err == nil {
			err = c.arrowTo(ctx, root, path[i-1], path[i])
		}
	}
	if err != nil {
		c.escape(ctx)
		return err
	}
	c.e = path[len(path)-1]
	c.seen.target = c.e
	c.seen.forget()
	if err := chord(ctx, c.in, []string{"Enter"}, 1, 0); err != nil {
		return err
	}
	c.route = routeInput
	if c.verdict, err = c.seen.await(ctx, goal, nil); err != nil {
		return err
	}
	c.keep = keep
	return c.pointerBack(ctx, home)
}

// arrowTo presses the arrow key until the item is the current one of its menu.
func (c *deed) arrowTo(ctx context.Context, root, menu, item platform.Element) error {
	items := 1
	current := func() (ref string, open bool, err error) {
		s, err := c.menus(ctx, root)
		if err != nil {
			return "", false, err
		}
		below := menuPlaces(s, root, &menu, false)
		items = max(items, len(below))
		for _, i := range below {
			e := &s.Elements[i]
			open = open || selector.Visible(e)
			if is(e, "selected") || is(e, "focused") {
				ref = e.Ref
			}
		}
		return ref, open, nil
	}
	var at string
	open, err := c.until(ctx, settle, func() (open bool, err error) {
		at, open, err = current()
		return open, err
	})
	if err == nil && !open {
		err = unsupported("The menu does not open.").WithHint("Look at the window; a dialog of it may be in the way.")
	}
	for n := 0; err == nil && at != item.Ref && n <= 2*items; n++ {
		if err = chord(ctx, c.in, []string{"ArrowDown"}, 1, 0); err != nil {
			break
		}
		was := at
		_, err = c.until(ctx, settle, func() (bool, error) {
			at, _, err = current()
			return at != was, err
		})
	}
	if err == nil && at != item.Ref {
		err = unsupported("The keyboard does not come to that item of the menu.").
			WithHint("Open the menu by a click, take a snapshot, and click the item.")
	}
	return err
}

// menuRoot returns where the path begins: the target, or the window that has the
// focus; and the window's ref.
func (c *deed) menuRoot(ctx context.Context) (platform.Element, string, error) {
	if c.sel != nil {
		e, err := c.h.resolve(ctx, c.d, c.sel)
		if err == nil && isOwn(c.windows, e) {
			err = errOwnWindow
		}
		return e, e.Window, err
	}
	for _, w := range c.windows {
		if w.Focused && !w.Own {
			tree, err := c.d.Accessibility.Tree(ctx, platform.TreeQuery{PID: w.PID, MaxElements: maxElements, PerApp: perApp})
			if err != nil {
				return platform.Element{}, "", err
			}
			if len(tree.Hung) > 0 && len(tree.Elements) == 0 {
				return platform.Element{}, "", hungError([]string{capabilities.Clip(w.App, 80)})
			}
			for _, e := range tree.Elements {
				if selector.IsWindow(&e) && e.Window == w.Ref {
					return e, w.Ref, nil
				}
			}
		}
	}
	return platform.Element{}, "", capabilities.Errorf(capabilities.CodeWindowNotFound, "No window with elements has the focus.").
		WithHint("Give target: the window whose menu is meant.")
}

// menuItem looks for the next item of the path: below the one before, else in
// what popped up in the application, else, for the first, below the root.
func (c *deed) menuItem(ctx context.Context, root platform.Element, window string, parent *platform.Element, name string,
	first bool) (*platform.Element, error) {
	s, err := c.menus(ctx, root)
	if err != nil {
		return nil, err
	}
	for _, fold := range []bool{false, true} {
		for _, i := range menuPlaces(s, root, parent, first) {
			if e := &s.Elements[i]; e.Name != "" &&
				(menuName(e.Name, false) == menuName(name, false) || fold && menuName(e.Name, true) == menuName(name, true)) {
				full, err := c.d.Accessibility.Element(ctx, e.Ref)
				if err != nil {
					if err := c.h.gone(ctx, err, e.PID); err != nil {
						return nil, err
					}
					continue
				}
				full.Window = firstOf(full.Window, window)
				return &full, nil
			}
		}
	}
	return nil, nil
}

// menuRefs returns the refs of every menu of the application, and of their items.
func (c *deed) menuRefs(ctx context.Context, root platform.Element) map[string]bool {
	refs := map[string]bool{}
	if s, err := c.menus(ctx, root); err == nil {
		for _, e := range s.Elements {
			if strings.HasPrefix(e.Role, "menu") {
				refs[e.Ref] = true
			}
		}
	}
	return refs
}

func (c *deed) menus(ctx context.Context, root platform.Element) (*selector.Scene, error) {
	tree, err := c.d.Accessibility.Tree(ctx, platform.TreeQuery{PID: root.PID, MaxElements: maxElements, PerApp: perApp})
	if err != nil {
		return nil, err
	}
	if len(tree.Hung) > 0 {
		return nil, c.h.hungApp(ctx, root.PID)
	}
	return selector.NewScene(tree, c.windows, c.h.refs.full), nil
}

// menuPlaces lists the items in which the next name of a path may be.
func menuPlaces(s *selector.Scene, root platform.Element, parent *platform.Element, first bool) []int {
	var below, popped []int
	at := func(ref string) int {
		return slices.IndexFunc(s.Elements, func(e platform.Element) bool { return e.Ref == ref })
	}
	under := -1
	if parent != nil {
		under = at(parent.Ref)
	} else {
		under = at(root.Ref)
	}
	for i := range s.Elements {
		e := &s.Elements[i]
		if !has(menuRoles, e.Role) || parent != nil && e.Ref == parent.Ref {
			continue
		}
		item := strings.HasPrefix(e.Role, "menu")
		switch {
		case under >= 0 && i > under && i <= s.Last[under] && (item || first):
			below = append(below, i)
		case !first && item && selector.Visible(e) && !ofBar(s, i):
			popped = append(popped, i)
		}
	}
	// Menus before buttons of the same name.
	slices.SortStableFunc(below, func(a, b int) int {
		return boolOrder(strings.HasPrefix(s.Elements[b].Role, "menu")) - boolOrder(strings.HasPrefix(s.Elements[a].Role, "menu"))
	})
	// A menu that popped up may hold buttons for items.
	if !first && len(below) == 0 && len(popped) == 0 {
		for i := range s.Elements {
			e := &s.Elements[i]
			if (e.Role == "button" || e.Role == "togglebutton") && selector.Visible(e) && under >= 0 && i > under && i <= s.Last[under] {
				popped = append(popped, i)
			}
		}
	}
	return append(below, popped...)
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

// inBar reports whether an element stands in a menu bar itself, not in a menu.
func inBar(s *selector.Scene, i int) bool {
	p := s.Elements[i].Parent
	return p >= 0 && s.Elements[p].Role == "menubar"
}

// ofBar reports whether an element is in a menu bar, or in one of its menus.
func ofBar(s *selector.Scene, i int) bool {
	for ; i >= 0; i = s.Elements[i].Parent {
		if s.Elements[i].Role == "menubar" {
			return true
		}
	}
	return false
}

// menuName is a name of a menu as people say it: without the dots of what asks
// more, and the key beside it.
func menuName(name string, fold bool) string {
	name, _, _ = strings.Cut(name, "\t")
	name = strings.TrimRight(selector.Simple(name), ".…")
	if fold {
		return strings.ToLower(name)
	}
	return name
}

// openMenu opens a menu of the path, by itself or by a click.
func (c *deed) openMenu(ctx context.Context, m platform.Element) error {
	err := c.d.Accessibility.Do(ctx, m.Ref, platform.Press)
	if cannot(err) && has(m.Actions, "show_menu") {
		err = c.d.Accessibility.Do(ctx, m.Ref, "show_menu")
	}
	if cannot(err) {
		c.e = m
		err = c.pointer(ctx, platform.ButtonLeft, 1)
	}
	return err
}

// noItem says which names there are where the path ends.
func (c *deed) noItem(ctx context.Context, root platform.Element, window string, parent *platform.Element, at int) error {
	names := []string{}
	if s, err := c.menus(ctx, root); err == nil {
		for _, i := range menuPlaces(s, root, parent, at == 0) {
			name := capabilities.Clip(menuName(s.Elements[i].Name, false), 80)
			if name != "" && len(names) < 20 && !has(names, name) && (at > 0 || strings.HasPrefix(s.Elements[i].Role, "menu") && inBar(s, i)) {
				names = append(names, name)
			}
		}
	}
	return capabilities.Errorf(capabilities.CodeElementNotFound, "There is no item %d of the path.", at+1).
		WithHint("details.items has what is there.").WithDetails(map[string]any{"items": names})
}
