//go:build linux

package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// process gives the lane's Chrome.
func (n *node) process() *chrome {
	n.t.Helper()
	n.h.mu.Lock()
	defer n.h.mu.Unlock()
	l := n.h.lanes[n.lane]
	if l == nil {
		n.t.Fatal("the lane has no browser")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.chrome
}

func (n *node) activeTab() *tab {
	n.h.mu.Lock()
	defer n.h.mu.Unlock()
	l := n.h.lanes[n.lane]
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.active
}

func TestNavigateRefusals(t *testing.T) {
	s := newSite(t, map[string]string{"/": html("here"), "/alert": html("<script>alert(1);document.title='after '+confirm('x')</script>"),
		"/leave": html(`<script>onbeforeunload=e=>{e.preventDefault();return 'stay'}</script><input id=i>`)})
	other := newSite(t, map[string]string{"/": html("not named")})
	n := newNode(t, s.URL)
	for _, url := range []string{"file:///etc/passwd", "chrome://version", "devtools://devtools/x", "view-source:" + s.URL, "javascript:alert(1)",
		"about:config", "ftp://example.com/", "blob:" + s.URL + "/x", "http://169.254.169.254/latest", other.URL, "http://10.0.0.1/", "http://[::1]/", "http://0x7f000001/", "http://localhost:1/", "http://2130706433/"} {
		err := n.refused(capabilities.CodeURLBlocked, "navigate", obj{"url": url})
		if err.Message == "" {
			t.Error(url, "no message")
		}
	}
	if other.count("/") != 0 {
		t.Error("a blocked origin was reached")
	}
	n.refused(capabilities.CodeURLBlocked, "navigate", obj{"url": s.URL + "/redirect?to=" + other.URL})
	if other.count("/") != 0 {
		t.Error("a redirect to a blocked origin was followed")
	}
	n.refused(capabilities.CodeInvalidArguments, "navigate", obj{"url": "http://%zz/"})
	n.refused(capabilities.CodeNavigationFailed, "navigate", obj{"url": s.URL + "/204"})
	if a := n.goTo(s.URL + "/missing"); a.m["status"] != 404.0 || a.Effect != capabilities.EffectPartial {
		t.Error(a.json, a.Effect)
	}
	if a := n.goTo(s.URL + "/alert"); a.m["dialog"] == nil || !strings.Contains(a.Evidence, "dialog") {
		t.Error(a.json, a.Evidence)
	}
	n.must("handle-dialog", obj{"accept": true}) // the alert
	if a := n.must("handle-dialog", obj{"accept": false}); a.m["title"] != "after false" {
		t.Error(a.json, a.Evidence)
	}
	n.goTo("about:blank")
	n.goTo("data:text/html,<title>inline</title>" + strings.Repeat("x", 2000))
	n.goTo(s.URL + "/leave")
	n.must("type", obj{"selector": "#i", "text": "activation"})
	if a := n.goTo(s.URL + "/"); a.m["dialog"] == nil || a.m["url"] != s.URL+"/leave" {
		t.Error("beforeunload was not reported:", a.json, a.Evidence)
	}
	if a := n.must("handle-dialog", obj{"accept": true}); a.m["url"] != s.URL+"/" {
		t.Error(a.json, a.Evidence)
	}
	if a := n.goTo(s.URL + "/#part"); !strings.Contains(a.Evidence, "within the document") {
		t.Error(a.Evidence)
	}
}

func TestNavigateRefusedServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	origin := "http://" + l.Addr().String()
	l.Close()
	n := newNode(t, origin)
	if e := n.refused(capabilities.CodeNavigationFailed, "navigate", obj{"url": origin}); !strings.Contains(e.Message, "does not answer") {
		t.Error(e.Message)
	}
}

