package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/agent/owner"
	"github.com/handrail-dev/handrail/agent/provider"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/health"
	"github.com/handrail-dev/handrail/cmd/handrail/trial"
	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/chrome"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// nodeConfig is node.json: what the owner of this device settled.
type nodeConfig struct {
	Version int           `json:"version"`
	Browser browserConfig `json:"browser"`
	Desktop desktopConfig `json:"desktop"`
	// Location is what calls may learn of where this device is.
	Location locationConfig `json:"location"`

	// owner is what the owner's file says about files and folders.
	owner ownerFolders
	// gateway are the gateway's origins, as far as they are known here.
	gateway []string
	// sole is the only principal that ever used the browser here; nil: not known.
	sole func() (capabilities.PrincipalID, bool)
	// sensors is what the flags say about camera and microphone.
	sensors sensorConfig
}

type browserConfig struct {
	// Path names the browser; empty: it is found.
	Path string `json:"path,omitempty"`
	// Sandbox is required, auto or off.
	Sandbox browser.Sandbox `json:"sandbox"`
	// AllowOrigins are origins that pages may reach although their addresses are
	// not public, such as "http://127.0.0.1:3000".
	AllowOrigins []string `json:"allow_origins"`
	// AllowDomains, unless empty, are the only hosts that pages may reach;
	// BlockDomains are never reached. Both as "example.com" or "*.example.com".
	AllowDomains []string `json:"allow_domains,omitempty"`
	BlockDomains []string `json:"block_domains,omitempty"`
	// AllowSchemes are schemes besides the web's: "file", for the upload roots.
	AllowSchemes []string `json:"allow_schemes,omitempty"`
	// UploadRoots are folders whose files may be handed to pages.
	UploadRoots []string `json:"upload_roots,omitempty"`
	// DownloadDir keeps finished downloads; empty: they go with the browser.
	DownloadDir string `json:"download_dir,omitempty"`
	// Shared are names of profiles and storage states that several principals have
	// together, and which ones; every other name is each principal's own.
	Shared map[string][]capabilities.PrincipalID `json:"shared_profiles,omitempty"`
	// Attach is the debugging address of the person's own Chrome, such as
	// "http://127.0.0.1:9222"; empty: it is not touched.
	Attach string `json:"attach,omitempty"`
	// Audit is the file of axe-core that pages are audited with, and AuditSHA256 what it must
	// be; empty: no page is audited.
	Audit       string `json:"audit,omitempty"`
	AuditSHA256 string `json:"audit_sha256,omitempty"`
}

// ownerFolders is what the owner's file says, now; nil: nothing.
type ownerFolders struct {
	read  func(path string) *capabilities.Error   // about one file
	whole func(folder string) *capabilities.Error // about a folder with all that is in it
}

// configVersion is the version of node.json that this program writes.
const configVersion = 2

func nodeConfigPath(d datadir.Dir) string { return d.Node("node.json") }

// readNodeConfig reads node.json; a missing file is written with the defaults,
// so that there is something to edit.
func readNodeConfig(d datadir.Dir) (nodeConfig, error) {
	c := nodeConfig{
		Version: configVersion, Browser: browserConfig{Sandbox: browser.SandboxRequired, AllowOrigins: []string{}}, Desktop: defaultDesktop(),
		Location: locationConfig{Enabled: true},
	}
	data, err := os.ReadFile(nodeConfigPath(d))
	if errors.Is(err, fs.ErrNotExist) {
		data, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			return c, err
		}
		return c, pairing.SaveFile(nodeConfigPath(d), append(data, '\n'))
	}
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("%s: %w", nodeConfigPath(d), err)
	}
	switch c.Version {
	case 1:
		// In version 1 "auto" was the word for required.
		if c.Version = configVersion; c.Browser.Sandbox == browser.SandboxAuto {
			c.Browser.Sandbox = browser.SandboxRequired
		}
	case configVersion:
	default:
		return c, capabilities.Errorf(capabilities.CodeVersionSkew, "%s has version %d; this program reads version %d and older",
			nodeConfigPath(d), c.Version, configVersion)
	}
	if c.Browser.Sandbox, err = browser.ParseSandbox(string(c.Browser.Sandbox)); err != nil {
		return c, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s: browser.sandbox: %v", nodeConfigPath(d), err)
	}
	return c, nil
}

