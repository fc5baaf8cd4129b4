package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/record"
	"github.com/handrail-dev/handrail/cmd/handrail/storage"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

const (
	defaultHTTP = "127.0.0.1:7480"
	defaultQUIC = ":7443"
)

// minLedgerKeep is the least that retention leaves: a mistyped unit must not empty
// the record.
const minLedgerKeep = 24 * time.Hour

func newGatewayCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Run the gateway that agents call and nodes connect to",
		Long: "Serves MCP and the API over HTTP, and nodes over QUIC. The first start makes the site's keys and the\n" +
			"policy file in the data directory; back that directory up.",
		Args: cobra.NoArgs,
	}
	http := cmd.Flags().String("http", defaultHTTP, "address of MCP and the API")
	quic := cmd.Flags().String("quic", defaultQUIC, "address that nodes connect to, by UDP or else TCP")
	advertise := cmd.Flags().StringSlice("advertise", nil,
		"host:port that pairing codes carry, or https://host for a WebSocket (default: this host's addresses)")
	others := cmd.Flags().StringArray("other-gateway", nil,
		"host:port of another gateway of the site, several of the same one with commas; nodes spread over all; repeatable")
	door := addDoorFlags(cmd)
	bus := addBusServer(cmd)
	place := addStoreFlag(cmd)
	standby := cmd.Flags().Bool("standby", false,
		"be one of several gateways of the site, which serve one at a time: wait while another serves")
	fleet := cmd.Flags().String("fleet", "",
		"be one of several gateways of the site that serve at once: UDP address at which the others reach this one, such as 10.0.0.5:7445")
	fromFiles := cmd.Flags().Bool("policy-from-files", false,
		"put the policy folder's files in force without activating them, as when the policy in force locks everybody out")
	keep := cmd.Flags().Duration("ledger-keep", 0, "prune packets older than this, with proof, such as 2160h (default: keep everything)")
	skills := addSkillsFlag(cmd)
	verbose := addVerbose(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *keep != 0 && *keep < minLedgerKeep {
			return terminal.UsageError("--ledger-keep must be at least %s", capabilities.Spoken(minLedgerKeep))
		}
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		o := gateway.Options{
			HTTP: *http, QUIC: *quic, Advertise: *advertise, ApprovalWait: approvalWait, LedgerRetention: *keep, Skills: *skills,
			Log: newEventLog(cmd, *verbose),
		}
		if err := listens(*http, *quic); err != nil {
			return err
		}
		if err := data.Free(cmd.Context(), *http, *quic); err != nil {
			return err
		}
		if *fromFiles {
			o.PolicyFiles = rules.FilesTaken
		}
		o.Drains = true
		o.Prepare = func(context.Context) error { return dropDemoRules(data) }
		if err := errors.Join(door.into(&o), bus.into(&o), place.into(&o)); err != nil {
			return err
		}
		if o.Others, err = otherGateways(*others); err != nil {
			return err
		}
		if o.Standby, o.Fleet = *standby, *fleet; o.Standby && o.Fleet != "" {
			return terminal.UsageError("--fleet gateways serve at once and --standby gateways one at a time: choose one")
		}
		return inTurn(cmd, o, func() error {
			g, err := openGateway(cmd.Context(), data, o)
			if err != nil {
				return err
			}
			defer g.Close()
			running, err := announce(data, g)
			if err != nil {
				return err
			}
			defer data.ClearRunning()
			if err := sayGateway(cmd, data, g, running, *advertise); err != nil {
				return err
			}
			return g.Run(cmd.Context())
		})
	}
	cmd.AddCommand(newDrainCmd())
	return cmd
}

// otherGateways reads the addresses of a site's other gateways.
func otherGateways(list []string) (all [][]string, err error) {
	for _, text := range list {
		addrs := strings.Split(text, ",")
		for _, a := range addrs {
			if err := pairing.CheckAddr(a); err != nil || len(addrs) > pairing.MaxAddrs {
				return nil, terminal.UsageError("--other-gateway %.200q: want HOST:PORT, at most %d of them with commas", text, pairing.MaxAddrs)
			}
		}
		all = append(all, addrs)
	}
	return all, nil
}

// inTurn has a gateway serve: once, or as one of several each time that it is its turn.
func inTurn(cmd *cobra.Command, o gateway.Options, serve func() error) error {
	if !o.Standby && o.Fleet == "" {
		return serve()
	}
	for said := o.Fleet != ""; ; {
		if !said {
			said = true
			if err := sayStandby(cmd); err != nil {
				return err
			}
		}
		began := time.Now()
		err := serve()
		if cmd.Context().Err() != nil || !store.Lapsed(err) {
			return err
		}
		o.Log.Warn("gateway.standby", "err", err, "after_ms", time.Since(began).Milliseconds())
		said = o.Fleet != "" || time.Since(began) < standbyAgain
		select {
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		case <-time.After(standbyAgain):
		}
	}
}

