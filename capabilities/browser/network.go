package browser

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// A tab's requests, told by Chrome's events as they happen. The room record keeps them.

// request is one of them.
type request = record.Request[sender]

// sender is whose request one is.
type sender struct {
	from  shownDocument
	cause *observer // the latest call that acted before it was sent; nil: there was none
}

// redirected is the sender of a redirect: it is of the call that had the first request sent.
func redirected(former, now sender) sender { return sender{now.from, former.cause} }

// onNetwork takes one event of the network. It runs on the reading goroutine.
func (t *tab) onNetwork(s *devtools.Session, method string, params []byte) {
	if !record.IsKept(method) {
		return
	}
	var e record.Event
	if !decodeEvent(params, &e) {
		return
	}
	var by sender
	if method == "Network.requestWillBeSent" && e.Request != nil {
		t.host.sawRequest(e.Request.URL)
		by = sender{t.shows(), t.host.acting()}
	}
	turned := t.network.Add(s, method, &e, by, t.host.blockedWhy)
	document := e.Type == "Document" && e.FrameID == string(t.id)
	switch {
	case method == "Network.requestWillBeSent" && e.HasUserGesture && e.Type != "Document" && !e.OfChrome():
		// A document on its way has better signs of its own.
		t.change(func(s *tabState) { s.requests++ })
	case method == "Network.responseReceived" && document && e.Response != nil:
		t.change(func(s *tabState) {
			if e.LoaderID == s.loader {
				s.status = int(e.Response.Status)
				return
			}
			if len(s.statuses) >= maxStatuses { // of answers that became no document
				clear(s.statuses)
			}
			s.statuses[e.LoaderID] = int(e.Response.Status)
		})
	case turned, method == "Network.loadingFinished", method == "Network.loadingFailed": // see ready.go
		t.change(func(*tabState) {})
	}
}

// quietFor is how long nothing may be in flight for a network to be quiet.
const quietFor = 500 * time.Millisecond

// awaitQuiet waits until the tab had no request in flight for a while; sockets and
// streams do not count.
func (t *tab) awaitQuiet(ctx context.Context) error {
	for {
		_, changed := t.look()
		since := t.network.QuietSince()
		var rest <-chan time.Time
		if !since.IsZero() {
			left := quietFor - time.Since(since)
			if left <= 0 {
				return nil
			}
			timer := time.NewTimer(left)
			defer timer.Stop()
			rest = timer.C
		}
		select {
		case <-rest:
		case <-changed:
		case <-t.life.Done():
			return context.Cause(t.life)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
