package trial

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
)

// Where the suite serves its pages and where its files are, unless flags say
// otherwise; 'handrail ci' says by the environment.
const (
	defaultPages = "127.0.0.1:7490,localhost:7491"
	pagesEnv     = "HANDRAIL_SUITE_PAGES"
	uploadsEnv   = "HANDRAIL_SUITE_UPLOADS"
)

// NewSuiteCmd returns the command that tries what an installed node can do.
func NewSuiteCmd(host Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "suite",
		Short: "Try what an installed node can do, with real tools and pages",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBrowserSuiteCmd(), newDesktopSuiteCmd(host))
	return cmd
}

// suiteOptions is what the flags of a suite say.
type suiteOptions struct {
	report, shard, run, url, tokenFile, pages, uploads string

	lanes int
	list  bool
}

// flags are those that every suite has.
func (o *suiteOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.report, "report", "", "folder for junit.xml, report.json and a trace of each failure")
	f.StringVar(&o.shard, "shard", "", "part of the suite, such as 2/5")
	f.StringVar(&o.run, "run", "", "only behaviours whose ID matches this regular expression")
	f.StringVar(&o.url, "url", "", "the gateway's MCP address (default: as every client command finds it)")
	f.StringVar(&o.tokenFile, "token-file", "", "file with the token for --url (default: HANDRAIL_TOKEN)")
	f.BoolVar(&o.list, "list", false, "list the behaviours and run none")
}

