package provider

import (
	"context"
	"encoding/json"
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

func newListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List providers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			all, done, err := remote.Listed[api.Provider](cmd, c, remote.Path("providers"), "providers")
			if done || err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if len(all) == 0 {
				fmt.Fprintln(out, "No providers yet. 'handrail provider add' adds one.")
				return nil
			}
			t := terminal.NewTable(out, "PROVIDER", "KIND", "HOST", "TOOLS", "CALLABLE", "STATE")
			for _, p := range all {
				callable, waits := 0, 0
				for _, tool := range p.Tools {
					if tool.Callable {
						callable++
					}
					if tool.State == "draft" || tool.State == "review" {
						waits++
					}
				}
				state := "ready"
				switch {
				case waits > 0:
					state = fmt.Sprintf("%d to look at", waits)
				case !p.Ready:
					state = stateWord(p.Reason)
				}
				host := string(p.Host)
				if host == "" {
					host = "-"
				}
				t.Row(p.Name, p.Kind, host, fmt.Sprint(len(p.Tools)), fmt.Sprint(callable), state)
			}
			t.Flush()
			return nil
		},
	}
}

func newShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a provider and its tools",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd, http.MethodGet, remote.Path("providers", args[0]), nil)
		},
	}
}

func newCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check NAME",
		Short: "Ask a provider what it offers now; what changed waits to be looked at",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd, http.MethodPost, remote.Path("providers", args[0], "check"), struct{}{})
		},
	}
}

func newApproveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approve NAME",
		Short: "Let a provider's tools be called, after a look at them",
		Long: "Shows each tool with what an approval would let agents do: what only reads is allowed, all others ask a person.\n" +
			"--allow, --ask and --deny decide otherwise about single tools. The approval is of what was shown: if the provider\n" +
			"says something else by then, nothing is approved.",
		Args: cobra.ExactArgs(1),
	}
	effects := map[string]*[]string{}
	for _, e := range []string{"allow", "ask", "deny"} {
		effects[e] = cmd.Flags().StringSlice(e, nil, e+" this tool; repeatable, all for every one")
	}
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		var p api.Provider
		if err := c.Ask(cmd.Context(), http.MethodGet, remote.Path("providers", args[0]), nil, &p); err != nil {
			return err
		}
		a := api.ApproveProvider{ManifestHash: p.ManifestHash, Tools: map[capabilities.ToolID]api.ToolChoice{}}
		for i := range p.Tools {
			t := &p.Tools[i]
			for effect, list := range effects {
				if slices.Contains(*list, "all") && t.State != "retired" || slices.Contains(*list, string(t.Tool)) {
					a.Tools[t.Tool] = api.ToolChoice{Effect: effect}
					t.Proposal, t.Effect = effect, effect
				}
			}
		}
		for effect, list := range effects {
			for _, name := range *list {
				if name != "all" && !slices.ContainsFunc(p.Tools, func(t api.ProviderTool) bool { return string(t.Tool) == name }) {
					return terminal.UsageError("--%s %s: the provider %s has no such tool", effect, terminal.Plain(name), terminal.Plain(p.Name))
				}
			}
		}
		if !*yes {
			if terminal.FlagsOf(cmd).JSON || !terminal.Interactive(cmd.InOrStdin()) {
				return terminal.UsageError("--yes is required where nobody can be asked")
			}
			a.Preview = true
			var then api.Provider
			if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("providers", args[0], "approve"), a, &then); err != nil {
				return err
			}
			a.Preview, p.Rules = false, then.Rules
			writeText(cmd.ErrOrStderr(), &p)
			fmt.Fprintf(cmd.ErrOrStderr(), "Approve these tools of %s? [y/N] ", terminal.Plain(p.Name))
			var answer string
			if _, err := fmt.Fscanln(cmd.InOrStdin(), &answer); err != nil || !strings.EqualFold(answer, "y") {
				return capabilities.Errorf(capabilities.CodeCancelled, "nothing was approved")
			}
		}
		if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("providers", args[0], "approve"), a, &p); err != nil {
			return err
		}
		if err := awaitOffer(cmd.Context(), c, &p); err != nil {
			return err
		}
		return show(cmd, &p)
	}
	return cmd
}

// offerWait is how long a host may take to offer what was approved until that is told as it is.
const offerWait = 5 * time.Second

// awaitOffer waits until the host of an approved provider has its credentials and offers its tools,
// which takes it a moment: whoever approves them calls one next.
func awaitOffer(ctx context.Context, c *remote.Gateway, p *api.Provider) error {
	again := time.NewTicker(offerWait / 50)
	defer again.Stop()
	passing := func(r capabilities.Reason) bool {
		return r == capabilities.ReasonNotAdvertised || r == capabilities.ReasonCredentialMissing
	}
	for until := time.Now().Add(offerWait); !p.Ready && passing(p.Reason) && time.Now().Before(until); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
		var now api.Provider
		if err := c.Ask(ctx, http.MethodGet, remote.Path("providers", p.Name), nil, &now); err != nil {
			return err
		}
		*p = now
	}
	return nil
}

func newRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "End a provider; its tools are gone at once",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := c.Ask(cmd.Context(), http.MethodDelete, remote.Path("providers", args[0]), nil, &raw); err != nil {
				return err
			}
			return remote.Confirmed(cmd, raw, "the provider %s is removed", args[0])
		},
	}
}

// ask makes one request about a provider and shows what it is then.
func ask(cmd *cobra.Command, method, at string, in any) error {
	c, err := remote.Find(cmd)
	if err != nil {
		return err
	}
	var p api.Provider
	if err := c.Ask(cmd.Context(), method, at, in, &p); err != nil {
		return err
	}
	return show(cmd, &p)
}

func show(cmd *cobra.Command, p *api.Provider) error {
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(cmd.OutOrStdout(), p)
	}
	writeText(cmd.OutOrStdout(), p)
	return nil
}
