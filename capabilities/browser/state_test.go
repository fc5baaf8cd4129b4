//go:build linux

package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/egress"
	"github.com/handrail-dev/handrail/platform"
)

// stateful returns a node that keeps state below dir.
func stateful(t testing.TB, dir string, change func(*Options), origins ...string) *node {
	o, log := options(t, origins...)
	o.StateDir = dir
	if change != nil {
		change(&o)
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return &node{t: t, h: h, lane: "lane-1", log: log}
}

const remember = `document.cookie='who=ada; max-age=99999'; localStorage.who='ada'; new Promise((f,no)=>{const r=indexedDB.open('d',1);r.onupgradeneeded=()=>r.result.createObjectStore('s');r.onsuccess=()=>{const x=r.result.transaction('s','readwrite');x.objectStore('s').put('ada','who');x.oncomplete=()=>f('ok')};r.onerror=no})`
const recall_ = `new Promise(f=>{const r=indexedDB.open('d',1);r.onupgradeneeded=()=>r.result.createObjectStore('s');r.onsuccess=()=>{const q=r.result.transaction('s').objectStore('s').get('who');q.onsuccess=()=>f([document.cookie,localStorage.who||'',q.result||''].join())}})`

func TestProfile(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("<p>page</p>")})
	dir := t.TempDir()
	n := stateful(t, dir, nil, s.URL)
	if a := n.must("launch", obj{"profile": "work"}); a.m["profile"] != "work" {
		t.Error(a.json)
	}
	n.goTo(s.URL + "/")
	n.eval(remember)
	n.eval("window.open('/'); 1")
	// Another lane of the node, and another node, are told who has it.
	other := n.on("lane-2")
	err := other.refused(capabilities.CodeConflict, "launch", obj{"profile": "work"})
	for _, want := range []string{"lane-1", "process " + string(inJSON(os.Getpid())), "since 20"} {
		if !strings.Contains(err.Message, want) {
			t.Errorf("%q does not say %q", err.Message, want)
		}
	}
	second := stateful(t, dir, nil, s.URL)
	second.lane = "elsewhere"
	second.refused(capabilities.CodeConflict, "launch", obj{"profile": "work"})
	// The lane without a profile shares nothing with it.
	other.goTo(s.URL + "/")
	if got := other.eval(recall_); got != ",," {
		t.Errorf("another lane knows %v", got)
	}
	// Its traffic goes by the proxy, too.
	secret := newSite(t, map[string]string{"/": html("internal")})
	if got := n.eval("fetch('" + secret.URL + "/',{mode:'no-cors'}).then(()=>'reached',()=>'blocked')"); got != "blocked" || secret.count("/") != 0 {
		t.Error(got)
	}
	scratch := n.process().Program.Scratch()
	if a := n.must("close", obj{}); !strings.Contains(a.Evidence, "profile is kept") {
		t.Error(a.Evidence)
	}
	if left := processesOf(t, scratch); len(left) != 0 {
		t.Error("processes are left:", left)
	}
	if _, err := os.Stat(scratch); !errors.Is(err, os.ErrNotExist) {
		t.Error("the scratch folder is left")
	}
	other.must("launch", obj{"profile": "work"})
	other.goTo(s.URL + "/")
	if got := other.eval(recall_); got != "who=ada,ada,ada" {
		t.Errorf("the profile holds %v", got)
	}
	// A crash keeps it, and the next call goes on with it.
	n = other
	before := n.process()
	kill(t, before)
	n.refused(capabilities.CodeBrowserCrashed, "snapshot", obj{})
	n.goTo(s.URL + "/")
	if got := n.eval(recall_); got != "who=ada,ada,ada" {
		t.Errorf("after a crash the profile holds %v", got)
	}
	// At home it is for this account only, without caches.
	n.must("close", obj{})
	filepath.WalkDir(filepath.Join(n.h.home(""), "profiles"), func(path string, d os.DirEntry, err error) error {
		info, _ := d.Info()
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		if d.Name() == "GPUCache" || d.Name() == "Cache" {
			t.Error("kept a cache:", path)
		}
		return nil
	})
	n.refused(capabilities.CodeInvalidArguments, "launch", obj{"profile": "../x"})
	n.refused(capabilities.CodeInvalidArguments, "launch", obj{"profile": "X"})
	plain := newNode(t)
	plain.refused(capabilities.CodeNotSupported, "launch", obj{"profile": "work"})
}

