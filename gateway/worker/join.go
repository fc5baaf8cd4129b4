package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

// maxWord is how much of each of its words about its machine is kept, in bytes.
const maxWord = 128

// Join answers one who holds a paste, or a worker that came by one before: it enters the roster
// and waits, hears how it stands, or gets its token. Each ask of a worker counts once. A token that
// went to it before ends when it gets another. Errors have codes: paste_invalid, paste_used,
// paste_expired, overloaded, unauthenticated.
func (w *Workers) Join(ctx context.Context, in api.JoinWorker) (api.WorkerVerdict, error) {
	ask := pairing.WorkerAsk{Invite: in.Invite, Key: in.Key, Host: in.Host, Platform: in.Platform, Agent: in.Agent, Seq: in.Seq}
	if err := ask.Verify(in.Key, in.Sig); err != nil {
		return api.WorkerVerdict{}, err
	}
	w.changing.Lock()
	defer w.changing.Unlock()
	r, err := w.one(ctx, "public_key", in.Key)
	switch {
	case err != nil:
		return api.WorkerVerdict{}, err
	case r == nil:
		if err := ask.Verify(in.Invite, in.Proof); err != nil {
			return api.WorkerVerdict{}, err
		}
		if r, err = w.enter(ctx, &in); err != nil {
			return api.WorkerVerdict{}, err
		}
	case r.invite != in.Invite || in.Seq <= r.seq:
		return api.WorkerVerdict{}, capabilities.Errorf(capabilities.CodeUnauthenticated, "this was said before, or is of another code")
	}
	v := api.WorkerVerdict{
		Worker: r.id, Name: r.name, Principal: r.principal, State: r.state, Site: w.opts.Site, Message: r.reason,
	}
	if r.state == route.StateApproved {
		err = w.issue(ctx, r, in.Seq, &v)
	}
	return v, err
}

// youngest is how old a worker's token is before it gets another: one that is run twice takes them
// from itself.
const youngest = time.Minute

// issue makes the token of an approved worker, and ends the one before.
func (w *Workers) issue(ctx context.Context, r *record, seq int64, v *api.WorkerVerdict) error {
	by := w.opts.Tokens.Is(r.decidedBy, principal.RoleAdmin)
	before := strings.Fields(r.tokens)
	if len(before) > 0 {
		old, err := w.opts.Tokens.Get(before[0])
		switch {
		case err != nil || !old.RevokedAt.IsZero():
			v.State, v.Message = route.StateRevoked, "its token was revoked"
			return nil
		case w.opts.Now().Sub(old.CreatedAt) < youngest:
			return capabilities.Errorf(capabilities.CodeOverloaded, "worker %s got a token less than a minute ago", r.id).
				WithHint("Wait a minute; if this worker runs twice, end one of the two.")
		}
	}
	made, secret, err := w.opts.Tokens.Create(ctx, by, principal.Spec{Principal: r.principal, Role: principal.RoleAgent})
	if err != nil {
		return err
	}
	// Both are kept until the old one has ended: whoever revokes the worker ends both.
	if err := w.heard(ctx, r, r.seq, seq, append([]string{made.ID}, before...)); err != nil {
		_, left := w.opts.Tokens.Revoke(context.WithoutCancel(ctx), by, made.ID)
		return errors.Join(err, left)
	}
	if err := w.end(ctx, by, before); err != nil {
		return err
	}
	v.Token = secret.Reveal()
	return w.heard(ctx, r, seq, seq, []string{made.ID})
}

// heard keeps that an ask came, and which tokens the worker has, the latest first. It fails where
// another gateway of the site heard the worker meanwhile, or put it out.
func (w *Workers) heard(ctx context.Context, r *record, was, seq int64, tokens []string) error {
	all := strings.Join(tokens, " ")
	err := w.opts.Store.Write(ctx, func(tx *store.Tx) error {
		n, err := tx.Exec(`UPDATE worker SET seq = $1, tokens = $2 WHERE worker_id = $3 AND seq = $4 AND tokens = $5 AND state = 'approved'`,
			seq, all, r.id, was, r.tokens)
		if err == nil && n == 0 {
			err = capabilities.Errorf(capabilities.CodeConflict, "another gateway of the site heard worker %s, or put it out, meanwhile", r.id)
		}
		return err
	})
	if err == nil {
		r.seq, r.tokens = seq, all
	}
	return err
}

