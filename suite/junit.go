package suite

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// junitSuite is one family's part of a JUnit report.
type junitSuite struct {
	name                     string
	tests, failures, skipped int
	spent                    time.Duration
	cases                    []*Outcome
}

// JUnit writes the report in the form that CI systems read; each family is a
// test suite of its own.
func (r *Report) JUnit(w io.Writer) error {
	var suites []*junitSuite
	top := junitSuite{name: "handrail suite " + r.Suite, spent: r.Took}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if n := len(suites); n == 0 || suites[n-1].name != o.Family() {
			suites = append(suites, &junitSuite{name: o.Family()})
		}
		s := suites[len(suites)-1]
		s.cases, s.spent = append(s.cases, o), s.spent+o.Duration
		for _, c := range []*junitSuite{s, &top} {
			c.tests++
			switch o.Status {
			case Failed:
				c.failures++
			case NotRun:
				c.skipped++
			}
		}
	}
	x := elements{}
	x.b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	x.open("testsuites", top.attributes()...)
	for _, s := range suites {
		x.open("testsuite", append(s.attributes(), "timestamp", r.Began.UTC().Format("2006-01-02T15:04:05"))...)
		x.open("properties")
		for _, p := range [][2]string{{r.BehindName(), r.Behind}, {"node", string(r.Node)}, {"gateway", r.URL}} {
			x.whole("property", "", "name", p[0], "value", p[1])
		}
		x.close("properties")
		for _, o := range s.cases {
			x.open("testcase", "classname", r.Suite+"."+s.name, "name", o.ID+": "+o.Title+": "+o.Proves, "time", seconds(o.Duration))
			switch o.Status {
			case Failed:
				first, _, _ := strings.Cut(o.Error, "\n")
				x.whole("failure", o.Error, "message", capabilities.Brief(first, 300))
				if o.Trace != nil {
					x.whole("system-out", "trace: "+o.tracePath())
				}
			case NotRun:
				x.whole("skipped", "", "message", o.Error)
			}
			x.close("testcase")
		}
		x.close("testsuite")
	}
	x.close("testsuites")
	_, err := io.WriteString(w, x.b.String())
	return err
}

func (s *junitSuite) attributes() []string {
	return []string{"name", s.name, "tests", fmt.Sprint(s.tests), "failures", fmt.Sprint(s.failures), "skipped", fmt.Sprint(s.skipped), "time", seconds(s.spent)}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// elements is XML as it is written, one element a line.
type elements struct {
	b    strings.Builder
	deep int
}

// open begins an element; attributes are names and values.
func (x *elements) open(name string, attributes ...string) {
	x.start(name, attributes)
	x.b.WriteString(">\n")
	x.deep++
}

func (x *elements) close(name string) {
	x.deep--
	x.b.WriteString(strings.Repeat("  ", x.deep) + "</" + name + ">\n")
}

// whole writes an element with nothing but text in it.
func (x *elements) whole(name, content string, attributes ...string) {
	x.start(name, attributes)
	x.b.WriteString(">" + escape(content) + "</" + name + ">\n")
}

func (x *elements) start(name string, attributes []string) {
	x.b.WriteString(strings.Repeat("  ", x.deep) + "<" + name)
	for i := 0; i+1 < len(attributes); i += 2 {
		x.b.WriteString(" " + attributes[i] + `="` + escape(attributes[i+1]) + `"`)
	}
}

// escape writes what would be markup as references, also the white space that
// attributes lose, and drops what XML cannot hold.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s { // bytes that are no UTF-8 come as U+FFFD
		switch {
		case r == '&' || r == '<' || r == '>' || r == '"' || r == '\'' || r == '\n' || r == '\t':
			fmt.Fprintf(&b, "&#%d;", r)
		case r < 0x20 || r == 0xfffe || r == 0xffff:
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
