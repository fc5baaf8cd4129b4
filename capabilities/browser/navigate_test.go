//go:build linux

package browser

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestNavigateBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{
		"/1": html(`<p id=p>one</p><script>var kept='no'</script>`), "/2": html(`<p>two</p><button onclick="history.pushState(0,'','/2/inner');document.title='inner'">Push</button>`),
	})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/1")
	n.eval("kept='yes'; p.textContent='changed'")
	n.goTo(s.URL + "/2")
	n.must("click", obj{"selector": "button"})
	for _, step := range []struct {
		args obj
		path string
		text string
	}{
		{obj{}, "/2", "two"}, {obj{"direction": "back"}, "/1", ""}, {obj{"direction": "forward"}, "/2", "two"}, {obj{"direction": "forward"}, "/2/inner", "two"},
		{obj{"direction": "back"}, "/2", "two"}, {obj{"direction": "back"}, "/1", ""}, {obj{"direction": "reload"}, "/1", "one"},
	} {
		a := n.must("navigate-back", step.args)
		if a.m["url"] != s.URL+step.path || a.Effect != "confirmed" || n.eval("location.pathname") != step.path || a.m["status"] != nil {
			t.Errorf("%v: %s (%s %s), want %s", step.args, a.json, a.Effect, a.Evidence, step.path)
		}
		if step.text != "" && n.eval("document.querySelector('p').textContent") != step.text {
			t.Errorf("%v: the page shows %v", step.args, n.eval("document.body.textContent"))
		}
	}
	if s.count("/1") < 2 {
		t.Error("reload did not ask the server")
	}
	if a := n.must("navigate-back", obj{"direction": "reload", "snapshot": "full"}); a.m["snapshot"] == nil {
		t.Errorf("no snapshot: %s", a.json)
	}
	fresh := n.on("lane-2")
	fresh.must("tabs", obj{"action": "new"})
	fresh.refused(capabilities.CodeNavigationFailed, "navigate-back", obj{})
	fresh.refused(capabilities.CodeNavigationFailed, "navigate-back", obj{"direction": "forward"})
	// Reloading what cannot be loaded any more says so.
	s.Close()
	n.refused(capabilities.CodeNavigationFailed, "navigate-back", obj{"direction": "reload"})
}

// The error page of a failed navigation is there when the failure is told: the next
// call goes on from it.
func TestNavigateBackFromAFailure(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`one`)})
	n.goTo(s.URL + "/")
	for range 5 {
		for _, direction := range []string{"forward", "reload"} {
			n.refused(capabilities.CodeNavigationFailed, "navigate", obj{"url": "http://nowhere.invalid/"})
			n.refused(capabilities.CodeNavigationFailed, "navigate-back", obj{"direction": direction})
		}
		n.refused(capabilities.CodeNavigationFailed, "navigate", obj{"url": "http://nowhere.invalid/"})
		if a := n.must("navigate-back", obj{}); a.m["url"] != s.URL+"/" || n.eval("document.body.textContent") != "one" {
			t.Fatalf("back: %s", a.json)
		}
	}
}

// A site's password is given in the address, and comes back nowhere. The second time
// Chrome's history has the address already.
func TestPasswordInAnAddress(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, nil)
	with := func(who string) string { return strings.Replace(s.URL, "://", "://"+who+"@", 1) + "/auth" }
	for _, address := range []string{s.URL + "/auth", with("ann:wrong")} {
		if err := n.refused(capabilities.CodeNavigationFailed, "navigate", obj{"url": address}); !strings.Contains(err.PublicMessage(), "password") {
			t.Errorf("%s: %v", address, err)
		}
	}
	for range 2 {
		if a := n.goTo(with("ann:s3cret")); a.m["url"] != s.URL+"/auth" || n.eval("document.body.textContent") != "welcome" {
			t.Fatalf("opened %s", a.json)
		}
	}
	for tool, args := range map[string]obj{
		"tabs": {}, "snapshot": {}, "screenshot": {}, "network-requests": {}, "console-messages": {}, "wait-for": {"text": "welcome"}, "navigate-back": {"direction": "reload"},
	} {
		if a := n.must(tool, args); strings.Contains(a.json, "s3cret") || strings.Contains(a.Evidence, "s3cret") || strings.Contains(a.json, "ann") {
			t.Errorf("%s tells the password: %s %s", tool, a.json, a.Evidence)
		}
	}
}

