package record

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

// Bounds of a tab's requests.
const (
	maxRequests    = 1000
	maxDetailBytes = 2 << 20 // headers and sent bodies, of all requests together

	// MaxPostData bounds what is kept of the body that one request sent.
	MaxPostData = 64 << 10
)

// Network is the newest requests of one tab, across its documents. S is what the tab knows of
// who had a request sent. It is safe for concurrent use.
type Network[S any] struct {
	mu     sync.Mutex
	ring   ring[*Request[S]]
	byID   map[string]*Request[S] // the latest of Chrome's ID; a redirect goes on under it
	detail int                    // bytes of headers and bodies held
	oldest int64                  // no request up to this number still has them
	before int64                  // the last request that is older than the document
	open   map[string]*Request[S] // in flight, but for sockets and streams
	// quiet is when the last request in flight ended; zero while one is.
	quiet time.Time

	tab        string // the main frame's ID
	redirected func(former, now S) S
}

// NewNetwork returns the record of the tab with that main frame. redirected says whose request a
// redirect is, of the request before it and of the moment.
func NewNetwork[S any](tab string, redirected func(former, now S) S) *Network[S] {
	r := &Network[S]{tab: tab, redirected: redirected}
	r.Reset()
	return r
}

// Reset begins the record anew, numbers and all.
func (r *Network[S]) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring, r.byID, r.open = ring[*Request[S]]{max: maxRequests}, map[string]*Request[S]{}, map[string]*Request[S]{}
	r.detail, r.oldest, r.before, r.quiet = 0, 0, 0, time.Now()
}

// WatchNetwork queues what makes a session report its requests. Bodies are kept by
// Chrome, bounded, for who asks.
func WatchNetwork(ctx context.Context, s *devtools.Session) *devtools.Pending {
	total, resource, post := int64(16<<20), int64(4<<20), int64(MaxPostData)
	return devtools.Start(ctx, s, network.Enable, network.EnableParams{
		MaxTotalBufferSize: &total, MaxResourceBufferSize: &resource, MaxPostDataSize: &post,
	}).Pending
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

// Event holds the fields of all events that are recorded.
type Event struct {
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
}

// IsKept reports whether anything is recorded of events of that kind; those that are not are many.
func IsKept(method string) bool {
	switch method {
	case "Network.dataReceived", "Network.responseReceivedExtraInfo", "Network.resourceChangedPriority", "Network.policyUpdated",
		"Network.webSocketFrameReceived", "Network.webSocketFrameSent":
		return false
	}
	return true
}

// OfChrome reports that Chrome itself sent the request, as for a page's icon,
// which may come late and is then marked with whatever the person did last.
func (e *Event) OfChrome() bool {
	return e.Type == "Other" && e.Initiator.Type == "other"
}

// Add records one event and reports whether the number in flight became or
// ceased to be zero. It runs on the reading goroutine; by is whose request it is, where it is a
// new one, and why asks the egress proxy why it did not connect.
func (r *Network[S]) Add(s *devtools.Session, method string, e *Event, by S,
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
			by = r.redirected(q.By, by)
		} else if q != nil && !q.Done {
			return // told again: by the frame's own session
		}
		q = &Request[S]{
			ID: e.RequestID, Session: s, Method: e.Request.Method, URL: PlainURL(e.Request.URL), Kind: requestKind(e.Type), loader: e.LoaderID,
			Began: e.Timestamp, told: time.Now(), main: e.Type == "Document" && e.FrameID == r.tab, At: time.UnixMilli(int64(e.WallTime * 1000)),
			sent: clone(e.Request.Headers), Post: e.Request.PostData, HasPost: e.Request.HasPost, By: by,
		}
		r.push(q)
		if q.stream = e.Type == "EventSource" || e.Type == "Ping"; !q.stream {
			r.open[q.ID] = q
		}
	case "Network.webSocketCreated":
		r.push(&Request[S]{
			ID: e.RequestID, Session: s, Method: "GET", URL: PlainURL(e.URL), Kind: "websocket", At: time.Now(), told: time.Now(), stream: true,
		})
	case "Network.requestWillBeSentExtraInfo":
		// These are the headers that really went out, cookies and all.
		if q != nil && len(e.Headers) > 0 && !q.Done {
			r.detail += len(e.Headers) - len(q.sent)
			q.sent = clone(e.Headers)
		}
	case "Network.responseReceived", "Network.webSocketHandshakeResponseReceived":
		if q == nil || e.Response == nil {
			return
		}
		q.respond(e.Response)
		r.weigh(q)
		if e.Type != "" && q.Kind == "other" {
			q.Kind = requestKind(e.Type)
		}
		if q.Kind == "media" || q.ContentType == "text/event-stream" || strings.HasPrefix(q.ContentType, "multipart/x-mixed-replace") {
			q.stream = true
			delete(r.open, q.ID)
		}
	case "Network.requestServedFromCache":
		if q != nil {
			q.Cached = true
		}
	case "Network.loadingFinished":
		if q != nil {
			q.end(e.Timestamp)
			q.Bytes = int64(e.Bytes)
			delete(r.open, q.ID)
		}
	case "Network.webSocketClosed":
		if q != nil {
			q.Done = true
		}
	case "Network.webSocketFrameError":
		if q != nil {
			q.Failure = capabilities.Clip(e.Error, 300)
		}
	case "Network.loadingFailed":
		if q == nil {
			return
		}
		q.end(e.Timestamp)
		q.Failure, q.errorText = failureText(e), capabilities.Clip(e.ErrorText, 100)
		if err := why(q.URL, q.At); err != nil && !e.Canceled {
			var coded *capabilities.Error
			if errors.As(err, &coded) {
				q.Failure = "blocked by the node: " + coded.PublicMessage()
				if coded.Code != capabilities.CodeURLBlocked {
					q.Failure = coded.PublicMessage()
				}
			}
		}
		delete(r.open, q.ID)
	}
	return
}

