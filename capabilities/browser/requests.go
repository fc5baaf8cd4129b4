package browser

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/chromedp/cdproto/network"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

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
	Download    string  `json:"download,omitempty"`
	FromCache   bool    `json:"from_cache,omitempty"`
}

func (q *request) entry(seq int64) requestEntry {
	e := requestEntry{
		ID: "r" + strconv.FormatInt(seq, 10), Method: capabilities.Clip(q.method, 32), URL: q.url, Status: q.status,
		ContentType: capabilities.Clip(q.contentType, 256), Type: q.kind, Bytes: q.bytes, Failure: q.failure, Download: q.download,
		FromCache: q.cached,
	}
	if q.download != "" {
		e.Failure = "" // Chrome calls it cancelled
	}
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
	cut             string            // what to say of that
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
		Since    *int64   `json:"since"`
		Before   string   `json:"before"`
		Limit    int      `json:"limit"`
		ID       string   `json:"id"`
		Body     bool     `json:"body"`
		Download string   `json:"download"`
		KeepAs   string   `json:"keep_as"`
	}{}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if args.Download != "" {
		return c.downloadBytes(args.Download, args.KeepAs)
	}
	if args.KeepAs != "" {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "keep_as keeps a download: give download, too.")
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
	since := r.before
	if args.Since != nil {
		since = *args.Since
	}
	earlier := max(0, since-(r.ring.first-1))
	before := r.ring.last() + 1
	if args.Before != "" {
		if before = requestNumber(args.Before); before == 0 {
			r.mu.Unlock()
			return capabilities.Output{}, noRequest(args.Before)
		}
	}
	r.ring.each(since, func(seq int64, q *request) {
		if seq < before && (len(wanted) == 0 || wanted[q.kind]) && strings.Contains(q.url, args.Filter) {
			result.Requests = append(result.Requests, q.entry(seq))
		}
	})
	result.Last = r.ring.last()
	lost := r.ring.first - 1 - since
	r.mu.Unlock()
	result.Omitted = newestThatFit(&result.Requests, args.Limit,
		func(e requestEntry) int { return jsonSize(e.URL) + jsonSize(e.Failure) + len(e.ContentType) })
	out := capabilities.Output{Untrusted: true}
	var told []string
	if result.Omitted > 0 && len(result.Requests) > 0 {
		told = append(told,
			fmt.Sprintf("%d older ones are left out: before %q returns the newest of them", result.Omitted, result.Requests[0].ID))
	}
	if args.Since == nil && earlier > 0 {
		told = append(told, fmt.Sprintf("%d of pages before are not listed: since 0 lists them", earlier))
	}
	if lost > 0 {
		told = append(told, fmt.Sprintf("%d of the earliest are not kept any more", lost))
	}
	out.Result, out.Evidence = result, strings.Join(told, "; ")
	return out, nil
}

// requestNumber returns the number in a request's ID, 0 for what is none.
func requestNumber(id string) int64 {
	seq, _ := strconv.ParseInt(strings.TrimPrefix(id, "r"), 10, 64)
	return max(seq, 0)
}

func noRequest(id string) error {
	return capabilities.Errorf(capabilities.CodeNotFound, "This tab has no request %s.", capabilities.Clip(id, 40)).
		WithHint("List the requests again; the oldest are forgotten.")
}

// oneRequest returns the detail of one request, and its body if asked.
func (c *call) oneRequest(t *tab, id string, body bool) (capabilities.Output, error) {
	seq := requestNumber(id)
	r := &t.network
	r.mu.Lock()
	found, ok := r.ring.get(seq)
	if !ok {
		r.mu.Unlock()
		return capabilities.Output{}, noRequest(id)
	}
	q := *found
	last := r.ring.last()
	r.mu.Unlock()
	d := &requestDetail{RequestHeaders: showHeaders(q.sent), ResponseHeaders: showHeaders(q.got), RequestBody: q.post}
	entry := q.entry(seq)
	out := capabilities.Output{Untrusted: true}
	if q.hasPost && q.post == "" {
		if p, err := devtools.Do(c.ctx, q.s, network.GetRequestPostData,
			network.GetRequestPostDataParams{RequestID: network.RequestID(q.id)}); err == nil {
			d.RequestBody = string(p.PostData)
		}
	}
	d.RequestBody = c.lane.hider().body(strings.ToValidUTF8(d.RequestBody, "�"), q.from)
	if d.RequestBody = clipText(d.RequestBody, maxPostData); body {
		blob, err := c.bodyOf(&q, d)
		if err != nil {
			return capabilities.Output{}, err
		}
		out.Blobs = blob
	}
	out.Evidence = d.cut
	out.Result = requestList{Requests: []requestEntry{entry}, Last: last, Detail: d}
	return out, nil
}

// bodyOf fetches what the server sent: text into the detail, all else as bytes.
func (c *call) bodyOf(q *request, d *requestDetail) ([]capabilities.Blob, error) {
	if !q.done {
		return nil, capabilities.Errorf(capabilities.CodeConflict, "That request has not finished yet.").
			WithHint("Use tool.browser.wait-for with load_state network_quiet first.")
	}
	params := network.GetResponseBodyParams{RequestID: network.RequestID(q.id)}
	res, err := devtools.Do(c.ctx, q.s, network.GetResponseBody, params)
	var refused *devtools.ProtocolError
	if errors.As(err, &refused) {
		// The document of a frame is asked for in one process and held by another.
		for _, s := range c.tab.sessions() {
			if s == q.s || !errors.As(err, &refused) {
				continue
			}
			if again, failed := devtools.Do(c.ctx, s, network.GetResponseBody, params); failed == nil {
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
	text := c.lane.hider().text(strings.ToValidUTF8(string(data), "�")) // before it is cut
	whole := len(text)
	for room := maxBodyText; len(text) > maxBodyText || jsonSize(text) > 3*maxBodyText; room /= 2 {
		text, d.BodyTruncated = capabilities.Clip(text, room), true
	}
	if d.BodyTruncated {
		d.cut = fmt.Sprintf("the body is cut after %d of %d bytes; tool.browser.evaluate can fetch its URL again and give a part, by slice",
			len(text), whole)
	}
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
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") ||
		strings.HasSuffix(kind, "+xml") && kind != "image/svg+xml" ||
		kind == "application/json" || kind == "application/javascript" || kind == "application/xml" ||
		kind == "application/x-www-form-urlencoded" || kind == "application/x-ndjson"
}

// hiddenHeaders carry secrets, whoever asks.
var hiddenHeaders = map[string]bool{
	"authorization": true, "cookie": true, "set-cookie": true, "set-cookie2": true, "proxy-authorization": true, "proxy-authenticate": true,
	"www-authenticate": false, "x-api-key": true, "x-auth-token": true, "x-csrf-token": true, "x-xsrf-token": true,
}

const hidden = "(hidden)"

// showHeaders returns headers by name, secrets left out.
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
