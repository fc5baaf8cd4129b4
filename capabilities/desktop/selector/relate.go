package selector

import (
	"math"
	"slices"
	"sort"

	"github.com/handrail-dev/handrail/platform"
)

// related keeps what lies on a relation's side of an anchor, nearest first. Anchors
// are looked for where the step looks, or else everywhere; only what has a place on
// the screen counts, and nothing that holds the anchor or is held by it.
func (s *Scene) related(r relation, found, candidates []int) []int {
	anchors := s.anchors(r.anchor, candidates)
	type placed struct {
		at       int
		distance float64
	}
	var list []placed
	for _, i := range found {
		e := &s.Elements[i]
		if e.Bounds.Empty() || !Visible(e) {
			continue
		}
		best := math.Inf(1)
		for _, a := range anchors {
			if a <= i && i <= s.Last[a] || i <= a && a <= s.Last[i] {
				continue
			}
			if d, ok := apart(r.side, s.Elements[a].Bounds, e.Bounds); ok {
				best = min(best, d)
			}
		}
		if !math.IsInf(best, 1) {
			list = append(list, placed{i, best})
		}
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].distance < list[j].distance })
	kept := make([]int, len(list))
	for i, p := range list {
		kept[i] = p.at
	}
	return kept
}

func (s *Scene) anchors(of *Selector, candidates []int) []int {
	var found []int
	if len(of.steps) == 1 {
		found = s.step(of.steps[0], candidates)
	}
	if len(found) == 0 {
		found = s.chain(of, nil)
	}
	return slices.DeleteFunc(slices.Clone(found), func(i int) bool {
		return s.Elements[i].Bounds.Empty() || !Visible(&s.Elements[i])
	})
}

// apart is how far b is from a, if it lies on that side of it: past the middle of
// a, and beside it rather than across a corner.
func apart(side string, a, b platform.Rect) (float64, bool) {
	ca, cb := a.Center(), b.Center()
	gapX := float64(max(0, b.X-(a.X+a.Width), a.X-(b.X+b.Width)))
	gapY := float64(max(0, b.Y-(a.Y+a.Height), a.Y-(b.Y+b.Height)))
	ok := true
	switch side {
	case "right-of":
		ok = cb.X > ca.X && b.X >= ca.X && gapY == 0
	case "left-of":
		ok = cb.X < ca.X && b.X+b.Width <= ca.X && gapY == 0
	case "below":
		ok = cb.Y > ca.Y && b.Y >= ca.Y && gapX == 0
	case "above":
		ok = cb.Y < ca.Y && b.Y+b.Height <= ca.Y && gapX == 0
	}
	// The distance of the middles breaks ties between what touches a.
	return math.Hypot(gapX, gapY) + math.Hypot(float64(cb.X-ca.X), float64(cb.Y-ca.Y))/1024, ok
}

// Ordered reports whether the last step's matches are in an order in which the
// first is the one that is meant.
func (sel *Selector) Ordered() bool {
	return len(sel.steps) > 0 && len(sel.steps[len(sel.steps)-1].relations) > 0
}
