package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/handrail-dev/handrail/gateway/metrics"
)

const (
	// maxQueue is how many calls may wait to be told.
	maxQueue = 1024
	// maxBatch is how many calls one request tells.
	maxBatch = 64
	// gather is how long the first call of a batch waits for others.
	gather = time.Second
	// tries is how often a request is made, and firstPause what is between the first two.
	tries      = 4
	firstPause = time.Second
	maxPause   = 10 * time.Second
	// parting is how long what is left may take when the gateway ends.
	parting = 2 * time.Second
	// maxAnswer is how much of an answer is read.
	maxAnswer = 64 << 10
)

// The fates of spans, as handrail_trace_spans_total says them.
const (
	outcomeExported = "exported" // the collector took them
	outcomeDropped  = "dropped"  // the queue was full, or the collector away for too long
	outcomeRefused  = "refused"  // the collector did not want them
)

// Options of New; required unless a default is named.
type Options struct {
	Config   *Config
	Version  string // of this program
	Instance string // the gateway's ID
	Metrics  *metrics.Registry
	Log      *slog.Logger // default: discards
	// Gather and Pause are as the constants say; for tests.
	Gather, Pause time.Duration
}

// Exporter sends what it is told of calls to a collector. All methods are safe for concurrent use.
type Exporter struct {
	opts   Options
	client *http.Client
	from   source
	queue  chan Call
	spans  metrics.Counter
	away   bool // the collector, at the last try; Run's alone
}

// New makes an Exporter; Run starts it.
func New(o Options) *Exporter {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Gather == 0 {
		o.Gather = gather
	}
	if o.Pause == 0 {
		o.Pause = firstPause
	}
	own := append([]attr{
		{"service.name", o.Config.service}, {"service.version", o.Version}, {"service.instance.id", o.Instance},
	}, o.Config.attrs...)
	e := &Exporter{
		opts: o, client: o.Config.client(), queue: make(chan Call, maxQueue),
		from: source{gateway: own, node: append([]attr{{"service.name", nodeService}}, o.Config.attrs...), version: o.Version},
		spans: o.Metrics.Counter("handrail_trace_spans_total",
			"Spans by what became of them: exported, dropped (the queue was full, or the collector away) or refused by the collector.", "outcome"),
	}
	for _, outcome := range [...]string{outcomeExported, outcomeDropped, outcomeRefused} {
		e.spans.Add(0, outcome)
	}
	return e
}

// End takes a call that ended. It never blocks: what does not fit in the queue is dropped, and
// counted.
func (e *Exporter) End(c Call) {
	if !c.Sampled {
		return
	}
	select {
	case e.queue <- c:
	default:
		e.spans.Add(len(c.spans()), outcomeDropped)
	}
}

// Run sends what End takes, until ctx ends and what is left is sent or its time is over.
func (e *Exporter) Run(ctx context.Context) error {
	defer e.client.CloseIdleConnections()
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(parting, stop) })()
	batch := make([]Call, 0, maxBatch)
	for {
		select {
		case c := <-e.queue:
			batch = e.gather(ctx, append(batch[:0], c))
			e.send(sending, batch)
		case <-ctx.Done():
			for len(e.queue) > 0 {
				e.send(sending, e.waiting(batch[:0]))
			}
			return nil
		}
	}
}

// gather adds what ends soon after the first of a batch.
func (e *Exporter) gather(ctx context.Context, batch []Call) []Call {
	soon := time.NewTimer(e.opts.Gather)
	defer soon.Stop()
	for len(batch) < maxBatch {
		select {
		case c := <-e.queue:
			batch = append(batch, c)
		case <-soon.C:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// waiting adds what is in the queue.
func (e *Exporter) waiting(batch []Call) []Call {
	for len(batch) < maxBatch {
		select {
		case c := <-e.queue:
			batch = append(batch, c)
		default:
			return batch
		}
	}
	return batch
}

// refusedError is a collector's word that the same request will not do another time.
type refusedError struct{ status int }

func (e refusedError) Error() string { return fmt.Sprintf("the collector answered %d", e.status) }

// send makes one request of a batch, again where that may help, and counts what became of it.
func (e *Exporter) send(ctx context.Context, batch []Call) {
	body, count := e.from.encode(batch)
	pauses := &backoff.ExponentialBackOff{InitialInterval: e.opts.Pause, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: maxPause}
	out, err := backoff.Retry(ctx, func() (uint64, error) { return e.post(ctx, body) }, backoff.WithBackOff(pauses),
		backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(0))
	var refused refusedError
	switch {
	case err == nil:
		kept := count - int(min(out, uint64(count)))
		e.spans.Add(kept, outcomeExported)
		e.spans.Add(count-kept, outcomeRefused)
	case errors.As(err, &refused):
		e.spans.Add(count, outcomeRefused)
	default:
		e.spans.Add(count, outcomeDropped)
	}
	switch {
	case err != nil && !e.away:
		e.opts.Log.Warn("traces.failed", "collector", e.opts.Config.Place(), "spans", count, "err", err)
	case err == nil && e.away:
		e.opts.Log.Info("traces.work_again", "collector", e.opts.Config.Place())
	}
	e.away = err != nil
}

// post makes one request, and returns how many spans of it the collector did not take.
func (e *Exporter) post(ctx context.Context, body []byte) (rejects uint64, _ error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.opts.Config.url, bytes.NewReader(body))
	if err != nil {
		return 0, backoff.Permanent(err)
	}
	for name, values := range e.opts.Config.headers {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "handrail/"+e.opts.Version)
	answer, err := e.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case answer.StatusCode/100 == 2:
		return rejected(said), nil // err: it took them, and only its word is lost
	case answer.StatusCode == http.StatusTooManyRequests,
		answer.StatusCode >= http.StatusBadGateway && answer.StatusCode <= http.StatusGatewayTimeout:
		if n, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && n > 0 {
			return 0, backoff.RetryAfter(min(n, int(maxPause/time.Second)))
		}
		return 0, fmt.Errorf("the collector answered %d", answer.StatusCode)
	}
	return 0, backoff.Permanent(errors.Join(refusedError{answer.StatusCode}, err))
}
