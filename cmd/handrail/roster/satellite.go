package roster

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

var satelliteKind = kind{
	what: "satellite", of: "service", add: capabilities.ActionAddSatellite,
	join: func(name string) []string { return []string{"satellite", "join", name} },
	read: func(raw json.RawMessage) (*newcomer, error) {
		s, err := decoded[api.Satellite](raw)
		return &newcomer{id: string(s.ID), as: s.Service, state: s.State, host: s.Host, platform: s.Platform, key: s.Key, raw: raw}, err
	},
	code: func(raw json.RawMessage) (*invited, error) {
		i, err := decoded[api.InvitedSatellite](raw)
		return &invited{i.Paste, i.Service, i.Expires}, err
	},
	then: func(said io.Writer, n *newcomer) {
		fmt.Fprintf(said, "Once it runs, look at its tools: handrail provider approve %s\n", terminal.Plain(n.as))
	},
}

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
	cmd.AddCommand(newSatelliteAddCmd(), newSatelliteListCmd(), satelliteKind.shows(showSatellite),
		satelliteKind.decides("approve", "Let in a satellite that waits", showSatellite),
		satelliteKind.decides("deny", "Turn away a satellite that waits", showSatellite),
		satelliteKind.decides("revoke", "Put a satellite out: its connection ends at once and it stays out", showSatellite),
		newSatelliteKeysCmd())
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
	flags := addInviteFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return satelliteKind.invite(cmd, flags, api.InviteSatellite{Service: args[0], AutoApprove: *flags.yes, TTLS: int(flags.ttl.Seconds())})
	}
	return cmd
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

func showSatellite(cmd *cobra.Command, raw json.RawMessage) error {
	all, err := remote.DecodeAll[api.Satellite]([]json.RawMessage{raw})
	if err != nil {
		return err
	}
	s, out := &all[0], cmd.OutOrStdout()
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
		fmt.Fprintf(out, "  refused   %s\n", terminal.Count(s.RefusedHeartbeats, "heartbeat"))
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
