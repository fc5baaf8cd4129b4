package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/cmd/handrail/connect"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/pairing"
)

// Files that `handrail up` adds to the policy, each saying so and each undone by
// deleting it.
const (
	upOriginRules    = "up-demo-origin.cedar"
	upAllowedRules   = "up-allowed-origins.cedar"
	upNoSandboxRules = "up-no-sandbox.cedar"
	ciUploadRules    = "ci-uploads.cedar"
)

// localQUIC is where the nodes of this machine connect to.
const localQUIC = "127.0.0.1:7443"

// nodeTrust is the trust of the node that `handrail up` runs itself.
const nodeTrust = "local"

// upOptions is what the flags of up say.
type upOptions struct {
	http, quic  string
	door        doorFlags
	bus         busServer
	flags       nodeFlags
	once, plain bool   // plain: without the first task
	alone       bool   // nobody is there to be asked
	shared      bool   // conversations started it, and nobody reads along
	bare        string // why Chrome runs without its sandbox, and who accepted that; empty: it does not
	verbose     bool
	noOpen      bool    // no browser is opened
	skills      *string // folder of skills; nil within 'handrail ci'

	uploads      bool // nobody is asked before a file goes to a page
	grantDesktop bool // by who started this, for as long as it runs
}

func newUpCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a gateway and a paired node on this machine",
		Long: "Starts a gateway and this machine's node, paired, on loopback; opens a page of its own through MCP as a\n" +
			"first task; prints how to connect a client; and stays up.",
		Args: cobra.NoArgs,
	}
	o := upOptions{flags: addNodeFlags(cmd), door: addDoorFlags(cmd), bus: addBusServer(cmd)}
	o.flags.hostsProviders(cmd)
	o.skills = addSkillsFlag(cmd)
	cmd.Flags().Lookup("browser-allow-origin").
		Usage = "origin that agents may open and pages may reach although it is not public, such as http://127.0.0.1:3000; repeatable"
	cmd.Flags().StringVar(&o.http, "http", defaultHTTP, "address of MCP and the API")
	cmd.Flags().StringVar(&o.quic, "quic", localQUIC, "address that nodes connect to, by UDP or else TCP")
	cmd.Flags().BoolVar(&o.once, "once", false, "end after the first task")
	cmd.Flags().BoolVar(&o.plain, "no-task", false, "do not perform a first task")
	cmd.Flags().BoolVar(&o.noOpen, "no-open", false, "do not open the console in a browser at the first start")
	cmd.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "log every call and connection to standard error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		return up(cmd, data, o)
	}
	return cmd
}

// up runs the single-machine form: gateway and node, paired, in one process.
func up(cmd *cobra.Command, data datadir.Dir, o upOptions) error {
	ctx := cmd.Context()
	say := sayer{out: cmd.OutOrStdout(), json: terminal.FlagsOf(cmd).JSON}
	log := newLog(cmd, o.verbose)

	if err := listens(o.http, o.quic); err != nil {
		return err
	}
	if err := data.Free(ctx, o.http, o.quic); err != nil {
		return err
	}
	if err := data.Make(data.Node()); err != nil {
		return err
	}
	if err := apart(data, *o.flags.workspace); err != nil {
		return err
	}
	config, err := readNodeConfig(data)
	if err != nil {
		return err
	}
	web := o.flags.browserFlags.over(config.Browser)
	mode, bare, err := settleSandbox(cmd, web.Sandbox, o.flags.finder(web.Path))
	if err != nil {
		return err
	}
	*o.flags.sandbox, o.bare = mode, bare
	var page *demoPage
	if !o.plain {
		if page, err = serveDemo(); err != nil {
			return err
		}
		defer page.close()
	}
	events := log
	if !o.alone && !o.shared && !terminal.Interactive(cmd.ErrOrStderr()) { // it runs unattended: somebody reads its log later
		events = newEventLog(cmd, o.verbose)
	}
	options := gateway.Options{HTTP: o.http, QUIC: o.quic, ApprovalWait: o.wait(), PolicyFiles: rules.FilesChanged, Log: events}
	options.Prepare = func(context.Context) error { return upRules(data, o, page, say) }
	if o.skills != nil {
		options.Skills = *o.skills
	}
	if o.door.cert != nil { // not within 'handrail ci'
		if err := errors.Join(o.door.into(&options), o.bus.into(&options)); err != nil {
			return err
		}
		if !o.shared {
			options.LocalClients = ownClients{data}
		}
	}
	greets := o.greets(data, say)
	g, err := openGateway(ctx, data, options)
	if err != nil {
		return err
	}
	defer g.Close()
	running, err := announce(data, g)
	if err != nil {
		return err
	}
	defer data.ClearRunning()
	defer func() { _ = dropDemoRules(data) }() // else the next start does

	// The node ends before the gateway, so that its last answers are recorded.
	gatewayCtx, stopGateway := context.WithCancel(context.WithoutCancel(ctx))
	defer stopGateway()
	serving, gatewayCtx := errgroup.WithContext(gatewayCtx)
	serving.Go(func() error { return g.Run(gatewayCtx) })
	nodeErr := func() error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		context.AfterFunc(gatewayCtx, cancel)
		return upNode(ctx, data, o, g, running, page, greets, say, log)
	}()
	stopGateway()
	return errors.Join(nodeErr, serving.Wait())
}

