package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// Ledger is what is followed; gateway/ledger implements it.
type Ledger = ledger.Followed

// Options of New; required unless a default is named.
type Options struct {
	Hooks  []Hook
	Ledger Ledger
	// After is the sequence number after which packets are told: what waited before
	// a start is forgotten by then.
	After uint64
	// Approval returns a question as people see it.
	Approval func(id string) (consent.Approval, error)
	// Backoff is the pause before the second try, doubled for each further one;
	// default 1 s.
	Backoff time.Duration
	Log     *slog.Logger // default: discards
}

const (
	tries    = 8
	maxPause = time.Hour
	timeout  = 10 * time.Second
	maxReply = 64 << 10
)

// Sender tells receivers. Run it.
type Sender struct {
	opts   Options
	client *http.Client
}

// New makes a Sender; it starts nothing.
func New(o Options) (*Sender, error) {
	if o.Ledger == nil || o.Approval == nil {
		return nil, errors.New("webhook: Ledger and Approval are required")
	}
	if o.Backoff <= 0 {
		o.Backoff = time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // what is told is for one receiver
	return &Sender{opts: o, client: &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Run tells every receiver, each at its own pace, until ctx ends.
func (s *Sender) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, h := range s.opts.Hooks {
		all.Go(func() { s.follow(ctx, h, "gateway.approval.") })
		all.Go(func() { s.follow(ctx, h, "gateway.drift.") })
	}
	all.Wait()
	s.client.CloseIdleConnections()
	return nil
}

// follow tells one receiver of packets whose kind begins so.
func (s *Sender) follow(ctx context.Context, h Hook, kind ledger.Kind) {
	ledger.Follow(ctx, s.opts.Ledger, s.opts.After, kind, func(p *ledger.Packet) {
		if told(p) {
			s.tell(ctx, h, p)
		}
	}, func(err error) { s.opts.Log.Warn("webhook.read", "err", err) })
}

// told reports whether a packet is for receivers: of drift, violations and critical events of
// calls, what was done about them, and what a person ended.
func told(p *ledger.Packet) bool {
	switch p.Kind {
	case ledger.KindDrift:
		var d packet.Drift
		return json.Unmarshal(p.Body, &d) == nil && d.Severity != drift.Warning
	case ledger.KindDriftSurfaced, ledger.KindDriftUncounted, ledger.KindRiskCleared:
		return false
	}
	return true
}

// Message is what a receiver reads.
type Message struct {
	// Type is approval.asked, approval.answered or approval.late; or drift.event, drift.resolved,
	// drift.quarantined, drift.lifted, drift.restricted or drift.reviewed.
	Type string    `json:"type"`
	Time time.Time `json:"timestamp"`
	Seq  uint64    `json:"seq"` // of the ledger
	// By is who asked or answered; of drift, whose call it was, or who ended what it brought about.
	By capabilities.PrincipalID `json:"by,omitempty"`
	// Call, Tool and Node are of drift.
	Call capabilities.CallID `json:"call_id,omitempty"`
	Tool capabilities.ToolID `json:"tool_id,omitempty"`
	Node capabilities.NodeID `json:"node_id,omitempty"`
	Data json.RawMessage     `json:"data"`
	// Approval is the question as it stands now; absent if it is long over.
	Approval *api.Approval `json:"approval,omitempty"`
}

// withoutArguments returns the body of a packet about a question without what the call is about:
// a message may lie where others read it, agents among them.
func withoutArguments(body json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields["arguments"] == nil {
		return body
	}
	delete(fields, "arguments")
	without, err := json.Marshal(fields)
	if err != nil { // they were JSON a moment ago
		return json.RawMessage("{}")
	}
	return without
}

// tell sends one packet until it is taken or given up.
func (s *Sender) tell(ctx context.Context, h Hook, p *ledger.Packet) {
	m := Message{Type: strings.TrimPrefix(string(p.Kind), "gateway."), Time: p.Time(), Seq: p.Seq, By: p.Principal, Data: p.Body}
	if strings.HasPrefix(m.Type, "drift.") {
		m.Call, m.Tool, m.Node = p.Call, p.Tool, p.Node
	}
	var ref packet.OfApproval
	if err := json.Unmarshal(p.Body, &ref); err == nil {
		if a, err := s.opts.Approval(ref.Approval); err == nil {
			v := front.ViewApproval(&a)
			v.Arguments, v.Hosts, v.Paths = nil, nil, nil
			m.Approval = &v
		}
		m.Data = withoutArguments(p.Body)
	}
	body, err := json.Marshal(m)
	if err != nil {
		s.opts.Log.Error("webhook.encode", "seq", p.Seq, "err", err)
		return
	}
	tried := 0
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		tried++
		taken, again := s.post(ctx, h, "msg_"+strconv.FormatUint(p.Seq, 10), body)
		switch {
		case taken:
			return struct{}{}, nil
		case again:
			return struct{}{}, errNotTaken
		}
		return struct{}{}, backoff.Permanent(errNotTaken)
	}, backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: s.opts.Backoff, Multiplier: 2, MaxInterval: maxPause}),
		backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(0))
	if err != nil && ctx.Err() == nil {
		s.opts.Log.Error("webhook.given_up", "host", h.URL.Host, "seq", p.Seq, "tries", tried)
	}
}

var errNotTaken = errors.New("webhook: it was not taken")

// post sends once. again is false for what a second try would not change.
func (s *Sender) post(ctx context.Context, h Hook, id string, body []byte) (taken, again bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL.String(), bytes.NewReader(body))
	if err != nil {
		return false, false
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "handrail")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", stamp)
	req.Header.Set("Webhook-Signature", Sign(h.Key, id, stamp, body))
	resp, err := s.client.Do(req)
	if err != nil {
		s.opts.Log.Warn("webhook.failed", "host", h.URL.Host, "err", errors.Unwrap(err)) // the rest of the address may be a secret
		return false, true
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxReply) // so that the connection can be used again
	switch {
	case resp.StatusCode/100 == 2:
		return true, false
	case resp.StatusCode/100 == 5, resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusRequestTimeout:
		return false, true
	}
	return false, false
}

// Sign returns the signature of a message: "v1," and the base64 of HMAC-SHA-256 over
// ID.TIMESTAMP.BODY (the Standard Webhooks specification).
func Sign(k Key, id, stamp string, body []byte) string {
	h := hmac.New(sha256.New, k.bytes)
	h.Write([]byte(id + "." + stamp + "."))
	h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}
