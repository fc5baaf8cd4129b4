package browser

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/egress"
	"github.com/handrail-dev/handrail/platform"
)

// chrome is one running Chrome process, shared by the lanes of its mode.
type chrome struct {
	h        *Handler
	headless bool
	own      bool        // one lane's: its default context is contexts[""]
	attached bool        // and a person's: nothing but our own tabs is ours
	leaving  atomic.Bool // it is being closed; its profile goes home
	proc     process
	conn     *devtools.Conn
	root     *devtools.Session
	version  string
	tracing  chan struct{} // one token: whose trace it records

	mu        sync.Mutex
	lastInput *lane // whose input came last; see clipboard.go
	contexts  map[cdp.BrowserContextID]*lane
	tabs      map[target.ID]*tab
	downloads map[string]*download         // that run, by Chrome's own name for them
	arrived   chan struct{}                // closed and replaced whenever a tab arrives or goes
	workers   map[string]*devtools.Session // that are held and no page's, by session
}

// process is what a Chrome's pages live in.
type process interface {
	egress.Process
	PID() int
	Scratch() string
	Done() <-chan struct{}
	Output() string
	Close() error
}

var _ process = platform.Process(nil)

// chrome returns the running Chrome of that mode, started if there is none.
func (h *Handler) chrome(ctx context.Context, headless bool) (*chrome, error) {
	select {
	case h.starting <- struct{}{}:
		defer func() { <-h.starting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	h.mu.Lock()
	c := h.chromes[headless]
	closed := h.closed
	h.mu.Unlock()
	if closed {
		return nil, errLaneClosed
	}
	if c != nil && c.alive() {
		return c, nil
	}
	c, err := h.startChrome(ctx, chromeStart{headless: headless})
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	closed = h.closed
	if !closed {
		h.chromes[headless] = c
	}
	h.mu.Unlock()
	if closed {
		c.close()
		return nil, errLaneClosed
	}
	return c, nil
}

func (c *chrome) alive() bool {
	select {
	case <-c.conn.Done():
		return false
	default:
		return true
	}
}

// chromeStart says how a Chrome is started.
type chromeStart struct {
	headless bool
	own      *lane          // whose own it is; nil: it is shared
	attached bool           // it is not ours to start
	proxy    string         // of its default context
	lend     *platform.Lend // its profile, which outlives it
}

// startChrome finds, starts and greets Chrome.
func (h *Handler) startChrome(ctx context.Context, how chromeStart) (*chrome, error) {
	headless := how.headless
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()
	b, err := h.o.Finder.Find(ctx)
	if err != nil {
		return nil, missingBrowser(err)
	}
	if err := mayStart(h.o.Sandbox, b); err != nil {
		return nil, err
	}
	if !headless && runtime.GOOS == "linux" && (os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" || b.RunAs != nil) {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "This node has no display that a visible browser could use.").
			WithHint("Launch with headless true.")
	}
	proc, err := h.o.Launcher.Start(ctx, platform.Command{
		Path: b.Path, Name: "chrome", ScratchBase: h.o.Dir, User: b.RunAs, Alone: true, Lend: how.lend,
		Build: func(scratch string) (args, env []string) {
			return chromeArgs(b, h.o.Sandbox, how, scratch), chromeEnv(scratch, headless)
		},
	})
	if err != nil {
		return nil, notStarted(err)
	}
	c, err := h.speakTo(proc, devtools.OverPipe(proc.Out(), proc.In()), how)
	if err != nil {
		return nil, err
	}
	version := devtools.Start(ctx, c.root, cdpbrowser.GetVersion, cdp.Empty{})
	attach := devtools.Start(ctx, c.root, target.SetAutoAttach, target.SetAutoAttachParams{
		// Every page, popups too, stops before its first script until it is set up.
		AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: ptr(true),
		Filter: target.Filter{{Type: "page"}, {Exclude: true}},
	})
	v, err := version.Get(ctx)
	if err == nil {
		_, err = attach.Get(ctx)
	}
	if err != nil {
		proc.Close()
		return nil, startFailure(ctx, err, proc.Output())
	}
	_, c.version, _ = strings.Cut(v.Product, "/")
	h.log.Info("browser.started", "version", c.version, "pid", proc.PID(), "headless", headless, "sandbox", h.o.Sandbox)
	return c, nil
}

// speakTo opens the protocol with a Chrome.
func (h *Handler) speakTo(proc process, t chromedp.Transport, how chromeStart) (*chrome, error) {
	c := &chrome{
		h: h, headless: how.headless, own: how.own != nil, attached: how.attached, proc: proc, conn: devtools.New(t),
		contexts: map[cdp.BrowserContextID]*lane{}, tabs: map[target.ID]*tab{}, downloads: map[string]*download{}, arrived: make(chan struct{}),
		workers: map[string]*devtools.Session{}, tracing: make(chan struct{}, 1),
	}
	if how.own != nil {
		c.contexts[""] = how.own // before its first page arrives
	}
	c.root = c.conn.Root()
	h.mu.Lock()
	closed := h.closed
	if !closed {
		if !how.attached {
			h.running[c] = true
		}
		h.wg.Go(func() {
			err := c.conn.Run(c.onEvent)
			h.mu.Lock()
			delete(h.running, c)
			h.mu.Unlock()
			c.ended(err)
			proc.Close()
		})
	}
	h.mu.Unlock()
	if closed {
		proc.Close()
		return nil, errLaneClosed
	}
	if !how.attached {
		h.seekIfPaused(c)
	}
	return c, nil
}

// notStarted words why a browser did not start.
func notStarted(err error) error {
	var lent *platform.LentError
	if errors.As(err, &lent) {
		return profileInUse(lent)
	}
	var missing *platform.MissingError
	if errors.As(err, &missing) {
		return capabilities.Wrap(capabilities.CodeBrowserUnavailable, err, "The browser could not be started. "+missing.What).
			WithHint(missing.Fix)
	}
	return capabilities.Wrap(capabilities.CodeBrowserUnavailable, err, "The browser could not be started.")
}

// missingBrowser words why no browser was found.
func missingBrowser(err error) error {
	var missing *platform.MissingError
	if errors.As(err, &missing) {
		return capabilities.Errorf(capabilities.CodeBrowserUnavailable, "%s", missing.What).WithHint(missing.Fix)
	}
	return capabilities.Wrap(capabilities.CodeBrowserUnavailable, err, "")
}

// mayStart says why Chrome must not be started on a host; nil: it may.
func mayStart(s Sandbox, b platform.Browser) error {
	if _, missing := s.Without(b); missing != nil {
		return capabilities.Errorf(capabilities.CodeIsolationUnavailable, "%s", missing.What).WithHint(missing.Fix)
	}
	return nil
}

// startFailure names the usual reasons for which Chrome ends at once.
func startFailure(ctx context.Context, err error, output string) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case strings.Contains(output, "No usable sandbox"), strings.Contains(output, "sandbox_linux"), strings.Contains(output, "credentials.cc"):
		return capabilities.Wrap(capabilities.CodeIsolationUnavailable, err, "Chrome found no usable sandbox on this host.").
			WithHint("Allow user namespaces, or accept Chrome without its sandbox where the host has none: --browser-sandbox auto.")
	case strings.Contains(output, "error while loading shared libraries"):
		return capabilities.Wrap(capabilities.CodeBrowserUnavailable, err, "Chrome misses a system library.").
			WithHint("Install the browser by the system's package manager.")
	}
	return capabilities.Wrap(capabilities.CodeBrowserUnavailable, errors.Join(err, errors.New(output)), "Chrome ended while it started.")
}

