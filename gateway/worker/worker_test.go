package worker_test

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/gateway/worker"
	"github.com/handrail-dev/handrail/pairing"
)

type fixture struct {
	*testing.T
	db      *store.Store
	tokens  *principal.Tokens
	workers *worker.Workers
	now     time.Time
	seq     int64
}

func start(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, now: time.Now(), seq: 1}
	db, err := store.Open(t.Context(), store.Options{
		Path: filepath.Join(t.TempDir(), "store.db"), Migrations: slices.Concat(principal.Migrations(), worker.Migrations()), ReserveBytes: -1,
	})
	f.must(err)
	t.Cleanup(func() { _ = db.Close() })
	f.db = db
	clock := func() time.Time { return f.now }
	f.tokens, err = principal.New(principal.Options{Store: db, Now: clock})
	f.must(err)
	f.must(f.tokens.Load(t.Context()))
	f.workers, err = worker.New(worker.Options{Store: db, Tokens: f.tokens, Site: "s1", Now: clock, Door: func(p *pairing.WorkerPaste) error {
		p.Addrs, p.Sum = []string{"10.0.0.1:7480"}, hex.EncodeToString(make([]byte, 32))
		return nil
	}})
	f.must(err)
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) paste(in api.InviteWorker) *pairing.WorkerPaste {
	f.Helper()
	i, err := f.workers.Invite(f.Context(), principal.Site, in)
	f.must(err)
	p, err := pairing.ParseWorkerPaste(i.Paste)
	f.must(err)
	return p
}

func text(key ed25519.PrivateKey) string { return pairing.KeyText(key.Public().(ed25519.PublicKey)) }

func newKey(f *fixture) ed25519.PrivateKey {
	_, key, err := ed25519.GenerateKey(nil)
	f.must(err)
	return key
}

// said is what a worker says, signed.
func (f *fixture) said(p *pairing.WorkerPaste, key ed25519.PrivateKey) api.JoinWorker {
	f.seq++
	ask := pairing.WorkerAsk{Invite: text(p.Key), Key: text(key), Host: "box", Seq: f.seq}
	sig, err := ask.Sign(key)
	f.must(err)
	proof, err := ask.Sign(p.Key)
	f.must(err)
	return api.JoinWorker{Invite: ask.Invite, Key: ask.Key, Host: ask.Host, Seq: ask.Seq, Sig: sig, Proof: proof}
}

func (f *fixture) refused(in api.JoinWorker, want capabilities.Code) {
	f.Helper()
	if v, err := f.workers.Join(f.Context(), in); capabilities.CodeOf(err) != want || v.Token != "" {
		f.Errorf("%+v %v, want %s", v, err, want)
	}
}

func (f *fixture) decide(id, state string) error {
	_, err := f.workers.Decide(context.Background(), principal.Site, id, state, "")
	return err
}

// A worker has no token before a person approved it, and none that is good after it was revoked.
func TestNobodyIsInBeforeAPersonSaysSo(t *testing.T) {
	f := start(t)
	p, key := f.paste(api.InviteWorker{Name: "box"}), newKey(f)
	v, err := f.workers.Join(t.Context(), f.said(p, key))
	if err != nil || v.State != route.StatePending || v.Token != "" || v.Principal != "box" {
		t.Fatalf("%+v %v", v, err)
	}
	f.refused(f.said(p, newKey(f)), capabilities.CodePasteUsed)
	f.must(f.decide(v.Worker, route.StateApproved))
	first := f.said(p, key)
	v, err = f.workers.Join(t.Context(), first)
	f.must(err)
	who, err := f.tokens.Authenticate(v.Token)
	if err != nil || who.Principal != "box" || who.Role != principal.RoleAgent {
		t.Fatalf("%+v %v", who, err)
	}
	f.refused(first, capabilities.CodeUnauthenticated)     // it was said before
	f.refused(f.said(p, key), capabilities.CodeOverloaded) // it just got one
	f.now = f.now.Add(time.Hour)
	again, err := f.workers.Join(t.Context(), f.said(p, key))
	f.must(err)
	if _, err := f.tokens.Authenticate(v.Token); err == nil || again.Token == v.Token {
		t.Error("it has two tokens")
	}
	f.must(f.decide(v.Worker, route.StateRevoked))
	if _, err := f.tokens.Authenticate(again.Token); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		t.Errorf("a revoked worker's token: %v", err)
	}
	v, err = f.workers.Join(t.Context(), f.said(p, key))
	if err != nil || v.State != route.StateRevoked || v.Token != "" {
		t.Errorf("%+v %v", v, err)
	}
	if err := f.decide(v.Worker, route.StateApproved); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("approved after it was revoked: %v", err)
	}
}

// A token that somebody revoked is not made anew, although nobody revoked the worker.
func TestARevokedTokenStaysSo(t *testing.T) {
	f := start(t)
	p, key := f.paste(api.InviteWorker{Name: "box", Principal: "agent", AutoApprove: true}), newKey(f)
	v, err := f.workers.Join(t.Context(), f.said(p, key))
	f.must(err)
	who, err := f.tokens.Authenticate(v.Token)
	if err != nil || who.Principal != "agent" {
		t.Fatalf("%+v %v", who, err)
	}
	_, err = f.tokens.Revoke(t.Context(), principal.Site, who.TokenID)
	f.must(err)
	f.now = f.now.Add(time.Hour)
	if v, err := f.workers.Join(t.Context(), f.said(p, key)); err != nil || v.State != route.StateRevoked || v.Token != "" {
		t.Errorf("%+v %v", v, err)
	}
}

// Strangers, late comers and wrong signatures get nothing.
func TestWhoIsRefused(t *testing.T) {
	f := start(t)
	p, key := f.paste(api.InviteWorker{Name: "box", AutoApprove: true}), newKey(f)
	f.refused(f.said(&pairing.WorkerPaste{Key: newKey(f)}, key), capabilities.CodePasteInvalid)
	for _, change := range []func(*api.JoinWorker){
		func(in *api.JoinWorker) { in.Host = "other" }, func(in *api.JoinWorker) { in.Proof = in.Sig }, func(in *api.JoinWorker) { in.Proof = "" },
		func(in *api.JoinWorker) { in.Sig = in.Proof }, func(in *api.JoinWorker) { in.Key = text(newKey(f)) },
	} {
		in := f.said(p, key)
		change(&in)
		f.refused(in, capabilities.CodePasteInvalid)
	}
	late := f.said(p, key)
	f.now = f.now.Add(time.Hour)
	f.refused(late, capabilities.CodePasteExpired)
	for _, in := range []api.InviteWorker{{Name: "Box"}, {Name: "box", TTLS: -1}, {Name: "box", Principal: capabilities.PrincipalID(strings.Repeat("x", 200))}} {
		if _, err := f.workers.Invite(t.Context(), principal.Site, in); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%+v: %v", in, err)
		}
	}
	if all, err := f.workers.Views(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v %v", all, err)
	}
	if err := f.decide("w1", route.StateApproved); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Error(err)
	}
}
