package suite

import (
	"encoding/xml"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// The form that CI systems read. Nobody defined it; these are the fields that all of them take.
type (
	junitReport struct {
		XMLName xml.Name `xml:"testsuites"`
		junitCounts
		Suites []*junitSuite `xml:"testsuite"`
	}
	// junitSuite is one family's part of the report.
	junitSuite struct {
		junitCounts
		Timestamp  string          `xml:"timestamp,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitCounts struct {
		Name     string    `xml:"name,attr"`
		Tests    int       `xml:"tests,attr"`
		Failures int       `xml:"failures,attr"`
		Skipped  int       `xml:"skipped,attr"`
		Time     junitTime `xml:"time,attr"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string       `xml:"classname,attr"`
		Name    string       `xml:"name,attr"`
		Time    junitTime    `xml:"time,attr"`
		Failure *junitReason `xml:"failure"`
		Out     string       `xml:"system-out,omitempty"`
		Skipped *junitReason `xml:"skipped"`
	}
	junitReason struct {
		Message string `xml:"message,attr"`
		Whole   string `xml:",chardata"`
	}
	junitTime time.Duration // written in seconds
)

// MarshalText writes seconds with three decimals.
func (t junitTime) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(t).Seconds(), 'f', 3, 64), nil
}

// JUnit writes the report in the form that CI systems read; each family is a
// test suite of its own.
func (r *Report) JUnit(w io.Writer) error {
	top := junitReport{junitCounts: junitCounts{Name: "handrail suite " + r.Suite, Time: junitTime(r.Took)}}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if n := len(top.Suites); n == 0 || top.Suites[n-1].Name != o.Family() {
			top.Suites = append(top.Suites, &junitSuite{
				junitCounts: junitCounts{Name: o.Family()}, Timestamp: r.Began.UTC().Format("2006-01-02T15:04:05"),
				Properties: []junitProperty{{r.BehindName(), r.Behind}, {"node", string(r.Node)}, {"gateway", r.URL}},
			})
		}
		s := top.Suites[len(top.Suites)-1]
		c := junitCase{Class: r.Suite + "." + s.Name, Name: o.ID + ": " + o.Title + ": " + o.Proves, Time: junitTime(o.Duration)}
		switch o.Status {
		case Failed:
			first, _, _ := strings.Cut(o.Error, "\n")
			c.Failure = &junitReason{Message: capabilities.Brief(first, 300), Whole: o.Error}
			if o.Trace != nil {
				c.Out = "trace: " + o.tracePath()
			}
		case NotRun:
			c.Skipped = &junitReason{Message: o.Error}
		}
		s.Cases, s.Time = append(s.Cases, c), s.Time+junitTime(o.Duration)
		for _, counts := range []*junitCounts{&s.junitCounts, &top.junitCounts} {
			counts.Tests++
			switch o.Status {
			case Failed:
				counts.Failures++
			case NotRun:
				counts.Skipped++
			}
		}
	}
	text, err := xml.MarshalIndent(top, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, xml.Header+string(text)+"\n")
	return err
}
