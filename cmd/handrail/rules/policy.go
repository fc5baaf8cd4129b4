package rules

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/invoke"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/rules"
)

// NewPolicyCmd makes 'handrail policy'.
func NewPolicyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check, try, compare and activate policy files",
		Long: "The *.cedar files in the gateway's policy folder are staged: editing them changes nothing.\n" +
			"'handrail policy diff' shows what they would change, 'handrail policy replay' what they would have\n" +
			"decided on the recorded calls, and 'handrail policy activate' puts them in force at once.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPolicyCheckCmd(), newPolicyTestCmd(), newPolicyExplainCmd(), newPolicyDiffCmd(), newPolicyActivateCmd(),
		newPolicyReplayCmd(), newPolicyHistoryCmd())
	return cmd
}

// stagedEngine loads the named files and folders, or the policy folder of the data directory, over
// the tools that an activation would know.
func stagedEngine(cmd *cobra.Command, paths []string) (*policy.Engine, vocabulary, error) {
	known, err := vocabularyOf(cmd)
	if err != nil {
		return nil, known, err
	}
	sources, err := sourcesOf(cmd, paths)
	if err != nil {
		return nil, known, err
	}
	engine, err := policy.Load(sources, known)
	if err != nil && known.missing != nil {
		refused := capabilities.AsError(err)
		err = refused.WithHint(refused.PublicHint() + " Only the tools of this program are known here, none of a provider: " +
			capabilities.AsError(known.missing).PublicMessage())
	}
	return engine, known, err
}

func sourcesOf(cmd *cobra.Command, paths []string) ([]policy.Source, error) {
	if len(paths) == 0 {
		data, err := datadir.Of(cmd)
		if err != nil {
			return nil, err
		}
		paths = []string{data.PolicyDir()}
	}
	var sources []policy.Source
	for _, p := range paths {
		info, err := os.Stat(p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, terminal.UsageError("%s does not exist", p)
		case err != nil:
			return nil, err
		case info.IsDir():
			more, err := rules.Read(p)
			if err != nil {
				return nil, err
			}
			sources = append(sources, more...)
		case info.Size() > policy.MaxSourceBytes:
			return nil, terminal.UsageError("%s is larger than %d bytes", p, policy.MaxSourceBytes)
		default:
			text, err := os.ReadFile(p)
			if err != nil {
				return nil, err
			}
			sources = append(sources, policy.Source{Name: filepath.Base(p), Data: text})
		}
	}
	return sources, nil
}

func newPolicyCheckCmd() *cobra.Command {
	schema, roles := false, false
	cmd := &cobra.Command{
		Use:   "check [FILE|FOLDER]...",
		Short: "Say whether policy files load, and what is wrong where",
		Long: "Checks the named files and folders, or the policy folder of the data directory. Rules may name the tools that an\n" +
			"activation would know: those of the gateway that runs, else those that its store has.",
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if roles {
				_, err := out.Write(policy.RolesSource())
				return err
			}
			engine, _, err := stagedEngine(cmd, args)
			if err != nil {
				return err
			}
			if schema {
				_, err := fmt.Fprint(out, engine.Schema())
				return err
			}
			files := []string{}
			for _, s := range engine.Sources() {
				files = append(files, s.Name)
			}
			if terminal.FlagsOf(cmd).JSON {
				return terminal.PrintJSON(out, map[string]any{"ok": true, "snapshot_id": engine.SnapshotID(), "files": files})
			}
			_, err = fmt.Fprintf(out, "good: %s\n%s\n", strings.Join(files, ", "), engine.SnapshotID())
			return err
		},
	}
	cmd.Flags().BoolVar(&schema, "schema", false, "print the Cedar schema that files are checked against")
	cmd.Flags().BoolVar(&roles, "roles", false, "print the role rules that ship")
	return cmd
}

