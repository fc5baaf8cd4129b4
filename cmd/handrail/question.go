package main

import (
	"fmt"
	"strings"

	"github.com/handrail-dev/handrail/gateway/api"
)

// toldLines says in lines what a call would do, as far as those who may answer are told;
// whole: with scripts and long texts. The gateway has made it safe to look at; plain does
// so once more for this terminal.
func toldLines(q *api.Told, whole bool) []string {
	if q == nil {
		return nil
	}
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, plain(fmt.Sprintf(format, args...))) }
	if q.Does != "" {
		add("it %s%s", q.Does, q.Into)
	} else if q.Into != "" {
		add("it works%s", q.Into)
	}
	if q.Where != nil && q.Where.Terminal {
		add("what is typed there are commands")
	}
	if q.Purpose != "" {
		add("the agent says why: \"%s\"", q.Purpose)
	}
	for _, f := range q.Fields {
		switch {
		case f.Hidden:
			add("%s: (a password; nobody is shown it)", f.Name)
		case f.Script && !whole:
			add("%s: %d lines; 'handrail approvals --show' prints them", f.Name, strings.Count(f.Text, "\n")+1)
		case f.Script:
			add("%s:", f.Name)
			for line := range strings.Lines(f.Text) {
				lines = append(lines, "  "+plain(strings.TrimRight(line, "\n")))
			}
		default:
			add("%s: %s", f.Name, f.Text+is(f))
		}
		if f.More > 0 {
			add("  … and %d characters more", f.More)
		}
	}
	if q.TooLong {
		add("its arguments are too long to be shown")
	}
	if q.Frame != nil && q.Frame.Available {
		add("the console shows the place in the agent's picture %s", q.Frame.ID)
	} else if q.Frame != nil {
		add("it points into picture %s, which is not available here", q.Frame.ID)
	}
	return lines
}

// is says which element an argument names.
func is(f api.Field) string {
	if f.Is == "" {
		return ""
	}
	return " (" + f.Is + ")"
}

// waits says whether anybody is there for the answer.
func waits(now int, mayReturn bool) string {
	switch {
	case now > 0:
		return "its caller waits"
	case mayReturn:
		return "its caller does not wait now, and was told to come back for the answer"
	}
	return "nobody waits for the answer now"
}
