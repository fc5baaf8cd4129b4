package browser

import (
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"

	"github.com/handrail-dev/handrail/capabilities"
)

// row is one line of an outline; rows below it are deeper.
type row struct {
	depth int
	text  string // without its indentation
}

const indent = "  "

func (r row) String() string { return strings.Repeat(indent, r.depth) + r.text }

// size is what the row takes in the text.
func (r row) size() int { return len(indent)*r.depth + len(r.text) + 1 }

func textOf(rows []row) string {
	var b strings.Builder
	for i, r := range rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		for range r.depth {
			b.WriteString(indent)
		}
		b.WriteString(r.text)
	}
	return b.String()
}

func rowsOf(text string) []row {
	if text == "" {
		return nil
	}
	rows := make([]row, 0, strings.Count(text, "\n")+1)
	for line := range strings.SplitSeq(text, "\n") {
		rows = append(rows, rowOf(line))
	}
	return rows
}

func rowOf(line string) row {
	text := strings.TrimLeft(line, " ")
	return row{(len(line) - len(text)) / len(indent), text}
}

// ref returns the row's ref, empty if it has none.
func (r row) ref() string {
	_, _, ref := r.parts()
	return ref
}

// parts reads a row: `- role "name" [state] [ref=e1]…`. The page cannot forge a ref:
// what it says stands in quotes before it, or behind it.
func (r row) parts() (role, name, ref string) {
	rest, ok := strings.CutPrefix(r.text, "- ")
	if !ok {
		return "", "", ""
	}
	if i := strings.IndexAny(rest, " :"); i < 0 {
		return rest, "", ""
	} else {
		role, rest = rest[:i], rest[i:]
	}
	if role == "text" {
		return role, "", ""
	}
	if strings.HasPrefix(rest, ` "`) {
		quoted := quotedPrefix(rest[1:])
		if quoted == "" {
			return role, "", ""
		}
		name, rest = unquote(quoted), rest[1+len(quoted):]
	}
	for strings.HasPrefix(rest, " [") {
		end := strings.Index(rest, "]")
		if end < 0 {
			break
		}
		if v, ok := strings.CutPrefix(rest[2:end], "ref="); ok {
			return role, name, v
		}
		rest = rest[end+1:]
	}
	return role, name, ""
}

// quotedPrefix returns the string, as JavaScript quotes it, that s begins with; empty if
// it does not end. strconv's own refuses halves of surrogate pairs.
func quotedPrefix(s string) string {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[:i+1]
		}
	}
	return ""
}

// ends returns for each row the index after the last row below it.
func ends(rows []row) []int {
	list := make([]int, len(rows))
	var open []int
	for i, r := range rows {
		for len(open) > 0 && rows[open[len(open)-1]].depth >= r.depth {
			list[open[len(open)-1]] = i
			open = open[:len(open)-1]
		}
		open = append(open, i)
	}
	for _, i := range open {
		list[i] = len(rows)
	}
	return list
}

// shallow keeps the rows down to a depth; a row says how many are below it.
func shallow(rows []row, depth int) []row {
	var out []row
	for i, end := range ends(rows) {
		r := rows[i]
		if r.depth >= depth {
			continue
		}
		if r.depth == depth-1 && end > i+1 {
			r.text += fmt.Sprintf(" (+%d lines)", end-i-1)
		}
		out = append(out, r)
	}
	return out
}

// smallPart is up to how many rows what is below a found row comes with it.
const smallPart = 12

// holding keeps the rows whose lines are looked for, with those above, a few below them,
// and so many lines before and after. It returns the number of rows that were found.
func holding(rows []row, finds func(line string) bool, context int) (out []row, found int) {
	keep := make([]bool, len(rows))
	end := ends(rows)
	var above []int
	for i, r := range rows {
		for len(above) > 0 && rows[above[len(above)-1]].depth >= r.depth {
			above = above[:len(above)-1]
		}
		if finds(r.text) {
			found++
			for _, a := range above {
				keep[a] = true
			}
			to := i + 1
			if end[i]-i <= smallPart {
				to = end[i]
			}
			for j := max(0, i-context); j < min(len(rows), max(to, i+1+context)); j++ {
				keep[j] = true
			}
		}
		above = append(above, i)
	}
	for i, r := range rows {
		if keep[i] {
			out = append(out, r)
		}
	}
	return out, found
}

// fit prints rows in at most max bytes. Of what does not fit, every part gets its
// share: small ones are whole, of large ones the first lines come, and a note in
// the place of the rest says how much that is and which ref shows it. It gives the
// number of characters that were left out.
func fit(rows []row, max int) (text string, omitted int) {
	f := fitting{rows: rows, end: ends(rows), pre: make([]int, len(rows)+1)}
	for i, r := range rows {
		f.pre[i+1] = f.pre[i] + r.size()
	}
	f.part(0, len(rows), max+1, "")
	return textOf(f.out), f.omitted
}

type fitting struct {
	rows    []row
	end     []int
	pre     []int // sizes of the rows before
	out     []row
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
	rest := budget - noteRoom - len(indent)*f.rows[i].depth
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
	if own := r.ref(); own != "" {
		ref = own
	}
	if room := budget / 2; r.size() > room && (f.end[k] > k+1 || r.size() > budget) {
		if f.end[k] == k+1 {
			room = budget
		}
		cut := capabilities.Clip(r.text, max(room-noteRoom-len(indent)*r.depth, 20))
		lost := len(r.text) - len(cut)
		if lost > 0 {
			f.omitted += lost
			r.text = cut + fmt.Sprintf("… (%d more characters; a larger max_chars shows them)", lost)
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
	f.out = append(f.out, row{f.rows[i].depth, fmt.Sprintf("- (%d lines, %d characters left out; %s)", j-i, size, how)})
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

// unquote reads a name as the page script quoted it: as JSON.
func unquote(quoted string) (name string) {
	if jsonv2.Unmarshal([]byte(quoted), &name, jsonv2.AllowInvalidUTF8(true)) != nil {
		return ""
	}
	return name
}
