package desktop

import (
	"context"
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

type queryArgs struct {
	Selector json.RawMessage `json:"selector"`
	Limit    int             `json:"limit"`
}

type queryResult struct {
	Matches   []match   `json:"matches"`
	Total     int       `json:"total"`
	Nearest   []string  `json:"nearest,omitempty"`
	Hung      []string  `json:"hung,omitempty"`
	Truncated bool      `json:"truncated,omitempty"`
	Mode      string    `json:"mode"`
	Width     int       `json:"width,omitempty"`
	Height    int       `json:"height,omitempty"`
	Space     *space    `json:"coordinate_space,omitempty"`
	Timestamp time.Time `json:"timestamp"`
}

// space says of which pixels bounds are.
type space struct {
	Origin string `json:"origin"`
	Units  string `json:"units"`
}

// match is one thing that a selector found.
type match struct {
	Kind       string   `json:"kind"`
	Ref        string   `json:"element_ref,omitempty"`
	Node       *summary `json:"node,omitempty"`
	Text       string   `json:"text,omitempty"`
	Bounds     *rect    `json:"bounds,omitempty"`
	Confidence float64  `json:"confidence,omitempty"`
}

// summary is an element as results have it.
type summary struct {
	Role    string   `json:"role"`
	Name    string   `json:"name"`
	Value   string   `json:"value,omitempty"`
	States  []string `json:"states"`
	Bounds  rect     `json:"bounds"`
	Actions []string `json:"actions"`
}

func (h *Handler) match(e platform.Element) match {
	return match{Kind: "a11y", Ref: h.refs.name(e), Node: summarize(e)}
}

func summarize(e platform.Element) *summary {
	return &summary{
		Role: capabilities.Clip(e.Role, 64), Name: capabilities.Clip(e.Name, 512), Value: capabilities.Clip(e.Value, 512),
		Bounds: rectOf(e.Bounds), States: short(e.States), Actions: short(e.Actions),
	}
}

// short returns at most 32 words, each within its bound; never nil.
func short(words []string) []string {
	list := make([]string, 0, min(len(words), 32))
	for _, w := range words[:min(len(words), 32)] {
		list = append(list, capabilities.Clip(w, 64))
	}
	return list
}

// query carries out tyrum.desktop.query.
func (h *call) query(ctx context.Context) (capabilities.Output, error) {
	args := queryArgs{Limit: 1}
	if err := h.decode(&args); err != nil {
		return capabilities.Output{}, err
	}
	sel, err := selector.Decode(args.Selector)
	if err != nil {
		return capabilities.Output{}, err
	}
	result := queryResult{Mode: "a11y", Timestamp: time.Now().UTC().Truncate(time.Millisecond), Matches: []match{}}
	if sel.OCR != nil {
		result.Mode = "pixel"
		err = h.querySeen(ctx, sel.OCR, args.Limit, &result)
	} else {
		err = h.queryElements(ctx, sel, args.Limit, &result)
	}
	if err != nil {
		return capabilities.Output{}, err
	}
	if len(result.Matches) > 0 {
		result.Space = &space{"top-left", "px"}
	}
	return capabilities.Output{Result: result, Untrusted: true}, nil
}

// queryElements finds elements and reads those that are told anew, with their
// bounds.
func (h *call) queryElements(ctx context.Context, sel *selector.Selector, limit int, result *queryResult) error {
	d, err := h.parts(ctx)
	if err != nil {
		return err
	}
	if ref := sel.OnlyRef(); ref != "" {
		e, err := h.resolve(ctx, d, sel)
		if err != nil {
			return err
		}
		result.Matches, result.Total = append(result.Matches, h.match(e)), 1
		return nil
	}
	s, err := h.scene(ctx, d, sel)
	if err != nil {
		return err
	}
	found := s.Find(sel)
	result.Total, result.Hung, result.Truncated = len(found), s.Names(), s.Truncated
	if len(found) == 0 {
		if near := s.Nearest(sel); len(near) > 0 {
			result.Nearest = h.outlines(s, near)
		}
		return nil
	}
	if !sel.Ordered() {
		found = shownFirst(s, found)
	}
	for _, i := range found[:min(len(found), limit)] {
		e := s.Elements[i]
		if !sel.Measures() {
			now, err := d.Accessibility.Element(ctx, e.Ref)
			if err != nil {
				if err := h.gone(ctx, err, e.PID); err != nil {
					return err
				}
				continue
			}
			now.Window = firstOf(now.Window, e.Window)
			e = now
		}
		result.Matches = append(result.Matches, h.match(e))
	}
	return nil
}
