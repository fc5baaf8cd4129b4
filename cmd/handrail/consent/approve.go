package consent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// scopeFlags narrow a grant beyond its tools, node and lane.
type scopeFlags struct {
	domains, apps, paths *[]string
	uses                 *int
}

func addScopeFlags(cmd *cobra.Command) scopeFlags {
	f := cmd.Flags()
	return scopeFlags{
		domains: f.StringSlice("domain", nil, "only this host, or *.example.com for it and all below"),
		apps:    f.StringSlice("app", nil, "only this application"),
		paths:   f.StringSlice("path", nil, "only this file or folder of the device"),
		uses:    f.Int("uses", 0, "how often (default: not counted)"),
	}
}

// scope returns what is narrowed, and how often it is good.
func (s scopeFlags) scope() (api.Scope, int) {
	return api.Scope{Domains: *s.domains, Apps: *s.apps, Paths: *s.paths}, *s.uses
}

// narrows reports whether anything is narrowed.
func (s scopeFlags) narrows() bool {
	return len(*s.domains)+len(*s.apps)+len(*s.paths) > 0 || *s.uses != 0
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
	c, err := remote.Find(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	raw, err := c.List(cmd, remote.Path("approvals"), "approvals")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := remote.DecodeAll[approvalView](raw)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []string
	for _, a := range all {
		ids = append(ids, a.ID+"\t"+terminal.Plain(string(a.Tool)))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// NewApproveCmd makes 'handrail approve'.
func NewApproveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approve APPROVAL…",
		Short: "Let a waiting call go on",
		Long: "Allows the call once, with exactly its arguments; with --for the tool on that node in that lane for some\n" +
			"minutes; with --session, where the tool is safe enough, until you revoke it; with --always for as long as the\n" +
			"present policy is in force. 'handrail approvals' shows which of them the question offers: some tools are asked\n" +
			"about at each call. A lasting grant can be narrowed further. The first answer counts. Several questions of one caller in one\n" +
			"lane can be answered at once, but for those that are asked about at each call.\n" +
			"A form of a provider, whose program asks while its call runs, is filled in with --set NAME=VALUE for each field.",
		Args:              cobra.RangeArgs(1, 8),
		ValidArgsFunction: completeApprovals,
	}
	lasts := cmd.Flags().Duration("for", 0, "allow the tool for so long, at most 1h")
	family := cmd.Flags().Bool("family", false, "with --for: every tool of the family, such as tool.desktop.*")
	session := cmd.Flags().Bool("session", false, "allow the tool until the grant is revoked, at most 12h")
	reason := cmd.Flags().String("reason", "", "why; it is recorded")
	always := cmd.Flags().Bool("always", false, "allow the tool in every lane of the caller's, while the present policy is in force")
	acknowledge := cmd.Flags().Bool("acknowledge", false,
		"say that you know what is privileged or may destroy something; else it is asked at a terminal")
	fill := cmd.Flags().StringArray("set", nil, "fill in a field of what a provider asks, as NAME=VALUE; repeated for each")
	narrow := addScopeFlags(cmd)
	cmd.MarkFlagsMutuallyExclusive("for", "session", "always", "set")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kind := "call"
		switch {
		case cmd.Flags().Changed("for"):
			if *lasts < time.Second {
				return terminal.TooShort("--for")
			}
			kind = "lease"
		case *session:
			kind = "session"
		case *always:
			kind = "always"
		}
		if *family && kind != "lease" {
			return terminal.UsageError("--family goes with --for")
		}
		request := api.AnswerApproval{
			Answer: "allow", Kind: kind, Reason: *reason, Seconds: int64(lasts.Seconds()), Family: *family, Acknowledged: *acknowledge,
		}
		if len(*fill) > 0 {
			request.Content = map[string]any{}
			for _, pair := range *fill {
				name, value, ok := strings.Cut(pair, "=")
				if !ok || name == "" {
					return terminal.UsageError("--set wants NAME=VALUE")
				}
				request.Content[name] = value
			}
		}
		request.Scope, request.MaxUses = narrow.scope()
		if narrow.narrows() && kind == "call" {
			return terminal.UsageError("one call is as narrow as can be; --domain, --app, --path and --uses go with --for, --session or --always")
		}
		terms := map[string]string{
			"call": "once", "lease": "for " + capabilities.Spoken(*lasts), "session": "until you revoke it",
			"always": "while this policy is in force",
		}[kind]
		return answerApproval(cmd, args, request, "allowed", terms)
	}
	return cmd
}

