package desktop

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// didWithin bounds the second look at the field, once the typing is over; a count is not
// worth more of a call's time.
const didWithin = 100 * time.Millisecond

// plainRoles are the roles of elements whose text's length tells nothing that was hidden:
// whoever typed can read it there. A terminal is none: it asks for passwords unseen.
var plainRoles = []string{"textbox", "combobox", "spinbutton", "document"}

// typing finds out, beside the typing, whether its count may be kept.
type typing struct {
	h      *call
	d      *platform.Desktop
	w      platform.Window
	text   string
	cancel context.CancelFunc
	//lint:ignore containedctx one call, as a value
	ctx     context.Context
	earlier <-chan platform.Element
}

// countTyped begins to look at the field that takes text; call done, or close.
func (h *call) countTyped(ctx context.Context, d *platform.Desktop, w platform.Window, text string) *typing {
	t := &typing{h: h, d: d, w: w, text: text}
	t.ctx, t.cancel = context.WithTimeout(ctx, describeWithin)
	t.earlier = t.focused()
	return t
}

func (t *typing) close() { t.cancel() }

// focused returns what has the focus, if its application says so in time.
func (t *typing) focused() <-chan platform.Element {
	seen := make(chan platform.Element, 1)
	if t.d.Accessibility == nil || t.w.PID == 0 || t.w.Own || strings.ContainsFunc(t.text, unicode.IsControl) {
		seen <- platform.Element{} // Tab and Enter lead on into other fields, a password's too
		return seen
	}
	go func() {
		e, _ := focusedElement(t.ctx, t.d, t.w)
		seen <- e
	}()
	return seen
}

// done says what was done: into which application, and how many characters, if the same
// field, which hides nothing, had the focus before and after.
func (t *typing) done() *capabilities.Did {
	did := &capabilities.Did{App: t.w.App}
	late := time.NewTimer(didWithin)
	defer late.Stop()
	var fields [2]platform.Element
	for i, look := range []<-chan platform.Element{t.earlier, t.focused()} {
		select {
		case fields[i] = <-look:
		case <-late.C:
			return did
		}
	}
	if a, b := &fields[0], &fields[1]; a.Ref != "" && a.Ref == b.Ref && plain(a) && plain(b) {
		did.Typed = utf8.RuneCountInString(t.text)
	}
	return did
}

func plain(e *platform.Element) bool {
	return slices.Contains(plainRoles, e.Role) && !is(e, "protected")
}