// A profile is kept over an end that nobody waited for and a crash that nobody has heard of, and
// another one knows nothing of it.
func TestProfileAtLength(t *testing.T) {
	s := newSite(t, map[string]string{"/": html("<p>page</p>")})
	dir := t.TempDir()
	n := stateful(t, dir, nil, s.URL)
	n.must("launch", obj{"profile": "work"})
	n.goTo(s.URL + "/")
	n.eval(remember)
	second := stateful(t, dir, nil, s.URL)
	second.lane = "elsewhere"
	second.must("launch", obj{"profile": "other"})
	second.goTo(s.URL + "/")
	if got := second.eval(recall_); got != ",," {
		t.Errorf("another profile knows %v", got)
	}
	n.h.CloseLane(n.lane)
	n.must("launch", obj{"profile": "work"})
	before := n.process()
	if p, err := os.FindProcess(before.Program.PID()); err != nil || p.Kill() != nil {
		t.Fatal(err)
	}
	<-before.Conn.Done() // and its guard is at work
	n.must("launch", obj{"profile": "work"})
	n.goTo(s.URL + "/")
	if got := n.eval(recall_); got != "who=ada,ada,ada" {
		t.Errorf("after an end without a wait the profile holds %v", got)
	}
}

func inJSON(v any) []byte { b, _ := json.Marshal(v); return b }

func kill(t *testing.T, c *chrome) {
	t.Helper()
	p, err := os.FindProcess(c.Program.PID())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	<-c.Conn.Done()
	<-c.Program.Done()
}

// A node that is ended by SIGKILL leaves no process and no copy; the profile is
// kept, and free.
func TestProfileSIGKILL(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSite(t, map[string]string{"/": html("<p>page</p>")})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "BROWSER_TEST_PROFILE="+dir, "BROWSER_TEST_ORIGIN="+s.URL)
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
		t.Fatalf("node said %q, %v", line, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	deadline := time.Now().Add(patience)
	for {
		_, err := os.Stat(scratch)
		left := processesOf(t, scratch)
		if len(left) == 0 && errors.Is(err, os.ErrNotExist) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left over: %v, scratch %v", left, err == nil)
		}
		time.Sleep(5 * time.Millisecond) // polling for other processes' end
	}
	n := stateful(t, dir, nil, s.URL)
	n.must("launch", obj{"profile": "work"})
	n.goTo(s.URL + "/")
	if got := n.eval(recall_); got != "who=ada,ada,ada" {
		t.Errorf("the profile holds %v", got)
	}
}

// profileThatGetsKilled is the child of TestProfileSIGKILL.
func profileThatGetsKilled(dir string) {
	t := &testing.T{}
	o, _ := options(t, os.Getenv("BROWSER_TEST_ORIGIN"))
	o.StateDir = dir
	h, err := New(o)
	if err != nil {
		os.Exit(1)
	}
	for _, step := range []struct{ tool, args string }{
		{"launch", `{"profile":"work"}`}, {"navigate", `{"url":"` + os.Getenv("BROWSER_TEST_ORIGIN") + `/"}`},
		{"evaluate", string(inJSON(obj{"expression": remember}))},
	} {
		if _, err := h.Handle(context.Background(), capabilities.Invocation{Capability: capabilities.CapabilityID("tyrum.browser." + step.tool), Lane: "l", Args: json.RawMessage(step.args), Grants: []string{"ui.session.persist_state"}}); err != nil {
			os.Stderr.WriteString(step.tool + ": " + err.Error() + "\n")
			os.Exit(1)
		}
	}
	os.Stdout.WriteString(h.lanes["l"].chrome.Program.Scratch() + "\n")
	select {}
}

