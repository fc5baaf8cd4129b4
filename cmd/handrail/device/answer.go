package device

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/agent/owner"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/record"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

// AddCmds adds what the device's owner says and reads on the device itself; none of it needs a
// gateway. parent has 'approve' and 'deny' for a gateway's nodes
// already: with a question's ID they are the owner's.
func AddCmds(parent *cobra.Command) {
	parent.AddCommand(newApprovalsCmd(), newRulesCmd(), newLogCmd(), newReportCmd(), newStatusCmd())
	addStopCmds(parent)
	for _, cmd := range parent.Commands() {
		if name := cmd.Name(); name == "approve" || name == "deny" {
			alsoAnswers(cmd, name == "approve")
		}
	}
}

// alsoAnswers lets a command for nodes answer this device's questions, too.
func alsoAnswers(cmd *cobra.Command, approve bool) {
	nodes := cmd.RunE
	word := "no"
	if approve {
		word = "yes"
	}
	cmd.Use = cmd.Name() + " NODE|QUESTION"
	cmd.Short += ", or say " + word + " to what this device asks"
	cmd.Long = cmd.Short +
		".\nQUESTION is an ID of 'handrail node approvals' (q-…), which is answered on the device itself, without a gateway. A yes\n" +
		"is for that one call, or with --for for this principal, tool and lane for a while. It does not count while an agent may\n" +
		"use this device's mouse and keyboard; a no always does."
	forTime := new(time.Duration)
	if approve {
		forTime = cmd.Flags().Duration("for", 0, "how long a yes holds beyond the one call, such as 10m; at most 1h")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !strings.HasPrefix(args[0], owner.QuestionPrefix) {
			if cmd.Flags().Changed("for") {
				return terminal.UsageError("--for is for what this device asks")
			}
			return nodes(cmd, args)
		}
		return answerQuestion(cmd, args[0], approve, *forTime)
	}
}

func newApprovalsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List what this device asks its owner now",
		Long: "Lists the calls that wait for the person at this device, because owner.json or owner.cedar wants to be asked about\n" +
			"them. They are answered with 'handrail node approve' and 'handrail node deny', on this device only.",
		Args: cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		all, err := owner.Questions(data.Node(), time.Now())
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if terminal.FlagsOf(cmd).JSON {
			for _, q := range all {
				if err := terminal.PrintJSON(out, q); err != nil {
					return err
				}
			}
			return nil
		}
		if len(all) == 0 {
			fmt.Fprintln(out, "No approvals pending on this device.")
			return nil
		}
		for _, q := range all {
			printQuestion(out, q)
		}
		return nil
	}
	return cmd
}

func printQuestion(out io.Writer, q owner.Question) {
	fmt.Fprintf(out, "%s  %s wants %s\n", q.ID, terminal.Plain(string(q.Principal)), terminal.Plain(string(q.Tool)))
	fmt.Fprintf(out, "    why asked: %s\n    risk: %s\n    lane: %s\n    until: %s\n",
		terminal.Plain(q.Why), terminal.Plain(q.Risk), terminal.Plain(string(q.Lane)), q.Expires.Local().Format(terminal.Clock))
	for _, name := range slices.Sorted(maps.Keys(q.Args)) {
		terminal.PrintValue(out, "    with ", map[string]any{name: q.Args[name]})
	}
}

// answerWait bounds how long a command waits for a running call to take its answer.
const answerWait = 3 * time.Second

func answerQuestion(cmd *cobra.Command, id string, approve bool, holds time.Duration) error {
	data, err := datadir.Of(cmd)
	if err != nil {
		return err
	}
	a := owner.Answer{Approve: approve, By: accountName(), Seconds: int(holds / time.Second)}
	if holds < 0 || holds > owner.MaxStanding {
		return terminal.UsageError("--for may be up to %s", capabilities.Spoken(owner.MaxStanding))
	}
	q, err := owner.Reply(data.Node(), id, a, time.Now())
	if err != nil {
		return err
	}
	outcome, taken := owner.Outcome{}, false
	for end := time.Now().Add(answerWait); !taken && time.Now().Before(end) && cmd.Context().Err() == nil; {
		if outcome, taken = owner.ReadOutcome(data.Node(), q); !taken {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if terminal.FlagsOf(cmd).JSON {
		outcome.Version = 1
		if !taken {
			outcome.Outcome = "kept"
		}
		if err := terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"id": q.ID, "outcome": outcome.Outcome, "why": outcome.Why}); err != nil {
			return err
		}
	}
	switch {
	case outcome.Outcome == "refused":
		return capabilities.Errorf(capabilities.CodeForbidden, "%s", outcome.Why)
	case terminal.FlagsOf(cmd).JSON:
	case taken:
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s.\n", q.ID, outcome.Outcome)
	default:
		fmt.Fprintf(cmd.OutOrStdout(), "%s: your answer is kept for when the call is made again, until %s.\n", q.ID, q.Expires.Local().
			Format(terminal.Clock))
	}
	return nil
}

// accountName is who answers, for the log.
func accountName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

func newRulesCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "rules",
		Short: "Show what the owner of this device allows, asks about or never allows",
		Long: "Shows what owner.json and owner.cedar say about every capability now, and checks the owner's files: a mistake is\n" +
			"named with its place. A rule of owner.cedar that is about some calls only is named beside the answer. A node that runs takes a " +
			"changed file over within two seconds, and keeps its rules when there is a mistake.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := datadir.Of(cmd)
			if err != nil {
				return err
			}
			if err := data.Make(data.Node()); err != nil {
				return err
			}
			cat, err := catalog.Embedded()
			if err != nil {
				return err
			}
			rules, err := owner.Open(owner.Options{Dir: data.Node(), Catalog: cat})
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if terminal.FlagsOf(cmd).JSON {
				for _, d := range cat.All() {
					if d.NodeCapability() == "" {
						continue
					}
					m, why := rules.Says(d.Tool)
					if err := terminal.PrintJSON(out, map[string]any{"tool_id": d.Tool, "mode": m, "why": why}); err != nil {
						return err
					}
				}
				return nil
			}
			t := terminal.NewTable(out, "TOOL", "OWNER SAYS", "WHY")
			for _, d := range cat.All() {
				if d.NodeCapability() != "" {
					m, why := rules.Says(d.Tool)
					t.Row(string(d.Tool), string(m), why)
				}
			}
			t.Flush()
			f := rules.File()
			for _, l := range []struct {
				name  string
				list  owner.Limits
				about string
			}{{"domains", f.Domains, "hosts"}, {"apps", f.Apps, "applications"}, {"folders", f.Folders, "folders"}} {
				for _, part := range []struct {
					word  string
					names []string
				}{{"only these", l.list.Only}, {"ask about these", l.list.Ask}, {"never these", l.list.Never}} {
					for _, name := range part.names {
						fmt.Fprintf(out, "%s, %s: %s\n", l.about, part.word, terminal.Plain(name))
					}
				}
			}
			for _, q := range f.QuietHours {
				fmt.Fprintf(out, "quiet hours: %s to %s, %s\n", q.From, q.To, q.Mode)
			}
			fmt.Fprintf(out, "The rules are in %s and %s; 'allow' means that the gateway's policy decides.\n", data.Node(owner.FileName),
				data.Node(owner.CedarName))
			return nil
		},
	}
}

func newLogCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Show what this device recorded of calls, and that nothing of it was changed",
		Long: "Shows the device's own log, which is written before a call runs and needs no gateway to be read. It is checked first:\n" +
			"what was changed, left out or cut off is named, with exit code 7. --out writes it all to a file, signed, for\n" +
			"'handrail ledger compare' elsewhere.",
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	limit := f.Int("limit", 50, "how many of the latest entries at most; 0: all")
	call := f.String("call", "", "only entries of this call")
	file := f.String("out", "", "file to write the whole log to, signed (- is standard output)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		name, dir, err := record.NodeChain(data)
		if err != nil {
			return err
		}
		if *file != "" {
			return exportNodeLog(cmd, data, name, dir, *file)
		}
		l, err := journal.Read(dir, name)
		if err != nil {
			return err
		}
		records := l.Records
		if *call != "" {
			records = slices.DeleteFunc(slices.Clone(records), func(r journal.Record) bool { return string(r.Call) != *call })
		}
		if *limit > 0 && len(records) > *limit {
			records = records[len(records)-*limit:]
		}
		out := cmd.OutOrStdout()
		if terminal.FlagsOf(cmd).JSON {
			for _, r := range records {
				if err := terminal.PrintJSON(out, r); err != nil {
					return err
				}
			}
			return nil
		}
		t := terminal.NewTable(out, "SEQ", "TIME", "WHAT", "TOOL", "WHO", "OUTCOME", "CALL")
		for _, r := range records {
			t.Row(strconv.FormatUint(r.Seq, 10), r.Time().Local().
				Format(terminal.DayClock), r.Kind, string(r.Tool), string(r.Principal), logOutcome(r), string(r.Call))
		}
		t.Flush()
		printWhole(out, l)
		return nil
	}
	return cmd
}

func logOutcome(r journal.Record) string {
	switch {
	case r.Answer != "" && r.Seconds > 0:
		return fmt.Sprintf("%s by %s for %s", r.Answer, r.By, capabilities.Spoken(time.Duration(r.Seconds)*time.Second))
	case r.Answer != "":
		return r.Answer + " by " + r.By
	case r.By != "":
		return "at the " + r.By
	case r.Code != "":
		return string(r.Code)
	case r.Rules != "":
		return r.Rules
	}
	return string(r.Status)
}

// printWhole says how far the log can be believed.
func printWhole(out io.Writer, l *journal.Log) {
	fmt.Fprintf(out, "The log is whole: entries %d to %d", l.First, l.Last)
	if l.Head.Seq > 0 {
		fmt.Fprintf(out, ", signed up to %d on %s", l.Head.Seq, time.UnixMilli(l.Head.Time).Local().Format(terminal.DayClock))
	}
	fmt.Fprintln(out, ".")
}

func exportNodeLog(cmd *cobra.Command, data datadir.Dir, name, dir, file string) error {
	id, err := link.LoadIdentity(data.Node())
	if err != nil {
		return err
	}
	if file == "-" {
		return journal.Export(cmd.OutOrStdout(), dir, name, id.Key, time.Now())
	}
	temp := file + ".part"
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = journal.Export(f, dir, name, id.Key, time.Now())
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, file)
	}
	if err != nil {
		_ = os.Remove(temp)
		return err
	}
	return remote.Confirmed(cmd, nil, "The log of %s is in %s.", name, file)
}
