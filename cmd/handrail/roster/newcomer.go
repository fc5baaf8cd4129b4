package roster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

// kind is what is let in by a code and a person's word over the REST surface: satellites and
// workers.
type kind struct {
	what string                 // as people and commands call one; the roster is at what+"s"
	of   string                 // the field with what one is invited as
	add  capabilities.ActionKey // how another is invited
	join func(name string) []string
	then func(said io.Writer, n *newcomer) // told once it is in; nil: nothing
}

// newcomer is one of a roster, as the gateway tells of it.
type newcomer struct {
	Satellite string `json:"satellite_id"`
	Worker    string `json:"worker_id"`
	Service   string `json:"service"`
	Name      string `json:"name"`
	State     string `json:"state"`
	Host      string `json:"host"`
	Platform  string `json:"platform"`
	Key       string `json:"key"`
	raw       json.RawMessage
}

func (n *newcomer) id() string { return n.Satellite + n.Worker }
func (n *newcomer) as() string { return n.Service + n.Name }

// invited is a code with what it is for.
type invited struct {
	Paste   string    `json:"paste"`
	Service string    `json:"service"`
	Name    string    `json:"name"`
	Expires time.Time `json:"expires_at"`
}

func (k *kind) roster() string { return k.what + "s" }

func (k *kind) all(cmd *cobra.Command, c *remote.Gateway) (map[string]*newcomer, error) {
	raw, err := c.List(cmd, remote.Path(k.roster()), k.roster())
	if err != nil {
		return nil, err
	}
	list, err := remote.DecodeAll[newcomer](raw)
	if err != nil {
		return nil, err
	}
	all := make(map[string]*newcomer, len(list))
	for i := range list {
		list[i].raw = raw[i]
		all[list[i].id()] = &list[i]
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
	var i invited
	if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path(k.roster()), in, &i); err != nil {
		return err
	}
	as := i.Service + i.Name
	out, said := cmd.OutOrStdout(), cmd.OutOrStdout()
	if terminal.FlagsOf(cmd).JSON {
		if err := terminal.PrintJSON(out, map[string]any{"event": "paste", k.of: as, "paste": i.Paste, "expires_at": i.Expires}); err != nil {
			return err
		}
	} else {
		if !terminal.Interactive(out) { // a file or a pipe is to hold what the joining takes
			said = cmd.ErrOrStderr()
		}
		fmt.Fprintf(said, "On the %s's machine, run '%s' and enter this code (valid until %s):\n\n", k.what,
			command.Join(append([]string{"handrail"}, k.join(as)...)...), i.Expires.Local().Format(terminal.Clock))
		fmt.Fprintln(out, terminal.Plain(i.Paste))
		fmt.Fprintln(said)
	}
	if *f.noWait {
		return nil
	}
	return k.await(cmd, c, said, &i, before)
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
			if _, old := before[id]; old || n.as() != i.Service+i.Name {
				continue
			}
			stop()
			return k.meet(ctx, cmd, c, said, n)
		}
		if time.Now().After(i.Expires) {
			return capabilities.Errorf(capabilities.CodePasteExpired, "nobody used the code in its time").
				WithAction(capabilities.Action{Key: k.add, Name: i.Service + i.Name}, "")
		}
	}
}

func (k *kind) meet(ctx context.Context, cmd *cobra.Command, c *remote.Gateway, said io.Writer, n *newcomer) error {
	asJSON, id := terminal.FlagsOf(cmd).JSON, n.id()
	if asJSON {
		if err := terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"event": "joined", k.what: n.raw}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(said, "Joined: %s\n  %-9s %s\n  host      %s\n  platform  %s\n  key       %s\n", terminal.Plain(id), k.of,
			terminal.Plain(n.as()), terminal.Plain(n.Host), terminal.Plain(n.Platform), terminal.Plain(n.Key))
	}
	if n.State == "pending" {
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
		if err := c.Ask(ctx, http.MethodPost, remote.Path(k.roster(), id, action), map[string]any{}, n); err != nil {
			return err
		}
	}
	if asJSON {
		if err := terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"event": n.State, k.what + "_id": id}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(said, "%s %s is %s.\n", strings.ToUpper(k.what[:1])+k.what[1:], terminal.Plain(id), terminal.Plain(n.State))
		if n.State == "approved" && k.then != nil {
			k.then(said, n)
		}
	}
	if n.State != "approved" {
		return &terminal.ExitError{
			Code: terminal.ExitDenied, Silent: true,
			Err: capabilities.Errorf(capabilities.CodePairingDenied, "%s %s is %s", k.what, id, n.State),
		}
	}
	return nil
}

// decides returns the command that decides about one; show prints what the gateway answers.
func (k *kind) decides(action, short string, show func(cmd *cobra.Command, raw json.RawMessage) error) *cobra.Command {
	cmd := &cobra.Command{Use: action + " ID", Short: short, Args: cobra.ExactArgs(1)}
	reason := cmd.Flags().String("reason", "", "why, for the record")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return k.on(cmd, http.MethodPost, args[0], []string{action}, remote.Body("reason", *reason), show)
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
		if n.State == "approved" || n.State == "pending" {
			one.Label = n.as()
		}
		named = append(named, one)
	}
	slices.SortFunc(named, func(a, b remote.Named) int { return strings.Compare(a.ID, b.ID) })
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