// FailureOf returns Chrome's error of the document that was to be loaded.
func (r *Network[S]) FailureOf(loader cdp.LoaderID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.ring.entries) - 1; i >= 0; i-- {
		if q := r.ring.entries[i]; q.Kind == "document" && q.loader == loader {
			return q.errorText
		}
	}
	return ""
}

// Became notes that the latest request for an address became a download: Chrome then
// ends the request itself as cancelled. It returns whose request it was.
func (r *Network[S]) Became(url, download string) (by S) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.ring.entries) - 1; i >= 0; i-- {
		if q := r.ring.entries[i]; q.URL == url {
			q.Download = download
			return q.By
		}
	}
	return by
}

// AnsweredWithFile reports whether the latest document that was asked for got an
// answer with content, and yet was given up.
func (r *Network[S]) AnsweredWithFile() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.ring.entries) - 1; i >= 0; i-- {
		if q := r.ring.entries[i]; q.Kind == "document" {
			return q.errorText == "net::ERR_ABORTED" && q.Status != 0 && q.Status != 204 && q.Status != 205
		}
	}
	return false
}

// NewDocument begins a document's own requests with the one for it, redirects and
// all, and ends what the old document still had in flight: Chrome does not always say
// so when its process goes.
func (r *Network[S]) NewDocument(loader cdp.LoaderID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	after := r.before // what comes back from the cache was asked for long ago
	r.before = r.ring.last()
	r.ring.each(after, func(seq int64, q *Request[S]) {
		if q.loader == loader {
			r.before = min(r.before, seq-1)
		}
	})
	for id, q := range r.open {
		if q.loader != loader {
			delete(r.open, id)
			if !q.Done {
				q.Done, q.over, q.Failure = true, time.Now(), "cancelled: the page left"
			}
		}
	}
	if len(r.open) == 0 {
		r.quiet = time.Now() // the new document has yet to ask for something
	}
}

// InFlight returns the requests that are open, wherever they belong to.
func (r *Network[S]) InFlight() []Transfer {
	return slices.DeleteFunc(r.Since(0), func(q Transfer) bool { return !q.Ended.IsZero() })
}

// QuietSince returns since when nothing is in flight; zero while something is.
func (r *Network[S]) QuietSince() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.quiet
}

func (r *Network[S]) push(q *Request[S]) {
	if len(r.ring.entries) >= r.ring.max {
		if old := r.ring.entries[0]; old != nil {
			r.forget(old)
			if r.byID[old.ID] == old {
				delete(r.byID, old.ID)
				delete(r.open, old.ID)
			}
		}
	}
	r.ring.push(q)
	r.byID[q.ID] = q
	r.detail += len(q.sent) + len(q.Post)
	r.trim()
}

// weigh counts a response's headers in.
func (r *Network[S]) weigh(q *Request[S]) {
	r.detail += len(q.got)
	r.trim()
}

// trim drops the details of the oldest requests over the bound.
func (r *Network[S]) trim() {
	for r.detail > maxDetailBytes && r.oldest < r.ring.last() {
		r.oldest++
		if q, ok := r.ring.get(r.oldest); ok {
			r.forget(q)
		}
	}
}

func (r *Network[S]) forget(q *Request[S]) {
	r.detail -= len(q.sent) + len(q.got) + len(q.Post)
	q.sent, q.got, q.Post = nil, nil, ""
}
