package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// 'handrail ci' is two processes beside the command it runs. This one starts the
// command and hands its signals and its end on. The other, ciSite, is a gateway
// with a node on a data directory of its own; it lives as long as the pipe on its
// standard input, so that it ends, and the directory with it, however this
// process ends.

// Exit codes of a command that could not be started, as shells have them.
const (
	exitNotExecutable = 126
	exitNotThere      = 127
	exitSignalled     = 128 // and the signal's number
)

// ciOptions is what the flags of ci say.
type ciOptions struct {
	origins []string
	uploads []string
	browser string
	sandbox *sandboxFlag
	desktop bool
	verbose bool
}

func newCICmd() *cobra.Command {
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
	f.StringSliceVar(&o.origins, "browser-allow-origin", nil, "origin that pages may reach although it is not public, such as http://127.0.0.1:3000; repeatable")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "allow-origin" { // as it was called before; jobs have it in their files
			name = "browser-allow-origin"
		}
		return pflag.NormalizedName(name)
	})
	f.StringSliceVar(&o.uploads, "upload-root", nil, "folder whose files may be handed to pages; repeatable")
	f.StringVar(&o.browser, "browser", "", "path of Chrome or Chromium (default: found)")
	o.sandbox = addSandboxFlag(cmd, "required")
	f.BoolVar(&o.desktop, "desktop", false, "grant COMMAND the desktop that this is started on: screen, windows, mouse and keyboard, without asking")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log every call and connection to standard error")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runCI(cmd, args, o) }
	return cmd
}

func runCI(cmd *cobra.Command, args []string, o ciOptions) error {
	// From here on a signal is COMMAND's: this process ends when COMMAND does.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	for _, origin := range o.origins {
		if _, err := policy.OriginPermit(origin, ""); err != nil {
			return usageError("--browser-allow-origin %s: %s", origin, capabilities.AsError(err).PublicMessage())
		}
	}
	for _, given := range append(slices.Clone(o.uploads), o.browser) {
		if _, err := os.Stat(given); given != "" && err != nil {
			return usageError("%v", err)
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	pages, release, err := freePages()
	if err != nil {
		return err
	}
	defer release()
	data, kept := commonOf(cmd).data, true
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
	own := dataDir(data).uploads()
	if err := dataDir(data).make(own); err != nil {
		return err
	}
	roots := []string{own}
	for _, root := range o.uploads {
		if root, err = filepath.Abs(root); err != nil {
			return err
		}
		roots = append(roots, root)
	}
	site, err := startSite(cmd, program, data, kept, append(pages.origins(), o.origins...), roots, o, signals)
	if err != nil {
		return err
	}
	defer site.end()
	token, err := readToken(site.TokenFile)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dataDir(data).policyDir(), upNoSandboxRules)); err == nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "handrail ci: Chrome runs without its sandbox here; 'handrail doctor' says why")
	}
	child := exec.Command(args[0], args[1:]...)
	// The command may be this program, which need not be installed.
	path := os.Getenv("PATH") + string(filepath.ListSeparator) + filepath.Dir(program)
	if errors.Is(child.Err, exec.ErrNotFound) && args[0] == "handrail" {
		child.Path, child.Err = program, nil
	}
	child.Env = append(os.Environ(), "HANDRAIL_MCP_URL="+site.MCP, "HANDRAIL_URL="+site.HTTP, "HANDRAIL_TOKEN="+token,
		"HANDRAIL_DATA="+data, suitePagesEnv+"="+strings.Join(pages[:], ","), suiteUploadsEnv+"="+own, "PATH="+path)
	child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), bare(cmd.OutOrStdout()).(io.Writer), cmd.ErrOrStderr()
	release()
	return runChild(child, signals, isTerminal(cmd.InOrStdin()))
}

// runChild runs the command to its end and gives its exit code as the error.
func runChild(child *exec.Cmd, signals <-chan os.Signal, terminal bool) error {
	runtime.LockOSThread() // endWithParent is about this thread
	defer runtime.UnlockOSThread()
	endWithParent(child)
	if err := child.Start(); err != nil {
		code := exitNotExecutable
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			code = exitNotThere
		}
		return &exitError{code: code, err: fmt.Errorf("the command does not start: %w", err)}
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for {
		select {
		case s := <-signals:
			// At a terminal ctrl-C has reached the command already.
			if s != os.Interrupt || !terminal {
				_ = child.Process.Signal(s)
			}
		case err := <-ended:
			state := child.ProcessState
			if state == nil {
				return err
			}
			code := state.ExitCode()
			if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				code = exitSignalled + int(status.Signal())
			}
			if code == 0 {
				return nil
			}
			return &exitError{code: code, err: fmt.Errorf("the command ended with %d", code), silent: true, final: true}
		}
	}
}

