package browser

import (
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"

	"github.com/handrail-dev/handrail/capabilities"
)

// What a tab asked of the network, told by Chrome's events as it happens.

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
	open   map[string]*request // in flight, but for sockets and streams
	// quiet is when the last request in flight ended; zero while one is.
	quiet time.Time
}

// request is one request; a redirect is one of its own.
type request struct {
	id           string
	s            *session // that knows it
	method, url  string
	kind         string
	loader       cdp.LoaderID
	status       int64
	contentType  string
	bytes        int64
	began, ended float64 // seconds of Chrome's clock
	failure      string
	errorText    string // Chrome's own word for it
	cached       bool
	sent, got    rawHeaders
	post         string
	hasPost      bool
	done         bool
	at           time.Time // when it began, on this machine's clock
}

// rawHeaders are headers as Chrome worded them: a JSON object.
type rawHeaders = json.RawMessage

func newNetworkRecord() networkRecord {
	return networkRecord{
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
	Headers json.RawMessage `json:"headers"`
	Error   string          `json:"errorMessage"`
}

// onNetwork takes one event of the network. It runs on the reading goroutine.
func (t *tab) onNetwork(s *session, method string, params []byte) {
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
	}
	turned := t.network.take(s, method, &e, t.lane.blockedWhy)
	document := e.Type == "Document" && e.FrameID == string(t.id)
	switch {
	case method == "Network.requestWillBeSent" && e.HasUserGesture && e.Type != "Document":
		// A document on its way has better signs of its own.
		t.change(func(s *tabState) { s.requests++ })
	case method == "Network.responseReceived" && document && e.Response != nil:
		t.change(func(s *tabState) {
			if e.LoaderID == s.loader {
				s.status = int(e.Response.Status)
			} else if len(s.statuses) < 16 {
				s.statuses[e.LoaderID] = int(e.Response.Status)
			}
		})
	case turned:
		t.change(func(*tabState) {})
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
	return out.failure(url, since)
}

// take records one event and reports whether the number in flight became or
// ceased to be zero. It runs on the reading goroutine; why asks the egress proxy
// why it did not connect.
func (r *networkRecord) take(s *session, method string, e *networkEvent, why func(url string, since time.Time) error) (turned bool) {
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
			q.ended, q.done = e.Timestamp, true
			r.weigh(q)
		} else if q != nil && !q.done {
			return // told again: by the frame's own session
		}
		q = &request{
			id: e.RequestID, s: s, method: e.Request.Method, url: plainURL(e.Request.URL), kind: requestKind(e.Type), loader: e.LoaderID,
			began: e.Timestamp, at: time.UnixMilli(int64(e.WallTime * 1000)), sent: clone(e.Request.Headers), post: e.Request.PostData, hasPost: e.Request.HasPost,
		}
		r.push(q)
		if e.Type != "EventSource" && e.Type != "Ping" {
			r.open[q.id] = q
		}
	case "Network.webSocketCreated":
		r.push(&request{id: e.RequestID, s: s, method: "GET", url: plainURL(e.URL), kind: "websocket", at: time.Now()})
	case "Network.requestWillBeSentExtraInfo":
		// What really went out, cookies and all.
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
			delete(r.open, q.id) // a stream: it may never end
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
			q.failure = clip(e.Error, 300)
		}
	case "Network.loadingFailed":
		if q == nil {
			return
		}
		q.end(e.Timestamp)
		q.failure, q.errorText = failureText(e), clip(e.ErrorText, 100)
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

// failureOf gives Chrome's error of the document that was to be loaded.
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

// newDocument ends what the old document still had in flight: Chrome does not
// always say so when its process goes.
func (r *networkRecord) newDocument(loader cdp.LoaderID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, q := range r.open {
		if q.loader != loader {
			delete(r.open, id)
			if !q.done {
				q.done, q.failure = true, "cancelled: the page left"
			}
		}
	}
	if len(r.open) == 0 {
		r.quiet = time.Now() // the new document has yet to ask for something
	}
}

// quietSince gives since when nothing is in flight; zero while something is.
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

func (q *request) end(at float64) { q.ended, q.done = at, true }

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
	return clip(e.ErrorText, 200)
}