// close ends the process with everything below it. Idempotent.
func (c *chrome) close() error {
	c.conn.Fail(devtools.ErrClosed)
	return c.proc.Close()
}

// ended tells every lane that its pages are gone.
func (c *chrome) ended(err error) {
	c.mu.Lock()
	lanes := make([]*lane, 0, len(c.contexts))
	for _, l := range c.contexts {
		lanes = append(lanes, l)
	}
	tabs := make([]*tab, 0, len(c.tabs))
	for _, t := range c.tabs {
		tabs = append(tabs, t)
	}
	c.contexts, c.tabs = map[cdp.BrowserContextID]*lane{}, map[target.ID]*tab{}
	c.mu.Unlock()
	for _, t := range tabs {
		t.end(errBrowserGone)
	}
	for _, l := range lanes {
		l.lostChrome(c)
	}
	c.h.log.Info("browser.ended", "pid", c.proc.PID(), "error", err)
}

// onEvent takes events of no session. It runs on the reading goroutine.
func (c *chrome) onEvent(method string, params []byte) {
	switch method {
	case "Target.attachedToTarget":
		var e struct {
			SessionID  string `json:"sessionId"`
			TargetInfo struct {
				TargetID         target.ID            `json:"targetId"`
				BrowserContextID cdp.BrowserContextID `json:"browserContextId"`
				OpenerID         target.ID            `json:"openerId"`
				Type             string               `json:"type"`
				URL              string               `json:"url"`
			} `json:"targetInfo"`
		}
		switch {
		case !decodeEvent(params, &e):
		case c.attached && e.TargetInfo.Type == "shared_worker":
			c.meetShared(e.SessionID)
		case e.TargetInfo.Type == "shared_worker" || e.TargetInfo.Type == "service_worker":
			c.meetWorker(e.SessionID)
		default:
			c.adopt(e.SessionID, e.TargetInfo.TargetID, e.TargetInfo.BrowserContextID, e.TargetInfo.OpenerID, isFileDocument(e.TargetInfo.URL))
		}
	case "Target.detachedFromTarget":
		var e struct {
			SessionID string `json:"sessionId"`
		}
		if decodeEvent(params, &e) {
			c.dropSession(e.SessionID)
		}
	case "Browser.downloadProgress":
		c.downloadMoved(params)
	case "Target.targetCreated":
		c.meet(params)
	}
}

