package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/clientfile"
	api "github.com/handrail-dev/handrail/gateway/client"
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
			"that only you can read. Clients: " + strings.Join(clientNames(), ", ") + ".",
		Example: "  handrail connect claude-code\n" +
			"  handrail connect codex --node NODE\n" +
			"  handrail connect cursor --print\n" +
			"  handrail connect --check",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: clientNames(),
	}
	f := cmd.Flags()
	f.BoolVar(&o.print, "print", false, "print the entry and where it belongs instead of writing it")
	f.BoolVar(&o.remote, "http", false, "have the client call the gateway's address instead of starting 'handrail mcp'; the token is then in its file")
	f.StringVar(&o.node, "node", "", "the node its calls go to when they name none")
	f.StringVar(&o.as, "as", "", "principal it calls as (default: the client's name)")
	f.StringVar(&o.file, "file", "", "the client's settings file, if it is not where it usually is")
	f.BoolVar(&o.show, "show-token", false, "with --print and --http: print the token itself")
	f.BoolVar(&o.check, "check", false, "say what is wrong with the clients that are connected, or with CLIENT")
	f.BoolVar(&o.remove, "remove", false, "take CLIENT's entry out again and revoke its token")
	cmd.MarkFlagsMutuallyExclusive("check", "remove", "print")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := dataDirOf(cmd)
		if err != nil {
			return err
		}
		if full, err := filepath.Abs(string(data)); err == nil {
			data = dataDir(full) // the client starts us from somewhere else
		}
		var kind clientKind
		if len(args) == 1 {
			var ok bool
			if kind, ok = kindOf(args[0]); !ok {
				return usageError("there is no client %q; want one of %s", args[0], strings.Join(clientNames(), ", "))
			}
		}
		switch {
		case o.show && !(o.print && o.remote):
			return usageError("--show-token goes with --print --http; nothing else prints a token")
		case o.check:
			return checkClients(cmd, data, kind, o)
		case len(args) == 0 && !o.remove:
			return cmd.Help()
		case len(args) == 0:
			return usageError("name the client; want one of %s", strings.Join(clientNames(), ", "))
		case o.remove:
			return disconnect(cmd, data, kind, o)
		}
		return connect(cmd, data, kind, o)
	}
	return cmd
}

// fileOf is the client's settings file: as told, as it was connected, or where it
// usually is.
func (o connectOptions) fileOf(kind clientKind, known connection) string {
	file := kind.file(here())
	switch {
	case o.file != "":
		file = o.file
	case known.File != "":
		file = known.File
	}
	if full, err := filepath.Abs(file); err == nil {
		file = full
	}
	return file
}

func connect(cmd *cobra.Command, data dataDir, kind clientKind, o connectOptions) error {
	if o.remote && !kind.Remote() {
		return usageError("%s only starts programs; leave --http out", kind.Title)
	}
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	if o.remote {
		if err := othersTrust(cmd, c, kind); err != nil {
			return err
		}
	}
	old, had, err := data.readConnection(kind.Name)
	if err != nil {
		return err
	}
	file := o.fileOf(kind, old)
	if !o.print && o.file == "" && !kind.found(file) {
		return notFound(kind, file)
	}
	if !o.print { // before a token is made: a file that cannot be edited stays as it is
		text, err := clientfile.Read(file)
		if err == nil {
			_, _, err = clientfile.Get(kind.format(), text, kind.Path...)
		}
		if err != nil {
			return fileProblem(kind, file, err)
		}
	}
	if o.node, err = c.nodeID(cmd, o.node); err != nil {
		return err
	}
	if o.print {
		return printEntry(cmd, data, c, kind, o, file, old, had)
	}
	now, fresh, err := authorise(cmd, data, c, kind, o, old, had)
	if err != nil {
		return err
	}
	if o.node != "" {
		if err := bindNode(cmd, c, now.Principal, o.node); err != nil {
			return err
		}
		now.Node = o.node
	}
	now.Transport = "stdio"
	if o.remote {
		now.Transport = "http"
	}
	fields := kind.fields(data, c, now)
	now.File = file
	if err := data.saveConnection(now); err != nil {
		return err
	}
	backup, err := clientfile.Edit(file, clientfile.Options{Private: o.remote}, func(old []byte) ([]byte, error) {
		return clientfile.Put(kind.format(), old, kind.Path, fields, dropped(fields))
	})
	if err != nil {
		return fileProblem(kind, file, err)
	}
	if fresh && had && old.Site == now.Site && old.TokenID != now.TokenID {
		// Its successor is in place. If this fails, the old token is listed as any other.
		_, _ = c.RevokeToken(cmd.Context(), old.TokenID)
	}
	return proveConnected(cmd, data, kind, now, file, backup)
}

