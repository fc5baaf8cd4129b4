package consent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
)

// approvalView is a question as REST shows it.
type approvalView struct{ api.Approval }

// NewApprovalsCmd makes 'handrail approvals'.
func NewApprovalsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List the calls that wait for a person",
		Long: "Lists the calls that policy wants a person to confirm. Answer with 'handrail approve ID' or 'handrail deny ID'.\n" +
			"A call waits 45 seconds and then tells the agent to repeat it; the question stays open for ten minutes.",
		Args: cobra.NoArgs,
	}
	watch := cmd.Flags().BoolP("watch", "w", false, "stay, and print each new one as it comes")
	rules := cmd.Flags().Bool("rules", false, "print the Cedar rule that would answer each of them for good")
	show := cmd.Flags().String("show", "", "print this one whole, with scripts and long texts")
	cmd.MarkFlagsMutuallyExclusive("show", "watch")
	_ = cmd.RegisterFlagCompletionFunc("show", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return completeApprovals(cmd, nil, typed)
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		if *show != "" {
			return showApproval(cmd, c, *show, *rules)
		}
		seen := map[string]bool{}
		if !*watch {
			return printApprovals(cmd, c, seen, *rules)
		}
		return watchApprovals(cmd, c, func() error { return printApprovals(cmd, c, seen, *rules) })
	}
	return cmd
}

// showApproval prints one question whole.
func showApproval(cmd *cobra.Command, c *remote.Gateway, text string, rules bool) error {
	id, err := text, error(nil)
	if len(text) < approvalIDLength {
		if id, err = c.ListedID(cmd, "approval", text, "approvals", "approvals", "approval"); err != nil {
			return err
		}
	}
	var raw json.RawMessage
	if err := c.Get(cmd.Context(), remote.Query(remote.Path("approvals", id), "args", "1"), &raw); err != nil {
		return err
	}
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(cmd.OutOrStdout(), raw)
	}
	var a approvalView
	if err := json.Unmarshal(raw, &a); err != nil {
		return fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
	}
	a.print(cmd.OutOrStdout(), rules, true)
	return nil
}

// printApprovals prints those that wait and were not printed before.
func printApprovals(cmd *cobra.Command, c *remote.Gateway, seen map[string]bool, rules bool) error {
	first := len(seen) == 0
	raw, err := c.List(cmd, remote.Path("approvals"), "approvals")
	if err != nil {
		return err
	}
	all, err := remote.DecodeAll[approvalView](raw)
	if err != nil {
		return err
	}
	together(all, raw)
	out := cmd.OutOrStdout()
	for i := range all {
		if i > 0 && all[i].task() == all[i-1].task() && !seen[all[i].ID] && !terminal.FlagsOf(cmd).JSON {
			fmt.Fprintf(out, "-- of the same task as %s\n", terminal.Plain(all[i-1].ID))
		}
		if seen[all[i].ID] {
			continue
		}
		seen[all[i].ID] = true
		if terminal.FlagsOf(cmd).JSON {
			if err := terminal.PrintItems(out, raw[i:i+1]); err != nil {
				return err
			}
			continue
		}
		all[i].print(out, rules, false)
		if last := i == len(all)-1 || all[i+1].task() != all[i].task(); last {
			printTask(out, all[:i+1])
		}
	}
	if len(all) == 0 && first && !terminal.FlagsOf(cmd).JSON {
		fmt.Fprintln(out, "No approvals pending.")
	}
	return nil
}

// task is what questions have in common that one answer may be for.
func (a *approvalView) task() string { return string(a.Principal) + "\x00" + string(a.Lane) }

// printTask says below the last question of a task how one answer can be given to all.
func printTask(out io.Writer, all []approvalView) {
	last := &all[len(all)-1]
	first := slices.IndexFunc(all, func(a approvalView) bool { return a.task() == last.task() })
	task := all[first:]
	if len(task) < 2 {
		return
	}
	var ids []string
	bound, own := false, false
	for _, a := range task {
		ids = append(ids, terminal.Plain(a.ID))
		bound, own = bound || a.Longest == "call", own || a.cannot() != ""
	}
	fmt.Fprintf(out, "-- %d questions of %s in lane %s\n", len(task), terminal.Plain(string(last.Principal)),
		terminal.Plain(string(last.Lane)))
	if own {
		fmt.Fprintf(out, "    handrail deny %s\n", strings.Join(ids, " "))
		return
	}
	if bound {
		fmt.Fprintf(out, "    one of them is asked about at each call: approve them one by one | handrail deny %s\n", strings.Join(ids, " "))
		return
	}
	fmt.Fprintf(out, "    for all: handrail approve %s | handrail deny %s\n", strings.Join(ids, " "), strings.Join(ids, " "))
}

