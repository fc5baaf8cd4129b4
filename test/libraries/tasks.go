package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/tasks"
	"github.com/handrail-dev/handrail/test/bench/figures"
)

// toldTasks words what tasks cost each side, and when pages that settle late were read as they
// then are.
func toldTasks(chosen []*suite.Behaviour, ours, theirs side, folder string) (string, error) {
	var out, late strings.Builder
	fmt.Fprintf(&out, "Measured on %s, %s.\n\n", time.Now().UTC().Format("2006-01-02"), figures.Machine())
	fmt.Fprintf(&out, "| task | %s: tokens | calls | ms | %s: tokens | calls | ms |\n|---|---|---|---|---|---|---|\n", ours.called, theirs.called)
	fmt.Fprintf(&late, "\n| page | %s: ms | calls | %s: ms | calls |\n|---|---|---|---|---|\n", ours.called, theirs.called)
	for _, b := range chosen {
		to := &out
		if tasks.Settles(b.ID) {
			to = &late
		}
		fmt.Fprintf(to, "| `%s`", b.ID)
		for _, s := range []side{ours, theirs} {
			calls := s.calls[b.ID]
			switch passed := s.outcomes[b.ID].Status == suite.Passed; {
			case !passed && tasks.Settles(b.ID):
				to.WriteString(" | **fails** | ")
			case !passed:
				to.WriteString(" | **fails** | | ")
			case tasks.Settles(b.ID):
				took, n := settled(calls)
				fmt.Fprintf(to, " | %d | %d", took.Milliseconds(), n)
			default:
				tokens, err := countTokens(folder, s.texts(b.ID))
				if err != nil {
					return "", err
				}
				fmt.Fprintf(to, " | %d | %d | %d", tokens, len(calls), spent(calls).Milliseconds())
			}
		}
		to.WriteString(" |\n")
	}
	return out.String() + late.String(), nil
}

// spent is how long calls took, without what was between them.
func spent(calls []*suite.Call) (sum time.Duration) {
	for _, c := range calls {
		sum += c.Answered.Sub(c.Sent)
	}
	return sum
}

// settled is how long after the click was sent an answer showed the settled page, and by how many
// calls, the click's own among them.
func settled(calls []*suite.Call) (took time.Duration, n int) {
	var since time.Time
	for _, c := range calls {
		if c.Tool == "click" && since.IsZero() {
			since = c.Sent
		}
		if since.IsZero() {
			continue
		}
		if n++; strings.Contains(c.Text, tasks.Marker) {
			return c.Answered.Sub(since), n
		}
	}
	return 0, n
}
