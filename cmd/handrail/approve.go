package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// approvalWait is how long a call waits for a person: less than the minute after
// which clients give up.
const approvalWait = 45 * time.Second

type approvalView struct {
	ID        string         `json:"approval"`
	Principal string         `json:"principal"`
	Tool      string         `json:"tool"`
	Title     string         `json:"title"`
	Node      string         `json:"node"`
	NodeLabel string         `json:"node_label"`
	Lane      string         `json:"lane"`
	Arguments map[string]any `json:"arguments"`
	Risk      string         `json:"risk"`
	Longest   string         `json:"longest"`
	Created   time.Time      `json:"created_at"`
}

func newApprovalsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "approvals",
		Short: "List the calls that wait for a person",
		Long: "Lists the calls that policy wants a person to confirm. Answer with 'handrail approve ID' or 'handrail deny ID'.\n" +
			"A call waits 45 seconds and then tells the agent to repeat it; the question stays open for ten minutes.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := newClient(cmd)
			if err != nil {
				return err
			}
			raw, err := c.list(cmd, path("approvals"), "approvals")
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if commonOf(cmd).json {
				return printItems(out, raw)
			}
			all, err := decodeAll[approvalView](raw)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				fmt.Fprintln(out, "Nothing waits.")
			}
			for _, a := range all {
				fmt.Fprintf(out, "%s  %s wants %s (%s)\n", plain(a.ID), plain(a.Principal), plain(a.Tool), plain(a.Title))
				where := a.NodeLabel
				if where == "" {
					where = "the gateway"
				}
				fmt.Fprintf(out, "    on %s, lane %s, risk %s, asked %s\n", plain(where), plain(a.Lane), plain(a.Risk), ago(time.Now(), a.Created))
				for _, k := range slices.Sorted(keysOf(a.Arguments)) {
					fmt.Fprintf(out, "    %s: %s\n", plain(k), plain(fmt.Sprint(a.Arguments[k])))
				}
				choices := "once"
				if a.Longest != "call" {
					choices += ", --for 5m"
				}
				if a.Longest == "session" {
					choices += ", --session"
				}
				fmt.Fprintf(out, "    handrail approve %s (%s) | handrail deny %s\n", plain(a.ID), choices, plain(a.ID))
			}
			return nil
		},
	}
}

func keysOf(m map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// completeApprovals completes the IDs of what waits.
func completeApprovals(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := newClient(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	raw, err := c.list(cmd, path("approvals"), "approvals")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := decodeAll[approvalView](raw)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []string
	for _, a := range all {
		ids = append(ids, a.ID+"\t"+plain(a.Tool))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

func newApproveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approve APPROVAL",
		Short: "Let a waiting call go on",
		Long: "Allows the call once, with exactly its arguments; with --for the tool on that node in that lane for some\n" +
			"minutes; with --session, where the tool is safe enough, until you revoke it. The first answer counts.",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeApprovals,
	}
	lasts := cmd.Flags().Duration("for", 0, "allow the tool for so long, at most 1h")
	family := cmd.Flags().Bool("family", false, "with --for: every tool of the family, such as tool.desktop.*")
	session := cmd.Flags().Bool("session", false, "allow the tool until the grant is revoked, at most 12h")
	reason := cmd.Flags().String("reason", "", "why; it is recorded")
	cmd.MarkFlagsMutuallyExclusive("for", "session")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kind := "call"
		switch {
		case *lasts > 0:
			kind = "lease"
		case *session:
			kind = "session"
		}
		if *family && kind != "lease" {
			return usageError("--family goes with --for")
		}
		request := body("answer", "allow", "kind", kind, "reason", *reason, "seconds", int(lasts.Seconds()))
		if *family {
			request["family"] = true
		}
		return answerApproval(cmd, args[0], request, "allowed "+args[0])
	}
	return cmd
}

func newDenyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "deny APPROVAL",
		Short:             "Refuse a waiting call",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeApprovals,
	}
	reason := cmd.Flags().String("reason", "", "why; the agent is told")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return answerApproval(cmd, args[0], body("answer", "deny", "reason", *reason), "denied "+args[0])
	}
	return cmd
}

