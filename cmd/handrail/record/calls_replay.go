package record

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/cmd/handrail/invoke"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/rules"
)

func newCallsReplayCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay CALL",
		Short: "Decide a recorded call again, and say what differs and by which rule",
		Long: "Decides a recorded call again, by the policy in force now and by the one in force at that time, where that is kept. The grants " +
			"that people gave are left out.\n" +
			"With --run it runs again, too, as a call of your own: only where it leaves nothing behind, and while its arguments are kept.",
		Args: cobra.ExactArgs(1),
	}
	cmd.ValidArgsFunction = completeCalls
	run := cmd.Flags().Bool("run", false, "run it again, too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		meant, err := callMeant(cmd, c, args[0])
		if err != nil {
			return err
		}
		var call api.Call
		if err := json.Unmarshal(meant, &call); err != nil {
			return fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
		}
		var raw json.RawMessage
		if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("calls", string(call.ID), "replay"), api.ReplayCall{Run: *run},
			&raw); err != nil {
			return err
		}
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintJSON(cmd.OutOrStdout(), raw)
		}
		var again struct {
			rules.CallReplay
			Result json.RawMessage `json:"result"`
		}
		if err := json.Unmarshal(raw, &again); err != nil {
			return fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
		}
		printReplay(cmd, &again.CallReplay)
		if len(again.Result) == 0 {
			return nil
		}
		fmt.Fprintln(cmd.OutOrStdout(), "\nRun again:")
		return invoke.Print(cmd, c, again.Result, "")
	}
	return cmd
}

func printReplay(cmd *cobra.Command, r *rules.CallReplay) {
	out := cmd.OutOrStdout()
	by := func(rules []string) string {
		if len(rules) == 0 {
			return "no rule"
		}
		return strings.Join(rules, ", ")
	}
	fmt.Fprintf(out, "call                   %s\ntool                   %s\nrecorded               %s, by %s\n",
		terminal.Plain(string(r.Call)), terminal.Plain(string(r.Tool)), r.Was, terminal.Plain(by(r.Rules)))
	line := func(name string, v *rules.Verdict) {
		same := "the same"
		if v.Differs {
			same = "another answer"
		}
		if v.Unsure {
			same += ", as far as the record tells"
		}
		fmt.Fprintf(out, "%-22s %s, by %s: %s\n", name, v.Effect, terminal.Plain(by(v.Rules)), same)
	}
	if r.Then == nil {
		fmt.Fprintf(out, "policy at that time    cannot be asked: %s\n", terminal.Plain(r.NoThen))
	} else {
		line("policy at that time", r.Then)
	}
	line("policy in force now", &r.Now)
}
