package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// describeWithin bounds one look at what a call would meet.
const describeWithin = 800 * time.Millisecond

// meant is one element that a call names; Kind is "focus" where none is named and the keys
// go where the focus is.
type meant struct {
	Ref      string `json:"ref,omitzero"`
	Selector string `json:"selector,omitzero"`
	Kind     string `json:"kind,omitzero"`
	arg      string
}

// Describe says which page a call would meet and which elements there, by role and name, and
// whether what they hold is hidden. Nothing is opened, started or touched: without a page of
// the lane's nothing is said. It does not wait for the lane's turn.
func (h *Handler) Describe(ctx context.Context, inv capabilities.Invocation) (capabilities.Scene, error) {
	h.mu.Lock()
	l := h.lanes[inv.Lane]
	h.mu.Unlock()
	if l == nil || inv.Capability == "tyrum.browser.launch" || inv.Capability == "tyrum.browser.navigate" {
		return capabilities.Scene{}, nil // it goes elsewhere, and its arguments say where
	}
	l.mu.Lock()
	t, c := l.active, l.chrome
	l.mu.Unlock()
	if t == nil || c == nil || !c.Alive() || t.isCrashed() {
		return capabilities.Scene{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, describeWithin)
	defer cancel()
	address, title, err := t.locationOf(ctx, t.askLocation(ctx))
	if err != nil {
		return capabilities.Scene{}, err
	}
	s := capabilities.Scene{Window: title, Address: shownAddress(address)}
	list, err := namedIn(inv)
	if err != nil {
		return s, err
	}
	for _, m := range list {
		e := capabilities.SceneElement{Arg: m.arg}
		known, err := meantIn(ctx, t, m)
		if err != nil || known == nil {
			continue // what is not there is not said
		}
		e.Role, e.Name, e.Secret = known.Role, known.Name, known.Secret
		s.Elements = append(s.Elements, e)
	}
	return s, nil
}

// shownAddress is an address without what may be a secret in it.
func shownAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return capabilities.Clip(strings.SplitN(address, "?", 2)[0], 100)
	}
	return capabilities.Clip(u.Scheme+"://"+u.Host+u.EscapedPath(), 256)
}

// namedIn lists the elements that a call's arguments name.
func namedIn(inv capabilities.Invocation) ([]meant, error) {
	var args struct {
		Ref            string  `json:"ref"`
		Selector       string  `json:"selector"`
		SourceRef      string  `json:"source_ref"`
		SourceSelector string  `json:"source_selector"`
		TargetRef      string  `json:"target_ref"`
		TargetSelector string  `json:"target_selector"`
		Fields         []meant `json:"fields"`
		Text           *string `json:"text"`
		Key            *string `json:"key"`
	}
	if err := json.Unmarshal(inv.Args, &args); err != nil {
		return nil, err
	}
	var list []meant
	add := func(ref, selector, before string) {
		switch {
		case len(list) >= capabilities.MaxSceneElements:
		case ref != "":
			list = append(list, meant{Ref: ref, arg: before + "ref"})
		case selector != "":
			list = append(list, meant{Selector: selector, arg: before + "selector"})
		}
	}
	add(args.Ref, args.Selector, "")
	add(args.SourceRef, args.SourceSelector, "source_")
	add(args.TargetRef, args.TargetSelector, "target_")
	for i, f := range args.Fields {
		add(f.Ref, f.Selector, fmt.Sprintf("fields.%d.", i))
	}
	types := inv.Capability == "tyrum.browser.type" && args.Text != nil || inv.Capability == "tyrum.browser.press-key" && args.Key != nil
	if len(list) == 0 && types {
		list = append(list, meant{Kind: "focus"})
	}
	return list, nil
}

// known is what the page says of an element.
type knownElement struct {
	Role   string `json:"role"`
	Name   string `json:"name"`
	Secret bool   `json:"secret"`
}

// meantIn asks the document that holds an element, if our world is in it already; nil for one
// that is not found there.
func meantIn(ctx context.Context, t *laneTab, m meant) (known *knownElement, err error) {
	prefix := ""
	if found := refPattern.FindStringSubmatch(strings.TrimSpace(m.Ref)); found != nil {
		prefix, m.Ref = found[1], found[1]+found[2]
	}
	if prefix != "" {
		f := t.byPrefix(prefix)
		if f == nil {
			return nil, nil
		}
		_, err := t.askFrameFor(ctx, describeWithin, f, inpage.Meant, m, &known)
		return known, err
	}
	w, err := t.inWorld(ctx)
	if err != nil {
		return nil, err
	}
	return known, w.put(ctx, inpage.Meant, m).get(ctx, &known)
}

var _ capabilities.Describer = (*Handler)(nil)
