package push

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
)

const (
	tries    = 4
	maxPause = time.Hour
	workers  = 8
	queued   = 256
	maxReply = 16 << 10
	maxText  = 200 // runes of a line
)

// Message is what a browser shows.
type Message struct {
	Approval string `json:"approval,omitempty"` // the question's ID; "": it is about none
	Drift    string `json:"drift,omitempty"`    // the drift event's ID; "": it is about none
	Title    string `json:"title"`
	Body     string `json:"body"`
}

// about says of a question who wants what and where, and nothing of its arguments: it
// may be shown on a locked screen.
func about(a *consent.Approval) Message {
	where := ""
	if name := a.NodeLabel; name != "" || a.Node != "" {
		if name == "" {
			name = string(a.Node)
		}
		where = " on " + name
	}
	m := Message{Approval: a.ID, Title: string(a.Principal) + " waits for you", Body: "It wants to use " + string(a.Tool) + where + "."}
	if a.Risk != "" {
		m.Body += " " + strings.ToUpper(a.Risk[:1]) + a.Risk[1:] + " risk."
	}
	m.Title, m.Body = capabilities.Brief(consent.Plain(m.Title), maxText), capabilities.Brief(consent.Plain(m.Body), maxText)
	return m
}

// job is one message to one browser.
type job struct {
	sub   *subscription
	m     Message
	until time.Time // when the question ends
}

// Run tells, until ctx ends, and returns after everything it started has ended.
func (b *Book) Run(ctx context.Context) error {
	cancel := b.opts.Tokens.OnRevoke(b.revoked)
	defer cancel()
	jobs := make(chan job, queued)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for j := range jobs {
				b.tell(ctx, j)
			}
		})
	}
	var following sync.WaitGroup
	if b.opts.Ledger != nil {
		following.Go(func() { b.followDrift(ctx, b.opts.After, jobs) })
	}
	told := map[string]bool{}
	for ctx.Err() == nil {
		changed := b.opts.Waiting.Changed() // before reading, so that nothing is missed
		b.removeRevoked(ctx)
		told = b.news(told, jobs)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-b.woken:
		}
	}
	following.Wait()
	close(jobs)
	all.Wait()
	b.client.CloseIdleConnections()
	return nil
}

// removeRevoked takes what a revocation ended out of the store.
func (b *Book) removeRevoked(ctx context.Context) {
	b.mu.Lock()
	over := b.over
	b.over = nil
	b.mu.Unlock()
	if len(over) == 0 {
		return
	}
	if err := b.forget(ctx, over, "", "signed_out"); err != nil {
		b.opts.Log.Warn("push.forget", "err", err)
		b.mu.Lock()
		b.over = append(b.over, over...) // Load looks at them anew, too
		b.mu.Unlock()
	}
}

// news queues a message about every question that is not in told for every browser, and returns
// what has been told of what waits.
func (b *Book) news(told map[string]bool, jobs chan<- job) map[string]bool {
	waiting := b.opts.Waiting.Approvals()
	now := make(map[string]bool, len(waiting))
	for i := range waiting {
		a := &waiting[i]
		now[a.ID] = true
		if told[a.ID] {
			continue
		}
		m := about(a)
		for _, s := range b.everybody() {
			if s.Principal == a.Principal {
				continue // nobody approves what they asked for
			}
			select {
			case jobs <- job{s, m, a.Expires}:
			default:
				b.opts.Log.Warn("push.dropped", "service", s.Service, "approval", a.ID)
			}
		}
	}
	return now
}

// tell sends one message until it is taken or given up.
func (b *Book) tell(ctx context.Context, j job) {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		left := j.until.Sub(b.opts.Now())
		if ctx.Err() != nil || left <= 0 || !b.still(j.sub) {
			return struct{}{}, nil
		}
		switch b.post(ctx, j.sub, j.m, left) {
		case taken, refused:
			return struct{}{}, nil
		case gone:
			b.gone(ctx, j.sub)
			return struct{}{}, nil
		}
		return struct{}{}, errNotTaken
	}, backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: b.opts.Backoff, Multiplier: 2, MaxInterval: maxPause}),
		backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(0))
	if err != nil && ctx.Err() == nil {
		b.opts.Log.Error("push.given_up", "service", j.sub.Service, "approval", j.m.Approval, "drift", j.m.Drift)
	}
}

var errNotTaken = errors.New("push: it was not taken")

// gone forgets a browser that its service does not know any more.
func (b *Book) gone(ctx context.Context, s *subscription) {
	b.mu.Lock()
	if b.subs[s.ID] == s {
		delete(b.subs, s.ID)
	}
	b.mu.Unlock()
	if err := b.forget(ctx, []string{s.ID}, "", "gone"); err != nil && ctx.Err() == nil {
		b.opts.Log.Warn("push.forget", "err", err)
	}
}

// still reports whether a browser is to be told: nobody unsubscribed it, and what its
// person signed in with is good.
func (b *Book) still(s *subscription) bool {
	b.mu.Lock()
	same := b.subs[s.ID] == s
	b.mu.Unlock()
	return same && b.opts.Tokens.Valid(s.parent)
}

// outcome is what became of one message.
type outcome int

const (
	failed  outcome = iota // another try may help
	taken                  // the push service has it
	gone                   // there is no such browser any more
	refused                // another try would not help
)

// post sends once.
func (b *Book) post(ctx context.Context, s *subscription, m Message, life time.Duration) outcome {
	text, err := json.Marshal(m)
	if err != nil {
		return refused
	}
	body, err := sealed(s.at, text)
	if err != nil {
		b.opts.Log.Error("push.seal", "service", s.Service, "err", err)
		return refused
	}
	voucher, err := vouch(b.opts.Key, s.at.origin(), b.opts.Contact, b.opts.Now())
	if err != nil {
		b.opts.Log.Error("push.vouch", "service", s.Service, "err", err)
		return refused
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.at.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return refused
	}
	req.Header.Set("Authorization", voucher)
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set("Content-Encoding", "aes128gcm")
	req.Header.Set("TTL", strconv.Itoa(max(1, int(life/time.Second)))) // a question that is over is not told
	req.Header.Set("Urgency", "high")
	if m.Approval != "" {
		sum := sha256.Sum256([]byte(m.Approval))
		req.Header.Set("Topic", base64.RawURLEncoding.EncodeToString(sum[:24])) // 32 letters at most (RFC 8030 section 5.4)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		var at *url.Error // its text has the address, which is as good as a secret
		if errors.As(err, &at) {
			err = at.Err
		}
		if ctx.Err() == nil {
			b.opts.Log.Warn("push.failed", "service", s.Service, "err", err)
		}
		return failed
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxReply) // so that the connection can be used again
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return taken
	case code == http.StatusNotFound, code == http.StatusGone:
		return gone
	case code/100 == 5, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return failed
	}
	b.opts.Log.Warn("push.refused", "service", s.Service, "status", resp.StatusCode)
	return refused
}
