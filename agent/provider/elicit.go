package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/egress"
	"github.com/handrail-dev/handrail/capabilities/form"
)

// A server may ask a person something while it carries out a call. The protocol of most servers
// does not say for which call: one that carries out several at once is told that nobody answers,
// because a person would be told the wrong one (docs/decisions/178-elicitation.md).

// asker is a call that runs on a server.
type asker struct {
	ctx    context.Context //lint:ignore containedctx the question of a call ends with it
	elicit func(ctx context.Context, form json.RawMessage) (capabilities.Elicited, json.RawMessage, error)
	reach  func(ctx context.Context, target string) (context.Context, error)
	trace  string                 // where it stands in a trace; empty: in none
	on     *onward                // where a redirect leads it; nil: nowhere
	led    atomic.Pointer[string] // where a redirect led it that was not followed
	// samples says that the server wanted a model's answer for it, tooLong that it answered with
	// more than is taken.
	samples, tooLong atomic.Bool
}

type askerKey struct{}

// asks notes that a call runs; what the server asks with its answer is known by the context.
func (l *live) asks(ctx context.Context, c call) (_ context.Context, one *asker, over func()) {
	one = &asker{ctx: ctx, elicit: c.inv.Elicit, reach: c.inv.Reach, trace: c.inv.Trace}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[c.id] = one
	return context.WithValue(ctx, askerKey{}, one), one, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.calls, c.id)
	}
}

// asking is the call for which the server asks; nil: nobody can tell.
func (l *live) asking(ctx context.Context) *asker {
	if one, _ := ctx.Value(askerKey{}).(*asker); one != nil {
		return one
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) != 1 {
		return nil
	}
	for _, only := range l.calls {
		return only
	}
	return nil
}

// reach has a person asked whether the server may connect to a target, for the call that it carries
// out; with none or several nobody can tell which one a yes would be for.
func (l *live) reach(ctx context.Context, target string) (context.Context, error) {
	one := l.asking(ctx)
	if one == nil || one.reach == nil {
		return nil, &capabilities.Error{Code: capabilities.CodeConsentUnavailable}
	}
	return one.reach(ctx, target)
}

// noSampling refuses a server that wants a model's answer in the middle of a call, as one that no
// client of ours has ever offered; the call is told, if it can be told which.
func (l *live) noSampling(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if method != "sampling/createMessage" {
			return next(ctx, method, r)
		}
		if one := l.asking(ctx); one != nil {
			one.samples.Store(true)
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this client gives no server a model's answers"}
	}
}

// sdkNoSampling is the code with which the SDK refuses sampling by itself: servers of 2026-07-28
// want it in the result of a call.
const sdkNoSampling = -31001

// because says why a call failed with err, where that is not the server's word alone; nil: it is.
func (a *asker) because(err error) *capabilities.Error {
	var refused *jsonrpc.Error
	switch {
	case err == nil:
		return nil
	case a.led.Load() != nil: // a server that sends a call elsewhere has not carried it out
		to := *a.led.Load()
		e := capabilities.Errorf(capabilities.CodeURLBlocked,
			"%.260s may not be reached: the server sends the call there, and nobody named or permitted it.", to)
		if host, port, err := net.SplitHostPort(to); err == nil && egress.FlagHost(host, port) != "" {
			e = e.WithAction(capabilities.Action{Key: capabilities.ActionNameProviderHost, Name: egress.FlagHost(host, port)},
				"Allow it when the provider is added, or by an answer to the question about it.")
		}
		return e
	case a.tooLong.Load():
		return capabilities.Errorf(capabilities.CodeResultTooLarge, "the server answered with more than %d bytes", maxMessage)
	case a.samples.Load() || errors.As(err, &refused) && refused.Code == sdkNoSampling:
		return capabilities.Errorf(capabilities.CodeNotSupported, "the server wanted a model's answer for this call (sampling), and gets none")
	}
	return nil
}

// heard notes, of the call whose answer it is, that a body is longer than is taken: whole, or one
// line of an event stream, which is a message.
type heard struct {
	io.ReadCloser
	one  *asker
	line int
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if at := bytes.LastIndexByte(p[:n], '\n'); at >= 0 {
		h.line = n - at - 1
	} else {
		h.line += n
	}
	if h.line > maxMessage || capabilities.CodeOf(err) == capabilities.CodeResultTooLarge {
		h.one.tooLong.Store(true)
	}
	return n, err
}

var errLink = errors.New("this client shows forms only: it opens no links that a server sends")

// elicit has a person asked what the server wants to know. Anything that keeps them from answering
// is told the server as a form that was dismissed.
func (l *live) elicit(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if p.Mode != "" && p.Mode != "form" || p.URL != "" {
		return nil, errLink
	}
	no := &mcp.ElicitResult{Action: string(capabilities.ElicitCancel)}
	one := l.asking(ctx)
	if one == nil || one.elicit == nil {
		return no, nil
	}
	var schema []byte
	if p.RequestedSchema != nil {
		var err error
		if schema, err = json.Marshal(p.RequestedSchema); err != nil {
			return nil, err
		}
	}
	// Held back values stay held back: a server could show a person its own credential.
	asked, err := form.Read(p.Message, schema, func(s string) string { return l.secret.said(s, form.MaxBytes) })
	if err != nil {
		return nil, errors.New(capabilities.AsError(err).PublicMessage())
	}
	text, err := asked.Encode()
	if err != nil {
		return nil, errors.New(capabilities.AsError(err).PublicMessage())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(one.ctx, cancel)()
	action, content, err := one.elicit(ctx, text)
	if err != nil || action != capabilities.ElicitAccept {
		if action == capabilities.ElicitDecline {
			no.Action = string(action)
		}
		return no, nil
	}
	said := &mcp.ElicitResult{Action: string(action)}
	if err := json.Unmarshal(content, &said.Content); err != nil {
		return no, nil
	}
	return said, nil
}