// plainURL is an address as results show it: without user name and password,
// inline data cut.
func plainURL(raw string) string {
	if strings.HasPrefix(raw, "data:") && len(raw) > maxDataURL {
		return clip(raw, maxDataURL) + "…"
	}
	if scheme := strings.Index(raw, "://"); scheme > 0 {
		authority, _, _ := strings.Cut(raw[scheme+3:], "/")
		if strings.Contains(authority, "@") {
			if u, err := url.Parse(raw); err == nil && u.User != nil {
				u.User = nil
				raw = u.String()
			}
		}
	}
	return clip(raw, 2<<10)
}

// requestEntry is one line of the list.
type requestEntry struct {
	ID          string  `json:"id"`
	Method      string  `json:"method"`
	URL         string  `json:"url"`
	Status      int64   `json:"status,omitempty"`
	ContentType string  `json:"content_type,omitempty"`
	Type        string  `json:"type,omitempty"`
	Bytes       int64   `json:"bytes,omitempty"`
	DurationMS  float64 `json:"duration_ms,omitempty"`
	Failure     string  `json:"failure,omitempty"`
	FromCache   bool    `json:"from_cache,omitempty"`
}

func (q *request) entry(seq int64) requestEntry {
	e := requestEntry{ID: "r" + strconv.FormatInt(seq, 10), Method: clip(q.method, 32), URL: q.url, Status: q.status, ContentType: clip(q.contentType, 256), Type: q.kind, Bytes: q.bytes, Failure: q.failure, FromCache: q.cached}
	if q.ended > q.began && q.began > 0 {
		e.DurationMS = float64(int64((q.ended-q.began)*10000)) / 10
	}
	return e
}

// requestDetail is all that is known of one request.
type requestDetail struct {
	RequestHeaders  map[string]string `json:"request_headers"`
	ResponseHeaders map[string]string `json:"response_headers"`
	RequestBody     string            `json:"request_body,omitempty"`
	Body            *string           `json:"body,omitempty"`
	BodyTruncated   bool              `json:"body_truncated,omitempty"`
}

// requestList is the result.
type requestList struct {
	Requests []requestEntry `json:"requests"`
	Omitted  int            `json:"omitted,omitempty"`
	Last     int64          `json:"last"`
	Detail   *requestDetail `json:"detail,omitempty"`
}

// networkRequests carries out tyrum.browser.network-requests. It asks the page
// nothing, so that it answers while a script runs or a dialog is open.
func networkRequests(c *call) (capabilities.Output, error) {
	args := struct {
		Filter   string   `json:"filter"`
		Types    []string `json:"types"`
		Since    int64    `json:"since"`
		Limit    int      `json:"limit"`
		ID       string   `json:"id"`
		Body     bool     `json:"body"`
		Download string   `json:"download"`
	}{Limit: 100}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if args.Download != "" {
		return c.downloadBytes(args.Download)
	}
	t, err := c.lane.current(c.ctx, false)
	if err != nil {
		return capabilities.Output{}, err
	}
	c.tab = t
	if args.ID != "" {
		c.bindTo(t) // a body is asked of the page's process
		return c.oneRequest(t, args.ID, args.Body)
	}
	wanted := map[string]bool{}
	for _, kind := range args.Types {
		wanted[kind] = true
	}
	result := requestList{Requests: []requestEntry{}}
	r := &t.network
	r.mu.Lock()
	r.ring.each(args.Since, func(seq int64, q *request) {
		if (len(wanted) == 0 || wanted[q.kind]) && strings.Contains(q.url, args.Filter) {
			result.Requests = append(result.Requests, q.entry(seq))
		}
	})
	result.Last = r.ring.last()
	r.mu.Unlock()
	result.Omitted = newestThatFit(&result.Requests, args.Limit, func(e requestEntry) int { return jsonSize(e.URL) + jsonSize(e.Failure) + len(e.ContentType) })
	for i := range result.Requests {
		result.Requests[i].URL = c.lane.concealTyped(result.Requests[i].URL)
	}
	return capabilities.Output{Result: result, Untrusted: true}, nil
}

