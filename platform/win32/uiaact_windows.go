package win32

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/handrail-dev/handrail/platform"
)

// pattern asks an element for one of its abilities; release it. ErrCannot if it
// has not got it.
func (o object) pattern(id uintptr) (object, error) {
	as := guid(patternIDs[id])
	var p object
	if err := o.call(elementPattern, id, uintptr(unsafe.Pointer(&as)), uintptr(unsafe.Pointer(&p))); err != nil {
		return 0, err
	}
	if p == 0 {
		return 0, platform.ErrCannot
	}
	return p, nil
}

// order calls a method without arguments of one of an element's abilities.
func (o object) order(id uintptr, m int) error {
	p, err := o.pattern(id)
	if err != nil {
		return err
	}
	defer p.release()
	return p.call(m)
}

// fresh reads one element anew.
func (a *Accessibility) fresh(e entry) (facts, error) {
	var now object
	if err := e.element.call(elementUpdatedCache, uintptr(a.one), uintptr(unsafe.Pointer(&now))); err != nil {
		return facts{}, err
	}
	if now == 0 {
		return facts{}, platform.ErrGone
	}
	defer now.release()
	f, _ := factsOf(now)
	f.pid, f.active = e.pid, e.top && windows.GetForegroundWindow() == e.hwnd
	return f, nil
}

// Element reads one element anew. Its Parent is -1.
func (a *Accessibility) Element(ctx context.Context, ref string) (platform.Element, error) {
	if pid, ok := appOf(ref); ok {
		all, apps, err := frontiers(pid)
		if err != nil || len(all) == 0 {
			return platform.Element{}, errors.Join(platform.ErrGone, err)
		}
		return application(pid, apps[pid]), nil
	}
	found := make(chan platform.Element, 1) // who was given up writes to nobody
	err := a.with(ctx, ref, func(e entry) error {
		f, err := a.fresh(e)
		if err == nil {
			found <- f.element(ref, -1, programOf(uint32(e.pid)), windowRef(e.hwnd), true)
		}
		return err
	})
	if err != nil {
		return platform.Element{}, err
	}
	return <-found, nil
}

// windowRef names the listed window that h is, or is owned by.
func windowRef(h windows.HWND) string {
	for n := 0; h != 0 && n < maxDepth; n++ {
		if _, ok := describe(h, map[uint32]string{}); ok {
			return refOf(h)
		}
		const owner = 4 // GW_OWNER
		o, _, _ := procGetWindow.Call(uintptr(h), owner)
		h = windows.HWND(o)
	}
	return ""
}

// Text reads up to most characters of a field's text; "" of a protected one.
func (a *Accessibility) Text(ctx context.Context, ref string, most int) (string, error) {
	found := make(chan string, 1)
	err := a.with(ctx, ref, func(e entry) error {
		f, err := a.fresh(e)
		if err != nil {
			return err
		}
		if f.password {
			found <- ""
			return nil
		}
		text, err := documentText(e.element, most)
		if errors.Is(err, platform.ErrCannot) && f.valued {
			text, err = valueText(e.element, most)
		}
		if errors.Is(err, platform.ErrCannot) && f.role() == "label" {
			text, err = f.name, nil
		}
		found <- text
		return err
	})
	if err != nil {
		return "", err
	}
	runes := []rune(<-found)
	return string(runes[:min(len(runes), max(0, most))]), nil
}

// documentText reads the text of what has any.
func documentText(el object, most int) (string, error) {
	p, err := el.pattern(patternText)
	if err != nil {
		return "", err
	}
	defer p.release()
	var all object
	if err := p.call(textDocument, uintptr(unsafe.Pointer(&all))); err != nil {
		return "", err
	}
	if all == 0 {
		return "", platform.ErrCannot
	}
	defer all.release()
	units := min(max(0, most), math.MaxInt32/2) * 2 // a character has two at most
	var b uintptr
	if err := all.call(textRangeText, uintptr(units), uintptr(unsafe.Pointer(&b))); err != nil {
		return "", err
	}
	return taken(b, units), nil
}

// valueText reads the whole value of a field.
func valueText(el object, most int) (string, error) {
	p, err := el.pattern(patternValue)
	if err != nil {
		return "", err
	}
	defer p.release()
	var b uintptr
	if err := p.call(valueValue, uintptr(unsafe.Pointer(&b))); err != nil {
		return "", err
	}
	return taken(b, min(max(0, most), math.MaxInt32/2)*2), nil
}

// Do has an element do one of its actions, or Press, the main one.
func (a *Accessibility) Do(ctx context.Context, ref, action string) error {
	err := a.with(ctx, ref, func(e entry) error {
		el := e.element
		switch action {
		case platform.Press, "click":
			return press(el)
		case "toggle":
			return el.order(patternToggle, toggleToggle)
		case "expand":
			return el.order(patternExpand, expandExpand)
		case "collapse":
			return el.order(patternExpand, expandCollapse)
		case "select":
			return el.order(patternSelectionItem, selectSelect)
		case "focus":
			return el.call(elementSetFocus)
		}
		return platform.ErrCannot
	})
	if errors.Is(err, platform.ErrHung) {
		// Some applications answer only when the dialog that this opened is closed.
		if e, look := a.look(ref); look == nil {
			if is, _, _ := procIsHungAppWindow.Call(uintptr(e.hwnd)); is == 0 {
				return nil
			}
		}
	}
	return err
}