func TestStorageState(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("<p>page</p>"), "/sw": html(`<script>navigator.serviceWorker</script>`)})
	two := newSite(t, map[string]string{"/": html("<p>two</p>")})
	framed := newSite(t, map[string]string{"/": html("<iframe src='" + two.URL + "/'></iframe>")})
	dir := t.TempDir()
	n := stateful(t, dir, nil, s.URL, two.URL, framed.URL)
	n.goTo(s.URL + "/")
	n.eval("document.cookie='who=ada; max-age=99999'; document.cookie='session=1'; localStorage.who='Ada \"quoted\" \\u2028 </script>'; localStorage.empty=''; 1")
	n.goTo(two.URL + "/")
	n.eval("localStorage.two='zwei'; 1")
	n.goTo(framed.URL + "/")
	hits := s.count("/") + two.count("/") + framed.count("/")
	if a := n.must("close", obj{"save_storage_state": "shop"}); a.json != "{}" || strings.Contains(a.Evidence, "ada") {
		t.Error(a.json, a.Evidence)
	}
	if now := s.count("/") + two.count("/") + framed.count("/"); now != hits {
		t.Error("saving asked the sites")
	}
	path := filepath.Join(n.h.home(""), "states", "shop.json")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	if strings.Contains(n.log.String(), "zwei") {
		t.Error("the log holds what was stored")
	}
	fresh := n.on("lane-2")
	fresh.goTo(s.URL + "/")
	if got := fresh.eval("document.cookie + Object.keys(localStorage)"); got != "" {
		t.Errorf("another lane holds %v", got)
	}
	fresh.must("launch", obj{"storage_state": "shop"})
	if a := fresh.must("tabs", obj{}); len(a.m["tabs"].([]any)) != 1 {
		t.Error("a tab is left over:", a.json)
	}
	if got := fresh.eval("location.href"); got != s.URL+"/" {
		t.Error("the page went away:", got)
	}
	if got := fresh.eval("document.cookie + '|' + JSON.stringify(Object.entries(localStorage).sort())"); got != "who=ada; session=1|"+string(inJSON([][2]string{{"empty", ""}, {"who", "Ada \"quoted\" \u2028 </script>"}})) {
		// Chrome's JSON does not escape U+2028.
		if !strings.Contains(strings.ReplaceAll(got.(string), "\u2028", `\u2028`), `Ada \"quoted\" \u2028 </script>`) || !strings.HasPrefix(got.(string), "who=ada; session=1|") {
			t.Errorf("%v", got)
		}
	}
	fresh.goTo(two.URL + "/")
	if got := fresh.eval("localStorage.two"); got != "zwei" {
		t.Error(got)
	}
	// A state that was loaded is saved again, visited or not.
	fresh.must("close", obj{"save_storage_state": "again"})
	again, _ := os.ReadFile(filepath.Join(n.h.home(""), "states", "again.json"))
	if !bytes.Contains(again, []byte("zwei")) || !bytes.Contains(again, []byte("quoted")) {
		t.Error("a state that was loaded is not saved whole")
	}
	n.refused(capabilities.CodeNotFound, "launch", obj{"storage_state": "nope"})
	n.refused(capabilities.CodeConflict, "close", obj{"save_storage_state": "x"})
	n.refused(capabilities.CodeInvalidArguments, "launch", obj{"storage_state": "../shop"})
	for _, bad := range []string{"", "{}", `{"version":2}`, `{"version":1,"secret":"hunter2"}`, `{"version":1,"origins":[{"origin":"file://"}]}`} {
		os.WriteFile(path, []byte(bad), 0o600)
		if err := n.refused(capabilities.CodeExecutionFailed, "launch", obj{"storage_state": "shop"}); strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Message, "hunter2") {
			t.Error("an error quotes the state:", err)
		}
	}
	plain := newNode(t)
	plain.refused(capabilities.CodeNotSupported, "launch", obj{"storage_state": "shop"})
	plain.refused(capabilities.CodeNotSupported, "close", obj{"save_storage_state": "shop"})
}

