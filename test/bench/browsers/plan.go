package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// operation is one thing an agent does in a browser.
type operation string

const (
	opNavigate operation = "navigate"
	opClick    operation = "click"
	opNothing  operation = "click, nothing happens"
	opType     operation = "type, 20 characters"
	opFill     operation = "fill form, 4 fields"
	opHover    operation = "hover"
	opPress    operation = "press key"
	opEvaluate operation = "evaluate"
	opTabs     operation = "tabs, list"
	opSnapshot operation = "snapshot, default"
	opFull     operation = "snapshot, all of it"
	opShot     operation = "screenshot, viewport"
)

// goal is what is to be reached in ms on each page; 0 for none.
type goal struct {
	op           operation
	small, large float64
}

// goals are the operations in the order of measuring, with the targets of the
// family. Navigation's target is the floor and 15 %.
var goals = []goal{
	{opNavigate, 0, 0},
	{opClick, 30, 35},
	{opNothing, 90, 90},
	{opType, 14, 16},
	{opFill, 30, 35},
	{opHover, 42, 44},
	{opPress, 10, 10},
	{opEvaluate, 4, 4},
	{opTabs, 3, 3},
	{opSnapshot, 7, 80},
	{opFull, 7, 80},
	{opShot, 40, 42},
}

// The controls by their names, as an agent finds them in a snapshot.
var named = []string{"Save", "Nothing", "Note", "Name", "City", "Street", "Sort", "Keys", "Open", "Closed"}

// hovered alternates, because a pointer that is there already enters nothing.
func hovered(i int) string { return []string{"Open", "Closed"}[i%2] }

// note is the text typed in iteration i: 20 characters.
func note(i int) string { return fmt.Sprintf("note number %08d", i) }

// field is one of a form's fields and what goes into it.
type field struct{ name, id, kind, value string }

func form(i int) []field {
	return []field{
		{"Name", "name", "textbox", fmt.Sprintf("Ada %d", i)},
		{"City", "city", "textbox", fmt.Sprintf("Lund %d", i)},
		{"Street", "street", "textbox", fmt.Sprintf("Long Street %d", i)},
		{"Sort", "sort", "combobox", []string{"Newest", "Oldest"}[i%2]},
	}
}

// counts is what the page itself says about what happened in it.
type counts map[string]string

var statePattern = regexp.MustCompile(`state\[([^\]]*)\]`)

// readCounts finds the page's words in whatever a subject wraps them into.
func readCounts(text string) (counts, error) {
	m := statePattern.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("the page's state was not given: %.200s", text)
	}
	c := counts{}
	for part := range strings.SplitSeq(m[1], ";") {
		k, v, _ := strings.Cut(part, "=")
		c[k] = v
	}
	return c, nil
}

func (c counts) number(key string) int {
	n, _ := strconv.Atoi(c[key])
	return n
}

// proven tells whether the page shows that op was done n times between two looks
// at it, last in iteration last.
func proven(op operation, before, after counts, n, last int) error {
	grew := func(key string) error {
		if got := after.number(key) - before.number(key); got != n {
			return fmt.Errorf("the page counted %d of %d", got, n)
		}
		return nil
	}
	holds := func(id, want string) error {
		if after[id] != want {
			return fmt.Errorf("the field %s holds %q, not %q", id, after[id], want)
		}
		return nil
	}
	switch op {
	case opClick:
		return grew("clicks")
	case opNothing:
		return grew("dead")
	case opHover:
		return grew("hovers")
	case opPress:
		return grew("keys")
	case opType:
		if after.number("notes") < before.number("notes")+n {
			return fmt.Errorf("the field changed %d times, not %d", after.number("notes")-before.number("notes"), n)
		}
		return holds("plain", note(last))
	case opFill:
		for _, f := range form(last) {
			if err := holds(f.id, f.value); err != nil {
				return err
			}
		}
	case opNavigate:
		return holds("view", fmt.Sprint(last))
	}
	return nil // its answer was checked as it came
}
