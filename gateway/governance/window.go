package governance

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// row is the numbers of one time, apart by their facts. It does not change.
type row struct {
	start int64
	size  int
	by    [len(facts) + 1]numbers // by slots
}

// numbers are what series count.
type numbers struct {
	series []int32
	n      []int64
}

// slots say where the numbers of a fact stand in a row. Facts that are no more stand at 0.
var slots = func() map[fact]uint8 {
	all := map[fact]uint8{}
	for i, f := range facts {
		all[f] = uint8(i + 1)
	}
	return all
}()

// window is the rows of a span. It does not change.
type window struct {
	grain    Grain
	from, to int64
	rows     []*row
	cells    []cell
}

// Bounds of what stays in memory.
const (
	kept        = 4         // windows: the views of a page ask for the same two
	keptNumbers = 3_000_000 // of rows, 12 bytes each: nine months by the day on a large site
)

// window reads the numbers of a span. A row stays until something is added to it, so that a page
// reads again what changed since the last one, and no more.
func (m *Model) window(ctx context.Context, s span) (*window, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := &window{grain: s.grain, from: s.from.Unix(), to: s.to.Unix(), cells: m.cells}
	for _, had := range m.windows {
		if had.grain == w.grain && had.from == w.from && had.to == w.to {
			return had, nil
		}
	}
	starts, err := m.starts(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("governance: %w", err)
	}
	missing := func(start int64) bool { return m.rows[when{w.grain, start}] == nil }
	if first := slices.IndexFunc(starts, missing); first >= 0 {
		last := len(starts) - 1
		for !missing(starts[last]) {
			last--
		}
		if err := m.readRows(ctx, w.grain, starts[first], starts[last]); err != nil {
			return nil, fmt.Errorf("governance: %w", err)
		}
	}
	for _, start := range starts {
		w.rows = append(w.rows, m.rows[when{w.grain, start}])
	}
	if m.held > m.most { // those of this window stay
		m.rows, m.held = map[when]*row{}, 0
		for _, r := range w.rows {
			m.keep(w.grain, r)
		}
	}
	m.windows = append(m.windows[max(0, len(m.windows)-kept+1):], w)
	return w, nil
}

// starts are the times of a window that have numbers.
func (m *Model) starts(ctx context.Context, w *window) (all []int64, _ error) {
	rows, err := m.opts.Store.Read().QueryContext(ctx,
		"SELECT start FROM governance_time WHERE grain = $1 AND start >= $2 AND start < $3 ORDER BY start", int(w.grain), w.from, w.to)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var start int64
		if err := rows.Scan(&start); err != nil {
			return nil, err
		}
		all = append(all, start)
	}
	return all, rows.Err()
}

// readRows reads the rows of the times from first to last, and keeps them.
func (m *Model) readRows(ctx context.Context, grain Grain, first, last int64) error {
	for len(m.slots) < len(m.cells) {
		m.slots = append(m.slots, slots[m.cells[len(m.slots)].Fact])
	}
	rows, err := m.opts.Store.Read().QueryContext(ctx,
		"SELECT start, numbers FROM governance_time WHERE grain = $1 AND start >= $2 AND start <= $3", int(grain), first, last)
	if err != nil {
		return err
	}
	defer rows.Close()
	like := &row{}
	for rows.Next() {
		var text sql.RawBytes
		r := &row{}
		if err := rows.Scan(&r.start, &text); err != nil {
			return err
		}
		if err := r.read(text, m.slots, like); err != nil {
			return err
		}
		like = r
		m.drop(when{grain, r.start})
		m.keep(grain, r)
	}
	return rows.Err()
}

// read takes the numbers of a row in, which has about as many as another.
func (r *row) read(text []byte, slots []uint8, like *row) error {
	for i := range r.by {
		n := len(like.by[i].n)
		r.by[i] = numbers{make([]int32, 0, n), make([]int64, 0, n)}
	}
	unknown := int64(0)
	err := pairs(text, func(series, n int64) {
		if series <= 0 || series >= int64(len(slots)) {
			unknown = series
			return
		}
		to := &r.by[slots[series]]
		to.series, to.n = append(to.series, int32(series)), append(to.n, n)
		r.size++
	})
	if err == nil && unknown != 0 {
		err = fmt.Errorf("nothing says what series %d counts", unknown)
	}
	return err
}

func (m *Model) keep(grain Grain, r *row) {
	m.rows[when{grain, r.start}] = r
	m.held += r.size
}

// drop forgets a row that is no more as it was.
func (m *Model) drop(at when) {
	if r := m.rows[at]; r != nil {
		delete(m.rows, at)
		m.held -= r.size
	}
}

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
}

// sums adds the numbers of a fact up, apart by some columns, in their order.
func (m *Model) sums(ctx context.Context, s span, f fact, apart ...column) ([]sum, error) {
	return m.sumsOf(ctx, s, f, func(*cell) bool { return true }, apart...)
}

