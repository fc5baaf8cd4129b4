package rules

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/rules"
)

func policySetOf(cmd *cobra.Command, c *remote.Gateway, name string) (s api.PolicySet, err error) {
	return s, c.Get(cmd.Context(), remote.Path("policy", "sets", name), &s)
}

// request turns a case into the question that policy is asked.
func (c *policyCase) request(known vocabulary) (policy.Request, error) {
	d, ok := known.get(capabilities.ToolID(c.Tool))
	if !ok {
		return policy.Request{}, fmt.Errorf("there is no tool %q", c.Tool)
	}
	if len(c.Args) == 0 {
		c.Args = json.RawMessage("{}")
	}
	args, _, err := d.SplitArgs(c.Args) // what a call may leave out here, a test may too
	if err != nil {
		return policy.Request{}, err
	}
	q := policy.Request{
		Principal: capabilities.PrincipalID(c.Principal), User: policy.IsUser(c.Role), Role: c.Role, Taint: c.Taint, Tool: d.Tool,
		Lane: capabilities.LaneID(c.Lane), Args: args.Canonical, Given: capabilities.IsolationClass(c.Given), Degraded: c.Degraded,
		Raised: c.Raised, Time: time.Now(),
		Calls: policy.Calls{Minute: c.Minute, Hour: max(c.Hour, c.Minute), Day: max(c.Day, c.Hour, c.Minute)},
		Node: policy.Node{
			ID: capabilities.NodeID(c.Node.ID), Label: c.Node.Label, Platform: c.Node.Platform, Trust: c.Node.Trust, Labels: c.Node.Labels,
		},
	}
	if q.Args == nil {
		q.Args = c.Args
	}
	return q, nil
}

func newPolicyDiffCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "diff [FROM [TO]]",
		Short: "Show what another policy would change",
		Long: "Compares the policy in force with the staged files, or the two that are named: active, staged,\nor the beginning of a hash " +
			"from 'handrail policy history'.",
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, to := rules.Active, rules.Staged
			if len(args) > 0 {
				from = args[0]
			}
			if len(args) > 1 {
				to = args[1]
			}
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			a, err := policySetOf(cmd, c, from)
			if err != nil {
				return err
			}
			b, err := policySetOf(cmd, c, to)
			if err != nil {
				return err
			}
			if terminal.FlagsOf(cmd).JSON {
				return terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{
					"from": a.Snapshot, "to": b.Snapshot, "same": a.Snapshot == b.Snapshot, "diff": rules.Diff(rules.FilesOf(a), rules.FilesOf(b)),
				})
			}
			return showDiff(cmd.OutOrStdout(), a, b)
		},
	}
}

func showDiff(out io.Writer, a, b api.PolicySet) error {
	if a.Snapshot == b.Snapshot {
		_, err := fmt.Fprintf(out, "no difference: %s\n", rules.Short(a.Snapshot))
		return err
	}
	fmt.Fprintf(out, "from %s to %s\n", rules.Short(a.Snapshot), rules.Short(b.Snapshot))
	for _, line := range rules.Diff(rules.FilesOf(a), rules.FilesOf(b)) {
		fmt.Fprintln(out, terminal.Plain(line))
	}
	return nil
}

func newPolicyActivateCmd() *cobra.Command {
	var yes bool
	var reason string
	cmd := &cobra.Command{
		Use:   "activate [HASH]",
		Short: "Put the staged files, or an earlier policy, in force at once",
		Long: "Shows what changes and asks. Grants under the policy before cover nothing any more.\n" +
			"The activation is recorded in the ledger with who made it. HASH is one from 'handrail policy history'.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			to := rules.Staged
			if len(args) > 0 {
				to = args[0]
			}
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			a, err := policySetOf(cmd, c, rules.Active)
			if err != nil {
				return err
			}
			b, err := policySetOf(cmd, c, to)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if !yes {
				if err := showDiff(cmd.ErrOrStderr(), a, b); err != nil || a.Snapshot == b.Snapshot {
					return err
				}
				if err := terminal.Confirm(cmd, "Activate?", "nothing was activated"); err != nil {
					return err
				}
			}
			var v api.PolicyVersion
			in := api.ActivatePolicy{To: b.Snapshot, From: a.Snapshot, Reason: reason}
			if err := c.Ask(cmd.Context(), http.MethodPost, "/v1/policy/activate", in, &v); err != nil {
				return err
			}
			if terminal.FlagsOf(cmd).JSON {
				return terminal.PrintJSON(out, v)
			}
			_, err = fmt.Fprintf(out, "in force: %s\n", v.Snapshot)
			return err
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history")
	return cmd
}

func newPolicyReplayCmd() *cobra.Command {
	var after uint64
	cmd := &cobra.Command{
		Use:   "replay [HASH]",
		Short: "Say what a policy would have decided on the recorded calls",
		Long: "Judges every call in the ledger again, under the staged files or the policy that is named, and shows\n" +
			"those that would be decided otherwise. Grants that people gave do not count. Nothing is changed.\n" +
			"Where the ledger does not keep enough of the arguments to be sure, it says so.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := api.ReplayPolicy{After: after}
			if len(args) > 0 {
				in.Set = args[0]
			}
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			var r api.PolicyReplay
			if err := c.Ask(cmd.Context(), http.MethodPost, "/v1/policy/replay", in, &r); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if terminal.FlagsOf(cmd).JSON {
				return terminal.PrintJSON(out, r)
			}
			if len(r.Changes) > 0 {
				t := terminal.NewTable(out, "WHEN", "TOOL", "PRINCIPAL", "NODE", "WAS", "WOULD", "BY")
				for _, x := range r.Changes {
					by := strings.Join(x.Policies, ", ")
					if by == "" {
						by = x.Reason
					}
					t.Row(x.At.Local().Format(terminal.DayClock), string(x.Tool), string(x.Principal), string(x.Node), x.Was, x.Instead(), by)
				}
				t.Flush()
			}
			_, err = fmt.Fprintln(out, r.Summary())
			return err
		},
	}
	cmd.Flags().Uint64Var(&after, "after", 0, "only calls after this ledger packet")
	return cmd
}
