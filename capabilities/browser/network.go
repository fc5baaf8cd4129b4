package browser

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// Requests of a tab, told by Chrome's events as they happen.

// Bounds of a tab's record.
const (
	maxRequests    = 1000
	maxDetailBytes = 2 << 20  // headers and sent bodies, of all requests together
	maxPostData    = 64 << 10 // of one request, kept with it
	maxBodyText    = 256 << 10
)

// networkRecord is the newest requests of one tab, across its documents.
type networkRecord struct {
	mu     sync.Mutex
	ring   ring[*request]
	byID   map[string]*request // the latest of Chrome's ID; a redirect goes on under it
	detail int                 // bytes of headers and bodies held
	oldest int64               // no request up to this number still has them
	before int64               // the last request that is older than the document
	tab    string              // the main frame's ID
	open   map[string]*request // in flight, but for sockets and streams
	// quiet is when the last request in flight ended; zero while one is.
	quiet time.Time
}

// request is one request; a redirect is one of its own.
type request struct {
	id           string
	s            *devtools.Session // that knows it
	method, url  string
	kind         string
	loader       cdp.LoaderID
	status       int64
	contentType  string
	bytes        int64
	began, ended float64   // seconds of Chrome's clock
	told, over   time.Time // on this machine's, as it was heard of
	main         bool      // for the tab's own document
	stream       bool      // it may never end
	failure      string
	download     string // its ID, where the answer became one
	errorText    string // Chrome's own word for it
	cached       bool
	sent, got    rawHeaders
	post         string
	hasPost      bool
	done         bool
	at           time.Time // when it began, on this machine's clock
	from         shownDocument
	cause        *observer // the latest call that acted before it was sent; nil: there was none
}

// rawHeaders are headers as Chrome worded them: a JSON object.
type rawHeaders = json.RawMessage

func newNetworkRecord(tab string) networkRecord {
	return networkRecord{
		tab:  tab,
		ring: ring[*request]{max: maxRequests}, byID: map[string]*request{}, open: map[string]*request{}, quiet: time.Now(),
	}
}

// watchNetwork is what makes a session report its requests. Bodies are kept by
// Chrome, bounded, for who asks.
var watchNetwork = network.EnableParams{
	MaxTotalBufferSize: ptr[int64](16 << 20), MaxResourceBufferSize: ptr[int64](4 << 20), MaxPostDataSize: ptr[int64](maxPostData),
}

type requestHead struct {
	URL      string          `json:"url"`
	Method   string          `json:"method"`
	Headers  json.RawMessage `json:"headers"`
	PostData string          `json:"postData"`
	HasPost  bool            `json:"hasPostData"`
}

type responseHead struct {
	Status   int64           `json:"status"`
	Headers  json.RawMessage `json:"headers"`
	MIME     string          `json:"mimeType"`
	Bytes    float64         `json:"encodedDataLength"`
	Disk     bool            `json:"fromDiskCache"`
	Prefetch bool            `json:"fromPrefetchCache"`
}

// networkEvent holds the fields of all events that are recorded.
type networkEvent struct {
	RequestID        string        `json:"requestId"`
	LoaderID         cdp.LoaderID  `json:"loaderId"`
	FrameID          string        `json:"frameId"`
	Timestamp        float64       `json:"timestamp"`
	WallTime         float64       `json:"wallTime"`
	Type             string        `json:"type"`
	HasUserGesture   bool          `json:"hasUserGesture"`
	Request          *requestHead  `json:"request"`
	RedirectResponse *responseHead `json:"redirectResponse"`
	Response         *responseHead `json:"response"`
	URL              string        `json:"url"`
	Bytes            float64       `json:"encodedDataLength"`
	ErrorText        string        `json:"errorText"`
	Canceled         bool          `json:"canceled"`
	BlockedReason    string        `json:"blockedReason"`
	CORS             *struct {
		Error string `json:"corsError"`
	} `json:"corsErrorStatus"`
	Initiator struct {
		Type string `json:"type"`
	} `json:"initiator"`
	Headers json.RawMessage `json:"headers"`
	Error   string          `json:"errorMessage"`
	from    shownDocument   // of a request
	cause   *observer       // of a request
}

// ofChrome reports that Chrome itself sent the request, as for a page's icon,
// which may come late and is then marked with whatever the person did last.
func (e *networkEvent) ofChrome() bool {
	return e.Type == "Other" && e.Initiator.Type == "other"
}

