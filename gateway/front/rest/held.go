package rest

import (
	"context"
	"sync"

	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// held is the calls that run for each token, so that a revoked one ends its own.
type held struct {
	mu     sync.Mutex
	next   uint64
	tokens map[string]map[uint64]context.CancelCauseFunc
}

// hold returns the context of a call that ends when its token is revoked; release
// lets go of it.
func (h *held) hold(ctx context.Context, token string, valid func(string) bool) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	h.mu.Lock()
	h.next++
	id := h.next
	if h.tokens == nil {
		h.tokens = make(map[string]map[uint64]context.CancelCauseFunc)
	}
	if h.tokens[token] == nil {
		h.tokens[token] = make(map[uint64]context.CancelCauseFunc)
	}
	h.tokens[token][id] = cancel
	h.mu.Unlock()
	if !valid(token) { // revoked between its check and here
		h.revoked(token)
	}
	return ctx, func() {
		h.mu.Lock()
		delete(h.tokens[token], id)
		if len(h.tokens[token]) == 0 {
			delete(h.tokens, token)
		}
		h.mu.Unlock()
		cancel(nil)
	}
}

// revoked ends what runs for a token.
func (h *held) revoked(token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, cancel := range h.tokens[token] {
		cancel(&dispatch.Ended{By: packet.ByPerson, Err: dispatch.NoToken()})
	}
}
