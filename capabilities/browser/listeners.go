package browser

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// Which elements listen to presses of the pointer, or take what is dropped, a page script cannot
// see: the listeners are of the page's own world. Chrome returns those of a document all at once.

// heard is what the page script of one document was told of them.
type heard struct {
	mu       sync.Mutex
	document runtime.RemoteObjectID
	told     []cdp.BackendNodeID // in the document's order
	drops    []cdp.BackendNodeID // those of them that take what is dropped
}

// maxHeard bounds the elements of one document that are known to listen: the first
// time each costs a tenth of a millisecond.
const maxHeard = 500

// listensToAll is the number of listeners from which on an element listens to whatever
// happens in it, as a framework does at its root, and not for itself.
const listensToAll = 40

// listening is a question for the listeners of a document on its way.
type listening struct {
	w     world
	asked *devtools.Pending
	first bool // of this document
}

// listen sends the question. A page or frame that hangs is waited for only so long.
func (w world) listen(ctx context.Context) (l listening) {
	h := w.heard
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.document == "" {
		ctx, cancel := context.WithTimeout(ctx, frameWait)
		defer cancel()
		document, err := w.pagesDocument(ctx)
		if err != nil {
			return l
		}
		h.document, h.told, h.drops, l.first = document, nil, nil, true
	}
	l.w, l.asked = w, w.s.Send(ctx, "DOMDebugger.getEventListeners", map[string]any{"objectId": h.document, "depth": -1, "pierce": true})
	return l
}

// pagesDocument returns the document as the page's own world has it, and lets the page
// script forget what it was told. Chrome's page process falls over when it is asked for
// the listeners of a document as another world has it, and its collector runs meanwhile.
func (w world) pagesDocument(ctx context.Context) (runtime.RemoteObjectID, error) {
	const group = "handrail-document"
	defer devtools.Start(context.WithoutCancel(ctx), w.s, runtime.ReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: group})
	ours, err := devtools.Do(ctx, w.s, runtime.Evaluate,
		runtime.EvaluateParams{Expression: inpage.Hear.Call("[[], [], []]", "[]") + ", document",
			ContextID: w.id, ObjectGroup: group, Silent: ptr(true)})
	if err != nil || ours.Result == nil {
		return "", errors.Join(err, devtools.ErrMessage)
	}
	node, err := devtools.Do(ctx, w.s, dom.DescribeNode, dom.DescribeNodeParams{ObjectID: ours.Result.ObjectID})
	if err != nil || node.Node == nil {
		return "", errors.Join(err, devtools.ErrMessage)
	}
	// Without a context named, this is the world of the page itself.
	own, err := devtools.Do(ctx, w.s, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: node.Node.BackendNodeID})
	if err != nil || own.Object == nil {
		return "", errors.Join(err, devtools.ErrMessage)
	}
	return own.Object.ObjectID, nil
}

// hear tells the page script which elements listen now, and reports whether that is
// new to it.
func (l listening) hear(ctx context.Context) (news bool) {
	if l.asked == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, frameWait)
	defer cancel()
	var answer struct {
		Listeners []struct {
			Type string            `json:"type"`
			Node cdp.BackendNodeID `json:"backendNodeId"`
		} `json:"listeners"`
	}
	raw, err := l.asked.Wait(ctx)
	if err != nil || jsonv2.Unmarshal(raw, &answer) != nil {
		return false
	}
	listeners := map[cdp.BackendNodeID]int{}
	for _, x := range answer.Listeners {
		listeners[x.Node]++
	}
	var now, presses, drops []cdp.BackendNodeID
	add := func(list *[]cdp.BackendNodeID, id cdp.BackendNodeID) {
		if n := len(*list); n < maxHeard && (n == 0 || (*list)[n-1] != id) {
			*list = append(*list, id)
		}
	}
	for _, x := range answer.Listeners {
		kind := &presses
		switch x.Type {
		case "click", "dblclick", "contextmenu", "mousedown", "mouseup", "pointerdown", "pointerup":
		case "dragover", "drop":
			kind = &drops
		default:
			continue
		}
		if listeners[x.Node] < listensToAll {
			add(kind, x.Node)
			add(&now, x.Node)
		}
	}
	w, h := l.w, l.w.heard
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Equal(now, h.told) && slices.Equal(drops, h.drops) {
		return false
	}
	const group = "handrail-listeners"
	var come []cdp.BackendNodeID
	var nodes []devtools.Reply[dom.ResolveNodeResult]
	for _, id := range now {
		if !slices.Contains(h.told, id) {
			come = append(come, id)
			nodes = append(nodes,
				devtools.Start(ctx, w.s, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: id, ExecutionContextID: w.id, ObjectGroup: group}))
		}
	}
	ids := come[:0]
	var elements []*runtime.CallArgument
	for i, id := range come {
		// An element of a foreign frame is for that one's page script.
		if res, err := nodes[i].Get(ctx); err == nil && res.Object != nil && res.Object.ObjectID != "" {
			ids = append(ids, id)
			elements = append(elements, &runtime.CallArgument{ObjectID: res.Object.ObjectID})
		}
	}
	said, _ := jsonv2.Marshal([3][]cdp.BackendNodeID{presses, drops, ids})
	res, err := devtools.Do(ctx, w.s, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: "function(...all) { " + inpage.Hear.Call(string(said), "all") + "; }", ExecutionContextID: w.id, Arguments: elements,
		Silent: ptr(true),
	})
	if h.told, h.drops = now, drops; err != nil || res.ExceptionDetails != nil {
		h.document = "" // it is told all of it the next time
	}
	devtools.Start(ctx, w.s, runtime.ReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: group})
	return true
}
