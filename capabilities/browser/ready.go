package browser

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"

	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
	"github.com/handrail-dev/handrail/capabilities/browser/ready"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// This file waits until a page can be worked with. The room ready has the rule; the page is asked
// only what it alone knows.

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
		var at ready.State
		if s.navigating == "" {
			now := time.Now()
			own := t.network.Transfers()
			if at = s.progress.Judge(now, s.url, own); at.Ready && !at.Drawn {
				if at.Capped && s.progress.Parsed.IsZero() {
					t.change(func(now *tabState) { now.unparsed = s.documents }) // nobody waits for it again
				}
				return s.standing(at, own, t.host.hider()), nil
			}
			at.Left = ask.next(ctx, t, s, at, now)
		}
		var rest <-chan time.Time
		if at.Left > 0 {
			timer := time.NewTimer(at.Left)
			defer timer.Stop()
			rest = timer.C
		}
		select {
		case <-changed:
		case <-rest:
		case <-t.life.Done():
			return standing{}, context.Cause(t.life)
		case <-ctx.Done():
			return s.standing(at, t.network.Transfers(), t.host.hider()), ctx.Err()
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
func (s *tabState) standing(at ready.State, own []record.Transfer, h *hider) standing {
	blank := s.progress.Parsed.IsZero() && s.progress.Shown.IsZero()
	return standing{capped: at.Capped, blank: blank, open: listed(s.progress.Open(s.url, own), h)}
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
func (a *asking) next(ctx context.Context, t *tab, s tabState, at ready.State, now time.Time) time.Duration {
	p, question, since, loaded := s.progress, inpage.Function(""), time.Time{}, false
	switch {
	case at.Drawn:
		question = inpage.Drawn // by what the answers of fetches changed
		loaded = true
	case !p.Loaded.IsZero():
	case p.Parsed.IsZero():
		question, since = inpage.Streams, p.Shown
	case p.Drawn.IsZero():
		question, since = inpage.Drawn, p.Parsed
	}
	if question == "" || since.IsZero() && question == inpage.Streams ||
		a.documents == s.documents && a.question == question && a.loaded == loaded {
		return at.Left
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
		if err != nil || w.put(ctx, question, map[string]int64{"still": ready.Still.Milliseconds()}).get(ctx, nil) != nil {
			return
		}
		t.change(func(now *tabState) {
			if now.documents != s.documents {
				return
			}
			now.progress.Drawn = time.Now()
			if question == inpage.Streams && now.progress.Parsed.IsZero() {
				now.progress.Parsed = now.progress.Drawn
				now.unparsed = now.documents
			}
		})
	}()
	return at.Left
}

// stop ends a question that is on its way.
func (a *asking) stop() {
	if a.cancel != nil {
		a.cancel()
		<-a.done
		a.cancel = nil
	}
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
			setOnce(&p.Shown, now)
		case "DOMContentLoaded", "load":
			s.domReady = true
			setOnce(&p.Parsed, now)
			if what == "load" && p.Loaded.IsZero() {
				s.loaded, p.Loaded, p.Asked = true, now, asked
			}
		}
	})
}

func setOnce(t *time.Time, to time.Time) {
	if t.IsZero() {
		*t = to
	}
}