// An action that opens a tab says which, and what it shows.
func TestActionsTellOfTheTabsTheyOpen(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{
		"/": html(`<a id=link target=_blank href="/2?a">L</a><a id=own target=_blank rel=opener href="/2?b">L</a><button id=pop onclick="this.textContent = 1; window.open('/redirect?to=/2?c')">P</button>
<form target=_blank action=/2><input name=q></form><button id=asks onclick="confirm('?') && window.open('/2?f')">A</button>
<button id=none>N</button><button id=away onclick="window.open('/2?g'); location = '/2?h'">W</button>`),
		"/2": html(`two`),
	})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	told := func(a answer, evidence string, want ...string) {
		t.Helper()
		list, _ := a.m["opened_tabs"].([]any)
		if a.Effect != capabilities.EffectConfirmed || !strings.Contains(a.Evidence, evidence) || len(list) != len(want) {
			t.Fatalf("%s (%s) %s; want %s %v", a.Effect, a.Evidence, a.json, evidence, want)
		}
		all := n.must("tabs", obj{}).m["tabs"].([]any)
		for i, tab := range list {
			e := tab.(obj)
			if e["url"] != s.URL+want[i] || all[int(e["index"].(float64))].(obj)["url"] != e["url"] {
				t.Errorf("%s: %v %v", a.json, want, all)
			}
		}
	}
	told(n.must("click", obj{"selector": "#link"}), "a new tab was opened, tab 1", "/2?a")
	told(n.must("click", obj{"selector": "#own", "snapshot": "full"}), "a new tab was opened, tab 2, which the snapshot does not show", "/2?b")
	told(n.must("click", obj{"selector": "#pop", "snapshot": "delta"}), "a new tab was opened, tab 3, which", "/2?c")
	told(n.must("type", obj{"selector": "[name=q]", "text": "x", "submit": true}), "a new tab was opened, tab 4", "/2?q=x")
	n.refused(capabilities.CodeElementNotFound, "click", obj{"selector": "#nothing"})
	if a := n.must("click", obj{"selector": "#none"}); strings.Contains(a.json, "opened_tabs") {
		t.Error(a.json)
	}
	n.must("click", obj{"selector": "#asks"})
	told(n.must("handle-dialog", obj{"accept": true}), "a new tab was opened, tab 5", "/2?f")
	told(n.must("click", obj{"selector": "#away"}), "a new document was opened; a new tab was opened, tab 6", "/2?g")
}

