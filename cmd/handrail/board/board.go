package board

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/handrail-dev/handrail/gateway/api"
)

// board is what the terminal shows. It is a value of one goroutine: keys and news
// change it, frame draws it, and neither touches a terminal or a gateway.
type board struct {
	address   string
	words     Words
	approvals []api.Approval // that wait, oldest first
	calls     []api.Call     // newest first
	stop      api.Stop
	lost      string // why there is no news; "" while there is

	pane     int    // 0 approvals, 1 calls
	approval string // the selected one, by ID: what arrives or goes never moves a key to another
	call     string
	open     bool // the selected one is shown whole
	// whole are the questions of its task that are shown with it, by ID: an answer is for all
	// of them, and for none that came since.
	whole  []string
	ask    string // "stop", "resume" or "acknowledge": waits for y
	seen   *deed  // what y to "acknowledge" does
	notice string
	help   bool
	top    int // the first line of the body that is shown, where it is longer than the screen
}

// page is how many lines PgUp and PgDn go.
const page = 5

// deed is what a key asks the gateway for.
type deed struct {
	what     string // allow, lease, family, deny, stop, resume or quit
	approval api.Approval
	// together are the questions of one task, which one answer is for; nil: approval alone.
	together []string
	// acknowledges: what it allows is privileged or may destroy something, and the person said
	// that they know.
	acknowledges bool
}

// news replaces what the gateway said before.
func (b *board) news(approvals []api.Approval, calls []api.Call, stop api.Stop) {
	byTask(approvals)
	b.approvals, b.calls, b.stop, b.lost = approvals, calls, stop, ""
	if b.selected() == nil {
		if b.open && b.pane == 0 && b.approval != "" {
			b.open, b.notice = false, b.approval+" was answered elsewhere or has expired"
		}
		b.approval = ""
		if len(approvals) > 0 {
			b.approval = approvals[0].ID
		}
	}
	if !slices.ContainsFunc(calls, func(c api.Call) bool { return string(c.ID) == b.call }) {
		b.call = ""
		if len(calls) > 0 {
			b.call = string(calls[0].ID)
		}
	}
}

func (b *board) selected() *api.Approval {
	for i := range b.approvals {
		if b.approvals[i].ID == b.approval {
			return &b.approvals[i]
		}
	}
	return nil
}

// move selects the next or the one before in the pane that has the keys.
func (b *board) move(by int) {
	if b.pane == 0 {
		at := slices.IndexFunc(b.approvals, func(a api.Approval) bool { return a.ID == b.approval })
		if at += by; at >= 0 && at < len(b.approvals) {
			b.approval = b.approvals[at].ID
		}
		return
	}
	at := slices.IndexFunc(b.calls, func(c api.Call) bool { return string(c.ID) == b.call })
	if at += by; at >= 0 && at < len(b.calls) {
		b.call = string(b.calls[at].ID)
	}
}

// key takes one key, by its name, and returns what is to be done at the gateway.
// Allowing works only while the question is shown whole, and closes it: a key
// pressed twice never answers the next one.
func (b *board) key(name string) *deed {
	switch name {
	case "pgdown", "space":
		b.top += page
		return nil
	case "pgup":
		b.top = max(b.top-page, 0)
		return nil
	}
	b.top = 0
	if b.ask != "" {
		what, seen := b.ask, b.seen
		b.ask, b.notice, b.seen = "", "", nil
		switch {
		case name != "y":
			return nil
		case what == "acknowledge":
			b.open = false
			return seen
		}
		return &deed{what: what}
	}
	if b.help {
		b.help = false
		return nil
	}
	b.notice = ""
	a := b.selected()
	switch name {
	case "q", "ctrl+c", "ctrl+d":
		return &deed{what: "quit"}
	case "?":
		b.help = true
	case "up", "k":
		b.open = false
		b.move(-1)
	case "down", "j":
		b.open = false
		b.move(1)
	case "tab":
		b.pane, b.open = 1-b.pane, false
	case "t":
		if b.pane != 0 || a == nil || len(b.task(a)) < 2 {
			b.notice = "it is the only question of its task"
			return nil
		}
		b.open, b.whole = true, nil
		for _, q := range b.task(a) {
			b.whole = append(b.whole, q.ID)
		}
	case "enter":
		b.whole = nil
		b.open = !b.open && (b.pane == 0 && a != nil || b.pane == 1 && b.call != "")
	case "esc":
		b.open = false
	case "s":
		b.ask = "stop"
	case "r":
		b.ask = "resume"
	case "a", "5", "g", "d":
		if b.pane != 0 || a == nil {
			b.notice = "select a question first"
			return nil
		}
		if b.open && b.whole != nil && name != "d" &&
			slices.ContainsFunc(b.together(), func(q api.Approval) bool { return q.Longest == "call" }) {
			b.notice = "one of them is asked about at each call: Esc, and allow them one by one"
			return nil
		}
		if name == "d" {
			defer func() { b.open = false }()
			return b.answer("deny", a)
		}
		if !b.open {
			b.notice = "look at it first: Enter shows the whole question"
			return nil
		}
		if a.Form != nil {
			b.notice = "it has fields to fill in: answer it in the console, or with 'handrail approve ID --set NAME=VALUE'"
			return nil
		}
		if (name == "5" || name == "g") && a.Longest == "call" {
			b.notice = "this can be allowed once only"
			return nil
		}
		d := b.answer(map[string]string{"5": "lease", "g": "family", "a": "allow"}[name], a)
		if d.acknowledges {
			b.ask, b.seen = "acknowledge", d
			return nil
		}
		b.open = false
		return d
	}
	return nil
}

// answer makes the deed of an answer: for all questions that are shown, or the selected one.
func (b *board) answer(what string, a *api.Approval) *deed {
	d := &deed{what: what, approval: *a, acknowledges: len(a.Surface.Acknowledge) > 0}
	if b.open && b.whole != nil {
		for _, q := range b.together() {
			d.together = append(d.together, q.ID)
			d.acknowledges = d.acknowledges || len(q.Surface.Acknowledge) > 0
		}
	}
	return d
}

// together returns the questions that are shown with the selected one and still wait.
func (b *board) together() (all []api.Approval) {
	for _, q := range b.approvals {
		if slices.Contains(b.whole, q.ID) {
			all = append(all, q)
		}
	}
	return all
}

// task returns the questions of the caller and lane of a.
func (b *board) task(a *api.Approval) (all []api.Approval) {
	for _, q := range b.approvals {
		if q.Principal == a.Principal && q.Lane == a.Lane {
			all = append(all, q)
		}
	}
	return all
}

// byTask puts the questions of one caller in one lane together, the task with the oldest
// first.
func byTask(all []api.Approval) {
	type task struct{ who, lane string }
	of := func(a *api.Approval) task { return task{string(a.Principal), string(a.Lane)} }
	first := map[task]time.Time{}
	for i := range all {
		if t, known := first[of(&all[i])]; !known || all[i].Created.Before(t) {
			first[of(&all[i])] = all[i].Created
		}
	}
	sort.SliceStable(all, func(i, j int) bool {
		a, b := all[i], all[j]
		x, y := of(&a), of(&b)
		return cmp.Or(first[x].Compare(first[y]), cmp.Compare(x.who, y.who), cmp.Compare(x.lane, y.lane), a.Created.Compare(b.Created)) < 0
	})
}
