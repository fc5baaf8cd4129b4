//go:build unix

package console

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform/chrome"
)

// within bounds every wait; it is never what a test measures.
const within = 45 * time.Second

// chromium is the one Chrome of all these tests; each has a tab in it that no other has meanwhile,
// in a context that shares nothing with others.
type chromium struct {
	cmd  *exec.Cmd
	w    *os.File
	dir  string
	read chan struct{} // closed when its messages have ended

	mu     sync.Mutex
	next   int
	wait   map[int]chan json.RawMessage
	tabs   map[string]*browser // by session
	failed bool
}

// browser is one tab, and what its page said by itself.
type browser struct {
	t       testing.TB
	chrome  *chromium
	session string
	context string // what nobody else's tab shares

	mu    sync.Mutex
	works string   // the ID of the page's service worker
	said  []string // console messages and exceptions: there should be none
	asked map[string]bool
}

type object = map[string]any

// shared is started by the first test that needs it, and ended by TestMain.
var shared struct {
	sync.Mutex
	chrome *chromium
	none   error // there is none here
}

func TestMain(m *testing.M) {
	code := m.Run()
	if c := shared.chrome; c != nil {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		_ = c.cmd.Wait()
		_ = c.w.Close()
		<-c.read
		_ = os.RemoveAll(c.dir)
	}
	os.Exit(code)
}

// startChrome returns a tab for a test; what it shows is gone after it.
func startChrome(t testing.TB) *browser { t.Helper(); return startChromeAt(t, byNumber) }

// startChromeAt is startChrome for a test that knows its gateway by that host.
func startChromeAt(t testing.TB, host string) *browser {
	t.Helper()
	shared.Lock()
	if shared.chrome == nil && shared.none == nil {
		shared.chrome, shared.none = launch()
	}
	c, none := shared.chrome, shared.none
	shared.Unlock()
	if none != nil {
		t.Skipf("no Chrome here: %v", none)
	}
	b := &browser{t: t, chrome: c, asked: map[string]bool{}}
	of := b.openTab(host)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.ask("Target.attachToTarget", object{"targetId": of.target, "flatten": true}, &attached)
	b.session, b.context = attached.SessionID, of.context
	c.mu.Lock()
	c.tabs[b.session] = b
	c.mu.Unlock()
	t.Cleanup(func() { b.closeTab(of) })
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.ask(domain+".enable", object{}, nil)
	}
	b.ask("Emulation.setFocusEmulationEnabled", object{"enabled": true}, nil)
	return b
}

// launch starts Chrome.
func launch() (*chromium, error) {
	found, err := chrome.New(chrome.Options{}).Locate(context.Background())
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "console")
	if err != nil {
		return nil, err
	}
	args := []string{
		"--remote-debugging-pipe", "--user-data-dir=" + filepath.Join(dir, "profile"), "--headless=new", "--no-first-run", "--no-default-browser-check",
		"--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync", "--disable-gpu", "--no-proxy-server",
		"--hide-scrollbars", "--mute-audio", "--password-store=basic", "--no-startup-window", "--force-color-profile=srgb", "--disable-dev-shm-usage",
		// Candidates that say where a viewer is; and no address bar's suggestions, two pages for
		// every tab, which are a third of what a test costs; nor renderers ahead (a twelfth).
		"--disable-features=WebRtcHideLocalIpsWithMdns,WebUIOmniboxPopup,WebUIOmniboxAimPopup,SpareRendererForSitePerProcess",
		"--autoplay-policy=no-user-gesture-required", // what is heard is analysed
	}
	if os.Getuid() == 0 || found.NoSandbox != "" { // it opens nothing but our own pages
		args = append(args, "--no-sandbox")
	}
	c := &chromium{wait: map[int]chan json.RawMessage{}, tabs: map[string]*browser{}, dir: dir, read: make(chan struct{}), cmd: exec.Command(found.Path, args...)}
	c.cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), "TZ=Europe/Vienna", "LANG=C.UTF-8", "DBUS_SESSION_BUS_ADDRESS=disabled:"}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.w, c.cmd.ExtraFiles = in, []*os.File{theirIn, theirOut}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	_, _ = theirIn.Close(), theirOut.Close()
	go func() { defer close(c.read); c.take(out) }()
	return c, nil
}

// take reads Chrome's messages, each ended by a zero byte.
func (c *chromium) take(r *os.File) {
	defer r.Close()
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadBytes(0)
		c.mu.Lock()
		if err != nil {
			c.failed = true
			for _, w := range c.wait {
				close(w)
			}
			c.wait = nil
			c.mu.Unlock()
			return
		}
		var m struct {
			ID      int             `json:"id"`
			Session string          `json:"sessionId"`
			Method  string          `json:"method"`
			Params  json.RawMessage `json:"params"`
			Result  json.RawMessage `json:"result"`
			Error   json.RawMessage `json:"error"`
		}
		if json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &m) == nil {
			if m.ID != 0 && c.wait[m.ID] != nil {
				if m.Error != nil {
					m.Result = json.RawMessage(`{"refused":` + string(m.Error) + `}`)
				}
				c.wait[m.ID] <- m.Result
				delete(c.wait, m.ID)
			} else if tab := c.tabs[m.Session]; tab != nil {
				tab.heard(m.Method, m.Params)
			}
		}
		c.mu.Unlock()
	}
}

