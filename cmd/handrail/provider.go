package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/provider/openapi"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

func newProviderCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "Add tools of other programs, and macros of tools",
		Long: "A provider runs on a node, behind walls, with nothing but what it is given. Its tools are called like any other:\n" +
			"listed, decided, asked about, recorded. None is called before somebody looked at it and approved it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newProviderAddCmd(), newProviderListCmd(), newProviderShowCmd(), newProviderCheckCmd(), newProviderApproveCmd(),
		newProviderRemoveCmd(), newProviderSignInCmd(), newProviderSignOutCmd())
	return cmd
}

func newProviderAddCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add KIND NAME",
		Short: "Add a provider: command, mcp, openapi or macro",
		Long: "KIND is command (programs, by argument templates: --manifest FILE; or a WebAssembly module: -- FILE.wasm, too), mcp (an MCP " +
			"server: -- COMMAND, or --http URL),\n" +
			"openapi (an HTTP API, by its OpenAPI document: openapi NAME URL or FILE) or macro (a chain of tools, from a YAML file:\n" +
			"macro NAME FILE). A node hosts all but a macro; their tools become tool.NAME.ACTION, and they may reach on the node what\n" +
			"is said here, and nothing else. A macro becomes tool.macro.NAME; adding one that exists replaces its file.",
		Example: "  handrail provider add command images --manifest images.json --write ~/Pictures\n" +
			"  handrail provider add command text --manifest text.json -- text.wasm\n" +
			"  handrail provider add mcp files --read /srv/mcp --write /srv/texts -- node /srv/mcp/server-filesystem/dist/index.js /srv/texts\n" +
			"  handrail provider add mcp wiki --http https://wiki.example/mcp\n" +
			"  handrail provider add openapi petstore https://petstore.example/openapi.json --only pets\n" +
			"  handrail provider add macro save-page save-page.yaml",
		Args: cobra.MinimumNArgs(2),
	}
	var in api.AddProvider
	var manifest string
	var yes bool
	f := cmd.Flags()
	host := f.String("host", "", "node that hosts it (default: the only one that may)")
	f.StringVar(&manifest, "manifest", "", "file with the manifest of a command, as JSON")
	f.StringVar(&in.URL, "http", "", "address of an MCP server")
	f.StringSliceVar(&in.Only, "only", nil, "only these tools, tags or operations; repeatable")
	f.StringVar(&in.Server, "server", "", "address of an HTTP API, in place of what its document says")
	f.StringSliceVar(&in.Headers, "header", nil, "NAME=SECRET: header of an HTTP API with the value of a stored secret; repeatable")
	f.StringSliceVar(&in.Read, "read", nil, "folder that it may read; repeatable")
	f.StringSliceVar(&in.Write, "write", nil, "folder that it may write; repeatable")
	f.StringSliceVar(&in.Net, "net", nil, "host that it may reach, with or without a port (HOST, *.DOMAIN); repeatable")
	f.StringSliceVar(&in.Env, "env", nil, "NAME=SECRET: variable (with --http: header) with the value of a stored secret; repeatable")
	f.BoolVar(&yes, "yes", false, "approve it, too, and allow all of its tools")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in.Kind, in.Name, in.Command = args[0], args[1], args[2:]
		switch {
		case in.Kind == "macro" && len(args) == 3 && manifest == "":
			manifest, in.Command = args[2], nil
		case in.Kind == "macro":
			return terminal.UsageError("a macro is added with its name and its file: handrail provider add macro NAME FILE")
		case in.Kind == "openapi" && len(args) == 3 && manifest == "" && in.URL == "":
			in.Command = nil
			if err := document(&in, args[2]); err != nil {
				return err
			}
		case in.Kind == "openapi":
			return terminal.UsageError("an HTTP API is added with its name and its document: handrail provider add openapi NAME URL|FILE")
		case in.Kind == "command" && len(in.Command) > 0:
			if err := module(&in); err != nil {
				return err
			}
		case in.Kind != "command" && in.Kind != "mcp":
			return terminal.UsageError("KIND is command, mcp, openapi or macro, not %q", in.Kind)
		}
		if in.Kind != "openapi" && (len(in.Headers) > 0 || in.Server != "") {
			return terminal.UsageError("--header and --server are for HTTP APIs (openapi)")
		}
		if manifest != "" {
			data, err := os.ReadFile(manifest)
			if err != nil {
				return err
			}
			in.Manifest = string(data)
		}
		for _, list := range []*[]string{&in.Read, &in.Write} {
			for i, dir := range *list {
				full, err := filepath.Abs(dir)
				if err != nil {
					return err
				}
				(*list)[i] = full
			}
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		if in.Kind != "macro" {
			if in.Host, err = providerHost(cmd.Context(), c, *host); err != nil {
				return err
			}
		}
		var p api.Provider
		if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("providers"), in, &p); err != nil {
			return err
		}
		if yes {
			if p, err = approveAll(cmd.Context(), c, p); err != nil {
				return err
			}
		}
		return showProvider(cmd, &p)
	}
	return cmd
}