// A server that never answers ends at the deadline, is cancelled, and the next
// call works.
func TestNavigateHang(t *testing.T) {
	s := newSite(t, map[string]string{"/": html("here"), "/slow": html("<p>Text</p><img src=/hang>")})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	if _, err := n.within(ctx, "navigate", obj{"url": s.URL + "/hang"}); err == nil || err.Code != capabilities.CodeDeadlineExceeded {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		for s.count("/hang") < 2 { // the request is on its way: cancel now
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := n.within(ctx, "navigate", obj{"url": s.URL + "/hang"}); err == nil || err.Code != capabilities.CodeCancelled {
		t.Fatal(err)
	}
	n.goTo(s.URL + "/")
	// A page whose image never comes is there, only not complete.
	ctx, cancel = context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	a, err := n.within(ctx, "navigate", obj{"url": s.URL + "/slow"})
	if err != nil || a.Effect != capabilities.EffectPartial {
		t.Fatal(err, a.Effect)
	}
	if !strings.Contains(n.snap(), "Text") {
		t.Error("an incomplete page can not be read")
	}
	n.must("navigate", obj{"url": s.URL + "/slow", "wait_until": "domcontentloaded"})
	n.must("navigate", obj{"url": s.URL + "/slow", "wait_until": "none"})
}

// A promise that never resolves ends at its deadline, with a code that says so,
// and does not hold up the lane meanwhile.
func TestEvaluateHang(t *testing.T) {
	n := newNode(t)
	n.goTo("data:text/html,<button onclick='document.title=9'>B</button>")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hung := make(chan *capabilities.Error, 1)
	go func() {
		bounded, stop := context.WithTimeout(ctx, 3*time.Second)
		defer stop()
		_, err := n.within(bounded, "evaluate", obj{"expression": "document.title='waiting', new Promise(() => {})"})
		hung <- err
	}()
	for n.eval("document.title") != "waiting" {
	}
	n.must("click", obj{"selector": "button"})
	select {
	case err := <-hung:
		t.Fatal("ended early:", err)
	default:
	}
	if err := <-hung; err == nil || err.Code != capabilities.CodeDeadlineExceeded || !strings.Contains(err.Message, "promise never resolved") {
		t.Fatal(err)
	}
	// A loop that never ends: the deadline stops it in the page.
	for _, expression := range []string{"for(;;);", "(async () => { await 1; for(;;); })()"} {
		began := time.Now()
		bounded, stop := context.WithTimeout(ctx, time.Second)
		if a, err := n.within(bounded, "evaluate", obj{"expression": expression}); err == nil || err.Code != capabilities.CodeDeadlineExceeded {
			t.Fatal(expression, err, a.json, a.Evidence, time.Since(began))
		}
		stop()
		if got := n.eval("1+1"); got != 2.0 {
			t.Fatal("the page did not come back:", got)
		}
	}
	// So does a cancel.
	bounded, stop := context.WithCancel(ctx)
	time.AfterFunc(300*time.Millisecond, stop)
	if _, err := n.within(bounded, "evaluate", obj{"expression": "for(;;);"}); err == nil || err.Code != capabilities.CodeCancelled {
		t.Fatal(err)
	}
	if got := n.eval("1+1"); got != 2.0 {
		t.Fatal("the page did not come back:", got)
	}
	// A page that hangs by itself.
	n.must("evaluate", obj{"expression": "setTimeout(()=>{for(;;);},0); 1"})
	bounded, stop = context.WithTimeout(ctx, time.Second)
	defer stop()
	if _, err := n.within(bounded, "snapshot", obj{}); err == nil || err.Code != capabilities.CodeDeadlineExceeded {
		t.Fatal(err)
	}
	n.snap()
}

func TestTabCrash(t *testing.T) {
	s := newSite(t, map[string]string{"/": html("<p>alive</p>")})
	n := newNode(t, s.URL)
	crash := func() {
		n.t.Helper()
		tab := n.activeTab()
		start(t.Context(), tab.s, page.Crash, cdp.Empty{})
		<-tab.life.Done()
	}
	// Between calls: the next one reports it, the one after works.
	n.goTo(s.URL + "/")
	crash()
	n.refused(capabilities.CodeBrowserCrashed, "snapshot", obj{})
	n.must("snapshot", obj{})
	// Navigate replaces the dead tab without ado.
	n.goTo(s.URL + "/")
	crash()
	n.goTo(s.URL + "/")
	// During a call.
	done := make(chan *capabilities.Error, 1)
	go func() {
		_, err := n.try("evaluate", obj{"expression": "document.title='up', new Promise(()=>{})"})
		done <- err
	}()
	for n.eval("document.title") != "up" {
	}
	crash()
	if err := <-done; err == nil || err.Code != capabilities.CodeBrowserCrashed {
		t.Fatal(err)
	}
	n.must("snapshot", obj{})
	if a := n.must("tabs", obj{}); len(a.m["tabs"].([]any)) != 1 {
		t.Error(a.json)
	}
}

func TestBrowserKilled(t *testing.T) {
	s := newSite(t, map[string]string{"/": html("<p>alive</p>")})
	n := newNode(t, s.URL)
	kill := func() {
		c := n.process()
		syscall.Kill(c.proc.PID(), syscall.SIGKILL)
		<-c.conn.done
		<-c.proc.Done()
		if _, err := os.Stat(c.proc.Scratch()); !errors.Is(err, os.ErrNotExist) {
			t.Error("the profile is left over")
		}
	}
	n.goTo(s.URL + "/")
	kill()
	n.refused(capabilities.CodeBrowserCrashed, "snapshot", obj{})
	n.must("snapshot", obj{})
	n.goTo(s.URL + "/")
	kill()
	n.goTo(s.URL + "/")
	done := make(chan *capabilities.Error, 1)
	go func() {
		_, err := n.try("evaluate", obj{"expression": "document.title='up', new Promise(()=>{})"})
		done <- err
	}()
	for n.eval("document.title") != "up" {
	}
	kill()
	if err := <-done; err == nil || err.Code != capabilities.CodeBrowserCrashed {
		t.Fatal(err)
	}
	n.must("snapshot", obj{})
	if !strings.Contains(n.goTo(s.URL+"/").json, `"status":200`) {
		t.Error("no page after a new start")
	}
}

// Two lanes share nothing.
func TestLanes(t *testing.T) {
	s := newSite(t, map[string]string{"/": html("<button>B</button>")})
	a := newNode(t, s.URL)
	b := a.on("lane-2")
	a.goTo(s.URL + "/")
	b.goTo(s.URL + "/")
	a.eval("document.cookie='who=a'; localStorage.k='a'; caches.open('c').then(()=>1)")
	if got := b.eval("document.cookie + (localStorage.k||'') + (await caches.keys()).length"); got != "0" {
		t.Errorf("lane 2 sees %v", got)
	}
	if c := b.must("tabs", obj{}); len(c.m["tabs"].([]any)) != 1 {
		t.Error("lane 2 sees other tabs:", c.json)
	}
	if a.process() != b.process() {
		t.Error("two browsers were started")
	}
	ref := a.ref("B")
	b.refused(capabilities.CodeStaleRef, "click", obj{"ref": ref})
	// A hanging call of one lane does not hold up the other.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		a.within(ctx, "navigate", obj{"url": s.URL + "/hang"})
		close(done)
	}()
	for s.count("/hang") == 0 {
		b.eval("1")
	}
	b.snap()
	// Closing a lane ends its call and its pages, not the other's.
	a.h.CloseLane(a.lane)
	<-done
	cancel()
	if got := b.eval("1+1"); got != 2.0 {
		t.Error(got)
	}
	a.goTo(s.URL + "/")
	if got := a.eval("document.cookie"); got != "" {
		t.Errorf("cookies survived the lane: %v", got)
	}
	a.must("close", obj{})
	a.must("close", obj{})
}

func TestConcurrentCalls(t *testing.T) {
	s := newSite(t, map[string]string{"/": smallPage})
	n := newNode(t, s.URL)
	var wg sync.WaitGroup
	for i := range 6 {
		lane := n.on(capabilities.LaneID(fmt.Sprint("l", i%3)))
		wg.Go(func() {
			for range 3 {
				if _, err := lane.try("navigate", obj{"url": s.URL + "/"}); err != nil {
					t.Error(err)
				}
				if _, err := lane.try("snapshot", obj{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// Everything a page sends goes by the egress proxy.
func TestEgress(t *testing.T) {
	secret := newSite(t, map[string]string{"/": html("internal")})
	s := newSite(t, map[string]string{"/": html("page"), "/w.js": "", "/api": "ok"})
	n := newNode(t, s.URL)
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	var mu sync.Mutex
	var hosts []string
	raw, _ := json.Marshal(obj{"url": s.URL + "/"})
	if _, err := n.h.Handle(t.Context(), capabilities.Invocation{Capability: "tyrum.browser.navigate", Lane: n.lane, Args: raw,
		Observe: func(key, detail string) { mu.Lock(); hosts = append(hosts, key+" "+detail); mu.Unlock() }}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	if len(hosts) == 0 || hosts[0] != "network.browser.session 127.0.0.1" {
		t.Errorf("observed %q", hosts)
	}
	mu.Unlock()
	if got := n.eval("fetch('/api').then(r=>r.text())"); got != "ok" {
		t.Error(got)
	}
	for _, expression := range []string{
		`fetch('%[1]s/',{mode:'no-cors'}).then(()=>'reached',()=>'blocked')`,
		`new Promise(f=>{const i=new Image;i.onload=()=>f('reached');i.onerror=()=>f('blocked');i.src='%[1]s/'})`,
		`new Promise(f=>{const w=new WebSocket('%[2]s/');w.onopen=()=>f('reached');w.onerror=()=>f('blocked')})`,
		`new Promise(f=>{const w=new Worker(URL.createObjectURL(new Blob(["fetch('%[1]s/',{mode:'no-cors'}).then(()=>postMessage('reached'),()=>postMessage('blocked'))"])));w.onmessage=e=>f(e.data)})`,
		`new Promise(f=>{const e=new EventSource('%[1]s/');e.onopen=()=>f('reached');e.onerror=()=>f('blocked')})`,
	} {
		expression = fmt.Sprintf(expression, secret.URL, strings.Replace(secret.URL, "http", "ws", 1))
		if got := n.eval(expression); got != "blocked" {
			t.Errorf("%v: %s", got, expression)
		}
	}
	n.eval(fmt.Sprintf(`(async()=>{const p=new RTCPeerConnection({iceServers:[{urls:'stun:%s'}]});p.createDataChannel('x');await p.setLocalDescription();await new Promise(f=>{p.onicegatheringstatechange=()=>p.iceGatheringState=='complete'&&f();setTimeout(f,1500)});return p.localDescription.sdp})()`, udp.LocalAddr()))
	udp.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if k, _, err := udp.ReadFrom(make([]byte, 100)); err == nil {
		t.Errorf("%d bytes of UDP went past the proxy", k)
	}
	if secret.count("/") != 0 {
		t.Error("the unnamed origin was reached")
	}
}

// Calls that wait while the lane is closed by its own tool get a new browser; a
// closing handler ends them.
func TestCloseWhileWaiting(t *testing.T) {
	n := newNode(t)
	n.goTo("about:blank")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			var err *capabilities.Error
			if i%2 == 0 {
				_, err = n.try("close", obj{})
			} else {
				_, err = n.try("evaluate", obj{"expression": "1"})
			}
			// An evaluate that left the lane's turn may be hit by the close.
			if err != nil && err.Code != capabilities.CodeCancelled {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n.goTo("about:blank")
	done := make(chan *capabilities.Error, 2)
	for _, lane := range []capabilities.LaneID{n.lane, "other"} {
		go func() {
			_, err := n.on(lane).try("evaluate", obj{"expression": "new Promise(()=>{})"})
			done <- err
		}()
	}
	if err := n.h.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-done; err == nil {
			t.Error("a call outlived its handler")
		}
	}
}

func TestReadiness(t *testing.T) {
	o, _ := options(t)
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	all := h.Readiness(t.Context())
	if len(all) != len(tools) || len(h.Capabilities()) != len(tools) {
		t.Fatal(all)
	}
	for i, r := range all {
		if r.Capability != h.Capabilities()[i] || !r.Ready() || !strings.HasPrefix(r.Backend, "chrom") {
			t.Errorf("%+v", r)
		}
		if o.Sandbox == "" && (r.Isolation != capabilities.ClassT2 || r.Degraded != "") {
			t.Errorf("%+v", r)
		}
	}
	o.Sandbox = SandboxOff
	h, _ = New(o)
	if r := h.Readiness(t.Context())[0]; !r.Ready() || r.Degraded != "chrome_sandbox" || r.Isolation.Rank() >= capabilities.ClassT2.Rank() {
		t.Errorf("without sandbox: %+v", r)
	}
	o.Sandbox = SandboxAuto
	for _, tc := range []struct {
		finder finderFunc
		reason capabilities.Reason
		code   capabilities.Code
	}{
		{func() (platform.Browser, error) {
			return platform.Browser{}, &platform.MissingError{What: "None.", Fix: "Install one."}
		}, capabilities.ReasonBackendMissing, capabilities.CodeBrowserUnavailable},
		{func() (platform.Browser, error) {
			return platform.Browser{Path: "/x", NoSandbox: "No namespaces.", SandboxFix: "Allow."}, nil
		}, capabilities.ReasonIsolationMissing, capabilities.CodeIsolationUnavailable},
		{func() (platform.Browser, error) {
			return platform.Browser{}, errors.New("odd")
		}, capabilities.ReasonBackendFailing, capabilities.CodeBrowserUnavailable},
		{func() (platform.Browser, error) {
			return platform.Browser{Path: "/bin/false"}, nil
		}, capabilities.ReasonReady, capabilities.CodeBrowserUnavailable},
	} {
		o.Finder = tc.finder
		h, _ = New(o)
		if r := h.Readiness(t.Context())[0]; r.Reason != tc.reason || (r.Fix == "") != r.Ready() {
			t.Errorf("%+v, want %s with a fix", r, tc.reason)
		}
		n := &node{t: t, h: h, lane: "l", log: &syncBuffer{}}
		n.refused(tc.code, "snapshot", obj{})
		h.Close()
	}
}

type finderFunc func() (platform.Browser, error)

func (f finderFunc) Find(context.Context) (platform.Browser, error) { return f() }

// The degraded mode really starts Chrome without its sandbox, and the usual mode
// really with it.
func TestSandboxIsReal(t *testing.T) {
	o, _ := options(t)
	if o.Sandbox == SandboxOff {
		t.Skip("this host gives no sandbox")
	}
	for _, mode := range []Sandbox{SandboxAuto, SandboxOff} {
		o.Sandbox = mode
		h, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		n := &node{t: t, h: h, lane: "l", log: &syncBuffer{}}
		n.goTo("data:text/html,x")
		c := n.process()
		seen, renderers := 0, 0
		for _, dir := range processesOf(t, c.proc.Scratch()) {
			cmdline, _ := os.ReadFile(dir + "/cmdline")
			if !strings.Contains(string(cmdline), "--type=renderer") {
				continue
			}
			renderers++
			status, _ := os.ReadFile(dir + "/status")
			own, _ := os.Readlink(dir + "/ns/user")
			ours, _ := os.Readlink("/proc/self/ns/user")
			if strings.Contains(string(status), "Seccomp:\t2") && own != ours {
				seen++
			}
			if os.Geteuid() == 0 && strings.Contains(string(status), "Uid:\t0\t") {
				t.Error("a renderer runs as root")
			}
		}
		if renderers == 0 || (mode == SandboxAuto) != (seen == renderers) {
			t.Errorf("%s: %d of %d renderers are sandboxed", mode, seen, renderers)
		}
		h.Close()
	}
}

// processesOf lists /proc folders of processes that have scratch in their
// command line.
func processesOf(t testing.TB, scratch string) (dirs []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		for _, file := range []string{"/cmdline", "/environ"} {
			if b, err := os.ReadFile(dir + file); err == nil && strings.Contains(string(b), scratch) {
				dirs = append(dirs, dir)
				break
			}
		}
	}
	return dirs
}

func TestVisibleWithoutDisplay(t *testing.T) {
	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
	n := newNode(t)
	n.refused(capabilities.CodeNotSupported, "launch", obj{"headless": false})
	n.must("launch", obj{})
}

func TestOptions(t *testing.T) {
	o, _ := options(t)
	for _, origin := range []string{"localhost", "ftp://x", "http://", "http://x/path", "http://u@x", "*"} {
		o.AllowOrigins = []string{origin}
		if _, err := New(o); err == nil {
			t.Errorf("origin %q was taken", origin)
		}
	}
	o.AllowOrigins, o.Sandbox = nil, "maybe"
	if _, err := New(o); err == nil {
		t.Error("sandbox maybe was taken")
	}
	if _, err := New(Options{}); err == nil {
		t.Error("no finder was taken")
	}
	h, err := New(Options{Finder: o.Finder, Launcher: o.Launcher})
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	h.Close()
	if _, err := h.Handle(t.Context(), capabilities.Invocation{Capability: "tyrum.browser.snapshot", Lane: "l"}); capabilities.CodeOf(err) != capabilities.CodeBrowserUnavailable {
		t.Error(err)
	}
	if _, err := h.Handle(t.Context(), capabilities.Invocation{Capability: "tyrum.browser.fly", Lane: "l"}); capabilities.CodeOf(err) != capabilities.CodeNotSupported {
		t.Error(err)
	}
}

func TestIdleBrowserEnds(t *testing.T) {
	o, _ := options(t)
	o.IdleTimeout = time.Millisecond
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	n := &node{t: t, h: h, lane: "l", log: &syncBuffer{}}
	n.goTo("about:blank")
	c := n.process()
	n.must("close", obj{})
	<-c.proc.Done()
	n.goTo("about:blank")
}

// Chrome and its profile do not outlive a node that was ended by SIGKILL.
func TestNodeSIGKILL(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "BROWSER_TEST_NODE=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	scratch := strings.TrimSpace(line)
	if err != nil || len(processesOf(t, scratch)) < 3 {
		t.Fatalf("node said %q, %v; processes %v", line, err, processesOf(t, scratch))
	}
	cmd.Process.Kill()
	cmd.Wait()
	deadline := time.Now().Add(20 * time.Second)
	for {
		_, err := os.Stat(scratch)
		left := processesOf(t, scratch)
		if len(left) == 0 && errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left over: %v, profile %v", left, err == nil)
		}
		time.Sleep(5 * time.Millisecond) // polling for other processes' end
	}
}

// nodeThatGetsKilled is the child of TestNodeSIGKILL.
func nodeThatGetsKilled() {
	t := &testing.T{}
	o, _ := options(t)
	h, err := New(o)
	if err == nil {
		_, err = h.Handle(context.Background(), capabilities.Invocation{Capability: "tyrum.browser.navigate", Lane: "l", Args: json.RawMessage(`{"url":"data:text/html,x"}`)})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, c := range h.chromes {
		fmt.Println(c.proc.Scratch())
	}
	select {}
}

// No port is open but the lane's egress proxy.
func TestNoDebuggingPort(t *testing.T) {
	n := newNode(t)
	n.goTo("about:blank")
	c := n.process()
	for _, dir := range processesOf(t, c.proc.Scratch()) {
		cmdline, _ := os.ReadFile(dir + "/cmdline")
		if strings.Contains(string(cmdline), "--remote-debugging-port") {
			t.Error(string(cmdline))
		}
	}
	if _, err := os.Stat(filepath.Join(c.proc.Scratch(), "profile", "DevToolsActivePort")); err == nil {
		t.Error("Chrome opened a debugging port")
	}
}