// othersTrust refuses to send a client to an address whose certificate it would not
// take: no client but ours can be told a fingerprint.
func othersTrust(cmd *cobra.Command, c *client, kind clientKind) error {
	if c.pin.IsZero() {
		return nil
	}
	if _, err := newClientAt(c.base, c.token, api.Pin{}).Health(cmd.Context()); !api.Untrusted(err) {
		return told(err)
	}
	return capabilities.Errorf(capabilities.CodeInvalidRequest, "%s would not take the certificate of %s, which is known by its fingerprint only", kind.Title, c.base).
		WithHint("Leave --http out: 'handrail mcp', which the client then starts, pins the fingerprint. Or set HANDRAIL_URL and HANDRAIL_TOKEN to the name that the gateway's certificate is for.")
}

// proveConnected tests what is in the file now and says how it went.
func proveConnected(cmd *cobra.Command, data dataDir, kind clientKind, now connection, file, backup string) error {
	text, err := clientfile.Read(file)
	if err != nil {
		return err
	}
	entry, _, err := clientfile.Get(kind.format(), text, kind.Path...)
	if err != nil {
		return fileProblem(kind, file, err)
	}
	stop := showWaiting(cmd, "testing "+kind.Title+"'s configuration")
	tools, err := tryEntry(cmd.Context(), entry)
	stop()
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s is written, but the entry does not work:\n", plain(file))
		return err
	}
	out := cmd.OutOrStdout()
	if commonOf(cmd).json {
		return printJSON(out, map[string]any{
			"client": kind.Name, "file": file, "backup": backup, "transport": now.Transport, "principal": now.Principal,
			"token_id": now.TokenID, "token_file": data.connectionPath(kind.Name), "node_id": now.Node, "tools": tools,
		})
	}
	fmt.Fprintf(out, "%s is connected over %s: %s\n", kind.Title, now.Transport, plain(file))
	if backup != "" {
		fmt.Fprintf(out, "  the file as it was is kept as %s\n", plain(backup))
	}
	fmt.Fprintf(out, "  it calls as %s, with token %s, which is kept in %s\n", plain(now.Principal), plain(now.TokenID), plain(data.connectionPath(kind.Name)))
	if now.Node != "" {
		fmt.Fprintf(out, "  calls that name no node go to %s\n", plain(now.Node))
	}
	if pin := fingerprintOf(data, now); pin != "" {
		fmt.Fprintf(out, "  the gateway's certificate is pinned: %s\n", pin)
	}
	fmt.Fprintf(out, "  tested as %s will use it: %s\n", kind.Title, count(tools, "tool"))
	fmt.Fprintf(out, "  %s\n", kind.Reload)
	return nil
}

// fingerprintOf is the pin that a connection's own way to the gateway holds to.
func fingerprintOf(data dataDir, now connection) string {
	c, err := data.gatewayOf(now)
	if err != nil {
		return ""
	}
	return c.pin.String()
}