// module takes over which WebAssembly module a command's tools run.
func module(in *api.AddProvider) error {
	if len(in.Command) > 1 || !strings.HasSuffix(in.Command[0], ".wasm") {
		return terminal.UsageError(
			"the programs of a command stand in its manifest; behind -- stands a WebAssembly module (FILE.wasm) or nothing")
	}
	full, err := filepath.Abs(in.Command[0])
	in.Command = []string{full}
	return err
}

// document takes over where an OpenAPI document is, or the file that it is: without what makes no
// tool, since whole ones are large.
func document(in *api.AddProvider, at string) error {
	if strings.HasPrefix(at, "https://") || strings.HasPrefix(at, "http://") {
		in.URL = at
		return nil
	}
	f, err := os.Open(at)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, openapi.MaxDocument+1))
	if err != nil {
		return err
	}
	small, err := openapi.Reduce(&tools.Provider{Name: in.Name, Kind: tools.KindOpenAPI, Only: in.Only}, data)
	if err != nil {
		return err
	}
	packed, err := openapi.Pack(small)
	in.Manifest = string(packed)
	return err
}

// approveAll allows every tool of a provider, for scripts.
func approveAll(ctx context.Context, c *remote.Gateway, p api.Provider) (api.Provider, error) {
	a := api.ApproveProvider{ManifestHash: p.ManifestHash, Tools: map[capabilities.ToolID]api.ToolChoice{}}
	for _, t := range p.Tools {
		if t.State != "retired" { // that is for good
			a.Tools[t.Tool] = api.ToolChoice{Effect: "allow"}
		}
	}
	var out api.Provider
	return out, c.Ask(ctx, http.MethodPost, remote.Path("providers", p.Name, "approve"), a, &out)
}

// providerHost returns the node that is meant: the one that is named by ID or label, or the
// only one that may host providers.
func providerHost(ctx context.Context, c *remote.Gateway, name string) (capabilities.NodeID, error) {
	var list struct {
		Nodes []api.Node `json:"nodes"`
	}
	if err := c.Ask(ctx, http.MethodGet, remote.Path("nodes"), nil, &list); err != nil {
		return "", err
	}
	var found []capabilities.NodeID
	for _, n := range list.Nodes {
		named := name != "" && (string(n.ID) == name || n.Label == name)
		hosts := name == "" &&
			slices.ContainsFunc(n.Capabilities, func(r api.Capability) bool { return r.Capability == "tyrum.provider.host" && r.Available })
		if named || hosts {
			found = append(found, n.ID)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case name != "":
		return "", capabilities.Errorf(capabilities.CodeNodeNotFound, "there is no node %.128q", name)
	case len(found) == 0:
		return "", command.Advise(capabilities.Errorf(capabilities.CodeNodeNotReady, "no node may host providers"),
			"Start one with --host-providers; ", command.Here("up"), " does.")
	}
	return "", capabilities.Errorf(capabilities.CodeAmbiguousNode, "several nodes may host providers").WithHint("Name one with --host.")
}

func newProviderListCmd() *cobra.Command {
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

func newProviderShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a provider and its tools",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onProvider(cmd, http.MethodGet, remote.Path("providers", args[0]), nil)
		},
	}
}

func newProviderCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check NAME",
		Short: "Ask a provider what it offers now; what changed waits to be looked at",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onProvider(cmd, http.MethodPost, remote.Path("providers", args[0], "check"), struct{}{})
		},
	}
}

func newProviderApproveCmd() *cobra.Command {
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
			providerText(cmd.ErrOrStderr(), &p)
			fmt.Fprintf(cmd.ErrOrStderr(), "Approve these tools of %s? [y/N] ", terminal.Plain(p.Name))
			var answer string
			if _, err := fmt.Fscanln(cmd.InOrStdin(), &answer); err != nil || !strings.EqualFold(answer, "y") {
				return capabilities.Errorf(capabilities.CodeCancelled, "nothing was approved")
			}
		}
		return onProvider(cmd, http.MethodPost, remote.Path("providers", args[0], "approve"), a)
	}
	return cmd
}

func newProviderRemoveCmd() *cobra.Command {
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

// onProvider makes one request about a provider and shows what it is then.
func onProvider(cmd *cobra.Command, method, at string, in any) error {
	c, err := remote.Find(cmd)
	if err != nil {
		return err
	}
	var p api.Provider
	if err := c.Ask(cmd.Context(), method, at, in, &p); err != nil {
		return err
	}
	return showProvider(cmd, &p)
}

func showProvider(cmd *cobra.Command, p *api.Provider) error {
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(cmd.OutOrStdout(), p)
	}
	providerText(cmd.OutOrStdout(), p)
	return nil
}

// providerText is a provider for people.
func providerText(out io.Writer, p *api.Provider) {
	if p.Host == "" {
		fmt.Fprintf(out, "%s (%s)\n", terminal.Plain(p.Name), terminal.Plain(p.Kind))
	} else {
		fmt.Fprintf(out, "%s (%s) on %s\n", terminal.Plain(p.Name), terminal.Plain(p.Kind), terminal.Plain(string(p.Host)))
	}
	if len(p.Command) > 0 {
		fmt.Fprintf(out, "  runs %s\n", shellWords(p.Command))
	}
	if p.URL != "" {
		word := "calls"
		if p.Kind == "openapi" {
			word = "is described by"
		}
		fmt.Fprintf(out, "  %s %s\n", word, terminal.Plain(p.URL))
	}
	if p.Server != "" {
		fmt.Fprintf(out, "  calls %s\n", terminal.Plain(p.Server))
	}
	for _, reach := range []struct {
		name string
		list []string
	}{{"reads", p.Read}, {"writes", p.Write}, {"reaches", p.Net}, {"gets", append(slices.Clone(p.Env), p.Headers...)}} {
		if len(reach.list) > 0 {
			fmt.Fprintf(out, "  %s %s\n", reach.name, terminal.Plain(strings.Join(reach.list, ", ")))
		}
	}
	t := terminal.NewTable(out, "TOOL", "STATE", "AGENTS", "LOOK AT", "WHAT IT SAYS OF ITSELF")
	waits := 0
	for _, tool := range p.Tools {
		effect := tool.Effect
		if tool.State == "draft" || tool.State == "review" {
			effect = "proposed: " + tool.Proposal
			waits++
		}
		look := strings.Join(tool.Flags, ", ")
		if look == "" {
			look = "-"
		}
		t.Row(string(tool.Tool), tool.State, effect, look, capabilities.Brief(tool.Description, 60))
	}
	t.Flush()
	for i := range p.Tools {
		if t := &p.Tools[i]; t.State == "draft" || t.State == "review" {
			lookText(out, p.Kind, t)
		}
	}
	if p.Rules != "" {
		when := "the rules in force by its approval"
		if waits > 0 {
			when = "the rules that its approval puts in force"
		}
		fmt.Fprintf(out, "\n%s (provider-%s.cedar):\n", when, terminal.Plain(p.Name))
		rulesText(out, p.Rules)
		fmt.Fprintln(out)
	}
	if !p.Ready && p.Reason != "" {
		fmt.Fprintf(out, "not ready: %s. %s\n", stateWord(p.Reason), terminal.Plain(p.Fix))
		if p.Reason == capabilities.ReasonNeedsSignIn {
			fmt.Fprintf(out, "sign in: handrail provider sign-in %s\n", terminal.Plain(p.Name))
		}
	}
	for _, r := range p.Refused {
		fmt.Fprintf(out, "refused: %s: %s\n", terminal.Plain(r.Upstream), terminal.Plain(r.Reason))
	}
	for _, t := range p.Tried {
		if t.Flag != "" {
			fmt.Fprintf(out, "tried %s; allow it with %s\n", terminal.Plain(t.Target), terminal.Plain(t.Flag))
		} else {
			fmt.Fprintf(out, "tried %s, which may not be reached: %s\n", terminal.Plain(t.Target), terminal.Plain(t.Why))
		}
	}
	if waits > 0 {
		fmt.Fprintf(out, "%d to look at: handrail provider approve %s\n", waits, terminal.Plain(p.Name))
	}
}

