package browser

import (
	"context"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// maxSuspects bounds the elements that are asked about at one time; page/closed.js
// keeps to it.
const maxSuspects = 200

// openShadows asks Chrome which of the first n suspects in a document have a closed
// shadow root, and makes those known to the page script. It returns their number. A
// page without suspects is not asked.
func (w world) openShadows(ctx context.Context, n int) (found int) {
	if n == 0 {
		return 0
	}
	list, group, release := w.strangers(ctx, inpage.SuspectAt, min(n, maxSuspects))
	defer release()
	var roots []devtools.Reply[dom.ResolveNodeResult]
	for _, s := range list {
		if s.id == "" {
			continue
		}
		res, err := s.node.Get(ctx)
		if err != nil || res.Node == nil {
			continue
		}
		for _, root := range res.Node.ShadowRoots {
			if root.ShadowRootType == cdp.ShadowRootTypeClosed {
				roots = append(roots, devtools.Start(ctx, w.s, dom.ResolveNode, dom.ResolveNodeParams{
					BackendNodeID: root.BackendNodeID, ExecutionContextID: w.id, ObjectGroup: group,
				}))
			}
		}
	}
	var told []*devtools.Pending
	for _, r := range roots {
		res, err := r.Get(ctx)
		if err != nil || res.Object == nil {
			continue
		}
		told = append(told, devtools.Start(ctx, w.s, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
			FunctionDeclaration: "function() { " + inpage.OpenUp.Call("this") + "; }", ObjectID: res.Object.ObjectID, Silent: ptr(true),
		}).Pending)
	}
	for _, p := range told {
		if _, err := p.Wait(ctx); err == nil {
			found++
		}
	}
	return found
}

// searchShadows looks for closed shadow roots everywhere in a document, one inside
// the other, and reports whether there were new ones.
func (t *tab) searchShadows(ctx context.Context, f *frame) (found bool) {
	for range maxShadowDepth {
		var answer struct {
			Suspects int `json:"suspects"`
		}
		w, err := t.askAny(ctx, f, inpage.SuspectsIn, nil, &answer)
		if err != nil || w.openShadows(ctx, answer.Suspects) == 0 {
			return found
		}
		found = true
	}
	return found
}

// maxShadowDepth bounds closed roots inside closed roots.
const maxShadowDepth = 8
