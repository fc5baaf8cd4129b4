package browser

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/process"
	"github.com/handrail-dev/handrail/capabilities/egress"
	"github.com/handrail-dev/handrail/platform"
)

// Sandbox says how Chrome's own sandbox is used; see process.Sandbox.
type Sandbox = process.Sandbox

// The ways of a Sandbox.
const (
	SandboxRequired = process.SandboxRequired
	SandboxAuto     = process.SandboxAuto
	SandboxOff      = process.SandboxOff
)

// ParseSandbox reads required, auto or off; empty is required.
func ParseSandbox(text string) (Sandbox, error) { return process.ParseSandbox(text) }

// DegradedSandbox is the Readiness.Degraded of a Chrome without its sandbox.
const DegradedSandbox = process.DegradedSandbox

// Options of New.
type Options struct {
	// Finder finds the browser. Required.
	Finder platform.BrowserFinder
	// Launcher starts it so that it cannot outlive this process. Required.
	Launcher platform.Launcher
	// Sandbox is described at its type. Default: SandboxRequired.
	Sandbox Sandbox
	// Dir is where Chrome's temporary profile is made. Default: the system's
	// folder for temporary files. It must be reachable for the account Chrome runs
	// under, and its path short (Chrome keeps a socket below it).
	Dir string
	// AllowOrigins are origins such as "http://127.0.0.1:8080" that the owner
	// allows although their addresses are not public. Default: none.
	AllowOrigins []string
	// AllowDomains, unless empty, are the only hosts that pages may reach, by name
	// or as "*.example.com" (the domain and everything below it). BlockDomains are
	// never reached. Both narrow what a call's grants allow, they never widen it.
	AllowDomains, BlockDomains []string
	// AllowSchemes are schemes that may be opened besides http, https, data and
	// about:blank. Default: none. Known: "file", below UploadRoots only.
	AllowSchemes []string
	// CheckFile says what the owner's rules have against a page's getting the file at that
	// absolute path; nil: nothing. CodeConsentUnavailable: the owner wants to be asked
	// first. It is called for every request. Default: nothing is against any.
	CheckFile func(path string) *capabilities.Error
	// UploadRoots are the folders whose files may be handed to pages. Default:
	// none, uploads are refused.
	UploadRoots []string
	// DownloadDir is where finished downloads are kept, in a folder for each lane;
	// nothing of it is deleted. Default: a folder that goes with the lane or with
	// Chrome.
	DownloadDir string
	// MaxDownloadBytes bounds one download; all of a lane's may take four times as
	// much. Default: 1 GiB.
	MaxDownloadBytes int64
	// StateDir holds named profiles and storage states, for this account only.
	// Default: none, both are refused.
	StateDir string
	// Shared are names of profiles and storage states that several principals have
	// together, and which ones. Default: none, each has its own.
	Shared map[string][]capabilities.PrincipalID
	// SoleUser returns the only principal that had launched or closed a browser on this node
	// before it started: what was kept before names belonged to principals is that one's.
	// false: there were several, or it is not known. Default: it is not known.
	SoleUser func() (capabilities.PrincipalID, bool)
	// Attach is the debugging address of a Chrome that the person runs, such as
	// "http://127.0.0.1:9222", which calls may attach to. Default: none, attaching
	// is refused.
	Attach string
	// Gateway are the origins of the gateway, such as "http://127.0.0.1:7480", which no
	// attached lane loads anything of. Default: none.
	Gateway []string
	// Audit is the owner's axe-core, which pages are audited with. Default: none, audits are
	// refused.
	Audit AuditScript
	// MaxTabs bounds the tabs of one lane. Default: 20.
	MaxTabs int
	// MaxLanes bounds the lanes that hold a browser context. Default: 32. At the
	// bound, a new lane takes the place of the one that was idle longest, if that
	// is at least a minute.
	MaxLanes int
	// LaneIdle is how long a lane may go without a call before its context is
	// closed. Default: 30 minutes.
	LaneIdle time.Duration
	// IdleTimeout is how long Chrome stays after the last lane was closed.
	// Default: two minutes.
	IdleTimeout time.Duration
	// Log. Default: discard.
	Log *slog.Logger
}

