package roster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// kind is what is let in by a code and a person's word over the REST surface: satellites and
// workers.
type kind struct {
	what string                 // as people and commands call one; the roster is at what+"s"
	of   string                 // the field with what one is invited as
	add  capabilities.ActionKey // how another is invited
	read func(raw json.RawMessage) (*newcomer, error)
	code func(raw json.RawMessage) (*invited, error)
	join func(name string) []string
	then func(said io.Writer, n *newcomer) // told once it is in; nil: nothing
}

// newcomer is what both have: one of a roster, and what it was invited as.
type newcomer struct {
	id, as, state, host, platform, key string

	raw json.RawMessage // as the gateway told of it
}

// invited is a code, and what comes with it.
type invited struct {
	paste, as string
	expires   time.Time
}

// decoded reads a T of the gateway's.
func decoded[T any](raw json.RawMessage) (v T, err error) {
	if err = json.Unmarshal(raw, &v); err != nil {
		err = fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
	}
	return v, err
}

func (k *kind) roster() string { return k.what + "s" }

func (k *kind) all(cmd *cobra.Command, c *remote.Gateway) (map[string]*newcomer, error) {
	raw, err := c.List(cmd, remote.Path(k.roster()), k.roster())
	if err != nil {
		return nil, err
	}
	all := make(map[string]*newcomer, len(raw))
	for _, one := range raw {
		n, err := k.read(one)
		if err != nil {
			return nil, err
		}
		all[n.id] = n
	}
	return all, nil
}

// inviteFlags are those of the command that prints a code.
type inviteFlags struct {
	yes, noWait *bool
	ttl         *time.Duration
}

func addInviteFlags(cmd *cobra.Command) inviteFlags {
	f := cmd.Flags()
	return inviteFlags{
		yes: f.Bool("yes", false, "let in whoever proves the code, without asking"), noWait: f.Bool("no-wait", false, "print the code and end"),
		ttl: f.Duration("ttl", 10*time.Minute, "how long the code is valid"),
	}
}

// invite prints a code, then shows who came with it and settles whether it is let in.
func (k *kind) invite(cmd *cobra.Command, f inviteFlags, in any) error {
	if *f.ttl < time.Second {
		return terminal.TooShort("--ttl")
	}
	c, err := remote.Find(cmd)
	if err != nil {
		return err
	}
	before, err := k.all(cmd, c)
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path(k.roster()), in, &raw); err != nil {
		return err
	}
	i, err := k.code(raw)
	if err != nil {
		return err
	}
	out, said := cmd.OutOrStdout(), cmd.OutOrStdout()
	if terminal.FlagsOf(cmd).JSON {
		if err := terminal.PrintJSON(out, map[string]any{"event": "paste", k.of: i.as, "paste": i.paste, "expires_at": i.expires}); err != nil {
			return err
		}
	} else {
		if !terminal.Interactive(out) { // a file or a pipe is to hold what the joining takes
			said = cmd.ErrOrStderr()
		}
		fmt.Fprintf(said, "On the %s's machine, run '%s' and enter this code (valid until %s):\n\n", k.what,
			command.Join(append([]string{"handrail"}, k.join(i.as)...)...), i.expires.Local().Format(terminal.Clock))
		fmt.Fprintln(out, terminal.Plain(i.paste))
		fmt.Fprintln(said)
	}
	if *f.noWait {
		return nil
	}
	return k.await(cmd, c, said, i, before)
}

// await shows who came with a code, and settles whether it is let in.
func (k *kind) await(cmd *cobra.Command, c *remote.Gateway, said io.Writer, i *invited, before map[string]*newcomer) error {
	ctx := cmd.Context()
	stop := terminal.ShowWaiting(cmd, "waiting for the "+k.what)
	defer func() { stop() }()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		now, err := k.all(cmd, c)
		if err != nil {
			return err
		}
		for id, n := range now {
			if _, old := before[id]; old || n.as != i.as {
				continue
			}
			stop()
			return k.meet(ctx, cmd, c, said, n)
		}
		if time.Now().After(i.expires) {
			return capabilities.Errorf(capabilities.CodePasteExpired, "nobody used the code in its time").
				WithAction(capabilities.Action{Key: k.add, Name: i.as}, "")
		}
	}
}