// nodeFlags are the owner's flags of every command that runs a node.
type nodeFlags struct {
	browserFlags
	desktopFlags
	sensorFlags
	hostProviders *bool
	workspace     *string
	workspaceNet  *[]string
	webSearch     *string
}

func addNodeFlags(cmd *cobra.Command) nodeFlags {
	return nodeFlags{
		addBrowserFlags(cmd), addDesktopFlags(cmd), addSensorFlags(cmd),
		cmd.Flags().Bool("host-providers", false,
			"let the gateway's admins have providers (commands, MCP servers, HTTP APIs) run on this device"),
		cmd.Flags().String("workspace", "", "folder whose files agents may work with, and where their commands run (default: none)"),
		cmd.Flags().StringSlice("workspace-net", nil,
			"host that commands in the workspace may reach, as HOST, *.DOMAIN or HOST:PORT; repeatable (default: none)"),
		cmd.Flags().String("web-search", "",
			"what searches the web: the address of a SearXNG server, or a file with an index (default: nothing)"),
	}
}

// hostsProviders makes --host-providers the default: whoever runs gateway and node together is
// the admin of the one and the owner of the other.
func (f nodeFlags) hostsProviders(cmd *cobra.Command) {
	*f.hostProviders = true
	cmd.Flags().Lookup("host-providers").DefValue = "true"
}

// browserFlags are those of the browser family.
type browserFlags struct {
	path      *string
	sandbox   *browser.Sandbox
	origins   *[]string
	allow     *[]string
	block     *[]string
	schemes   *[]string
	uploads   *[]string
	downloads *string
	attach    *string
	audit     *string
	auditSum  *string
	found     map[string]*chrome.Finder // by path
}

// finder returns the command's one finder of the browser at path ("": wherever it
// is), which then is searched once, and sets it searching: a browser takes tens of
// milliseconds to tell its version, in which other things can be done.
func (f browserFlags) finder(path string) *chrome.Finder {
	if f.found[path] == nil {
		f.found[path] = chrome.New(chrome.Options{Path: path})
		go f.found[path].Find(context.Background()) // bounds itself
	}
	return f.found[path]
}

func addBrowserFlags(cmd *cobra.Command) browserFlags {
	return browserFlags{
		path:      cmd.Flags().String("browser", "", "path of Chrome or Chromium (default: found)"),
		sandbox:   addSandboxFlag(cmd, "as node.json says, which is required"),
		origins:   cmd.Flags().StringSlice("browser-allow-origin", nil, "origin that pages may reach although it is not public; repeatable"),
		allow:     cmd.Flags().StringSlice("browser-allow-domain", nil, "reach only this host, or *.domain; repeatable"),
		block:     cmd.Flags().StringSlice("browser-block-domain", nil, "never reach this host, or *.domain; repeatable"),
		schemes:   cmd.Flags().StringSlice("browser-allow-scheme", nil, "open this scheme besides the web's: file, below the upload roots"),
		uploads:   cmd.Flags().StringSlice("browser-upload-root", nil, "folder whose files may be handed to pages; repeatable"),
		downloads: cmd.Flags().String("browser-download-dir", "", "folder that keeps finished downloads (default: they go with the browser)"),
		attach: cmd.Flags().String("browser-attach",
			"", "debugging address of your own Chrome, such as http://127.0.0.1:9222, that calls may attach to"),
		audit:    cmd.Flags().String("browser-audit", "", "axe.min.js of axe-core, which pages are audited with (default: none)"),
		auditSum: cmd.Flags().String("browser-audit-sha256", "", "SHA-256 that the file of --browser-audit must have"),
		found:    map[string]*chrome.Finder{},
	}
}