// authorise returns the connection with a token that is good: the one it has, or a
// new one; fresh says which.
func authorise(cmd *cobra.Command, data dataDir, c *client, kind clientKind, o connectOptions, old connection, had bool) (now connection, fresh bool, err error) {
	health, err := c.Health(cmd.Context())
	if err != nil {
		return now, false, told(err)
	}
	now = connection{Client: kind.Name, Site: string(health.SiteID), Principal: kind.Name}
	if c.away {
		now.URL, now.Pin = c.base.String(), c.pin.String()
	}
	if had {
		now.Node, now.File = old.Node, old.File
		now.Principal = old.Principal
	}
	if o.as != "" {
		now.Principal = o.as
	}
	if had && old.Site == now.Site && old.Principal == now.Principal {
		now.TokenID, now.Token = old.TokenID, old.Token
		_, err := newClientAt(c.base, old.Token.text, c.pin).Tools(cmd.Context(), "")
		if err == nil {
			return now, false, nil
		}
		if capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
			return now, false, err
		}
	}
	made, secret, err := c.CreateToken(cmd.Context(), capabilities.PrincipalID(now.Principal), "agent", "", 0)
	if err != nil {
		return now, false, told(err)
	}
	now.TokenID, now.Token = made.ID, token{secret.Reveal()}
	return now, true, nil
}

// bindNode makes node the only one of the principal's own lane. Every new lane of the
// principal begins with what is attached there.
func bindNode(cmd *cobra.Command, c *client, lane, node string) error {
	lanes, err := c.Lanes(cmd.Context())
	if err != nil {
		return told(err)
	}
	if _, err := c.Attach(cmd.Context(), capabilities.LaneID(lane), capabilities.NodeID(node)); err != nil {
		return told(err)
	}
	for _, l := range lanes {
		for _, other := range l.Nodes {
			if string(l.Lane) != lane || string(other) == node {
				continue
			}
			if _, err := c.Detach(cmd.Context(), l.Lane, other); err != nil {
				return told(err)
			}
		}
	}
	return nil
}

// fields are those of a connection's entry.
func (k clientKind) fields(data dataDir, c *client, now connection) []clientfile.Field {
	if now.Transport == "http" {
		return k.http(c.base.String(), now.Token.text)
	}
	return k.stdio(ownProgram(), []string{"mcp", "--data", string(data), "--client", k.Name})
}

// ownProgram is this program by a path that outlives an update: the one on the
// PATH, if it is the same.
func ownProgram() string {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	found, err := exec.LookPath("handrail")
	if err != nil {
		return self
	}
	if found, err = filepath.Abs(found); err != nil {
		return self
	}
	a, errA := os.Stat(self)
	b, errB := os.Stat(found)
	if errA == nil && errB == nil && os.SameFile(a, b) {
		return found
	}
	return self
}

// printEntry shows what would be written, and writes nothing: no file, no token, no lane. The
// token is shown on demand only, if there is one.
func printEntry(cmd *cobra.Command, data dataDir, c *client, kind clientKind, o connectOptions, file string, now connection, had bool) error {
	if now.Principal == "" || o.as != "" {
		now.Principal = cmp.Or(o.as, kind.Name)
	}
	now.Transport = "stdio"
	if o.remote {
		now.Transport = "http"
	}
	if o.show && !had {
		return capabilities.Errorf(capabilities.CodeNotFound, "%s has no token yet, and --print makes none", kind.Title).
			WithHint("'handrail token create " + now.Principal + "' makes one and prints it; put it where TOKEN stands.")
	}
	fields := kind.fields(data, c, now)
	hidden := o.remote && !o.show
	if hidden {
		fields = kind.http(c.base.String(), "TOKEN")
	}
	if !o.remote && !had { // its own token is not there, so it calls with the agents'
		fields = kind.stdio(ownProgram(), []string{"mcp", "--data", string(data)})
	}
	text, err := clientfile.Put(kind.format(), nil, kind.Path, fields, nil)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if commonOf(cmd).json {
		said := map[string]any{"client": kind.Name, "file": file, "path": kind.Path, "text": string(text), "principal": now.Principal}
		if had {
			said["token_id"], said["token_file"] = now.TokenID, data.connectionPath(kind.Name)
		}
		return printJSON(out, said)
	}
	// The entry alone goes to standard output, so that it can be put into a file.
	note := cmd.ErrOrStderr()
	fmt.Fprintf(note, "%s reads %s; put this there:\n", kind.Title, plain(file))
	fmt.Fprint(out, string(text))
	switch {
	case hidden && had:
		fmt.Fprintf(note, "TOKEN stands for the token in %s; --show-token prints it.\n", plain(data.connectionPath(kind.Name)))
	case hidden:
		fmt.Fprintf(note, "TOKEN stands for a token of %s: 'handrail token create %s' makes one and prints it.\n", plain(now.Principal), plain(now.Principal))
	case !had:
		fmt.Fprintf(note, "Nothing was written. This entry calls with the token for agents; 'handrail connect %s' gives %s one of its own.\n", kind.Name, kind.Title)
	}
	if o.node != "" {
		fmt.Fprintf(note, "--node binds nothing with --print: 'handrail lane attach %s %s' does.\n", plain(now.Principal), plain(o.node))
	}
	return nil
}