// policyCase is one line of a file of tests.
type policyCase struct {
	Name      string          `json:"name,omitempty"`
	Principal string          `json:"principal"`
	Role      string          `json:"role,omitempty"` // default agent
	Tool      string          `json:"tool"`
	Lane      string          `json:"lane,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
	Taint     []string        `json:"taint,omitempty"`
	Given     string          `json:"given,omitempty"` // isolation the node gives; default: the tool's own
	Degraded  string          `json:"degraded,omitempty"`
	Raised    int             `json:"raised,omitempty"` // levels by which drift raises the risk
	Minute    int64           `json:"calls_last_minute,omitempty"`
	Hour      int64           `json:"calls_last_hour,omitempty"` // default: those of the last minute
	Day       int64           `json:"calls_last_day,omitempty"`  // default: those of the last hour
	Node      struct {
		ID       string   `json:"id,omitempty"`
		Label    string   `json:"label,omitempty"`
		Platform string   `json:"platform,omitempty"`
		Trust    string   `json:"trust,omitempty"`
		Labels   []string `json:"labels,omitempty"`
	} `json:"node,omitzero"`
	Expect expected `json:"expect"`
}

// expected is an effect as the author of a case writes it.
type expected struct{ policy.Effect }

// UnmarshalText reads allow, ask or deny.
func (e *expected) UnmarshalText(text []byte) error {
	f, err := policy.ParseEffect(string(text))
	if err != nil {
		return fmt.Errorf("expect is %.32q; want allow, ask or deny (a rule permits or forbids; what comes of all rules is one of these)", text)
	}
	e.Effect = f
	return nil
}

func newPolicyTestCmd() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "test CASES",
		Short: "Try policy files on calls whose outcome you expect",
		Long: "CASES holds one JSON object a line: {\"tool\": \"tool.browser.navigate\", \"principal\": \"alice\",\n" +
			"\"args\": {\"url\": \"https://example.com\"}, \"given\": \"t2\", \"expect\": \"allow\"}. Also name, role, lane, taint,\n" +
			"degraded, calls_last_minute, calls_last_hour, calls_last_day and node {id, label, platform, trust, labels}.\n" +
			"expect is allow, ask or deny. given is the isolation that the device gives: t0 to t3, walls from thin to thick,\n" +
			"or session for what works in the person's session. Default:\n" +
			"session where the tool may work there, else the least that the tool needs.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, known, err := stagedEngine(cmd, files)
			if err != nil {
				return err
			}
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			failed, n, line := 0, 0, 0
			lines := bufio.NewScanner(f)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				line++
				text := strings.TrimSpace(lines.Text())
				if text == "" || strings.HasPrefix(text, "#") || strings.HasPrefix(text, "//") {
					continue
				}
				n++
				ok, err := runPolicyCase(cmd, engine, known, text, line)
				if err != nil {
					return err
				}
				if !ok {
					failed++
				}
			}
			if err := lines.Err(); err != nil {
				return err
			}
			if !terminal.FlagsOf(cmd).JSON {
				fmt.Fprintf(cmd.OutOrStdout(), "%s, %d failed\n", terminal.Count(n, "case"), failed)
			}
			if failed > 0 {
				return &terminal.ExitError{Code: terminal.ExitFailed, Silent: true}
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&files, "files", nil, "policy files or folders to try (default: the policy folder)")
	return cmd
}

func runPolicyCase(cmd *cobra.Command, engine *policy.Engine, known vocabulary, text string, line int) (bool, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	c := policyCase{Role: policy.RoleAgent}
	if err := dec.Decode(&c); err != nil {
		return false, terminal.UsageHint("'handrail policy test --help' shows a case.", "line %d: %s", line,
			strings.TrimPrefix(err.Error(), "json: "))
	}
	if c.Given == "" {
		c.Given = string(engine.Profile(capabilities.ToolID(c.Tool)).Class())
	}
	q, err := c.request(known)
	if err != nil {
		return false, terminal.UsageError("line %d: %v", line, err)
	}
	d := engine.Decide(q)
	ok := d.Effect == c.Expect.Effect
	if terminal.FlagsOf(cmd).JSON {
		return ok, terminal.PrintJSON(cmd.OutOrStdout(),
			map[string]any{"line": line, "name": c.Name, "ok": ok, "expect": c.Expect, "decision": d})
	}
	if !ok {
		name := c.Name
		if name == "" {
			name = c.Tool
		}
		fmt.Fprintf(cmd.OutOrStdout(), "FAIL line %d %s: %s, not %s (%s) by %s\n", line, terminal.Plain(name), d.Effect, c.Expect, d.Reason,
			strings.Join(d.Determining, ", "))
	}
	return ok, nil
}

func newPolicyExplainCmd() *cobra.Command {
	var who, role, node, lane string
	var pairs []string
	cmd := &cobra.Command{
		Use:   "explain TOOL [ARGS]",
		Short: "Say whether a call would pass, and by which rule",
		Long:  "Asks the gateway the question it would ask for this call. ARGS is a JSON object.",
		Args:  cobra.RangeArgs(1, 2),

		ValidArgsFunction: remote.CompleteTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			if node, err = c.NodeID(cmd, node); err != nil {
				return err
			}
			tool := c.ToolName(cmd, args[0])
			in := api.ExplainPolicy{
				Principal: capabilities.PrincipalID(who), Role: role, Tool: capabilities.ToolID(tool), Node: capabilities.NodeID(node),
				Lane: capabilities.LaneID(lane),
			}
			if len(args) > 1 && !json.Valid([]byte(args[1])) {
				return terminal.UsageError("ARGS is not JSON")
			}
			if len(args) > 1 || len(pairs) > 0 {
				o := invoke.Options{Pairs: pairs}
				if len(args) > 1 {
					o.Args = args[1]
				}
				if in.Args, err = o.Arguments(cmd, c, tool); err != nil {
					return err
				}
			}
			var x policy.Explanation
			if err := c.Ask(cmd.Context(), http.MethodPost, "/v1/policy/explain", in, &x); err != nil {
				return c.LikeTool(cmd, args[0], err)
			}
			out := cmd.OutOrStdout()
			if terminal.FlagsOf(cmd).JSON {
				return terminal.PrintJSON(out, x)
			}
			fmt.Fprintf(out, "%s: %s\n", x.Decision.Effect, terminal.Plain(x.Decision.Reason))
			for _, k := range x.Decision.Withheld {
				fmt.Fprintf(out, "without %s\n", terminal.Plain(k))
			}
			t := terminal.NewTable(out, "RULE", "FILE", "EFFECT", "APPLIES", "WHY")
			for _, r := range x.Rules {
				t.Row(r.ID, fmt.Sprintf("%s:%d", r.Source, r.Line), r.Effect, r.Says(), r.Why)
			}
			t.Flush()
			remote.NoteStop(cmd, c)
			return nil
		},
	}
	cmd.Flags().StringVar(&who, "principal", "agent", "who would call")
	cmd.Flags().StringArrayVar(&pairs, "arg", nil, "one argument as name=value, typed by the tool's schema (repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("arg", remote.CompleteArguments)
	cmd.Flags().StringVar(&role, "role", policy.RoleAgent, "the role of their token: agent, viewer, operator or admin")
	cmd.Flags().StringVar(&node, "node", "", "the node it would run on (default: the one a call would go to)")
	cmd.Flags().StringVar(&lane, "lane", "", "the lane (default: the principal's)")
	return cmd
}

func newPolicyHistoryCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "history",
		Short: "List which policies were in force, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			list, done, err := remote.Listed[api.PolicyVersion](cmd, c, "/v1/policy/history", "versions")
			if done || err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			t := terminal.NewTable(out, "SINCE", "POLICY", "BY", "REASON")
			for _, v := range list {
				t.Row(v.At.Local().Format(terminal.DayClock), rules.Short(v.Snapshot), string(v.By), v.Reason)
			}
			t.Flush()
			return nil
		},
	}
}