// sumsOf does the same for those of the cells that are wanted. It looks at a series once, however
// many times have numbers of it.
func (m *Model) sumsOf(ctx context.Context, s span, f fact, wanted func(*cell) bool, apart ...column) ([]sum, error) {
	w, err := m.window(ctx, s)
	if err != nil {
		return nil, err
	}
	g := groups{of: make([]int32, len(w.cells)), apart: apart, ids: map[cell]int32{}, wanted: func(c *cell) bool {
		return (s.tool == "" || c.Tool == s.tool) && wanted(c)
	}}
	type entry struct {
		row   int
		group int32
		n     int64
	}
	var entries []entry
	var at []int // by groups: which entry is the last of it
	first, times := 0, slices.Contains(apart, byTime)
	for i, r := range w.rows {
		if times {
			first = len(entries)
		}
		part := &r.by[slots[f]]
		for j, series := range part.series {
			group := g.of[series]
			if group == 0 {
				group = g.find(series, &w.cells[series])
			}
			if group < 0 {
				continue
			}
			for len(at) <= int(group) {
				at = append(at, -1)
			}
			if at[group] < first {
				at[group] = len(entries)
				entries = append(entries, entry{i, group, 0})
			}
			entries[at[group]].n += part.n[j]
		}
	}
	rank := g.ranks()
	slices.SortFunc(entries, func(a, b entry) int {
		if times && a.row != b.row {
			return a.row - b.row
		}
		return int(rank[a.group] - rank[b.group])
	})
	list := make([]sum, len(entries))
	for i, e := range entries {
		c := &g.cells[e.group-1]
		list[i] = sum{tool: c.Tool, a: c.A, b: c.B, c: c.C, n: e.n}
		if times {
			list[i].start = time.Unix(w.rows[e.row].start, 0).UTC()
		}
	}
	return list, nil
}

// counts are rows of a fact: by time, or of all of it, the largest first.
type counts struct {
	rows   []sum
	fact   fact
	wanted func(*cell) bool // nil: all
	apart  []column
	summed bool
}

// counted adds the numbers of a fact up as a view is asked for.
func (m *Model) counted(ctx context.Context, s span, in Span, f fact, wanted func(*cell) bool, apart ...column) (*counts, error) {
	c := &counts{fact: f, wanted: wanted, apart: apart, summed: in.Sum}
	if wanted == nil {
		wanted = func(*cell) bool { return true }
	}
	if !in.Sum {
		apart = append([]column{byTime}, apart...)
	}
	var err error
	c.rows, err = m.sumsOf(ctx, s, f, wanted, apart...)
	if in.Sum {
		slices.SortStableFunc(c.rows, func(a, b sum) int { return cmp.Compare(b.n, a.n) })
	}
	return c, err
}

// trends returns the numbers of each row by time, from the start of s on; of rows by time nothing.
func (m *Model) trends(ctx context.Context, s span, of *counts) ([]api.Trend, error) {
	all := make([]api.Trend, len(of.rows))
	if !of.summed || len(all) == 0 {
		return all, nil
	}
	starts, rows := map[int64]int{}, map[cell]int{}
	for i, t := range s.starts() {
		starts[t.Unix()] = i
	}
	for i, one := range of.rows {
		rows[cell{Tool: one.tool, A: one.a, B: one.b, C: one.c}] = i
		all[i] = make(api.Trend, len(starts))
	}
	list, err := m.sumsOf(ctx, s, of.fact, func(c *cell) bool {
		_, shown := rows[apartBy(c, of.apart)]
		return shown && (of.wanted == nil || of.wanted(c))
	}, append([]column{byTime}, of.apart...)...)
	for _, one := range list {
		if at, in := starts[one.start.Unix()]; in {
			all[rows[cell{Tool: one.tool, A: one.a, B: one.b, C: one.c}]][at] = one.n
		}
	}
	return all, err
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

// groups are what a sum keeps apart, but for times.
type groups struct {
	of     []int32 // by series: its group, from 1; 0: not looked at yet; below: not wanted
	apart  []column
	wanted func(*cell) bool
	ids    map[cell]int32
	cells  []cell // of the groups, from that of 1
}

// find looks at a series.
func (g *groups) find(series int32, c *cell) int32 {
	if !g.wanted(c) {
		g.of[series] = -1
		return -1
	}
	key := apartBy(c, g.apart)
	id := g.ids[key]
	if id == 0 {
		g.cells = append(g.cells, key)
		id = int32(len(g.cells))
		g.ids[key] = id
	}
	g.of[series] = id
	return id
}

// ranks returns the places of the groups in their order.
func (g *groups) ranks() []int32 {
	order := make([]int32, len(g.cells))
	for i := range order {
		order[i] = int32(i + 1)
	}
	slices.SortFunc(order, func(a, b int32) int { return compare(g.cells[a-1], g.cells[b-1]) })
	rank := make([]int32, len(order)+1)
	for i, group := range order {
		rank[group] = int32(i)
	}
	return rank
}
