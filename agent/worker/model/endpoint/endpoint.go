package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/sse"
)

// Bounds.
const (
	MaxBody   = 16 << 20 // bytes of an answer at once, and of one event
	MaxStream = 256 << 20
	maxSaid   = 64 << 10 // of a refusal
	tries     = 3
	firstWait = 500 * time.Millisecond
	maxWait   = 8 * time.Second
	maxAsked  = 60 // seconds that an endpoint may have us wait
)

// ErrTooLarge says that an answer is larger than this package reads.
var ErrTooLarge = errors.New("the answer is too large")

// Error is a refusal.
type Error struct {
	Status  int
	Message string // the endpoint's words, without the key; may be empty
}

func (e *Error) Error() string {
	return fmt.Sprintf("the endpoint answered %d: %s", e.Status, e.Message)
}

// Endpoint is one. It is safe for concurrent use.
type Endpoint struct {
	base   string
	key    capabilities.Secret
	client *http.Client
	first  time.Duration // before a second try
}

// Open makes an Endpoint of its base URL, and asks nothing of it yet. The zero key is none.
func Open(base string, key capabilities.Secret) *Endpoint {
	client := &http.Client{
		Transport:     http.DefaultTransport.(*http.Transport).Clone(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Endpoint{strings.TrimSuffix(base, "/"), key, client, firstWait}
}

// Close ends connections that wait for another request.
func (e *Endpoint) Close() { e.client.CloseIdleConnections() }

// Ask sends ask and reads the answer into answer.
func (e *Endpoint) Ask(ctx context.Context, path string, ask, answer any) error {
	body, err := e.open(ctx, path, "application/json", ask)
	if err != nil {
		return err
	}
	defer body.Close()
	data, err := io.ReadAll(&bounded{body, MaxBody})
	if err != nil {
		return err
	}
	return json.Unmarshal(data, answer)
}

// Stream sends ask and calls fn with the data of each event, until fn returns an error or the
// stream ends, which is no error: whether it said all is for fn to know.
func (e *Endpoint) Stream(ctx context.Context, path string, ask any, fn func(data []byte) error) error {
	body, err := e.open(ctx, path, "text/event-stream", ask)
	if err != nil {
		return err
	}
	defer body.Close()
	err = sse.Read(&bounded{body, MaxStream}, MaxBody, func(event sse.Event) error { return fn(event.Data) })
	if errors.Is(err, sse.ErrTooLarge) {
		return ErrTooLarge
	}
	return err
}

// open sends until the endpoint answers, or refuses for good.
func (e *Endpoint) open(ctx context.Context, path, accept string, ask any) (io.ReadCloser, error) {
	sent, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	waits := &pauses{ExponentialBackOff: backoff.ExponentialBackOff{
		InitialInterval: e.first, Multiplier: 2, RandomizationFactor: 0.25, MaxInterval: maxWait,
	}}
	return backoff.Retry(ctx, func() (io.ReadCloser, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+path, bytes.NewReader(sent))
		if err != nil {
			return nil, backoff.Permanent(cause(err))
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", accept)
		req.Header.Set("User-Agent", "handrail")
		if !e.key.IsZero() {
			req.Header.Set("Authorization", "Bearer "+string(e.key.Reveal()))
		}
		resp, err := e.client.Do(req)
		if err != nil {
			return nil, cause(err)
		}
		if resp.StatusCode >= 200 && resp.StatusCode < 300 {
			return resp.Body, nil
		}
		defer resp.Body.Close()
		refused := &Error{resp.StatusCode, e.said(resp)}
		if !passing(resp.StatusCode) {
			return nil, backoff.Permanent(refused)
		}
		if asked, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
			waits.asked = time.Duration(min(max(asked, 0), maxAsked)) * time.Second
		}
		return nil, refused
	}, backoff.WithBackOff(waits), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(0))
}

// pauses double, unless the endpoint says how long to wait.
type pauses struct {
	backoff.ExponentialBackOff
	asked time.Duration
}

func (p *pauses) NextBackOff() time.Duration {
	wait := p.ExponentialBackOff.NextBackOff()
	if p.asked > 0 {
		wait, p.asked = p.asked, 0
	}
	return wait
}

// passing reports whether a refusal may be over by itself.
func passing(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooManyRequests || status >= 500
}

// said returns the endpoint's words for its refusal, of any of the forms that endpoints have.
func (e *Endpoint) said(resp *http.Response) string {
	if where := resp.Header.Get("Location"); resp.StatusCode < 400 && where != "" {
		return "it names another address, and none is followed"
	}
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxSaid))
	var form struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  string          `json:"detail"`
	}
	if json.Unmarshal(data, &form) != nil {
		return e.Without(strings.TrimSpace(string(data)))
	}
	var inner struct {
		Message string `json:"message"`
	}
	text := form.Message + form.Detail
	if json.Unmarshal(form.Error, &inner) == nil && inner.Message != "" {
		text = inner.Message
	} else if json.Unmarshal(form.Error, &inner.Message) == nil && inner.Message != "" {
		text = inner.Message
	}
	return e.Without(text)
}

// Without takes the key out of a text.
func (e *Endpoint) Without(text string) string {
	if key := string(e.key.Reveal()); key != "" {
		text = strings.ReplaceAll(text, key, e.key.String())
	}
	return text
}

// cause leaves out the address, which may hold a name and a password.
func cause(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// bounded fails where an answer goes on for more than its bound.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrTooLarge
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