// onNetwork takes one event of the network. It runs on the reading goroutine.
func (t *tab) onNetwork(s *devtools.Session, method string, params []byte) {
	switch method {
	case "Network.dataReceived", "Network.responseReceivedExtraInfo", "Network.resourceChangedPriority", "Network.policyUpdated",
		"Network.webSocketFrameReceived", "Network.webSocketFrameSent":
		return // many, and nothing is recorded of them
	}
	var e networkEvent
	if !decodeEvent(params, &e) {
		return
	}
	if method == "Network.requestWillBeSent" && e.Request != nil {
		t.sawRequest(e.Request.URL)
		e.from, e.cause = t.shows(), t.lane.acting()
	}
	turned := t.network.add(s, method, &e, t.lane.blockedWhy)
	document := e.Type == "Document" && e.FrameID == string(t.id)
	switch {
	case method == "Network.requestWillBeSent" && e.HasUserGesture && e.Type != "Document" && !e.ofChrome():
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
		since := t.network.quietSince()
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

// blockedWhy asks the way out why it did not connect.
func (l *lane) blockedWhy(url string, since time.Time) error {
	l.mu.Lock()
	out := l.egress
	l.mu.Unlock()
	if out == nil {
		return nil
	}
	return out.Failure(url, since)
}

// add records one event and reports whether the number in flight became or
// ceased to be zero. It runs on the reading goroutine; why asks the egress proxy
// why it did not connect.
func (r *networkRecord) add(s *devtools.Session, method string, e *networkEvent,
	why func(url string, since time.Time) error) (turned bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	idle := len(r.open) == 0
	defer func() {
		now := len(r.open) == 0
		if turned = now != idle; turned {
			if r.quiet = (time.Time{}); now {
				r.quiet = time.Now()
			}
		}
	}()
	q := r.byID[e.RequestID]
	switch method {
	case "Network.requestWillBeSent":
		if e.Request == nil {
			return
		}
		if q != nil && e.RedirectResponse != nil {
			q.respond(e.RedirectResponse)
			q.end(e.Timestamp)
			r.weigh(q)
			e.cause = q.cause
		} else if q != nil && !q.done {
			return // told again: by the frame's own session
		}
		q = &request{
			id: e.RequestID, s: s, method: e.Request.Method, url: plainURL(e.Request.URL), kind: requestKind(e.Type), loader: e.LoaderID,
			began: e.Timestamp, told: time.Now(), main: e.Type == "Document" && e.FrameID == r.tab, at: time.UnixMilli(int64(e.WallTime * 1000)),
			sent: clone(e.Request.Headers), post: e.Request.PostData, hasPost: e.Request.HasPost, from: e.from, cause: e.cause,
		}
		r.push(q)
		if q.stream = e.Type == "EventSource" || e.Type == "Ping"; !q.stream {
			r.open[q.id] = q
		}
	case "Network.webSocketCreated":
		r.push(&request{
			id: e.RequestID, s: s, method: "GET", url: plainURL(e.URL), kind: "websocket", at: time.Now(), told: time.Now(), stream: true,
		})
	case "Network.requestWillBeSentExtraInfo":
		// These are the headers that really went out, cookies and all.
		if q != nil && len(e.Headers) > 0 && !q.done {
			r.detail += len(e.Headers) - len(q.sent)
			q.sent = clone(e.Headers)
		}
	case "Network.responseReceived", "Network.webSocketHandshakeResponseReceived":
		if q == nil || e.Response == nil {
			return
		}
		q.respond(e.Response)
		r.weigh(q)
		if e.Type != "" && q.kind == "other" {
			q.kind = requestKind(e.Type)
		}
		if q.kind == "media" || q.contentType == "text/event-stream" || strings.HasPrefix(q.contentType, "multipart/x-mixed-replace") {
			q.stream = true
			delete(r.open, q.id)
		}
	case "Network.requestServedFromCache":
		if q != nil {
			q.cached = true
		}
	case "Network.loadingFinished":
		if q != nil {
			q.end(e.Timestamp)
			q.bytes = int64(e.Bytes)
			delete(r.open, q.id)
		}
	case "Network.webSocketClosed":
		if q != nil {
			q.done = true
		}
	case "Network.webSocketFrameError":
		if q != nil {
			q.failure = capabilities.Clip(e.Error, 300)
		}
	case "Network.loadingFailed":
		if q == nil {
			return
		}
		q.end(e.Timestamp)
		q.failure, q.errorText = failureText(e), capabilities.Clip(e.ErrorText, 100)
		if err := why(q.url, q.at); err != nil && !e.Canceled {
			var coded *capabilities.Error
			if errors.As(err, &coded) {
				q.failure = "blocked by the node: " + coded.PublicMessage()
				if coded.Code != capabilities.CodeURLBlocked {
					q.failure = coded.PublicMessage()
				}
			}
		}
		delete(r.open, q.id)
	}
	return
}

// failureOf returns Chrome's error of the document that was to be loaded.
func (r *networkRecord) failureOf(loader cdp.LoaderID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.ring.entries) - 1; i >= 0; i-- {
		if q := r.ring.entries[i]; q.kind == "document" && q.loader == loader {
			return q.errorText
		}
	}
	return ""
}

// became notes that the latest request for an address became a download: Chrome then
// ends the request itself as cancelled. It returns which call had it sent, if any did.
func (r *networkRecord) became(url, download string) *observer {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.ring.entries) - 1; i >= 0; i-- {
		if q := r.ring.entries[i]; q.url == url {
			q.download = download
			return q.cause
		}
	}
	return nil
}

