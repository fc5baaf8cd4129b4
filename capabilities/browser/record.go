package browser

import (
	"bytes"
	"fmt"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/traffic"
)

// maxRecordedBodies bounds the bodies of one recording together.
const maxRecordedBodies = 16 << 20

// record leaves the requests that the tab keeps as a HAR file, an artifact. Headers that carry
// secrets are in it without their values, as in tyrum.browser.network-requests.
func (c *call) record(args ruleArgs) (capabilities.Output, error) {
	if err := c.keeps(args.KeepAs); err != nil {
		return capabilities.Output{}, err
	}
	t, err := c.lane.current(c.ctx, false)
	if err != nil {
		return capabilities.Output{}, err
	}
	c.bindTo(t)
	list := t.network.All()
	var all []traffic.Exchange
	left, missing := maxRecordedBodies, 0
	hider := c.lane.hider()
	for i := range list {
		q := &list[i]
		if q.Kind == "websocket" {
			continue // HAR has no place for what it carries
		}
		x := traffic.Exchange{
			Began: q.At, Method: q.Method, URL: q.URL, RequestHeaders: q.SentHeaders(), RequestBody: hider.body(q.Post, q.By.from),
			Status: int(q.Status), Answered: q.Status != 0, ResponseHeaders: q.AnswerHeaders(), ContentType: q.ContentType, Bytes: q.Bytes,
			Failure: q.Failure,
		}
		if q.Ended > q.Began {
			x.MS = (q.Ended - q.Began) * 1000
		}
		if args.Bodies && q.Done && q.Status != 0 {
			if body, text, ok := c.recordedBody(q); ok && len(body) <= left {
				x.Body, x.Text, x.HasBody = body, text, true
				left -= len(body)
			} else {
				missing++
			}
		}
		if err := c.ctx.Err(); err != nil {
			return capabilities.Output{}, err
		}
		all = append(all, x)
	}
	data, err := traffic.HAR("1", all)
	if err != nil {
		return capabilities.Output{}, err
	}
	if hider != nil {
		data = hider.json(data)
	}
	out := capabilities.Output{Untrusted: true, Evidence: fmt.Sprintf("%d requests are in the file", len(all))}
	if missing > 0 {
		out.Evidence += fmt.Sprintf("; of %d the body is not kept any more, or is too large", missing)
	}
	if err := c.keep(&out, args.KeepAs, "application/json", bytes.NewReader(data)); err != nil {
		return capabilities.Output{}, err
	}
	out.Result = c.rules()
	return out, nil
}

// recordedBody is a request's answer, if Chrome still has it.
func (c *call) recordedBody(q *request) (body []byte, text, ok bool) {
	var d requestDetail
	blobs, err := c.bodyOf(q, &d)
	switch {
	case err != nil || d.BodyTruncated:
		return nil, false, false
	case len(blobs) > 0:
		return blobs[0].Bytes, false, true
	case d.Body != nil:
		return []byte(*d.Body), true, true
	}
	return nil, false, false
}
