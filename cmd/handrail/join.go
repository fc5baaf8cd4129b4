package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/pairing"
)

// newJoinCmd makes `handrail node join`. offers lists what this device could do,
// for the person who sets its allowlist. The paste is a secret, so it comes from
// standard input or a prompt and never from the command line, which every
// process of the machine can read.
func newJoinCmd(offers func() []capabilities.CapabilityID) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "join",
		Short: "Pair this device with a gateway, with the code from 'handrail pair'",
		Long: "Asks for the pairing code, or reads it from standard input, proves it to the gateway and waits until the admin\n" +
			"confirms. Compare the key it shows with what the admin sees. Then 'handrail node' runs the node.",
		Args: cobra.NoArgs,
	}
	label := cmd.Flags().String("label", "", "name of this device for people (default: the one of the invite)")
	proxy := addProxyFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		by, err := proxy.proxy()
		if err != nil {
			return err
		}
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		text, err := readPaste(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		paste, err := pairing.ParsePaste(text)
		if err != nil {
			return err
		}
		if err := data.Make(data.Node()); err != nil {
			return err
		}
		id, err := link.Join(cmd.Context(), paste, link.JoinOptions{
			Dir: data.Node(), Profile: profile(*label, offers()), Proxy: by, Progress: joinProgress(cmd),
		})
		if err != nil {
			return err
		}
		base, pin, known := data.Door()
		if terminal.FlagsOf(cmd).JSON {
			said := map[string]any{"event": "approved", "node_id": id.Node, "site_id": id.Site}
			if known {
				said["console"], said["fingerprint"] = base.String()+"/console/", pin.String()
			}
			return terminal.PrintJSON(cmd.OutOrStdout(), said)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "This device is node %s of site %s. Run 'handrail node' to start it.\n", id.Node, id.Site)
		if known {
			fmt.Fprintf(cmd.OutOrStdout(), "The gateway's console: %s/console/\nIts certificate: %s\n", base, pin)
		}
		return nil
	}
	return cmd
}

// profile is what the admin sees of this device.
func profile(label string, offers []capabilities.CapabilityID) pairing.Profile {
	host, _ := os.Hostname()
	return pairing.Profile{Label: label, Host: host, Platform: runtime.GOOS, Arch: runtime.GOARCH, Agent: programVersion(), Offers: offers}
}

// joinProgress tells each step once, and each failed attempt.
func joinProgress(cmd *cobra.Command) func(link.JoinStep) {
	out, asJSON := cmd.OutOrStdout(), terminal.FlagsOf(cmd).JSON
	said := pairing.State("")
	return func(s link.JoinStep) {
		if s.Err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "the connection was lost (%v); trying again\n", s.Err)
			return
		}
		if s.State == said || s.State != pairing.StatePending {
			return
		}
		said = s.State
		if asJSON {
			_ = terminal.PrintJSON(out, map[string]any{"event": "pending", "node_id": s.Node, "key_fingerprint": s.Fingerprint})
			return
		}
		fmt.Fprintf(out, "Code accepted. Waiting for the admin to approve this device.\n  node  %s\n  key   %s\n", s.Node, s.Fingerprint)
	}
}

// readPaste returns what 'handrail pair' printed.
func readPaste(ctx context.Context, in io.Reader, prompt io.Writer) (string, error) {
	text, err := terminal.ReadHidden(ctx, in, prompt, "Code from 'handrail pair': ", 4*pairing.MaxPaste)
	if err == nil && strings.TrimSpace(text) == "" {
		return "", capabilities.Errorf(capabilities.CodePasteInvalid, "no code was given").
			WithHint("Give the line that 'handrail pair' printed, on standard input or at the prompt.")
	}
	return text, err
}
