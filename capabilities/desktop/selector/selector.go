package selector

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/platform"
)

// Selector is what a call means: a chain of steps, or text to be seen.
type Selector struct {
	steps []step
	OCR   *OCR
}

// OCR asks for text in the pixels.
type OCR struct {
	Text   string
	Bounds *platform.Rect // nil: everywhere
	Fold   bool           // case does not matter
}

// step is what one link of a chain matches.
type step struct {
	filter    expr // nil: everything
	relations []relation
	nth       int // 0: all
}

// Area is a rectangle as callers write it.
type Area struct {
	X, Y, Width, Height float64
}

// Pixels returns the whole pixels that the area touches.
func (a Area) Pixels() platform.Rect {
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
	holding struct{ of *Selector }
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
	anchor *Selector
}

// Decode reads a selector argument: a chain, or one of the objects.
func Decode(raw json.RawMessage) (*Selector, error) {
	if len(raw) > 0 && raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, Errorf(0, "it is no text")
		}
		return Parse(text)
	}
	var o struct {
		Kind   string   `json:"kind"`
		Ref    string   `json:"ref"`
		Role   string   `json:"role"`
		Name   string   `json:"name"`
		States []string `json:"states"`
		Text   string   `json:"text"`
		Bounds *Area    `json:"bounds"`
		Fold   *bool    `json:"case_insensitive"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, Errorf(0, "it is neither a text nor one of the objects")
	}
	switch o.Kind {
	case "ref":
		if strings.TrimSpace(o.Ref) == "" {
			return nil, Errorf(0, "the ref is empty")
		}
		return &Selector{steps: []step{{filter: term{field: "ref", value: o.Ref}}}}, nil
	case "ocr":
		s := &Selector{OCR: &OCR{Text: o.Text, Fold: o.Fold == nil || *o.Fold}}
		if strings.TrimSpace(o.Text) == "" {
			return nil, Errorf(0, "the text is empty")
		}
		if o.Bounds != nil {
			r := o.Bounds.Pixels()
			s.OCR.Bounds = &r
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
		return &Selector{steps: []step{{filter: all.simple()}}}, nil
	}
	return nil, Errorf(0, "its kind is none of ref, a11y, ocr")
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

// OnlyRef returns the ref, if the selector is nothing but one.
func (s *Selector) OnlyRef() string {
	if s.OCR == nil && len(s.steps) == 1 && s.steps[0].nth == 0 && len(s.steps[0].relations) == 0 {
		if t, ok := s.steps[0].filter.(term); ok && t.field == "ref" {
			return t.value
		}
	}
	return ""
}

// RefIn returns the ref that a selector of one step names, in whatever order it asks for it;
// "" if it names none, or things beside it.
func (s *Selector) RefIn() string {
	if len(s.steps) != 1 || len(s.steps[0].relations) > 0 {
		return ""
	}
	if t, ok := s.steps[0].filter.(term); ok && t.field == "ref" {
		return t.value
	}
	return ""
}

// Measures reports whether matching needs more than names and states.
func (s *Selector) Measures() bool {
	return slices.ContainsFunc(s.steps, func(st step) bool { return len(st.relations) > 0 || measures(st.filter) })
}

func measures(e expr) bool {
	switch e := e.(type) {
	case both:
		return slices.ContainsFunc(e, measures)
	case either:
		return slices.ContainsFunc(e, measures)
	case negated:
		return measures(e.of)
	case holding:
		return e.of.Measures()
	case term:
		return e.field == "text" || e.field == "value"
	}
	return false
}
