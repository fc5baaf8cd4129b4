package trial

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/suite/desktop"
)

func newDesktopSuiteCmd(host Host) *cobra.Command {
	var o suiteOptions
	var person bool
	cmd := &cobra.Command{
		Use:   "desktop",
		Short: "Run the desktop's capability suite over MCP",
		Long: "Runs behaviours on the desktop of this machine's node, through MCP, gateway and node: with windows of its own (a\n" +
			"Chrome, an editor, a terminal, as far as they are installed), whose pages and files tell this command what really\n" +
			"came of mouse and keyboard. It uses the desktop's one pointer and focus, so leave both alone while it runs; what it\n" +
			"opened it closes. A behaviour that cannot be tried here says what it needs. 'handrail ci --desktop -- handrail suite desktop'\n" +
			"starts a gateway and a node for it, to which who starts it grants the desktop for that long.",
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	o.flags(f)
	sandbox := host.Sandbox(cmd, "required")
	f.BoolVar(&person, "person", false, "try what happens when a person takes over, and ask you to move the mouse for it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runDesktopSuite(cmd, o, host, *sandbox, person) }
	return cmd
}

func runDesktopSuite(cmd *cobra.Command, o suiteOptions, host Host, sandbox browser.Sandbox, person bool) error {
	target, say, err := o.begin(cmd, desktop.All())
	if err != nil || target == nil {
		return err
	}
	options := desktop.Options{Options: target.Options, NoSandbox: host.Bare(cmd.Context(), sandbox)}
	if person {
		options.Person = func(ctx context.Context) error {
			// Only the mouse itself tells that it was moved: the call that runs ends by it.
			fmt.Fprintln(cmd.ErrOrStderr(), "Move the mouse now, for a second, and let go.")
			return capabilities.Sleep(ctx, 3*time.Second)
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "A person is asked for. Press Enter when you sit at this desktop.")
		_, _ = bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	}
	report, err := desktop.Run(cmd.Context(), options)
	if refused, ok := errors.AsType[*capabilities.Error](err); ok && refused.Code == capabilities.CodeConsentUnavailable {
		fmt.Fprint(cmd.ErrOrStderr(),
			"The gateway's policy asks a person about the desktop, and nobody can be asked. To try it on this machine:\n\n"+
				"  handrail ci --desktop -- handrail suite desktop\n\n")
	}
	return o.told(cmd, say, report, err)
}