// answeredWithFile reports whether the latest document that was asked for got an
// answer with content, and yet was given up.
func (r *networkRecord) answeredWithFile() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.ring.entries) - 1; i >= 0; i-- {
		if q := r.ring.entries[i]; q.kind == "document" {
			return q.errorText == "net::ERR_ABORTED" && q.status != 0 && q.status != 204 && q.status != 205
		}
	}
	return false
}

// newDocument begins a document's own requests with the one for it, redirects and
// all, and ends what the old document still had in flight: Chrome does not always say
// so when its process goes.
func (r *networkRecord) newDocument(loader cdp.LoaderID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	after := r.before // what comes back from the cache was asked for long ago
	r.before = r.ring.last()
	r.ring.each(after, func(seq int64, q *request) {
		if q.loader == loader {
			r.before = min(r.before, seq-1)
		}
	})
	for id, q := range r.open {
		if q.loader != loader {
			delete(r.open, id)
			if !q.done {
				q.done, q.over, q.failure = true, time.Now(), "cancelled: the page left"
			}
		}
	}
	if len(r.open) == 0 {
		r.quiet = time.Now() // the new document has yet to ask for something
	}
}

// inFlight returns the requests that are open, wherever they belong to.
func (r *networkRecord) inFlight() []transfer {
	return slices.DeleteFunc(r.since(0), func(q transfer) bool { return !q.ended.IsZero() })
}

// quietSince returns since when nothing is in flight; zero while something is.
func (r *networkRecord) quietSince() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.quiet
}

func (r *networkRecord) push(q *request) {
	if len(r.ring.entries) >= r.ring.max {
		if old := r.ring.entries[0]; old != nil {
			r.forget(old)
			if r.byID[old.id] == old {
				delete(r.byID, old.id)
				delete(r.open, old.id)
			}
		}
	}
	r.ring.push(q)
	r.byID[q.id] = q
	r.detail += len(q.sent) + len(q.post)
	r.trim()
}

// weigh counts a response's headers in.
func (r *networkRecord) weigh(q *request) {
	r.detail += len(q.got)
	r.trim()
}

// trim drops the details of the oldest requests over the bound.
func (r *networkRecord) trim() {
	for r.detail > maxDetailBytes && r.oldest < r.ring.last() {
		r.oldest++
		if q, ok := r.ring.get(r.oldest); ok {
			r.forget(q)
		}
	}
}

func (r *networkRecord) forget(q *request) {
	r.detail -= len(q.sent) + len(q.got) + len(q.post)
	q.sent, q.got, q.post = nil, nil, ""
}

func (q *request) respond(p *responseHead) {
	q.status, q.contentType, q.got = p.Status, p.MIME, clone(p.Headers)
	q.cached = q.cached || p.Disk || p.Prefetch
}

func (q *request) end(at float64) { q.ended, q.done, q.over = at, true, time.Now() }

func clone(b []byte) []byte { return append([]byte(nil), b...) }

// requestKinds are the types a caller may ask for; all else is "other".
var requestKinds = map[string]string{
	"Document": "document", "Script": "script", "Stylesheet": "stylesheet", "Image": "image", "Font": "font",
	"XHR": "xhr", "Fetch": "fetch", "Media": "media", "WebSocket": "websocket",
}

func requestKind(t string) string {
	if kind := requestKinds[t]; kind != "" {
		return kind
	}
	return "other"
}

// failureText words why a request failed, as Chrome sees it.
func failureText(e *networkEvent) string {
	switch {
	case e.CORS != nil && e.CORS.Error != "":
		return "refused by CORS (" + e.CORS.Error + ")"
	case e.BlockedReason != "":
		return "blocked by the browser (" + e.BlockedReason + ")"
	case e.Canceled || e.ErrorText == "net::ERR_ABORTED":
		return "cancelled"
	case netErrors[e.ErrorText] != "":
		return netErrors[e.ErrorText] + " (" + e.ErrorText + ")"
	}
	return capabilities.Clip(e.ErrorText, 200)
}

// plainURL is an address as results show it: without user name and password,
// inline data cut.
func plainURL(raw string) string {
	if strings.HasPrefix(raw, "data:") {
		return clipText(raw, maxDataURL)
	}
	return clipText(withoutUser(raw), 2<<10)
}

// withoutUser is an address, as Chrome spells it, without its user name and password.
func withoutUser(raw string) string {
	scheme := strings.Index(raw, "://")
	if scheme <= 0 || strings.ContainsAny(raw[:scheme], "/?#") { // of an address's kind is nothing else
		return raw
	}
	place := raw[scheme+len("://"):]
	end := strings.IndexAny(place, "/?#")
	if end < 0 {
		end = len(place)
	}
	return raw[:scheme+len("://")] + place[strings.LastIndexByte(place[:end], '@')+1:]
}
