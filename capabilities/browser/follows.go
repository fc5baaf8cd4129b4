package browser

import (
	"context"
	"slices"
	"strings"
	"time"

	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
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
func (c *call) begun(ctx context.Context, shown map[string]bool) []record.Transfer {
	all := c.tab.network.Since(c.sent)
	all = slices.DeleteFunc(all, func(q record.Transfer) bool {
		return !followed[q.Kind] || q.Stream || q.Main ||
			slices.ContainsFunc(c.polls, func(p record.Transfer) bool { return polls(p, q, c.began) })
	})
	c.findPictures(ctx, all, shown)
	return slices.DeleteFunc(all, func(q record.Transfer) bool {
		return q.Kind == "image" && q.Ended.IsZero() && !shown[q.URL]
	})
}

// polls reports whether q is the request p again, which was open at a moment.
func polls(p, q record.Transfer, then time.Time) bool {
	if p.Method != q.Method || p.URL == q.URL {
		return p.Method == q.Method
	}
	path := func(url string) string { url, _, _ = strings.Cut(url, "?"); return url }
	return then.Sub(p.Began) >= pollAge && path(p.URL) == path(q.URL)
}

// findPictures asks the page which of the pictures that are open an element shows.
func (c *call) findPictures(ctx context.Context, all []record.Transfer, shown map[string]bool) {
	var urls []string
	for _, q := range all {
		if q.Kind == "image" && q.Ended.IsZero() && !shown[q.URL] {
			urls = append(urls, q.URL)
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

// routed waits until the page did what it began with its new address: a router shows that in many
// small tasks, which let others pass. It is waited for as long as for requests.
func (c *call) routed() {
	soft, cancel := c.soft()
	defer cancel()
	ctx, cancel := context.WithTimeout(soft, followWait+followWait/2)
	defer cancel()
	c.tab.tell(ctx, inpage.Drawn, map[string]int64{"turn": followWait.Milliseconds()}, nil)
}
