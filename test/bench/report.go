package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/test/bench/figures"
)

// row is one line of the table.
type row struct {
	Part  string  `json:"part"`
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Limit is the target, 0 for none; Least says that the value must reach it
	// rather than stay below it.
	Limit float64 `json:"limit,omitempty"`
	Least bool    `json:"least,omitempty"`
	Note  string  `json:"note,omitempty"`
}

// met tells whether the target was reached; ok is false where there is none.
func (r row) met() (met, ok bool) {
	if r.Limit == 0 {
		return false, false
	}
	if r.Least {
		return r.Value >= r.Limit, true
	}
	return r.Value <= r.Limit, true
}

func (r row) value() string { return figure(r.Value) + unit(r.Unit) }

func (r row) target() string {
	switch {
	case r.Limit == 0:
		return ""
	case r.Least:
		return "≥ " + figure(r.Limit) + unit(r.Unit)
	}
	return "≤ " + figure(r.Limit) + unit(r.Unit)
}

func (r row) verdict() string {
	switch met, ok := r.met(); {
	case !ok:
		return ""
	case met:
		return "met"
	}
	return "**missed**"
}

func unit(u string) string {
	if u == "" {
		return ""
	}
	return " " + u
}

// figure writes three significant digits, and whole numbers above a hundred.
func figure(v float64) string {
	switch {
	case v == math.Trunc(v) && math.Abs(v) < 1e6 || math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// report is the result of one run.
type report struct {
	When    time.Time `json:"when"`
	Machine string    `json:"machine"`
	Cores   int       `json:"cores"`
	Go      string    `json:"go"`
	FsyncUS float64   `json:"fsync_us"`
	Load    string    `json:"load"`
	Rounds  int       `json:"rounds"`
	Quick   bool      `json:"quick,omitempty"`
	Rows    []row     `json:"rows"`
}

func (r *report) add(rows ...row) { r.Rows = append(r.Rows, rows...) }

func (r *report) where() string {
	return fmt.Sprintf("%s, %d cores, %s", r.Machine, r.Cores, r.Go)
}

func (r *report) how() string {
	how := fmt.Sprintf("%s; median of %d rounds; appending 4 KiB and fsync takes %.0f µs on this disk; load average at the start %s.",
		r.When.Format("2006-01-02"), r.Rounds, r.FsyncUS, r.Load)
	if r.Quick {
		how += " A quick run: take the figures as hints."
	}
	return how
}

// table writes the report for a terminal.
func (r *report) table(w io.Writer) {
	fmt.Fprintf(w, "%s\n%s\n", r.where(), r.how())
	part := ""
	for _, x := range r.Rows {
		if x.Part != part {
			part = x.Part
			fmt.Fprintf(w, "\n%s\n", part)
		}
		fmt.Fprintf(w, "  %-62s %12s  %-14s %-8s %s\n", x.What, x.value(), x.target(), strings.Trim(x.verdict(), "*"), x.Note)
	}
}

// markdown writes it for docs.
func (r *report) markdown(w io.Writer) {
	fmt.Fprintf(w, "%s.\n%s\n", r.where(), r.how())
	part := ""
	for _, x := range r.Rows {
		if x.Part != part {
			part = x.Part
			fmt.Fprintf(w, "\n### %s\n\n| what | measured | target | | |\n|---|---|---|---|---|\n", part)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", x.What, x.value(), x.target(), x.verdict(), x.Note)
	}
}

// The generated part of the document stands between these lines.
const (
	beginMark = "<!-- figures: written by test/bench -->"
	endMark   = "<!-- end of figures -->"
)

// save puts the figures between the marks of a document that exists.
func (r *report) save(path string) error {
	var text bytes.Buffer
	r.markdown(&text)
	return figures.Save(path, beginMark, endMark, text.Bytes())
}

func (r *report) json(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}
