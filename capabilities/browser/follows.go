package browser

import (
	"context"
	"slices"
	"strings"
	"time"

	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// This file is about what an action's answer waits for once the action was performed, so
// that it shows what the action did. One function does it for all actions: awaitRequests, in
// act.go.
//
// The rule, in this order:
//
//   - Requests that the action began are waited for with the change that follows (two
//     frames), also where something changed at once, because a spinner is not the result;
//     2 s at most. The answer names those that are open then. Beacons, media and streams are
//     excepted, and addresses that the page had open before, which are polls. A picture that
//     no element of the page shows is a beacon.
//   - Without such requests, anything seen is answered at once.
//   - If nothing at all was seen, it is looked on until quietWait after the event, before
//     that is said.
const (
	followWait = 2 * time.Second
	quietWait  = 250 * time.Millisecond
	// pollAge is when a request that was open before is taken for a long poll, which comes
	// again with another query.
	pollAge = time.Second
)

// followed are the kinds of requests that bring what an action asked for.
var followed = map[string]bool{
	"script": true, "stylesheet": true, "document": true, "xhr": true, "fetch": true, "image": true, "font": true,
}

// begun returns the requests to wait for that were made since the input, open or not.
func (c *call) begun(ctx context.Context, shown map[string]bool) []transfer {
	all := c.tab.network.since(c.sent)
	all = slices.DeleteFunc(all, func(q transfer) bool {
		return !followed[q.kind] || q.stream || q.main || slices.ContainsFunc(c.polls, func(p transfer) bool { return p.polls(q, c.began) })
	})
	c.findPictures(ctx, all, shown)
	return slices.DeleteFunc(all, func(q transfer) bool {
		return q.kind == "image" && q.ended.IsZero() && !shown[q.url]
	})
}

// polls reports whether q is the request again that was open at a moment.
func (p transfer) polls(q transfer, then time.Time) bool {
	if p.method != q.method || p.url == q.url {
		return p.method == q.method
	}
	path := func(url string) string { url, _, _ = strings.Cut(url, "?"); return url }
	return then.Sub(p.began) >= pollAge && path(p.url) == path(q.url)
}

// findPictures asks the page which of the pictures that are open an element shows.
func (c *call) findPictures(ctx context.Context, all []transfer, shown map[string]bool) {
	var urls []string
	for _, q := range all {
		if q.kind == "image" && q.ended.IsZero() && !shown[q.url] {
			urls = append(urls, q.url)
		}
	}
	if len(urls) == 0 || ctx.Err() != nil {
		return
	}
	w, err := c.tab.inWorld(ctx)
	if err != nil {
		return
	}
	var seen struct {
		Shown []string `json:"shown"`
	}
	if w.put(ctx, inpage.Pictures, map[string]any{"urls": urls}).get(ctx, &seen) == nil {
		for _, url := range seen.Shown {
			shown[url] = true
		}
	}
}

// drawn waits until the page drew two frames.
func (t *tab) drawn(ctx context.Context) { t.tell(ctx, inpage.Drawn, struct{}{}, nil) }

// routed waits until the page did what it began with its new address: a router shows that in many
// small tasks, which let others pass. It is waited for as long as for requests.
func (c *call) routed() {
	soft, cancel := c.soft()
	defer cancel()
	ctx, cancel := context.WithTimeout(soft, followWait+followWait/2)
	defer cancel()
	c.tab.tell(ctx, inpage.Drawn, map[string]int64{"turn": followWait.Milliseconds()}, nil)
}

// tell calls a function of the page script, and leaves answer as it is where that fails.
func (t *tab) tell(ctx context.Context, function inpage.Function, args, answer any) {
	if w, err := t.inWorld(ctx); err == nil {
		_ = w.put(ctx, function, args).get(ctx, answer)
	}
}
