//go:build unix

package console

import (
	"bufio"
	"bytes"
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

// browser is one Chrome with one tab, and what its page said by itself.
type browser struct {
	t       testing.TB
	cmd     *exec.Cmd
	w       *os.File
	session string

	mu     sync.Mutex
	next   int
	wait   map[int]chan json.RawMessage
	failed bool
	said   []string // console messages and exceptions: there should be none
	asked  map[string]bool
}

type object = map[string]any

// startChrome starts a Chrome that ends with the test.
func startChrome(t testing.TB) *browser {
	t.Helper()
	found, err := chrome.New(chrome.Options{}).Locate(context.Background())
	if err != nil {
		t.Skipf("no Chrome here: %v", err)
	}
	dir := t.TempDir()
	args := []string{
		"--remote-debugging-pipe", "--user-data-dir=" + filepath.Join(dir, "profile"), "--headless=new", "--no-first-run", "--no-default-browser-check",
		"--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync", "--disable-gpu", "--no-proxy-server",
		"--hide-scrollbars", "--mute-audio", "--password-store=basic", "--no-startup-window", "--force-color-profile=srgb", "--disable-dev-shm-usage",
	}
	if os.Getuid() == 0 || found.NoSandbox != "" { // it opens nothing but our own pages
		args = append(args, "--no-sandbox")
	}
	b := &browser{t: t, wait: map[int]chan json.RawMessage{}, asked: map[string]bool{}, cmd: exec.Command(found.Path, args...)}
	b.cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), "TZ=Europe/Vienna", "LANG=C.UTF-8", "DBUS_SESSION_BUS_ADDRESS=disabled:"}
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	theirIn, in, err := os.Pipe()
	must(t, err)
	out, theirOut, err := os.Pipe()
	must(t, err)
	b.w, b.cmd.ExtraFiles = in, []*os.File{theirIn, theirOut}
	must(t, b.cmd.Start())
	_, _ = theirIn.Close(), theirOut.Close()
	read := make(chan struct{})
	go func() { defer close(read); b.read(out) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
		_ = b.cmd.Wait()
		_ = b.w.Close()
		<-read
	})
	var made struct {
		TargetID string `json:"targetId"`
	}
	b.ask("Target.createTarget", object{"url": "about:blank"}, &made)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.ask("Target.attachToTarget", object{"targetId": made.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.ask(domain+".enable", object{}, nil)
	}
	b.ask("Emulation.setFocusEmulationEnabled", object{"enabled": true}, nil)
	return b
}

// read takes Chrome's messages, each ended by a zero byte.
func (b *browser) read(r *os.File) {
	defer r.Close()
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadBytes(0)
		b.mu.Lock()
		if err != nil {
			b.failed = true
			for _, w := range b.wait {
				close(w)
			}
			b.wait = nil
			b.mu.Unlock()
			return
		}
		var m struct {
			ID     int             `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &m) == nil {
			switch {
			case m.ID != 0 && b.wait[m.ID] != nil:
				if m.Error != nil {
					m.Result = json.RawMessage(`{"refused":` + string(m.Error) + `}`)
				}
				b.wait[m.ID] <- m.Result
				delete(b.wait, m.ID)
			case m.Method == "Runtime.exceptionThrown", m.Method == "Log.entryAdded", m.Method == "Runtime.consoleAPICalled":
				b.said = append(b.said, fmt.Sprintf("%s %.400s", m.Method, m.Params))
			case m.Method == "Network.requestWillBeSent":
				var e struct {
					Request struct {
						URL string `json:"url"`
					} `json:"request"`
				}
				_ = json.Unmarshal(m.Params, &e)
				b.asked[e.Request.URL] = true
			case m.Method == "Page.javascriptDialogOpening":
				b.said = append(b.said, fmt.Sprintf("a dialog opened: %.400s", m.Params))
			}
		}
		b.mu.Unlock()
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
	w := make(chan json.RawMessage, 1)
	b.mu.Lock()
	if b.failed {
		b.mu.Unlock()
		return errors.New("Chrome ended")
	}
	b.next++
	b.wait[b.next] = w
	m := object{"id": b.next, "method": method, "params": params}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	line, err := json.Marshal(m)
	if err == nil {
		_, err = b.w.Write(append(line, 0))
	}
	b.mu.Unlock()
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

// value is what an expression gives as text.
func (b *browser) value(expression string) string {
	b.t.Helper()
	var s string
	if err := b.run("String("+expression+")", &s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// await waits until an expression of the page holds. While a page is being exchanged
// there is none to ask.
func (b *browser) await(expression string) {
	b.t.Helper()
	end := time.Now().Add(within)
	for {
		var ok bool
		err := b.run("Boolean("+expression+")", &ok)
		if ok {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("never: %s (%v)\n%.3000s", expression, err, b.value("document.body?.innerText"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// open goes to an address and waits until the page and its modules are there.
func (b *browser) open(url string) {
	b.t.Helper()
	b.ask("Page.navigate", object{"url": "about:blank"}, nil)
	b.await("location.href === 'about:blank'")
	b.ask("Page.navigate", object{"url": url}, nil)
	b.await("location.href !== 'about:blank' && document.readyState === 'complete'")
}

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

// picture gives the whole page as PNG.
func (b *browser) picture() []byte {
	var shot struct {
		Data string `json:"data"`
	}
	b.ask("Page.captureScreenshot", object{"format": "png", "captureBeyondViewport": true}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	must(b.t, err)
	return data
}

// quiet fails the test for what the page said: a refused script, an exception.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.said {
		b.t.Errorf("the page said: %s", s)
	}
	b.said = nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
