package browser

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/chromedp/cdproto/network"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// maxBodyText bounds what an answer has of a body.
const maxBodyText = 256 << 10

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
	Requests []record.Entry `json:"requests"`
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
	wanted := record.Filter{Since: args.Since, Kinds: map[string]bool{}, Holding: args.Filter}
	for _, kind := range args.Types {
		wanted.Kinds[kind] = true
	}
	if args.Before != "" {
		if wanted.Before = requestNumber(args.Before); wanted.Before == 0 {
			return capabilities.Output{}, noRequest(args.Before)
		}
	}
	found := t.network.List(wanted)
	result := requestList{Requests: found.Requests, Last: found.Last}
	result.Omitted = newestThatFit(&result.Requests, args.Limit,
		func(e record.Entry) int { return jsonSize(e.URL) + jsonSize(e.Failure) + len(e.ContentType) })
	out := capabilities.Output{Untrusted: true}
	var told []string
	if result.Omitted > 0 && len(result.Requests) > 0 {
		told = append(told,
			fmt.Sprintf("%d older ones are left out: before %q returns the newest of them", result.Omitted, result.Requests[0].ID))
	}
	if args.Since == nil && found.Earlier > 0 {
		told = append(told, fmt.Sprintf("%d of pages before are not listed: since 0 lists them", found.Earlier))
	}
	if found.Lost > 0 {
		told = append(told, fmt.Sprintf("%d of the earliest are not kept any more", found.Lost))
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
func (c *call) oneRequest(t *laneTab, id string, body bool) (capabilities.Output, error) {
	seq := requestNumber(id)
	q, last, ok := t.network.Get(seq)
	if !ok {
		return capabilities.Output{}, noRequest(id)
	}
	d := &requestDetail{RequestHeaders: q.SentHeaders(), ResponseHeaders: q.AnswerHeaders(), RequestBody: q.Post}
	entry := q.Entry(seq)
	out := capabilities.Output{Untrusted: true}
	if q.HasPost && q.Post == "" {
		if p, err := devtools.Do(c.ctx, q.Session, network.GetRequestPostData,
			network.GetRequestPostDataParams{RequestID: network.RequestID(q.ID)}); err == nil {
			d.RequestBody = string(p.PostData)
		}
	}
	d.RequestBody = c.lane.hider().body(strings.ToValidUTF8(d.RequestBody, "�"), q.By.from)
	if d.RequestBody = clipText(d.RequestBody, record.MaxPostData); body {
		blob, err := c.bodyOf(&q, d)
		if err != nil {
			return capabilities.Output{}, err
		}
		out.Blobs = blob
	}
	out.Evidence = d.cut
	out.Result = requestList{Requests: []record.Entry{entry}, Last: last, Detail: d}
	return out, nil
}

// bodyOf fetches what the server sent: text into the detail, all else as bytes.
func (c *call) bodyOf(q *request, d *requestDetail) ([]capabilities.Blob, error) {
	if !q.Done {
		return nil, capabilities.Errorf(capabilities.CodeConflict, "That request has not finished yet.").
			WithHint("Use tool.browser.wait-for with load_state network_quiet first.")
	}
	params := network.GetResponseBodyParams{RequestID: network.RequestID(q.ID)}
	res, err := devtools.Do(c.ctx, q.Session, network.GetResponseBody, params)
	var refused *devtools.ProtocolError
	if errors.As(err, &refused) {
		// The document of a frame is asked for in one process and held by another.
		for _, s := range c.tab.sessions() {
			if s == q.Session || !errors.As(err, &refused) {
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
	if !isText(q.ContentType) && (res.Base64encoded || !utf8.Valid(data)) {
		return []capabilities.Blob{{Field: "bytesBase64", MIME: orDefault(q.ContentType, "application/octet-stream"), Bytes: data}}, nil
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