// uploads is the folder that the suite uploads from.
func (d dataDir) uploads() string { return filepath.Join(string(d), "uploads") }

// suitePages are the addresses that the suite may serve its pages at.
type suitePages [2]string

// freePages finds two addresses that nobody listens at, and holds them until
// release: so that none of what starts meanwhile takes them.
func freePages() (p suitePages, release func(), err error) {
	var held []net.Listener
	release = func() {
		for _, l := range held {
			_ = l.Close()
		}
	}
	for i, host := range []string{"127.0.0.1", "localhost"} { // two hosts are two sites to Chrome
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			release()
			return p, nil, err
		}
		held = append(held, l)
		_, port, _ := net.SplitHostPort(l.Addr().String())
		p[i] = net.JoinHostPort(host, port)
	}
	return p, release, nil
}

func (p suitePages) origins() []string { return []string{"http://" + p[0], "http://" + p[1]} }

// runningSite is the gateway and node of a ci command.
type runningSite struct {
	HTTP      string `json:"http"`
	MCP       string `json:"mcp"`
	TokenFile string `json:"token_file"`
	process   *exec.Cmd
	alive     io.Closer // the site ends when this is closed
}

// siteStart bounds how long the site may take to be ready, siteEnd to be gone.
const (
	siteStart = time.Minute
	siteEnd   = 20 * time.Second
)

func startSite(cmd *cobra.Command, program, data string, kept bool, origins, uploads []string, o ciOptions, signals <-chan os.Signal) (*runningSite, error) {
	args := []string{"ci-site", "--data", data, fmt.Sprintf("--keep=%t", kept), fmt.Sprintf("--verbose=%t", o.verbose), fmt.Sprintf("--grant-desktop=%t", o.desktop)}
	if commonOf(cmd).json {
		args = append(args, "--json")
	}
	if *o.sandbox != "" {
		args = append(args, "--browser-sandbox", o.sandbox.String())
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
	s := &runningSite{process: exec.Command(program, args...)}
	s.process.Stderr = cmd.ErrOrStderr()
	in, err := s.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.alive = in
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	first := make(chan string, 1)
	go func() {
		r := bufio.NewReader(out)
		line, _ := r.ReadString('\n')
		first <- line
		_, _ = io.Copy(io.Discard, r) // what it says later is nobody's
	}()
	late := time.NewTimer(siteStart)
	defer late.Stop()
	select {
	case line := <-first:
		if json.Unmarshal([]byte(line), s) == nil && s.MCP != "" {
			return s, nil
		}
		s.end() // it has said why on standard error
		return nil, &exitError{code: max(exitFailed, s.process.ProcessState.ExitCode()), err: errors.New("the gateway and the node did not start"), silent: true}
	case <-signals:
		s.end()
		return nil, context.Canceled
	case <-late.C:
		s.end()
		return nil, capabilities.Errorf(capabilities.CodeNodeNotReady, "the gateway and the node were not ready within %s", siteStart)
	}
}

// end ends the site and waits for it.
func (s *runningSite) end() {
	_ = s.alive.Close()
	late := time.AfterFunc(siteEnd, func() { _ = s.process.Process.Kill() })
	defer late.Stop()
	_ = s.process.Wait()
}

// newCISiteCmd makes the second process of ci. It is not for people.
func newCISiteCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "ci-site", Short: "The gateway and node of 'handrail ci'", Hidden: true, Args: cobra.NoArgs}
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

// ciSite runs a gateway and a node until standard input ends. Signals are for
// the command, which may need the site to the last.
func ciSite(cmd *cobra.Command, o upOptions, keep bool) error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	data, err := dataDirOf(cmd)
	if err != nil {
		return err
	}
	if !keep {
		defer removeSoon(string(data))
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(cmd.Context()))
	defer stop()
	in := cmd.InOrStdin()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	if !o.grantDesktop {
		*o.flags.use = "off"
	}
	cmd.SetContext(ctx)
	// What up says is for the other process; an error is for the person.
	asked := fmt.Sprint(commonOf(cmd).json)
	if err := cmd.Flags().Set("json", "true"); err != nil {
		return err
	}
	defer func() { _ = cmd.Flags().Set("json", asked) }()
	return up(cmd, data, o)
}

// ciUploads lets files go to web pages without asking. The node gives none but
// those below its upload roots.
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

// removeSoon deletes a folder that something may still be writing to.
func removeSoon(dir string) {
	for range 20 {
		if os.RemoveAll(dir) == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
