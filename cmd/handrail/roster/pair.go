package roster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/mdp/qrterminal/v3"
	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/pairing"
)

type pairOptions struct {
	label, trust string
	allow, tags  []string
	yes, noWait  bool
	noQR         bool
	ttl          time.Duration
	uses         int
}

// NewPairCmd makes 'handrail pair'.
func NewPairCmd() *cobra.Command {
	var o pairOptions
	cmd := &cobra.Command{
		Use:   "pair",
		Short: "Pair a device: print a one-time code for it and approve it",
		Long: "Prints a pairing code and its QR code. Give it to 'handrail node join' on the device, within its time. Into a file or\n" +
			"a pipe goes the code alone, as 'handrail node join' reads it.\n" +
			"Then shows which device joined and asks once whether to approve it. Ctrl-C withdraws a code nobody used.",
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&o.label, "label", "", "name of the device for people")
	f.StringVar(&o.trust, "trust", "", "trust level of the device")
	f.StringSliceVar(&o.allow, "allow", nil, "tools it may use here, or families such as tool.browser.* (default: all it offers)")
	f.StringSliceVar(&o.tags, "labels", nil, "labels that policy can refer to")
	f.BoolVar(&o.yes, "yes", false, "approve whoever proves the code, without asking")
	f.BoolVar(&o.noWait, "no-wait", false, "print the code and end")
	f.BoolVar(&o.noQR, "no-qr", false, "print no QR code")
	f.DurationVar(&o.ttl, "ttl", 10*time.Minute, "how long the code is valid")
	f.IntVar(&o.uses, "uses", 1, "how many devices may use it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runPair(cmd, o) }
	return cmd
}

func runPair(cmd *cobra.Command, o pairOptions) error {
	if o.uses < 1 {
		return terminal.UsageError("--uses must be at least 1")
	}
	if o.ttl < time.Second {
		return terminal.TooShort("--ttl")
	}
	c, err := remote.Find(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	var invite api.Invited
	if o.allow, err = checkAllow(o.allow); err != nil {
		return err
	}
	request := api.NewInvite{
		Label: o.label, Trust: o.trust, Allow: o.allow, Labels: o.tags, AutoApprove: o.yes, TTLSeconds: int64(o.ttl.Seconds()), Uses: o.uses,
	}
	if err := c.Ask(ctx, http.MethodPost, remote.Path("invites"), request, &invite); err != nil {
		return err
	}
	out, asJSON, local := cmd.OutOrStdout(), terminal.FlagsOf(cmd).JSON, onlyHere(invite.Paste)
	said := out // what is told beside the paste
	switch {
	case asJSON:
		if err := terminal.PrintJSON(out, map[string]any{
			"event": "paste", "invite_id": invite.ID, "paste": invite.Paste, "expires_at": invite.ExpiresAt, "uses": invite.Uses,
			"fingerprint": c.Pin.String(), "this_machine_only": local,
		}); err != nil {
			return err
		}
	default:
		if !terminal.Interactive(out) { // a file or a pipe is to hold what 'handrail node join' takes
			said = cmd.ErrOrStderr()
		}
		printInvite(out, said, invite, !o.noQR && terminal.Interactive(out))
		if !c.Pin.IsZero() {
			fmt.Fprintf(said,
				"The code carries the gateway's certificate to clients on the device. For a browser there, check that it matches:\n%s\n\n", c.Pin)
		}
		if local {
			fmt.Fprintln(cmd.ErrOrStderr(), "Only this machine can use this code: the gateway takes devices on 127.0.0.1 alone.\n"+
				"  -> For another device start it with 'handrail up --quic :7443' or 'handrail gateway'.")
		}
	}
	if o.noWait {
		return nil
	}

	p := admission{cmd: cmd, client: c, said: said, answers: bufio.NewReader(cmd.InOrStdin()), yes: o.yes}
	joined, err := p.wait(ctx, invite, o.uses)
	if ctx.Err() != nil && joined < o.uses {
		return p.withdraw(invite, ctx.Err())
	}
	return err
}

// onlyHere reports whether a paste names no address that another machine can reach.
func onlyHere(text string) bool {
	paste, err := pairing.ParsePaste(text)
	return err == nil && paste.OnlyHere()
}

func printInvite(w, said io.Writer, invite api.Invited, qr bool) {
	fmt.Fprintf(said, "On the device, run 'handrail node join' and enter this code (valid until %s):\n\n", invite.ExpiresAt.Local().
		Format(terminal.Clock))
	fmt.Fprintln(w, terminal.Plain(invite.Paste))
	fmt.Fprintln(said)
	if qr {
		code := invite.Paste
		if paste, err := pairing.ParsePaste(code); err == nil {
			code, _ = paste.QRText()
		}
		qrterminal.GenerateWithConfig(code, qrterminal.Config{
			Level: qrterminal.L, Writer: w, HalfBlocks: true, QuietZone: 2,
			BlackChar: qrterminal.BLACK_BLACK, WhiteChar: qrterminal.WHITE_WHITE,
			BlackWhiteChar: qrterminal.BLACK_WHITE, WhiteBlackChar: qrterminal.WHITE_BLACK,
		})
		fmt.Fprintln(w)
	}
}

// admission is one run of the pair command after its invite exists.
type admission struct {
	cmd     *cobra.Command
	said    io.Writer // where a person is told how it goes
	client  *remote.Gateway
	answers *bufio.Reader
	yes     bool
}

// wait handles each device that joins until all uses are spent or time is up; it returns how many
// joined.
func (p admission) wait(ctx context.Context, invite api.Invited, uses int) (int, error) {
	stop := terminal.ShowWaiting(p.cmd, "waiting for the device")
	defer func() { stop() }()
	seen := map[string]bool{}
	var outcome error
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for len(seen) < uses {
		select {
		case <-ctx.Done():
			return len(seen), ctx.Err()
		case <-tick.C:
		}
		now, err := inviteOf(ctx, p.client, invite.ID)
		if err != nil {
			return len(seen), err
		}
		for _, use := range now.UsedBy {
			id := string(use.Node)
			if seen[id] {
				continue
			}
			seen[id] = true
			stop()
			if err := p.meet(ctx, id); err != nil {
				outcome = err
			}
			stop = terminal.ShowWaiting(p.cmd, "waiting for the device")
		}
		if len(seen) < uses && time.Now().After(invite.ExpiresAt) {
			if len(seen) > 0 {
				return len(seen), outcome
			}
			return 0, command.Advise(capabilities.Errorf(capabilities.CodePasteExpired, "nobody used the code in its time"),
				command.Here("pair"), " makes a new one.")
		}
	}
	return len(seen), outcome
}

func inviteOf(ctx context.Context, c *remote.Gateway, id string) (api.Invited, error) {
	var answer struct {
		Invites []api.Invited `json:"invites"`
	}
	if err := c.Get(ctx, remote.Path("invites"), &answer); err != nil {
		return api.Invited{}, err
	}
	for _, i := range answer.Invites {
		if i.ID == id && !i.Withdrawn {
			return i, nil
		}
	}
	return api.Invited{}, command.Advise(capabilities.Errorf(capabilities.CodePasteExpired, "the code was withdrawn or has expired"),
		command.Here("pair"), " makes a new one.")
}

// meet shows who joined and settles whether it is let in.
func (p admission) meet(ctx context.Context, id string) error {
	out, asJSON := p.cmd.OutOrStdout(), terminal.FlagsOf(p.cmd).JSON
	var raw json.RawMessage
	if err := p.client.Get(ctx, remote.Path("nodes", id), &raw); err != nil {
		return err
	}
	nodes, err := remote.DecodeAll[remote.Node]([]json.RawMessage{raw})
	if err != nil {
		return err
	}
	n := nodes[0]
	if asJSON {
		if err := terminal.PrintJSON(out, map[string]any{"event": "joined", "node": raw}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(p.said, "Joined: %s\n  host      %s\n  platform  %s\n  key       %s\n  offers    %s\n",
			terminal.Plain(id), terminal.Plain(n.Host), terminal.Plain(n.System()), terminal.Plain(n.Fingerprint),
			terminal.Plain(remote.ByFamily(n.Offers)))
	}
	if n.State != "pending" {
		return p.settled(id, n.State)
	}
	action := "approve"
	if !p.yes {
		answer, err := p.ask(ctx, "Compare the key with what the device shows. Approve device? [y/N] ")
		if err == io.EOF {
			return command.Advise(capabilities.Errorf(capabilities.CodePairingPending, "node %s waits for a decision", id),
				"Decide with ", command.Here("node", "approve", id), " or ", command.Here("node", "deny", id), ".")
		}
		if err != nil {
			return err
		}
		if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
			action = "deny"
		}
	}
	if err := p.client.Ask(ctx, http.MethodPost, remote.Path("nodes", id, action), api.Reason{}, nil); err != nil {
		return err
	}
	return p.settled(id, map[string]string{"approve": "approved", "deny": "denied"}[action])
}

func (p admission) settled(id, state string) error {
	out := p.cmd.OutOrStdout()
	if terminal.FlagsOf(p.cmd).JSON {
		if err := terminal.PrintJSON(out, map[string]any{"event": state, "node_id": id}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(p.said, "Node %s is %s.\n", terminal.Plain(id), terminal.Plain(state))
	}
	if state != "approved" {
		return &terminal.ExitError{
			Code: terminal.ExitDenied, Silent: true, Err: capabilities.Errorf(capabilities.CodePairingDenied, "node %s is %s", id, state),
		}
	}
	return nil
}

// ask reads one line, or gives up with the context. The reading goroutine ends
// with the process; nothing else reads standard input.
func (p admission) ask(ctx context.Context, question string) (string, error) {
	fmt.Fprint(p.cmd.ErrOrStderr(), question)
	type read struct {
		line string
		err  error
	}
	got := make(chan read, 1)
	go func() {
		line, err := p.answers.ReadString('\n')
		if line = strings.TrimSpace(line); line != "" {
			err = nil
		}
		got <- read{line, err}
	}()
	select {
	case r := <-got:
		return r.line, r.err
	case <-ctx.Done():
		fmt.Fprintln(p.cmd.ErrOrStderr())
		return "", ctx.Err()
	}
}

// withdraw makes the rest of an interrupted invite worthless.
func (p admission) withdraw(invite api.Invited, cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := p.client.Ask(ctx, http.MethodDelete, remote.Path("invites", invite.ID), nil, nil); err != nil {
		fmt.Fprintf(p.cmd.ErrOrStderr(), "the code could not be withdrawn (%v); it expires by itself\n", err)
		return cause
	}
	fmt.Fprintln(p.cmd.ErrOrStderr(), "the code is withdrawn")
	return cause
}
