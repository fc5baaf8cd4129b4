package governance

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
)

// row is the numbers of one time, apart by their facts. It does not change.
type row struct {
	start int64
	size  int
	by    [len(facts) + 1]numbers // by slots
}

// slots say where the numbers of a fact stand in a row. Facts that are no more stand at 0.
var slots = func() map[fact]uint8 {
	all := map[fact]uint8{}
	for i, f := range facts {
		all[f] = uint8(i + 1)
	}
	return all
}()

// window is the rows of a span. It does not change, but that its rows are added up once.
type window struct {
	grain    Grain
	from, to int64
	rows     []*row
	cells    []cell

	mu    sync.Mutex // above what follows
	total []int64    // of all rows, by series; nil: nobody asked
}

// Bounds of what stays in memory.
const (
	kept        = 12        // windows: a page asks for two to four, and people for five spans
	keptNumbers = 3_000_000 // of rows, 12 bytes each: nine months by the day on a large site
)

// window reads the numbers of a span. A row stays, and grows as the store's does, so that a page
// reads nothing that was read before.
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
		m.rows, m.held, m.windows = map[when]*row{}, 0, nil
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
	m.slot()
	rows, err := m.opts.Store.Read().QueryContext(ctx,
		"SELECT start, numbers FROM governance_time WHERE grain = $1 AND start >= $2 AND start <= $3", int(grain), first, last)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var text sql.RawBytes
		r := &row{}
		if err := rows.Scan(&r.start, &text); err != nil {
			return err
		}
		all, err := parse(text)
		if err != nil {
			return err
		}
		if r, err = r.plus(all, m.slots); err != nil {
			return err
		}
		m.keep(grain, r)
	}
	return rows.Err()
}

// slot finds the slots of the series that came since.
func (m *Model) slot() {
	for i := len(m.slots); i < len(m.cells); i++ {
		slot := slots[m.cells[i].Fact]
		m.slots = append(m.slots, slot)
		m.ofFact[slot] = append(m.ofFact[slot], int32(i))
	}
}

// plus returns the row with more numbers in it.
func (r *row) plus(add numbers, slots []uint8) (*row, error) {
	var sizes [len(facts) + 1]int
	for _, series := range add.series {
		if series <= 0 || int(series) >= len(slots) {
			return nil, fmt.Errorf("nothing says what series %d counts", series)
		}
		sizes[slots[series]]++
	}
	var apart [len(facts) + 1]numbers
	for i, size := range sizes {
		apart[i] = numbers{series: make([]int32, 0, size), n: make([]int64, 0, size)}
	}
	for i, series := range add.series {
		apart[slots[series]].add(series, add.n[i])
	}
	out := &row{start: r.start}
	for i := range out.by {
		out.by[i] = r.by[i].plus(apart[i])
		out.size += len(out.by[i].series)
	}
	return out, nil
}

// added takes in what was added to the store's rows: to those in memory, and to no others.
func (m *Model) added(sums map[when]numbers) {
	m.slot()
	for at, add := range sums {
		if had := m.rows[at]; had != nil {
			if r, err := had.plus(add, m.slots); err == nil {
				m.keep(at.grain, r)
			} else { // it is read anew
				m.drop(at)
			}
		}
	}
	var windows []*window
	for _, w := range m.windows {
		if w = w.added(m, sums); w != nil {
			windows = append(windows, w)
		}
	}
	m.windows = windows
}

// added returns the window with what was added to rows of it; nil if it has to be read anew.
func (w *window) added(m *Model, sums map[when]numbers) *window {
	var out *window
	for at, add := range sums {
		if at.grain != w.grain || at.start < w.from || at.start >= w.to {
			continue
		}
		i, has := slices.BinarySearchFunc(w.rows, at.start, func(r *row, start int64) int { return cmp.Compare(r.start, start) })
		if !has || m.rows[at] == nil {
			return nil
		}
		if out == nil {
			out = &window{grain: w.grain, from: w.from, to: w.to, rows: slices.Clone(w.rows), cells: m.cells}
			w.mu.Lock()
			if w.total != nil {
				out.total = append(make([]int64, 0, len(m.cells)), w.total...)[:len(m.cells)]
			}
			w.mu.Unlock()
		}
		out.rows[i] = m.rows[at]
		if out.total != nil {
			for j, series := range add.series {
				out.total[series] += add.n[j]
			}
		}
	}
	if out == nil {
		return w
	}
	return out
}

func (m *Model) keep(grain Grain, r *row) {
	m.drop(when{grain, r.start})
	m.rows[when{grain, r.start}] = r
	m.held += r.size
}

func (m *Model) drop(at when) {
	if r := m.rows[at]; r != nil {
		delete(m.rows, at)
		m.held -= r.size
	}
}

// totals are the sums of all rows, by series.
func (w *window) totals() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.total != nil {
		return w.total
	}
	w.total = make([]int64, len(w.cells))
	for _, r := range w.rows {
		for i := range r.by {
			part := &r.by[i]
			for j, series := range part.series {
				w.total[series] += part.n[j]
			}
		}
	}
	return w.total
}