// upRules adds what the single-machine form needs to the policy, visibly: the
// origins that whoever started it named, that of the page it serves, and, only where
// somebody accepted it, Chrome without its sandbox.
func upRules(data datadir.Dir, o upOptions, page *demoPage, say sayer) error {
	dir := data.PolicyDir()
	if _, err := os.Stat(dir); err != nil {
		if err := data.Make(dir); err != nil {
			return err
		}
		if err := keepFile(filepath.Join(dir, "default.cedar"), policy.DefaultSource()); err != nil {
			return err
		}
	}
	if err := upOrigins(filepath.Join(dir, upAllowedRules), *o.flags.origins, say); err != nil {
		return err
	}
	if err := keepOrRemove(filepath.Join(dir, ciUploadRules), []byte(ciUploads), o.uploads); err != nil {
		return err
	}
	if page != nil {
		text, err := policy.OriginPermitUntil(page.origin, "Added by 'handrail up' for the page it serves itself.", time.Now().Add(demoRulesFor))
		if err != nil {
			return err
		}
		if err := keepFile(filepath.Join(dir, upOriginRules), text); err != nil {
			return err
		}
		*o.flags.origins = append(*o.flags.origins, page.origin)
	} else if err := dropDemoRules(data); err != nil { // of an earlier start
		return err
	}
	path := filepath.Join(dir, upNoSandboxRules)
	if o.bare == "" { // a sandbox that came back is used again
		return keepOrRemove(path, nil, false)
	}
	say.line("browser: Chrome runs WITHOUT its sandbox here. %s", o.bare)
	say.line("  %s is the rule that accepts it, recorded like every policy, and every call says so.", path)
	return keepFile(path, policy.NoSandboxPermit(o.bare, nodeTrust))
}

// demoRulesFor is how long the policy allows the page of the first task: whatever becomes of
// this process and its files, the permission ends.
const demoRulesFor = 2 * time.Minute

// dropDemoRules takes away what an earlier 'handrail up' added for its first task.
func dropDemoRules(d datadir.Dir) error {
	return keepOrRemove(filepath.Join(d.PolicyDir(), upOriginRules), nil, false)
}

// keepFile writes a file unless it says that already: a start need not wait for the disk.
func keepFile(path string, data []byte) error {
	if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, data) {
		return nil
	}
	return pairing.SaveFile(path, data)
}

