package browser

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"

	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// This file is about when a page is ready, which is when it can be worked with. One
// function says so, for navigate, navigate-back, new tabs and clicks that navigate.
//
// The rule:
//
//   - At load a document is ready; fetches to its own site that began before load are
//     waited for there, 300 ms at most, with two frames for what their answers change.
//   - Before load it is ready when it is parsed, what was visible has been drawn, and for
//     150 ms none of the scripts, styles, frames or fetches that began in its first second
//     has been open.
//   - Images, media, beacons and streams never hold it, nor does a fetch older than 1 s: a
//     long poll cannot be told from a slow answer earlier.
//   - A document that shows something and goes on streaming counts as parsed after 250 ms
//     without a new element.
//   - 5 s after the document was parsed it is no longer waited for. Neither is one that
//     goes on getting elements, 5 s after it first showed something, nor one that shows
//     nothing, 5 s after it was committed.
//   - The result says what was still open.
const (
	readyFetches = 300 * time.Millisecond
	readyQuiet   = 150 * time.Millisecond
	readyFirst   = time.Second
	readyStill   = 250 * time.Millisecond
	readyCap     = 5 * time.Second
)

// progress is how far a document has come. Times are of this machine's clock; zero: not yet.
type progress struct {
	committed, shown, parsed, drawn, loaded time.Time
	asked                                   int64 // the last request before load
}

// readiness is the rule's word on a document at a moment. Where only time is missing, left is how
// much.
type readiness struct {
	ready  bool
	capped bool // it was given up
	left   time.Duration
	drawn  bool // it is ready once two more frames are drawn
}

// judge applies the rule. own are the requests of the document, site its address.
func (p progress) judge(now time.Time, site string, own []record.Transfer) readiness {
	if !p.loaded.IsZero() {
		return p.judgeLoaded(now, site, own)
	}
	since := p.parsed
	if since.IsZero() {
		since = p.shown
	}
	if since.IsZero() {
		since = p.committed
	}
	switch capped := now.Sub(since) >= readyCap; {
	case since.IsZero():
		return readiness{}
	case capped:
		return readiness{ready: true, capped: true}
	case p.parsed.IsZero() || p.drawn.IsZero():
		return readiness{left: readyCap - now.Sub(since)}
	}
	quiet := p.committed
	for _, q := range own {
		if q.Main || !holdsPage[q.Kind] || q.Began.Sub(p.committed) >= readyFirst {
			continue
		}
		fetch := isFetch[q.Kind]
		switch {
		case fetch && q.Age(now) >= readyFirst || q.Stream:
		case !q.Ended.IsZero():
			if q.Ended.After(quiet) {
				quiet = q.Ended
			}
		case fetch:
			return readiness{left: readyFirst - q.Age(now)}
		default:
			return readiness{left: readyCap - now.Sub(since)}
		}
	}
	if rest := readyQuiet - now.Sub(quiet); rest > 0 {
		return readiness{left: rest}
	}
	return readiness{ready: true}
}

// judgeLoaded is the rule from load on.
func (p progress) judgeLoaded(now time.Time, site string, own []record.Transfer) readiness {
	end := p.loaded.Add(readyFetches)
	waited := false
	for _, q := range own {
		if !isFetch[q.Kind] || q.Seq > p.asked || q.Stream || !sameSite(site, q.URL) {
			continue
		}
		switch {
		case !q.Ended.IsZero():
			waited = waited || q.Ended.After(p.loaded) && q.Ended.Before(end)
		case q.Age(now) < readyFirst && now.Before(end):
			return readiness{left: min(readyFirst-q.Age(now), end.Sub(now))}
		}
	}
	if left := end.Sub(now); waited && left > 0 && p.drawn.Before(p.loaded) {
		return readiness{ready: true, drawn: true, left: left}
	}
	return readiness{ready: true}
}

