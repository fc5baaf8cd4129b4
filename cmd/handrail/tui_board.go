package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	api "github.com/handrail-dev/handrail/gateway/client"
)

// board is what the terminal shows. It is a value of one goroutine: keys and news
// change it, frame draws it, and neither touches a terminal or a gateway.
type board struct {
	address   string
	approvals []api.Approval // that wait, oldest first
	calls     []api.CallView // newest first
	stop      api.StopState
	lost      string // why there is no news; "" while there is

	pane     int    // 0 approvals, 1 calls
	approval string // the selected one, by ID: what arrives or goes never moves a key to another
	call     string
	open     bool // the selected one is shown whole
	// whole are the questions of its task that are shown with it, by ID: an answer is for all
	// of them, and for none that came since.
	whole  []string
	ask    string // "stop" or "resume": waits for y
	notice string
	help   bool
}

// deed is what a key asks the gateway for.
type deed struct {
	what     string // allow, lease, family, deny, stop, resume or quit
	approval api.Approval
	// together are the questions of one task, which one answer is for; nil: approval alone.
	together []string
}

// news replaces what the gateway said before.
func (b *board) news(approvals []api.Approval, calls []api.CallView, stop api.StopState) {
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
	if !slices.ContainsFunc(calls, func(c api.CallView) bool { return string(c.ID) == b.call }) {
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
	at := slices.IndexFunc(b.calls, func(c api.CallView) bool { return string(c.ID) == b.call })
	if at += by; at >= 0 && at < len(b.calls) {
		b.call = string(b.calls[at].ID)
	}
}

// key takes one key, by its name, and gives what is to be done at the gateway.
// Allowing works only while the question is shown whole, and closes it: a key
// pressed twice never answers the next one.
func (b *board) key(name string) *deed {
	if b.ask != "" {
		what := b.ask
		b.ask, b.notice = "", ""
		if name == "y" {
			return &deed{what: what}
		}
		return nil
	}
	if b.help {
		b.help = false
		return nil
	}
	b.notice = ""
	a := b.selected()
	switch name {
	case "q", "ctrl-c":
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
			b.notice = "nothing is selected that waits"
			return nil
		}
		if b.open && b.whole != nil && name != "d" && slices.ContainsFunc(b.together(), func(q api.Approval) bool { return q.Longest == "call" }) {
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
		if (name == "5" || name == "g") && a.Longest == "call" {
			b.notice = "this can be allowed once only"
			return nil
		}
		defer func() { b.open = false }()
		if name == "5" {
			return b.answer("lease", a)
		}
		if name == "g" {
			return b.answer("family", a)
		}
		return b.answer("allow", a)
	}
	return nil
}

// answer makes the deed of an answer: for all questions that are shown, or the selected one.
func (b *board) answer(what string, a *api.Approval) *deed {
	d := &deed{what: what, approval: *a}
	if b.open && b.whole != nil {
		for _, q := range b.together() {
			d.together = append(d.together, q.ID)
		}
	}
	return d
}

// together gives the questions that are shown with the selected one and still wait.
func (b *board) together() (all []api.Approval) {
	for _, q := range b.approvals {
		if slices.Contains(b.whole, q.ID) {
			all = append(all, q)
		}
	}
	return all
}

// task gives the questions of the caller and lane of a.
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
	slices.SortStableFunc(all, func(a, b api.Approval) int {
		x, y := of(&a), of(&b)
		return cmp.Or(first[x].Compare(first[y]), cmp.Compare(x.who, y.who), cmp.Compare(x.lane, y.lane), a.Created.Compare(b.Created))
	})
}

// frame gives exactly height lines of at most width columns. What is selected and
// how things stand is said in words and marks; colour says nothing.
func (b *board) frame(now time.Time, width, height int) []string {
	width, height = max(width, 20), max(height, 6)
	state := "RUNNING"
	if b.stop.Stopped {
		state = fmt.Sprintf("STOPPED by %s %s", plain(string(b.stop.By)), ago(now, b.stop.Since))
		if b.stop.Reason != "" {
			state += ": " + plain(b.stop.Reason)
		}
	}
	if b.lost != "" {
		state = "NO NEWS: " + plain(b.lost)
	}
	head := []string{"handrail  " + state, fmt.Sprintf("%s  %s, %s", b.address, waiting(len(b.approvals)), running(b.calls))}
	foot := []string{b.footer()}
	room := height - len(head) - len(foot)
	var body []string
	switch {
	case b.help:
		body = strings.Split(tuiHelp, "\n")
	case b.open && b.whole != nil && b.pane == 0 && b.selected() != nil:
		body = b.questions(now, b.together(), width)
	case b.open && b.pane == 0 && b.selected() != nil:
		body = b.question(now, *b.selected(), width)
	case b.open && b.pane == 1:
		body = b.oneCall(now)
	default:
		body = b.lists(now, room)
	}
	if len(body) > room {
		body = append(body[:room-1], fmt.Sprintf("… %d more lines; make the terminal higher to see them", len(body)-room+1))
	}
	for len(body) < room {
		body = append(body, "")
	}
	lines := slices.Concat(head, body, foot)
	for i := range lines {
		lines[i] = clipTo(lines[i], width)
	}
	return lines
}