// standbyAgain is between two attempts to reach a store that is away.
const standbyAgain = time.Second

func sayStandby(cmd *cobra.Command) error {
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"event": "standby"})
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), "one of several gateways of its site: waits while another serves")
	return err
}

// storeFlag is where the site's store lies.
type storeFlag struct{ url *string }

func addStoreFlag(cmd *cobra.Command) storeFlag {
	return storeFlag{cmd.Flags().String("store", "", "PostgreSQL database that keeps the site, such as "+
		"postgres://handrail@db.example/handrail (default: where it was kept before, first a file in the data directory)")}
}

func (f storeFlag) into(o *gateway.Options) (err error) {
	o.Store, err = storage.PlaceOf("store", *f.url)
	return err
}

// addSkillsFlag adds the folder of skills.
func addSkillsFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("skills", "", "folder with skills for agents, each a folder with a SKILL.md")
}

// sayGateway prints where the gateway is reached: by this machine and by others.
func sayGateway(cmd *cobra.Command, data datadir.Dir, g *gateway.Gateway, running datadir.Running, advertise []string) error {
	to := datadir.ReachOf(running, g.HTTPAddr(), g.QUICAddr(), net.InterfaceAddrs)
	if len(advertise) > 0 {
		to.Nodes = advertise
	}
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{
			"event": "ready", "http": running.HTTP, "mcp": running.HTTP + "/mcp", "quic": running.QUIC, "http_elsewhere": to.HTTP,
			"quic_elsewhere": to.Nodes, "token_file": data.AgentTokenPath(), "site_id": g.Site(), "fingerprint": running.Fingerprint(),
		})
	}
	nodes := running.QUIC
	if len(to.Nodes) > 0 {
		nodes = strings.Join(to.Nodes, ", ")
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "gateway of site %s\n  MCP    %s\n  nodes  %s (UDP, TCP)\n  token  %s\n", g.Site(), to.Lines("/mcp", "         "), nodes,
		data.AgentTokenPath())
	_, err := fmt.Fprintf(out, "Pair a device: %s\nThe console: %s/console/ (sign in: %s)\n%s",
		data.Command("pair"), running.Page(to), data.Command("login"), running.CertificateLine())
	return err
}

// listens checks the two addresses to listen at.
func listens(http, quic string) error {
	for name, addr := range map[string]string{"http": http, "quic": quic} {
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
			return terminal.UsageError("--%s %s: want HOST:PORT, such as %s", name, addr, defaultHTTP)
		}
	}
	return nil
}

// adminName is whom the token in the gateway's data directory stands for.
const adminName = "admin"

// openGateway opens the gateway of data and makes sure that its tokens are there.
func openGateway(ctx context.Context, data datadir.Dir, o gateway.Options) (*gateway.Gateway, error) {
	if err := data.HalfRestored(); err != nil {
		return nil, err
	}
	if err := data.Make(data.Gateway()); err != nil {
		return nil, err
	}
	o.Dir, o.Version = data.Gateway(), programVersion()
	o.NodeLogs = record.ReadNodeLog
	o.StopGrace = stopGrace
	g, err := gateway.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	for path, spec := range map[string]principal.Spec{
		data.TokenPath():            {Principal: adminName, Role: principal.RoleAdmin},
		data.Gateway("agent.token"): {Principal: "agent", Role: principal.RoleAgent, Lane: "main"},
	} {
		if err := g.Token(ctx, path, spec); err != nil {
			g.Close()
			return nil, err
		}
	}
	return g, nil
}

// stopGrace is how long a gateway that is told to end waits for calls that run.
const stopGrace = 5 * time.Second

// announce writes where the gateway listens, for the client commands.
func announce(data datadir.Dir, g *gateway.Gateway) (datadir.Running, error) {
	r := datadir.Running{HTTP: "http://" + dialable(g.HTTPAddr()), QUIC: dialable(g.QUICAddr()), PID: os.Getpid(), URL: g.PublicURL()}
	if cert := g.Certificate(); cert != nil {
		r.HTTP = "https" + strings.TrimPrefix(r.HTTP, "http")
		path, err := filepath.Abs(cert.File())
		if err != nil {
			return r, err
		}
		r.Cert = path
	}
	return r, data.WriteRunning(r)
}

// dialable returns an address that this machine can dial: a wildcard becomes
// loopback.
func dialable(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// approvalWait is how long a call waits for a person: less than the minute after
// which clients give up.
const approvalWait = 45 * time.Second
