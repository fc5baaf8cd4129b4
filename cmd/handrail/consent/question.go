package consent

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// toldLines says in lines what a call would do, as far as those who may answer are told;
// whole: with scripts and long texts. The gateway has made it safe to look at; Plain does
// so once more for this terminal.
func toldLines(q *api.Told, whole bool) []string {
	if q == nil {
		return nil
	}
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, terminal.Plain(fmt.Sprintf(format, args...))) }
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
				lines = append(lines, "  "+terminal.Plain(strings.TrimRight(line, "\n")))
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

// formLines says in lines what a provider's program asks, in its words.
func formLines(f *api.Form) []string {
	lines := []string{terminal.Plain("it says: \"" + f.Message + "\"")}
	for _, one := range f.Fields {
		what := one.Kind
		switch {
		case len(one.Choices) > 0:
			var values []string
			for _, c := range one.Choices {
				if c.Title != "" && c.Title != c.Value {
					values = append(values, c.Value+" ("+c.Title+")")
				} else {
					values = append(values, c.Value)
				}
			}
			what = map[string]string{"choice": "one of ", "choices": "some, with commas, of "}[one.Kind] + strings.Join(values, ", ")
		case one.Kind == "boolean":
			what = "true or false"
		case one.Format != "":
			what = one.Format
		}
		if one.Least != nil {
			what += fmt.Sprintf(", at least %v", *one.Least)
		}
		if one.Most != nil {
			what += fmt.Sprintf(", at most %v", *one.Most)
		}
		if !one.Required {
			what += ", optional"
		}
		text := one.Name + ": " + what
		if one.Title != "" && one.Title != one.Name {
			text = one.Name + " (" + one.Title + "): " + what
		}
		lines = append(lines, terminal.Plain(text))
		if one.Note != "" {
			lines = append(lines, "  "+terminal.Plain(one.Note))
		}
	}
	return lines
}

// printForm writes what a provider's program asks, and the commands that answer it.
func (a *approvalView) printForm(out io.Writer, where string) {
	fmt.Fprintf(out, "%s  the provider %s asks you something\n", terminal.Plain(a.ID), terminal.Plain(a.Form.Provider))
	fmt.Fprintf(out, "    its tool %s on %s, in a call of %s, lane %s, asked %s, open until %s\n", terminal.Plain(string(a.Tool)),
		terminal.Plain(where), terminal.Plain(string(a.Principal)), terminal.Plain(string(a.Lane)),
		terminal.Ago(time.Now(), a.Created), a.Expires.Local().Format(terminal.Clock))
	if a.State != "" && a.State != "pending" {
		fmt.Fprintf(out, "    %s\n", terminal.Plain(strings.TrimSuffix(a.State+": "+a.Closed, ": ")))
		return
	}
	for _, line := range formLines(a.Form) {
		fmt.Fprintf(out, "    %s\n", line)
	}
	fmt.Fprintf(out, "    Your answer goes to this provider, and it may pass it on to the agent.\n")
	set := ""
	for _, f := range a.Form.Fields {
		if f.Required {
			set += " --set " + terminal.Plain(f.Name) + "=…"
		}
	}
	fmt.Fprintf(out, "    handrail approve %s%s | handrail deny %s (--dismiss: no answer)\n", terminal.Plain(a.ID), set, terminal.Plain(a.ID))
}