func decodeEvent(params []byte, into any) bool {
	return jsonv2.Unmarshal(params, into, jsonv2.AllowInvalidUTF8(true)) == nil
}

// adopt takes a new page into its lane and sets it up, off this goroutine; one that shows a
// file is closed instead.
func (c *chrome) adopt(sessionID string, id target.ID, context cdp.BrowserContextID, opener target.ID, file bool) {
	c.mu.Lock()
	l := c.contexts[context]
	if c.own {
		l = c.contexts[""]
	}
	if l == nil || c.tabs[id] != nil {
		c.mu.Unlock()
		return // a page of a context that is being disposed of
	}
	t := newTab(l, c, id, opener)
	t.s = c.conn.Open(sessionID, t.onEvent)
	c.tabs[id] = t
	var by *tab // which opened it
	for _, from := range c.tabs {
		if from.lane == l && t.openedBy(from) {
			by = from
			break
		}
	}
	close(c.arrived)
	c.arrived = make(chan struct{})
	c.mu.Unlock()
	if file {
		t.end(errFileShown)
	}
	added := !file && l.add(t, c.h.o.MaxTabs)
	if file {
		by = nil // it is not the limit that closes it
	}
	if by != nil {
		// Only now, since an action that hears of it looks for the tab in the list; and before
		// a tab over the limit answers, since a new process may take seconds for that.
		by.change(func(s *tabState) {
			s.opened++
			if !added {
				s.overLimit++
			}
		})
	}
	if !added {
		c.h.wg.Go(t.turnAway)
		return
	}
	c.h.wg.Go(t.setUp)
}

func (c *chrome) dropSession(sessionID string) {
	c.conn.Forget(sessionID)
	c.mu.Lock()
	worker := c.workers[sessionID] != nil
	delete(c.workers, sessionID)
	var gone *tab
	for id, t := range c.tabs {
		if t.s.ID() == sessionID {
			gone = t
			delete(c.tabs, id)
			close(c.arrived)
			c.arrived = make(chan struct{})
		}
	}
	c.mu.Unlock()
	if worker {
		c.conn.Abandon(sessionID)
	}
	if gone != nil {
		gone.end(errTabClosed)
		gone.dropFrames()
		gone.lane.remove(gone)
		gone.lane.emulateAgain()
	}
}