// Handler implements capabilities.Handler for the browser family. Calls of one
// lane are ordered, lanes run side by side.
type Handler struct {
	o     Options
	rules *egress.Rules
	// attach is where the person's Chrome answers; nil: there is no attaching.
	attach   *url.URL
	gateway  atomic.Pointer[gatewayAt] // never nil
	chromium *process.Set              // every Chrome that runs
	names    resolved
	log      *slog.Logger

	wg       sync.WaitGroup // tab set-ups, stopping hung scripts
	sweep    sync.Once      // of the owner's folder for downloads
	starting chan struct{}  // one token: who starts a Chrome
	//lint:ignore containedctx the life of the handler
	life context.Context // ends with Close
	kill context.CancelFunc

	adopting sync.Mutex // held while kept files are looked for and moved
	adopted  bool       // it was tried; guarded by adopting

	mu       sync.Mutex
	closed   bool
	lanes    map[capabilities.LaneID]*lane
	windowed map[capabilities.LaneID]bool // see windows
	chromes  map[bool]*chrome             // by headless
	homes    map[string]*chrome           // by a profile's folder: the latest that had it
	keeping  bool                         // a secret lies in the clipboard; see keep.go
	idle     *time.Timer
	expiry   *time.Timer // ends lanes that nobody uses
}

var (
	_ capabilities.Handler = (*Handler)(nil)
	_ capabilities.Warmer  = (*Handler)(nil)
)

// tool carries out one capability; c.lane's order is held (see call.release).
type tool func(c *call) (capabilities.Output, error)

// tools are what is implemented, in the order of S0-10. It is a function because run-code, one
// of them, looks the others up.
func tools() capabilities.Tools[tool] {
	return capabilities.Tools[tool]{
		{Capability: "tyrum.browser.launch", Run: launch},
		{Capability: "tyrum.browser.navigate", Run: navigate},
		{Capability: "tyrum.browser.navigate-back", Run: navigateBack},
		{Capability: "tyrum.browser.snapshot", Run: snapshot},
		{Capability: "tyrum.browser.click", Run: click},
		{Capability: "tyrum.browser.type", Run: typeText},
		{Capability: "tyrum.browser.fill-form", Run: fillForm},
		{Capability: "tyrum.browser.select-option", Run: selectOption},
		{Capability: "tyrum.browser.hover", Run: hover},
		{Capability: "tyrum.browser.drag", Run: drag},
		{Capability: "tyrum.browser.press-key", Run: pressKey},
		{Capability: "tyrum.browser.screenshot", Run: screenshot},
		{Capability: "tyrum.browser.evaluate", Run: evaluate},
		{Capability: "tyrum.browser.wait-for", Run: waitFor},
		{Capability: "tyrum.browser.tabs", Run: tabs},
		{Capability: "tyrum.browser.upload-file", Run: uploadFile},
		{Capability: "tyrum.browser.console-messages", Run: consoleMessages},
		{Capability: "tyrum.browser.network-requests", Run: networkRequests},
		{Capability: "tyrum.browser.resize", Run: resize},
		{Capability: "tyrum.browser.close", Run: closeBrowser},
		{Capability: "tyrum.browser.handle-dialog", Run: handleDialog},
		{Capability: "tyrum.browser.run-code", Run: runCode},
		// Listed on request.
		{Capability: "tyrum.browser.read", Run: read},
		{Capability: "tyrum.browser.network-rules", Run: networkRules},
		{Capability: "tyrum.browser.cookies", Run: cookies},
		{Capability: "tyrum.browser.storage", Run: storage},
		{Capability: "tyrum.browser.pdf", Run: pdf},
		{Capability: "tyrum.browser.performance", Run: performance},
		{Capability: "tyrum.browser.audit", Run: audit},
	}
}

