package trial

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/cmd/handrail/ci"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

// SiteCommand is the name of the program's command that runs the site of ci. It is not for people.
const SiteCommand = "ci-site"

// ciOptions is what the flags of ci say.
type ciOptions struct {
	origins []string
	uploads []string
	browser string
	sandbox *browser.Sandbox
	desktop bool
	verbose bool
}

// NewCICmd returns the command that runs another beside a gateway and a node of its own.
func NewCICmd(host Host) *cobra.Command {
	var o ciOptions
	cmd := &cobra.Command{
		Use:   "ci -- COMMAND [ARG…]",
		Short: "Run a command with a gateway and a node of its own",
		Long: "Starts a gateway and a paired node in a temporary directory, on loopback and on free ports; runs COMMAND with\n" +
			"their addresses in its environment; passes signals on; ends with COMMAND's exit code and leaves nothing behind.\n" +
			"Nobody is asked anything: the isolated headless browser may be used, what needs a person is denied. Pages may\n" +
			"reach the internet and the origins named by --browser-allow-origin. With --data the directory is kept.",
		Example: "  handrail ci --browser-sandbox auto -- handrail suite browser --report report\n" +
			"  handrail ci --browser-allow-origin http://127.0.0.1:3000 -- npm test",
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringSliceVar(&o.origins, "browser-allow-origin", nil,
		"origin that pages may reach although it is not public, such as http://127.0.0.1:3000; repeatable")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "allow-origin" { // as it was called before; jobs have it in their files
			name = "browser-allow-origin"
		}
		return pflag.NormalizedName(name)
	})
	f.StringSliceVar(&o.uploads, "upload-root", nil, "folder whose files may be handed to pages; repeatable")
	f.StringVar(&o.browser, "browser", "", "path of Chrome or Chromium (default: found)")
	o.sandbox = host.Sandbox(cmd, "required")
	f.BoolVar(&o.desktop, "desktop", false,
		"grant COMMAND the desktop that this is started on: screen, windows, mouse and keyboard, without asking")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log every call and connection to standard error")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runCI(cmd, args, host, o) }
	return cmd
}

func runCI(cmd *cobra.Command, args []string, host Host, o ciOptions) error {
	signals, stop := ci.Signals()
	defer stop()
	for _, origin := range o.origins {
		if _, err := policy.OriginPermit(origin, ""); err != nil {
			return terminal.UsageError("--browser-allow-origin %s: %s", origin, capabilities.AsError(err).PublicMessage())
		}
	}
	for _, given := range append(slices.Clone(o.uploads), o.browser) {
		if _, err := os.Stat(given); given != "" && err != nil {
			return terminal.UsageError("%v", err)
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	pages, err := ci.HoldPages()
	if err != nil {
		return err
	}
	defer pages.Release()
	data, kept := terminal.FlagsOf(cmd).Data, true
	if data == "" {
		if data, err = os.MkdirTemp("", "handrail-ci-"); err != nil {
			return err
		}
		kept = false
		defer os.RemoveAll(data)
	}
	if data, err = filepath.Abs(data); err != nil {
		return err
	}
	// The suite has a folder of its own to upload from; others are named by flag.
	own := uploadsOf(datadir.Dir(data))
	if err := datadir.Dir(data).Make(own); err != nil {
		return err
	}
	roots := []string{own}
	for _, root := range o.uploads {
		if root, err = filepath.Abs(root); err != nil {
			return err
		}
		roots = append(roots, root)
	}
	process := exec.Command(program, o.siteArgs(data, kept, terminal.FlagsOf(cmd).JSON, append(pages.Origins(), o.origins...), roots)...)
	process.Stderr = cmd.ErrOrStderr()
	site, err := ci.Start(process, signals)
	if err != nil {
		return ciExit(err)
	}
	defer site.End()
	token, err := remote.ReadToken(site.TokenFile)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(datadir.Dir(data).PolicyDir(), host.Unboxed)); err == nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "handrail ci: Chrome runs without its sandbox here; 'handrail doctor' says why")
	}
	child := exec.Command(args[0], args[1:]...)
	// The command may be this program, which need not be installed.
	path := os.Getenv("PATH") + string(filepath.ListSeparator) + filepath.Dir(program)
	if errors.Is(child.Err, exec.ErrNotFound) && args[0] == "handrail" {
		child.Path, child.Err = program, nil
	}
	child.Env = append(os.Environ(), "HANDRAIL_MCP_URL="+site.MCP, "HANDRAIL_URL="+site.HTTP, "HANDRAIL_TOKEN="+token,
		"HANDRAIL_DATA="+data, pagesEnv+"="+strings.Join(pages.Addresses[:], ","), uploadsEnv+"="+own, "PATH="+path)
	child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), terminal.Bare(cmd.OutOrStdout()).(io.Writer), cmd.ErrOrStderr()
	pages.Release()
	return ciExit(ci.Run(child, signals, terminal.Interactive(cmd.InOrStdin())))
}

// ciExit has this process end as the command, or the site that did not start.
func ciExit(err error) error {
	var command *ci.ExitError
	var site *ci.StartError
	var late *ci.LateError
	switch {
	case errors.As(err, &command):
		return &terminal.ExitError{Code: command.Code, Err: err, Silent: command.Started, Final: command.Started}
	case errors.As(err, &site):
		return &terminal.ExitError{Code: max(terminal.ExitFailed, site.Code), Err: err, Silent: true}
	case errors.As(err, &late):
		return capabilities.Errorf(capabilities.CodeNodeNotReady, "%s", err.Error())
	}
	return err
}

// siteArgs are the arguments of the process that runs the site.
func (o ciOptions) siteArgs(data string, kept, json bool, origins, uploads []string) []string {
	args := []string{
		SiteCommand, "--data", data, fmt.Sprintf("--keep=%t", kept), fmt.Sprintf("--verbose=%t", o.verbose),
		fmt.Sprintf("--grant-desktop=%t", o.desktop),
	}
	if json {
		args = append(args, "--json")
	}
	if *o.sandbox != "" {
		args = append(args, "--browser-sandbox", string(*o.sandbox))
	}
	if o.browser != "" {
		args = append(args, "--browser", o.browser)
	}
	for _, origin := range origins {
		args = append(args, "--browser-allow-origin", origin)
	}
	for _, root := range uploads {
		args = append(args, "--browser-upload-root", root)
	}
	return args
}

// uploadsOf is the folder that the suite uploads from.
func uploadsOf(d datadir.Dir) string { return filepath.Join(string(d), "uploads") }