// oneRequest gives the detail of one request, and its body if asked.
func (c *call) oneRequest(t *tab, id string, body bool) (capabilities.Output, error) {
	seq, _ := strconv.ParseInt(strings.TrimPrefix(id, "r"), 10, 64)
	r := &t.network
	r.mu.Lock()
	found, ok := r.ring.get(seq)
	if !ok {
		r.mu.Unlock()
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNotFound, "This tab has no request %s.", clip(id, 40)).
			WithHint("List the requests again; the oldest are forgotten.")
	}
	q := *found
	last := r.ring.last()
	r.mu.Unlock()
	d := &requestDetail{RequestHeaders: showHeaders(q.sent), ResponseHeaders: showHeaders(q.got), RequestBody: q.post}
	entry := q.entry(seq)
	entry.URL = c.lane.concealTyped(entry.URL)
	out := capabilities.Output{Untrusted: true}
	if q.hasPost && q.post == "" {
		if p, err := do(c.ctx, q.s, network.GetRequestPostData, network.GetRequestPostDataParams{RequestID: network.RequestID(q.id)}); err == nil {
			d.RequestBody = string(p.PostData)
		}
	}
	if d.RequestBody = c.lane.concealTyped(clipText(strings.ToValidUTF8(d.RequestBody, "�"), maxPostData)); body {
		blob, err := c.bodyOf(&q, d)
		if err != nil {
			return capabilities.Output{}, err
		}
		out.Blobs = blob
	}
	out.Result = requestList{Requests: []requestEntry{entry}, Last: last, Detail: d}
	return out, nil
}

// bodyOf fetches what the server sent: text into the detail, all else as bytes.
func (c *call) bodyOf(q *request, d *requestDetail) ([]capabilities.Blob, error) {
	if !q.done {
		return nil, capabilities.Errorf(capabilities.CodeConflict, "That request has not finished yet.").WithHint("Use tool.browser.wait-for with load_state network_quiet first.")
	}
	params := network.GetResponseBodyParams{RequestID: network.RequestID(q.id)}
	res, err := do(c.ctx, q.s, network.GetResponseBody, params)
	var refused *protocolError
	if errors.As(err, &refused) {
		// The document of a frame is asked for in one process and held by another.
		for _, s := range c.tab.sessions() {
			if s == q.s || !errors.As(err, &refused) {
				continue
			}
			if again, failed := do(c.ctx, s, network.GetResponseBody, params); failed == nil {
				res, err = again, nil
			}
		}
	}
	if errors.As(err, &refused) {
		return nil, capabilities.Errorf(capabilities.CodeResultExpired, "The body of that request is not kept any more, or there was none.").
			WithHint("Ask for the body before the page navigates on; bodies over 4 MiB are never kept.")
	}
	if err != nil {
		return nil, err
	}
	data := res.Body
	if !isText(q.contentType) && (res.Base64encoded || !utf8.Valid(data)) {
		return []capabilities.Blob{{Field: "bytesBase64", MIME: orDefault(q.contentType, "application/octet-stream"), Bytes: data}}, nil
	}
	text := strings.ToValidUTF8(string(data), "�")
	for room := maxBodyText; len(text) > maxBodyText || jsonSize(text) > 3*maxBodyText; room /= 2 {
		text, d.BodyTruncated = clip(text, room), true
	}
	text = c.lane.concealTyped(text)
	d.Body = &text
	return nil, nil
}

func orDefault(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// isText says that a content type is one to read.
func isText(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") && kind != "image/svg+xml" ||
		kind == "application/json" || kind == "application/javascript" || kind == "application/xml" || kind == "application/x-www-form-urlencoded" || kind == "application/x-ndjson"
}

// hiddenHeaders carry secrets, whoever asks.
var hiddenHeaders = map[string]bool{
	"authorization": true, "cookie": true, "set-cookie": true, "set-cookie2": true, "proxy-authorization": true, "proxy-authenticate": true,
	"www-authenticate": false, "x-api-key": true, "x-auth-token": true, "x-csrf-token": true, "x-xsrf-token": true,
}

const hidden = "(hidden)"

// showHeaders gives headers by name, secrets left out.
func showHeaders(raw rawHeaders) map[string]string {
	shown := map[string]string{}
	var all map[string]string
	if json.Unmarshal(raw, &all) != nil {
		return shown
	}
	for name, value := range all {
		lower := strings.ToLower(name)
		switch {
		case hiddenHeaders[lower] || strings.HasPrefix(lower, "proxy-"):
			value = hidden
		case lower == "location" || lower == "referer" || lower == ":path":
			value = plainURL(value)
		}
		shown[name] = clipText(value, 4<<10)
	}
	return shown
}
