package worker

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

// Bounds of the roster.
const (
	maxWorkers = 1000
	maxInvites = 1000
	inviteTTL  = 10 * time.Minute
	maxTTL     = 30 * 24 * time.Hour
	maxReason  = 200
)

// Kinds of packets.
const (
	kindInvited = "gateway.worker.invited"
	kindJoined  = "gateway.worker.joined"
	kindDecided = "gateway.worker.decided"
)

// Migrations are the tables of this room.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "worker", Version: 1, SQL: `
		CREATE TABLE worker (
			worker_id  TEXT PRIMARY KEY,
			name       TEXT NOT NULL,
			principal  TEXT NOT NULL,
			public_key TEXT NOT NULL UNIQUE,
			invite     TEXT NOT NULL,
			state      TEXT NOT NULL,
			host       TEXT NOT NULL,
			platform   TEXT NOT NULL,
			agent      TEXT NOT NULL,
			joined_at  BIGINT NOT NULL,
			decided_at BIGINT NOT NULL,
			decided_by TEXT NOT NULL,
			reason     TEXT NOT NULL,
			tokens     TEXT NOT NULL,
			seq        BIGINT NOT NULL
		);
		CREATE TABLE worker_invite (
			public_key TEXT PRIMARY KEY,
			name       TEXT NOT NULL,
			principal  TEXT NOT NULL,
			approves   INTEGER NOT NULL,
			created_by TEXT NOT NULL,
			expires_at BIGINT NOT NULL,
			used_by    TEXT NOT NULL
		);`}}
}

// Tokens are made and ended here; gateway/principal implements it.
type Tokens interface {
	Create(ctx context.Context, by principal.Identity, spec principal.Spec) (principal.Token, principal.Secret, error)
	Revoke(ctx context.Context, by principal.Identity, tokenID string) (principal.Token, error)
	Get(tokenID string) (principal.Token, error)
	Holder(tokenID string) (principal.Identity, error)
	Is(who capabilities.PrincipalID, role principal.Role) principal.Identity
}

// Options of New; required unless a default is named.
type Options struct {
	Store  *store.Store
	Tokens Tokens
	Site   capabilities.SiteID
	// Door fills in where a worker reaches the gateway: addresses, certificate, or that there is none.
	Door func(*pairing.WorkerPaste) error
	// Record writes a packet in the same transaction as a change; default: none.
	Record func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) error
	Now    func() time.Time // default time.Now
	Log    *slog.Logger     // default: discards
}

// Workers is the roster. Its methods are safe for concurrent use.
type Workers struct {
	opts     Options
	changing sync.Mutex // one change at a time: checks and writes belong together
}

// New makes it over a store.
func New(o Options) (*Workers, error) {
	if o.Store == nil || o.Tokens == nil || o.Door == nil {
		return nil, errors.New("worker: Options.Store, Tokens and Door are required")
	}
	if o.Record == nil {
		o.Record = func(*store.Tx, string, capabilities.PrincipalID, any) error { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Workers{opts: o}, nil
}

// record is a worker as the roster has it.
type record struct {
	id, name    string
	principal   capabilities.PrincipalID
	key, invite string
	state       string // of route's states
	host        string
	platform    string
	agent       string
	joined      int64 // milliseconds, as what follows
	decided     int64
	decidedBy   capabilities.PrincipalID
	reason      string
	tokens      string // IDs, the latest first; empty: none was made yet
	seq         int64
}

const columns = `worker_id, name, principal, public_key, invite, state, host, platform, agent, joined_at, decided_at, decided_by, reason, tokens, seq`

func (w *Workers) records(ctx context.Context, where string, args ...any) (all []record, err error) {
	rows, err := w.opts.Store.Read().QueryContext(ctx, `SELECT `+columns+` FROM worker `+where+` ORDER BY name, joined_at`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r record
		if err := rows.Scan(&r.id, &r.name, &r.principal, &r.key, &r.invite, &r.state, &r.host, &r.platform, &r.agent, &r.joined, &r.decided,
			&r.decidedBy, &r.reason, &r.tokens, &r.seq); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// one returns the worker that a column names; nil if there is none.
func (w *Workers) one(ctx context.Context, column, is string) (*record, error) {
	all, err := w.records(ctx, `WHERE `+column+` = $1`, is)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

func (r *record) view() api.Worker {
	v := api.Worker{
		ID: r.id, Name: r.name, Principal: r.principal, State: r.state, Host: r.host, Platform: r.platform, Agent: r.agent, Key: r.key,
		JoinedAt: time.UnixMilli(r.joined).UTC(), DecidedBy: r.decidedBy, Reason: r.reason,
	}
	v.Token, _, _ = strings.Cut(r.tokens, " ")
	if r.decided > 0 {
		at := time.UnixMilli(r.decided).UTC()
		v.DecidedAt = &at
	}
	return v
}

// Views returns every worker, by name.
func (w *Workers) Views(ctx context.Context) ([]api.Worker, error) {
	all, err := w.records(ctx, "")
	list := make([]api.Worker, 0, len(all))
	for i := range all {
		list = append(list, all[i].view())
	}
	return list, err
}

// View returns one: CodeNotFound.
func (w *Workers) View(ctx context.Context, id string) (api.Worker, error) {
	r, err := w.named(ctx, id)
	if err != nil {
		return api.Worker{}, err
	}
	return r.view(), nil
}

// named is one by its ID: CodeNotFound.
func (w *Workers) named(ctx context.Context, id string) (*record, error) {
	r, err := w.one(ctx, "worker_id", strings.ToLower(id))
	if err == nil && r == nil {
		err = capabilities.Errorf(capabilities.CodeNotFound, "there is no worker %.64q", id).
			WithAction(capabilities.Action{Key: capabilities.ActionListWorkers}, "Check its name.")
	}
	return r, err
}

// Keyed returns the ID of the worker that has an Ed25519 public key and is let in.
func (w *Workers) Keyed(ctx context.Context, key []byte) (id string, ok bool) {
	r, err := w.one(ctx, "public_key", pairing.KeyText(key))
	if err != nil || r == nil || r.state != route.StateApproved || r.tokens == "" {
		return "", false
	}
	return r.id, true
}

// Identity returns who a worker calls as: its token's identity, for one that is known by its key.
// CodeUnauthenticated for one that was put out, or whose token ended.
func (w *Workers) Identity(ctx context.Context, id string) (principal.Identity, error) {
	r, err := w.one(ctx, "worker_id", id)
	if err != nil {
		return principal.Identity{}, err
	}
	if r == nil || r.state != route.StateApproved {
		return principal.Identity{}, capabilities.Errorf(capabilities.CodeUnauthenticated, "this worker is not let in")
	}
	token, _, _ := strings.Cut(r.tokens, " ")
	return w.opts.Tokens.Holder(token)
}

// Holds returns the ID of the worker whose token it is; empty: no worker's.
func (w *Workers) Holds(ctx context.Context, tokenID string) string {
	r, err := w.one(ctx, "tokens", tokenID)
	if err != nil || r == nil || r.state != route.StateApproved {
		return ""
	}
	return r.id
}

// Invite makes a paste for one worker, whose calls are those of in.Principal or, if that is empty,
// of a principal of its own name. CodeInvalidRequest names what is wrong.
func (w *Workers) Invite(ctx context.Context, by principal.Identity, in api.InviteWorker) (api.InvitedWorker, error) {
	var out api.InvitedWorker
	if err := pairing.CheckWorkerName(in.Name); err != nil {
		return out, err
	}
	if in.Principal == "" {
		in.Principal = capabilities.PrincipalID(in.Name)
	}
	if err := capabilities.ValidateName("principal", string(in.Principal), 128); err != nil {
		return out, err
	}
	ttl := time.Duration(in.TTLS) * time.Second
	if ttl == 0 {
		ttl = inviteTTL
	}
	if ttl < time.Second || ttl > maxTTL {
		return out, capabilities.Errorf(capabilities.CodeInvalidRequest, "ttl_s: 1 second to 30 days")
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return out, err
	}
	paste := pairing.WorkerPaste{Key: key, Name: in.Name}
	if err := w.opts.Door(&paste); err != nil {
		return out, err
	}
	now := w.opts.Now().UTC().Truncate(time.Millisecond)
	public, expires := pairing.KeyText(key.Public().(ed25519.PublicKey)), now.Add(ttl)
	w.changing.Lock()
	defer w.changing.Unlock()
	err = w.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`DELETE FROM worker_invite WHERE expires_at < $1`, now.Add(-24*time.Hour).UnixMilli()); err != nil {
			return err
		}
		var count int
		if err := tx.QueryRow(`SELECT COUNT(*) FROM worker_invite`).Scan(&count); err != nil {
			return err
		}
		if count >= maxInvites {
			return capabilities.Errorf(capabilities.CodeOverloaded, "there are %d invitations already", count)
		}
		if _, err := tx.Exec(`INSERT INTO worker_invite (public_key, name, principal, approves, created_by, expires_at, used_by)
			VALUES ($1, $2, $3, $4, $5, $6, '')`,
			public, in.Name, string(in.Principal), in.AutoApprove, string(by.Principal), expires.UnixMilli()); err != nil {
			return err
		}
		return w.opts.Record(tx, kindInvited, by.Principal, packet.WorkerInvited{
			Name: in.Name, Principal: in.Principal, Invite: public, AutoApprove: in.AutoApprove, ExpiresAt: expires,
		})
	})
	if err != nil {
		return out, capabilities.AsError(err)
	}
	return api.InvitedWorker{Paste: paste.Encode(), Name: in.Name, Principal: in.Principal, Invite: public, Expires: expires}, nil
}

// Decide approves, denies or revokes a worker. The token of one that is revoked ends before this
// returns. CodeNotFound, and CodeConflict where the step is none.
func (w *Workers) Decide(ctx context.Context, by principal.Identity, id, state, reason string) (api.Worker, error) {
	if len(reason) > maxReason {
		return api.Worker{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "reason: at most %d bytes", maxReason)
	}
	w.changing.Lock()
	defer w.changing.Unlock()
	r, err := w.named(ctx, id)
	switch {
	case err != nil:
		return api.Worker{}, err
	case r.state == state && state != route.StateRevoked:
		return r.view(), nil
	case state == route.StateRevoked && r.state != route.StateDenied: // again, too: its token ends for sure
	case state != route.StateRevoked && r.state == route.StatePending:
	default:
		return api.Worker{}, capabilities.Errorf(capabilities.CodeConflict, "a worker that is %s does not become %s", r.state, state).
			WithAction(capabilities.Action{Key: capabilities.ActionAddWorker, Name: r.name}, "Invite it anew.")
	}
	if was := r.state; was != state {
		r.state, r.decidedBy, r.decided, r.reason = state, by.Principal, w.opts.Now().UnixMilli(), capabilities.Printable(reason)
		// A full disk must not keep a worker in.
		err = w.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error {
			n, err := tx.Exec(`UPDATE worker SET state = $1, decided_by = $2, decided_at = $3, reason = $4 WHERE worker_id = $5 AND state = $6`,
				r.state, string(r.decidedBy), r.decided, r.reason, r.id, was)
			if err != nil {
				return err
			}
			if n == 0 {
				return capabilities.Errorf(capabilities.CodeConflict, "another gateway of the site decided about the worker meanwhile").
					WithHint("Look at it again.")
			}
			return w.opts.Record(tx, kindDecided, by.Principal, packet.WorkerDecided{ID: r.id, Name: r.name, State: state, Reason: r.reason})
		})
		if err != nil {
			return api.Worker{}, capabilities.AsError(err)
		}
	}
	if state == route.StateRevoked {
		// A token that another gateway issued before that is known now, and it issues no more.
		if r, err = w.named(ctx, id); err != nil {
			return api.Worker{}, err
		}
		if err := w.end(ctx, by, strings.Fields(r.tokens)); err != nil {
			return api.Worker{}, err
		}
	}
	w.opts.Log.Info("worker.decided", "worker", r.id, "name", r.name, "state", state, "by", by.Principal)
	return r.view(), nil
}
