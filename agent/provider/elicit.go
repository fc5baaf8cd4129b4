package provider

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/form"
)

// A server may ask a person something while it carries out a call. The protocol of most servers
// does not say for which call: one that carries out several at once is told that nobody answers,
// because a person would be told the wrong one (docs/decisions/178-elicitation.md).

// asker is a call that runs on a server.
type asker struct {
	ctx    context.Context //lint:ignore containedctx the question of a call ends with it
	elicit func(ctx context.Context, form json.RawMessage) (capabilities.Elicited, json.RawMessage, error)
}

type askerKey struct{}

// asks notes that a call runs; what the server asks with its answer is known by the context.
func (l *live) asks(ctx context.Context, c call) (_ context.Context, over func()) {
	one := &asker{ctx, c.inv.Elicit}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[c.id] = one
	return context.WithValue(ctx, askerKey{}, one), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.calls, c.id)
	}
}

// asking is the call for which the server asks; nil: nobody can tell, or nobody can be asked.
func (l *live) asking(ctx context.Context) *asker {
	one, _ := ctx.Value(askerKey{}).(*asker)
	if one == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.calls) != 1 {
			return nil
		}
		for _, only := range l.calls {
			one = only
		}
	}
	if one.elicit == nil {
		return nil
	}
	return one
}

var errLink = errors.New("this client shows forms only: it opens no links that a server sends")

// elicit has a person asked what the server wants to know. Whatever keeps them from answering is
// told the server as a form that was dismissed.
func (l *live) elicit(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if p.Mode != "" && p.Mode != "form" || p.URL != "" {
		return nil, errLink
	}
	no := &mcp.ElicitResult{Action: string(capabilities.ElicitCancel)}
	one := l.asking(ctx)
	if one == nil {
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
