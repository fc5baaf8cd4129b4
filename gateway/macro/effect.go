package macro

import (
	"fmt"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// effects are the steps of a run by what was seen of their effect, each step once in a list.
type effects struct {
	confirmed, unseen, doubtful []string
}

// add notes the effect of a call that ended well. Many tools that only read claim none.
func (e *effects) add(step string, effect capabilities.Effect) {
	list := &e.doubtful
	switch effect {
	case "":
		return
	case capabilities.EffectConfirmed:
		list = &e.confirmed
	case capabilities.EffectUnverifiable:
		list = &e.unseen
	}
	if !slices.Contains(*list, step) {
		*list = append(*list, step)
	}
}

// sum is what the effects of a run's calls add up to: no more than the worst of them. The
// evidence names the steps. A run that made no call did nothing.
func (r *run) sum() (capabilities.Effect, string) {
	e := &r.seen
	var all []string
	for _, one := range []struct {
		what  string
		steps []string
	}{{"confirmed", e.confirmed}, {"not verified", e.unseen}, {"doubtful", e.doubtful}} {
		if len(one.steps) > 0 {
			all = append(all, one.what+": "+named(one.steps))
		}
	}
	evidence := strings.Join(all, "; ")
	switch {
	case r.calls == 0:
		return capabilities.EffectSuspectNoop, "every step was skipped"
	case len(e.doubtful) > 0:
		return capabilities.EffectPartial, evidence
	case len(e.unseen) > 0:
		return capabilities.EffectUnverifiable, evidence
	case len(e.confirmed) > 0:
		return capabilities.EffectConfirmed, "that of each step: " + named(e.confirmed)
	}
	return "", ""
}

// partly says what a run that failed carried out, and what of it was undone.
func partly(f *Failed) string {
	names := func(list []Taken) (steps []string) {
		for _, t := range list {
			if t.Status == capabilities.StatusOK && !slices.Contains(steps, t.Step) {
				steps = append(steps, t.Step)
			}
		}
		return steps
	}
	said := "carried out: " + orNone(names(f.Steps)) + "; failed: " + f.Step
	if len(f.Undone) > 0 {
		said += "; undone: " + orNone(names(f.Undone))
	}
	return said
}

func orNone(steps []string) string {
	if len(steps) == 0 {
		return "none"
	}
	return named(steps)
}

// maxNamed is how many steps an evidence names of one kind.
const maxNamed = 8

func named(steps []string) string {
	if len(steps) <= maxNamed {
		return strings.Join(steps, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(steps[:maxNamed], ", "), len(steps)-maxNamed)
}
