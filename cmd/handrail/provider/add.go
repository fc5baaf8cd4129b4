package provider

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/provider/openapi"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewProviderCmd returns the commands about providers.
func NewProviderCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "Add tools of other programs, and macros of tools",
		Long: "A provider runs on a node, behind walls, with nothing but what it is given. Its tools are called like any other:\n" +
			"listed, decided, asked about, recorded. None is called before somebody looked at it and approved it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAddCmd(), newListCmd(), newShowCmd(), newCheckCmd(), newApproveCmd(),
		newRemoveCmd(), newSignInCmd(), newSignOutCmd())
	return cmd
}

func newAddCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add KIND NAME",
		Short: "Add a provider: command, mcp, openapi, macro or sub-agent",
		Long: "KIND is command (programs, by argument templates: --manifest FILE; or a WebAssembly module: -- FILE.wasm, too), mcp (an MCP " +
			"server: -- COMMAND, or --http URL),\n" +
			"openapi (an HTTP API, by its OpenAPI document: openapi NAME URL or FILE), macro (a chain of tools, from a YAML file:\n" +
			"macro NAME FILE) or sub-agent (a worker with a task and tools of its own, from a YAML file: sub-agent NAME FILE). A node hosts all\n" +
			"but the last two; their tools become tool.NAME.ACTION, and they may reach on the node what\n" +
			"is said here, and nothing else. A macro becomes tool.macro.NAME, a sub-agent tool.sub-agent.NAME; adding one that exists\n" +
			"replaces its file.",
		Example: "  handrail provider add command images --manifest images.json --write ~/Pictures\n" +
			"  handrail provider add command text --manifest text.json -- text.wasm\n" +
			"  handrail provider add mcp files --read /srv/mcp --write /srv/texts -- /srv/mcp/node_modules/.bin/mcp-server-filesystem /srv/texts\n" +
			"  handrail provider add mcp wiki --http https://wiki.example/mcp\n" +
			"  handrail provider add openapi petstore https://petstore.example/openapi.json --only pets\n" +
			"  handrail provider add macro save-page save-page.yaml\n" +
			"  handrail provider add sub-agent reader reader.yaml",
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
		case composed(in.Kind) && len(args) == 3 && manifest == "":
			manifest, in.Command = args[2], nil
		case composed(in.Kind):
			return terminal.UsageError("a %s is added with its name and its file: handrail provider add %s NAME FILE", in.Kind, in.Kind)
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
			return terminal.UsageError("KIND is command, mcp, openapi, macro or sub-agent, not %q", in.Kind)
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
		if !composed(in.Kind) {
			if in.Host, err = hostNamed(cmd.Context(), c, *host); err != nil {
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
		return show(cmd, &p)
	}
	return cmd
}

// composed reports whether the gateway itself makes the calls of a provider's tool.
func composed(kind string) bool { return tools.Kind(kind).Composed() }

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
	if err := c.Ask(ctx, http.MethodPost, remote.Path("providers", p.Name, "approve"), a, &out); err != nil {
		return out, err
	}
	err := awaitOffer(ctx, c, &out)
	return out, err
}

// hostNamed returns the node that is meant: the one that is named by ID or label, or the
// only one that may host providers.
func hostNamed(ctx context.Context, c *remote.Gateway, name string) (capabilities.NodeID, error) {
	var list api.NodeList
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
