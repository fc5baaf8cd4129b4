package desktop

import (
	"context"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// menuRoles are what a path of menus leads through. Buttons open menus in newer
// toolkits.
var menuRoles = []string{"menu", "menuitem", "menuitemcheckbox", "menuitemradio", "button", "togglebutton"}

// menu takes the item at the end of a path of names, from the window's menu bar
// (or a button that opens a menu) on. What the application tells of closed menus is
// used without opening them; where it makes a menu's items only when it opens, it
// is opened, and closed again if the path leads nowhere.
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
		parent = item
		if opened && i < len(c.a.Path)-1 {
			opened = false // its own menu is not open yet
		}
	}
	c.e = *parent
	c.seen.target = *parent
	was := on(parent)
	goal := func(e *platform.Element) string {
		if slices.Contains(toggled, e.Role) && on(e) != was {
			return "the item's state changed"
		}
		return ""
	}
	if !slices.Contains(toggled, parent.Role) {
		goal = nil
	}
	err = c.try(ctx, goal, func(ctx context.Context) error { return c.d.Accessibility.Do(ctx, parent.Ref, platform.Press) })
	if cannot(err) {
		err = c.pointer(ctx, platform.ButtonLeft, 1)
	}
	if back := c.putBack(ctx); err == nil {
		err = back
	}
	return err
}

// menuRoot gives where the path begins: the target, or the window that has the
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
				return platform.Element{}, "", hungError([]string{clip(w.App, 80)})
			}
			for _, e := range tree.Elements {
				if isWindow(&e) && e.Window == w.Ref {
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
func (c *deed) menuItem(ctx context.Context, root platform.Element, window string, parent *platform.Element, name string, first bool) (*platform.Element, error) {
	s, err := c.menus(ctx, root)
	if err != nil {
		return nil, err
	}
	for _, fold := range []bool{false, true} {
		for _, i := range s.menuPlaces(root, parent, first) {
			if e := &s.elements[i]; e.Name != "" && (menuName(e.Name, false) == menuName(name, false) || fold && menuName(e.Name, true) == menuName(name, true)) {
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

func (c *deed) menus(ctx context.Context, root platform.Element) (*scene, error) {
	tree, err := c.d.Accessibility.Tree(ctx, platform.TreeQuery{PID: root.PID, MaxElements: maxElements, PerApp: perApp})
	if err != nil {
		return nil, err
	}
	if len(tree.Hung) > 0 {
		return nil, c.h.hungApp(ctx, root.PID)
	}
	return newScene(tree, c.windows, c.h.refs.full), nil
}

// menuPlaces lists the items in which the next name of a path may be.
func (s *scene) menuPlaces(root platform.Element, parent *platform.Element, first bool) []int {
	var below, popped []int
	at := func(ref string) int {
		return slices.IndexFunc(s.elements, func(e platform.Element) bool { return e.Ref == ref })
	}
	under := -1
	if parent != nil {
		under = at(parent.Ref)
	} else {
		under = at(root.Ref)
	}
	for i := range s.elements {
		e := &s.elements[i]
		if !slices.Contains(menuRoles, e.Role) || parent != nil && e.Ref == parent.Ref {
			continue
		}
		item := strings.HasPrefix(e.Role, "menu")
		switch {
		case under >= 0 && i > under && i <= s.last[under] && (item || first):
			below = append(below, i)
		case !first && item && visible(e) && !s.ofBar(i):
			popped = append(popped, i)
		}
	}
	// Menus before buttons of the same name.
	slices.SortStableFunc(below, func(a, b int) int {
		return boolOrder(strings.HasPrefix(s.elements[b].Role, "menu")) - boolOrder(strings.HasPrefix(s.elements[a].Role, "menu"))
	})
	// What popped up may hold buttons for items.
	if !first && len(below) == 0 && len(popped) == 0 {
		for i := range s.elements {
			if e := &s.elements[i]; (e.Role == "button" || e.Role == "togglebutton") && visible(e) && under >= 0 && i > under && i <= s.last[under] {
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
func (s *scene) inBar(i int) bool {
	p := s.elements[i].Parent
	return p >= 0 && s.elements[p].Role == "menubar"
}

// ofBar reports whether an element is in a menu bar, or in one of its menus.
func (s *scene) ofBar(i int) bool {
	for ; i >= 0; i = s.elements[i].Parent {
		if s.elements[i].Role == "menubar" {
			return true
		}
	}
	return false
}

// menuName is a name of a menu as people say it: without the dots of what asks
// more, and the key beside it.
func menuName(name string, fold bool) string {
	name, _, _ = strings.Cut(name, "\t")
	name = strings.TrimRight(simple(name), ".…")
	if fold {
		return strings.ToLower(name)
	}
	return name
}

// openMenu opens a menu of the path, by itself or by a click.
func (c *deed) openMenu(ctx context.Context, m platform.Element) error {
	err := c.d.Accessibility.Do(ctx, m.Ref, platform.Press)
	if cannot(err) && slices.Contains(m.Actions, "show_menu") {
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
		for _, i := range s.menuPlaces(root, parent, at == 0) {
			name := clip(menuName(s.elements[i].Name, false), 80)
			if name != "" && len(names) < 20 && !slices.Contains(names, name) && (at > 0 || strings.HasPrefix(s.elements[i].Role, "menu") && s.inBar(i)) {
				names = append(names, name)
			}
		}
	}
	return capabilities.Errorf(capabilities.CodeElementNotFound, "There is no item %d of the path.", at+1).
		WithHint("details.items has what is there.").WithDetails(map[string]any{"items": names})
}
