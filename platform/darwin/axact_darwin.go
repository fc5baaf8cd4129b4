package darwin

import (
	"context"
	"errors"

	"github.com/handrail-dev/handrail/platform"
)

// Element reads one element anew. Its Parent is -1.
func (x *Accessibility) Element(ctx context.Context, ref string) (platform.Element, error) {
	l, err := x.a.arrangement()
	if err != nil {
		return platform.Element{}, err
	}
	found := make(chan platform.Element, 1) // who was given up writes to nobody
	err = x.with(ctx, ref, func(e entry) error {
		f, children, err := x.a.look(e.element, l, e.pid, true)
		x.a.drop(children)
		if err == nil {
			found <- f.element(e.ref, -1, e.app, e.window, true)
		}
		return err
	})
	if err != nil {
		return platform.Element{}, err
	}
	return <-found, nil
}

// secret reports whether an element is a field for a password.
func (a *api) secret(el object) bool {
	return a.textOf(el, "AXSubrole", maxText) == "AXSecureTextField"
}

// Text reads up to most characters of a field's text; "" of a protected one.
func (x *Accessibility) Text(ctx context.Context, ref string, most int) (string, error) {
	found := make(chan string, 1)
	err := x.with(ctx, ref, func(e entry) error {
		if x.a.secret(e.element) {
			found <- ""
			return nil
		}
		value, err := x.a.attribute(e.element, "AXValue")
		defer x.a.drop(value)
		if errors.Is(err, platform.ErrCannot) && x.a.textOf(e.element, "AXRole", maxText) == "AXStaticText" {
			found <- x.a.textOf(e.element, "AXTitle", maxText)
			return nil
		}
		if err != nil {
			return err
		}
		if !x.a.is(value, x.a.stringType) {
			return platform.ErrCannot
		}
		found <- x.a.read(value, min(max(0, most), maxUnits)*2) // a character has two units at most
		return nil
	})
	if err != nil {
		return "", err
	}
	runes := []rune(<-found)
	return string(runes[:min(len(runes), max(0, most))]), nil
}

// Do has an element do one of its actions, or Press, the main one.
func (x *Accessibility) Do(ctx context.Context, ref, action string) error {
	return x.with(ctx, ref, func(e entry) error {
		a, el := x.a, e.element
		switch action {
		case "expand", "collapse":
			to := a.no
			if action == "expand" {
				to = a.yes
			}
			err := a.set(el, "AXExpanded", to)
			if errors.Is(err, platform.ErrCannot) {
				err = a.set(el, "AXDisclosing", to)
			}
			return err
		case "focus":
			return a.set(el, "AXFocused", a.yes)
		case "select":
			return a.selectOne(el, false)
		}
		native := nativeAction(action)
		if native == "" {
			return platform.ErrCannot
		}
		err := a.perform(el, native)
		if action == platform.Press && errors.Is(err, platform.ErrCannot) {
			for _, other := range []string{"AXPick", "AXOpen", "AXConfirm"} {
				if err = a.perform(el, other); !errors.Is(err, platform.ErrCannot) {
					break
				}
			}
		}
		if errors.Is(err, platform.ErrHung) {
			// An application that opens a dialog answers when it is closed. An application that
			// answers another question does not hang.
			app := a.application(e.pid, glance)
			defer a.drop(app)
			if role, again := a.attribute(app, "AXRole"); again == nil {
				a.drop(role)
				return nil
			}
		}
		return err
	})
}

// SetText replaces the whole text of an editable element.
func (x *Accessibility) SetText(ctx context.Context, ref, text string) error {
	return x.with(ctx, ref, func(e entry) error {
		if !x.a.settable(e.element, "AXValue") {
			return platform.ErrCannot
		}
		value, err := x.a.attribute(e.element, "AXValue")
		textual := err != nil || x.a.is(value, x.a.stringType) // an empty field may have none
		x.a.drop(value)
		if !textual {
			return platform.ErrCannot
		}
		s := x.a.text(text)
		defer x.a.drop(s)
		return x.a.set(e.element, "AXValue", s)
	})
}

// SetNumber sets the value of a slider and the like.
func (x *Accessibility) SetNumber(ctx context.Context, ref string, value float64) error {
	return x.with(ctx, ref, func(e entry) error {
		if !x.a.settable(e.element, "AXValue") {
			return platform.ErrCannot
		}
		now, err := x.a.attribute(e.element, "AXValue")
		if err != nil {
			return err
		}
		numeric := x.a.is(now, x.a.numberType)
		x.a.drop(now)
		if !numeric {
			return platform.ErrCannot
		}
		n := x.a.numberMake(0, numberDouble, &value)
		defer x.a.drop(n)
		return x.a.set(e.element, "AXValue", n)
	})
}

// Number reads such a value with its bounds; macOS tells no step: 0.
func (x *Accessibility) Number(ctx context.Context, ref string) (value, least, most, step float64, err error) {
	found := make(chan [3]float64, 1)
	err = x.with(ctx, ref, func(e entry) error {
		var n [3]float64
		for i, name := range []string{"AXValue", "AXMinValue", "AXMaxValue"} {
			v, err := x.a.attribute(e.element, name)
			if err != nil {
				return err
			}
			numeric := x.a.is(v, x.a.numberType)
			n[i], _ = x.a.number(v)
			x.a.drop(v)
			if !numeric {
				return platform.ErrCannot
			}
		}
		found <- n
		return nil
	})
	if err != nil {
		return 0, 0, 0, 0, err
	}
	n := <-found
	return n[0], n[1], n[2], 0, nil
}

// Focus returns an element the keyboard.
func (x *Accessibility) Focus(ctx context.Context, ref string) error {
	return x.with(ctx, ref, func(e entry) error { return x.a.set(e.element, "AXFocused", x.a.yes) })
}

// selectOne selects an element, itself or in what holds it.
func (a *api) selectOne(el object, add bool) error {
	if a.settable(el, "AXSelected") && !add {
		if err := a.set(el, "AXSelected", a.yes); !errors.Is(err, platform.ErrCannot) {
			return err
		}
	}
	parent, err := a.attribute(el, "AXParent")
	if err != nil {
		return err
	}
	defer a.drop(parent)
	for _, name := range []string{"AXSelectedRows", "AXSelectedChildren"} {
		if !a.settable(parent, name) {
			continue
		}
		all := []object{}
		if add {
			if now, err := a.attribute(parent, name); err == nil {
				defer a.drop(now)
				all = append(all, a.items(now, maxBranch)...)
			}
		}
		wanted := a.array(append(all, el)...)
		defer a.drop(wanted)
		return a.set(parent, name, wanted)
	}
	return platform.ErrCannot
}

// Select selects an element in its container.
func (x *Accessibility) Select(ctx context.Context, ref string, add bool) error {
	return x.with(ctx, ref, func(e entry) error { return x.a.selectOne(e.element, add) })
}

// Reveal scrolls an element into view.
func (x *Accessibility) Reveal(ctx context.Context, ref string) error {
	return x.with(ctx, ref, func(e entry) error { return x.a.perform(e.element, "AXScrollToVisible") })
}