// awaitTab waits until the page with that ID arrived and is set up.
func (c *chrome) awaitTab(ctx context.Context, id target.ID) (*tab, error) {
	for {
		c.mu.Lock()
		t, arrived := c.tabs[id], c.arrived
		c.mu.Unlock()
		if t != nil {
			select {
			case <-t.ready:
				return t, nil
			case <-t.life.Done():
				return nil, context.Cause(t.life)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		select {
		case <-arrived:
		case <-c.conn.Done():
			return nil, devtools.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// chromeArgs are Chrome's switches. A comment at each group says what it is for.
func chromeArgs(b platform.Browser, sandbox Sandbox, how chromeStart, scratch string) []string {
	proxy := how.proxy
	if proxy == "" {
		proxy = "127.0.0.1:1" // each context has its own
	}
	args := []string{
		// The pipe is the only door: no TCP port another process could use.
		"--remote-debugging-pipe", "--remote-debugging-io-pipes=" + platform.PipeHandles,
		"--user-data-dir=" + filepath.Join(scratch, profileDir), "--no-startup-window",
		// Nothing of its own accord: no first run, updates, reports, sync, extensions.
		"--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update",
		"--disable-default-apps", "--disable-extensions", "--disable-sync", "--disable-breakpad", "--disable-crash-reporter",
		"--disable-client-side-phishing-detection", "--disable-domain-reliability", "--no-pings", "--metrics-recording-only",
		"--disable-field-trial-config", "--no-service-autorun", "--disable-search-engine-choice-screen",
		"--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,InterestFeedContentSuggestions," +
			"AutofillServerCommunication,CertificateTransparencyComponentUpdater,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable," +
			"GlobalMediaControls,PaintHolding,DestroyProfileOnBrowserClose,AvoidUnnecessaryBeforeUnloadCheckSync," +
			// A page's tasks after a click or key need not wait for the next frame.
			"DeferRendererTasksAfterInput," +
			// After each navigation Chrome would start a renderer for a site that may come
			// next: most lanes end without one, and two fifths of the processor go there.
			"SpareRendererForSitePerProcess," +
			// Every new window would load the address bar's suggestions, two pages in a
			// renderer of their own: half of a lane's start, and 150 MB.
			"WebUIOmniboxPopup,WebUIOmniboxAimPopup",
		// No keychain, no sound, no prompts that nobody would see.
		"--password-store=basic", "--use-mock-keychain", "--mute-audio", "--disable-prompt-on-repost", "--disable-hang-monitor",
		// Every tab works at full speed, whichever is in front; input before the first
		// paint is taken.
		"--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
		"--allow-pre-commit-input", "--force-color-profile=srgb",
		// All traffic by the proxy of its context; what has none goes nowhere. Names
		// are resolved by the proxy only; QUIC and WebRTC would pass it by.
		"--proxy-server=http://" + proxy, "--proxy-bypass-list=<-loopback>", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
		"--disable-quic", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp", "--webrtc-ip-handling-policy=disable_non_proxied_udp",
		"--window-size=1280,800", "--enable-automation",
	}
	if how.headless {
		args = append(args, "--headless=new", "--hide-scrollbars", "--disable-gpu",
			// Our pointer is a mouse, whatever the machine has: without one, pages show
			// what they have for fingers, such as pickers that take no text.
			"--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4")
	}
	if without, _ := sandbox.Without(b); without {
		args = append(args, "--no-sandbox")
	}
	if b.SmallShm {
		args = append(args, "--disable-dev-shm-usage")
	}
	return args
}

// chromeEnv is the whole environment Chrome gets: the node's own may hold
// secrets, and pages are hostile.
func chromeEnv(scratch string, headless bool) []string {
	env := []string{"HOME=" + scratch, "TMPDIR=" + scratch, "XDG_CONFIG_HOME=" + scratch, "XDG_CACHE_HOME=" + scratch,
		"DBUS_SESSION_BUS_ADDRESS=disabled:", "DBUS_SYSTEM_BUS_ADDRESS=disabled:"}
	keep := []string{"PATH", "TZ", "FONTCONFIG_PATH", "FONTCONFIG_FILE", "LD_LIBRARY_PATH"}
	if runtime.GOOS == "windows" {
		env = []string{"TEMP=" + scratch, "TMP=" + scratch}
		keep = []string{"PATH", "SYSTEMROOT", "WINDIR", "SYSTEMDRIVE", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMDATA",
			"LOCALAPPDATA", "APPDATA", "USERPROFILE", "USERNAME", "COMSPEC", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE"}
	}
	if !headless {
		keep = append(keep, "DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR")
	}
	return keepEnv(env, keep)
}

// keepEnv adds variables of this process's environment to a child's.
func keepEnv(env, names []string) []string {
	for _, name := range names {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	if runtime.GOOS == "linux" {
		// The locale of a container or a service is often none, or one that is not
		// installed; Chrome then names no file but in ASCII. The language stays the node's.
		env = append(env, "LC_ALL=C.UTF-8")
		if language := languageOf(os.Getenv); language != "" {
			env = append(env, "LANGUAGE="+language)
		}
	}
	return env
}

// languageOf returns the languages of an environment, the first choice first, without
// how they are written; "" for none.
func languageOf(getenv func(string) string) string {
	for _, name := range []string{"LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"} { // the first that is set counts
		v, _, _ := strings.Cut(getenv(name), ".")
		if v == "C" || v == "POSIX" {
			return ""
		}
		if v != "" {
			return v
		}
	}
	return ""
}
