package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/device"
	"github.com/handrail-dev/handrail/cmd/handrail/roster"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/cmd/handrail/update"
)

func newNodeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Run this device as a node, or manage the nodes of a gateway",
		Long: "Without a subcommand: runs the node agent of this device, which 'handrail node join' has paired before.\n" +
			"It reconnects by itself and ends only when it is told to, or when its pairing was revoked.",
		Args: cobra.NoArgs,
	}
	flags := addNodeFlags(cmd)
	addrs := cmd.Flags().StringSlice("gateway", nil,
		"address of the gateway, HOST:PORT or https://HOST; repeatable (default: where the device joined)")
	proxy := addProxyFlag(cmd)
	follow := addFollowFlags(cmd)
	verbose := addVerbose(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		by, err := proxy.proxy()
		if err != nil {
			return err
		}
		log := newLog(cmd, *verbose)
		follower, err := follow.follower(cmd, log)
		if err != nil {
			return err
		}
		open := func(heard func(version string)) (update.Node, error) {
			var a *agent.Agent // told of no state before it runs
			states := nodeStates(cmd)
			a, err := openNode(data, flags, reach{*addrs, by}, []string{"http://" + defaultHTTP}, false, func(s link.State) {
				states(s)
				if s.Connected {
					heard(s.Program)
				}
				if s.Connected && *follow.once {
					a.Leave(0)
				}
			}, log)
			return a, err
		}
		if follower != nil {
			follower.Open = open
			return follower.Run(cmd.Context())
		}
		a, err := open(func(string) {})
		if err != nil {
			return err
		}
		return a.Run(cmd.Context())
	}
	roster.AddNodeAdminCmds(cmd)
	device.AddCmds(cmd)
	cmd.AddCommand(newJoinCmd(offered))
	return cmd
}

// reach is how a node reaches its gateway.
type reach struct {
	addrs []string   // none: where it joined
	proxy link.Proxy // nil: what the environment says
}

// proxyFlag is the HTTP proxy to a gateway.
type proxyFlag struct{ url *string }

func addProxyFlag(cmd *cobra.Command) proxyFlag {
	return proxyFlag{cmd.Flags().String("proxy", "",
		"HTTP proxy to the gateway where UDP does not get through, such as http://proxy.example:3128 (default: HTTPS_PROXY of the environment)")}
}

func (f proxyFlag) proxy() (link.Proxy, error) {
	if *f.url == "" {
		return nil, nil
	}
	u, err := url.Parse(*f.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, terminal.UsageError("--proxy: want the address of an HTTP proxy, such as http://proxy.example:3128")
	}
	return http.ProxyURL(u), nil
}

// nodeStates tells the person, or the script, each change of the connection.
func nodeStates(cmd *cobra.Command) func(link.State) {
	asJSON := terminal.FlagsOf(cmd).JSON
	return func(s link.State) {
		event := "disconnected"
		switch {
		case s.Connected:
			event = "connected"
		case s.Pending:
			event = "pending"
		}
		if asJSON {
			body := map[string]any{"event": event, "node_id": s.Node, "gateway": s.Gateway}
			if s.Connected {
				body["transport"], body["address"] = s.Over, s.Addr
			}
			if s.Err != nil {
				e := capabilities.AsError(s.Err)
				body["code"], body["message"] = e.Code, e.PublicMessage()
			}
			_ = terminal.PrintJSON(cmd.OutOrStdout(), body)
			return
		}
		line := fmt.Sprintf("node %s: %s", s.Node, event)
		if s.Gateway != "" {
			line += " with gateway " + s.Gateway
		}
		if s.Connected && s.Over != tunnel.QUIC {
			line += " by " + string(s.Over) + " at " + s.Addr + ", since UDP does not get through"
		}
		if s.Err != nil {
			line += " (" + strings.TrimSuffix(capabilities.AsError(s.Err).PublicMessage(), ".") + ")"
		}
		fmt.Fprintln(cmd.OutOrStdout(), terminal.Plain(line))
	}
}

func addVerbose(cmd *cobra.Command) *bool {
	return cmd.Flags().BoolP("verbose", "v", false, "log every call and connection to standard error")
}

// newLog logs to standard error: warnings, or everything with --verbose; as JSON
// with --json.
func newLog(cmd *cobra.Command, verbose bool) *slog.Logger {
	return slog.New(newQuiet(logHandler(cmd, verbose, slog.LevelWarn)))
}

func logHandler(cmd *cobra.Command, verbose bool, least slog.Level) slog.Handler {
	o := &slog.HandlerOptions{Level: least}
	if verbose {
		o.Level = slog.LevelDebug
	}
	if terminal.FlagsOf(cmd).JSON {
		return slog.NewJSONHandler(cmd.ErrOrStderr(), o)
	}
	return slog.NewTextHandler(cmd.ErrOrStderr(), o)
}
