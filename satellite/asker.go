package satellite

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
)

// AskerOptions of NewAsker; required unless a default is named.
type AskerOptions struct {
	Worker string             // its ID on the gateway's roster
	Key    ed25519.PrivateKey // that it came in by
	Addrs  []string           // of the bus
	Sum    string             // SHA-256 of the bus's certificate, in hex; default: TLS says whose it is
	TLS    *tls.Config        // for a server elsewhere; default: the system's authorities
	// Rest carries what belongs to no domain of plumbing, and all while the bus is away.
	Rest http.RoundTripper
}

// Asker is a worker on the bus: it asks the domains of plumbing there (S3-23), and the rest over
// HTTPS. It is safe for concurrent use.
type Asker struct {
	opts   AskerOptions
	conn   *nats.Conn
	places chan struct{} // of requests that are under way
}

var _ http.RoundTripper = (*Asker)(nil)

// NewAsker connects as a worker that was let in. ErrNotAdmitted: it was not, or not any more.
func NewAsker(o AskerOptions) (*Asker, error) {
	pair, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, o.Key.Seed())
	if err != nil {
		return nil, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	id := Identity{Addrs: o.Addrs, Sum: o.Sum, Seed: secretText(seed)}
	conn, err := id.connect(o.TLS, nats.CustomInboxPrefix(remote.Inbox(o.Worker)), nats.Name("worker "+o.Worker))
	if err != nil {
		return nil, err
	}
	return &Asker{o, conn, make(chan struct{}, remote.MaxAsked)}, nil
}

// Close ends the connection; what is asked from then on goes over HTTPS.
func (a *Asker) Close() { a.conn.Close() }

var (
	errCut   = errors.New("the bus was cut off while a request was under way")
	errLarge = errors.New("the answer has more than the bus carries")
)

// RoundTrip asks by the bus what belongs to a domain there. A stream of events does not.
func (a *Asker) RoundTrip(r *http.Request) (*http.Response, error) {
	domain := remote.DomainOf(r.URL.Path)
	if domain == "" || r.ContentLength < 0 || r.ContentLength > remote.MaxRequest || !a.conn.IsConnected() ||
		r.Header.Get("Accept") == "text/event-stream" {
		return a.opts.Rest.RoundTrip(r)
	}
	select {
	case a.places <- struct{}{}:
		defer func() { <-a.places }()
	default: // more than the gateway takes of one worker
		return a.opts.Rest.RoundTrip(r)
	}
	m := &nats.Msg{Subject: remote.Asks(domain, a.opts.Worker), Reply: a.conn.NewInbox(), Header: nats.Header{}}
	m.Header.Set(remote.HeaderMethod, r.Method)
	m.Header.Set(remote.HeaderPath, r.URL.RequestURI())
	if r.Body != nil {
		data, err := io.ReadAll(io.LimitReader(r.Body, remote.MaxRequest))
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
		m.Data = data
	}
	heard, err := a.conn.SubscribeSync(m.Reply)
	if err != nil {
		return nil, err
	}
	defer func() { _ = heard.Unsubscribe() }()
	cut := a.conn.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer a.conn.RemoveStatusListener(cut)
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	go func() {
		select {
		case <-cut:
			end(errCut)
		case <-ctx.Done():
		}
	}()
	if err := a.conn.PublishMsg(m); err != nil {
		return nil, err
	}
	answer, err := read(ctx, heard)
	if errors.Is(err, nats.ErrNoResponders) { // it went nowhere
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(m.Data))
		return a.opts.Rest.RoundTrip(again)
	}
	if err != nil {
		ends := &nats.Msg{Subject: m.Subject, Header: nats.Header{}}
		ends.Header.Set(remote.HeaderEnds, m.Reply)
		_ = a.conn.PublishMsg(ends) // the gateway ends what nobody waits for
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	answer.Request = r
	return answer, nil
}

// read puts an answer together.
func read(ctx context.Context, heard *nats.Subscription) (*http.Response, error) {
	var body bytes.Buffer
	for {
		part, err := heard.NextMsgWithContext(ctx)
		if err != nil {
			return nil, err
		}
		if len(part.Data) == 0 && part.Header.Get("Status") == "503" {
			return nil, nats.ErrNoResponders
		}
		if body.Len()+len(part.Data) > maxAnswer {
			return nil, errLarge
		}
		body.Write(part.Data)
		status := part.Header.Get(remote.HeaderStatus)
		if status == "" {
			continue
		}
		code, err := strconv.Atoi(status)
		if err != nil {
			return nil, err
		}
		return &http.Response{
			StatusCode: code, Status: status + " " + http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			ContentLength: int64(body.Len()), Header: http.Header{"Content-Type": {part.Header.Get(remote.HeaderType)}}, Body: io.NopCloser(&body),
		}, nil
	}
}

// maxAnswer is the most bytes of one answer.
const maxAnswer = 64 << 20
