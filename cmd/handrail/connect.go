package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/connect"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/client"
)

type connectOptions struct {
	print, remote, show, check, remove bool
	node, as, file                     string
}

func newConnectCmd() *cobra.Command {
	var o connectOptions
	cmd := &cobra.Command{
		Use:   "connect CLIENT",
		Short: "Connect an MCP client: write its configuration and test it",
		Long: "Puts an entry for this gateway into the client's own settings file, keeps a copy of the file, and tests what\n" +
			"it wrote the way the client will use it. Each client gets a token of its own, of role agent, kept in a file\n" +
			"that only you can read. Clients: " + strings.Join(connect.Names(), ", ") + ".",
		Example: "  handrail connect claude-code\n" +
			"  handrail connect codex --node NODE\n" +
			"  handrail connect cursor --print\n" +
			"  handrail connect --check",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: connect.Names(),
	}
	f := cmd.Flags()
	f.BoolVar(&o.print, "print", false, "print the entry and where it belongs instead of writing it")
	f.BoolVar(&o.remote, "http", false,
		"have the client call the gateway's address instead of starting 'handrail mcp'; the token is then in its file")
	f.StringVar(&o.node, "node", "", "the node its calls go to when they name none")
	f.StringVar(&o.as, "as", "", "principal it calls as (default: the client's name)")
	f.StringVar(&o.file, "file", "", "the client's settings file, if it is not where it usually is")
	f.BoolVar(&o.show, "show-token", false, "with --print and --http: print the token itself")
	f.BoolVar(&o.check, "check", false, "say what is wrong with the clients that are connected, or with CLIENT")
	f.BoolVar(&o.remove, "remove", false, "take CLIENT's entry out again and revoke its token")
	cmd.MarkFlagsMutuallyExclusive("check", "remove", "print")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		if full, err := filepath.Abs(string(data)); err == nil {
			data = datadir.Dir(full) // the client starts us from somewhere else
		}
		var kind connect.Client
		if len(args) == 1 {
			var ok bool
			if kind, ok = connect.Named(args[0]); !ok {
				return terminal.UsageError("there is no client %q; want one of %s", args[0], strings.Join(connect.Names(), ", "))
			}
		}
		switch {
		case o.show && !(o.print && o.remote):
			return terminal.UsageError("--show-token goes with --print --http; nothing else prints a token")
		case o.check:
			return checkClients(cmd, data, o.request(kind))
		case len(args) == 0 && !o.remove:
			return cmd.Help()
		case len(args) == 0:
			return terminal.UsageError("name the client; want one of %s", strings.Join(connect.Names(), ", "))
		case o.remove:
			return disconnect(cmd, data, o.request(kind))
		}
		return connectClient(cmd, data, kind, o)
	}
	return cmd
}

func (o connectOptions) request(kind connect.Client) connect.Request {
	return connect.Request{Client: kind, File: o.file, As: o.as, HTTP: o.remote}
}

// clientsOf is the folder of the clients that were connected.
func clientsOf(d datadir.Dir) connect.Store {
	return connect.Store{Dir: filepath.Join(string(d), "clients")}
}

// connectable is what clients are connected to: this data directory, and the gateway that the
// command finds from it.
func connectable(cmd *cobra.Command, d datadir.Dir) connect.Site {
	return connect.Site{
		Data: string(d), Store: clientsOf(d), Version: programVersion(), Told: remote.Told,
		Person: func() (connect.Gateway, error) {
			c, err := remote.Find(cmd)
			if err != nil {
				return connect.Gateway{}, err
			}
			return connect.Gateway{Client: c.Client, Base: c.Base, Token: client.NewToken(c.Token), Pin: c.Pin, Away: c.Away}, nil
		},
		Running: func() (*url.URL, client.Pin, error) {
			running, err := d.ReadRunning()
			if err != nil {
				return nil, client.Pin{}, err
			}
			base, pin, err := running.Place()
			if err != nil {
				err = capabilities.Errorf(capabilities.CodeInvalidRequest, "the gateway's address: %v", err)
			}
			return base, pin, err
		},
	}
}

func connectClient(cmd *cobra.Command, data datadir.Dir, kind connect.Client, o connectOptions) error {
	if o.remote && !kind.Remote() {
		return terminal.UsageError("%s only starts programs; leave --http out", kind.Title)
	}
	plan, err := connectable(cmd, data).Plan(cmd.Context(), o.request(kind))
	if err != nil {
		return err
	}
	var client *connect.Editable
	if !o.print {
		if client, err = plan.Editable(); err != nil {
			return err
		}
	}
	node := o.node
	if node != "" {
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		if node, err = c.NodeID(cmd, node); err != nil {
			return err
		}
	}
	if o.print {
		return printEntry(cmd, plan, kind, o.show, node)
	}
	if err := data.Make(clientsOf(data).Dir); err != nil {
		return err
	}
	made, err := client.Make(cmd.Context(), node)
	if err != nil {
		return err
	}
	stop := terminal.ShowWaiting(cmd, "testing "+kind.Title+"'s configuration")
	tools, err := made.Try(cmd.Context())
	stop()
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s is written, but the entry does not work:\n", terminal.Plain(made.File))
		return err
	}
	out, tokenFile := cmd.OutOrStdout(), clientsOf(data).Path(kind.Name)
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(out, map[string]any{
			"client": kind.Name, "file": made.File, "backup": made.Backup, "transport": made.Transport, "principal": made.Principal,
			"token_id": made.TokenID, "token_file": tokenFile, "node_id": made.Node, "tools": tools,
		})
	}
	fmt.Fprintf(out, "%s is connected over %s: %s\n", kind.Title, made.Transport, terminal.Plain(made.File))
	if made.Backup != "" {
		fmt.Fprintf(out, "  the file as it was is kept as %s\n", terminal.Plain(made.Backup))
	}
	fmt.Fprintf(out, "  it calls as %s, with token %s, which is kept in %s\n", terminal.Plain(made.Principal), terminal.Plain(made.TokenID),
		terminal.Plain(tokenFile))
	if made.Node != "" {
		fmt.Fprintf(out, "  calls that name no node go to %s\n", terminal.Plain(made.Node))
	}
	if made.Fingerprint != "" {
		fmt.Fprintf(out, "  the gateway's certificate is pinned: %s\n", made.Fingerprint)
	}
	fmt.Fprintf(out, "  tested as %s will use it: %s\n", kind.Title, terminal.Count(tools, "tool"))
	fmt.Fprintf(out, "  %s\n", kind.Reload)
	return nil
}

