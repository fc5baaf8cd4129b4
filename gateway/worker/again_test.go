package worker_test

import (
	"context"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/worker"
	"github.com/handrail-dev/handrail/pairing"
)

// between are tokens while whose making another gateway decides.
type between struct {
	*principal.Tokens
	decide func()
	made   principal.Token
}

func (b *between) Create(ctx context.Context, by principal.Identity, spec principal.Spec) (principal.Token, principal.Secret, error) {
	made, secret, err := b.Tokens.Create(ctx, by, spec)
	b.made = made
	if b.decide != nil {
		b.decide()
	}
	return made, secret, err
}

// A worker that one gateway puts out while another makes its token has none that is good.
func TestAWorkerIsPutOutWhileAnotherGatewayLetsItIn(t *testing.T) {
	f := start(t)
	p, key := f.paste(api.InviteWorker{Name: "box"}), newKey(f)
	v, err := f.workers.Join(t.Context(), f.said(p, key))
	f.must(err)
	f.must(f.decide(v.Worker, route.StateApproved))
	tokens := &between{Tokens: f.tokens, decide: func() { f.must(f.decide(v.Worker, route.StateRevoked)) }}
	other, err := worker.New(worker.Options{Store: f.db, Tokens: tokens, Site: "s1", Door: func(*pairing.WorkerPaste) error { return nil }})
	f.must(err)
	said := f.said(p, key)
	if got, err := other.Join(t.Context(), said); capabilities.CodeOf(err) != capabilities.CodeConflict || got.Token != "" {
		t.Errorf("%+v %v", got, err)
	}
	if made, err := f.tokens.Get(tokens.made.ID); err != nil || made.RevokedAt.IsZero() {
		t.Errorf("the token of a worker that was put out is good: %+v %v", made, err)
	}
	tokens.decide = nil
	if got, err := other.Join(t.Context(), f.said(p, key)); err != nil || got.State != route.StateRevoked || got.Token != "" {
		t.Errorf("%+v %v", got, err)
	}
}