// end revokes tokens; one that is forgotten already has ended.
func (w *Workers) end(ctx context.Context, by principal.Identity, tokens []string) error {
	for _, id := range tokens {
		if _, err := w.opts.Tokens.Revoke(ctx, by, id); err != nil && capabilities.CodeOf(err) != capabilities.CodeNotFound {
			return err
		}
	}
	return nil
}

var errUsed = errors.New("invitation used")

// enter spends a paste and puts the worker on the roster, in one commit.
func (w *Workers) enter(ctx context.Context, in *api.JoinWorker) (*record, error) {
	now := w.opts.Now().UTC().Truncate(time.Millisecond)
	r := &record{
		id: pairing.NewWorkerID(), key: in.Key, invite: in.Invite, state: route.StatePending, joined: now.UnixMilli(), seq: in.Seq,
		host: word(in.Host), platform: word(in.Platform), agent: word(in.Agent),
	}
	var yes bool
	var by, usedBy string
	var expires int64
	err := w.opts.Store.Read().QueryRowContext(ctx,
		`SELECT name, principal, approves, created_by, expires_at, used_by FROM worker_invite WHERE public_key = $1`, in.Invite).
		Scan(&r.name, &r.principal, &yes, &by, &expires, &usedBy)
	switch {
	case err != nil:
		return nil, capabilities.Wrap(capabilities.CodePasteInvalid, err, "This site has made no such code.")
	case usedBy != "":
		return nil, capabilities.Errorf(capabilities.CodePasteUsed, "The code was used already, by worker %s.", usedBy)
	case now.UnixMilli() >= expires:
		return nil, capabilities.Errorf(capabilities.CodePasteExpired, "The code expired at %s.",
			time.UnixMilli(expires).UTC().Format("2006-01-02 15:04:05 MST"))
	}
	if yes {
		r.state, r.decidedBy, r.decided = route.StateApproved, capabilities.PrincipalID(by), r.joined
	}
	err = w.opts.Store.Write(ctx, func(tx *store.Tx) error {
		var count int
		if err := tx.QueryRow(`SELECT COUNT(*) FROM worker WHERE state IN ('pending', 'approved')`).Scan(&count); err != nil {
			return err
		}
		if count >= maxWorkers {
			return capabilities.Errorf(capabilities.CodeOverloaded, "the site has %d workers", count)
		}
		spent, err := tx.Exec(`UPDATE worker_invite SET used_by = $1 WHERE public_key = $2 AND used_by = ''`, r.id, in.Invite)
		if err != nil {
			return err
		}
		if spent == 0 {
			return errUsed
		}
		if _, err := tx.Exec(`INSERT INTO worker (`+columns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, '', '', $13)`,
			r.id, r.name, string(r.principal), r.key, r.invite, r.state, r.host, r.platform, r.agent, r.joined, r.decided,
			string(r.decidedBy), r.seq); err != nil {
			return err
		}
		return w.opts.Record(tx, kindJoined, "", packet.WorkerJoined{
			ID: r.id, Name: r.name, Principal: r.principal, Key: r.key, State: r.state, Host: r.host, Platform: r.platform, Invite: r.invite,
		})
	})
	if errors.Is(err, errUsed) {
		return nil, capabilities.Errorf(capabilities.CodePasteUsed, "The code was used already.")
	}
	if err != nil {
		return nil, fmt.Errorf("joining: %w", err)
	}
	w.opts.Log.Info("worker.joined", "worker", r.id, "name", r.name, "state", r.state, "host", r.host, "key", r.key)
	return r, nil
}

func word(s string) string { return capabilities.Clip(capabilities.Printable(s), maxWord) }
