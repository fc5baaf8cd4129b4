package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/handrail-dev/handrail/gateway/client"
)

// Revisions with sessions need three things: opening one anew after the gateway forgot it, the
// standing stream, and the end.

// renew opens a session the gateway has forgotten again, with the client's own
// first messages, and tells the client that the tools may have changed.
func (b *Bridge) renew(ctx context.Context, lost string) error {
	b.renewMu.Lock()
	defer b.renewMu.Unlock()
	b.mu.Lock()
	first, second, now := b.initialize, b.initialized, b.session
	if now == lost {
		b.session, b.version = "", ""
	}
	b.mu.Unlock()
	if now != lost {
		return nil // another request has done it
	}
	if first == nil {
		return &sessionLostError{lost}
	}
	resp, _, err := b.send(ctx, http.MethodPost, first, message{Method: "initialize"}, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return client.DecodeError(resp)
	}
	learn := func(data []byte) { b.note(data, message{Method: "initialize"}, idSet{}) }
	if mediaType(resp) == "text/event-stream" {
		if _, err := readEvents(resp.Body, learn); err != nil {
			return err
		}
	} else if data, err := io.ReadAll(io.LimitReader(resp.Body, client.MaxReply)); err == nil {
		learn(data)
	}
	b.mu.Lock()
	b.session = resp.Header.Get(headerSession)
	b.mu.Unlock()
	if second != nil {
		if err := b.exchange(ctx, second, message{Method: "notifications/initialized"}, idSet{}); err != nil {
			return err
		}
	}
	b.write([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
	return nil
}

// listen keeps the stream open on which a gateway with sessions sends what
// belongs to no request.
func (b *Bridge) listen(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.standing || b.session == "" {
		return
	}
	b.standing = true
	b.side.Go(func() {
		var last event
		pause := &backoff.ExponentialBackOff{
			InitialInterval: 500 * time.Millisecond, Multiplier: 2, MaxInterval: 15 * time.Second, RandomizationFactor: 0.25,
		}
		for {
			stream, session, err := b.stream(ctx, last)
			switch {
			case errors.Is(err, errNoStream):
				return
			case err == nil:
				pause.Reset()
				next, _ := readEvents(stream.Body, b.write)
				stream.Body.Close()
				if next.id != "" {
					last = next
				}
			default:
				var lost *sessionLostError
				if errors.As(err, &lost) && b.renew(ctx, session) == nil {
					last = event{}
					pause.Reset()
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause.NextBackOff()):
			}
		}
	})
}

// errNoStream says that the gateway offers no standing stream.
var errNoStream = errors.New("no standing stream")

// stream opens a GET stream, after the event last if it has an ID.
func (b *Bridge) stream(ctx context.Context, last event) (*http.Response, string, error) {
	more := http.Header{"Accept": {"text/event-stream"}}
	if last.id != "" {
		more["Last-Event-Id"] = []string{last.id}
	}
	resp, session, err := b.send(ctx, http.MethodGet, nil, message{}, more)
	if err != nil {
		return nil, session, err
	}
	if resp.StatusCode == http.StatusOK && mediaType(resp) == "text/event-stream" {
		return resp, session, nil
	}
	resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNotFound:
		return nil, session, &sessionLostError{session}
	case http.StatusMethodNotAllowed:
		return nil, session, errNoStream
	}
	return nil, session, fmt.Errorf("the gateway answered %s", resp.Status)
}

// resume goes on with the answer of a request after its stream was closed.
func (b *Bridge) resume(ctx context.Context, last event, pass func([]byte)) (event, error) {
	select {
	case <-ctx.Done():
		return last, ctx.Err()
	case <-time.After(max(last.retry, 100*time.Millisecond)):
	}
	resp, _, err := b.stream(ctx, last)
	if err != nil {
		return last, err
	}
	defer resp.Body.Close()
	next, err := readEvents(resp.Body, pass)
	if next.id == "" {
		next.id = last.id
	}
	return next, err
}

// endSession tells the gateway that nothing more comes.
func (b *Bridge) endSession() {
	b.mu.Lock()
	session := b.session
	b.mu.Unlock()
	if session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if resp, _, err := b.send(ctx, http.MethodDelete, nil, message{}, nil); err == nil {
		resp.Body.Close()
	}
}
