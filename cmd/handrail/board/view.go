package board

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// frame returns exactly height lines of at most width columns. Words and marks say which line is
// selected and how things stand; colour says nothing.
func (b *board) frame(now time.Time, width, height int) []string {
	width, height = max(width, 20), max(height, 6)
	state := "RUNNING"
	if b.stop.Stopped {
		state = fmt.Sprintf("STOPPED by %s %s", plain(string(b.stop.By)), b.words.Ago(now, b.stop.Since))
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
		body = strings.Split(help, "\n")
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
		b := min(b.top, len(body)-room+1) // the last page is a full one
		above, below := b, len(body)-room+1-b
		body = append(slices.Clone(body[b:b+room-1]), fmt.Sprintf("… %d lines above, %d below: PgUp, PgDn", above, below))
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

func running(calls []api.Call) string {
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
	case b.ask == "acknowledge":
		return "IT IS PRIVILEGED OR MAY DESTROY SOMETHING: y says that you know it, and allows; any other key does not"
	case b.notice != "":
		return plain(b.notice)
	case b.open && b.whole != nil && b.pane == 0:
		return "FOR ALL OF THEM: a allow once  5 five minutes  d deny  Esc back  s stop everything"
	case b.open && b.pane == 0:
		return "a allow once  5 five minutes  g all its family, five minutes  d deny  Esc back  s stop everything"
	}
	return "Up/Down choose  Enter look  d deny  Tab other  s stop  r resume  ? help  q quit"
}

const help = `Up, k / Down, j   choose
PgUp, PgDn        what does not fit on the screen
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
			plain(a.Risk), plain(string(a.Principal)), plain(wants), plain(where), b.words.Ago(now, a.Created), of))
	}
	if len(first) == 0 {
		first = []string{"  Nothing. A call that policy wants you to confirm appears here."}
	}
	for _, c := range b.calls {
		second = append(second, fmt.Sprintf("%s %-10s %s by %s, %s", marker(b.pane == 1 && string(c.ID) == b.call), outcome(c), did(c),
			plain(string(c.Principal)), b.words.Ago(now, c.StartedAt)))
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

// window returns at most n lines, with the marked one among them.
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

func outcome(c api.Call) string {
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
			lines = append(lines, fmt.Sprintf("  %-10s %s, %s", outcome(c), did(c), b.words.Ago(now, c.StartedAt)))
			shown++
		}
	}
	if shown == 0 {
		lines = append(lines, "  nothing")
	}
	return lines
}

// did is what a call did, in words.
func did(c api.Call) string { return plain(cmp.Or(c.Phrase, string(c.Tool))) }

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

// headOf is a question's first line.
func headOf(a *api.Approval) string {
	if a.Form != nil {
		return plain(a.ID) + "  THE PROVIDER " + strings.ToUpper(plain(a.Form.Provider)) + " ASKS YOU SOMETHING"
	}
	if a.Wants != "" {
		return plain(a.ID) + "  THIS CALL WANTS " + plain(a.Wants)
	}
	return fmt.Sprintf("%s  %s RISK", plain(a.ID), strings.ToUpper(plain(a.Risk)))
}

// asked is one question whole.
func (b *board) asked(now time.Time, a api.Approval, width int) []string {
	where := cmp.Or(a.NodeLabel, string(a.Node), "the gateway")
	lines := []string{
		headOf(&a),
		fmt.Sprintf("%s wants %s (%s)", plain(string(a.Principal)), plain(string(a.Tool)), plain(a.Title)),
		fmt.Sprintf("on %s, lane %s, asked %s, open until %s", plain(where), plain(string(a.Lane)), b.words.Ago(now, a.Created),
			a.Expires.Local().Format(b.words.Clock)),
	}
	if a.Wants != "" {
		lines[1] = fmt.Sprintf("a call of %s's that runs %s (%s); an answer is for this call and this host alone", plain(string(a.Principal)),
			plain(string(a.Tool)), plain(a.Title))
	}
	if a.Form != nil {
		for _, line := range b.words.Form(a.Form) {
			lines = append(lines, folded("  "+line, width)...)
		}
	}
	if len(a.Through) > 0 {
		lines = append(lines, folded("  through: "+plain(strings.Join(a.Through, "; ")), width)...)
	}
	for _, line := range b.words.Told(a.Question) {
		lines = append(lines, folded("  "+line, width)...)
	}
	if a.Question == nil || len(a.Question.Fields) == 0 {
		for _, k := range slices.Sorted(maps.Keys(a.Arguments)) {
			lines = append(lines, folded("  "+plain(k)+": "+plain(fmt.Sprint(a.Arguments[k])), width)...)
		}
	}
	lines = append(lines, folded("  "+b.words.Waits(a.Waiting, a.MayReturn), width)...)
	for _, part := range []struct {
		name string
		list []string
	}{
		{"mode", a.Surface.Words()}, {"hosts", a.Hosts}, {"paths", a.Paths}, {"touches", a.Keys}, {"because", slices.Concat(a.Why, a.Policies)},
	} {
		if text := strings.Join(part.list, ", "); text != "" {
			lines = append(lines, folded("  "+part.name+": "+plain(text), width)...)
		}
	}
	if text := b.words.Lending(a.Hands && a.Longest != "call", where); text != "" {
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
			fmt.Sprintf("%s by %s, %s, over %s", plain(string(c.Tool)), plain(string(c.Principal)), b.words.Ago(now, c.StartedAt), plain(c.Surface)),
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

// clipTo returns the part of s that fits into width columns.
func clipTo(s string, width int) string { return ansi.Truncate(s, width, "") }

// plain makes what others wrote safe for a terminal.
func plain(s string) string { return capabilities.Escape(s) }