// over returns the configuration with the flags laid over it.
func (f browserFlags) over(c browserConfig) browserConfig {
	if *f.path != "" {
		c.Path = *f.path
	}
	if *f.sandbox != "" {
		c.Sandbox = *f.sandbox
	}
	for _, list := range []struct {
		have *[]string
		more []string
	}{
		{&c.AllowOrigins, *f.origins}, {&c.AllowDomains, *f.allow}, {&c.BlockDomains, *f.block},
		{&c.AllowSchemes, *f.schemes}, {&c.UploadRoots, *f.uploads},
	} {
		*list.have = append(append([]string(nil), *list.have...), list.more...)
	}
	if *f.downloads != "" {
		c.DownloadDir = *f.downloads
	}
	if *f.attach != "" {
		c.Attach = *f.attach
	}
	if *f.audit != "" {
		c.Audit = *f.audit
	}
	if *f.auditSum != "" {
		c.AuditSHA256 = *f.auditSum
	}
	return c
}

// handlers makes what this device offers. This is the one place that picks the
// OS implementations behind them.
func handlers(config nodeConfig, finder platform.BrowserFinder, stateDir string, stop func(reason string), box *sandbox.Sandbox,
	log *slog.Logger) ([]capabilities.Handler, error) {
	c := config.Browser
	launcher := procguard.New(procguard.Options{Log: log})
	b, err := browser.New(browser.Options{
		Finder: finder, Launcher: launcher,
		Sandbox: c.Sandbox, AllowOrigins: c.AllowOrigins, AllowDomains: c.AllowDomains, BlockDomains: c.BlockDomains,
		AllowSchemes: c.AllowSchemes, UploadRoots: c.UploadRoots, DownloadDir: c.DownloadDir, StateDir: stateDir, Shared: c.Shared,
		SoleUser: config.sole, Attach: c.Attach, Gateway: config.gateway, CheckFile: config.owner.read, Log: log,
		Audit: browser.AuditScript{Path: c.Audit, SHA256: c.AuditSHA256},
	})
	if err != nil {
		return nil, err
	}
	all := []capabilities.Handler{b}
	s, backends, err := openSensors(config.sensors, finder, launcher, c.Sandbox, log)
	if err != nil {
		return nil, err
	}
	desk, err := openDesktop(config.Desktop, backends, stop, box, log)
	if err != nil {
		return nil, err
	}
	all = append(all, desk...)
	l, err := openLocation(config.Location, log)
	if err != nil {
		return nil, err
	}
	if l != nil {
		all = append(all, l)
	}
	return append(all, s), nil
}

// offered lists what a device with the default configuration could do.
func offered() []capabilities.CapabilityID {
	hs, err := handlers(nodeConfig{Desktop: defaultDesktop(), Location: locationConfig{Enabled: true}}, localBrowser(), "", nil, nil,
		slog.New(slog.DiscardHandler))
	if err != nil {
		return nil
	}
	return slices.Concat(agent.Offers(hs), provider.Managing(), filesOffered())
}

