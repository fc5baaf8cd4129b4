package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/ci"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/cmd/handrail/trial"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/consent"
)

// newCISiteCmd makes the second process of ci. It is not for people.
func newCISiteCmd() *cobra.Command {
	cmd := &cobra.Command{Use: trial.SiteCommand, Short: "The gateway and node of 'handrail ci'", Hidden: true, Args: cobra.NoArgs}
	o := upOptions{flags: addNodeFlags(cmd), http: "127.0.0.1:0", quic: "127.0.0.1:0", plain: true, alone: true, uploads: true}
	keep := cmd.Flags().Bool("keep", false, "leave the data directory")
	verbose := addVerbose(cmd)
	cmd.Flags().BoolVar(&o.grantDesktop, "grant-desktop", false, "who starts this grants the desktop family")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.verbose = *verbose
		return ciSite(cmd, o, *keep)
	}
	return cmd
}

// ciSite runs a gateway and a node until standard input ends.
func ciSite(cmd *cobra.Command, o upOptions, keep bool) error {
	return ci.Serve(cmd.Context(), cmd.InOrStdin(), func(ctx context.Context) error {
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		if !keep {
			defer ci.Remove(string(data))
		}
		if !o.grantDesktop {
			*o.flags.use = "off"
		}
		cmd.SetContext(ctx)
		// The output of up is for the other process; an error is for the person.
		asked := fmt.Sprint(terminal.FlagsOf(cmd).JSON)
		if err := cmd.Flags().Set("json", "true"); err != nil {
			return err
		}
		defer func() { _ = cmd.Flags().Set("json", asked) }()
		return up(cmd, data, o)
	})
}

// ciUploads lets files go to web pages without asking. The node reads none but those below its
// upload roots.
const ciUploads = `// Added by 'handrail ci': nobody can be asked in a job, and the node hands out
// files of the folders named by --upload-root only.
@id("ci-uploads")
permit (
  principal,
  action == Action::"tool.browser.upload-file",
  resource
)
when { context.given != "session" };
`

// desktopTools are those that 'handrail ci --desktop' grants.
var desktopTools = []string{
	"tool.desktop.screenshot", "tool.desktop.snapshot", "tool.desktop.query", "tool.desktop.act", "tool.desktop.mouse",
	"tool.desktop.keyboard", "tool.desktop.wait-for",
}

// grantDesktop grants the agent the node's desktop, for who started this on it
// and said so.
func grantDesktop(ctx context.Context, g *gateway.Gateway, node capabilities.NodeID) error {
	_, err := g.Consent.Grant(ctx, consent.Spec{
		Principal: "agent", Tools: desktopTools, Node: node, AnyLane: true, For: consent.MaxLease, Approver: "admin",
		Reason: "handrail ci --desktop",
	})
	return err
}