// heard takes what a page did by itself.
func (b *browser) heard(method string, params json.RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch method {
	case "Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled":
		b.said = append(b.said, fmt.Sprintf("%s %.400s", method, params))
	case "Network.requestWillBeSent":
		var e struct {
			Request struct {
				URL string `json:"url"`
			} `json:"request"`
		}
		_ = json.Unmarshal(params, &e)
		b.asked[e.Request.URL] = true
	case "ServiceWorker.workerRegistrationUpdated":
		var e struct {
			Registrations []struct {
				ID string `json:"registrationId"`
			} `json:"registrations"`
		}
		_ = json.Unmarshal(params, &e)
		for _, r := range e.Registrations {
			b.works = r.ID
		}
	case "Fetch.requestPaused":
		go b.answers(params)
	case "Page.javascriptDialogOpening":
		b.said = append(b.said, fmt.Sprintf("a dialog opened: %.400s", params))
	}
}

// words are what the page said by itself so far.
func (b *browser) words() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.said)
}

// requested are the addresses that were asked for so far.
func (b *browser) requested() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.asked))
}

// try sends a command and waits for its answer.
func (b *browser) try(method string, params object, into any) error {
	w, c := make(chan json.RawMessage, 1), b.chrome
	c.mu.Lock()
	if c.failed {
		c.mu.Unlock()
		return errors.New("Chrome ended")
	}
	c.next++
	c.wait[c.next] = w
	m := object{"id": c.next, "method": method, "params": params}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	line, err := json.Marshal(m)
	if err == nil {
		_, err = c.w.Write(append(line, 0))
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case raw, ok := <-w:
		switch {
		case !ok:
			return errors.New("Chrome ended")
		case bytes.HasPrefix(raw, []byte(`{"refused":`)):
			return fmt.Errorf("%s: %.300s", method, raw)
		case into == nil:
			return nil
		}
		return json.Unmarshal(raw, into)
	case <-late.C:
		return fmt.Errorf("%s: no answer", method)
	}
}

func (b *browser) ask(method string, params object, into any) {
	b.t.Helper()
	if err := b.try(method, params, into); err != nil {
		b.t.Fatal(err)
	}
}

// run evaluates an expression in the page; a promise is awaited.
func (b *browser) run(expression string, into any) error {
	var r struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	if err := b.try("Runtime.evaluate", object{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r); err != nil {
		return err
	}
	if r.Exception != nil {
		return fmt.Errorf("%.60s: %.600s", expression, r.Exception)
	}
	if into == nil || r.Result.Value == nil {
		return nil
	}
	return json.Unmarshal(r.Result.Value, into)
}

// value is the value of an expression as text. A page that is exchanged for another while it
// is asked is asked again.
func (b *browser) value(expression string) string {
	b.t.Helper()
	var s string
	for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		err := b.run("String("+expression+")", &s)
		if err == nil {
			return s
		}
		if !strings.Contains(err.Error(), "navigated or closed") && !strings.Contains(err.Error(), "context was destroyed") || time.Now().After(end) {
			b.t.Fatal(err)
		}
	}
}

// await waits until an expression of the page holds. While a page is being exchanged
// there is none to ask. The page looks by itself: each question from here takes three processes.
func (b *browser) await(expression string) {
	b.t.Helper()
	end := time.Now().Add(within)
	looks := `new Promise((done) => {
		const until = Date.now() + 1000;
		const look = () => { try { if (` + expression + `) return done(true); } catch {} Date.now() < until ? setTimeout(look, 20) : done(false); };
		look();
	})`
	for {
		var ok bool
		err := b.run(looks, &ok)
		if ok {
			return
		}
		if time.Now().After(end) {
			err = cmp.Or(b.run(expression, nil), err)
			b.t.Fatalf("never: %s (%v)\n%.3000s", expression, err, b.value("document.body?.innerText"))
		}
		if err != nil {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// open goes to an address and waits until the page and its modules are there, and what stands
// below the screen is laid out.
func (b *browser) open(url string) {
	b.t.Helper()
	_ = b.run("window.before = true", nil)
	b.ask("Page.navigate", object{"url": url}, nil)
	b.await("!window.before && location.href !== 'about:blank' && document.readyState === 'complete' && " + laidOut)
}

// laidOut is true once what stands below the screen is laid out, too: until then it has no text.
const laidOut = "(document.readyState !== 'loading' && (document.body.dataset.whole === '' || !document.querySelector('.below')))"

// key presses a key.
func (b *browser) key(name string) {
	b.t.Helper()
	p := object{"type": "keyDown", "key": name}
	switch name {
	case "Tab":
		p["code"], p["windowsVirtualKeyCode"] = "Tab", 9
	case "Enter":
		p["code"], p["windowsVirtualKeyCode"], p["text"] = "Enter", 13, "\r"
	default:
		p["code"], p["windowsVirtualKeyCode"], p["text"] = "Key"+strings.ToUpper(name), int(strings.ToUpper(name)[0]), name
	}
	b.ask("Input.dispatchKeyEvent", p, nil)
	delete(p, "text")
	p["type"] = "keyUp"
	b.ask("Input.dispatchKeyEvent", p, nil)
}

// typed writes text into what has the focus.
func (b *browser) typed(text string) { b.ask("Input.insertText", object{"text": text}, nil) }

// look has the page shown so wide, and light or dark.
func (b *browser) look(width, height int, dark bool) {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.ask("Emulation.setDeviceMetricsOverride", object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.ask("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
}

// picture returns the whole page as PNG.
func (b *browser) picture() []byte {
	var shot struct {
		Data string `json:"data"`
	}
	b.ask("Page.captureScreenshot", object{"format": "png", "captureBeyondViewport": true}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	must(b.t, err)
	return data
}

// quiet fails the test for what the page said: a refused script, an exception. That a
// request was refused, which Chrome says too, is expected where the test names its path.
func (b *browser) quiet(refused ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.said {
		if !strings.Contains(s, `"source":"network"`) || !slices.ContainsFunc(refused, func(path string) bool { return strings.Contains(s, path) }) {
			b.t.Errorf("the page said: %s", s)
		}
	}
	b.said = nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
