package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// bare is Chrome driven by nothing but protocol messages over its pipe: the floor.
// It finds its elements itself, checks nothing and waits for Chrome's answers only.
type bare struct {
	cmd     *exec.Cmd
	dir     string
	w       *os.File
	session string

	mu     sync.Mutex
	next   int
	wait   map[int]chan json.RawMessage
	loads  map[string]chan struct{} // by loader
	failed error
}

// startBare starts Chrome and opens a tab. base is a folder that the account
// Chrome runs under can reach.
func startBare(b platform.Browser, base string) (*bare, error) {
	dir, err := os.MkdirTemp(base, "handrail-bench-chrome-")
	if err != nil {
		return nil, err
	}
	c := &bare{dir: dir, wait: map[int]chan json.RawMessage{}, loads: map[string]chan struct{}{}}
	if err := c.start(b); err != nil {
		return nil, errors.Join(err, c.end())
	}
	return c, nil
}

func (c *bare) start(b platform.Browser) error {
	args := []string{
		// The switches that ours has, as far as they cost or save time.
		"--no-proxy-server", "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable," +
			"PaintHolding,DeferRendererTasksAfterInput,WebUIOmniboxPopup,WebUIOmniboxAimPopup", "--allow-pre-commit-input",
		"--remote-debugging-pipe", "--user-data-dir=" + filepath.Join(c.dir, "profile"), "--no-startup-window", "--headless=new",
		"--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
		"--disable-extensions", "--disable-sync", "--disable-breakpad", "--disable-crash-reporter", "--disable-field-trial-config",
		"--disable-gpu", "--hide-scrollbars", "--mute-audio", "--password-store=basic", "--use-mock-keychain",
		"--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
		"--force-color-profile=srgb", "--window-size=1280,800",
	}
	if b.NoSandbox != "" {
		args = append(args, "--no-sandbox")
	}
	if b.SmallShm {
		args = append(args, "--disable-dev-shm-usage")
	}
	c.cmd = exec.Command(b.Path, args...)
	c.cmd.Env = []string{
		"HOME=" + c.dir, "TMPDIR=" + c.dir, "PATH=" + os.Getenv("PATH"), "DBUS_SESSION_BUS_ADDRESS=disabled:",
		"DBUS_SYSTEM_BUS_ADDRESS=disabled:",
	}
	c.cmd.Dir = c.dir
	if err := runAs(c.cmd, b.RunAs, c.dir); err != nil {
		return err
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return err
	}
	c.w = in
	c.cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	err = c.cmd.Start()
	_ = theirIn.Close()
	_ = theirOut.Close()
	if err != nil {
		c.cmd = nil
		return err
	}
	go c.read(out)
	var made struct {
		TargetID string `json:"targetId"`
	}
	if err := c.ask("Target.createTarget", object{"url": "about:blank"}, &made); err != nil {
		return err
	}
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	if err := c.ask("Target.attachToTarget", object{"targetId": made.TargetID, "flatten": true}, &attached); err != nil {
		return err
	}
	c.session = attached.SessionID
	return c.all(
		c.send("Page.enable", object{}),
		c.send("Page.setLifecycleEventsEnabled", object{"enabled": true}),
		c.send("Emulation.setFocusEmulationEnabled", object{"enabled": true}),
	)
}

