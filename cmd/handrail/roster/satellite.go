package roster

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewSatelliteCmd has, beside what a gateway is asked for, what runs on the machine of a satellite.
func NewSatelliteCmd(own ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "satellite",
		Short: "Let in processes that bring tools over the bus, and run one in front of a program or a service",
		Long: "A satellite is a process on a machine of yours that offers tools and says every five seconds that it is there. It is\n" +
			"let in once, by a code and an approval; what it says of its tools is approved as that of every provider:\n" +
			"'handrail provider approve NAME'.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(own...)
	cmd.AddCommand(newSatelliteAddCmd(), newSatelliteListCmd(), newSatelliteShowCmd(),
		newSatelliteDecideCmd("approve", "Let in a satellite that waits"), newSatelliteDecideCmd("deny", "Turn away a satellite that waits"),
		newSatelliteDecideCmd("revoke", "Put a satellite out: its connection ends at once and it stays out"), newSatelliteKeysCmd())
	return cmd
}

func newSatelliteAddCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Print a one-time code for a satellite, and approve who comes with it",
		Long: "NAME is the service: the satellite's tools become tool.NAME.ACTION. Give the code to 'handrail satellite join NAME' on\n" +
			"the satellite's machine. Then shows who joined and asks once whether to let it in. The first one starts the bus.",
		Args: cobra.ExactArgs(1),
	}
	yes := cmd.Flags().Bool("yes", false, "let in whoever proves the code, without asking")
	noWait := cmd.Flags().Bool("no-wait", false, "print the code and end")
	ttl := cmd.Flags().Duration("ttl", 10*time.Minute, "how long the code is valid")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *ttl < time.Second {
			return terminal.TooShort("--ttl")
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		before, err := satellitesOf(cmd.Context(), c)
		if err != nil {
			return err
		}
		var i api.InvitedSatellite
		if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("satellites"),
			api.InviteSatellite{Service: args[0], AutoApprove: *yes, TTLS: int(ttl.Seconds())}, &i); err != nil {
			return err
		}
		out, said := cmd.OutOrStdout(), cmd.OutOrStdout()
		if terminal.FlagsOf(cmd).JSON {
			if err := terminal.PrintJSON(out,
				map[string]any{"event": "paste", "service": i.Service, "paste": i.Paste, "expires_at": i.Expires}); err != nil {
				return err
			}
		} else {
			if !terminal.Interactive(out) { // a file or a pipe is to hold what 'handrail satellite join' takes
				said = cmd.ErrOrStderr()
			}
			fmt.Fprintf(said, "On the satellite's machine, run 'handrail satellite join %s' and enter this code (valid until %s):\n\n",
				terminal.Plain(args[0]), i.Expires.Local().Format(terminal.Clock))
			fmt.Fprintln(out, terminal.Plain(i.Paste))
			fmt.Fprintln(said)
		}
		if *noWait {
			return nil
		}
		return awaitSatellite(cmd, c, said, i, before)
	}
	return cmd
}

// awaitSatellite shows who came with a code, and settles whether it is let in.
func awaitSatellite(cmd *cobra.Command, c *remote.Gateway, said io.Writer, i api.InvitedSatellite,
	before map[capabilities.NodeID]api.Satellite) error {
	ctx := cmd.Context()
	stop := terminal.ShowWaiting(cmd, "waiting for the satellite")
	defer func() { stop() }()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		now, err := satellitesOf(ctx, c)
		if err != nil {
			return err
		}
		for id, s := range now {
			if _, old := before[id]; old || s.Service != i.Service {
				continue
			}
			stop()
			return meetSatellite(cmd, c, said, &s)
		}
		if time.Now().After(i.Expires) {
			return capabilities.Errorf(capabilities.CodePasteExpired, "nobody used the code in its time").
				WithAction(capabilities.Action{Key: capabilities.ActionAddSatellite, Name: i.Service}, "")
		}
	}
}

func meetSatellite(cmd *cobra.Command, c *remote.Gateway, said io.Writer, s *api.Satellite) error {
	asJSON := terminal.FlagsOf(cmd).JSON
	if asJSON {
		if err := terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"event": "joined", "satellite": s}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(said, "Joined: %s\n  service   %s\n  host      %s\n  platform  %s\n  key       %s\n", terminal.Plain(string(s.ID)),
			terminal.Plain(s.Service), terminal.Plain(s.Host), terminal.Plain(s.Platform), terminal.Plain(s.Key))
	}
	if s.State == "pending" {
		p := admission{cmd: cmd, client: c, said: said, answers: bufio.NewReader(cmd.InOrStdin())}
		answer, err := p.ask(cmd.Context(), "Compare the key with what the satellite shows. Let it in? [y/N] ")
		if err == io.EOF {
			return command.Advise(capabilities.Errorf(capabilities.CodePairingPending, "satellite %s waits for a decision", s.ID),
				command.Here("satellite", "approve", string(s.ID)), " lets it in.")
		}
		if err != nil {
			return err
		}
		action := "deny"
		if answer = strings.ToLower(answer); answer == "y" || answer == "yes" {
			action = "approve"
		}
		if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("satellites", string(s.ID), action), api.DecideSatellite{}, s); err != nil {
			return err
		}
	}
	if asJSON {
		if err := terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"event": s.State, "satellite_id": s.ID}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(said, "Satellite %s is %s.\n", terminal.Plain(string(s.ID)), terminal.Plain(s.State))
		if s.State == "approved" {
			fmt.Fprintf(said, "Once it runs, look at its tools: handrail provider approve %s\n", terminal.Plain(s.Service))
		}
	}
	if s.State != "approved" {
		return &terminal.ExitError{
			Code: terminal.ExitDenied, Silent: true, Err: capabilities.Errorf(capabilities.CodePairingDenied, "satellite %s is %s", s.ID, s.State),
		}
	}
	return nil
}