// Chrome lets nobody at a tab that a link opened until its server answers: calls say so,
// and the tab can be used then, and be sent elsewhere before.
func TestTabsOfSilentServers(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<a id=slow target=_blank href=/slow>S</a><a id=hang target=_blank href=/hang>H</a>`), "/2": html(`two`)})
	n := newNode(t, s.URL)
	answer := make(chan struct{})
	site := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
		site.ServeHTTP(w, r)
	})
	for link, then := range map[string]func(n *node){
		"#slow": func(n *node) {
			wait := n.inBackground(t.Context(), "wait-for", obj{"text": "404"})
			close(answer)
			if a, err := wait(); err != nil || a.m["matched"] != true {
				t.Errorf("%v %s", err, a.json)
			}
		},
		"#hang": func(n *node) {
			if a := n.must("navigate", obj{"url": s.URL + "/2", "snapshot": "full"}); !strings.Contains(a.json, "two") {
				t.Error(a.json)
			}
		},
	} {
		t.Run(link[1:], func(t *testing.T) {
			t.Parallel() // each waits for long
			n := n.on(capabilities.LaneID(link[1:]))
			n.goTo(s.URL + "/")
			if a := n.must("click", obj{"selector": link}); a.Evidence != "a new tab was opened, tab 1, which shows nothing yet" {
				t.Errorf("%s (%s) %s", a.Effect, a.Evidence, a.json)
			}
			n.must("tabs", obj{"action": "select", "index": 1})
			if err := n.refused(capabilities.CodeDeadlineExceeded, "snapshot", obj{}); !strings.Contains(err.PublicMessage(), "first page is on its way") {
				t.Error(err)
			}
			then(n)
		})
	}
}

// A page that never finishes is waited for once, not by each call.
func TestPagesThatNeverFinish(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`here`)})
	n := newNode(t, s.URL)
	site := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site.ServeHTTP(w, r)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	n.must("navigate", obj{"url": s.URL + "/", "wait_until": "none"})
	n.snap()
	ctx, cancel := context.WithTimeout(t.Context(), settleWait-time.Second)
	defer cancel()
	if a, err := n.within(ctx, "snapshot", obj{}); err != nil || !strings.Contains(a.json, "here") {
		t.Errorf("%v %s", err, a.json)
	}
}

// A tab over the limit is closed at once, and the action that opened it says so.
func TestActionsTellOfTabsOverTheLimit(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{
		"/": html(`<a id=link target=_blank href="/2?a">L</a><button id=pop onclick="window.open('/2?b')">P</button>
<button id=away onclick="window.open('/2?e'); location = '/2?f'">W</button>`),
		"/2": html(`two`),
	})
	n := newNodeAlone(t, s.URL)
	n.h.o.MaxTabs = 2
	n.goTo(s.URL + "/")
	const closed = "a new tab was closed at once. This conversation already has 2 tabs open. Close one with tool.browser.tabs first."
	told := func(evidence string, a answer) {
		t.Helper()
		if a.Effect != capabilities.EffectPartial || a.Evidence != evidence {
			t.Errorf("%s (%s), want %s", a.Effect, a.Evidence, evidence)
		}
		if all := n.must("tabs", obj{}).m["tabs"].([]any); len(all) != 2 {
			t.Errorf("%d tabs", len(all))
		}
	}
	n.must("click", obj{"selector": "#link"})
	told(closed, n.must("click", obj{"selector": "#link"}))
	told(closed, n.must("click", obj{"selector": "#pop"}))
	told("a new document was opened; "+closed, n.must("click", obj{"selector": "#away"}))
	n.must("tabs", obj{"action": "close", "index": 1})
	n.goTo(s.URL + "/")
	if a := n.must("click", obj{"selector": "#link"}); a.Effect != capabilities.EffectConfirmed || a.Evidence != "a new tab was opened, tab 1" {
		t.Errorf("%s (%s)", a.Effect, a.Evidence)
	}
}

// That a tab was one too many is known when Chrome shows it, whenever its process answers.
func TestTabsOverTheLimitAreToldAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("one")})
	n := newNodeAlone(t, s.URL)
	n.h.o.MaxTabs = 1
	n.goTo(s.URL + "/")
	from := n.activeTab()
	from.lane.mu.Lock()
	in := from.lane.context
	from.lane.mu.Unlock()
	before, _ := from.look()
	from.chrome.adopt("silent", "silent", in, from.id, false)
	defer from.chrome.dropSession("silent")
	if now, _ := from.look(); now.opened != before.opened+1 || now.overLimit != before.overLimit+1 {
		t.Errorf("%d tabs told, %d over the limit", now.opened-before.opened, now.overLimit-before.overLimit)
	}
}

// That a tab was opened is told once the list of tabs has it. The tab comes as Chrome tells of one,
// but not by Chrome's own events: an earlier one of them may wait for the lane, too.
func TestOpenedTabsAreListedWhenTold(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("one")})
	n := newNodeAlone(t, s.URL)
	n.goTo(s.URL + "/")
	from := n.activeTab()
	l, c := from.lane, from.chrome
	before, _ := from.look()
	c.mu.Lock()
	met := c.arrived
	c.mu.Unlock()
	l.mu.Lock() // nothing enters the list now
	in := l.context
	adopted := make(chan struct{})
	go func() {
		c.adopt("silent", "silent", in, from.id, false)
		close(adopted)
	}()
	<-met
	now, _ := from.look()
	l.mu.Unlock()
	<-adopted
	defer c.dropSession("silent")
	if now.opened != before.opened {
		t.Errorf("%d tabs told before the list has them", now.opened-before.opened)
	}
	after, _ := from.look()
	if all, _ := l.list(); after.opened != before.opened+1 || len(all) != 2 {
		t.Errorf("%d tabs told, %d listed", after.opened-before.opened, len(all))
	}
}

// An action that leads to a server's error page says so.
func TestActionsTellOfErrorPages(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<a id=gone href=/gone>G</a><form action=/gone><input name=q></form><a id=fine href=/2>F</a><a id=twice href="/redirect?to=/gone">T</a>`), "/2": html(`two`)})
	for _, tc := range []struct {
		tool string
		args obj
		told bool
	}{
		{"click", obj{"selector": "#gone"}, true}, {"click", obj{"selector": "#twice"}, true}, {"click", obj{"selector": "#fine"}, false},
		{"type", obj{"selector": "[name=q]", "text": "x", "submit": true}, true},
	} {
		n.goTo(s.URL + "/")
		if a := n.must(tc.tool, tc.args); strings.Contains(a.Evidence, "a new document was opened; the server answered with status 404") != tc.told || a.Effect != capabilities.EffectConfirmed {
			t.Errorf("%v: %s (%s)", tc.args, a.Effect, a.Evidence)
		}
	}
}

