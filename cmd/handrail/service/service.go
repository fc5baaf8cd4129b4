package service

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	system "github.com/handrail-dev/handrail/platform/service"
)

// which say which service is meant.
type which struct {
	gateway, node  bool
	account, root  string
	always, dryRun bool
}

// Runs makes the commands that services run: a service that ends at once is found out late, so that
// their flags are checked before.
type Runs struct{ Gateway, Node func() *cobra.Command }

// NewServiceCmd returns the command that has the system keep runs.
func NewServiceCmd(runs Runs) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "service",
		Short: "Have the system keep the gateway or this device's node running",
		Long: "The gateway becomes a service of the machine, under an account of its own and with the rights that it needs. The node becomes\n" +
			"one of your own session, for there are your desktop and your browser.",
	}
	cmd.AddCommand(newInstallCmd(runs), newUninstallCmd(), newStatusCmd())
	return cmd
}

func (f *which) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.gateway, "gateway", false, "the gateway, as a service of this machine")
	cmd.Flags().BoolVar(&f.node, "node", false, "the node, as a service of your session")
	cmd.Flags().StringVar(&f.root, "root", "", "folder with the files of a system that does not run, such as an image (Linux)")
}

// plan returns what the flags ask for.
func (f *which) plan(cmd *cobra.Command, args []string) (system.Plan, error) {
	if f.gateway == f.node {
		return system.Plan{}, terminal.UsageHint("Give --gateway or --node.", "one of the two services has to be named")
	}
	program, err := os.Executable()
	if err != nil {
		return system.Plan{}, err
	}
	s := system.Spec{Role: system.Gateway, Program: program, Args: args, Account: f.account, Root: f.root, Always: f.always}
	if f.root != "" {
		if runtime.GOOS != "linux" || f.node {
			return system.Plan{}, terminal.UsageError("--root is for a gateway on Linux")
		}
		if s.Root, err = filepath.Abs(f.root); err != nil {
			return system.Plan{}, err
		}
	}
	if s.Home, err = os.UserHomeDir(); err != nil && f.node {
		return system.Plan{}, err
	}
	if f.node {
		s.Role = system.Node
		if os.Geteuid() == 0 && !f.dryRun {
			return system.Plan{}, capabilities.Errorf(capabilities.CodeForbidden, "A node runs in a person's session, and this is root.").
				WithHint("Do it as the person whose device this is, without sudo.")
		}
	}
	data, err := datadir.Of(cmd)
	if err != nil {
		return system.Plan{}, err
	}
	s.Data = string(data)
	if f.gateway && terminal.FlagsOf(cmd).Data == "" && os.Getenv("HANDRAIL_DATA") == "" {
		s.Data = DataOf(runtime.GOOS)
	}
	return system.For(runtime.GOOS, s)
}

// DataOf is where a gateway that is a service of the machine keeps its state.
func DataOf(goos string) string {
	switch goos {
	case "darwin":
		return "/Library/Application Support/handrail"
	case "windows":
		return filepath.Join(os.Getenv("ProgramData"), "handrail")
	}
	return "/var/lib/handrail"
}

func newInstallCmd(runs Runs) *cobra.Command {
	f := &which{}
	cmd := &cobra.Command{
		Use:   "install --gateway|--node [-- FLAGS]",
		Short: "Make the service and start it",
		Long: "FLAGS after -- are those of 'handrail gateway' or 'handrail node'. --dry-run prints the files and the system's commands.\n" +
			"An installed service is written anew.",
		Example: "  sudo handrail service install --gateway -- --url https://handrail.example\n  handrail service install --node",
		Args:    cobra.ArbitraryArgs,
	}
	f.add(cmd)
	account := "handrail"
	if runtime.GOOS == "windows" {
		account = `NT AUTHORITY\LOCAL SERVICE`
	}
	cmd.Flags().StringVar(&f.account, "account", account, "whom the gateway runs as; made if it is missing (Linux)")
	cmd.Flags().BoolVar(&f.always, "without-desktop", false, "has the node start with your first sign-in, not with a desktop session (Linux)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would be written and done, and do nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := f.plan(cmd, args)
		if err != nil {
			return err
		}
		if err := runs.takeFlags(cmd, f.gateway, args); err != nil {
			return err
		}
		unseen := capabilities.Errorf(capabilities.CodeInvalidRequest,
			"the service would not see %s: it sees no folder of people, and none for temporary files", p.Hidden).
			WithHint("Put the program into /usr/local/bin and the data below /var/lib, and do it from there.")
		switch {
		case f.dryRun && p.Hidden != "":
			fmt.Fprintf(cmd.ErrOrStderr(), "It would be refused: %s. %s\n", terminal.Plain(unseen.PublicMessage()), unseen.PublicHint())
			return printPlan(cmd, p)
		case f.dryRun:
			return printPlan(cmd, p)
		case p.Hidden != "" && f.root == "":
			return unseen
		}
		if err := p.Install(cmd.Context()); err != nil {
			return err
		}
		return say(cmd, p, "installed")
	}
	return cmd
}