// printEntry shows what would be written.
func printEntry(cmd *cobra.Command, plan *connect.Plan, kind connect.Client, show bool, node string) error {
	entry, err := plan.Entry(show)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if terminal.FlagsOf(cmd).JSON {
		said := map[string]any{"client": kind.Name, "file": plan.File, "path": kind.Path, "text": entry.Text, "principal": entry.Principal}
		if entry.TokenFile != "" {
			said["token_id"], said["token_file"] = entry.TokenID, entry.TokenFile
		}
		return terminal.PrintJSON(out, said)
	}
	// The entry alone goes to standard output, so that it can be put into a file.
	note := cmd.ErrOrStderr()
	fmt.Fprintf(note, "%s reads %s; put this there:\n", kind.Title, terminal.Plain(plan.File))
	fmt.Fprint(out, entry.Text)
	switch {
	case entry.Hidden && entry.TokenFile != "":
		fmt.Fprintf(note, "TOKEN stands for the token in %s; --show-token prints it.\n", terminal.Plain(entry.TokenFile))
	case entry.Hidden:
		fmt.Fprintf(note, "TOKEN stands for a token of %s: 'handrail token create %s' makes one and prints it.\n",
			terminal.Plain(entry.Principal), terminal.Plain(entry.Principal))
	case entry.TokenFile == "":
		fmt.Fprintf(note, "Nothing was written. This entry calls with the token for agents; 'handrail connect %s' gives %s one of its own.\n",
			kind.Name, kind.Title)
	}
	if node != "" {
		fmt.Fprintf(note, "--node binds nothing with --print: 'handrail lane attach %s %s' does.\n", terminal.Plain(entry.Principal),
			terminal.Plain(node))
	}
	return nil
}

func disconnect(cmd *cobra.Command, data datadir.Dir, r connect.Request) error {
	gone, err := connectable(cmd, data).Remove(cmd.Context(), r)
	if err != nil {
		return err
	}
	if gone.Backup != "" {
		// With HTTP the copy holds the token, which is worthless once it is revoked.
		fmt.Fprintf(cmd.ErrOrStderr(), "the file as it was is kept as %s\n", terminal.Plain(gone.Backup))
	}
	if gone.Left != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "the entry is gone from %s, but token %s is still good; run this again when the gateway answers\n",
			terminal.Plain(gone.File), terminal.Plain(gone.TokenID))
		return gone.Left
	}
	raw, _ := json.Marshal(map[string]any{"client": r.Client.Name, "file": gone.File, "backup": gone.Backup, "token_id": gone.TokenID})
	return remote.Confirmed(cmd, raw, "%s is no longer connected", r.Client.Title)
}

// checkClients looks at one client, or at all that are connected.
func checkClients(cmd *cobra.Command, data datadir.Dir, r connect.Request) error {
	site := connectable(cmd, data)
	kinds := []connect.Client{r.Client}
	if r.Client.Name == "" {
		kinds = site.Connected()
	}
	out, bad := cmd.OutOrStdout(), 0
	if len(kinds) == 0 && !terminal.FlagsOf(cmd).JSON {
		fmt.Fprintf(out, "No client is connected. 'handrail connect CLIENT' connects one of %s.\n", strings.Join(connect.Names(), ", "))
	}
	for _, k := range kinds {
		r.Client = k
		found := site.Check(cmd.Context(), r)
		if !found.OK {
			bad++
		}
		if terminal.FlagsOf(cmd).JSON {
			if err := terminal.PrintJSON(out, found); err != nil {
				return err
			}
			continue
		}
		where := cmp.Or(found.File, "its entry was printed")
		if found.OK {
			fmt.Fprintf(out, "%s: OK. It answers over %s with %s (%s)\n", k.Name, found.Transport, terminal.Count(found.Tools, "tool"),
				terminal.Plain(where))
			continue
		}
		fmt.Fprintf(out, "%s: has problems (%s)\n", k.Name, terminal.Plain(where))
		for _, p := range found.Problems {
			fmt.Fprintf(out, "  %s: %s\n", p.Code, terminal.Plain(p.Message))
			if p.Fix != "" {
				fmt.Fprintf(out, "    -> %s\n", terminal.Plain(p.Fix))
			}
		}
	}
	if bad > 0 {
		return &terminal.ExitError{Code: terminal.ExitFailed, Err: fmt.Errorf("%s with problems", terminal.Count(bad, "client")), Silent: true}
	}
	return nil
}
