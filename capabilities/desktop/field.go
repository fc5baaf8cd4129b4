package desktop

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// readMost is how much of a field is read back, in characters.
const readMost = 1 << 17

// numbered roles have a number that can be set.
var numbered = []string{"slider", "spinbutton", "scrollbar", "splitter", "progressbar"}

// setValue returns the element a whole new value: a number, a choice or a text.
func (c *deed) setValue(ctx context.Context, value string) error {
	c.quiet = true
	if has(numbered, c.e.Role) {
		number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err == nil && !math.IsNaN(number) && !math.IsInf(number, 0) {
			if err := c.setNumber(ctx, number); !cannot(err) {
				return err
			}
		} else if c.e.Role != "spinbutton" {
			return capabilities.Errorf(capabilities.CodeInvalidArguments, "The value of a %s is a number.", c.e.Role)
		}
	}
	switch c.e.Role {
	case "listbox", "list", "tablist", "menu", "radio":
		return c.choose(ctx, value)
	case "combobox":
		if !is(&c.e, "editable") {
			return c.choose(ctx, value)
		}
	case "button", "togglebutton", "checkbox", "switch", "link", "menuitem", "tab", "image", "label", "heading", "progressbar", "separator",
		"scrollbar":
		// Keys typed over one of these press it, or go to whatever has the focus.
		if !is(&c.e, "editable") {
			return unsupported("A %s holds no text.", c.e.Role)
		}
	}
	return c.setText(ctx, value)
}

// setNumber sets a number and reads it back.
func (c *deed) setNumber(ctx context.Context, number float64) error {
	acc := c.d.Accessibility
	now, least, most, _, err := acc.Number(ctx, c.e.Ref)
	if err != nil {
		return err
	}
	if least < most && (number < least || number > most) {
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "The value goes from %g to %g.", least, most).
			WithDetails(map[string]float64{"minimum": least, "maximum": most})
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b)) }
	if near(now, number) {
		return c.done("it had that value")
	}
	read := now
	err = c.try(ctx, func(*platform.Element) string {
		if read, _, _, _, err = acc.Number(ctx, c.e.Ref); err == nil && near(read, number) {
			return "the value was read back"
		}
		return ""
	}, func(ctx context.Context) error { return acc.SetNumber(ctx, c.e.Ref, number) })
	if err == nil && c.verdict.effect != capabilities.EffectConfirmed && read != now {
		c.verdict = verdict{capabilities.EffectPartial, "the value changed, but to another one: " + strconv.FormatFloat(read, 'g', 6, 64)}
	}
	return err
}

// protected reports whether a field hides what it holds.
func (c *deed) protected() bool { return is(&c.e, "protected") }

// read returns what the field holds now; ok is false where nobody may know.
func (c *deed) read(ctx context.Context) (text string, ok bool) {
	if c.protected() {
		return "", false
	}
	text, err := c.d.Accessibility.Text(ctx, c.e.Ref, readMost)
	return text, err == nil
}

// same compares what a field holds with what it should; line ends and the line
// end that some editors add do not count.
func sameText(has, wants string) bool {
	plain := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
	has, wants = plain(has), plain(wants)
	return has == wants || has == wants+"\n"
}

// holdsText is the goal that the field holds text.
func (c *deed) holdsText(ctx context.Context, so func(has string) bool) func(*platform.Element) string {
	return func(*platform.Element) string {
		if has, ok := c.read(ctx); ok && so(has) {
			return "what the field holds was read back exactly"
		}
		return ""
	}
}

// editable reports whether text can be put into the element at all.
func (c *deed) editable() error {
	if is(&c.e, "readonly") {
		return unsupported("The field is read-only.")
	}
	return nil
}

// setText replaces all of a field's text: at once by itself, or, where its
// application does not take that, by selecting all and typing.
func (c *deed) setText(ctx context.Context, text string) error {
	c.quiet = true
	if err := c.editable(); err != nil {
		return err
	}
	if has, ok := c.read(ctx); ok && has == text {
		return c.done("it held that already")
	}
	goal := c.holdsText(ctx, func(has string) bool { return sameText(has, text) })
	err := c.try(ctx, goal, func(ctx context.Context) error { return c.d.Accessibility.SetText(ctx, c.e.Ref, text) })
	switch {
	case err == nil && c.verdict.effect == capabilities.EffectConfirmed:
		return nil
	case err == nil && c.unread(ctx):
		return nil
	case err != nil && !cannot(err):
		return err
	}
	if !is(&c.e, "editable") && !has(written, c.e.Role) && !is(&c.e, "focusable") {
		return unsupported("The element takes no text.")
	}
	return c.keys(ctx, goal, func(ctx context.Context) error {
		if err := chord(ctx, c.in, []string{"Control", "a"}, 1, 0); err != nil {
			return err
		}
		if text == "" {
			return chord(ctx, c.in, []string{"Delete"}, 1, 0)
		}
		return c.typing(ctx, text)
	})
}

