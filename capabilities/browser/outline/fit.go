package outline

import (
	"fmt"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
)

// Fit prints rows in at most max bytes. Of what does not fit, every part gets its
// share: small ones are whole, of large ones the first lines come, and a note in
// the place of the rest says how much that is and which ref shows it. It returns the
// number of characters that were left out, too.
func Fit(rows []Row, max int) (text string, omitted int) {
	f := fitting{rows: rows, end: ends(rows), pre: make([]int, len(rows)+1)}
	for i, r := range rows {
		f.pre[i+1] = f.pre[i] + r.size()
	}
	f.part(0, len(rows), max+1, "")
	return Text(f.out), f.omitted
}

type fitting struct {
	rows    []Row
	end     []int
	pre     []int // sizes of the rows before
	out     []Row
	omitted int
}

const (
	leastShare = 400 // what a part needs to say anything
	noteRoom   = 150 // for a note and its indentation
)

// part prints the rows from i to j in at most budget bytes; ref shows them.
func (f *fitting) part(i, j, budget int, ref string) {
	if f.pre[j]-f.pre[i] <= budget {
		f.out = append(f.out, f.rows[i:j]...)
		return
	}
	var kids []int
	for k := i; k < j; k = f.end[k] {
		kids = append(kids, k)
	}
	if share := f.share(kids, budget); share >= leastShare {
		for _, k := range kids {
			if f.pre[f.end[k]]-f.pre[k] <= share {
				f.out = append(f.out, f.rows[k:f.end[k]]...)
			} else {
				f.head(k, share, ref)
			}
		}
		return
	}
	rest := budget - noteRoom - len(indent)*f.rows[i].Depth
	for _, k := range kids {
		size := f.pre[f.end[k]] - f.pre[k]
		if size <= rest {
			f.out = append(f.out, f.rows[k:f.end[k]]...)
			rest -= size
			continue
		}
		if rest >= leastShare {
			f.head(k, rest, ref)
			k = f.end[k]
		}
		f.note(k, j, ref)
		return
	}
}

// head prints row k and a part of what is below it.
func (f *fitting) head(k, budget int, ref string) {
	r := f.rows[k]
	if own := r.Ref(); own != "" {
		ref = own
	}
	if room := budget / 2; r.size() > room && (f.end[k] > k+1 || r.size() > budget) {
		if f.end[k] == k+1 {
			room = budget
		}
		cut := capabilities.Clip(r.Text, max(room-noteRoom-len(indent)*r.Depth, 20))
		lost := len(r.Text) - len(cut)
		if lost > 0 {
			f.omitted += lost
			r.Text = cut + fmt.Sprintf("… (%d more characters; a larger max_chars shows them)", lost)
		}
	}
	f.out = append(f.out, r)
	if f.end[k] > k+1 {
		f.part(k+1, f.end[k], budget-r.size(), ref)
	}
}

// note says what of the rows from i to j is missing, and how to get it.
func (f *fitting) note(i, j int, ref string) {
	if i >= j {
		return
	}
	size := f.pre[j] - f.pre[i]
	f.omitted += size
	how := "search, interactive_only or a larger max_chars shows them"
	if ref != "" {
		how = "snapshot with ref " + ref + " shows them"
	}
	f.out = append(f.out, Row{f.rows[i].Depth, fmt.Sprintf("- (%d lines, %d characters left out; %s)", j-i, size, how)})
}

// share returns the size up to which each part is printed, so that together they fit.
func (f *fitting) share(kids []int, budget int) int {
	sizes := make([]int, len(kids))
	for i, k := range kids {
		sizes[i] = f.pre[f.end[k]] - f.pre[k]
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		if size*(len(sizes)-i) > budget {
			return budget / (len(sizes) - i)
		}
		budget -= size
	}
	return budget
}
