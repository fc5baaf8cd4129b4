package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities/browser/script"
	"github.com/handrail-dev/handrail/cmd/handrail/access"
	"github.com/handrail-dev/handrail/cmd/handrail/backup"
	"github.com/handrail-dev/handrail/cmd/handrail/consent"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/health"
	"github.com/handrail-dev/handrail/cmd/handrail/invoke"
	"github.com/handrail-dev/handrail/cmd/handrail/lane"
	"github.com/handrail-dev/handrail/cmd/handrail/provider"
	"github.com/handrail-dev/handrail/cmd/handrail/record"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/roster"
	"github.com/handrail-dev/handrail/cmd/handrail/rules"
	"github.com/handrail-dev/handrail/cmd/handrail/satellites"
	"github.com/handrail-dev/handrail/cmd/handrail/service"
	"github.com/handrail-dev/handrail/cmd/handrail/storage"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/cmd/handrail/tools"
	"github.com/handrail-dev/handrail/cmd/handrail/trial"
	"github.com/handrail-dev/handrail/cmd/handrail/workers"
	"github.com/handrail-dev/handrail/platform/confine"
)

func main() {
	// quic-go tells its wish for larger UDP buffers to the standard logger, past ours.
	_ = os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	script.Main(confine.Self)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program without the process: it never exits by itself.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCmd()
	root.SetArgs(args)
	root.SetIn(stdin)
	out := &terminal.Output{To: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = out.Failed()
	}
	if err != nil {
		var own *terminal.ExitError
		if ctx.Err() != nil && terminal.ExitCode(err) == terminal.ExitFailed && !(errors.As(err, &own) && own.Final) {
			err = ctx.Err() // what fails because of ctrl-C is not a failure of its own
		}
		var on []string
		if cmd != nil && terminal.FlagsOf(cmd).Data != "" && os.Getenv("HANDRAIL_URL") == "" {
			if data, bad := datadir.Of(cmd); bad == nil {
				on = data.Given()
			}
		}
		terminal.Report(stderr, err, cmd != nil && terminal.FlagsOf(cmd).JSON || terminal.AsksJSON(args), on)
	}
	return terminal.ExitCode(err)
}

// newRootCmd builds the whole command tree; docs and completions are tested
// against it.
func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "handrail",
		Short: "Hands for AI agents, on rails their owners control",
		Long: "Handrail lets AI agents use devices through one gateway that routes, decides, asks and records.\n\n" +
			"Start with 'handrail up': it runs a gateway and a paired node on this machine.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().String("data", "", "data directory (default: handrail below the user's state directory)")
	root.PersistentFlags().Bool("json", false, "print one JSON object a line instead of text")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if text, _, isTime := strings.Cut(err.Error(), ": time: "); isTime {
			return terminal.UsageHint("Write a time as 90s, 5m or 1h30m.", "%s", text)
		}
		return terminal.UsageError("%s", err.Error())
	})

	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run:"},
		&cobra.Group{ID: groupUse, Title: "Use:"},
		&cobra.Group{ID: groupManage, Title: "Manage:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupRun, newUpCmd(), newGatewayCmd(), newNodeCmd())
	add(groupUse, invoke.NewCallCmd(), workers.NewRunCmd(), workers.NewChatCmd(),
		workers.NewACPCmd(programVersion()),
		roster.WithRoster(workers.NewWorkerCmd(programVersion(), busTLS)), tools.NewToolsCmd(),
		tools.NewSkillsCmd(), newMCPCmd(), newConnectCmd(), trial.NewSuiteCmd(trialHost()), trial.NewCICmd(trialHost()))
	add(groupManage, roster.NewPairCmd(), roster.NewNodesCmd(), lane.NewLaneCmd(), access.NewTokenCmd(), access.NewUserCmd(),
		access.NewLoginCmd(), access.NewSecretCmd(), provider.NewProviderCmd(),
		roster.NewSatelliteCmd(satellites.NewJoinCmd(satelliteHost()), satellites.NewRunCmd(satelliteHost())),
		consent.NewApprovalsCmd(), consent.NewApproveCmd(),
		consent.NewDenyCmd(), consent.NewTUICmd(), consent.NewTasksCmd(), record.NewCallsCmd(), workers.NewTurnsCmd(),
		workers.NewJobsCmd(), workers.NewMemoryCmd(), invoke.NewArtifactsCmd(), consent.NewGrantCmd(), consent.NewStopCmd(),
		consent.NewResumeCmd(), rules.NewPolicyCmd(), record.NewDriftCmd(), record.NewLedgerCmd(), health.NewStatusCmd(programVersion()),
		health.NewDoctorCmd(localHost()), backup.NewBackupCmd(programVersion()),
		backup.NewRestoreCmd(func(cmd *cobra.Command) *slog.Logger { return newLog(cmd, false) }),
		storage.NewStoreCmd(func(cmd *cobra.Command) *slog.Logger { return newLog(cmd, false) }),
		service.NewServiceCmd(service.Runs{Gateway: newGatewayCmd, Node: newNodeCmd}), service.NewLogsCmd(),
		newUpdateCmd())
	root.AddCommand(newVersionCmd(), newManCmd(), newCISiteCmd(), newMCPSiteCmd())
	root.InitDefaultCompletionCmd("completion") // with a command's name it is made although none is called yet
	wrapArgs(root)
	completeFlags(root)
	return root
}