func waiting(n int) string {
	if n == 0 {
		return "no approvals pending"
	}
	return fmt.Sprintf("%d waiting for you", n)
}

func running(calls []api.CallView) string {
	n := 0
	for _, c := range calls {
		if c.State == "dispatched" {
			n++
		}
	}
	return fmt.Sprintf("%d running", n)
}

func (b *board) footer() string {
	switch {
	case b.ask == "stop":
		return "STOP EVERYTHING? y stops; any other key does not"
	case b.ask == "resume":
		return "LET CALLS RUN AGAIN? y does; any other key does not"
	case b.notice != "":
		return plain(b.notice)
	case b.open && b.whole != nil && b.pane == 0:
		return "FOR ALL OF THEM: a allow once  5 five minutes  d deny  Esc back  s stop everything"
	case b.open && b.pane == 0:
		return "a allow once  5 five minutes  g all its family, five minutes  d deny  Esc back  s stop everything"
	}
	return "Up/Down choose  Enter look  d deny  Tab other  s stop  r resume  ? help  q quit"
}

const tuiHelp = `Up, k / Down, j   choose
Tab               between what waits and the calls
Enter             look at it whole; again or Esc: back
a                 allow this call, once (while it is shown whole)
5                 allow the tool on that node in that lane for five minutes
g                 allow all tools of its family there, for five minutes
d                 deny it
t                 look at all questions of its task (one caller, one lane); a, 5, g and d are for all of them then
s, then y         stop everything: calls end, grants are revoked
r, then y         let calls run again
q, Ctrl-C         leave; what waits goes on waiting

Any key goes back.`

// lists shows both lists; the one that has the keys gets two thirds.
func (b *board) lists(now time.Time, room int) []string {
	var first, second []string
	for _, a := range b.approvals {
		where := cmp.Or(a.NodeLabel, string(a.Node), "the gateway")
		wants := "wants " + string(a.Tool)
		if a.Question != nil && a.Question.Does != "" {
			wants = a.Question.Does + a.Question.Into
		}
		of := ""
		if n := len(b.task(&a)); n > 1 {
			of = fmt.Sprintf(" (t: %d of this task)", n)
		}
		first = append(first, fmt.Sprintf("%s %-8s risk  %s %s on %s, %s%s", marker(b.pane == 0 && a.ID == b.approval),
			plain(a.Risk), plain(string(a.Principal)), plain(wants), plain(where), ago(now, a.Created), of))
	}
	if len(first) == 0 {
		first = []string{"  Nothing. A call that policy wants you to confirm appears here."}
	}
	for _, c := range b.calls {
		second = append(second, fmt.Sprintf("%s %-10s %s by %s, %s", marker(b.pane == 1 && string(c.ID) == b.call), outcome(c), did(c), plain(string(c.Principal)), ago(now, c.StartedAt)))
	}
	if len(second) == 0 {
		second = []string{"  None yet. 'handrail connect CLIENT' connects an agent."}
	}
	titles := []string{"WAITING FOR YOU", "CALLS"}
	titles[b.pane] += " (keys are here)"
	space := max(room-3, 2) // the titles and the line between
	least := space / 3
	n := len(first)
	if len(first)+len(second) > space {
		n = min(len(first), max(space-len(second), map[bool]int{true: space - least, false: least}[b.pane == 0]))
	}
	out := append([]string{titles[0]}, window(first, n, b.pane == 0)...)
	out = append(out, "", titles[1])
	return append(out, window(second, max(room-len(out), 1), b.pane == 1)...)
}

// window gives at most n lines, with the marked one among them.
func window(lines []string, n int, marked bool) []string {
	n = max(n, 1)
	if len(lines) <= n {
		return lines
	}
	from := 0
	if marked {
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, ">") })
		from = min(max(at-n/2, 0), len(lines)-n)
	}
	return lines[from : from+n]
}

func marker(selected bool) string {
	if selected {
		return ">"
	}
	return " "
}

func outcome(c api.CallView) string {
	switch {
	case c.State == "dispatched":
		return "running"
	case c.State != "ended":
		return plain(c.State)
	case c.EndedBy != "":
		return "ended"
	case c.Code != "":
		return plain(string(c.Status) + " " + string(c.Code))
	}
	return plain(string(c.Status))
}