// openNode puts the node agent of data together; warm: a call is about to come.
func openNode(data datadir.Dir, flags nodeFlags, to reach, gateway []string, warm bool, onState func(link.State),
	log *slog.Logger) (*agent.Agent, error) {
	if err := data.Make(data.Node()); err != nil {
		return nil, err
	}
	if err := apart(data, *flags.workspace); err != nil {
		return nil, err
	}
	config, err := readNodeConfig(data)
	if err != nil {
		return nil, err
	}
	config.Browser = flags.browserFlags.over(config.Browser)
	if config.Desktop, err = flags.desktopFlags.over(config.Desktop); err != nil {
		return nil, err
	}
	if config.sensors, err = flags.sensorFlags.config(); err != nil {
		return nil, err
	}
	var node atomic.Pointer[agent.Agent] // made after its handlers, which may stop it
	stop := func(reason string) {
		if a := node.Load(); a != nil {
			a.Halt(reason)
		}
	}
	config.owner.read = func(path string) *capabilities.Error {
		if a := node.Load(); a != nil {
			return a.Read(path)
		}
		return &capabilities.Error{Code: capabilities.CodeDeniedByNode}
	}
	config.owner.whole = func(folder string) *capabilities.Error {
		if a := node.Load(); a != nil {
			return a.Whole(folder)
		}
		return &capabilities.Error{Code: capabilities.CodeDeniedByNode}
	}
	config.gateway = gateway
	config.sole = func() (capabilities.PrincipalID, bool) {
		if a := node.Load(); a != nil {
			return a.SoleUser("tool.browser.launch", "tool.browser.close")
		}
		return "", false
	}
	if err := ownerHosts(data, &config.Browser); err != nil {
		return nil, err
	}
	box := sandbox.New(procguard.New(procguard.Options{Log: log}))
	hs, err := handlers(config, flags.finder(config.Browser.Path), data.Node("browser"), stop, box, log)
	if err != nil {
		return nil, err
	}
	hear, yes, no := config.Desktop.answers(hs)
	hosted, hostedChanged, err := openProviders(data, *flags.hostProviders, config.owner, box, log)
	if err != nil {
		return nil, err
	}
	files, err := openFiles(*flags.workspace, *flags.workspaceNet, config.owner, box)
	if err != nil {
		return nil, err
	}
	pages, err := openWeb(config.Browser, *flags.webSearch)
	if err != nil {
		return nil, err
	}
	hs = append(hs, hosted, files, pages)
	a, err := agent.New(agent.Options{
		Dir: data.Node(), Handlers: hs, Hosted: hosted, HostedChanged: hostedChanged, Runners: box, HearAnswers: hear, Yes: yes, No: no,
		Addrs: to.addrs, Proxy: to.proxy, Version: programVersion(), UploadRoots: config.Browser.UploadRoots,
		OnState: onState, Warm: warm, Log: log,
		Notifier: localNotices(config.Desktop, log), HotKey: config.Desktop.hotKey(),
	})
	if err != nil {
		return nil, err
	}
	node.Store(a)
	return a, nil
}

// joinLocal pairs the node of data with a gateway of this process, unless it is
// its node already.
func joinLocal(ctx context.Context, data datadir.Dir, site capabilities.SiteID, known func(capabilities.NodeID) bool,
	paste func() (pairing.Paste, error)) (capabilities.NodeID, error) {
	if err := data.Make(data.Node()); err != nil {
		return "", err
	}
	id, err := link.LoadIdentity(data.Node())
	if err == nil && id.Site == site && !id.Pending() && known(id.Node) {
		return id.Node, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	p, err := paste()
	if err != nil {
		return "", err
	}
	id, err = link.Join(ctx, p, link.JoinOptions{Dir: data.Node(), Profile: profile("", offered())})
	if err != nil {
		return "", err
	}
	return id.Node, nil
}

// ownerHosts has the browser itself keep to the owner's hosts, so that links,
// redirects and what pages load are held to them as calls are. It is read when the
// node starts; calls are held to a changed file at once.
func ownerHosts(data datadir.Dir, c *browserConfig) error {
	text, err := os.ReadFile(data.Node(owner.FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	cat, err := catalog.Embedded()
	if err != nil {
		return err
	}
	f, err := owner.Parse(text, cat)
	if err != nil {
		return err
	}
	c.BlockDomains = append(slices.Clone(c.BlockDomains), f.Domains.Never...)
	if len(c.AllowDomains) == 0 { // two lists of "only these" cannot be joined here; calls are held to both
		c.AllowDomains = slices.Clone(f.Domains.Only)
	}
	return nil
}

// localBrowser finds the browser of this host.
func localBrowser() platform.BrowserFinder { return chrome.New(chrome.Options{}) }

// localHost is this host as the doctor looks at it.
func localHost() health.Host {
	silent := slog.New(slog.DiscardHandler)
	return health.Host{
		Version: programVersion(), Browser: chrome.New(chrome.Options{Starts: true}), Unboxed: upNoSandboxRules,
		Desktop: func() platform.DesktopOpener { return localDesktop(silent) },
		Notices: func() platform.Notifier { return localNotices(desktopConfig{Notices: true}, silent) },
		Walls: func(ctx context.Context) []sandbox.Standing {
			return sandbox.New(procguard.New(procguard.Options{})).Walls(ctx)
		},
	}
}

// trialHost is what the commands that try a site are given.
func trialHost() trial.Host {
	return trial.Host{Sandbox: addSandboxFlag, Bare: withoutSandbox, Unboxed: upNoSandboxRules}
}
