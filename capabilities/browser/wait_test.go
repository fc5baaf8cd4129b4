//go:build linux

package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// waits starts a wait-for and gives the function that awaits its answer. It
// returns once the call no longer holds the lane, so that what comes next comes
// while it waits.
func (n *node) waits(args obj) func() answer {
	n.t.Helper()
	done := make(chan answer, 1)
	go func() {
		a, err := n.try("wait-for", args)
		if err != nil {
			a.json = err.Error()
		}
		done <- a
	}()
	return func() answer { return <-done }
}

func (n *node) matched(want bool, args obj) answer {
	n.t.Helper()
	a := n.must("wait-for", args)
	if a.m["matched"] != want {
		n.t.Errorf("%v: %s (%s), want matched %v", args, a.json, a.Evidence, want)
	}
	return a
}

func TestWaitForWhatIsThere(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<h1>Hello</h1><div>big <b>wide</b>
	world</div><p style="text-transform:uppercase">shout</p><p style="display:none">secret text</p><input type=submit value="Send it"><i id=gone hidden>x</i>
<div id=host></div><div id=closed></div><iframe srcdoc="<p>in the frame</p><b id=deep>x</b>"></iframe><svg><text y=10>drawn</text></svg><script>var ready=1,loaded={n:0};
host.attachShadow({mode:'open'}).innerHTML='<p>in the shadow</p><slot></slot><u id=under>x</u>';document.title='T'</script>`)})
	n.goTo(s.URL + "/#part")
	for _, yes := range []obj{
		{"text": "Hello"}, {"text": "hello"}, {"text": "big wide world"}, {"text": "Hello big"}, {"text": "SHOUT"}, {"text": "Send it"}, {"text": "in the shadow"},
		{"text": "in the frame"}, {"text": "drawn"}, {"text_gone": "secret text"}, {"text_gone": "never"}, {"selector": "h1"}, {"selector": "#deep"}, {"selector": "#under"},
		{"selector": "#gone", "state": "attached"}, {"selector": "#gone", "state": "hidden"}, {"selector": "#never", "state": "hidden"},
		{"url": "/#part"}, {"url": "http://*/#part"}, {"load_state": "load"}, {"load_state": "domcontentloaded"}, {"load_state": "network_quiet"},
		{"function": "ready"}, {"function": "() => ready === 1"}, {"function": "document.querySelectorAll('p').length > 1"},
		{"text": "Hello", "selector": "h1", "url": "#part", "load_state": "load", "function": "true"},
	} {
		n.matched(true, yes)
	}
	for _, no := range []obj{
		{"text": "secret text"}, {"text": "never"}, {"text_gone": "Hello"}, {"text_gone": "in the frame"}, {"text_gone": "in the shadow"}, {"selector": "#never"}, {"selector": "#gone"},
		{"selector": "h1", "state": "hidden"}, {"selector": "#deep", "state": "hidden"}, {"url": "/other"}, {"url": "*other*"}, {"function": "loaded.n"}, {"function": "nothing.such"}, {"function": "''"},
		{"text": "Hello", "url": "/other"},
	} {
		no["timeout_ms"] = 50
		if a := n.matched(false, no); !strings.HasPrefix(a.Evidence, "not in time: ") {
			t.Errorf("%v: %s", no, a.Evidence)
		}
	}
	// However short the time, the page is asked once.
	for _, ms := range []int{0, 1} {
		for _, yes := range []obj{
			{"text": "Hello"}, {"text": "in the frame"}, {"text_gone": "never"}, {"selector": "#gone", "state": "hidden"}, {"function": "ready"},
			{"text": "Hello", "function": "ready === 1"}, {"url": "/#part"}, {"load_state": "load"},
		} {
			yes["timeout_ms"] = ms
			n.matched(true, yes)
		}
		n.matched(false, obj{"text": "never", "timeout_ms": ms})
		n.matched(false, obj{"text_gone": "Hello", "function": "ready", "timeout_ms": ms})
	}
	// Nothing to wait for holds at once, and tells nothing.
	for _, none := range []obj{{}, {"timeout_ms": 300}, {"state": "hidden"}, {"text": ""}} {
		if err := n.refused(capabilities.CodeInvalidArguments, "wait-for", none); !strings.Contains(err.Message, "at least one of: text, ") {
			t.Errorf("%v: %v", none, err)
		}
	}
	n.refused(capabilities.CodeInvalidArguments, "wait-for", obj{"selector": "p["})
	n.refused(capabilities.CodeScriptFailed, "wait-for", obj{"function": "document.title='changed'"})
	n.refused(capabilities.CodeScriptFailed, "wait-for", obj{"function": "a b"})
	if title := n.eval("document.title"); title != "T" {
		t.Errorf("the function changed the page: %v", title)
	}
	n.before(30*time.Millisecond, func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		a := n.matched(false, obj{"function": "nothing.such", "timeout_ms": time.Until(deadline).Milliseconds()})
		if a.Evidence != "not in time: the function, which throws a ReferenceError" {
			return errors.New(a.Evidence)
		}
		return nil
	})
	// A page that is busy answers nobody; the wait ends in time all the same.
	n.eval(`setTimeout(() => { const end = performance.now() + 2000; while (performance.now() < end); }, 1); 1`)
	n.matched(false, obj{"function": "ready === 2", "timeout_ms": 200})
	a := n.matched(false, obj{"function": "(() => { while (true); })()", "timeout_ms": 300})
	if n.eval("1+1") != 2.0 {
		t.Error("the page is stuck after", a.json)
	}
}

// A later change ends the wait, of whatever kind it is.
func TestWaitForWhatComes(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{
		"/":  html(`<style id=css>.off{display:none}</style><div id=a></div><div id=host></div><p id=p class=off>styled</p><i id=x>x</i><iframe id=f></iframe>`),
		"/2": html(`<p>the second page</p>`),
		"/f": html(`<p>framed later</p>`),
	})
	for _, tc := range []struct {
		wait obj
		then string
	}{
		{obj{"text": "came"}, `a.textContent='it came'`},
		{obj{"text": "in a new shadow"}, `host.attachShadow({mode:'open'}).innerHTML='<p>in a new shadow</p>'`},
		{obj{"text": "in a closed shadow"}, `host.attachShadow({mode:'closed'}).innerHTML='<p>in a closed shadow</p>'`},
		{obj{"text": "styled"}, `css.sheet.deleteRule(0)`},
		{obj{"text_gone": "x", "selector": "#x", "state": "hidden"}, `x.remove()`},
		{obj{"selector": "#new"}, `a.innerHTML='<b id=new>y</b>'`},
		{obj{"text": "framed later"}, `f.src='/f'`},
		{obj{"url": "*pushed"}, `history.pushState(0,'','/pushed')`},
		{obj{"function": "window.flag"}, `setTimeout(()=>{window.flag=true},30)`},
		{obj{"text": "the second page", "load_state": "load"}, `location='/2'`},
		{obj{"selector": "p", "url": "/2"}, `location='/2'`},
	} {
		n.goTo(s.URL + "/")
		end := n.waits(tc.wait)
		// The wait does not hold the lane: this gets through, and brings it about.
		n.matched(false, obj{"text": "never", "timeout_ms": 30})
		n.eval(tc.then + "; 1")
		if a := end(); a.m["matched"] != true {
			t.Errorf("%v then %s: %s (%s)", tc.wait, tc.then, a.json, a.Evidence)
		}
	}
}

// A foreign frame is waited in as well; one that hangs holds nothing up for good.
func TestWaitForInForeignFrame(t *testing.T) {
	t.Parallel()
	other := newSite(t, map[string]string{"/": html(`<p id=w>foreign</p><script>onmessage=()=>{w.textContent='foreign news'}</script>`)})
	foreign := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	s := newSite(t, map[string]string{"/": html(`<iframe id=f src="` + foreign + `/"></iframe>`)})
	n := newNode(t, s.URL, other.URL, foreign)
	n.goTo(s.URL + "/")
	n.matched(true, obj{"text": "foreign"})
	n.matched(true, obj{"text": "foreign", "timeout_ms": 0})
	n.matched(false, obj{"text_gone": "foreign", "timeout_ms": 0})
	end := n.waits(obj{"text": "foreign news"})
	n.matched(false, obj{"text_gone": "foreign", "timeout_ms": 50})
	n.eval(`f.contentWindow.postMessage(1,'*'); 1`)
	if a := end(); a.m["matched"] != true {
		t.Errorf("%s (%s)", a.json, a.Evidence)
	}
	end = n.waits(obj{"text_gone": "foreign"})
	n.eval(`f.remove(); 1`)
	if a := end(); a.m["matched"] != true {
		t.Errorf("gone with its frame: %s (%s)", a.json, a.Evidence)
	}
}

// Quiet means that nothing is in flight for a while; streams do not count.
func TestNetworkQuiet(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, html(`<p id=p>busy</p><script>new EventSource('/events');fetch('/late').then(r=>r.text()).then(t=>{p.textContent=t})</script>`))
		case "/late":
			<-release
			fmt.Fprint(w, "quiet")
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	n := newNode(t, srv.URL)
	n.goTo(srv.URL + "/")
	n.matched(false, obj{"load_state": "network_quiet", "timeout_ms": 800})
	end := n.waits(obj{"load_state": "network_quiet"})
	close(release)
	if a := end(); a.m["matched"] != true || n.eval("p.textContent") != "quiet" {
		t.Errorf("%s (%s)", a.json, a.Evidence)
	}
	if a := n.must("navigate", obj{"url": srv.URL + "/", "wait_until": "network_quiet"}); n.eval("p.textContent") != "quiet" || a.Effect != "confirmed" {
		t.Errorf("navigate: %s %s", a.json, a.Evidence)
	}
}

// A dialog ends the wait, and is named; a call that is given up ends at once.
func TestWaitForEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<p>x</p>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	failed := make(chan *capabilities.Error, 1)
	go func() {
		_, err := n.try("wait-for", obj{"text": "never"})
		failed <- err
	}()
	n.matched(false, obj{"text": "never", "timeout_ms": 30})
	n.eval(`setTimeout(() => alert('stop'), 1); 1`)
	if err := <-failed; err == nil || err.Code != capabilities.CodeDialogOpen {
		t.Errorf("dialog: %v", err)
	}
	n.must("handle-dialog", obj{"accept": true})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, err := n.within(ctx, "wait-for", obj{"text": "never"})
		failed <- err
	}()
	n.matched(false, obj{"text": "never", "timeout_ms": 30})
	cancel()
	if err := <-failed; err == nil || err.Code != capabilities.CodeCancelled {
		t.Errorf("cancelled: %v", err)
	}
	// Short deadlines of the caller are an answer too.
	n.before(600*time.Millisecond, func(ctx context.Context) error {
		if a, err := n.within(ctx, "wait-for", obj{"text": "never"}); err != nil || a.m["matched"] != false {
			return fmt.Errorf("short: %v %s", err, a.json)
		}
		return nil
	})
}

func TestMatchURL(t *testing.T) {
	for _, tc := range []struct {
		want, url string
		ok        bool
	}{
		{"/cart", "http://x/cart?y", true}, {"/cart", "http://x/card", false}, {"*/cart", "http://x/cart", true}, {"*/cart", "http://x/cart?y", false},
		{"http://*/a/*", "http://x/a/b", true}, {"http://*.x/(a", "http://y.x/(a", true}, {"*", "", true}, {"", "http://x", true},
	} {
		if matchURL(tc.want, tc.url) != tc.ok {
			t.Errorf("%q %q: want %v", tc.want, tc.url, tc.ok)
		}
	}
}