const (
	groupRun    = "run"
	groupUse    = "use"
	groupManage = "manage"
)

// wrapArgs makes a wrong number of arguments, a flag that is missing and an unknown
// subcommand a usage error everywhere, which says what is right.
func wrapArgs(cmd *cobra.Command) {
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args, cmd.RunE = cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if check(cmd, args) != nil {
				return wrongArgs(cmd, args, check)
			}
			if len(args) > 0 && args[0] == "" { // a variable that was not set
				return terminal.UsageHint("Usage: "+cmd.UseLine(), "the first argument is empty")
			}
			if err := cmd.ValidateRequiredFlags(); err != nil {
				return terminal.UsageHint("Usage: "+cmd.UseLine(), "%s", err.Error())
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}

// completeFlags has the shell complete the values of flags that several commands have.
func completeFlags(cmd *cobra.Command) {
	if cmd.Flags().Lookup("node") != nil {
		_ = cmd.RegisterFlagCompletionFunc("node", remote.CompleteNodes(math.MaxInt))
	}
	if role := cmd.Flags().Lookup("role"); role != nil {
		named := slices.DeleteFunc([]string{"agent", "viewer", "operator", "admin"},
			func(r string) bool { return !strings.Contains(role.Usage, r) })
		_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(named, cobra.ShellCompDirectiveNoFileComp))
	}
	for _, sub := range cmd.Commands() {
		completeFlags(sub)
	}
}

// wrongArgs says what is wrong with the arguments of cmd, and what is right.
func wrongArgs(cmd *cobra.Command, args []string, check cobra.PositionalArgs) error {
	switch {
	case len(args) > 0 && cmd.HasSubCommands():
		cmd.SuggestionsMinimumDistance = 2
		hint := "'" + cmd.CommandPath() + " --help' lists its commands."
		if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
			hint = "Did you mean '" + cmd.CommandPath() + " " + strings.Join(like, "' or '"+cmd.CommandPath()+" ") + "'?"
		}
		return terminal.UsageHint(hint, "unknown command %q for %q", args[0], cmd.CommandPath())
	case len(args) == 0:
		return terminal.UsageHint("Usage: "+cmd.UseLine(), "an argument is missing")
	}
	for n := len(args) - 1; n >= 0; n-- {
		if check(cmd, args[:n]) == nil {
			return terminal.UsageHint("Usage: "+cmd.UseLine(), "more arguments than it takes: %s", strings.Join(args[n:], " "))
		}
	}
	return terminal.UsageHint("Usage: "+cmd.UseLine(), "an argument is missing after %s", strings.Join(args, " "))
}
