package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"time"
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
	opAgain    operation = "screenshot, again at once"
)

// goal is what is to be reached in ms on each page; 0 for none.
type goal struct {
	op           operation
	small, large float64
	// apart: asked at random moments, not as soon as the last answer is there. Chrome
	// works in ticks of its display, and an answer ends at a fixed place in one; so who
	// asks at once always asks at the same place, and measures that place.
	apart bool
}

// pause is how long a subject is left alone before it is asked apart: up to three
// ticks of the display, the same for every subject.
func pause(i int) time.Duration {
	return time.Duration(rand.New(rand.NewPCG(1, uint64(i))).Int64N(int64(50 * time.Millisecond)))
}

// goals are the operations in the order of measuring, with the targets of the
// family. Navigation's target is the floor and 15 %.
var goals = []goal{
	{op: opNavigate},
	{op: opClick, small: 30, large: 35},
	{op: opNothing, small: 280, large: 280},
	{op: opType, small: 14, large: 16},
	{op: opFill, small: 30, large: 35},
	{op: opHover, small: 42, large: 44},
	{op: opPress, small: 10, large: 10},
	{op: opEvaluate, small: 4, large: 4},
	{op: opTabs, small: 3, large: 3},
	{op: opSnapshot, small: 7, large: 80},
	{op: opFull, small: 7, large: 80},
	{op: opShot, small: 40, large: 42, apart: true},
	{op: opAgain},
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
