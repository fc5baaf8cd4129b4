package device

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/record"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

// useReport is what a device did in a time, by who had it done.
type useReport struct {
	Since    time.Time      `json:"since"`
	Until    time.Time      `json:"until"`
	Users    []reportUser   `json:"principals"`
	Answers  []reportAnswer `json:"answers"`
	Stops    []reportStop   `json:"stops"`
	Complete bool           `json:"complete"` // the log reaches back to Since
}

type reportUser struct {
	Principal capabilities.PrincipalID `json:"principal"`
	Uses      []reportUse              `json:"uses"`
	Refused   map[string]int           `json:"refused"` // calls that did not run, by why
}

// reportUse is one tool on one day.
type reportUse struct {
	Tool   capabilities.ToolID `json:"tool_id"`
	Title  string              `json:"title"`
	Day    string              `json:"day"` // 2026-11-18, local
	First  time.Time           `json:"first"`
	Last   time.Time           `json:"last"`
	Count  int                 `json:"count"`
	Failed int                 `json:"failed"`
	Ended  int                 `json:"ended_early"`     // given up from outside, or with the node
	Asked  int                 `json:"with_permission"` // calls that ran on a person's permission
}

type reportAnswer struct {
	Time      time.Time                `json:"time"`
	Principal capabilities.PrincipalID `json:"principal"`
	Tool      capabilities.ToolID      `json:"tool_id"`
	Approved  bool                     `json:"approved"`
	By        string                   `json:"by"`
}

type reportStop struct {
	Time    time.Time `json:"time"`
	Stopped bool      `json:"stopped"`
	By      string    `json:"by"` // device or gateway
}

func newReportCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Say in plain words what was used on this device, when, and by whom",
		Long:  "Says what the device's own log has of the last seven days. It needs no gateway. The log is checked first.",
		Args:  cobra.NoArgs,
	}
	days := cmd.Flags().Int("days", 7, "how many days back")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *days < 1 || *days > 366 {
			return terminal.UsageError("--days may be 1 to 366")
		}
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		name, dir, err := record.NodeChain(data)
		if err != nil {
			return err
		}
		l, err := journal.Read(dir, name)
		if err != nil {
			return err
		}
		cat, err := catalog.Embedded()
		if err != nil {
			return err
		}
		now := time.Now()
		r := makeReport(l, cat, now.AddDate(0, 0, -*days), now)
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintJSON(cmd.OutOrStdout(), r)
		}
		r.print(cmd.OutOrStdout(), *days)
		printWhole(cmd.OutOrStdout(), l)
		return nil
	}
	return cmd
}

func makeReport(l *journal.Log, cat *catalog.Catalog, since, until time.Time) useReport {
	r := useReport{Since: since, Until: until, Users: []reportUser{}, Answers: []reportAnswer{}, Stops: []reportStop{}}
	r.Complete = l.First <= 1 || !time.UnixMicro(l.Records[0].TimeUS).After(since)
	users := map[capabilities.PrincipalID]*reportUser{}
	user := func(p capabilities.PrincipalID) *reportUser {
		if users[p] == nil {
			users[p] = &reportUser{Principal: p, Refused: map[string]int{}}
		}
		return users[p]
	}
	type running struct {
		principal capabilities.PrincipalID
		at        int
	}
	runs := map[capabilities.CallID]running{}
	for i := range l.Records {
		e := &l.Records[i]
		at := e.Time()
		if at.Before(since) || at.After(until) {
			continue
		}
		switch e.Kind {
		case journal.KindStarted:
			u := user(e.Principal)
			day := at.Local().Format(time.DateOnly)
			n := slices.IndexFunc(u.Uses, func(x reportUse) bool { return x.Tool == e.Tool && x.Day == day })
			if n < 0 {
				title := string(e.Tool)
				if d, ok := cat.Get(e.Tool); ok {
					title = d.Title
				}
				u.Uses = append(u.Uses, reportUse{Tool: e.Tool, Title: title, Day: day, First: at, Last: at})
				n = len(u.Uses) - 1
			}
			u.Uses[n].Count++
			u.Uses[n].Last = at
			if e.Grant != "" {
				u.Uses[n].Asked++
			}
			runs[e.Call] = running{e.Principal, n}
		case journal.KindFinished:
			run, ok := runs[e.Call]
			switch {
			case !ok || e.Status == capabilities.StatusOK:
			case e.Code == capabilities.CodeCancelled:
				users[run.principal].Uses[run.at].Ended++
			default:
				users[run.principal].Uses[run.at].Failed++
			}
		case journal.KindRefused:
			user(e.Principal).Refused[string(e.Code)]++
		case journal.KindAnswered:
			r.Answers = append(r.Answers, reportAnswer{Time: at, Principal: e.Principal, Tool: e.Tool, Approved: e.Answer == "approve", By: e.By})
		case journal.KindStopped, journal.KindResumed:
			r.Stops = append(r.Stops, reportStop{Time: at, Stopped: e.Kind == journal.KindStopped, By: e.By})
		}
	}
	for _, u := range users {
		r.Users = append(r.Users, *u)
	}
	sort.Slice(r.Users, func(i, j int) bool { return r.Users[i].Principal < r.Users[j].Principal })
	return r
}

