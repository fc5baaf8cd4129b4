package browser

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// This file is about what an action's answer waits for once the action was performed, so
// that it shows what the action did. One function does it for all actions.
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

// awaitRequests is the rule. It returns the verdict with what the answers led to.
func (c *call) awaitRequests(v verdict) (verdict, error) {
	if now, _ := c.tab.look(); c.followed || !c.fired || departed(c.before, now) || v.only(closedTab) {
		return v, nil
	}
	c.followed = true
	soft, cancel := c.soft()
	defer cancel()
	ctx, cancel := context.WithTimeout(soft, followWait)
	defer cancel()
	shown := map[string]bool{} // pictures
	if v.only(sentRequest) {
		c.tab.tell(ctx, "follow", map[string]bool{"own": c.in.frame == nil}, nil)
	}
	for drawn := int64(0); ; {
		now, changed := c.tab.look()
		if departed(c.before, now) {
			break
		}
		began := c.begun(ctx, shown)
		open := slices.DeleteFunc(slices.Clone(began), func(q transfer) bool { return !q.ended.IsZero() })
		switch last := len(began) - 1; {
		case last < 0:
			return v, nil
		case ctx.Err() != nil && len(open) > 0:
			c.standing = standing{open: listed(open, c.lane.hider())}
			fallthrough
		case ctx.Err() != nil || len(open) == 0 && began[last].seq == drawn:
			return c.led(v)
		case len(open) == 0:
			drawn = began[last].seq
			c.tab.drawn(ctx)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if err := c.ctx.Err(); err != nil {
				return v, err
			}
		}
	}
	return c.led(v)
}

// led is the verdict with what the answers to requests led to.
func (c *call) led(v verdict) (verdict, error) {
	c.place = nil // they may have changed the address
	now, _ := c.tab.look()
	if now.requested != c.before.requested && !departed(c.before, now) {
		c.tab.awaitFor(c.ctx, boundToCome, func(s tabState) bool {
			return departed(c.before, s) || s.navigating == "" && s.inPage != c.before.inPage
		})
		now, _ = c.tab.look()
	}
	seen, ok := reported(c.before, now)
	switch {
	case !ok || seen.only(sentRequest) || v.says(seen):
		var page struct {
			Changed bool `json:"changed"`
		}
		if v.only(sentRequest) {
			c.tab.tell(c.ctx, "followed", struct{}{}, &page)
		}
		if page.Changed {
			v = v.with(evidence{cause: changedThen})
		}
		return v, nil
	case v.only(sentRequest) || v.effect == capabilities.EffectSuspectNoop:
		return c.arrive(c.before, seen)
	}
	return c.follow(v)
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
	if w.put(ctx, "pictures", map[string]any{"urls": urls}).get(ctx, &seen) == nil {
		for _, url := range seen.Shown {
			shown[url] = true
		}
	}
}

// drawn waits until the page drew two frames.
func (t *tab) drawn(ctx context.Context) { t.tell(ctx, "drawn", struct{}{}, nil) }

// tell calls a function of the page script, and leaves answer as it is where that fails.
func (t *tab) tell(ctx context.Context, function string, args, answer any) {
	if w, err := t.inWorld(ctx); err == nil {
		_ = w.put(ctx, function, args).get(ctx, answer)
	}
}
