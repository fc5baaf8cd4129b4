package nodes

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

// Migrations are the tables of this room.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "nodes", Version: 1, SQL: `
		CREATE TABLE node (
			node_id    TEXT PRIMARY KEY,
			public_key BLOB NOT NULL,
			next_key   BLOB,
			state      TEXT NOT NULL,
			label      TEXT NOT NULL,
			trust      TEXT NOT NULL,
			labels     TEXT NOT NULL,
			allow      TEXT NOT NULL,
			profile    TEXT NOT NULL,
			invite_id  TEXT NOT NULL,
			joined_at  INTEGER NOT NULL,
			decided_at INTEGER NOT NULL,
			decided_by TEXT NOT NULL,
			reason     TEXT NOT NULL,
			last_seen  INTEGER NOT NULL
		);
		CREATE TABLE invite (
			invite_id  TEXT PRIMARY KEY,
			proof_key  BLOB NOT NULL,
			label      TEXT NOT NULL,
			trust      TEXT NOT NULL,
			labels     TEXT NOT NULL,
			allow      TEXT NOT NULL,
			approves   INTEGER NOT NULL,
			uses       INTEGER NOT NULL,
			used       INTEGER NOT NULL,
			created_at INTEGER NOT NULL,
			created_by TEXT NOT NULL,
			expires_at INTEGER NOT NULL,
			withdrawn  INTEGER NOT NULL
		);
		CREATE INDEX node_invite ON node (invite_id);
	`}, {Room: "nodes", Version: 2, SQL: `
		UPDATE invite SET withdrawn = 1, proof_key = randomblob(64) WHERE length(proof_key) <> 64 -- of earlier versions: who reads it could join
	`, Postgres: `UPDATE invite SET withdrawn = 1 WHERE length(proof_key) <> 64`}, {Room: "nodes", Version: 3, SQL: `ALTER TABLE node ADD COLUMN owner TEXT`},
		{Room: "nodes", Version: 4, SQL: placeTable}}
}

// record is one row of the roster.
type record struct {
	id        capabilities.NodeID
	key       ed25519.PublicKey
	nextKey   ed25519.PublicKey // certified, not used yet; nil: none
	state     pairing.State
	label     string
	trust     string
	labels    []string
	allow     []string
	profile   pairing.Profile
	invite    pairing.InviteID
	joinedAt  time.Time
	decidedAt time.Time
	decidedBy capabilities.PrincipalID
	reason    string
	lastSeen  time.Time
	owner     sql.NullString // NULL: nobody has said whose it is; empty: nobody's

	allows func(capabilities.CapabilityID) bool // from allow
}

// View is a node as its surfaces get it; gateway/api has what they say of it.
type View struct {
	ID          capabilities.NodeID
	Label       string
	Trust       string
	Owner       capabilities.PrincipalID // whose device it is
	State       pairing.State
	Platform    string
	Arch        string
	Host        string
	Agent       string
	Fingerprint string
	Connected   bool
	LastSeen    time.Time
	JoinedAt    time.Time
	DecidedAt   time.Time
	DecidedBy   capabilities.PrincipalID
	Reason      string
	Allow       []string
	Labels      []string
	Invite      pairing.InviteID
	Offers      []capabilities.CapabilityID // said at joining
	// Wants is what the node offers now and the allowlist does not have: the
	// difference for the person who edits the list.
	Wants       []capabilities.CapabilityID
	Stopped     bool
	StopEpoch   uint64
	SiteStopped bool // it obeys the site's stop
	CatalogSkew bool
	Transport   tunnel.Transport         // of its connection; "" while there is none
	Readiness   []capabilities.Readiness // sorted by capability; the allowlist is not in it
	Pools       []wire.Pool              // in which calls run, wait or were refused; shared
}

const nodeColumns = `node_id, public_key, next_key, state, label, trust, labels, allow, profile, invite_id, joined_at, decided_at, decided_by, reason, last_seen, owner`

func (n *Nodes) load(ctx context.Context) error {
	rows, err := n.opts.Store.Read().QueryContext(ctx, `SELECT `+nodeColumns+` FROM node`)
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	roster := map[capabilities.NodeID]*record{}
	for rows.Next() {
		r, err := scanNode(rows.Scan)
		if err != nil {
			return capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		roster[r.id] = r
	}
	if err := rows.Err(); err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.roster, n.byKey = roster, map[string]capabilities.NodeID{}
	for _, r := range roster {
		n.shareLocked(r)
		n.indexLocked(r)
	}
	n.notifyLocked()
	return nil
}

func scanNode(scan func(...any) error) (*record, error) {
	var r record
	var key, next []byte
	var labels, allow, profile string
	var joined, decided, seen int64
	err := scan(&r.id, &key, &next, &r.state, &r.label, &r.trust, &labels, &allow, &profile, &r.invite, &joined, &decided, &r.decidedBy,
		&r.reason, &seen, &r.owner)
	if err != nil {
		return nil, err
	}
	if len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("node %s has no key", r.id)
	}
	r.key = key
	if len(next) == ed25519.PublicKeySize {
		r.nextKey = next
	}
	err = errors.Join(json.Unmarshal([]byte(labels), &r.labels), json.Unmarshal([]byte(allow), &r.allow),
		json.Unmarshal([]byte(profile), &r.profile))
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", r.id, err)
	}
	r.joinedAt, r.decidedAt, r.lastSeen = fromMillis(joined), fromMillis(decided), fromMillis(seen)
	return &r, nil
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil || string(b) == "null" {
		return "[]"
	}
	return string(b)
}

func insertNode(tx *store.Tx, r *record) error {
	_, err := tx.Exec(`INSERT INTO node (`+nodeColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		string(r.id), []byte(r.key), []byte(r.nextKey), string(r.state), r.label, r.trust, toJSON(r.labels), toJSON(r.allow), toJSON(r.profile),
		string(r.invite), millis(r.joinedAt), millis(r.decidedAt), string(r.decidedBy), r.reason, millis(r.lastSeen), r.owner)
	return err
}

func updateNode(tx *store.Tx, r *record) error {
	changed, err := tx.Exec(`UPDATE node SET public_key = $1, next_key = $2, state = $3, label = $4, trust = $5, labels = $6, allow = $7,
		profile = $8, decided_at = $9, decided_by = $10, reason = $11, last_seen = $12, owner = $13 WHERE node_id = $14`,
		[]byte(r.key), []byte(r.nextKey), string(r.state), r.label, r.trust, toJSON(r.labels), toJSON(r.allow),
		toJSON(r.profile), millis(r.decidedAt), string(r.decidedBy), r.reason, millis(r.lastSeen), r.owner, string(r.id))
	if err == nil && changed != 1 {
		err = sql.ErrNoRows
	}
	return err
}

// indexLocked puts r's keys into byKey; called with mu held. A key belongs to one
// node; of finished ones the newest counts, so that the answer is the last word.
func (n *Nodes) indexLocked(r *record) {
	for _, k := range []ed25519.PublicKey{r.key, r.nextKey} {
		if k == nil {
			continue
		}
		if other := n.roster[n.byKey[string(k)]]; other != nil && other.id != r.id && other.live() && !r.live() {
			continue
		} else if other != nil && other.id != r.id && other.live() == r.live() && other.joinedAt.After(r.joinedAt) {
			continue
		}
		n.byKey[string(k)] = r.id
	}
}

func (r *record) live() bool {
	return r.state == pairing.StatePending || r.state == pairing.StateApproved
}

// sharedLists are an allowlist, or offers, that nodes have in common.
type sharedLists struct {
	allow  []string
	allows func(capabilities.CapabilityID) bool
	offers []capabilities.CapabilityID
}

// shareLocked makes r.allows, and lets r use the lists of others where they are
// the same: a thousand nodes have few different ones. Called with mu held.
func (n *Nodes) shareLocked(r *record) {
	// Lengths first: whatever a device calls its offers, two lists never look alike.
	b := fmt.Appendf(nil, "%d ", len(r.allow))
	for _, p := range r.allow {
		b = fmt.Appendf(b, "%d %s", len(p), p)
	}
	for _, c := range r.profile.Offers {
		b = fmt.Appendf(b, "%d %s", len(c), c)
	}
	key := string(b)
	l, ok := n.lists[key]
	if !ok {
		l = &sharedLists{r.allow, route.AllowPatterns(r.allow...), r.profile.Offers}
		if len(n.lists) >= maxShared {
			clear(n.lists)
		}
		n.lists[key] = l
	}
	r.allow, r.allows, r.profile.Offers = l.allow, l.allows, l.offers
}

// put makes r the node's record in memory.
func (n *Nodes) put(r *record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := n.roster[r.id]; old != nil {
		for _, k := range []ed25519.PublicKey{old.key, old.nextKey} {
			if k != nil && n.byKey[string(k)] == r.id {
				delete(n.byKey, string(k))
			}
		}
	}
	n.shareLocked(r)
	n.roster[r.id] = r
	n.indexLocked(r)
	n.notifyLocked()
}

func (n *Nodes) lookup(id capabilities.NodeID) *record {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.roster[id]
}

func (n *Nodes) lookupKey(key ed25519.PublicKey) *record {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.roster[n.byKey[string(key)]]
}

// change edits one record: durable first, then in memory. edit gets a copy and
// says which packet tells of it; kind "" is for changes that are no decision.
func (n *Nodes) change(ctx context.Context, id capabilities.NodeID, kind string, body any, edit func(r *record) error) (*record, error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	var r *record
	err := anew(func() (err error) {
		r, err = n.changeOnce(ctx, id, kind, body, edit)
		return err
	})
	return r, err
}

func (n *Nodes) changeOnce(ctx context.Context, id capabilities.NodeID, kind string, body any,
	edit func(r *record) error) (*record, error) {
	old := n.lookup(id)
	if old == nil {
		return nil, capabilities.Errorf(capabilities.CodeNodeNotFound, "there is no node %s", short(string(id)))
	}
	r := *old
	if err := edit(&r); err != nil {
		return nil, err
	}
	err := n.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if err := n.same(old); err != nil {
			return err
		}
		if err := updateNode(tx, &r); err != nil {
			return err
		}
		if kind == "" {
			return nil
		}
		return n.opts.Record(tx, kind, id, body)
	})
	if errors.Is(err, errOld) {
		return nil, errOld
	}
	if err != nil {
		return nil, capabilities.AsError(err)
	}
	n.put(&r)
	return &r, nil
}

// Approval is what a person decides when a node is let in. Empty fields keep what
// the invitation gave; without any allowlist it is what the node showed it offers.
type Approval struct {
	By    capabilities.PrincipalID
	Label string
	Trust string
	Allow []string // capability IDs, families "tyrum.browser.*", or "*"
}

// Approve lets a pending node in.
func (n *Nodes) Approve(ctx context.Context, id capabilities.NodeID, a Approval) (View, error) {
	allow, err := cleanAllow(a.Allow)
	if err != nil {
		return View{}, err
	}
	if err := checkText("label", a.Label); err != nil {
		return View{}, err
	}
	if err := checkText("trust", a.Trust); err != nil {
		return View{}, err
	}
	body := &packet.NodeApproved{By: a.By}
	r, err := n.change(ctx, id, "node.approved", body, func(r *record) error {
		if err := r.state.Become(pairing.StateApproved); err != nil {
			return err
		}
		r.approve(a.By, n.opts.Now())
		if a.Label != "" {
			r.label = a.Label
		}
		if a.Trust != "" {
			r.trust = a.Trust
		}
		if len(allow) > 0 {
			r.allow = allow
		}
		body.Label, body.Trust, body.Allow, body.Key = r.label, r.trust, r.allow, pairing.Fingerprint(r.key)
		return nil
	})
	if err != nil {
		return View{}, err
	}
	n.log.Info("node.approved", "node", id, "by", a.By)
	n.tellWaiting(r)
	return n.view(r), nil
}

// approve makes the record an approved one with what is known so far.
func (r *record) approve(by capabilities.PrincipalID, now time.Time) {
	r.state, r.decidedBy, r.decidedAt = pairing.StateApproved, by, now
	if len(r.allow) == 0 {
		for _, c := range r.profile.Offers {
			r.allow = append(r.allow, string(c))
		}
	}
}

// Deny refuses a pending node for good.
func (n *Nodes) Deny(ctx context.Context, id capabilities.NodeID, by capabilities.PrincipalID, reason string) (View, error) {
	if err := checkText("reason", reason); err != nil {
		return View{}, err
	}
	r, err := n.change(ctx, id, "node.denied", packet.NodeEnded{By: by, Reason: reason}, func(r *record) error {
		if err := r.state.Become(pairing.StateDenied); err != nil {
			return err
		}
		r.state, r.decidedBy, r.decidedAt, r.reason = pairing.StateDenied, by, n.opts.Now(), reason
		return nil
	})
	if err != nil {
		return View{}, err
	}
	n.log.Info("node.denied", "node", id, "by", by)
	n.tellWaiting(r)
	return n.view(r), nil
}

// Revoke puts an approved node out: its connection is closed before anything is
// written, and it stays out of this process even if the writing fails, which is
// then the error.
func (n *Nodes) Revoke(ctx context.Context, id capabilities.NodeID, by capabilities.PrincipalID, reason string) (View, error) {
	if err := checkText("reason", reason); err != nil {
		return View{}, err
	}
	n.changing.Lock()
	defer n.changing.Unlock()
	old := n.lookup(id)
	if old == nil {
		return View{}, capabilities.Errorf(capabilities.CodeNodeNotFound, "there is no node %s", short(string(id)))
	}
	// A revocation that was not written is no end yet: it can be asked for again.
	if err := old.state.Become(pairing.StateRevoked); err != nil && !n.unwritten[id] {
		return View{}, err
	}
	r := *old
	r.state, r.decidedBy, r.decidedAt, r.reason = pairing.StateRevoked, by, n.opts.Now(), reason
	n.put(&r)
	n.drop(id, wire.CloseRevoked)
	n.log.Info("node.revoked", "node", id, "by", by)
	// A full disk must not keep a node in: this may use the reserve.
	err := n.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error {
		if err := updateNode(tx, &r); err != nil {
			return err
		}
		tx.OnCommit(func() { n.put(&r) }) // Again may have read it meanwhile
		return n.opts.Record(tx, "node.revoked", id, packet.NodeEnded{By: by, Reason: reason})
	})
	if err != nil {
		n.unwritten[id] = true
		n.log.Error("node.revoked", "node", id, "err", err)
		return View{}, capabilities.AsError(err).WithHint("The node is disconnected now, but a restart would let it back in: revoke it again.")
	}
	delete(n.unwritten, id)
	return n.view(&r), nil
}

// Edit changes what is not nil.
type Edit struct {
	By     capabilities.PrincipalID
	Label  *string
	Trust  *string
	Allow  *[]string                 // replaces the list
	Labels *[]string                 // replaces the list
	Owner  *capabilities.PrincipalID // empty: nobody's
}

// Change edits a node that is pending or approved. A new allowlist holds for the
// next call and is told to the node.
func (n *Nodes) Change(ctx context.Context, id capabilities.NodeID, e Edit) (View, error) {
	body := &packet.NodeChanged{By: e.By}
	r, err := n.change(ctx, id, "node.changed", body, func(r *record) error {
		if !r.live() {
			return capabilities.Errorf(capabilities.CodeConflict, "the node is %s", r.state)
		}
		return e.apply(r, body)
	})
	if err != nil {
		return View{}, err
	}
	if e.Allow != nil {
		if s := n.session(id); s != nil {
			if err := s.send(&wire.Allowlist{Capabilities: r.allow}); err != nil {
				n.log.Warn("node.allow", "node", id, "err", err) // it reads the list again at its next hello
			}
		}
	}
	return n.view(r), nil
}

func (e Edit) apply(r *record, body *packet.NodeChanged) error {
	if e.Label != nil {
		if err := checkText("label", *e.Label); err != nil {
			return err
		}
		r.label = *e.Label
		body.Label = &r.label
	}
	if e.Trust != nil {
		if err := checkText("trust", *e.Trust); err != nil {
			return err
		}
		r.trust = *e.Trust
		body.Trust = &r.trust
	}
	if e.Allow != nil {
		allow, err := cleanAllow(*e.Allow)
		if err != nil {
			return err
		}
		r.allow = allow
		body.Allow = &allow
	}
	if e.Labels != nil {
		labels, err := cleanLabels(*e.Labels)
		if err != nil {
			return err
		}
		r.labels = labels
		body.Labels = &labels
	}
	if e.Owner != nil {
		if *e.Owner != "" {
			if err := capabilities.ValidateName("owner", string(*e.Owner), maxText); err != nil {
				return err
			}
		}
		r.owner = sql.NullString{String: string(*e.Owner), Valid: true}
		body.Owner = e.Owner
	}
	return nil
}

const (
	maxAllow  = 256
	maxLabels = 32
	maxText   = 128
)

// cleanAllow checks an allowlist and makes it canonical. Tool IDs are taken for
// the capabilities they mirror, because those are the names people see.
func cleanAllow(list []string) ([]string, error) {
	if len(list) > maxAllow {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "allow may have at most %d entries", maxAllow)
	}
	out := make([]string, 0, len(list))
	for _, s := range list {
		if rest, ok := strings.CutPrefix(s, "tool."); ok {
			s = "tyrum." + rest
		}
		id := s
		if family, ok := strings.CutSuffix(s, ".*"); ok {
			id = family + ".any"
		}
		if s != "*" && capabilities.CapabilityID(id).Validate() != nil {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest,
				"allow: %q is not a capability ID, a family such as tyrum.browser.*, or *", short(s))
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func cleanLabels(list []string) ([]string, error) {
	if len(list) > maxLabels {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "labels may have at most %d entries", maxLabels)
	}
	out := slices.Clone(list)
	for _, s := range out {
		if err := capabilities.ValidateName("labels", s, 64); err != nil {
			return nil, err
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func checkText(what, s string) error {
	if len(s) > maxText || s != capabilities.Printable(s) {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "%s must be at most %d bytes of printable text", what, maxText)
	}
	return nil
}

// short makes text of others safe to show, and short.
func short(s string) string { return capabilities.Clip(capabilities.Printable(s), maxText) }