// refusals says in plain words why calls did not run.
var refusals = map[capabilities.Code]string{
	capabilities.CodeDeniedByNode:   "your rules forbid them",
	capabilities.CodeConsentDenied:  "you said no",
	capabilities.CodeStopped:        "the device was stopped",
	capabilities.CodeNodeNotReady:   "the device was not ready for them",
	capabilities.CodeTicketReplayed: "they had been made before",
	capabilities.CodeTicketInvalid:  "the orders did not match what was decided",
}

func (r useReport) print(out io.Writer, days int) {
	span := "In the last " + strconv.Itoa(days) + " days"
	switch days {
	case 1:
		span = "In the last 24 hours"
	case 7:
		span = "This week"
	}
	fmt.Fprintf(out, "%s (%s to %s) on this device:\n", span, r.Since.Local().
		Format("Mon 2 Jan 15:04"), r.Until.Local().Format("Mon 2 Jan 15:04"))
	if !r.Complete {
		fmt.Fprintln(out, "(The log does not reach back that far: what is older was removed to make room.)")
	}
	if len(r.Users) == 0 {
		fmt.Fprintln(out, "\nNobody used anything.")
	}
	for _, u := range r.Users {
		name := string(u.Principal)
		if name == "" {
			name = "somebody unknown"
		}
		fmt.Fprintf(out, "\n%s\n", terminal.Plain(name))
		day := ""
		for _, use := range u.Uses {
			if use.Day != day {
				day = use.Day
				fmt.Fprintf(out, "  %s\n", use.First.Local().Format("Monday 2 January"))
			}
			fmt.Fprintf(out, "    %s: %s, %s%s\n", terminal.Plain(use.Title), times(use.Count), between(use.First, use.Last), aside(use))
		}
		if len(u.Uses) == 0 {
			fmt.Fprintln(out, "  used nothing")
		}
		for _, code := range sortedKeys(u.Refused) {
			why, ok := refusals[capabilities.Code(code)]
			if !ok {
				why = "reason: " + code
			}
			verb := "calls did"
			if u.Refused[code] == 1 {
				verb = "call did"
			}
			fmt.Fprintf(out, "  %d %s not run: %s\n", u.Refused[code], verb, terminal.Plain(why))
		}
	}
	if len(r.Answers) > 0 {
		fmt.Fprintln(out, "\nAnswers given on this device")
	}
	for _, a := range r.Answers {
		word := "no"
		if a.Approved {
			word = "yes"
		}
		fmt.Fprintf(out, "  %s: %s said %s to %s, asked by %s\n", a.Time.Local().
			Format("Mon 2 Jan 15:04"), terminal.Plain(a.By), word, terminal.Plain(string(a.Tool)), terminal.Plain(string(a.Principal)))
	}
	if len(r.Stops) > 0 {
		fmt.Fprintln(out, "\nStops")
	}
	for _, s := range r.Stops {
		word := "resumed"
		if s.Stopped {
			word = "stopped"
		}
		fmt.Fprintf(out, "  %s: %s, at the %s\n", s.Time.Local().Format("Mon 2 Jan 15:04"), word, terminal.Plain(s.By))
	}
	fmt.Fprintln(out)
}

func sortedKeys(m map[string]int) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

func between(a, b time.Time) string {
	from, to := a.Local().Format("15:04"), b.Local().Format("15:04")
	if from == to {
		return "at " + from
	}
	return "from " + from + " to " + to
}

func aside(u reportUse) string {
	var parts []string
	if u.Failed > 0 {
		parts = append(parts, strconv.Itoa(u.Failed)+" failed")
	}
	if u.Ended > 0 {
		parts = append(parts, strconv.Itoa(u.Ended)+" ended early")
	}
	if u.Asked > 0 {
		parts = append(parts, strconv.Itoa(u.Asked)+" with a person's permission")
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