// New makes a Handler; it starts nothing. The error names a bad option.
func New(o Options) (*Handler, error) {
	if o.Finder == nil || o.Launcher == nil {
		return nil, errors.New("browser: Finder and Launcher are required")
	}
	sandbox, err := ParseSandbox(string(o.Sandbox))
	if err != nil {
		return nil, fmt.Errorf("browser: sandbox: %w", err)
	}
	o.Sandbox = sandbox
	rules, err := egress.NewRules(o.AllowOrigins)
	if err != nil {
		return nil, err
	}
	if err := readShared(o.Shared); err != nil {
		return nil, err
	}
	if err := rules.Narrow(o.AllowDomains, o.BlockDomains); err != nil {
		return nil, err
	}
	gateway, err := readGateway(o.Gateway)
	if err != nil {
		return nil, err
	}
	attach, err := process.ReadAddress(o.Attach)
	if err != nil {
		return nil, err
	}
	if o.MaxTabs <= 0 {
		o.MaxTabs = 20
	}
	if o.MaxLanes <= 0 {
		o.MaxLanes = 32
	}
	if o.MaxDownloadBytes <= 0 {
		o.MaxDownloadBytes = 1 << 30
	}
	if o.LaneIdle <= 0 {
		o.LaneIdle = 30 * time.Minute
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 2 * time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	life, kill := context.WithCancel(context.Background())
	h := &Handler{
		o: o, rules: rules, attach: attach, log: o.Log, starting: make(chan struct{}, 1), life: life, kill: kill,
		lanes: map[capabilities.LaneID]*lane{}, windowed: map[capabilities.LaneID]bool{}, chromes: map[bool]*chrome{},
		homes:    map[string]*chrome{},
		chromium: process.New(process.Options{Finder: o.Finder, Launcher: o.Launcher, Sandbox: o.Sandbox, Dir: o.Dir, Rules: rules, Log: o.Log}),
	}
	h.gateway.Store(&gateway)
	if err := h.allowSchemes(); err != nil {
		kill()
		return nil, err
	}
	return h, nil
}

// Capabilities lists what this handler implements.
func (h *Handler) Capabilities() []capabilities.CapabilityID {
	return tools().Capabilities()
}

// Readiness says whether Chrome is there and which class it gives: its sandbox
// is t2; without it, only another account or process stands between a page and
// the node (t1, degraded).
func (h *Handler) Readiness(ctx context.Context) []capabilities.Readiness {
	var r capabilities.Readiness
	b, err := h.o.Finder.Find(ctx)
	without, barred := h.o.Sandbox.Without(b)
	var missing *platform.MissingError
	switch {
	case errors.As(err, &missing):
		r.Reason, r.Fix = capabilities.ReasonBackendMissing, capabilities.Clip(missing.What+" "+missing.Fix, 300)
	case err != nil:
		r.Reason, r.Fix = capabilities.ReasonBackendFailing, "A person has to see what is wrong on the node."
		r.Action = capabilities.Action{Key: capabilities.ActionExamineNode}
	case barred != nil:
		r.Reason, r.Fix = capabilities.ReasonIsolationMissing, capabilities.Clip(strings.TrimSpace(barred.What+" "+barred.Fix), 300)
		r.Action = capabilities.Action{Key: capabilities.ActionAcceptBare}
	case without:
		r.Isolation, r.Degraded = capabilities.ClassT1, DegradedSandbox
	default:
		r.Isolation = capabilities.ClassT2
	}
	if h.attach != nil && r.Isolation != "" {
		// A call of any tool may work in the person's own browser then, and readiness
		// speaks of tools, not of lanes.
		r.Isolation = capabilities.ClassSession
	}
	if err == nil {
		r.Backend = capabilities.Clip(b.Product+" "+b.Version, 100)
	}
	var all []capabilities.Readiness
	for _, r.Capability = range h.Capabilities() {
		all = append(all, r)
	}
	return all
}

// Warm starts the Chrome that calls work in unless they ask for another. It ends with
// IdleTimeout if none comes.
func (h *Handler) Warm(ctx context.Context) {
	if _, err := h.chrome(ctx, true); err != nil {
		h.log.Debug("browser.warm", "err", err)
		return
	}
	h.idleLater()
}

// Handle carries out one call.
func (h *Handler) Handle(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	run, err := tools().Find(inv.Capability)
	if err != nil {
		return capabilities.Output{}, err
	}
	ctx, inv, cancel := capabilities.Prepare(ctx, inv)
	defer cancel(nil)
	l, err := h.turn(ctx, inv.Lane)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errNoTurn
	}
	if err != nil {
		return capabilities.Output{}, explain(ctx, err)
	}
	c := newCall(ctx, h, l, inv, l.leave)
	defer func() { c.unbind() }()
	defer func() { c.release() }()
	defer l.observeInto(&inv)()
	if err := l.narrow(egress.Granted(inv.Grants)); err != nil {
		c.release()
		return capabilities.Output{}, capabilities.AsError(err)
	}
	return c.carryOut(run)
}