// keepOrRemove has the file say that, or not be there: what an earlier start permitted
// is taken back by one that does not.
func keepOrRemove(path string, data []byte, keep bool) error {
	if keep {
		return keepFile(path, data)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// upOrigins permits the origins that --browser-allow-origin named, this time: without
// any, what an earlier start permitted is taken back.
func upOrigins(path string, origins []string, say sayer) error {
	if len(origins) == 0 {
		return keepOrRemove(path, nil, false)
	}
	var rules []byte
	for _, origin := range slices.Compact(slices.Sorted(slices.Values(origins))) {
		text, err := policy.OriginPermit(origin, "Added by 'handrail up --browser-allow-origin'.")
		if err != nil {
			return terminal.UsageError("--browser-allow-origin %s: %s", origin, capabilities.AsError(err).PublicMessage())
		}
		rules = append(rules, text...)
	}
	say.line("policy: %s lets the browser open %s", path, strings.Join(origins, ", "))
	return keepFile(path, rules)
}

// upNode pairs the local node if needed, runs it, performs the first task and
// stays until ctx ends.
func upNode(ctx context.Context, data datadir.Dir, o upOptions, g *gateway.Gateway, running datadir.Running, page *demoPage, greets bool,
	say sayer, log logger) error {
	id, err := joinLocal(ctx, data, g.Site(), func(id capabilities.NodeID) bool {
		v, err := g.Nodes.View(id)
		return err == nil && v.State == pairing.StateApproved
	}, func() (pairing.Paste, error) {
		_, paste, err := g.Nodes.Invite(ctx,
			nodes.InviteSpec{By: principal.Site.Principal, Label: "this machine", Trust: nodeTrust, AutoApprove: true, TTL: time.Minute})
		paste.Addrs = []string{running.QUIC}
		return paste, err
	})
	if err != nil {
		return err
	}
	// The person who starts this sits before it, and is the admin of what it serves.
	if err := g.Nodes.Adopt(ctx, id, principal.Site.Principal, adminName); err != nil {
		return err
	}
	ready := make(chan struct{}, 1)
	origins := []string{running.HTTP}
	if running.URL != "" {
		origins = append(origins, running.URL)
	}
	a, err := openNode(data, o.flags, reach{addrs: []string{running.QUIC}}, origins, true, func(s link.State) {
		if s.Connected {
			select {
			case ready <- struct{}{}:
			default:
			}
		}
	}, log)
	if err != nil {
		return err
	}
	nodeCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	done := make(chan error, 1)
	go func() { done <- a.Run(nodeCtx) }()
	select {
	case <-ready:
	case err := <-done:
		return err
	case <-ctx.Done():
		stop()
		return <-done
	}
	if err := awaitReadiness(ctx, g, id); err != nil && ctx.Err() == nil {
		return err
	}
	if o.grantDesktop && ctx.Err() == nil {
		if err := grantDesktop(ctx, g, id); err != nil {
			return err
		}
	}
	say.ready(data, running, id, o.bare)
	if page == nil {
		say.browser(g, id)
	}
	var taskErr error
	if page != nil && ctx.Err() == nil {
		taskErr = firstTask(ctx, data, running, id, page, say)
		if taskErr != nil && ctx.Err() == nil && (!o.once || say.json) { // else the command ends with it
			say.failed(taskErr)
		}
	}
	if o.once {
		stop()
		return errors.Join(taskErr, <-done)
	}
	say.clients(data, running, datadir.ReachOf(running, g.HTTPAddr(), g.QUICAddr(), net.InterfaceAddrs))
	if greets && ctx.Err() == nil {
		if err := greet(ctx, data, g, running, say); err != nil {
			stop()
			return errors.Join(err, <-done)
		}
	}
	select {
	case err := <-done:
		if capabilities.CodeOf(err) != capabilities.CodeNodeRevoked {
			return err
		}
		say.revoked(id)
		<-ctx.Done() // the gateway has other nodes
		return nil
	case <-ctx.Done():
		g.Drain() // before the node ends, so that what it carries out ends well
		stop()
		return <-done
	}
}

// awaitReadiness waits until the gateway knows what the node can do.
func awaitReadiness(ctx context.Context, g *gateway.Gateway, id capabilities.NodeID) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		changed := g.Nodes.Changed()
		for _, n := range g.Nodes.Snapshot() {
			if n.ID == id && n.Connected && len(n.Readiness) > 0 {
				return nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return capabilities.Errorf(capabilities.CodeNodeNotReady, "the local node did not report what it can do")
		}
	}
}

// sayer tells the person, or the script, what happens.
type sayer struct {
	out  io.Writer
	json bool
}

// line is for people only: a script gets events.
func (s sayer) line(format string, args ...any) {
	if !s.json {
		fmt.Fprintf(s.out, format+"\n", args...)
	}
}

func (s sayer) event(v map[string]any) {
	if s.json {
		_ = terminal.PrintJSON(s.out, v)
	}
}

// ready is the first event of up.
func (s sayer) ready(data datadir.Dir, running datadir.Running, id capabilities.NodeID, bare string) {
	e := map[string]any{
		"event": "ready", "http": running.HTTP, "mcp": running.HTTP + "/mcp", "quic": running.QUIC,
		"token_file": data.AgentTokenPath(), "node_id": id, "fingerprint": running.Fingerprint(),
	}
	if bare != "" {
		e["without"] = []string{browser.DegradedSandbox}
	}
	s.event(e)
	s.line("up: gateway on %s, node %s connected", running.HTTP, id)
}

// browser says why the node has none, where nothing else will: the first task would fail.
func (s sayer) browser(g *gateway.Gateway, id capabilities.NodeID) {
	for _, n := range g.Nodes.Snapshot() {
		if r := n.Readiness["tyrum.browser.navigate"]; n.ID == id && r.Reason != "" {
			s.event(map[string]any{"event": "browser_missing", "reason": r.Reason, "fix": command.Hint(r.Fix, r.Action)})
			s.line("browser: not available: %s\n  -> %s", strings.ReplaceAll(string(r.Reason), "_", " "),
				terminal.Plain(command.Hint(r.Fix, r.Action)))
		}
	}
}

func (s sayer) failed(err error) {
	e := capabilities.AsError(err)
	s.event(map[string]any{"event": "task_failed", "code": e.Code, "message": e.PublicMessage(), "hint": command.OfError(err)})
	s.line("first task: it did not work: %s\n  -> %s", terminal.Plain(e.Error()), terminal.Plain(command.OfError(err)))
}

// revoked tells that the node of up itself is out, while its gateway goes on.
func (s sayer) revoked(id capabilities.NodeID) {
	const message, hint = "This machine's node was revoked. The gateway goes on serving " +
		"other nodes.", "To pair this machine again, end 'handrail up' and start it anew."
	s.event(map[string]any{"event": "node_revoked", "node_id": id, "message": message, "hint": hint})
	s.line("node %s: %s\n  -> %s", id, message, hint)
}

// clients prints what to paste into an MCP client.
func (s sayer) clients(data datadir.Dir, running datadir.Running, to datadir.Reach) {
	if s.json {
		return
	}
	program := connect.Program()
	config, err := json.MarshalIndent(map[string]any{"mcpServers": map[string]any{"handrail": map[string]any{
		"command": program, "args": []string{"mcp", "--data", string(data)},
	}}}, "  ", "  ")
	if err != nil {
		return
	}
	s.line("\nConnect an MCP client: %s %s", data.Command("connect"), strings.Join(connect.Names(), "|"))
	s.line("Another one:\n  URL    %s\n  token  in %s\n\n  %s\n", to.Lines("/mcp", "         "), data.AgentTokenPath(), config)
	s.line("The console: %s/console/ (sign in: %s)", running.Page(to), data.Command("login"))
	if line := running.CertificateLine(); line != "" {
		s.line("%s", strings.TrimSpace(line))
	}
	s.line("Questions for you: %s. All of it on one screen: %s. Ctrl-C ends it.", data.Command("approvals", "--watch"), data.Command("status"))
}

// wait is how long calls wait for a person: not at all where nobody watches.
func (o upOptions) wait() time.Duration {
	if o.alone || o.once {
		return 0
	}
	return approvalWait
}
