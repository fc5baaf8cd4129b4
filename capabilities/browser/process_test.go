//go:build linux

package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// process returns the lane's Chrome.
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

func (n *node) activeTab() *laneTab {
	n.h.mu.Lock()
	defer n.h.mu.Unlock()
	l := n.h.lanes[n.lane]
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.active
}

// A tab that crashed says so in the list, and the others do not.
func TestCrashedTabIsMarked(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("<p>alive"), "/2": html("<p>other")})
	n := newNodeAlone(t, s.URL)
	n.goTo(s.URL + "/")
	n.must("tabs", obj{"action": "new", "url": s.URL + "/2"})
	dead := n.activeTab()
	n.must("tabs", obj{"switch_to": 0})
	devtools.Start(t.Context(), dead.s, page.Crash, cdp.Empty{})
	<-dead.life.Done()
	list := n.must("tabs", obj{}).m["tabs"].([]any)
	if len(list) != 2 || list[0].(obj)["crashed"] != nil || list[1].(obj)["crashed"] != true || list[1].(obj)["url"] != s.URL+"/2" {
		t.Errorf("%v", list)
	}
}

func TestTabCrash(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("<p>alive</p>")})
	n := newNodeAlone(t, s.URL)
	crash := func() {
		n.t.Helper()
		tab := n.activeTab()
		devtools.Start(t.Context(), tab.s, page.Crash, cdp.Empty{})
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
	n.until("the expression", func() bool { return n.eval("document.title") == "up" })
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
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("<p>alive</p>")})
	n := newNodeAlone(t, s.URL)
	kill := func() {
		c := n.process()
		syscall.Kill(c.Program.PID(), syscall.SIGKILL)
		<-c.Conn.Done()
		<-c.Program.Done()
		if _, err := os.Stat(c.Program.Scratch()); !errors.Is(err, os.ErrNotExist) {
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
	n.until("the expression", func() bool { return n.eval("document.title") == "up" })
	kill()
	if err := <-done; err == nil || err.Code != capabilities.CodeBrowserCrashed {
		t.Fatal(err)
	}
	n.must("snapshot", obj{})
	if !strings.Contains(n.goTo(s.URL+"/").json, `"status":200`) {
		t.Error("no page after a new start")
	}
}

// The degraded mode really starts Chrome without its sandbox, and the usual mode
// really with it.
func TestSandboxIsReal(t *testing.T) {
	t.Parallel()
	o, _ := options(t)
	if o.Sandbox == SandboxOff {
		t.Skip("this host gives no sandbox")
	}
	for _, mode := range []Sandbox{SandboxRequired, SandboxAuto, SandboxOff} {
		o.Sandbox = mode
		h, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		n := &node{t: t, h: h, lane: "l", log: &syncBuffer{}}
		n.goTo("data:text/html,x")
		c := n.process()
		seen, renderers := 0, 0
		for _, dir := range processesOf(t, c.Program.Scratch()) {
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
		if renderers == 0 || (mode != SandboxOff) != (seen == renderers) {
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

func TestIdleBrowserEnds(t *testing.T) {
	t.Parallel()
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
	<-c.Program.Done()
	n.goTo("about:blank")
}

// Chrome and its profile do not outlive a node that was ended by SIGKILL.
func TestNodeSIGKILL(t *testing.T) {
	t.Parallel()
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
	deadline := time.Now().Add(patience)
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
		fmt.Println(c.Program.Scratch())
	}
	select {}
}

// No port is open but the lane's egress proxy.
func TestNoDebuggingPort(t *testing.T) {
	t.Parallel()
	n := newNodeAlone(t)
	n.goTo("about:blank")
	c := n.process()
	for _, dir := range processesOf(t, c.Program.Scratch()) {
		cmdline, _ := os.ReadFile(dir + "/cmdline")
		if strings.Contains(string(cmdline), "--remote-debugging-port") {
			t.Error(string(cmdline))
		}
	}
	if _, err := os.Stat(filepath.Join(c.Program.Scratch(), "profile", "DevToolsActivePort")); err == nil {
		t.Error("Chrome opened a debugging port")
	}
}

// The end of the browser is, by the next call and once.
func TestBrowserKilledAfterAll(t *testing.T) {
	t.Parallel()
	browserKilledAfterAll(t, true)
}

func TestBrowserKilledAfterAllAtLength(t *testing.T) { browserKilledAfterAll(t, false) }

// browserKilledAfterAll is the test of the few things before that say most, or of the others.
func browserKilledAfterAll(t *testing.T, few bool) {
	s := newSite(t, map[string]string{"/": html("<p>alive</p>")})
	all := newNodeAlone(t, s.URL)
	crash := func(n *node) {
		tab := n.activeTab()
		devtools.Start(t.Context(), tab.s, page.Crash, cdp.Empty{})
		<-tab.life.Done()
	}
	kill := func(n *node) {
		c := n.process()
		syscall.Kill(c.Program.PID(), syscall.SIGKILL)
		<-c.Conn.Done()
	}
	during := func(n *node, end func(*node)) {
		wait := n.inBackground(t.Context(), "evaluate", obj{"expression": "document.title='up', new Promise(()=>{})"})
		n.until("the expression", func() bool { return n.eval("document.title") == "up" })
		end(n)
		if _, err := wait(); err == nil || err.Code != capabilities.CodeBrowserCrashed {
			t.Fatal(err)
		}
	}
	told := func(n *node) { n.refused(capabilities.CodeBrowserCrashed, "snapshot", obj{}) }
	open := func(n *node) { n.goTo(s.URL + "/") }
	for _, tc := range []struct {
		name, tool string
		before     func(*node)
	}{
		{"nothing", "tabs", func(*node) {}},
		{"a crash during a call", "snapshot", func(n *node) { during(n, crash); open(n) }},
		{"a crash between calls", "tabs", func(n *node) { crash(n); told(n); open(n) }},
		{"a crash and no page then", "snapshot", func(n *node) { crash(n); told(n) }},
		{"its end during a call", "tabs", func(n *node) { during(n, kill); open(n) }},
		{"the last tab was closed", "snapshot", func(n *node) { n.must("tabs", obj{"action": "close"}) }},
	} {
		if few != (tc.name == "nothing" || tc.name == "a crash between calls") {
			continue
		}
		t.Run(tc.tool+" after "+tc.name, func(t *testing.T) {
			n := *all
			n.t = t
			open(&n)
			tc.before(&n)
			kill(&n)
			if e := n.refused(capabilities.CodeBrowserCrashed, tc.tool, obj{}); !strings.Contains(e.Message, "browser ended") {
				t.Error(e)
			}
			n.must(tc.tool, obj{})
		})
	}
	if few {
		return
	}
	open(all)
	during(all, kill)
	all.must("tabs", obj{}) // it was told already
}