// read takes Chrome's messages, each ended by a zero byte.
func (c *bare) read(r *os.File) {
	defer r.Close()
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadBytes(0)
		if err != nil {
			c.mu.Lock()
			c.failed = fmt.Errorf("Chrome ended: %w", err)
			for _, w := range c.wait {
				close(w)
			}
			c.wait = map[int]chan json.RawMessage{}
			c.mu.Unlock()
			return
		}
		var m struct {
			ID     int             `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &m) != nil {
			continue
		}
		if m.Method == "Page.lifecycleEvent" {
			var e struct {
				LoaderID string `json:"loaderId"`
				Name     string `json:"name"`
			}
			if json.Unmarshal(m.Params, &e) == nil && e.Name == "load" {
				close(c.loaded(e.LoaderID))
			}
			continue
		}
		c.mu.Lock()
		w := c.wait[m.ID]
		delete(c.wait, m.ID)
		c.mu.Unlock()
		if w != nil {
			if m.Error != nil {
				m.Result = json.RawMessage(`{"refused":` + string(m.Error) + `}`)
			}
			w <- m.Result
		}
	}
}

// loaded is the channel that the load event of a document closes; each document
// has one such event.
func (c *bare) loaded(loader string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loads[loader] == nil {
		c.loads[loader] = make(chan struct{})
	}
	return c.loads[loader]
}

// send sends a command and returns where its answer will come.
func (c *bare) send(method string, params object) chan json.RawMessage {
	w := make(chan json.RawMessage, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		close(w)
		return w
	}
	c.next++
	c.wait[c.next] = w
	m := object{"id": c.next, "method": method, "params": params}
	if c.session != "" && method != "Target.getTargets" {
		m["sessionId"] = c.session
	}
	line, err := json.Marshal(m)
	if err == nil {
		_, err = c.w.Write(append(line, 0))
	}
	if err != nil {
		delete(c.wait, c.next)
		close(w)
	}
	return w
}

// answerOf waits, bounded, for an answer.
func (c *bare) answerOf(w chan json.RawMessage, into any) error {
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	select {
	case raw, ok := <-w:
		if !ok {
			return errors.New("Chrome ended")
		}
		if bytes.HasPrefix(raw, []byte(`{"refused":`)) {
			return fmt.Errorf("Chrome refused: %.300s", raw)
		}
		if into == nil {
			return nil
		}
		return json.Unmarshal(raw, into)
	case <-late.C:
		return errors.New("Chrome gave no answer")
	}
}

func (c *bare) ask(method string, params object, into any) error {
	return c.answerOf(c.send(method, params), into)
}

func (c *bare) all(waits ...chan json.RawMessage) error {
	for _, w := range waits {
		if err := c.answerOf(w, nil); err != nil {
			return err
		}
	}
	return nil
}

// value evaluates an expression in the page.
func (c *bare) value(expression string, into any) error {
	var r struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	if err := c.ask("Runtime.evaluate", object{"expression": expression, "returnByValue": true}, &r); err != nil {
		return err
	}
	if r.Exception != nil {
		return fmt.Errorf("the page's script failed: %.300s", r.Exception)
	}
	if into == nil || r.Result.Value == nil {
		return nil
	}
	return json.Unmarshal(r.Result.Value, into)
}

func (c *bare) name() string { return "raw CDP" }
func (c *bare) aim() error   { return nil }

func (c *bare) evaluate(expression string) (string, error) {
	var v any
	err := c.value(expression, &v)
	return fmt.Sprint(v), err
}

// walk is the crudest outline of a page that still reaches everything but other
// processes' frames.
const walk = `(function(){var out=[];(function w(n,d){for(var c=n.firstChild;c;c=c.nextSibling){
if(c.nodeType===3){var t=c.data.trim();if(t)out.push(' '.repeat(d)+t);continue}
if(c.nodeType!==1||c.tagName==='SCRIPT')continue
var i=/^(A|BUTTON|INPUT|SELECT)$/.test(c.tagName),k=d
if(i||/^(H1|TABLE|TR|NAV|UL|LI|IFRAME)$/.test(c.tagName)){out.push(' '.repeat(d)+'- '+c.tagName.toLowerCase()+(i?' "'+(c.getAttribute('aria-label')||c.textContent)+'" [ref=e'+out.length+']':''));k=d+1}
if(c.shadowRoot)w(c.shadowRoot,k)
if(c.tagName==='IFRAME')try{w(c.contentDocument.body,k)}catch(e){}
if(!i)w(c,k)}})(document.body,0);return out.join('\n')})()`

func (c *bare) middle(selector string) (x, y float64, err error) {
	var at struct{ X, Y float64 }
	err = c.value(fmt.Sprintf(
		`(function(){var e=document.querySelector(%q);e.scrollIntoViewIfNeeded();var r=e.getBoundingClientRect();return {X:r.x+r.width/2,Y:r.y+r.height/2}})()`,
		selector), &at)
	return at.X, at.Y, err
}

func (c *bare) mouse(kind string, x, y float64) chan json.RawMessage {
	p := object{"type": kind, "x": x, "y": y}
	if kind != "mouseMoved" {
		p["button"], p["clickCount"] = "left", 1
	}
	if kind == "mousePressed" {
		p["buttons"] = 1
	}
	return c.send("Input.dispatchMouseEvent", p)
}

func (c *bare) do(op operation, p place, i int) (a answer, err error) {
	switch op {
	case opNavigate:
		return a, c.navigate(p.site.url(p.page, i))
	case opClick, opNothing:
		x, y, err := c.middle(map[operation]string{opClick: "#save", opNothing: "#dead"}[op])
		if err != nil {
			return a, err
		}
		return a, c.all(c.mouse("mouseMoved", x, y), c.mouse("mousePressed", x, y), c.mouse("mouseReleased", x, y))
	case opType:
		// One after the other: text that is sent along may overtake the script.
		if err := c.value(`document.querySelector('#plain').focus(),document.querySelector('#plain').select()`, nil); err != nil {
			return a, err
		}
		return a, c.all(c.send("Input.insertText", object{"text": note(i)}))
	case opFill:
		values := object{}
		for _, f := range form(i) {
			values[f.id] = f.value
		}
		text, err := json.Marshal(values)
		if err != nil {
			return a, err
		}
		return a, c.value(fmt.Sprintf(
			`(function(v){for(var k in v){var e=document.getElementById(k);e.value=v[k];e.dispatchEvent(new Event('input',{bubbles:true}));e.dispatchEvent(new Event('change',{bubbles:true}))}})(%s)`,
			text), nil)
	case opHover:
		x, y, err := c.middle(fmt.Sprintf("nav a:nth-of-type(%d)", i%2+1))
		if err != nil {
			return a, err
		}
		return a, c.all(c.mouse("mouseMoved", x, y))
	case opPress:
		key := object{"type": "rawKeyDown", "key": "ArrowRight", "code": "ArrowRight", "windowsVirtualKeyCode": 39}
		up := object{"type": "keyUp", "key": "ArrowRight", "code": "ArrowRight", "windowsVirtualKeyCode": 39}
		return a, c.all(c.send("Input.dispatchKeyEvent", key), c.send("Input.dispatchKeyEvent", up))
	case opEvaluate:
		a.text, err = c.evaluate(sum)
		return a, err
	case opTabs:
		var raw json.RawMessage
		err = c.ask("Target.getTargets", object{}, &raw)
		a.text = string(raw)
		return a, err
	case opSnapshot, opFull:
		err = c.value(walk, &a.text)
		return a, err
	case opShot, opAgain:
		var shot struct {
			Data string `json:"data"`
		}
		err = c.ask("Page.captureScreenshot", object{"format": "png", "optimizeForSpeed": true}, &shot)
		a.image = []byte(shot.Data)
		return a, err
	}
	return a, errNoTool
}

func (c *bare) navigate(url string) error {
	var r struct {
		LoaderID  string `json:"loaderId"`
		ErrorText string `json:"errorText"`
	}
	if err := c.ask("Page.navigate", object{"url": url}, &r); err != nil {
		return err
	}
	if r.ErrorText != "" {
		return errors.New(r.ErrorText)
	}
	select {
	case <-c.loaded(r.LoaderID):
		return nil
	case <-time.After(30 * time.Second):
		return errors.New("the page did not load")
	}
}

// end closes the pipe, which ends Chrome, and deletes its profile.
func (c *bare) end() error {
	if c.w != nil {
		_ = c.w.Close()
	}
	if c.cmd != nil {
		killGroup(c.cmd)
		_ = c.cmd.Wait()
	}
	var err error
	for range 20 { // helpers of a killed Chrome may still write
		if err = os.RemoveAll(c.dir); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}
