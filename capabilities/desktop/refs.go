package desktop

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

// maxRefs bounds the table; the oldest go first.
const maxRefs = 16384

// refTable gives elements short refs ("e12") that models copy without error, and
// keeps them for the node's life. It remembers what each one meant, so that a ref
// goes on to mean a button that its application made anew.
type refTable struct {
	mu    sync.Mutex
	next  int
	known map[string]*known // by short ref
	short map[string]string // by the platform's ref
	ring  []string          // short ones, oldest first
}

// known is what an element was when it was last seen.
type known struct {
	ref, role, name, window string
	pid                     int
}

func newRefTable() *refTable {
	return &refTable{known: map[string]*known{}, short: map[string]string{}}
}

// name returns the element's short ref, made now if it has none.
func (t *refTable) name(e platform.Element) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := known{e.Ref, e.Role, e.Name, e.Window, e.PID}
	if s, ok := t.short[e.Ref]; ok {
		if e.Window == "" {
			now.window = t.known[s].window
		}
		*t.known[s] = now
		return s
	}
	t.next++
	s := "e" + strconv.Itoa(t.next)
	t.short[e.Ref], t.known[s] = s, &now
	t.ring = append(t.ring, s)
	if len(t.ring) > maxRefs {
		oldest := t.ring[0]
		if k := t.known[oldest]; t.short[k.ref] == oldest {
			delete(t.short, k.ref)
		}
		delete(t.known, oldest)
		t.ring = t.ring[1:]
	}
	return s
}

// full returns the platform's ref for a short one; others pass as they are.
func (t *refTable) full(ref string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k, ok := t.known[ref]; ok {
		return k.ref
	}
	return ref
}

// meant tells what a ref of either kind stood for.
func (t *refTable) meant(ref string) (known, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.short[ref]; ok {
		ref = s
	}
	if k, ok := t.known[ref]; ok {
		return *k, true
	}
	return known{}, false
}

// renew has a short ref mean e from now on.
func (t *refTable) renew(old string, e platform.Element) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.short[old]
	if !ok {
		return
	}
	delete(t.short, old)
	if _, taken := t.short[e.Ref]; !taken {
		t.short[e.Ref] = s
	}
	*t.known[s] = known{e.Ref, e.Role, e.Name, e.Window, e.PID}
}

// errOldRef says that a ref means nothing any more.
var errOldRef = &capabilities.Error{Code: capabilities.CodeStaleRef, Message: "The element behind this ref is gone.",
	Hint: "Find it anew with query or a snapshot."}

// element reads the element of a ref as it is now. If the application made it
// anew, the one with its role and name in the same window is meant, if there is
// just one.
func (h *call) element(ctx context.Context, d *platform.Desktop, ref string) (platform.Element, error) {
	long := h.refs.full(ref)
	if long == ref && selector.ShortRef(ref) {
		return platform.Element{}, errOldRef
	}
	e, err := d.Accessibility.Element(ctx, long)
	if err == nil {
		return e, nil
	}
	was, ok := h.refs.meant(ref)
	if ok && errors.Is(err, platform.ErrHung) {
		return platform.Element{}, h.hungApp(ctx, was.pid)
	}
	if !errors.Is(err, platform.ErrGone) {
		return platform.Element{}, err
	}
	if !ok || was.name == "" {
		return platform.Element{}, errOldRef
	}
	tree, err := d.Accessibility.Tree(ctx, platform.TreeQuery{PID: was.pid, MaxElements: maxElements, Bounds: true})
	if err != nil {
		return platform.Element{}, err
	}
	heirs := slices.DeleteFunc(tree.Elements, func(e platform.Element) bool {
		return e.Role != was.role || e.Name != was.name || e.PID != was.pid || e.Window != was.window
	})
	if len(heirs) != 1 {
		return platform.Element{}, errOldRef
	}
	h.refs.renew(long, heirs[0])
	return heirs[0], nil
}

// hungApp names an application that does not answer, by its windows.
func (h *call) hungApp(ctx context.Context, pid int) error {
	names := []string{}
	if all, err := h.windows(ctx); err == nil {
		for _, w := range all {
			if w.PID == pid && pid != 0 && !has(names, w.App) && len(names) < 8 {
				names = append(names, capabilities.Clip(w.App, 80))
			}
		}
	}
	return hungError(names)
}

// hungError is app_hung with the names of the applications.
func hungError(names []string) error {
	e := &capabilities.Error{Code: capabilities.CodeAppHung}
	if len(names) > 0 {
		return e.WithDetails(hungApps{names})
	}
	return e
}

// hungApps is the Details of CodeAppHung: the applications that do not answer.
type hungApps struct {
	Hung []string `json:"hung"`
}