// NewDenyCmd makes 'handrail deny'.
func NewDenyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "deny APPROVAL…",
		Short:             "Refuse a waiting call",
		Args:              cobra.RangeArgs(1, 8),
		ValidArgsFunction: completeApprovals,
	}
	reason := cmd.Flags().String("reason", "", "why; the agent is told")
	dismiss := cmd.Flags().Bool("dismiss", false, "of what a provider asks: close it without an answer, where a no would be one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *dismiss {
			return answerApproval(cmd, args, api.AnswerApproval{Answer: "dismiss", Reason: *reason}, "dismissed", "")
		}
		return answerApproval(cmd, args, api.AnswerApproval{Answer: "deny", Reason: *reason}, "denied", "")
	}
	return cmd
}

// acknowledging posts an answer, and once more with the acknowledgement that it needs if the
// person at the terminal gives it.
func acknowledging(cmd *cobra.Command, request *api.AnswerApproval, post func() error) error {
	err := post()
	var e *capabilities.Error
	if !errors.As(err, &e) || e.Code != capabilities.CodeAcknowledgementRequired || !terminal.Interactive(cmd.InOrStdin()) {
		return err
	}
	if err := terminal.Confirm(cmd, terminal.Plain(e.PublicMessage())+" Allow it?", "nothing was allowed"); err != nil {
		return err
	}
	request.Acknowledged = true
	return post()
}

// answerApproval answers questions, and says what they were about.
func answerApproval(cmd *cobra.Command, texts []string, request api.AnswerApproval, done, terms string) error {
	c, err := remote.Find(cmd)
	if err != nil {
		return err
	}
	var ids []string
	for _, text := range texts {
		id := text
		if len(text) < approvalIDLength { // a whole one may be of a question that is closed: the gateway says so
			if id, err = c.ListedID(cmd, "approval", text, "approvals", "approvals", "approval"); err != nil {
				return err
			}
		}
		ids = append(ids, id)
	}
	about := func(raw json.RawMessage) string {
		var a approvalView
		if json.Unmarshal(raw, &a) != nil || a.Tool == "" {
			return ""
		}
		what := string(a.Tool)
		if family := strings.SplitN(what, ".", 3); request.Family && len(family) == 3 {
			what = "every " + family[0] + "." + family[1] + " tool"
		}
		text := ": " + string(a.Principal) + ", " + what
		if node := cmp.Or(a.NodeLabel, string(a.Node)); node != "" {
			text += " on " + node
		}
		if terms != "" {
			text += ", " + terms
		}
		return text
	}
	if len(ids) == 1 {
		var raw json.RawMessage
		post := func() error {
			return c.Ask(cmd.Context(), http.MethodPost, remote.Path("approvals", ids[0]), request, &raw)
		}
		if err := acknowledging(cmd, &request, post); err != nil {
			return err
		}
		return remote.Confirmed(cmd, raw, "%s %s%s", done, ids[0], about(raw))
	}
	var answer struct {
		Approvals []json.RawMessage    `json:"approvals"`
		Failed    []api.FailedApproval `json:"failed"`
	}
	post := func() error {
		in := api.AnswerApprovals{Approvals: ids, AnswerApproval: request}
		return c.Ask(cmd.Context(), http.MethodPost, remote.Path("approvals"), in, &answer)
	}
	if err := acknowledging(cmd, &request, post); err != nil {
		return err
	}
	for _, raw := range answer.Approvals {
		var a approvalView
		_ = json.Unmarshal(raw, &a)
		if err := remote.Confirmed(cmd, raw, "%s %s%s", done, a.ID, about(raw)); err != nil {
			return err
		}
	}
	for _, f := range answer.Failed {
		e := f.Error.Err()
		e.Message = f.Approval + ": " + e.Message
		return e
	}
	return nil
}

// approvalIDLength is that of a whole ID: a- and 16 digits.
const approvalIDLength = 18

