package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
)

// maxReply bounds what a client command reads of one answer; a full-page
// screenshot in base64 is the largest thing a gateway sends.
const maxReply = 64 << 20

// client speaks the gateway's REST surface. It is safe for concurrent use.
type client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// newClient finds the gateway: HANDRAIL_URL with HANDRAIL_TOKEN, else the one
// that runs on the command's data directory.
func newClient(cmd *cobra.Command) (*client, error) {
	return findGateway(cmd, dataDir.tokenPath)
}

// newCaller is newClient, or, for an agent, the same with the token that the gateway
// keeps for agents: what an admin asks for, the same admin can not approve.
func newCaller(cmd *cobra.Command, agent bool) (*client, error) {
	if !agent {
		return newClient(cmd)
	}
	if os.Getenv("HANDRAIL_TOKEN") != "" || os.Getenv("HANDRAIL_URL") != "" {
		return nil, usageError("--agent takes the token of the data directory; HANDRAIL_TOKEN and HANDRAIL_URL already say who calls where")
	}
	return findGateway(cmd, dataDir.agentTokenPath)
}

func findGateway(cmd *cobra.Command, tokenFile func(dataDir) string) (*client, error) {
	token := strings.TrimSpace(os.Getenv("HANDRAIL_TOKEN"))
	if address := os.Getenv("HANDRAIL_URL"); address != "" {
		if token == "" {
			// The token of a local data directory is never sent anywhere else.
			return nil, &exitError{code: exitForbidden, err: capabilities.Errorf(capabilities.CodeUnauthenticated,
				"HANDRAIL_URL is set, but HANDRAIL_TOKEN is not").
				WithHint("Create a token on that gateway with 'handrail token create' and put it into HANDRAIL_TOKEN.")}
		}
		base, err := parseBase(address)
		if err != nil {
			return nil, usageError("HANDRAIL_URL: %v", err)
		}
		return newClientAt(base, token), nil
	}
	data, err := dataDirOf(cmd)
	if err != nil {
		return nil, err
	}
	running, err := data.readRunning()
	if err != nil {
		return nil, err
	}
	base, err := parseBase(running.HTTP)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", data.runningPath(), err)
	}
	if token == "" {
		if token, err = readToken(tokenFile(data)); err != nil {
			return nil, err
		}
	}
	return newClientAt(base, token), nil
}

func readToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrPermission) {
		return "", &exitError{code: exitForbidden, err: capabilities.Errorf(capabilities.CodeForbidden,
			"the token %s may not be read by this user", path).WithHint("Run as the user who runs the gateway, or set HANDRAIL_TOKEN.")}
	}
	if err != nil {
		return "", &exitError{code: exitForbidden, err: capabilities.Errorf(capabilities.CodeUnauthenticated,
			"no token at %s", path).WithHint("Set HANDRAIL_TOKEN, or name the gateway's data directory with --data.")}
	}
	return strings.TrimSpace(string(text)), nil
}

// parseBase accepts "host:port" and http(s) URLs. Plain HTTP is for loopback
// only: a bearer token does not cross a network unprotected (DESIGN section 11).
func parseBase(address string) (*url.URL, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	base, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil {
		return nil, err
	}
	if (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || base.User != nil || base.RawQuery != "" {
		return nil, fmt.Errorf("%q is not an address such as http://127.0.0.1:7480", address)
	}
	if base.Scheme == "http" && !isLoopback(base.Hostname()) {
		return nil, fmt.Errorf("%q would send the token unencrypted over a network; use https, or a tunnel to a loopback address", address)
	}
	return base, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

func newClientAt(base *url.URL, token string) *client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	return &client{base: base, token: token, http: &http.Client{
		Transport: transport,
		// Following a redirect would carry the token to another place.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// path joins segments into a path below /v1, each escaped.
func path(segments ...string) string {
	escaped := make([]string, len(segments))
	for i, s := range segments {
		escaped[i] = escape(s)
	}
	return "/v1/" + strings.Join(escaped, "/")
}

func escape(segment string) string { return url.PathEscape(segment) }

// query appends the non-empty pairs (name, value, name, value …) to p.
func query(p string, pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return p
	}
	return p + "?" + values.Encode()
}

func (c *client) get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// do sends in (nil: no body) and decodes the answer into out (nil: discarded).
func (c *client) do(ctx context.Context, method, path string, in, out any) error {
	body, err := c.open(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxReply+1))
	if err != nil {
		return c.unreachable(ctx, err)
	}
	if len(data) > maxReply {
		return capabilities.Errorf(capabilities.CodeResultTooLarge, "the gateway's answer is larger than %d MiB", maxReply>>20)
	}
	if out == nil || len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("the answer of %s %s is not what this version expects: %w", method, path, err)
	}
	return nil
}

// open sends in and gives the body of a successful answer; the caller closes it.
func (c *client) open(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
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
	req.Header.Set("Authorization", "Bearer "+c.token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	return nil, decodeError(resp)
}

// unreachable tells a gateway that can not be reached from a caller who gave up.
func (c *client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var op *url.Error
	if errors.As(err, &op) {
		err = op.Err
	}
	return &exitError{code: exitUnreachable, err: capabilities.Errorf(capabilities.CodeNotFound,
		"no gateway answers at %s (%v)", c.base, err).
		WithHint("Start it with 'handrail up' or 'handrail gateway', or correct --data or HANDRAIL_URL.")}
}

// decodeError reads the error form of the REST surface. An answer of another
// form (a proxy's page, say) becomes a plain error with its status.
func decodeError(resp *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var form struct {
		Error struct {
			Code    capabilities.Code `json:"code"`
			Message string            `json:"message"`
			Hint    string            `json:"hint"`
			Details any               `json:"details"`
		} `json:"error"`
	}
	if err := json.Unmarshal(data, &form); err == nil && form.Error.Code != "" {
		return &capabilities.Error{Code: form.Error.Code, Message: form.Error.Message, Hint: form.Error.Hint, Details: form.Error.Details}
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return &capabilities.Error{Code: capabilities.CodeUnauthenticated}
	case http.StatusForbidden:
		return &capabilities.Error{Code: capabilities.CodeForbidden}
	}
	return fmt.Errorf("%s %s answered %s", resp.Request.Method, resp.Request.URL.Path, resp.Status)
}