var (
	holdsPage = map[string]bool{"script": true, "stylesheet": true, "document": true, "xhr": true, "fetch": true}
	isFetch   = map[string]bool{"xhr": true, "fetch": true}
)

// standing is what a wait for a page ended with.
type standing struct {
	open   []openRequest
	capped bool // it was given up
	blank  bool // so far it was neither parsed nor showed anything
}

// openRequest is a request that was not answered in full.
type openRequest struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

// awaitPage waits until the document shown is ready, or over holds for the tab. One that
// another is about to replace is not.
func (t *tab) awaitPage(ctx context.Context, over func(tabState) bool) (standing, error) {
	var ask asking
	defer func() { ask.stop() }()
	for {
		s, changed := t.look()
		if over(s) {
			return standing{}, nil
		}
		var at readiness
		if s.navigating == "" {
			now := time.Now()
			own := t.network.Transfers()
			if at = s.progress.judge(now, s.url, own); at.ready && !at.drawn {
				if at.capped && s.progress.parsed.IsZero() {
					t.change(func(now *tabState) { now.unparsed = s.documents }) // nobody waits for it again
				}
				return s.standing(at, own, t.lane.hider()), nil
			}
			at.left = ask.next(ctx, t, s, at, now)
		}
		var rest <-chan time.Time
		if at.left > 0 {
			timer := time.NewTimer(at.left)
			defer timer.Stop()
			rest = timer.C
		}
		select {
		case <-changed:
		case <-rest:
		case <-t.life.Done():
			return standing{}, context.Cause(t.life)
		case <-ctx.Done():
			return s.standing(at, t.network.Transfers(), t.lane.hider()), ctx.Err()
		}
	}
}

// listed names requests, bounded; what was typed in secret is taken out before the cut.
func listed(all []record.Transfer, h *hider) (open []openRequest) {
	for _, q := range all[:min(len(all), maxOpen)] {
		open = append(open, openRequest{q.Kind, clipText(h.text(q.URL), maxOpenURL)})
	}
	return open
}

// standing says what is open: before load all that is, from load on what was waited for.
func (s *tabState) standing(at readiness, own []record.Transfer, h *hider) standing {
	loaded := !s.progress.loaded.IsZero()
	blank := s.progress.parsed.IsZero() && s.progress.shown.IsZero()
	return standing{capped: at.capped, blank: blank, open: listed(slices.DeleteFunc(own, func(q record.Transfer) bool {
		return !q.Ended.IsZero() || q.Stream || loaded && !(isFetch[q.Kind] && q.Seq <= s.progress.asked && sameSite(s.url, q.URL))
	}), h)}
}

// Bounds of what a result says of requests that are open.
const (
	maxOpen    = 20
	maxOpenURL = 500
)

// words says it without a word of the page's.
func (s standing) words() string {
	if len(s.open) == 0 {
		return ""
	}
	return "; still open: " + countKinds(s.open)
}

// countKinds says how many requests of each type there are.
func countKinds(all []openRequest) string {
	count := map[string]int{}
	var kinds []string
	for _, q := range all {
		if count[q.Type]++; count[q.Type] == 1 {
			kinds = append(kinds, q.Type)
		}
	}
	slices.Sort(kinds)
	for i, kind := range kinds {
		name := kind
		if kind == "other" {
			name = "other request"
		}
		if count[kind] > 1 && kind != "media" && kind != "xhr" {
			name += "s"
		}
		kinds[i] = fmt.Sprintf("%d %s", count[kind], strings.Replace(name, "fetchs", "fetches", 1))
	}
	return strings.Join(kinds, ", ")
}

// asking has the page say what only it knows: that it was drawn, or gets no new elements.
type asking struct {
	documents int
	question  inpage.Function
	loaded    bool // after load
	cancel    context.CancelFunc
	done      chan struct{}
}

// How long a page is given to be parsed or loaded before it is asked: most need less.
const askAfter = 40 * time.Millisecond

