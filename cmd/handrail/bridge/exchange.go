package bridge

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"

	"github.com/handrail-dev/handrail/gateway/client"
)

// request builds a POST (body) or GET (no body) with what the transport needs.
func (b *Bridge) request(ctx context.Context, g Gateway, method string, body []byte, m message) (*http.Request, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, g.Address()+b.o.Path, bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	b.mu.Lock()
	version, session := b.version, b.session
	b.mu.Unlock()
	h := req.Header
	h.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		h.Set("Content-Type", "application/json")
	}
	if v := m.version(); v != "" {
		version = v
	}
	if m.Method == "initialize" {
		version, session = "", ""
	}
	if version != "" {
		h.Set(headerProtocol, version)
	}
	if session != "" && version < revisionStateless {
		h.Set(headerSession, session)
	}
	if version >= revisionStateless && m.Method != "" {
		h.Set("Mcp-Method", m.Method)
		switch m.Method {
		case "tools/call", "prompts/get":
			h.Set("Mcp-Name", headerText(m.Params.Name))
		case "resources/read":
			h.Set("Mcp-Name", headerText(m.Params.URI))
		case "tasks/get", "tasks/update", "tasks/cancel":
			h.Set("Mcp-Name", headerText(m.Params.TaskID))
		}
	}
	return req, session, nil
}

// headerText encodes what a header cannot carry as it is.
func headerText(s string) string {
	for i, r := range []byte(s) {
		if r < 0x20 || r > 0x7e || (r == ' ' && (i == 0 || i == len(s)-1)) {
			return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
		}
	}
	return s
}

// send does the request, finding the gateway again if it does not answer where
// it was: a request that was never accepted can be sent again.
func (b *Bridge) send(ctx context.Context, method string, body []byte, m message, more http.Header) (*http.Response, string, error) {
	b.mu.Lock()
	g := b.gateway
	b.mu.Unlock()
	for fresh := g == nil; ; fresh = true {
		if fresh {
			var err error
			if g, err = b.o.Connect(); err != nil {
				return nil, "", err
			}
			b.mu.Lock()
			b.gateway = g
			b.mu.Unlock()
		}
		req, session, err := b.request(ctx, g, method, body, m)
		if err != nil {
			return nil, "", err
		}
		for k, v := range more {
			req.Header[k] = v
		}
		resp, err := g.Send(req)
		if err == nil {
			return resp, session, nil
		}
		if fresh || ctx.Err() != nil || !neverSent(err) {
			return nil, "", b.o.Told(g.Unreachable(ctx, err))
		}
	}
}

// exchange posts line and relays the answer, taking each answered ID out of open.
func (b *Bridge) exchange(ctx context.Context, line []byte, m message, open idSet) error {
	resp, session, err := b.send(ctx, http.MethodPost, line, m, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound && session != "" {
		return &sessionLostError{session}
	}
	if id := resp.Header.Get(headerSession); id != "" && m.Method == "initialize" {
		b.mu.Lock()
		b.session = id
		b.mu.Unlock()
	}
	return b.relay(ctx, resp, m, open)
}

// relay writes the messages of an answer, of either form, to standard output.
func (b *Bridge) relay(ctx context.Context, resp *http.Response, m message, open idSet) error {
	pass := func(data []byte) {
		b.note(data, m, open)
		b.write(data)
	}
	switch kind := mediaType(resp); {
	case kind == "text/event-stream" && resp.StatusCode == http.StatusOK:
		last, err := readEvents(resp.Body, pass)
		for len(open) > 0 && err == nil && last.id != "" && ctx.Err() == nil {
			last, err = b.resume(ctx, last, pass) // the gateway closed the stream; it goes on where it was
		}
		return err
	case kind == "application/json":
		data, err := readReply(resp)
		if err != nil {
			return err
		}
		if isRPC(data) {
			pass(data)
			return nil
		}
		if resp.StatusCode < 300 && len(bytes.TrimSpace(data)) == 0 {
			return nil
		}
		resp.Body = io.NopCloser(bytes.NewReader(data))
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	return client.DecodeError(resp)
}

// readReply reads a whole body, into room of its size where that was said.
func readReply(resp *http.Response) ([]byte, error) {
	var b bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= client.MaxReply {
		b.Grow(int(n) + bytes.MinRead) // so that the end is found without growing
	}
	_, err := b.ReadFrom(io.LimitReader(resp.Body, client.MaxReply))
	return b.Bytes(), err
}
