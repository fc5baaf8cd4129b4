package governance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// window is the numbers of a span, by what they count. It does not change.
type window struct {
	grain    Grain
	from, to int64
	by       map[fact][]point
}

// point is a number, what it counts and when.
type point struct {
	*cell
	start int64
	n     int64
}

// kept is how many windows stay: the views of a page ask for the same two.
const kept = 4

// window reads the numbers of a span, or returns those that were read since packets were counted.
func (m *Model) window(ctx context.Context, s span) (*window, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := &window{grain: s.grain, from: s.from.Unix(), to: s.to.Unix(), by: map[fact][]point{}}
	for _, had := range m.windows {
		if had.grain == w.grain && had.from == w.from && had.to == w.to {
			return had, nil
		}
	}
	rows, err := m.opts.Store.Read().QueryContext(ctx,
		"SELECT start, numbers FROM governance_time WHERE grain = $1 AND start >= $2 AND start < $3 ORDER BY start", int(w.grain), w.from, w.to)
	if err != nil {
		return nil, fmt.Errorf("governance: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var start int64
		var text []byte
		if err := rows.Scan(&start, &text); err != nil {
			return nil, fmt.Errorf("governance: %w", err)
		}
		unknown := int64(0)
		err := pairs(text, func(series, n int64) {
			if series <= 0 || series >= int64(len(m.cells)) {
				unknown = series
				return
			}
			c := &m.cells[series]
			w.by[c.Fact] = append(w.by[c.Fact], point{c, start, n})
		})
		if err == nil && unknown != 0 {
			err = fmt.Errorf("nothing says what series %d counts", unknown)
		}
		if err != nil {
			return nil, fmt.Errorf("governance: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("governance: %w", err)
	}
	m.windows = append(m.windows[max(0, len(m.windows)-kept+1):], w)
	return w, nil
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

// sumsOf does the same for those of the cells that are wanted.
func (m *Model) sumsOf(ctx context.Context, s span, f fact, wanted func(*cell) bool, apart ...column) ([]sum, error) {
	w, err := m.window(ctx, s)
	if err != nil {
		return nil, err
	}
	type key struct {
		start int64
		cell
	}
	all := map[key]int64{}
	for _, p := range w.by[f] {
		if s.tool != "" && p.Tool != s.tool || !wanted(p.cell) {
			continue
		}
		var k key
		for _, c := range apart {
			switch c {
			case byTime:
				k.start = p.start
			case byTool:
				k.Tool = p.Tool
			case byA:
				k.A = p.A
			case byB:
				k.B = p.B
			case byC:
				k.C = p.C
			}
		}
		all[k] += p.n
	}
	list := make([]sum, 0, len(all))
	for k, n := range all {
		one := sum{tool: k.Tool, a: k.A, b: k.B, c: k.C, n: n}
		if slices.Contains(apart, byTime) {
			one.start = time.Unix(k.start, 0).UTC()
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(x, y sum) int {
		return cmp.Or(x.start.Compare(y.start), cmp.Compare(x.tool, y.tool), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b), cmp.Compare(x.c, y.c))
	})
	return list, nil
}