// question shows all of what a person decides about, and what the agent did in
// that lane before.
func (b *board) question(now time.Time, a api.Approval, width int) []string {
	lines := b.asked(now, a, width)
	lines = append(lines, "", "before, in this lane:")
	shown := 0
	for _, c := range b.calls {
		if c.Lane == a.Lane && c.State == "ended" && shown < 5 {
			lines = append(lines, fmt.Sprintf("  %-10s %s, %s", outcome(c), did(c), ago(now, c.StartedAt)))
			shown++
		}
	}
	if shown == 0 {
		lines = append(lines, "  nothing")
	}
	return lines
}

// did is what a call did, in words.
func did(c api.CallView) string { return plain(cmp.Or(c.Phrase, string(c.Tool))) }

// questions are those of one task, each whole.
func (b *board) questions(now time.Time, all []api.Approval, width int) []string {
	lines := []string{fmt.Sprintf("%d questions of %s in lane %s", len(all), plain(string(all[0].Principal)), plain(string(all[0].Lane)))}
	if slices.ContainsFunc(all, func(q api.Approval) bool { return q.Longest == "call" }) {
		lines = append(lines, "One of them is asked about at each call, so they are allowed one by one.")
	}
	for _, a := range all {
		lines = append(lines, "")
		lines = append(lines, b.asked(now, a, width)...)
	}
	return lines
}

// asked is one question whole.
func (b *board) asked(now time.Time, a api.Approval, width int) []string {
	where := cmp.Or(a.NodeLabel, string(a.Node), "the gateway")
	lines := []string{
		fmt.Sprintf("%s  %s RISK", plain(a.ID), strings.ToUpper(plain(a.Risk))),
		fmt.Sprintf("%s wants %s (%s)", plain(string(a.Principal)), plain(string(a.Tool)), plain(a.Title)),
		fmt.Sprintf("on %s, lane %s, asked %s, open until %s", plain(where), plain(string(a.Lane)), ago(now, a.Created), a.Expires.Local().Format(clock)),
	}
	for _, line := range toldLines(a.Question, false) {
		lines = append(lines, folded("  "+line, width)...)
	}
	if a.Question == nil || len(a.Question.Fields) == 0 {
		for _, k := range slices.Sorted(keysOf(a.Arguments)) {
			lines = append(lines, folded("  "+plain(k)+": "+plain(fmt.Sprint(a.Arguments[k])), width)...)
		}
	}
	lines = append(lines, folded("  "+waits(a.Waiting, a.MayReturn), width)...)
	for _, part := range []struct {
		name string
		list []string
	}{{"hosts", a.Hosts}, {"paths", a.Paths}, {"touches", a.Keys}, {"because", slices.Concat(a.Why, a.Policies)}} {
		if text := strings.Join(part.list, ", "); text != "" {
			lines = append(lines, folded("  "+part.name+": "+plain(text), width)...)
		}
	}
	if text := lending(a.Hands && a.Longest != "call", where); text != "" {
		lines = append(lines, folded("  "+plain(text), width)...)
	}
	return lines
}

func (b *board) oneCall(now time.Time) []string {
	for _, c := range b.calls {
		if string(c.ID) != b.call {
			continue
		}
		return []string{
			plain(string(c.ID)) + "  " + outcome(c) + ": " + did(c),
			fmt.Sprintf("%s by %s, %s, over %s", plain(string(c.Tool)), plain(string(c.Principal)), ago(now, c.StartedAt), plain(c.Surface)),
			fmt.Sprintf("lane %s, node %s", plain(string(c.Lane)), plain(string(c.Node))),
			fmt.Sprintf("policy said %s; effect %s; %.0f ms", plain(c.Decision), plain(string(c.Effect)), c.DurationMS),
			"", fmt.Sprintf("all of it: handrail ledger show --call %s", plain(string(c.ID))),
		}
	}
	return nil
}

// folded breaks a long line at the edge: what a person decides about is never cut off.
func folded(s string, width int) []string {
	var lines []string
	for {
		head := clipTo(s, width)
		lines = append(lines, head)
		if len(head) >= len(s) || head == "" {
			return lines
		}
		s = "    " + s[len(head):]
		if width <= 5 {
			return lines
		}
	}
}

// clipTo gives the part of s that fits into width columns.
func clipTo(s string, width int) string {
	used := 0
	for i, r := range s {
		w := 1
		if r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 || r >= 0xf900 && r <= 0xfaff ||
			r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 || r >= 0xffe0 && r <= 0xffe6 || r >= 0x1f300) {
			w = 2 // East Asian wide characters and pictures (Unicode Standard Annex 11)
		}
		if used += w; used > width {
			return s[:i]
		}
	}
	return s
}