func satellitesOf(ctx context.Context, c *remote.Gateway) (map[capabilities.NodeID]api.Satellite, error) {
	var list struct {
		Satellites []api.Satellite `json:"satellites"`
	}
	if err := c.Get(ctx, remote.Path("satellites"), &list); err != nil {
		return nil, err
	}
	all := make(map[capabilities.NodeID]api.Satellite, len(list.Satellites))
	for _, s := range list.Satellites {
		all[s.ID] = s
	}
	return all, nil
}

func newSatelliteListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List satellites and how each is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			all, done, err := remote.Listed[api.Satellite](cmd, c, remote.Path("satellites"), "satellites")
			if done || err != nil {
				return err
			}
			if len(all) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "No satellites yet. 'handrail satellite add NAME' lets one in.")
				return nil
			}
			t := terminal.NewTable(cmd.OutOrStdout(), "SATELLITE", "SERVICE", "HOST", "STATE", "HEALTH", "RUNNING", "SEEN")
			for _, s := range all {
				seen := ""
				if s.SeenAt != nil {
					seen = terminal.Ago(time.Now(), *s.SeenAt)
				}
				t.Row(string(s.ID), s.Service, s.Host, s.State, s.Health, fmt.Sprint(s.Active), seen)
			}
			t.Flush()
			return nil
		},
	}
}

func newSatelliteShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show a satellite",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onSatellite(cmd, http.MethodGet, remote.Path("satellites", args[0]), nil)
		},
	}
}

func newSatelliteDecideCmd(action, short string) *cobra.Command {
	cmd := &cobra.Command{Use: action + " ID", Short: short, Args: cobra.ExactArgs(1)}
	reason := cmd.Flags().String("reason", "", "why, for the record")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return onSatellite(cmd, http.MethodPost, remote.Path("satellites", args[0], action), api.DecideSatellite{Reason: *reason})
	}
	return cmd
}

func onSatellite(cmd *cobra.Command, method, at string, in any) error {
	c, err := remote.Find(cmd)
	if err != nil {
		return err
	}
	var s api.Satellite
	if err := c.Ask(cmd.Context(), method, at, in, &s); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(out, s)
	}
	fmt.Fprintf(out, "%s of %s: %s\n  host      %s (%s)\n  key       %s\n", terminal.Plain(string(s.ID)), terminal.Plain(s.Service),
		terminal.Plain(s.State), terminal.Plain(s.Host), terminal.Plain(s.Platform), terminal.Plain(s.Key))
	if s.Health != "" {
		fmt.Fprintf(out, "  health    %s\n", terminal.Plain(strings.TrimSpace(s.Health+" "+s.Why)))
	}
	if s.SeenAt != nil {
		fmt.Fprintf(out, "  seen      %s, up for %s, %d running, load %.2f\n", terminal.Ago(time.Now(), *s.SeenAt),
			capabilities.Spoken(time.Duration(s.UptimeS)*time.Second), s.Active, s.Load)
	}
	if s.Problem != "" {
		fmt.Fprintf(out, "  problem   %s\n", terminal.Plain(s.Problem))
	}
	if s.RefusedHeartbeats > 0 {
		fmt.Fprintf(out, "  refused   %d heartbeats\n", s.RefusedHeartbeats)
	}
	if s.Reason != "" {
		fmt.Fprintf(out, "  reason    %s\n", terminal.Plain(s.Reason))
	}
	return nil
}

func newSatelliteKeysCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "keys",
		Short: "Print what a NATS server elsewhere has to know to serve as the bus",
		Long:  "For 'handrail gateway --nats URL': the lines for the server's configuration, by which it asks the gateway who may connect.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			var k api.BusKeys
			if err := c.Get(cmd.Context(), remote.Path("bus"), &k); err != nil {
				return err
			}
			if terminal.FlagsOf(cmd).JSON {
				return terminal.PrintJSON(cmd.OutOrStdout(), k)
			}
			fmt.Fprintf(cmd.OutOrStdout(), busConfig, terminal.Plain(k.Gateway), terminal.Plain(k.Issuer), terminal.Plain(k.System))
			return nil
		},
	}
}

// busConfig is what a NATS server elsewhere has in its configuration: the keys of the gateway, of
// who signs, and of who may end connections.
const busConfig = `max_payload: 1MB
authorization {
  users: [ { nkey: %[1]s } ]
  auth_callout { issuer: %[2]s, auth_users: [ %[1]s, %[3]s ] }
}
# By this the gateway ends the connection of a satellite that is revoked at once.
accounts {
  SYS { users: [ { nkey: %[3]s, permissions: { publish: [ "$SYS.REQ.SERVER.*.KICK" ], subscribe: [ "_INBOX.>" ] } } ] }
}
system_account: SYS
`