func (k *kind) meet(ctx context.Context, cmd *cobra.Command, c *remote.Gateway, said io.Writer, n *newcomer) error {
	asJSON, id := terminal.FlagsOf(cmd).JSON, n.id
	if asJSON {
		if err := terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"event": "joined", k.what: n.raw}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(said, "Joined: %s\n  %-9s %s\n  host      %s\n  platform  %s\n  key       %s\n", terminal.Plain(id), k.of,
			terminal.Plain(n.as), terminal.Plain(n.host), terminal.Plain(n.platform), terminal.Plain(n.key))
	}
	if n.state == "pending" {
		p := admission{cmd: cmd, client: c, said: said, answers: bufio.NewReader(cmd.InOrStdin())}
		answer, err := p.ask(ctx, "Compare the key with what the "+k.what+" shows. Let it in? [y/N] ")
		if err == io.EOF {
			return command.Advise(capabilities.Errorf(capabilities.CodePairingPending, "%s %s waits for a decision", k.what, id),
				command.Here(k.what, "approve", id), " lets it in.")
		}
		if err != nil {
			return err
		}
		action := "deny"
		if answer = strings.ToLower(answer); answer == "y" || answer == "yes" {
			action = "approve"
		}
		var raw json.RawMessage
		if err := c.Ask(ctx, http.MethodPost, remote.Path(k.roster(), id, action), api.Reason{}, &raw); err != nil {
			return err
		}
		if n, err = k.read(raw); err != nil {
			return err
		}
	}
	if asJSON {
		if err := terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"event": n.state, k.what + "_id": id}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(said, "%s %s is %s.\n", strings.ToUpper(k.what[:1])+k.what[1:], terminal.Plain(id), terminal.Plain(n.state))
		if n.state == "approved" && k.then != nil {
			k.then(said, n)
		}
	}
	if n.state != "approved" {
		return &terminal.ExitError{
			Code: terminal.ExitDenied, Silent: true,
			Err: capabilities.Errorf(capabilities.CodePairingDenied, "%s %s is %s", k.what, id, n.state),
		}
	}
	return nil
}

// decides returns the command that decides about one; show prints what the gateway answers.
func (k *kind) decides(action, short string, show func(cmd *cobra.Command, raw json.RawMessage) error) *cobra.Command {
	cmd := &cobra.Command{Use: action + " ID", Short: short, Args: cobra.ExactArgs(1)}
	reason := cmd.Flags().String("reason", "", "why, for the record")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return k.on(cmd, http.MethodPost, args[0], []string{action}, api.Reason{Reason: *reason}, show)
	}
	return cmd
}

func (k *kind) shows(show func(cmd *cobra.Command, raw json.RawMessage) error) *cobra.Command {
	cmd := &cobra.Command{Use: "show ID", Short: "Show a " + k.what, Args: cobra.ExactArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return k.on(cmd, http.MethodGet, args[0], nil, nil, show)
	}
	return cmd
}

// meant is the ID of the one that a person means, by it or by what one was invited as. Those who
// were put out are named by their ID alone.
func (k *kind) meant(cmd *cobra.Command, c *remote.Gateway, text string) (string, error) {
	all, err := k.all(cmd, c)
	if err != nil {
		return "", err
	}
	var named []remote.Named
	for id, n := range all {
		one := remote.Named{ID: id}
		if n.state == "approved" || n.state == "pending" {
			one.Label = n.as
		}
		named = append(named, one)
	}
	sort.Slice(named, func(i, j int) bool { return named[i].ID < named[j].ID })
	return remote.Choose(k.what, text, named)
}

func (k *kind) on(cmd *cobra.Command, method, text string, action []string, in any,
	show func(cmd *cobra.Command, raw json.RawMessage) error) error {
	c, err := remote.Find(cmd)
	if err != nil {
		return err
	}
	id, err := k.meant(cmd, c, text)
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := c.Ask(cmd.Context(), method, remote.Path(append([]string{k.roster(), id}, action...)...), in, &raw); err != nil {
		return err
	}
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(cmd.OutOrStdout(), raw)
	}
	return show(cmd, raw)
}