// The list of tabs waits for the address of one that a page just opened, as far
// as it gets one.
func TestTabsOfPopups(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{
		"/": html(`<button id=page onclick="window.open('/2')">P</button><a id=link target=_blank href=/2>L</a><button id=blank onclick="window.open('')">B</button>
<button id=later onclick="const w=window.open('');setTimeout(()=>w.location='/2')">S</button>
<button id=empty onclick="window.open('/204')">E</button><button id=script onclick="window.open('javascript:1')">N</button>`),
		"/2": html(`two`),
	})
	for button, want := range map[string]string{
		"#with": s.URL + "/2",
		"#page": s.URL + "/2", "#link": s.URL + "/2", "#later": s.URL + "/2", "#blank": "about:blank", "#empty": "", "#script": "",
	} {
		n.goTo(s.URL + "/")
		if button == "#with" { // nobody holds such a tab back, and it names no opener
			if a := n.must("click", obj{"selector": "#link", "modifiers": []string{"Control"}}); a.Evidence != "a new tab was opened, tab 1" {
				t.Errorf("a click with Control: %s %q", a.Effect, a.Evidence)
			}
		} else {
			n.must("click", obj{"selector": button})
		}
		// Its wait is bounded, and a busy machine may need longer.
		n.until("the tab has its address", func() bool {
			list := n.must("tabs", obj{}).m["tabs"].([]any)
			return len(list) == 2 && list[1].(obj)["url"] == want
		})
		if button == "#with" {
			n.must("tabs", obj{"action": "select", "index": 1})
			n.must("wait-for", obj{"url": "**/2"})
		}
		n.must("tabs", obj{"action": "close", "index": 1})
	}
}

