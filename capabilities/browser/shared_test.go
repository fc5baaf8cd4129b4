//go:build linux

package browser

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	cdpstorage "github.com/chromedp/cdproto/storage"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/outline"
)

// sharedPages are the tabs, each with its site, of the tests about the content of one document:
// a renderer, which takes as long to start as most of them need, serves one after the other. A
// test takes a tab that no other has. Its traces are cleared before the next. A tab of which it
// made more than a document ends with it, and so does one after a failure.
var sharedPages pages

type pages struct {
	mu   sync.Mutex
	idle []*sharedPage // the latest last
}

// sharedPage is a tab: that of a lane of its Chrome, on a site of its own.
type sharedPage struct {
	*sharedHandler
	site *site
}

// afresh is the path at which a site of shared pages serves a document with nothing in it.
const afresh = "/afresh"

// newPage serves pages and returns a node with one tab, which other tests have had and will have.
func newPage(t testing.TB, pages map[string]string) (*site, *node) {
	p := sharedPages.take(t, pages)
	t.Cleanup(func() { sharedPages.takeBack(t, p) })
	return p.site, &node{t: t, h: p.h, lane: "lane-1", log: &p.log}
}

func (s *pages) take(t testing.TB, served map[string]string) *sharedPage {
	t.Helper()
	s.mu.Lock()
	var mine *sharedPage
	if last := len(s.idle) - 1; last >= 0 {
		mine, s.idle = s.idle[last], s.idle[:last]
	}
	s.mu.Unlock()
	if mine == nil {
		mine = &sharedPage{site: serve(nil)}
	}
	mine.site.mu.Lock()
	mine.site.served, mine.site.hits, mine.site.last = served, map[string]int{}, map[string]string{}
	mine.site.mu.Unlock()
	if mine.sharedHandler == nil {
		mine.sharedHandler = shared.take(t, []string{mine.site.URL})
	}
	mine.log.reset()
	return mine
}

func (s *pages) takeBack(t testing.TB, p *sharedPage) {
	if t.Failed() || !p.clear() {
		shared.takeBack(t, p.sharedHandler)
		p.sharedHandler = nil
	}
	s.mu.Lock()
	s.idle = append(s.idle, p)
	s.mu.Unlock()
}

// close ends them all, when no test has one any more.
func (s *pages) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, p := range s.idle {
		if p.sharedHandler != nil {
			errs = append(errs, p.h.Close())
		}
		p.site.Close()
	}
	s.idle = nil
	return errors.Join(errs...)
}

// clear makes the lane what a new one is, with its tab open; it reports false where the test left
// more in it than a document's state.
func (p *sharedPage) clear() bool {
	p.h.mu.Lock()
	l, lanes := p.h.lanes["lane-1"], len(p.h.lanes)
	p.h.mu.Unlock()
	if l == nil || lanes != 1 || !l.plain() {
		return false
	}
	tab := l.active
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	none := cdp.Empty{}
	before, _ := tab.look()
	made, err := devtools.Do(ctx, tab.s, page.Navigate, page.NavigateParams{URL: p.site.URL + afresh})
	if err != nil || made.ErrorText != "" || tab.await(ctx, func(s tabState) bool {
		return s.loader == made.LoaderID && s.loaded || s.dialogs != before.dialogs
	}) != nil {
		return false
	}
	for _, step := range []*devtools.Pending{
		devtools.Start(ctx, tab.s, runtime.Evaluate, runtime.EvaluateParams{Expression: "sessionStorage.clear()"}).Pending,
		devtools.Start(ctx, tab.s, cdpstorage.ClearDataForOrigin, cdpstorage.ClearDataForOriginParams{Origin: p.site.URL, StorageTypes: "all"}).Pending,
		devtools.Start(ctx, tab.s, network.ClearBrowserCookies, none).Pending,
		devtools.Start(ctx, tab.s, network.ClearBrowserCache, none).Pending,
		devtools.Start(ctx, tab.s, page.ResetNavigationHistory, none).Pending,
		devtools.Start(ctx, tab.s, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: -1, Y: -1}).Pending,
		devtools.Start(ctx, tab.chrome.Root, cdpbrowser.ResetPermissions, cdpbrowser.ResetPermissionsParams{BrowserContextID: l.context}).Pending,
	} {
		if _, err := step.Wait(ctx); err != nil {
			return false
		}
	}
	if !l.plain() {
		return false
	}
	l.mu.Lock()
	l.toldOf, l.frames, l.shots, l.memory, l.nextRef = nil, 0, 0, outline.Memory{}, 1
	l.typed, l.copied, l.observer, l.cause, l.late, l.origins, l.unseen = typedSecrets{}, "", nil, nil, nil, nil, nil
	l.mu.Unlock()
	tab.console.Reset()
	tab.network.Reset()
	tab.mu.Lock()
	tab.known, tab.frames, tab.state.seeks, tab.state.sought = false, newFrames(), 0, sought{}
	tab.mu.Unlock()
	return true
}

// plain reports whether the lane has one tab and nothing but what its document made of it.
func (l *lane) plain() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.tabs) != 1 || l.active != l.tabs[0] || l.ended || l.retired || l.lost != nil || l.chrome == nil || !l.chrome.Alive() ||
		l.way != (way{headless: true}) || l.files != nil || l.hosts != nil || l.uploads != 0 {
		return false
	}
	tab := l.active
	tab.mu.Lock()
	defer tab.mu.Unlock()
	now := tab.state
	l.downloads.mu.Lock()
	defer l.downloads.mu.Unlock()
	return len(l.downloads.list) == 0 && len(l.rules.list) == 0 && l.rules.next == 0 && reflect.ValueOf(l.emulated).IsZero() &&
		tab.opener == "" && !tab.bound && tab.armed == nil && !tab.leaving && tab.patience == 0 && tab.buttons == 0 && !tab.crashed &&
		!tab.told && tab.traced == nil && now.failed == "" && now.unparsed == 0 && now.dialogs == 0 && now.choosers == 0 &&
		now.opened == 0 && now.asked == "" && now.downloads == 0 && now.open == nil && now.drag == nil &&
		now.chooser == nil && !now.silenced && !now.outside
}