// NewGrantCmd makes 'handrail grant'.
func NewGrantCmd() *cobra.Command {
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
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			all, done, err := remote.Listed[api.Grant](cmd, c, remote.Path("grants"), "grants")
			if done || err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if len(all) == 0 {
				fmt.Fprintln(out, "No grants.")
				return nil
			}
			names := c.NodeNames(cmd)
			t := terminal.NewTable(out, "GRANT", "KIND", "PRINCIPAL", "TOOLS", "NODE", "LANE", "ONLY", "USED", "UNTIL")
			for _, g := range all {
				used := fmt.Sprint(g.Used)
				if g.MaxUses > 0 {
					used += fmt.Sprintf(" of %d", g.MaxUses)
				}
				lane := string(g.Lane)
				if lane == "" {
					lane = "any"
				}
				only := strings.Join(slices.Concat(g.Scope.Domains, g.Scope.Apps, g.Scope.Paths), ", ")
				if !g.Scope.Starts.IsZero() {
					only = strings.TrimLeft(only+" from "+g.Scope.Starts.Local().Format(terminal.Clock), " ")
				}
				until := terminal.Clock
				if time.Until(g.Expires) > 24*time.Hour {
					until = time.DateOnly
				}
				t.Row(g.ID, g.Kind, string(g.Principal), strings.Join(g.Tools, ", "), cmp.Or(names[string(g.Node)], string(g.Node)), lane, only, used,
					g.Expires.Local().Format(until))
			}
			t.Flush()
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
	node := cmd.Flags().String("node", "", "the node (default: the only one)")
	lane := cmd.Flags().String("lane", "", "the lane (default: the one its token works in)")
	anyLane := cmd.Flags().Bool("any-lane", false, "every lane of the caller's")
	lasts := cmd.Flags().Duration("for", 5*time.Minute, "how long, at most 1h")
	narrow := addScopeFlags(cmd)
	starts := cmd.Flags().Duration("in", 0, "begin after so long, at most 24h (default: at once)")
	reason := cmd.Flags().String("reason", "", "why; it is recorded")
	cmd.MarkFlagsMutuallyExclusive("lane", "any-lane")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *lasts < time.Second {
			return terminal.TooShort("--for")
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		on, err := c.NodeID(cmd, *node)
		if err == nil && on == "" {
			on, err = c.SoleNode(cmd)
		}
		if err != nil {
			return err
		}
		request := api.GiveGrant{
			Principal: capabilities.PrincipalID(args[0]), Tools: args[1:], Node: capabilities.NodeID(on), Lane: capabilities.LaneID(*lane),
			AnyLane: *anyLane, Seconds: int64(lasts.Seconds()), Reason: *reason,
		}
		request.Scope, request.MaxUses = narrow.scope()
		if *starts > 0 {
			request.Scope.Starts = time.Now().Add(*starts).UTC()
		}
		var raw json.RawMessage
		if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("grants"), request, &raw); err != nil {
			return err
		}
		var made api.Grant
		if err := json.Unmarshal(raw, &made); err != nil {
			return fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
		}
		where := "in any lane"
		if made.Lane != "" {
			where = "in lane " + string(made.Lane)
		}
		if err := remote.Confirmed(cmd, raw, "grant %s: %s may use %s on %s %s for %s", made.ID, args[0], strings.Join(args[1:], ", "),
			cmp.Or(c.NodeNames(cmd)[on], on), where, capabilities.Spoken(*lasts)); err != nil {
			return err
		}
		if made.Lane != "" && *lane == "" {
			noteOtherLane(cmd, c, args[0], made.Lane)
		}
		return nil
	}
	return cmd
}

// noteOtherLane says where a principal works now, if that is not the lane of a grant that
// was made for it: a client that 'handrail connect' set up has a lane of its own each time.
func noteOtherLane(cmd *cobra.Command, c *remote.Gateway, principal string, lane capabilities.LaneID) {
	var answer api.LaneList
	if c.Get(cmd.Context(), remote.Path("lanes"), &answer) != nil {
		return
	}
	latest, at := capabilities.LaneID(""), time.Time{}
	for _, l := range answer.Lanes {
		if string(l.Principal) == principal && l.LastUsed.After(at) {
			latest, at = l.Lane, l.LastUsed
		}
	}
	if latest != "" && latest != lane {
		fmt.Fprintf(cmd.ErrOrStderr(),
			"%s last worked in lane %s, which this grant is not for: --lane names it, --any-lane covers every lane of the caller.\n",
			terminal.Plain(principal), terminal.Plain(string(latest)))
	}
}

func newGrantRevokeCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke GRANT",
		Short: "End a grant at once",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			id, err := c.ListedID(cmd, "grant", args[0], "grants", "grants", "grant")
			if err != nil {
				return err
			}
			return c.Change(cmd, http.MethodDelete, remote.Path("grants", id), nil, "grant %s has ended", id)
		},
	}
}
