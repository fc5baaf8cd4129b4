package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/cmd/handrail/bridge"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/standalone"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

const (
	mcpSite = "mcp-site" // the command that runs the gateway of conversations; not for people

	startFor  = 3 * time.Minute  // what a gateway has to start, and one before it to end
	unusedFor = 30 * time.Second // a client that starts its program anew finds its gateway
)

// standaloneFlags are those of 'handrail mcp' about a gateway that it starts itself.
type standaloneFlags struct {
	on      *bool
	sandbox *browser.Sandbox
}

func addStandalone(cmd *cobra.Command) standaloneFlags {
	return standaloneFlags{
		on: cmd.Flags().Bool("standalone", false,
			"start a gateway and this machine's node where none is up, until no such conversation is left"),
		sandbox: addSandboxFlag(cmd, "required; taken with --standalone alone"),
	}
}

// join has a gateway up for this conversation, and returns how it is found from now on.
func (f standaloneFlags) join(cmd *cobra.Command, find func() (bridge.Gateway, error)) (func() (bridge.Gateway, error), func(), error) {
	switch {
	case !*f.on && cmd.Flags().Changed("browser-sandbox"):
		return nil, nil, terminal.UsageError("--browser-sandbox is taken with --standalone: a gateway that is up has decided it")
	case !*f.on:
		return find, func() {}, nil
	case os.Getenv("HANDRAIL_URL") != "":
		return nil, nil, terminal.UsageError("HANDRAIL_URL names a gateway, and --standalone starts one: give one of them")
	}
	data, err := datadir.Of(cmd)
	if err != nil {
		return nil, nil, err
	}
	if err := data.Make(string(data)); err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	ready := []byte(`"event":"ready"`)
	start := func(ctx context.Context, how func(context.Context) error) error {
		ctx, stop := context.WithTimeout(ctx, startFor)
		defer stop()
		err := how(ctx)
		var refused *standalone.RefusedError
		if errors.As(err, &refused) { // it has said why, with what mends it
			_, _ = cmd.ErrOrStderr().Write(refused.Said)
			return &terminal.ExitError{Code: max(refused.Code, 1), Err: err, Silent: true}
		}
		return err
	}
	var share *standalone.Share
	err = start(cmd.Context(), func(ctx context.Context) (err error) {
		share, err = standalone.At(string(data)).Join(ctx, standalone.Gateway{
			Command: func() *exec.Cmd {
				args := []string{mcpSite, "--data", string(data)}
				if *f.sandbox != "" {
					args = append(args, "--browser-sandbox", string(*f.sandbox))
				}
				site := exec.Command(self, args...)
				site.Args[0] = os.Args[0] // as this process is called
				return site
			},
			Up:    data.Up,
			Ready: func(said []byte) bool { return bytes.Contains(said, ready) },
		})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	again := func() (bridge.Gateway, error) {
		if err := start(cmd.Context(), share.Ensure); err != nil {
			return nil, err
		}
		return find()
	}
	return again, share.Leave, nil
}

// newMCPSiteCmd makes the process that --standalone starts.
func newMCPSiteCmd() *cobra.Command {
	cmd := &cobra.Command{Use: mcpSite, Short: "The gateway and node of 'handrail mcp --standalone'", Hidden: true, Args: cobra.NoArgs}
	o := upOptions{flags: addNodeFlags(cmd), plain: true, shared: true}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		o.http, o.quic = freeOr(defaultHTTP, listensTCP), freeOr(localQUIC, listensUDP)
		return standalone.At(string(data)).Serve(cmd.Context(), unusedFor, func(ctx context.Context) error {
			cmd.SetContext(ctx)
			// The process that waits reads what up prints; an error is for a person.
			asked := fmt.Sprint(terminal.FlagsOf(cmd).JSON)
			if err := cmd.Flags().Set("json", "true"); err != nil {
				return err
			}
			defer func() { _ = cmd.Flags().Set("json", asked) }()
			return up(cmd, data, o)
		})
	}
	return cmd
}

// freeOr returns an address if it can be listened at, else its host with a port that the system
// chooses.
func freeOr(addr string, listens func(addr string) error) string {
	if listens(addr) == nil {
		return addr
	}
	host, _, _ := net.SplitHostPort(addr)
	return net.JoinHostPort(host, "0")
}

func listensTCP(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

func listensUDP(addr string) error {
	l, err := net.ListenPacket("udp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}
