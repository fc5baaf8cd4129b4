package selector

import (
	"sort"
	"strings"

	"github.com/handrail-dev/handrail/platform"
)

// Nearest lists the elements that come closest to the step of a selector which
// nothing matched, best first, at most five.
func (s *Scene) Nearest(sel *Selector) []int {
	candidates, failed := s.all(), 0
	s.folds = true
	for ; failed < len(sel.steps)-1; failed++ {
		found := s.step(sel.steps[failed], candidates)
		if len(found) == 0 {
			break
		}
		candidates = s.below(found)
	}
	if len(sel.steps) == 0 {
		return nil
	}
	want := wanted{}
	want.from(sel.steps[failed].filter)
	if len(want.texts) == 0 {
		return nil
	}
	type scored struct {
		at    int
		score float64
	}
	var list []scored
	for _, i := range candidates {
		if score := want.score(&s.Elements[i], s.TitleOf(i)); score > 0.5 {
			list = append(list, scored{i, score})
		}
	}
	sort.SliceStable(list, func(i, j int) bool { return list[j].score < list[i].score })
	var top []int
	for _, l := range list[:min(len(list), 5)] {
		top = append(top, l.at)
	}
	return top
}

// TitleOf returns a window's title, "" for what is no window.
func (s *Scene) TitleOf(i int) string {
	e := &s.Elements[i]
	if !IsWindow(e) {
		return ""
	}
	if at, ok := s.Title[e.Window]; ok && s.Windows[at].Title != "" {
		return s.Windows[at].Title
	}
	return e.Name
}

// wanted is what a step asks for, as far as elements can come near it.
type wanted struct {
	texts []term
	role  string
}

func (w *wanted) from(e expr) {
	switch e := e.(type) {
	case term:
		switch e.field {
		case "name", "text", "value", "window", "app":
			w.texts = append(w.texts, e)
		case "role":
			w.role = e.value
		}
	case both:
		for _, part := range e {
			w.from(part)
		}
	case either:
		for _, part := range e {
			w.from(part)
		}
	}
}

// score is how near an element comes, from 0 to about 1.
func (w wanted) score(e *platform.Element, title string) float64 {
	best := 0.0
	for _, t := range w.texts {
		for _, text := range []string{
			pick(t.field == "name" || t.field == "text", e.Name), pick(t.field == "value" || t.field == "text", e.Value),
			pick(t.field == "window", title), pick(t.field == "app" && e.Role == "application", e.App),
		} {
			if text != "" {
				best = max(best, alike(Folded(text), Folded(t.value)))
			}
		}
	}
	if best > 0 && w.role != "" && e.Role == w.role {
		best += 0.1
	}
	if best > 0 && !Visible(e) {
		best -= 0.1
	}
	return best
}

func pick(use bool, text string) string {
	if use {
		return text
	}
	return ""
}

// alike is 1 for equal texts and falls to 0; a text that holds the other, or
// words much like it, comes near it.
func alike(a, b string) float64 {
	if a == b {
		return 1
	}
	score := likeness(a, b)
	if strings.Contains(a, b) || strings.Contains(b, a) {
		return max(score, 0.7)
	}
	words, n := strings.Fields(a), len(strings.Fields(b))
	for i := 0; i+n <= len(words) && len(words) > n; i++ {
		score = max(score, 0.9*likeness(strings.Join(words[i:i+n], " "), b))
	}
	return score
}

func likeness(a, b string) float64 {
	long := max(len([]rune(a)), len([]rune(b)), 1)
	return max(1-float64(edits(a, b))/float64(min(long, 64)), 0)
}