func newBrowserSuiteCmd() *cobra.Command {
	var o suiteOptions
	cmd := &cobra.Command{
		Use:   "browser",
		Short: "Run the browser's capability suite over MCP",
		Long: "Runs behaviours against a real Chrome, through MCP, gateway and node. Each is a page that this command serves,\n" +
			"the calls an agent makes on it, and an effect that is checked in the page. Every failure leaves a trace: one\n" +
			"HTML file that needs nothing else. The gateway and the node's owner have to allow the pages' two addresses;\n" +
			"'handrail ci -- handrail suite browser' does all of it in one step.",
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	o.flags(f)
	f.StringVar(&o.pages, "pages", "", "two addresses HOST:PORT, by which the node reaches the suite's pages (default: "+defaultPages+")")
	f.StringVar(&o.uploads, "uploads",
		"", "folder that the node may upload from and that this command may write to; without it, uploads are not tried")
	f.IntVar(&o.lanes, "lanes", 0, "how many behaviours run side by side (default: twice the processors)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runSuite(cmd, o) }
	return cmd
}

func runSuite(cmd *cobra.Command, o suiteOptions) error {
	options, say, err := o.begin(cmd, browser.All())
	if err != nil || options == nil {
		return err
	}
	report, err := browser.Run(cmd.Context(), *options)
	var blocked *browser.BlockedError
	if errors.As(err, &blocked) {
		return blockedPages(cmd, blocked)
	}
	return o.told(cmd, say, report, err)
}

// begin returns the options of a run of those of all that the flags choose, and what says how it
// goes. With --list there is no run: it lists them, and the options are nil.
func (o suiteOptions) begin(cmd *cobra.Command, all []*suite.Behaviour) (*browser.Options, *sayer, error) {
	behaviours, err := o.chosen(all)
	if err != nil {
		return nil, nil, err
	}
	say := &sayer{out: cmd.OutOrStdout(), json: terminal.FlagsOf(cmd).JSON, total: len(behaviours)}
	if o.list {
		for _, b := range behaviours {
			say.listed(b)
		}
		return nil, say, nil
	}
	options, err := o.target(cmd)
	if err != nil {
		return nil, nil, err
	}
	if o.report != "" { // not found out when all is done
		if err := os.MkdirAll(o.report, 0o755); err != nil {
			return nil, nil, terminal.UsageError("--report: %v", err)
		}
	}
	options.Behaviours, options.Done = behaviours, say.done
	return &options, say, nil
}

// told writes and says what came of a run, and returns how the command ends. err is the run's own.
func (o suiteOptions) told(cmd *cobra.Command, say *sayer, report *suite.Report, err error) error {
	if err != nil && (report == nil || cmd.Context().Err() == nil) {
		return err
	}
	if o.report != "" {
		if err := report.WriteTo(o.report); err != nil {
			return err
		}
	}
	say.end(report, o.report)
	if err != nil {
		return err // interrupted
	}
	if report.Count(suite.Failed) > 0 {
		return &terminal.ExitError{
			Code: terminal.ExitFailed, Err: capabilities.Errorf(capabilities.CodeExecutionFailed, "some behaviours failed"), Silent: true,
		}
	}
	if say.total > 0 && report.Count(suite.NotRun) == say.total {
		return capabilities.Errorf(capabilities.CodeNodeNotReady, "none of the behaviours could be run").
			WithHint("The lines above say what each of them needs.")
	}
	return nil
}

// chosen are those of all that the flags choose.
func (o suiteOptions) chosen(all []*suite.Behaviour) ([]*suite.Behaviour, error) {
	shard, err := suite.ParseShard(o.shard)
	if err != nil {
		return nil, terminal.UsageError("--shard %v", err)
	}
	var match *regexp.Regexp
	if o.run != "" {
		if match, err = regexp.Compile(o.run); err != nil {
			return nil, terminal.UsageError("--run: %v", err)
		}
	}
	chosen := suite.Select(all, match)
	if len(chosen) == 0 {
		return nil, terminal.UsageError("--run %q matches no behaviour", o.run)
	}
	// A shard may be empty: more shards than behaviours is no mistake.
	return shard.Of(chosen), nil
}

// target is where the suite's calls go, and as whom.
func (o suiteOptions) target(cmd *cobra.Command) (browser.Options, error) {
	lanes := o.lanes
	if lanes <= 0 {
		lanes = 2 * runtime.NumCPU()
	}
	// Two suites on one gateway must not meet in a lane; lanes are remembered, so
	// their names come from a small stock.
	c := browser.Options{Lanes: lanes, Uploads: o.uploads}
	c.Name = fmt.Sprintf("suite-%d", os.Getpid()%32)
	if c.Uploads == "" {
		c.Uploads = os.Getenv(uploadsEnv)
	}
	pages := o.pages
	if pages == "" {
		pages = os.Getenv(pagesEnv)
	}
	if pages == "" {
		pages = defaultPages
	}
	for i, page := range strings.Split(pages, ",") {
		if _, _, err := net.SplitHostPort(page); err != nil || i > 1 {
			return c, terminal.UsageError("--pages %q: want two addresses such as %s", pages, defaultPages)
		}
		c.Pages[i] = page
	}
	if c.Pages[1] == "" {
		return c, terminal.UsageError("--pages %q: want two addresses such as %s", pages, defaultPages)
	}
	if o.url != "" {
		base, err := client.ParseAddress(strings.TrimSuffix(strings.TrimRight(o.url, "/"), "/mcp"))
		if err != nil {
			return c, terminal.UsageError("--url: %v", err)
		}
		c.URL, c.Token = base.String()+"/mcp", strings.TrimSpace(os.Getenv("HANDRAIL_TOKEN"))
		if o.tokenFile != "" {
			if c.Token, err = remote.ReadToken(o.tokenFile); err != nil {
				return c, err
			}
		}
		if c.Token == "" {
			return c, &terminal.ExitError{Code: terminal.ExitForbidden,
				Err: capabilities.Errorf(capabilities.CodeUnauthenticated, "--url is given, but no token").
					WithHint("Give --token-file, or set HANDRAIL_TOKEN.")}
		}
		pin, err := client.ParsePin(os.Getenv("HANDRAIL_FINGERPRINT"))
		if err != nil {
			return c, terminal.UsageError("HANDRAIL_FINGERPRINT: %v", err)
		}
		c.ReadToken, c.Way = readerToken(cmd, base), pin.Transport()
		return c, nil
	}
	g, err := remote.FindWith(cmd, datadir.Dir.AgentTokenPath)
	if err != nil {
		return c, err
	}
	c.URL, c.Token, c.ReadToken, c.Way = g.Base.String()+"/mcp", g.Token, readerToken(cmd, g.Base), g.Pin.Transport()
	return c, nil
}

// readerToken is the admin's token if the gateway at base is that of the data
// directory: traces then tell what the ledger has. Else "".
func readerToken(cmd *cobra.Command, base *url.URL) string {
	data, err := datadir.Of(cmd)
	if err != nil {
		return ""
	}
	running, err := data.ReadRunning()
	if err != nil {
		return ""
	}
	if at, err := client.ParseAddress(running.HTTP); err != nil || at.String() != base.String() {
		return ""
	}
	token, err := remote.ReadToken(data.TokenPath())
	if err != nil {
		return ""
	}
	return token
}

// blockedPages tells what has to be allowed, and where.
func blockedPages(cmd *cobra.Command, b *browser.BlockedError) error {
	var rules strings.Builder
	for _, origin := range b.Origins {
		text, err := policy.OriginPermit(origin, "For 'handrail suite browser'.")
		if err != nil {
			return err
		}
		rules.Write(text)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "The node's browser has to reach this command's pages at %s. Allow them twice, or run\n"+
		"'handrail ci -- handrail suite browser', which allows them for itself.\n\n"+
		"1. On the gateway, put this into a file suite.cedar in its policy folder and run 'handrail policy activate' there:\n\n%s\n"+
		"2. Start the node with --browser-allow-origin %s\n\n",
		strings.Join(b.Origins, " and "), rules.String(), strings.Join(b.Origins, " --browser-allow-origin "))
	return &terminal.ExitError{Code: terminal.ExitDenied, Err: capabilities.Errorf(capabilities.CodeURLBlocked, "%s", b.Error()).
		WithHint("Allow the two addresses as described above, or give others with --pages.")}
}

// sayer tells how the suite goes.
type sayer struct {
	out    io.Writer
	json   bool
	total  int
	number int
}

func (s *sayer) listed(b *suite.Behaviour) {
	if s.json {
		_ = terminal.PrintJSON(s.out, map[string]any{"id": b.ID, "title": b.Title, "proves": b.Proves})
		return
	}
	fmt.Fprintf(s.out, "%-34s %s: %s\n", b.ID, b.Title, b.Proves)
}

func (s *sayer) done(o suite.Outcome) {
	s.number++
	if s.json {
		v := o.View()
		_ = terminal.PrintJSON(s.out, struct {
			Event string `json:"event"`
			suite.OutcomeView
		}{"behaviour", v})
		return
	}
	word := map[suite.Status]string{suite.Passed: "ok", suite.Failed: "FAIL", suite.NotRun: "skip"}[o.Status]
	fmt.Fprintf(s.out, "%*d/%d  %-4s  %-34s %6d ms  %s: %s\n", len(fmt.Sprint(s.total)), s.number, s.total, word, o.ID,
		o.Duration.Milliseconds(), o.Title, o.Proves)
	if o.Status == suite.NotRun {
		fmt.Fprintln(s.out, "          "+o.Error)
	}
	if o.Status == suite.Failed {
		for line := range strings.Lines(o.Error) {
			fmt.Fprintln(s.out, "          "+terminal.Plain(strings.TrimRight(line, "\n")))
		}
	}
}

func (s *sayer) end(r *suite.Report, dir string) {
	if s.json {
		_ = terminal.PrintJSON(s.out, map[string]any{
			"event": "report", r.BehindName(): r.Behind, "node_id": r.Node, "total": len(r.Outcomes), "passed": r.Count(suite.Passed),
			"failed": r.Count(suite.Failed), "not_run": r.Count(suite.NotRun), "duration_ms": r.Took.Milliseconds(), "dir": dir,
		})
		return
	}
	fmt.Fprintf(s.out, "\n%d passed, %d failed", r.Count(suite.Passed), r.Count(suite.Failed))
	if n := r.Count(suite.NotRun); n > 0 {
		fmt.Fprintf(s.out, ", %d not run", n)
	}
	fmt.Fprintf(s.out, " in %s; %s %s on node %s\n", r.Took.Round(100*time.Millisecond), r.BehindName(), terminal.Plain(r.Behind), r.Node)
	if dir != "" {
		fmt.Fprintf(s.out, "report: %s\n", dir)
	}
}