// The page's own process tells of a new document before Chrome's has it: until then
// Chrome names the one before, and that is not taken for an answer.
func TestAnAnswerFromBefore(t *testing.T) {
	says := func(url string) page.GetNavigationHistoryResult {
		return page.GetNavigationHistoryResult{Entries: []*page.NavigationEntry{{URL: url}}}
	}
	for name, tc := range map[string]struct {
		before, says string
		page         func(tab *tab)
		want         bool
	}{
		"nothing new":          {"a", "a", func(tab *tab) {}, false},
		"a new tab":            {"about:blank", "", func(tab *tab) { tab.committed("l", false, "", "b") }, true},
		"Chrome has it":        {"about:blank", "b", func(tab *tab) { tab.committed("l", false, "", "b") }, false},
		"the page before":      {"a", "a", func(tab *tab) { tab.committed("l", false, "", "b") }, true},
		"a newer one":          {"a", "c", func(tab *tab) { tab.committed("l", false, "", "b") }, false},
		"loaded anew":          {"a", "a", func(tab *tab) { tab.committed("l", false, "", "a") }, false},
		"an error page":        {"a", "a", func(tab *tab) { tab.committed("l", false, "b", "chrome-error://chromewebdata/") }, true},
		"an error page, there": {"a", "b", func(tab *tab) { tab.committed("l", false, "b", "chrome-error://chromewebdata/") }, false},
		"within the page":      {"a", "a", func(tab *tab) { tab.change(func(s *tabState) { s.inPage++; s.url = "a#b" }) }, true},
	} {
		tab := newTab(nil, "tab", "")
		tab.placed.url, tab.state.url = tc.before, tc.before
		tc.page(tab)
		if got := tab.behind(says(tc.says)); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestSettleOpened(t *testing.T) {
	const url = "https://example.org/"
	start := func(tab *tab) {
		tab.change(func(s *tabState) { s.navigating = "l"; s.started++ })
	}
	arrive := func(tab *tab) { tab.committed("l", false, "", url) }
	for name, tc := range map[string]struct {
		opener bool
		after  time.Duration // how old the tab is when the list is asked for
		page   func(tab *tab)
		bound  time.Duration // of the call; 0: none
		want   time.Duration // when the list goes on, from the call
	}{
		"a slow machine": {true, 0, func(tab *tab) {
			time.Sleep(3 * time.Second)
			close(tab.ready)
			time.Sleep(time.Second / 2)
			start(tab)
			arrive(tab)
		}, 0, 3500 * time.Millisecond},
		"a slow server":      {true, 0, func(tab *tab) { close(tab.ready); start(tab); time.Sleep(3 * time.Second); arrive(tab) }, 0, 3 * time.Second},
		"its script goes on": {true, 0, func(tab *tab) { close(tab.ready); arrive(tab); start(tab); time.Sleep(time.Second); arrive(tab) }, 0, time.Second},
		"nothing comes":      {true, 0, func(tab *tab) { close(tab.ready) }, 0, firstNavigation},
		"an address was asked for": {true, 0, func(tab *tab) {
			tab.bound = true
			close(tab.ready)
			time.Sleep(3 * time.Second)
			start(tab)
			arrive(tab)
		}, 0, 3 * time.Second},
		"no document": {true, 0, func(tab *tab) {
			close(tab.ready)
			start(tab)
			time.Sleep(time.Second)
			tab.change(func(s *tabState) { s.navigating = "" })
		}, 0, time.Second},
		"hangs":                 {true, 0, func(tab *tab) { close(tab.ready); start(tab) }, 0, firstDocument},
		"hangs, a short call":   {true, 0, func(tab *tab) { close(tab.ready); start(tab) }, time.Second, 800 * time.Millisecond},
		"closes":                {true, 0, func(tab *tab) { time.Sleep(time.Second); tab.end(errTabClosed) }, 0, time.Second},
		"asked again":           {true, 4 * time.Second, func(tab *tab) { close(tab.ready); start(tab) }, 0, firstDocument - 4*time.Second},
		"hangs for long":        {true, firstDocument, func(tab *tab) { close(tab.ready); start(tab) }, 0, 0},
		"opened by the caller":  {false, 0, func(tab *tab) { close(tab.ready); start(tab) }, 0, 0},
		"has been there before": {true, 0, func(tab *tab) { close(tab.ready); start(tab); arrive(tab) }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tc.bound > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.bound)
					defer cancel()
				}
				opener := "opener"
				if !tc.opener {
					opener = ""
				}
				tab := newTab(nil, "tab", target.ID(opener))
				go tc.page(tab)
				time.Sleep(tc.after)
				synctest.Wait()
				began := time.Now()
				newCall(ctx, nil, nil, capabilities.Invocation{}, nil).settleOpened(&laneTab{tab: tab})
				if took := time.Since(began); took != tc.want {
					t.Errorf("waited %s, want %s", took, tc.want)
				}
			})
		})
	}
}

