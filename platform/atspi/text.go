package atspi

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// maxText is the most characters that Text reads.
const maxText = 1 << 20

// Text reads a field's text, as far as max characters. Protected fields have none.
func (a *Accessibility) Text(ctx context.Context, ref string, max int) (string, error) {
	t, err := a.target(ctx, ref)
	if err != nil {
		return "", err
	}
	state, role := call(t.at, ifAccessible+".GetState"), call(t.at, ifAccessible+".GetRole")
	count, parent := property(t.at, ifText, "CharacterCount"), property(t.at, ifAccessible, "Parent")
	if err := t.ask(ctx, state, role, count, parent); err != nil {
		return "", err
	}
	if err := t.alive(ctx, state); err != nil {
		return "", err
	}
	if secret, err := t.secret(ctx, role, parent); err != nil || secret {
		if err == nil {
			err = platform.ErrCannot
		}
		return "", err
	}
	if count.err != nil {
		return "", t.refused(ctx, count.err)
	}
	n := min(max, count.number(), maxText)
	if n <= 0 {
		return "", nil
	}
	text, shows := call(t.at, ifText+".GetText", int32(0), int32(n)), asShown(t.at)
	questions := []*question{text}
	if p := t.s.owner(t.at.bus); p == nil || p.kind == gtk4 {
		questions = append(questions, shows)
	}
	if err := t.ask(ctx, questions...); err != nil {
		return "", err
	}
	if text.err != nil {
		return "", t.refused(ctx, text.err)
	}
	if masked(text.text()) || differs(text.text(), shows.text()) {
		return "", platform.ErrCannot
	}
	return capabilities.Clip(text.text(), 4*n), nil
}

// secret reports that the element is a protected field or a part of one.
func (t target) secret(ctx context.Context, role, parent *question) (bool, error) {
	for depth := 0; depth < 3; depth++ {
		if role.number() == rolePassword {
			return true, nil
		}
		in, ok := decodePlace(parent.first())
		if !ok {
			return false, nil
		}
		role, parent = call(in, ifAccessible+".GetRole"), property(in, ifAccessible, "Parent")
		if err := t.ask(ctx, role, parent); err != nil {
			return false, err
		}
	}
	return role.number() == rolePassword, nil
}

// SetText replaces the whole text of an editable element. Whether it took is for
// the caller to see: applications may bend what they are given.
func (a *Accessibility) SetText(ctx context.Context, ref, text string) error {
	t, err := a.target(ctx, ref)
	if err != nil {
		return err
	}
	state, count := call(t.at, ifAccessible+".GetState"), call(t.at, ifAccessible+".GetInterfaces")
	if err := t.ask(ctx, state, count); err != nil {
		return err
	}
	if err := t.alive(ctx, state); err != nil {
		return err
	}
	states := stateBits(state.first())
	if ifaceBits(count.first())&hasEditable == 0 || states&stReadOnly != 0 || states&(stEnabled|stSensitive) == 0 {
		return platform.ErrCannot
	}
	return t.start(ctx, call(t.at, ifEditable+".SetTextContents", text))
}
