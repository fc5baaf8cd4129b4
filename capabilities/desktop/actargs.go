package desktop

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
)

// kindFields are the fields of an action that go with only some kinds.
var kindFields = map[string][]string{
	"to": {"drag"}, "x": {"drag", "move"}, "y": {"drag", "move"}, "frame_id": {"drag", "move"}, "width": {"resize"}, "height": {"resize"},
	"direction": {"scroll"}, "lines": {"scroll"}, "pages": {"scroll"}, "into_view": {"scroll"}, "value": {"set_value", "select"},
	"text": {"type"}, "path": {"menu"}, "app": {"launch"}, "args": {"launch"},
}

func (a *action) given() []string {
	var list []string
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"to", a.To != ""}, {"x", a.X != nil}, {"y", a.Y != nil}, {"frame_id", a.FrameID != ""}, {"width", a.Width != 0},
		{"height", a.Height != 0}, {"direction", a.Direction != ""}, {"lines", a.Lines != 0}, {"pages", a.Pages != 0}, {"into_view", a.IntoView},
		{"value", a.Value != nil}, {"text", a.Text != nil}, {"path", len(a.Path) > 0}, {"app", a.App != ""}, {"args", len(a.Args) > 0},
	} {
		if f.is {
			list = append(list, f.name)
		}
	}
	return list
}

// check refuses what the schema cannot, and reads the target.
func (a *actArgs) check() (*selector.Selector, error) {
	bad := func(hint, format string, args ...any) error {
		return capabilities.Errorf(capabilities.CodeInvalidArguments, format, args...).WithHint(hint)
	}
	for _, field := range a.Action.given() {
		if kinds := kindFields[field]; !has(kinds, a.Action.Kind) {
			return nil, bad("Leave it out.", "/action/%s goes with %s only.", field, strings.Join(kinds, " and "))
		}
	}
	x := &a.Action
	switch kind := x.Kind; {
	case kind == "drag" && (x.To == "") == (x.X == nil || x.Y == nil):
		return nil, bad("Give /action/to (a selector), or /action/x and /action/y.", "drag needs where to: either to, or x and y.")
	case kind == "move" && (x.X == nil || x.Y == nil):
		return nil, bad("Give where the window's upper left corner goes.", "move needs x and y.")
	case kind == "resize" && (x.Width == 0 || x.Height == 0):
		return nil, bad("Give the window's new size, with its frame.", "resize needs width and height.")
	case kind == "set_value" && x.Value == nil:
		return nil, bad("Give /action/value; clear empties a field.", "set_value needs value.")
	case kind == "type" && (x.Text == nil || *x.Text == ""):
		return nil, bad("Give /action/text.", "type needs text.")
	case kind == "menu" && len(x.Path) == 0:
		return nil, bad(`Give names from the menu bar on, such as ["File", "Save As"].`, "menu needs path.")
	case kind == "launch" && x.App == "":
		return nil, bad("Give the name of a program or of an entry of the applications menu.", "launch needs app.")
	case kind == "launch" && len(a.Target) > 0:
		return nil, bad("Leave it out.", "launch takes no target.")
	case kind == "scroll" && !x.IntoView && x.Lines == 0 && x.Pages == 0:
		return nil, bad("Give /action/lines or /action/pages, or into_view.", "scroll needs how far.")
	case kind == "scroll" && (x.Lines > 1000 || x.Pages > 100):
		return nil, bad("Scroll at most 1000 lines or 100 pages at once.", "That is too far.")
	case len(a.Target) == 0 && kind != "launch" && kind != "menu":
		return nil, bad("Give a selector, such as a ref from query.", "%s needs target.", kind)
	}
	if len(a.Target) == 0 {
		return nil, nil
	}
	sel, err := selector.Decode(a.Target)
	if err != nil {
		return nil, err
	}
	if sel.OCR != nil &&
		!has([]string{"click", "double_click", "right_click", "middle_click", "hover", "drag", "scroll", "show_menu"}, x.Kind) {
		return nil, bad("Click it, or find the element with another selector.",
			"An element that is only seen as text cannot be the target of %s.", x.Kind)
	}
	return sel, nil
}
