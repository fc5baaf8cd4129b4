package selector

import (
	"fmt"
	"strings"
)

// String writes the selector as Parse reads it.
func (s *Selector) String() string {
	var b strings.Builder
	s.print(&b)
	return b.String()
}

func (s *Selector) print(b *strings.Builder) {
	if s.OCR != nil {
		b.WriteString("ocr:" + Quote(s.OCR.Text))
		return
	}
	for i, st := range s.steps {
		if i > 0 {
			b.WriteString(" >> ")
		}
		st.print(b)
	}
}

func (st step) String() string {
	var b strings.Builder
	st.print(&b)
	return b.String()
}

func (st step) print(b *strings.Builder) {
	joined := ""
	if st.filter != nil {
		if _, alone := st.filter.(either); alone && (len(st.relations) > 0 || st.nth != 0) {
			b.WriteByte('(')
			st.filter.print(b)
			b.WriteByte(')')
		} else {
			st.filter.print(b)
		}
		joined = " && "
	}
	for _, r := range st.relations {
		b.WriteString(joined + r.side + ":(")
		r.anchor.print(b)
		b.WriteByte(')')
		joined = " && "
	}
	if st.nth != 0 {
		fmt.Fprintf(b, "%snth:%d", joined, st.nth)
	}
}

func (l both) print(b *strings.Builder) { printList(b, l, " && ") }

func (l either) print(b *strings.Builder) { printList(b, l, " || ") }

func printList(b *strings.Builder, list []expr, mark string) {
	for i, e := range list {
		if i > 0 {
			b.WriteString(mark)
		}
		_, inner := e.(either)
		if inner {
			b.WriteByte('(')
		}
		e.print(b)
		if inner {
			b.WriteByte(')')
		}
	}
}

func (n negated) print(b *strings.Builder) {
	b.WriteByte('!')
	switch n.of.(type) {
	case both, either:
		b.WriteByte('(')
		n.of.print(b)
		b.WriteByte(')')
	default:
		n.of.print(b)
	}
}

func (h holding) print(b *strings.Builder) {
	b.WriteString("has:(")
	h.of.print(b)
	b.WriteByte(')')
}

func (t term) print(b *strings.Builder) {
	b.WriteString(t.field)
	if t.part {
		b.WriteByte('~')
	}
	b.WriteString(":" + Quote(t.value))
}

func Quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
