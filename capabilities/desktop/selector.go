package desktop

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/handrail-dev/handrail/platform"
)

// selector is what a call means: a chain of steps, or text to be seen.
type selector struct {
	steps []step
	ocr   *ocrTerm
}

// ocrTerm asks for text in the pixels.
type ocrTerm struct {
	text   string
	bounds *platform.Rect // nil: everywhere
	fold   bool           // case does not matter
}

// step is what one link of a chain matches.
type step struct {
	filter    expr // nil: everything
	relations []relation
	nth       int // 0: all
}

// area is a rectangle as callers write it.
type area struct {
	X, Y, Width, Height float64
}

// pixels returns the whole pixels that the area touches.
func (a area) pixels() platform.Rect {
	const most = 1 << 20
	bounded := func(v float64) int { return int(min(max(v, -most), most)) }
	x, y := bounded(math.Floor(a.X)), bounded(math.Floor(a.Y))
	return platform.Rect{X: x, Y: y, Width: bounded(math.Ceil(a.X+a.Width)) - x, Height: bounded(math.Ceil(a.Y+a.Height)) - y}
}

// expr is a predicate over elements.
type expr interface{ print(*strings.Builder) }

type (
	both    []expr
	either  []expr
	negated struct{ of expr }
	holding struct{ of *selector }
	// term compares a field; its value is normalised for fields with fixed words.
	term struct {
		field string
		part  bool
		value string
	}
)

// relation orders a step's matches by their distance to an anchor, on one side of
// it or on any.
type relation struct {
	side   string // near, right-of, left-of, above, below
	anchor *selector
}

// decodeSelector reads a selector argument: a chain, or one of the objects.
func decodeSelector(raw json.RawMessage) (*selector, error) {
	if len(raw) > 0 && raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, selectorError(0, "it is no text")
		}
		return parseSelector(text)
	}
	var o struct {
		Kind   string   `json:"kind"`
		Ref    string   `json:"ref"`
		Role   string   `json:"role"`
		Name   string   `json:"name"`
		States []string `json:"states"`
		Text   string   `json:"text"`
		Bounds *area    `json:"bounds"`
		Fold   *bool    `json:"case_insensitive"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, selectorError(0, "it is neither a text nor one of the objects")
	}
	switch o.Kind {
	case "ref":
		if strings.TrimSpace(o.Ref) == "" {
			return nil, selectorError(0, "the ref is empty")
		}
		return &selector{steps: []step{{filter: term{field: "ref", value: o.Ref}}}}, nil
	case "ocr":
		s := &selector{ocr: &ocrTerm{text: o.Text, fold: o.Fold == nil || *o.Fold}}
		if strings.TrimSpace(o.Text) == "" {
			return nil, selectorError(0, "the text is empty")
		}
		if o.Bounds != nil {
			r := o.Bounds.pixels()
			s.ocr.bounds = &r
		}
		return s, nil
	case "a11y":
		var all both
		if o.Role != "" {
			role, ok := roleWord(o.Role)
			if !ok {
				return nil, unknownWord(0, "role", o.Role, platform.Roles)
			}
			all = append(all, term{field: "role", value: role})
		}
		if o.Name != "" {
			all = append(all, term{field: "name", value: o.Name})
		}
		for _, s := range o.States {
			state, ok := stateWord(s)
			if !ok {
				return nil, unknownWord(0, "state", s, platform.States)
			}
			all = append(all, term{field: "state", value: state})
		}
		return &selector{steps: []step{{filter: all.simple()}}}, nil
	}
	return nil, selectorError(0, "its kind is none of ref, a11y, ocr")
}

func (b both) simple() expr {
	switch len(b) {
	case 0:
		return nil
	case 1:
		return b[0]
	}
	return b
}

// onlyRef returns the ref, if the selector is nothing but one.
func (s *selector) onlyRef() string {
	if s.ocr == nil && len(s.steps) == 1 && s.steps[0].nth == 0 && len(s.steps[0].relations) == 0 {
		if t, ok := s.steps[0].filter.(term); ok && t.field == "ref" {
			return t.value
		}
	}
	return ""
}
