package governance

import (
	"context"
	"slices"
	"sort"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// column is what sums keep apart.
type column int

const (
	byTime column = iota
	byTool
	byA
	byB
	byC
)

// sum is one row of a sum; what was not kept apart is empty.
type sum struct {
	start   time.Time
	tool    capabilities.ToolID
	a, b, c string
	n       int64
	group   int32
}

// groupKey is a fact by its slot, and what is kept apart of it, a bit for each column.
type groupKey struct{ slot, apart uint8 }

// grouping is which series of a fact a sum puts together. It does not change.
type grouping struct {
	series []int32 // of the fact, in their order
	of     []int32 // their groups, by the places of series
	cells  []cell  // what each group has in common, in the order of groups
}

// grouping is made once, and anew when the fact has more series.
func (m *Model) grouping(f fact, apart []column) *grouping {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slot()
	key := groupKey{slot: slots[f]}
	for _, one := range apart {
		key.apart |= 1 << one
	}
	series := m.ofFact[key.slot]
	if had := m.groups[key]; had != nil && len(had.series) == len(series) {
		return had
	}
	g := &grouping{series: slices.Clip(series), of: make([]int32, len(series))}
	ids := map[cell]int32{}
	for i, one := range series {
		c := apartBy(&m.cells[one], apart)
		id, known := ids[c]
		if !known {
			id = int32(len(g.cells))
			ids[c], g.cells = id, append(g.cells, c)
		}
		g.of[i] = id
	}
	slices.SortFunc(g.cells, compare)
	ranks := make([]int32, len(g.cells))
	for rank, c := range g.cells {
		ranks[ids[c]] = int32(rank)
	}
	for i, id := range g.of {
		g.of[i] = ranks[id]
	}
	m.groups[key] = g
	return g
}

// apartBy returns what some columns of a cell say.
func apartBy(c *cell, apart []column) (key cell) {
	for _, one := range apart {
		switch one {
		case byTool:
			key.Tool = c.Tool
		case byA:
			key.A = c.A
		case byB:
			key.B = c.B
		case byC:
			key.C = c.C
		}
	}
	return key
}

// chosen are the series that a sum adds up, of one window.
type chosen struct {
	*grouping
	w      *window
	slot   uint8
	series []int32
	of     []int32 // their groups
}

// choose looks for the series of a fact that are wanted; nil wants all.
func (m *Model) choose(ctx context.Context, s span, f fact, wanted func(*cell) bool, apart []column) (*chosen, error) {
	w, err := m.window(ctx, s)
	if err != nil {
		return nil, err
	}
	out := &chosen{grouping: m.grouping(f, apart), w: w, slot: slots[f]}
	out.series, out.of = out.grouping.series, out.grouping.of
	if end := ahead(out.series, int32(len(w.cells))); end < len(out.series) { // more came since the window
		out.series, out.of = out.series[:end], out.of[:end]
	}
	if s.tool != "" || wanted != nil {
		out.narrow(func(series, _ int32) bool {
			c := &w.cells[series]
			return (s.tool == "" || c.Tool == s.tool) && (wanted == nil || wanted(c))
		})
	}
	return out, nil
}

// narrow leaves those of the series that are wanted.
func (c *chosen) narrow(wanted func(series, group int32) bool) {
	var series, of []int32
	for i, one := range c.series {
		if wanted(one, c.of[i]) {
			series, of = append(series, one), append(of, c.of[i])
		}
	}
	c.series, c.of = series, of
}

// sums are those of all of the window, in the order of the groups.
func (c *chosen) sums() []sum {
	total, sums := c.w.totals(), make([]int64, len(c.cells))
	for i, series := range c.series {
		sums[c.of[i]] += total[series]
	}
	return c.list(nil, sums, time.Time{})
}

// byTime are those of each time of the window.
func (c *chosen) byTime() (list []sum) {
	sums := make([]int64, len(c.cells))
	for _, r := range c.w.rows {
		clear(sums)
		c.each(r, func(group int32, n int64) { sums[group] += n })
		list = c.list(list, sums, time.Unix(r.start, 0).UTC())
	}
	return list
}

func (c *chosen) list(list []sum, sums []int64, start time.Time) []sum {
	for group, n := range sums {
		if n != 0 {
			of := &c.cells[group]
			list = append(list, sum{start, of.Tool, of.A, of.B, of.C, n, int32(group)})
		}
	}
	return list
}

// each calls add with the numbers of a row.
func (c *chosen) each(r *row, add func(group int32, n int64)) {
	part, at := &r.by[c.slot], 0
	for i, series := range c.series {
		at += ahead(part.series[at:], series)
		if at == len(part.series) {
			return
		}
		if part.series[at] == series {
			add(c.of[i], part.n[at])
		}
	}
}

// sums adds the numbers of a fact up, apart by some columns, in their order.
func (m *Model) sums(ctx context.Context, s span, f fact, apart ...column) ([]sum, error) {
	c, err := m.choose(ctx, s, f, nil, apart)
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains(apart, byTime):
		return c.sums(), nil
	case len(apart) == 1 && s.tool == "": // a row has that
		var list []sum
		for _, r := range c.w.rows {
			if n := r.by[c.slot].sum; n != 0 {
				list = append(list, sum{start: time.Unix(r.start, 0).UTC(), n: n})
			}
		}
		return list, nil
	}
	return c.byTime(), nil
}

// counts are rows of a fact: by time, or of all of it, the largest first.
type counts struct {
	rows   []sum
	of     *chosen
	summed bool
}

// counted adds the numbers of a fact up as a view is asked for.
func (m *Model) counted(ctx context.Context, s span, in Span, f fact, wanted func(*cell) bool, apart ...column) (*counts, error) {
	of, err := m.choose(ctx, s, f, wanted, apart)
	if err != nil {
		return nil, err
	}
	c := &counts{of: of, summed: in.Sum}
	if !in.Sum {
		c.rows = of.byTime()
		return c, nil
	}
	c.rows = of.sums()
	sort.SliceStable(c.rows, func(i, j int) bool { return c.rows[i].n > c.rows[j].n })
	return c, nil
}

// trends returns the numbers of each row by time, from the start of s on; of rows by time nothing.
func (c *counts) trends(s span) []api.Trend {
	all := make([]api.Trend, len(c.rows))
	if !c.summed || len(all) == 0 {
		return all
	}
	starts, rows := s.starts(), make([]int32, len(c.of.cells)) // by groups: the row of each, from 1
	for i, one := range c.rows {
		rows[one.group], all[i] = int32(i+1), make(api.Trend, len(starts))
	}
	shown := *c.of
	shown.narrow(func(_, group int32) bool { return rows[group] > 0 })
	at := 0
	for _, r := range shown.w.rows {
		for at < len(starts) && starts[at].Unix() < r.start {
			at++
		}
		if at < len(starts) && starts[at].Unix() == r.start {
			shown.each(r, func(group int32, n int64) { all[rows[group]-1][at] += n })
		}
	}
	return all
}