// CloseLane frees the lane's browser context with its tabs, cookies and refs. A
// running call of the lane ends with an error.
func (h *Handler) CloseLane(id capabilities.LaneID) {
	h.mu.Lock()
	l := h.lanes[id]
	delete(h.lanes, id)
	delete(h.windowed, id)
	h.mu.Unlock()
	if l != nil {
		l.end()
		h.idleLater()
	}
}

var _ capabilities.Pauser = (*Handler)(nil)

// Pause holds every page of the node's own browsers, or lets them go on. A person's own Chrome is
// left alone.
func (h *Handler) Pause(on bool) { h.chromium.Pause(on) }

// Close ends every lane and Chrome itself, and waits for them.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.closed = true
	h.kill()
	h.chromium.Close() // a Chrome that is only just starting is given up
	for _, t := range []*time.Timer{h.idle, h.expiry} {
		if t != nil {
			t.Stop()
		}
	}
	lanes, chromes := h.lanes, h.chromes
	h.lanes, h.chromes = map[capabilities.LaneID]*lane{}, map[bool]*chrome{}
	h.mu.Unlock()
	var errs []error
	for _, c := range chromes {
		errs = append(errs, c.Close())
	}
	for _, l := range lanes {
		l.end()
	}
	h.chromium.Wait()
	h.wg.Wait()
	return errors.Join(errs...)
}

// turn waits for the lane's turn. A lane that its own close tool ended meanwhile
// is replaced by a new one of its name.
func (h *Handler) turn(ctx context.Context, id capabilities.LaneID) (*lane, error) {
	for {
		l, err := h.lane(id)
		if err != nil {
			return nil, err
		}
		if err := l.enter(ctx); err != nil {
			return nil, err
		}
		l.mu.Lock()
		retired := l.retired
		l.mu.Unlock()
		if !retired {
			return l, nil
		}
		l.leave()
		h.forgetLane(l)
	}
}

// lane returns the lane by name, made at its first call.
func (h *Handler) lane(id capabilities.LaneID) (*lane, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, capabilities.Errorf(capabilities.CodeBrowserUnavailable, "The node is shutting down.").
			WithHint("Try again when it is back, or choose another node.")
	}
	if l := h.lanes[id]; l != nil {
		return l, nil
	}
	if len(h.lanes) >= h.o.MaxLanes && !h.expireLocked(minIdle, 1) {
		return nil, capabilities.Errorf(capabilities.CodeOverloaded, "%d conversations already hold a browser on this node.", len(h.lanes)).
			WithHint("Close one with tool.browser.close, or raise the node's limit.")
	}
	l := newLane(h, id)
	h.lanes[id] = l
	h.expireLater()
	return l, nil
}

// forgetLane drops an ended lane, unless a new one has its name.
func (h *Handler) forgetLane(l *lane) {
	h.mu.Lock()
	if h.lanes[l.id] == l {
		delete(h.lanes, l.id)
	}
	h.mu.Unlock()
	h.idleLater()
}