// together puts the questions of one caller in one lane together, the oldest first; raw goes
// with them.
func together(all []approvalView, raw []json.RawMessage) {
	first := map[string]time.Time{}
	for _, a := range all {
		if t, known := first[a.task()]; !known || a.Created.Before(t) {
			first[a.task()] = a.Created
		}
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := &all[i], &all[j]
		return cmp.Or(first[a.task()].Compare(first[b.task()]), cmp.Compare(a.task(), b.task()), a.Created.Compare(b.Created))
	})
	was, had := slices.Clone(all), slices.Clone(raw)
	for i, at := range order {
		all[i], raw[i] = was[at], had[at]
	}
}

// print writes what a person needs to decide, the risk first. The gateway has
// escaped what came from the agent; Plain does it once more for this terminal.
func (a *approvalView) print(out io.Writer, rules, whole bool) {
	where := cmp.Or(a.NodeLabel, string(a.Node), "the gateway")
	if a.Form != nil {
		a.printForm(out, where)
		return
	}
	if a.Wants != "" {
		fmt.Fprintf(out, "%s  %s risk: a call of %s's wants %s\n    it runs %s (%s); an answer is for this call and this host alone\n",
			terminal.Plain(a.ID), terminal.Plain(a.Risk), terminal.Plain(string(a.Principal)), terminal.Plain(a.Wants),
			terminal.Plain(string(a.Tool)), terminal.Plain(a.Title))
	} else {
		fmt.Fprintf(out, "%s  %s risk: %s wants %s (%s)\n", terminal.Plain(a.ID), terminal.Plain(a.Risk), terminal.Plain(string(a.Principal)),
			terminal.Plain(string(a.Tool)), terminal.Plain(a.Title))
	}
	fmt.Fprintf(out, "    on %s, lane %s, asked %s, open until %s\n", terminal.Plain(where), terminal.Plain(string(a.Lane)),
		terminal.Ago(time.Now(), a.Created), a.Expires.Local().Format(terminal.Clock))
	if a.State != "" && a.State != "pending" {
		fmt.Fprintf(out, "    %s\n", terminal.Plain(strings.TrimSuffix(a.State+": "+a.Closed, ": ")))
		return
	}
	a.printReasons(out, whole)
	if text := a.cannot(); text != "" {
		fmt.Fprintf(out, "    %s\n    handrail deny %s\n", terminal.Plain(text), terminal.Plain(a.ID))
	} else {
		a.printAnswers(out, where)
	}
	if !rules {
		return
	}
	for _, o := range a.Overrides {
		fmt.Fprintf(out, "    a rule that would %s it for good:\n", terminal.Plain(o.Effect))
		if o.Note != "" {
			fmt.Fprintf(out, "      // %s\n", terminal.Plain(o.Note))
		}
		for line := range strings.Lines(o.Cedar) {
			fmt.Fprintf(out, "      %s\n", terminal.Plain(strings.TrimRight(line, "\n")))
		}
	}
}