// shownActions is how many tools of a rule are shown, if it names more than one more.
const shownActions = 12

// rulesText is Cedar for people. Of a rule about many tools it shows the first: which tools are
// allowed and which ask stands beside each of them.
func rulesText(out io.Writer, rules string) {
	lines := slices.Collect(strings.Lines(rules))
	action := func(line string) bool { return strings.HasPrefix(line, "  Action::") }
	for i := 0; i < len(lines); i++ {
		named := 0
		for i+named < len(lines) && action(lines[i+named]) {
			named++
		}
		if more := named - shownActions; more > 1 {
			for _, line := range lines[i : i+shownActions] {
				fmt.Fprintf(out, "  %s\n", terminal.Plain(strings.TrimRight(line, "\n")))
			}
			fmt.Fprintf(out, "    // and %d more of the tools above\n", more)
			i += named - 1
			continue
		}
		fmt.Fprintf(out, "  %s\n", terminal.Plain(strings.TrimRight(lines[i], "\n")))
	}
}

// lookText is what an approval of a tool lets run, and all that the tool says of itself: no end of
// a line hides a part.
func lookText(out io.Writer, kind string, t *api.ProviderTool) {
	fmt.Fprintf(out, "\n%s\n", terminal.Plain(string(t.Tool)))
	if len(t.Argv) > 0 {
		if kind == "openapi" {
			fmt.Fprintf(out, "  sends %s\n", terminal.Plain(strings.Join(t.Argv, " ")))
		} else {
			fmt.Fprintf(out, "  runs %s\n", shellWords(t.Argv))
		}
	}
	for _, step := range t.Plan {
		fmt.Fprintf(out, "  step %s\n", terminal.Plain(step))
	}
	for _, line := range wrapped(terminal.Plain(t.Description), 96) {
		fmt.Fprintf(out, "  %s\n", line)
	}
}

// shellWords is a command as a shell would read it.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = command.Word(runtime.GOOS, terminal.Plain(w))
	}
	return strings.Join(quoted, " ")
}

// wrapped is a text in lines of at most most characters; a word that is longer has one of its own.
func wrapped(text string, most int) (lines []string) {
	line, n := "", 0
	for _, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		if n > 0 && n+1+length > most {
			lines = append(lines, line)
			line, n = "", 0
		}
		if n > 0 {
			line, n = line+" ", n+1
		}
		line, n = line+word, n+length
	}
	if n > 0 {
		lines = append(lines, line)
	}
	return lines
}