func disconnect(cmd *cobra.Command, data dataDir, kind clientKind, o connectOptions) error {
	known, had, err := data.readConnection(kind.Name)
	if err != nil {
		return err
	}
	file := o.fileOf(kind, known)
	text, err := clientfile.Read(file)
	if err != nil {
		return err
	}
	_, there, err := clientfile.Get(kind.format(), text, kind.Path...)
	if err != nil {
		return fileProblem(kind, file, err)
	}
	if !had && !there {
		return capabilities.Errorf(capabilities.CodeNotFound, "%s is not connected", kind.Title).WithHint("Name its file with --file if it is not " + file + ".")
	}
	backup := ""
	if there {
		backup, err = clientfile.Edit(file, clientfile.Options{Private: known.Transport == "http"}, func(old []byte) ([]byte, error) {
			return clientfile.Remove(kind.format(), old, kind.Path...)
		})
		if err != nil {
			return fileProblem(kind, file, err)
		}
	}
	var left error // the token that could not be revoked
	if had {
		left = revokeConnection(cmd, data, known)
		if left == nil {
			left = os.Remove(data.connectionPath(kind.Name))
		}
	}
	if backup != "" {
		// With HTTP the copy holds the token, which is worthless once it is revoked.
		fmt.Fprintf(cmd.ErrOrStderr(), "the file as it was is kept as %s\n", plain(backup))
	}
	if left != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "the entry is gone from %s, but token %s is still good; run this again when the gateway answers\n", plain(file), plain(known.TokenID))
		return left
	}
	raw, _ := json.Marshal(map[string]any{"client": kind.Name, "file": file, "backup": backup, "token_id": known.TokenID})
	return confirmed(cmd, raw, "%s is no longer connected", kind.Title)
}

func revokeConnection(cmd *cobra.Command, data dataDir, known connection) error {
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	_, err = c.RevokeToken(cmd.Context(), known.TokenID)
	err = told(err)
	if capabilities.CodeOf(err) == capabilities.CodeNotFound && !errors.As(err, new(*exitError)) {
		return nil // that gateway does not know it: nothing to revoke
	}
	return err
}

func notFound(kind clientKind, file string) error {
	what := "no " + file
	if kind.program != "" {
		what = "no program '" + kind.program + "' on the PATH and " + what
	}
	return capabilities.Errorf(capabilities.CodeNotFound, "%s was not found: there is %s", kind.Title, what).
		WithHint("Install it, or name its settings file with --file.")
}

// fileProblem says what is wrong with a client's file and who mends it.
func fileProblem(kind clientKind, file string, err error) error {
	var bad *clientfile.SyntaxError
	coded := capabilities.Errorf(capabilities.CodeExecutionFailed, "%s: %v", file, err)
	switch {
	case errors.Is(err, clientfile.ErrForm):
		return coded.WithHint("Put the entry in by hand: 'handrail connect " + kind.Name + " --print' shows it.")
	case errors.As(err, &bad):
		return capabilities.Errorf(capabilities.CodeExecutionFailed, "%s is broken: %v (%s)", file, err, kind.format()).
			WithHint("Correct that place, or put back an older copy; " + kind.Title + " cannot read it either.")
	case errors.Is(err, clientfile.ErrBusy):
		return coded.WithHint("Close " + kind.Title + " and try again.")
	}
	return coded.WithHint("Look at the file's owner and rights.")
}
