package record

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/outline"
)

// Request is one request; a redirect is one of its own. Outside the record it is a copy.
type Request[S any] struct {
	ID      string            // Chrome's
	Session *devtools.Session // that knows it
	By      S                 // whose it is

	Method, URL  string
	Kind         string
	Status       int64
	ContentType  string
	Bytes        int64
	Began, Ended float64   // seconds of Chrome's clock
	At           time.Time // when it began, on this machine's clock
	Failure      string
	Download     string // its ID, where the answer became one
	Cached       bool
	Post         string
	HasPost      bool
	Done         bool

	loader     cdp.LoaderID
	told, over time.Time // on this machine's clock, as it was heard of
	main       bool      // for the tab's own document
	stream     bool      // it may never end
	errorText  string    // Chrome's own word for its failure
	sent, got  json.RawMessage
}

// Entry is a request as a list has it.
type Entry struct {
	ID          string  `json:"id"`
	Method      string  `json:"method"`
	URL         string  `json:"url"`
	Status      int64   `json:"status,omitempty"`
	ContentType string  `json:"content_type,omitempty"`
	Type        string  `json:"type,omitempty"`
	Bytes       int64   `json:"bytes,omitempty"`
	DurationMS  float64 `json:"duration_ms,omitempty"`
	Failure     string  `json:"failure,omitempty"`
	Download    string  `json:"download,omitempty"`
	FromCache   bool    `json:"from_cache,omitempty"`
}

// Entry is the request under its number in the record.
func (q *Request[S]) Entry(seq int64) Entry {
	e := Entry{
		ID: "r" + strconv.FormatInt(seq, 10), Method: capabilities.Clip(q.Method, 32), URL: q.URL, Status: q.Status,
		ContentType: capabilities.Clip(q.ContentType, 256), Type: q.Kind, Bytes: q.Bytes, Failure: q.Failure, Download: q.Download,
		FromCache: q.Cached,
	}
	if q.Download != "" {
		e.Failure = "" // Chrome calls it cancelled
	}
	if q.Ended > q.Began && q.Began > 0 {
		e.DurationMS = float64(int64((q.Ended-q.Began)*10000)) / 10
	}
	return e
}

// Filter says which requests a list has.
type Filter struct {
	Since   *int64          // those after this number; nil: those of the document shown
	Before  int64           // those before this number; 0: no bound
	Kinds   map[string]bool // of these; none: of any
	Holding string          // in the address
}

// Listing is a list of requests, oldest first.
type Listing struct {
	Requests []Entry
	Last     int64 // the number of the latest request
	Earlier  int64 // how many older ones than those asked for are kept
	Lost     int64 // how many of those asked for are not kept any more
}

// List returns the requests that the filter lets through.
func (r *Network[S]) List(f Filter) Listing {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := r.before
	if f.Since != nil {
		since = *f.Since
	}
	list := Listing{Requests: []Entry{}, Last: r.ring.last(), Earlier: max(0, since-(r.ring.first-1))}
	list.Lost = max(0, r.ring.first-1-since)
	r.ring.each(since, func(seq int64, q *Request[S]) {
		if (f.Before == 0 || seq < f.Before) && (len(f.Kinds) == 0 || f.Kinds[q.Kind]) && strings.Contains(q.URL, f.Holding) {
			list.Requests = append(list.Requests, q.Entry(seq))
		}
	})
	return list
}

// Get returns the request with that number, and the number of the latest one.
func (r *Network[S]) Get(seq int64) (q Request[S], last int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found, ok := r.ring.get(seq); ok {
		return *found, r.ring.last(), true
	}
	return q, 0, false
}

// All returns the requests that are kept, oldest first.
func (r *Network[S]) All() (all []Request[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring.each(0, func(_ int64, q *Request[S]) { all = append(all, *q) })
	return all
}

// Transfer is what the rules of waiting have to know of a request.
type Transfer struct {
	Seq          int64
	Kind, Method string
	URL          string
	Main         bool      // it is the document's own
	Began, Ended time.Time // on this machine's clock; zero: open
	Stream       bool      // it may never end
}

// Age is how long ago the request was heard of.
func (q Transfer) Age(now time.Time) time.Duration { return now.Sub(q.Began) }

// Transfers returns the requests of the document shown, and of the frames below it.
func (r *Network[S]) Transfers() []Transfer {
	r.mu.Lock()
	before := r.before
	r.mu.Unlock()
	return r.Since(before)
}

// Since returns the requests after that number.
func (r *Network[S]) Since(before int64) (all []Transfer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring.each(before, func(seq int64, q *Request[S]) {
		all = append(all, Transfer{seq, q.Kind, q.Method, q.URL, q.main, q.told, q.over, q.stream})
	})
	return all
}

// Last is the number of the latest request.
func (r *Network[S]) Last() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ring.last()
}

func (q *Request[S]) respond(p *responseHead) {
	q.Status, q.ContentType, q.got = p.Status, p.MIME, clone(p.Headers)
	q.Cached = q.Cached || p.Disk || p.Prefetch
}

func (q *Request[S]) end(at float64) { q.Ended, q.Done, q.over = at, true, time.Now() }

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

// SentHeaders and AnswerHeaders return headers by name, secrets left out.
func (q *Request[S]) SentHeaders() map[string]string   { return showHeaders(q.sent) }
func (q *Request[S]) AnswerHeaders() map[string]string { return showHeaders(q.got) }

// hiddenHeaders carry secrets, whoever asks.
var hiddenHeaders = map[string]bool{
	"authorization": true, "cookie": true, "set-cookie": true, "set-cookie2": true, "proxy-authorization": true, "proxy-authenticate": true,
	"www-authenticate": false, "x-api-key": true, "x-auth-token": true, "x-csrf-token": true, "x-xsrf-token": true,
}

// Hidden stands in the place of a value that is not told.
const Hidden = "(hidden)"

func showHeaders(raw json.RawMessage) map[string]string {
	shown := map[string]string{}
	var all map[string]string
	if json.Unmarshal(raw, &all) != nil {
		return shown
	}
	for name, value := range all {
		lower := strings.ToLower(name)
		switch {
		case hiddenHeaders[lower] || strings.HasPrefix(lower, "proxy-"):
			value = Hidden
		case lower == "location" || lower == "referer" || lower == ":path":
			value = PlainURL(value)
		}
		shown[name] = outline.Clip(value, 4<<10)
	}
	return shown
}