func answerApproval(cmd *cobra.Command, id string, request map[string]any, done string) error {
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := c.do(cmd.Context(), http.MethodPost, path("approvals", id), request, &raw); err != nil {
		return err
	}
	return confirmed(cmd, raw, "%s", done)
}

func newGrantCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "grant",
		Short: "See, give and revoke grants: what a person allowed for a while",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGrantListCmd(), newGrantGiveCmd(), newGrantRevokeCmd())
	return cmd
}

func newGrantListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the grants that are good now",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := newClient(cmd)
			if err != nil {
				return err
			}
			raw, err := c.list(cmd, path("grants"), "grants")
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if commonOf(cmd).json {
				return printItems(out, raw)
			}
			all, err := decodeAll[struct {
				ID        string    `json:"grant"`
				Kind      string    `json:"kind"`
				Principal string    `json:"principal"`
				Tools     []string  `json:"tools"`
				Node      string    `json:"node"`
				Lane      string    `json:"lane"`
				MaxUses   int       `json:"max_uses"`
				Used      int       `json:"used"`
				Expires   time.Time `json:"expires_at"`
			}](raw)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				fmt.Fprintln(out, "No grants.")
				return nil
			}
			t := newTable(out, "GRANT", "KIND", "PRINCIPAL", "TOOLS", "NODE", "LANE", "USED", "UNTIL")
			for _, g := range all {
				used := fmt.Sprint(g.Used)
				if g.MaxUses > 0 {
					used += fmt.Sprintf(" of %d", g.MaxUses)
				}
				lane := g.Lane
				if lane == "" {
					lane = "any"
				}
				t.row(g.ID, g.Kind, g.Principal, strings.Join(g.Tools, ", "), g.Node, lane, used, g.Expires.Local().Format(time.TimeOnly))
			}
			t.flush()
			return nil
		},
	}
}

func newGrantGiveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "give PRINCIPAL TOOL...",
		Short: "Allow a caller tools on a node for some minutes, before it asks",
		Long: "Gives a lease: what policy would ask a person about then goes on by itself, on this node, in this lane, for\n" +
			"this long, under the present policy. A tool is an ID, or a family such as 'tool.desktop.*'.",
		Args: cobra.MinimumNArgs(2),
	}
	node := cmd.Flags().String("node", "", "the node (required)")
	lane := cmd.Flags().String("lane", "", "the lane (default: the caller's own)")
	anyLane := cmd.Flags().Bool("any-lane", false, "every lane of the caller's")
	lasts := cmd.Flags().Duration("for", 5*time.Minute, "how long, at most 1h")
	uses := cmd.Flags().Int("uses", 0, "how often (default: not counted)")
	reason := cmd.Flags().String("reason", "", "why; it is recorded")
	cmd.MarkFlagsMutuallyExclusive("lane", "any-lane")
	_ = cmd.MarkFlagRequired("node")
	_ = cmd.RegisterFlagCompletionFunc("node", completeNodes(1))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := newClient(cmd)
		if err != nil {
			return err
		}
		request := body("principal", args[0], "node", *node, "lane", *lane, "seconds", int(lasts.Seconds()), "max_uses", *uses, "reason", *reason)
		request["tools"] = args[1:]
		if *anyLane {
			request["any_lane"] = true
		}
		var raw json.RawMessage
		if err := c.do(cmd.Context(), http.MethodPost, path("grants"), request, &raw); err != nil {
			return err
		}
		var made struct {
			ID string `json:"grant"`
		}
		if err := json.Unmarshal(raw, &made); err != nil {
			return fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
		}
		return confirmed(cmd, raw, "grant %s: %s may use %s on %s for %s", made.ID, args[0], strings.Join(args[1:], ", "), *node, lasts.String())
	}
	return cmd
}

func newGrantRevokeCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke GRANT",
		Short: "End a grant at once",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := newClient(cmd)
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := c.do(cmd.Context(), http.MethodDelete, path("grants", args[0]), nil, &raw); err != nil {
				return err
			}
			return confirmed(cmd, raw, "grant %s has ended", args[0])
		},
	}
}
