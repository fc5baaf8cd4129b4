package outline

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Row is one line of an outline; rows below it are deeper.
type Row struct {
	Depth int
	Text  string // without its indentation
}

const indent = "  "

func (r Row) String() string { return strings.Repeat(indent, r.Depth) + r.Text }

// size is what the row takes in the text.
func (r Row) size() int { return len(indent)*r.Depth + len(r.Text) + 1 }

// Text is the outline as text.
func Text(rows []Row) string {
	var b strings.Builder
	for i, r := range rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		for range r.Depth {
			b.WriteString(indent)
		}
		b.WriteString(r.Text)
	}
	return b.String()
}

// Rows reads an outline.
func Rows(text string) []Row {
	if text == "" {
		return nil
	}
	rows := make([]Row, 0, strings.Count(text, "\n")+1)
	for line := range strings.SplitSeq(text, "\n") {
		rows = append(rows, Read(line))
	}
	return rows
}

// Read reads one line of an outline.
func Read(line string) Row {
	text := strings.TrimLeft(line, " ")
	return Row{(len(line) - len(text)) / len(indent), text}
}

// Ref returns the row's ref, empty if it has none.
func (r Row) Ref() string {
	_, _, ref := r.Parts()
	return ref
}

// Parts reads a row: `- role "name" [state] [ref=e1]…`. The page cannot forge a ref:
// what it says stands in quotes before it, or behind it.
func (r Row) Parts() (role, name, ref string) {
	rest, ok := strings.CutPrefix(r.Text, "- ")
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
		name, rest = Unquote(quoted), rest[1+len(quoted):]
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
func ends(rows []Row) []int {
	list := make([]int, len(rows))
	var open []int
	for i, r := range rows {
		for len(open) > 0 && rows[open[len(open)-1]].Depth >= r.Depth {
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

// Shallow keeps the rows down to a depth; a row says how many are below it.
func Shallow(rows []Row, depth int) []Row {
	var out []Row
	for i, end := range ends(rows) {
		r := rows[i]
		if r.Depth >= depth {
			continue
		}
		if r.Depth == depth-1 && end > i+1 {
			r.Text += fmt.Sprintf(" (+%d lines)", end-i-1)
		}
		out = append(out, r)
	}
	return out
}

// smallPart is up to how many rows what is below a found row comes with it.
const smallPart = 12

// Holding keeps the rows whose lines are looked for, with those above, a few below them,
// and so many lines before and after. It returns the number of rows that were found.
func Holding(rows []Row, finds func(line string) bool, context int) (out []Row, found int) {
	keep := make([]bool, len(rows))
	end := ends(rows)
	var above []int
	for i, r := range rows {
		for len(above) > 0 && rows[above[len(above)-1]].Depth >= r.Depth {
			above = above[:len(above)-1]
		}
		if finds(r.Text) {
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

// Unquote reads a name as the page script quoted it: as JSON.
func Unquote(quoted string) (name string) {
	if json.Unmarshal([]byte(quoted), &name) != nil {
		return ""
	}
	return name
}

// Clip cuts a text of a page at so many bytes, with a mark of what was cut: by that mark a
// hider knows that a secret may have been cut there, too.
func Clip(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return capabilities.Clip(s, max) + "…"
}