// printReasons writes what the call would do, with what it touches and why it is asked about.
func (a *approvalView) printReasons(out io.Writer, whole bool) {
	if len(a.Through) > 0 {
		fmt.Fprintf(out, "    through: %s\n", terminal.Plain(strings.Join(a.Through, "; ")))
	}
	for _, line := range toldLines(a.Question, whole) {
		fmt.Fprintf(out, "    %s\n", line)
	}
	told := map[string]bool{}
	if a.Question != nil {
		for _, f := range a.Question.Fields {
			told[strings.ReplaceAll(f.Name, ".", "_")] = true
		}
	}
	for _, k := range slices.Sorted(keysOf(a.Arguments)) {
		if !told[k] {
			fmt.Fprintf(out, "    %s: %s\n", terminal.Plain(k), terminal.Plain(fmt.Sprint(a.Arguments[k])))
		}
	}
	fmt.Fprintf(out, "    %s\n", waits(a.Waiting, a.MayReturn))
	for _, part := range []struct {
		name string
		list []string
	}{{"mode", a.Surface.Words()}, {"hosts", a.Hosts}, {
		"paths", a.Paths,
	}, {"touches", a.Keys}, {"only with your approval, this once", a.Escalated}, {"because", append(a.Why, a.Policies...)}} {
		if text := strings.Join(part.list, ", "); text != "" {
			fmt.Fprintf(out, "    %s: %s\n", part.name, terminal.Plain(text))
		}
	}
}

// Describe writes all that a person needs to answer a call's question where they are asked. It
// reports whether a yes or a no is an answer to it: to a program's form it is none.
func Describe(out io.Writer, one api.Approval) bool {
	a := approvalView{Approval: one}
	if a.Form != nil || a.cannot() != "" {
		return false
	}
	fmt.Fprintf(out, "%s risk: %s wants %s (%s) on %s\n", terminal.Plain(a.Risk), terminal.Plain(string(a.Principal)),
		terminal.Plain(cmp.Or(a.Wants, string(a.Tool))), terminal.Plain(a.Title),
		terminal.Plain(cmp.Or(a.NodeLabel, string(a.Node), "the gateway")))
	a.printReasons(out, true)
	return true
}

// printAnswers writes the commands that answer it.
func (a *approvalView) printAnswers(out io.Writer, where string) {
	choices := "once"
	for _, c := range []struct{ least, text string }{
		{"lease", "--for 5m"}, {"lease", "--for 5m --family for all " + familyOf(string(a.Tool)) + " tools"}, {"session", "--session"},
		{"always", "--always"},
	} {
		if order := []string{"call", "lease", "session", "always"}; slices.Index(order, a.Longest) >= slices.Index(order, c.least) {
			choices += ", " + c.text
		}
	}
	acknowledge := ""
	if len(a.Surface.Acknowledge) > 0 {
		acknowledge = " --acknowledge"
	}
	fmt.Fprintf(out, "    handrail approve %s%s (%s) | handrail deny %s\n", terminal.Plain(a.ID), acknowledge, choices, terminal.Plain(a.ID))
	if text := lending(a.Hands && a.Longest != "call", where); text != "" {
		fmt.Fprintf(out, "    %s\n", terminal.Plain(text))
	}
}

// cannot says why this token cannot allow the call, which its own holder asked for; "" if it can.
func (a *approvalView) cannot() string {
	if a.Own == nil || a.Own.May {
		return ""
	}
	why := strings.TrimSuffix(a.Own.Why, ".")
	if first, rest := utf8.DecodeRuneInString(why); rest > 0 {
		why = string(unicode.ToUpper(first)) + why[rest:]
	}
	return strings.TrimSpace(why + ". " + a.Own.Hint)
}

// lending says, before a person answers, what an answer that lasts takes from the device.
func lending(hands bool, device string) string {
	if !hands {
		return ""
	}
	return "An answer that lasts lends mouse and keyboard: until 15 seconds after it, nothing else can be allowed from " + device +
		" itself, except with a passkey. Allow the whole family at once, or answer from another device."
}

// familyOf is the second part of a tool's name.
func familyOf(tool string) string {
	if parts := strings.SplitN(tool, ".", 3); len(parts) == 3 {
		return parts[1]
	}
	return tool
}

// watchApprovals calls show at once and after each event about approvals, until
// the command is ended.
func watchApprovals(cmd *cobra.Command, c *remote.Gateway, show func() error) error {
	ctx := cmd.Context()
	for {
		// At its beginning, so that nothing falls between the list and the stream.
		err := c.Events(ctx, 0, show, func(e client.Event) error {
			if e.Name != "approval" {
				return nil
			}
			return show()
		})
		if ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, io.EOF) {
			return remote.Told(err)
		}
		select { // the gateway ended the stream, or went away: it may come back
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}