// person starts a Chrome as a person would, with a debugging port.
func person(t *testing.T, page string) (origin string, c *chrome) {
	o, _ := options(t)
	b, err := o.Finder.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var scratch string
	proc, err := o.Launcher.Start(t.Context(), platform.Command{
		Path: b.Path, Name: "person", User: b.RunAs, Build: func(dir string) ([]string, []string) {
			scratch = dir
			args := []string{"--remote-debugging-port=0", "--user-data-dir=" + dir + "/data", "--headless=new", "--no-first-run", "--disable-gpu", page}
			if o.Sandbox == SandboxOff {
				args = append(args, "--no-sandbox")
			}
			return args, []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=/usr/bin:/bin"}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proc.Close() })
	deadline := time.Now().Add(patience)
	for {
		if data, err := os.ReadFile(scratch + "/data/DevToolsActivePort"); err == nil && bytes.Contains(data, []byte("\n")) {
			port, _, _ := strings.Cut(string(data), "\n")
			return "http://127.0.0.1:" + port, nil
		}
		if time.Now().After(deadline) {
			t.Fatal("no port: ", proc.Output())
		}
		time.Sleep(5 * time.Millisecond) // Chrome writes the file when it listens
	}
}

// pagesOf lists the addresses of a Chrome's pages.
func pagesOf(t *testing.T, origin string) (urls []string) {
	t.Helper()
	res, err := http.Get(origin + "/json/list")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	var all []struct{ Type, URL string }
	json.NewDecoder(res.Body).Decode(&all)
	for _, p := range all {
		if p.Type == "page" {
			urls = append(urls, p.URL)
		}
	}
	return urls
}

func TestAttach(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<title>t</title><button onclick="document.title='clicked'">B</button><a href=/two target=_blank>Two</a>`), "/two": html("<p>second</p>"), "/mine": html("<p>the person's page</p><script>document.cookie='login=yes'</script>")})
	origin, _ := person(t, s.URL+"/mine")
	for len(pagesOf(t, origin)) == 0 || s.count("/mine") == 0 {
		time.Sleep(20 * time.Millisecond) // until the person's page is there
	}
	n := stateful(t, "", func(o *Options) { o.Attach = origin }, s.URL)
	if r := n.h.Readiness(t.Context())[0]; r.Isolation != capabilities.ClassSession || !r.Ready() {
		t.Errorf("%+v", r)
	}
	if a := n.must("launch", obj{"attach": true}); a.m["attached"] != true {
		t.Error(a.json)
	}
	var mu sync.Mutex
	var hosts []string
	raw := inJSON(obj{"url": s.URL + "/"})
	if _, err := n.h.Handle(t.Context(), capabilities.Invocation{Capability: "tyrum.browser.navigate", Lane: n.lane, Args: raw,
		Observe: func(key, detail string) { mu.Lock(); hosts = append(hosts, key+" "+detail); mu.Unlock() }}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	if len(hosts) == 0 || hosts[0] != "network.browser.session 127.0.0.1" {
		t.Errorf("observed %q", hosts)
	}
	mu.Unlock()
	if got := n.eval("document.cookie"); got != "login=yes" {
		t.Errorf("it is not the person's context: %v", got)
	}
	n.must("click", obj{"ref": n.ref(`"B"`)})
	if got := n.eval("document.title"); got != "clicked" {
		t.Error(got)
	}
	n.must("screenshot", obj{})
	// A tab that ours opens is ours, the person's is not.
	n.must("click", obj{"selector": "a"})
	n.until("our second tab", func() bool { return len(n.must("tabs", obj{}).m["tabs"].([]any)) == 2 })
	if a := n.must("tabs", obj{}); strings.Contains(a.json, "/mine") {
		t.Error("the person's tab is in the list:", a.json)
	}
	n.refused(capabilities.CodeURLBlocked, "navigate", obj{"url": "file:///etc/passwd"})
	n.refused(capabilities.CodeInvalidArguments, "launch", obj{"attach": true, "profile": "x"})
	n.refused(capabilities.CodeNotSupported, "resize", obj{"width": 800, "height": 600, "geolocation": obj{"latitude": 1, "longitude": 2}})
	n.refused(capabilities.CodeNotSupported, "close", obj{"save_storage_state": "x"})
	if _, err := n.granted("snapshot", obj{}, egress.DomainGrant+"127.0.0.1"); err == nil || err.Code != capabilities.CodeIsolationUnavailable {
		t.Error("a narrowed call ran in a browser that cannot be narrowed:", err)
	}
	// Another lane has the node's own browser, and shares nothing.
	other := n.on("lane-2")
	other.goTo(s.URL + "/")
	if got := other.eval("document.cookie"); got != "" {
		t.Error(got)
	}
	n.must("close", obj{})
	if left := pagesOf(t, origin); len(left) != 1 || left[0] != s.URL+"/mine" {
		t.Errorf("after close: %q", left)
	}
	// Again, and the person closes the browser.
	n.must("launch", obj{"attach": true})
	n.goTo(s.URL + "/")
	c := n.process()
	devtools.Start(t.Context(), c.Root, cdp.Command[cdp.Empty, cdp.Empty]{Method: "Browser.close"}, cdp.Empty{})
	<-c.Conn.Done()
	n.refused(capabilities.CodeBrowserUnavailable, "snapshot", obj{})
}

func TestAttachIsTheOwnersToAllow(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.refused(capabilities.CodeDeniedByNode, "launch", obj{"attach": true})
	o, _ := options(t)
	for _, bad := range []string{"ws://127.0.0.1:1", "http://127.0.0.1", "http://192.168.1.2:9222", "http://example.com:9222", "https://127.0.0.1:1", "http://u@127.0.0.1:1", "http://127.0.0.1:1/x", "9222"} {
		o.Attach = bad
		if _, err := New(o); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	o.Attach, o.AllowDomains = "http://localhost:9", []string{"a.test"}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	(&node{t: t, h: h, lane: "l", log: &syncBuffer{}}).refused(capabilities.CodeIsolationUnavailable, "launch", obj{"attach": true})
}

func FuzzState(f *testing.F) {
	for _, s := range []string{
		`{"version":1,"saved":"2026-01-01T00:00:00Z","cookies":[{"name":"a","value":"b","domain":"x","path":"/","secure":true,"httpOnly":false,"expires":1.5}],"origins":[{"origin":"https://x.test","local_storage":[["k","v"]]}]}`,
		`{"version":1}`, `{"version":2}`, `{}`, `[]`, `{"version":1,"origins":[{"origin":"chrome://x"}]}`,
	} {
		f.Add([]byte(s))
	}
	none := errors.New("damaged")
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := decodeState(in, func(error) (*storageState, error) { return nil, none })
		if err != nil {
			if s != nil {
				t.Fatal("a value beside an error")
			}
			return
		}
		again, err := json.Marshal(s)
		if err != nil {
			return // a time beyond what JSON has
		}
		back, err := decodeState(again, func(err error) (*storageState, error) { return nil, err })
		if err != nil || len(back.Cookies) != len(s.Cookies) || len(back.Origins) != len(s.Origins) {
			t.Fatalf("%s: %v", again, err)
		}
	})
}
