package browser

import (
	"context"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/outline"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// maxCustoms bounds the elements that are asked about for one outline; page/internals.js
// keeps to it.
const maxCustoms = 100

// internal is what an element is by its ElementInternals, as page/internals.js takes it.
type internal struct {
	Role   string            `json:"role"`
	States map[string]string `json:"states,omitempty"` // by ARIA's names, without aria-
	Value  string            `json:"value,omitempty"`
}

// ariaNames are the states that an outline shows, by Chrome's names of them.
var ariaNames = map[string]string{
	"checked": "checked", "disabled": "disabled", "expanded": "expanded", "pressed": "pressed", "selected": "selected", "required": "required",
	"readonly": "readonly", "invalid": "invalid", "hasPopup": "haspopup", "level": "level", "multiselectable": "multiselectable",
	"modal": "modal", "valuemin": "valuemin", "valuemax": "valuemax",
}

// askInternals asks Chrome's accessibility tree what the first n customs of an outline are,
// and reports whether that is news to the page script. A page without such elements is not
// asked. Chrome keeps that tree only for as long as it is asked.
func (w world) askInternals(ctx context.Context, n int) (news bool) {
	if n == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, frameWait)
	defer cancel()
	list, _, release := w.strangers(ctx, inpage.CustomAt, min(n, maxCustoms))
	defer release()
	devtools.Start(ctx, w.s, accessibility.Enable, cdp.Empty{})
	defer devtools.Start(context.WithoutCancel(ctx), w.s, accessibility.Disable, cdp.Empty{})
	asked := make([]devtools.Reply[accessibility.GetPartialAXTreeResult], len(list))
	for i, s := range list {
		if s.id != "" {
			asked[i] = devtools.Start(ctx, w.s, accessibility.GetPartialAXTree,
				accessibility.GetPartialAXTreeParams{ObjectID: s.id, FetchRelatives: ptr(false)})
		}
	}
	said := make([]*internal, len(list))
	for i, s := range list {
		if s.id == "" {
			continue
		}
		res, err := asked[i].Get(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return false
			}
			continue
		}
		if len(res.Nodes) > 0 && !res.Nodes[0].Ignored {
			said[i] = internalOf(res.Nodes[0])
		}
	}
	var answer struct {
		News bool `json:"news"`
	}
	return w.put(ctx, inpage.TellInternals, said).get(ctx, &answer) == nil && answer.News
}

// internalOf reads a node of the tree; nil: it has no role.
func internalOf(n *accessibility.Node) *internal {
	role := axText(n.Role)
	if role == "" {
		return nil
	}
	is := &internal{Role: role, Value: axText(n.Value), States: map[string]string{}}
	for _, p := range n.Properties {
		if name, value := ariaNames[string(p.Name)], axText(p.Value); name != "" && value != "" {
			is.States[name] = value
		}
	}
	return is
}

// axText returns a value of the tree as text; a page chose it, so it is bounded.
func axText(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	text := strings.TrimSpace(string(v.Value))
	if strings.HasPrefix(text, `"`) {
		text = outline.Unquote(text)
	}
	return clipText(text, 300)
}