// An address within the document is told as it is now, not as it was.
// Answers that became no document (204, a download) must not crowd out those that do:
// the status of the seventeenth was lost, and an error page told as the page asked for.
func TestStatusAfterManyAnswersWithoutADocument(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html("here"), "/ok": html("ok")})
	n.goTo(s.URL + "/")
	for range 20 {
		n.refused(capabilities.CodeNavigationFailed, "navigate", obj{"url": s.URL + "/204"})
	}
	if a := n.goTo(s.URL + "/missing"); a.m["status"] != 404.0 || a.Effect != capabilities.EffectPartial {
		t.Error(a.json, a.Effect, a.Evidence)
	}
	if a := n.goTo(s.URL + "/ok"); a.m["status"] != 200.0 || a.Effect != capabilities.EffectConfirmed {
		t.Error(a.json, a.Effect, a.Evidence)
	}
}

func TestNavigateWithinDocument(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html("here")})
	n.goTo(s.URL + "/")
	for i := range 30 {
		want := s.URL + "/#part" + strconv.Itoa(i)
		for range 2 { // the second time it is the same
			if a := n.goTo(want); a.m["url"] != want {
				t.Errorf("%v, want %s", a.m["url"], want)
			}
		}
	}
}

// A link of another program is not followed, because Chrome's question about it takes the
// tab's input; where a page asked by itself, leaving it ends that.
func TestOtherPrograms(t *testing.T) {
	t.Parallel()
	const page = `<a href="tel:1" id=tel>Call</a> <u id=script onclick="location='zoommtg:x'">Meet</u><button id=go onclick="this.textContent+='!'">Go</button>`
	s, n := newPage(t, map[string]string{"/": html(page), "/asks": html(page + `<script>onload = () => { location = 'slack:x' }</script>`)})
	// Chrome's question comes after it asked the system about the program.
	later := func() {
		t.Helper()
		n.eval("new Promise(done => setTimeout(done, 1000))")
	}
	pressed := func() string {
		t.Helper()
		n.must("click", obj{"selector": "#go"})
		text, _ := n.eval("go.textContent").(string)
		return text
	}
	n.goTo(s.URL)
	for i, link := range []string{"#tel", "#script"} {
		if r := n.must("click", obj{"selector": link}); r.Effect != capabilities.EffectPartial || !strings.Contains(r.Evidence, "another program") {
			t.Errorf("%s: %s %q", link, r.Effect, r.Evidence)
		}
		later()
		if got := pressed(); got != "Go"+strings.Repeat("!", i+1) {
			t.Errorf("after %s the page takes no input: %q", link, got)
		}
	}
	n.goTo(s.URL + "/asks")
	r := n.must("click", obj{"selector": "#go"})
	for end := time.Now().Add(time.Minute); !strings.Contains(r.Evidence, "navigate ends that"); r = n.must("click", obj{"selector": "#go"}) {
		if r.Effect != capabilities.EffectConfirmed || time.Now().After(end) {
			t.Fatalf("%s %q", r.Effect, r.Evidence)
		}
	}
	n.goTo(s.URL + "/?again")
	if got := pressed(); got != "Go!" {
		t.Errorf("after the page that asked was left the tab takes no input: %q", got)
	}
}