// next asks what is to be asked, and says how long nothing but an event needs a look.
func (a *asking) next(ctx context.Context, t *tab, s tabState, at readiness, now time.Time) time.Duration {
	p, question, since, loaded := s.progress, inpage.Function(""), time.Time{}, false
	switch {
	case at.drawn:
		question = inpage.Drawn // by what the answers of fetches changed
		loaded = true
	case !p.loaded.IsZero():
	case p.parsed.IsZero():
		question, since = inpage.Streams, p.shown
	case p.drawn.IsZero():
		question, since = inpage.Drawn, p.parsed
	}
	if question == "" || since.IsZero() && question == inpage.Streams ||
		a.documents == s.documents && a.question == question && a.loaded == loaded {
		return at.left
	}
	if wait := askAfter - now.Sub(since); wait > 0 {
		return wait
	}
	a.stop()
	a.documents, a.question, a.loaded = s.documents, question, loaded
	ctx, a.cancel = context.WithCancel(ctx)
	a.done = make(chan struct{})
	go func() {
		defer close(a.done)
		w, err := t.inWorld(ctx)
		if err != nil || w.put(ctx, question, map[string]int64{"still": readyStill.Milliseconds()}).get(ctx, nil) != nil {
			return
		}
		t.change(func(now *tabState) {
			if now.documents != s.documents {
				return
			}
			now.progress.drawn = time.Now()
			if question == inpage.Streams && now.progress.parsed.IsZero() {
				now.progress.parsed = now.progress.drawn
				now.unparsed = now.documents
			}
		})
	}()
	return at.left
}

// stop ends a question that is on its way.
func (a *asking) stop() {
	if a.cancel != nil {
		a.cancel()
		<-a.done
		a.cancel = nil
	}
}

// sameSite reports whether two addresses belong to one site: the same host, or names that
// are equal in what one registers. It holds up an answer for a moment at worst.
func sameSite(one, other string) bool {
	a, b := siteOf(one), siteOf(other)
	return a != "" && a == b
}

func siteOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	host := u.Hostname()
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	labels := strings.Split(host, ".")
	keep := 2
	if n := len(labels); n > 2 && len(labels[n-2]) <= 3 && len(labels[n-1]) == 2 {
		keep = 3 // as in co.uk
	}
	return strings.Join(labels[max(len(labels)-keep, 0):], ".")
}

// awaitNew is awaitPage for the document that an action led to.
func (c *call) awaitNew(before tabState) {
	if now, _ := c.tab.look(); now.documents == before.documents || now.navigating != "" || now.open != nil {
		return
	}
	ctx, cancel := c.soft()
	defer cancel()
	c.standing, _ = c.tab.awaitPage(ctx, func(s tabState) bool { return s.open != nil || s.restless(before, false) })
}

// awaitOpened is awaitPage for a tab that an action opened.
func (c *call) awaitOpened(t *tab) {
	if now, _ := t.look(); now.documents == 0 || now.navigating != "" || now.open != nil {
		return
	}
	ctx, cancel := c.soft()
	defer cancel()
	before, _ := t.look()
	_, _ = t.awaitPage(ctx, func(s tabState) bool { return s.open != nil || s.restless(before, false) })
}

// cameTo notes how far a document has come.
func (t *tab) cameTo(loader cdp.LoaderID, what string) {
	asked := t.network.Last()
	t.change(func(s *tabState) {
		if loader != s.loader {
			return
		}
		p, now := &s.progress, time.Now()
		switch what {
		case "firstPaint", "firstContentfulPaint":
			setOnce(&p.shown, now)
		case "DOMContentLoaded", "load":
			s.domReady = true
			setOnce(&p.parsed, now)
			if what == "load" && p.loaded.IsZero() {
				s.loaded, p.loaded, p.asked = true, now, asked
			}
		}
	})
}

func setOnce(t *time.Time, to time.Time) {
	if t.IsZero() {
		*t = to
	}
}