// unread settles the verdict of a field that cannot be read back, such as one for
// a password: what was seen of it, not more.
func (c *deed) unread(ctx context.Context) bool {
	if _, ok := c.read(ctx); ok {
		return false
	}
	c.verdict = verdict{capabilities.EffectUnverifiable, "the application took it; what the field holds cannot be read back"}
	return true
}

// typeInto adds text at the end of a field (in a terminal, at its cursor). A field
// that is empty is given it at once, unless the text has keys in it that do
// something; else it is typed.
func (c *deed) typeInto(ctx context.Context, text string) error {
	c.quiet = true
	if err := c.editable(); err != nil {
		return err
	}
	before, known := c.read(ctx)
	keys := strings.ContainsAny(text, "\t") || strings.Contains(text, "\n") && !is(&c.e, "multiline")
	if known && before == "" && !keys && is(&c.e, "editable") && c.e.Role != "terminal" {
		goal := c.holdsText(ctx, func(has string) bool { return sameText(has, text) })
		err := c.try(ctx, goal, func(ctx context.Context) error { return c.d.Accessibility.SetText(ctx, c.e.Ref, text) })
		if err == nil && c.verdict.effect == capabilities.EffectConfirmed {
			return nil
		}
		if err != nil && !cannot(err) {
			return err
		}
		if has, ok := c.read(ctx); !ok || has != "" {
			return nil // it took something; typing would double it
		}
	}
	goal := c.holdsText(ctx, func(has string) bool { return known && inserted(before, has, text) })
	atCaret := known && before == "" || c.e.Role == "terminal"
	return c.keys(ctx, goal, func(ctx context.Context) error {
		if !atCaret {
			end := []string{"End"}
			if is(&c.e, "multiline") {
				end = []string{"Control", "End"}
			}
			if err := chord(ctx, c.in, end, 1, 0); err != nil {
				return err
			}
		}
		return c.typing(ctx, text)
	})
}

// focused reports whether the element had the keyboard before the act.
func (c *deed) focused() bool {
	return is(&c.e, "focused") && (c.e.Window == "" || focusedIn(c.windows, c.e.Window))
}

// inserted reports whether after is before with text put in somewhere, or in place
// of a part that was selected.
func inserted(before, after, text string) bool {
	if at := strings.Index(after, text); at >= 0 && len(after) == len(before)+len(text) {
		for ; at >= 0; at = next(after, text, at) {
			if after[:at]+after[at+len(text):] == before {
				return true
			}
		}
		return false
	}
	for at := strings.Index(after, text); at >= 0; at = next(after, text, at) {
		head, tail := after[:at], after[at+len(text):]
		if strings.HasPrefix(before, head) && strings.HasSuffix(before, tail) && len(head)+len(tail) <= len(before) {
			return true
		}
	}
	return false
}

// next returns the place of the next occurrence after at; -1 if there is none.
func next(s, of string, at int) int {
	i := strings.Index(s[at+1:], of)
	if i < 0 {
		return -1
	}
	return at + 1 + i
}

// keys returns the field the focus, has fn type, and reads back.
func (c *deed) keys(ctx context.Context, goal func(*platform.Element) string, fn func(ctx context.Context) error) error {
	if c.in == nil {
		return c.noInput()
	}
	before := c.windows
	if err := c.takeFocus(ctx); err != nil {
		return err
	}
	focused, err := mayType(ctx, c.d)
	if err != nil {
		return err
	}
	if c.e.Window != "" && focused.Ref != "" && focused.Ref != c.e.Window && focused.PID != c.e.PID {
		return capabilities.Errorf(capabilities.CodeElementObscured, "Another window keeps the focus; nothing was typed.").
			WithHint("Close what it asks, or activate the window with act first.")
	}
	c.keep = focusedIn(before, c.e.Window) // within its own window the focus stays in the field
	c.seen.forget()
	if err := fn(ctx); err != nil {
		return err
	}
	c.route = routeInput
	if c.protected() {
		goal = nil
	}
	c.verdict, err = c.seen.await(ctx, goal, nil)
	if err == nil && c.verdict.effect == capabilities.EffectConfirmed && goal == nil {
		c.verdict = verdict{capabilities.EffectPartial, "the field changed; what it holds cannot be read back"}
	}
	return err
}

// takeFocus returns the element the focus, by itself or by a click.
func (c *deed) takeFocus(ctx context.Context) error {
	if c.focused() {
		return nil
	}
	err := c.focusNative(ctx)
	if !cannot(err) {
		return err
	}
	if c.e.Bounds.Empty() {
		return unsupported("The field does not take the focus.")
	}
	return c.pointer(ctx, platform.ButtonLeft, 1)
}

// typing types text and says how far it came, never what it is.
func (c *deed) typing(ctx context.Context, text string) error {
	typed, err := c.in.Type(ctx, text)
	switch {
	case errors.Is(err, platform.ErrUntypable):
		return capabilities.Wrap(capabilities.CodeTextUntypable, err,
			"The character after the first "+strconv.Itoa(typed)+" cannot be typed on this system.").
			WithDetails(untyped{typed})
	case err == nil && typed != utf8.RuneCountInString(text):
		return capabilities.Errorf(capabilities.CodeExecutionFailed, "Only the first %d characters were typed.", typed)
	}
	return err
}