// press does what a click does: the first of these ways that the element has.
func press(el object) error {
	for _, way := range []func() error{
		func() error { return el.order(patternInvoke, invokeInvoke) },
		func() error { return el.order(patternToggle, toggleToggle) },
		func() error { return pressExpand(el) },
		func() error { return el.order(patternSelectionItem, selectSelect) },
		func() error { return pressLegacy(el) },
	} {
		if err := way(); !errors.Is(err, platform.ErrCannot) {
			return err
		}
	}
	return platform.ErrCannot
}

// pressExpand opens what is closed and closes what is open.
func pressExpand(el object) error {
	p, err := el.pattern(patternExpand)
	if err != nil {
		return err
	}
	defer p.release()
	var state int32
	if err := p.call(expandState, uintptr(unsafe.Pointer(&state))); err != nil {
		return err
	}
	switch state {
	case stateLeaf:
		return platform.ErrCannot
	case stateCollapsed:
		return p.call(expandExpand)
	}
	return p.call(expandCollapse)
}

// pressLegacy does the default action of an old application's element, if it
// names one.
func pressLegacy(el object) error {
	p, err := el.pattern(patternLegacy)
	if err != nil {
		return err
	}
	defer p.release()
	var b uintptr
	if err := p.call(legacyDefaultName, uintptr(unsafe.Pointer(&b))); err != nil {
		return err
	}
	if taken(b, maxText) == "" {
		return platform.ErrCannot
	}
	return p.call(legacyDefault)
}

// SetText replaces the whole text of an editable element.
func (a *Accessibility) SetText(ctx context.Context, ref, text string) error {
	return a.with(ctx, ref, func(e entry) error {
		f, err := a.fresh(e)
		if err != nil {
			return err
		}
		if f.valued && f.readonly {
			return platform.ErrCannot
		}
		return setText(e.element, text)
	})
}

func setText(el object, text string) error {
	p, err := el.pattern(patternValue)
	m := valueSet
	if errors.Is(err, platform.ErrCannot) {
		p, err = el.pattern(patternLegacy)
		m = legacySet
	}
	if err != nil {
		return err
	}
	defer p.release()
	return withText(text, func(b uintptr) error { return p.call(m, b) })
}

// SetNumber sets the value of a slider and the like.
func (a *Accessibility) SetNumber(ctx context.Context, ref string, value float64) error {
	return a.with(ctx, ref, func(e entry) error {
		p, err := e.element.pattern(patternRange)
		if err != nil {
			return err
		}
		defer p.release()
		var fixed int32
		if err := p.call(rangeReadOnly, uintptr(unsafe.Pointer(&fixed))); err != nil {
			return err
		}
		if fixed != 0 {
			return platform.ErrCannot
		}
		if runtime.GOARCH != "amd64" {
			// Go hands no fractions to a function of Windows' here: they would go in
			// registers that it does not set.
			return setText(e.element, strconv.FormatFloat(value, 'f', -1, 64))
		}
		return p.call(rangeSet, uintptr(math.Float64bits(value)))
	})
}

// Number reads such a value with its bounds and step.
func (a *Accessibility) Number(ctx context.Context, ref string) (value, least, most, step float64, err error) {
	found := make(chan [4]float64, 1)
	err = a.with(ctx, ref, func(e entry) error {
		p, err := e.element.pattern(patternRange)
		if err != nil {
			return err
		}
		defer p.release()
		var n [4]float64
		for i, m := range []int{rangeValue, rangeLeast, rangeMost, rangeStep} {
			if err := p.call(m, uintptr(unsafe.Pointer(&n[i]))); err != nil {
				return err
			}
		}
		found <- n
		return nil
	})
	if err != nil {
		return 0, 0, 0, 0, err
	}
	n := <-found
	return n[0], n[1], n[2], n[3], nil
}

// Focus returns an element the keyboard.
func (a *Accessibility) Focus(ctx context.Context, ref string) error {
	return a.with(ctx, ref, func(e entry) error { return e.element.call(elementSetFocus) })
}

// Select selects an element in its container.
func (a *Accessibility) Select(ctx context.Context, ref string, add bool) error {
	m := selectSelect
	if add {
		m = selectAdd
	}
	return a.with(ctx, ref, func(e entry) error { return e.element.order(patternSelectionItem, m) })
}

// Reveal scrolls an element into view.
func (a *Accessibility) Reveal(ctx context.Context, ref string) error {
	return a.with(ctx, ref, func(e entry) error { return e.element.order(patternScrollItem, revealReveal) })
}
