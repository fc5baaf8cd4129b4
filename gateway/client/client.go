package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
	"github.com/handrail-dev/handrail/gateway/api"
)

// MaxReply bounds what is read of one answer, in bytes; a full-page screenshot in
// base64 is the largest thing a gateway sends.
const MaxReply = 64 << 20

// ErrUnreachable is the error, by errors.Is, when no gateway answers.
var ErrUnreachable = errors.New("no gateway answers")

// Token is a bearer token. No way of printing it shows it.
type Token struct{ text string }

// NewToken takes a token as 'handrail token create' printed it.
func NewToken(text string) Token { return Token{strings.TrimSpace(text)} }

// Format hides the token whatever the verb.
func (Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(token)") }

// LogValue hides the token.
func (Token) LogValue() slog.Value { return slog.StringValue("(token)") }

// MarshalText hides the token.
func (Token) MarshalText() ([]byte, error) { return []byte("(token)"), nil }

// Reveal returns the token itself, for what sends it some other way.
func (t Token) Reveal() string { return t.text }

// Client speaks to one gateway as one principal. It is safe for concurrent use.
type Client struct {
	base  *url.URL
	token Token
	trace string // traceparent of each request; empty: none
	http  *http.Client
}

// New makes a client of the gateway at address, "host:port" or a URL. Plain HTTP is
// for loopback only: a bearer token does not cross a network unprotected. It
// connects to nothing yet.
func New(address string, token Token) (*Client, error) {
	base, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	return At(base, token, Pin{}), nil
}

// NewPinned is New for a gateway whose certificate is known by its fingerprint, as
// 'handrail login' shows it.
func NewPinned(address string, token Token, pin Pin) (*Client, error) {
	base, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	if base.Scheme != "https" {
		return nil, fmt.Errorf("%q has no certificate; a pinned address begins with https", address)
	}
	return At(base, token, pin), nil
}

// At is New and NewPinned for an address of ParseAddress.
func At(base *url.URL, token Token, pin Pin) *Client {
	transport := pin.Transport()
	transport.DialContext = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	return &Client{base: base, token: token, http: &http.Client{
		Transport: transport,
		// Following a redirect would carry the token to another place.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Through has requests carried by another transport, which gets the one before for what it does not
// carry itself.
func (c *Client) Through(wrap func(before http.RoundTripper) http.RoundTripper) {
	c.http.Transport = wrap(c.http.Transport)
}

// ParseAddress reads the address of a gateway as New takes it.
func ParseAddress(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	base, ok := address.Web(strings.TrimRight(text, "/"))
	if !ok || base.RawQuery != "" {
		return nil, fmt.Errorf("%q is not an address such as http://127.0.0.1:7480", text)
	}
	if ip := net.ParseIP(base.Hostname()); base.Scheme == "http" && base.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("%q would send the token unencrypted over a network; use https, or a tunnel to a loopback address", text)
	}
	return base, nil
}

// Address is the gateway's base URL, such as "http://127.0.0.1:7480".
func (c *Client) Address() string { return c.base.String() }

// Path joins segments into a path below /v1, each escaped.
func Path(segments ...string) string {
	escaped := make([]string, len(segments))
	for i, s := range segments {
		escaped[i] = url.PathEscape(s)
	}
	return "/v1/" + strings.Join(escaped, "/")
}

// Query appends the non-empty pairs (name, value, name, value …) to path.
func Query(path string, pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// Do sends in as JSON (nil: no body) and decodes the answer into out (nil:
// discarded). The typed methods are made of it; it is here for what they leave out,
// such as fields that are newer than this package.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	body, err := c.Open(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, MaxReply+1))
	if err != nil {
		return c.Unreachable(ctx, err)
	}
	if len(data) > MaxReply {
		return capabilities.Errorf(capabilities.CodeResultTooLarge, "the gateway's answer is larger than %d MiB", MaxReply>>20)
	}
	if out == nil || len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("the answer of %s %s is not what this version expects: %w", method, path, err)
	}
	return nil
}

// Open sends in and returns the body of a successful answer; the caller closes it.
func (c *Client) Open(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Send(req)
	if err != nil {
		return nil, c.Unreachable(ctx, err)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	return nil, DecodeError(resp)
}

// Within returns the same client, whose requests say by a W3C traceparent where they stand in a
// trace; empty: in none.
func (c *Client) Within(traceparent string) *Client {
	other := *c
	other.trace = traceparent
	return &other
}

// Send adds the token and sends a request to this gateway, whose address it must
// begin with. Errors and answers are as they come.
func (c *Client) Send(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != c.base.Scheme || req.URL.Host != c.base.Host {
		return nil, fmt.Errorf("%s is not the gateway %s that the token is for", req.URL.Host, c.base.Host)
	}
	req.Header.Set("Authorization", "Bearer "+c.token.text)
	if c.trace != "" {
		req.Header.Set("Traceparent", c.trace)
	}
	return c.http.Do(req)
}

// unreachable is ErrUnreachable with its address and cause.
type unreachable struct {
	address string
	cause   error
}

func (e *unreachable) Error() string {
	return fmt.Sprintf("no gateway answers at %s (%v)", e.address, e.cause)
}
func (e *unreachable) Unwrap() error        { return e.cause }
func (e *unreachable) Is(target error) bool { return target == ErrUnreachable }

// Unreachable makes ErrUnreachable of what Send returned, unless the caller gave up:
// then it is the context's error.
func (c *Client) Unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var op *url.Error
	if errors.As(err, &op) {
		err = op.Err
	}
	return &unreachable{c.base.String(), err}
}

// DecodeError reads the error form of the API. An answer of another form (a proxy's
// page, say) becomes a plain error with its status.
func DecodeError(resp *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var form api.Failed
	if err := json.Unmarshal(data, &form); err == nil && form.Error.Code != "" {
		return form.Error.Err()
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return &capabilities.Error{Code: capabilities.CodeUnauthenticated}
	case http.StatusForbidden:
		return &capabilities.Error{Code: capabilities.CodeForbidden}
	}
	return fmt.Errorf("%s %s answered %s", resp.Request.Method, resp.Request.URL.Path, resp.Status)
}

// do is Do with the type of its answer.
func do[T any](ctx context.Context, c *Client, method, path string, in any) (T, error) {
	var out T
	err := c.Do(ctx, method, path, in, &out)
	return out, err
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return do[T](ctx, c, http.MethodGet, path, nil)
}
