package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/script"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/platform/confine"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

func main() {
	// quic-go tells its wish for larger UDP buffers to the standard logger, past ours.
	_ = os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	procguard.Main() // this process may be the guard of a child: then it does not return
	sandbox.Main()   // or what runs a provider's program
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
	out := &output{to: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = out.failed()
	}
	if err != nil {
		var own *exitError
		if ctx.Err() != nil && exitCode(err) == exitFailed && !(errors.As(err, &own) && own.final) {
			err = ctx.Err() // what fails because of ctrl-C is not a failure of its own
		}
		var on []string
		if cmd != nil && commonOf(cmd).data != "" && os.Getenv("HANDRAIL_URL") == "" {
			if data, bad := dataDirOf(cmd); bad == nil {
				on = data.given()
			}
		}
		report(stderr, err, cmd != nil && commonOf(cmd).json || asksJSON(args), on)
	}
	return exitCode(err)
}

// asksJSON reports whether the arguments have --json: where one before it cannot be
// read, nothing after it is.
func asksJSON(args []string) bool {
	for _, a := range args {
		if a == "--json" || a == "--json=true" {
			return true
		}
		if a == "--" {
			break
		}
	}
	return false
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
			return usageHint("Write a time as 90s, 5m or 1h30m.", "%s", text)
		}
		return usageError("%s", err.Error())
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
	add(groupUse, newCallCmd(), newRunCmd(), newChatCmd(), newToolsCmd(), newSkillsCmd(), newMCPCmd(), newConnectCmd(), newSuiteCmd(), newCICmd())
	add(groupManage, newPairCmd(), newNodesCmd(), newLaneCmd(), newTokenCmd(), newUserCmd(), newLoginCmd(), newSecretCmd(), newProviderCmd(), newSatelliteCmd(), newApprovalsCmd(), newApproveCmd(), newDenyCmd(), newTUICmd(), newTasksCmd(), newCallsCmd(), newTurnsCmd(), newMemoryCmd(), newArtifactsCmd(), newGrantCmd(), newStopCmd(), newResumeCmd(), newPolicyCmd(), newDriftCmd(), newLedgerCmd(), newStatusCmd(), newDoctorCmd())
	root.AddCommand(newVersionCmd(), newCISiteCmd())
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
				return usageHint("Usage: "+cmd.UseLine(), "the first argument is empty")
			}
			if err := cmd.ValidateRequiredFlags(); err != nil {
				return usageHint("Usage: "+cmd.UseLine(), "%s", err.Error())
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
		_ = cmd.RegisterFlagCompletionFunc("node", completeNodes(math.MaxInt))
	}
	if role := cmd.Flags().Lookup("role"); role != nil {
		named := slices.DeleteFunc([]string{"agent", "viewer", "operator", "admin"}, func(r string) bool { return !strings.Contains(role.Usage, r) })
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
		return usageHint(hint, "unknown command %q for %q", args[0], cmd.CommandPath())
	case len(args) == 0:
		return usageHint("Usage: "+cmd.UseLine(), "an argument is missing")
	}
	for n := len(args) - 1; n >= 0; n-- {
		if check(cmd, args[:n]) == nil {
			return usageHint("Usage: "+cmd.UseLine(), "more arguments than it takes: %s", strings.Join(args[n:], " "))
		}
	}
	return usageHint("Usage: "+cmd.UseLine(), "an argument is missing after %s", strings.Join(args, " "))
}

// common is what every command shares.
type common struct {
	data string // as given; "" means the default
	json bool
}

func commonOf(cmd *cobra.Command) common {
	flags := cmd.Flags()
	data, _ := flags.GetString("data")
	asJSON, _ := flags.GetBool("json")
	return common{data: data, json: asJSON}
}

// dataDirOf returns the data directory the command was told, by flag or in
// HANDRAIL_DATA, or the default.
func dataDirOf(cmd *cobra.Command) (dataDir, error) {
	if dir := cmp.Or(commonOf(cmd).data, os.Getenv("HANDRAIL_DATA")); dir != "" {
		dir, err := filepath.Abs(dir) // what is told of it holds elsewhere, too
		return dataDir(dir), err
	}
	return defaultDataDir(runtime.GOOS, os.Getenv)
}

// saysAll reports whether a message has each of a list of lines in it already.
func saysAll(message string, details any) bool {
	lines, ok := details.([]string)
	if list, other := details.([]any); other {
		for _, v := range list {
			line, text := v.(string)
			if !text {
				return false
			}
			lines = append(lines, line)
		}
		ok = true
	}
	for _, line := range lines {
		ok = ok && strings.Contains(message, line)
	}
	return ok
}

// report says what is wrong and what to do, on stderr; with --json as one object. on are
// the arguments that name the data directory, as it was given.
func report(w io.Writer, err error, asJSON bool, on []string) {
	var own *exitError
	if errors.As(err, &own) && own.silent {
		return
	}
	// Errors of this package itself (files, flags) have no code of the list and no
	// hint: their text is the whole story.
	code, message, hint, details := "failed", err.Error(), "", any(nil)
	var coded *capabilities.Error
	switch {
	case errors.As(err, &coded):
		code, message, hint, details = string(coded.Code), coded.PublicMessage(), command.OfError(err, on...), coded.Details
	case errors.Is(err, context.Canceled):
		code, message = "interrupted", "interrupted"
	case unreached(err):
		hint = "See that the gateway runs there: 'handrail doctor' on its host."
	case errors.Is(err, syscall.EADDRINUSE):
		hint = "Something else listens there: stop it, or give another address."
	case errors.Is(err, exec.ErrNotFound):
		hint = "Give its path, or put its folder on PATH."
	case errors.Is(err, fs.ErrNotExist):
		hint = "See that the path is right."
	case errors.Is(err, fs.ErrPermission):
		hint = "Give another path, or run this as the account that owns it."
	}
	if asJSON {
		body := map[string]any{"code": code, "message": message}
		if hint != "" {
			body["hint"] = hint
		}
		if coded != nil && !coded.PublicAction().IsZero() {
			body["action"] = coded.PublicAction()
		}
		if details != nil {
			body["details"] = details
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"error": body})
		return
	}
	if coded != nil {
		message = coded.Error()
	}
	if fields, ok := details.(map[string]any); ok { // what the lines around them say already
		maps.DeleteFunc(fields, func(_ string, v any) bool { return v == code || v == hint })
	}
	fmt.Fprintf(w, "handrail: %s\n", plain(message))
	if details != nil && !saysAll(message, details) {
		printValue(w, "  ", details)
	}
	if hint != "" {
		fmt.Fprintf(w, "  -> %s\n", plain(hint))
	}
}