// takeFlags checks the flags of the command that the service runs.
func (r Runs) takeFlags(cmd *cobra.Command, gateway bool, args []string) error {
	runs := r.Node()
	if gateway {
		runs = r.Gateway()
	}
	runs.PersistentFlags().AddFlagSet(cmd.Root().PersistentFlags())
	if err := runs.ParseFlags(args); err != nil {
		return terminal.UsageHint("After -- come the flags of 'handrail "+runs.Name()+"'.", "%s", err.Error())
	}
	if left := runs.Flags().Args(); len(left) > 0 {
		return terminal.UsageHint("After -- come the flags of 'handrail "+runs.Name()+"'.", "more arguments than it takes: %s",
			strings.Join(left, " "))
	}
	return nil
}

func printPlan(cmd *cobra.Command, p system.Plan) error {
	out := cmd.OutOrStdout()
	if terminal.FlagsOf(cmd).JSON {
		files := map[string]string{}
		for _, f := range p.Files {
			files[f.Path] = f.Text
		}
		return terminal.PrintJSON(out, map[string]any{"name": p.Name, "files": files, "commands": p.On})
	}
	for _, f := range p.Files {
		fmt.Fprintf(out, "write %s:\n%s\n", terminal.Plain(f.Path), terminal.PlainBlock(f.Text))
	}
	for _, argv := range p.On {
		if _, err := fmt.Fprintf(out, "run %s\n", terminal.Plain(strings.Join(argv, " "))); err != nil {
			return err
		}
	}
	return nil
}

func say(cmd *cobra.Command, p system.Plan, done string) error {
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"name": p.Name, "state": done})
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", p.Name, done)
	return err
}

func newUninstallCmd() *cobra.Command {
	f := &which{}
	cmd := &cobra.Command{
		Use:   "uninstall --gateway|--node",
		Short: "Stop the service and remove it; its data directory stays",
		Args:  cobra.NoArgs,
	}
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := f.plan(cmd, nil)
		if err != nil {
			return err
		}
		if err := p.Uninstall(cmd.Context()); err != nil {
			return err
		}
		return say(cmd, p, "removed")
	}
	return cmd
}

func newStatusCmd() *cobra.Command {
	f := &which{}
	cmd := &cobra.Command{
		Use:   "status --gateway|--node",
		Short: "Say whether the service is installed and runs",
		Long:  "Ends with 0 if it runs, else with 4.",
		Args:  cobra.NoArgs,
	}
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.dryRun = true // root may ask, too
		p, err := f.plan(cmd, nil)
		if err != nil {
			return err
		}
		state := "not installed"
		switch {
		case p.Runs(cmd.Context()):
			return say(cmd, p, "running")
		case p.Installed(cmd.Context()):
			state = "installed, not running"
		}
		return errors.Join(say(cmd, p, state), &terminal.ExitError{Code: terminal.ExitUnreachable, Silent: true})
	}
	return cmd
}

// NewLogsCmd returns the command that prints what a service logged.
func NewLogsCmd() *cobra.Command {
	f := &which{}
	cmd := &cobra.Command{
		Use:   "logs --gateway|--node",
		Short: "Print what the service logged, from where the system keeps it",
		Long: "A gateway or node that you started yourself logs to its standard error. The record of calls is no log: 'handrail ledger show'\n" +
			"prints it.",
		Args: cobra.NoArgs,
	}
	f.add(cmd)
	follow := cmd.Flags().BoolP("follow", "f", false, "go on with what comes")
	lines := cmd.Flags().IntP("lines", "n", 200, "how many of the last lines")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.dryRun = true
		p, err := f.plan(cmd, nil)
		if err != nil {
			return err
		}
		if *lines < 1 {
			return terminal.UsageError("--lines must be at least 1")
		}
		argv := p.LogsOf(*lines, *follow)
		if argv == nil {
			return capabilities.Errorf(capabilities.CodeNotSupported, "This system keeps no log of %s.", p.Name).
				WithHint("Start the program by hand to see what it logs.")
		}
		run := exec.CommandContext(cmd.Context(), argv[0], argv[1:]...)
		run.Stdout, run.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
		err = run.Run()
		if errors.Is(err, exec.ErrNotFound) {
			return capabilities.Wrap(capabilities.CodeNotSupported, err, "This system has no "+argv[0]+", which keeps the log.").
				WithHint("Start the program by hand to see what it logs.")
		}
		return err
	}
	return cmd
}
