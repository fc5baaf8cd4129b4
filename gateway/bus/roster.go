package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Migrations are the tables of this room.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "bus", Version: 1, SQL: `
		CREATE TABLE satellite (
			satellite_id TEXT PRIMARY KEY,
			service      TEXT NOT NULL,
			public_key   TEXT NOT NULL UNIQUE,
			state        TEXT NOT NULL,
			profile      TEXT NOT NULL,
			invite       TEXT NOT NULL,
			joined_at    BIGINT NOT NULL,
			decided_at   BIGINT NOT NULL,
			decided_by   TEXT NOT NULL,
			reason       TEXT NOT NULL
		);
		CREATE TABLE satellite_invite (
			public_key TEXT PRIMARY KEY,
			service    TEXT NOT NULL,
			approves   INTEGER NOT NULL,
			created_by TEXT NOT NULL,
			created_at BIGINT NOT NULL,
			expires_at BIGINT NOT NULL,
			used_by    TEXT NOT NULL
		);`}}
}

// Bounds of the roster.
const (
	maxSatellites = 4096
	maxPending    = 256
	maxInvites    = 1000
	inviteTTL     = 10 * time.Minute
)

// Kinds of packets.
const (
	kindInvited = "gateway.satellite.invited"
	kindJoined  = "gateway.satellite.joined"
	kindDecided = "gateway.satellite.decided"
)

// Profile is what a satellite said of its machine when it joined.
type Profile struct {
	Host     string `json:"host"`
	Platform string `json:"platform"`
	Agent    string `json:"agent,omitempty"`
}

// record is a satellite as the roster has it.
type record struct {
	id        capabilities.NodeID
	service   string
	key       string // public user nkey
	state     string // of route's states
	profile   Profile
	invite    string
	joinedAt  time.Time
	decidedAt time.Time
	decidedBy capabilities.PrincipalID
	reason    string
}

// satellite is a record with what is known of it now; under Bus.mu.
type satellite struct {
	record
	life
	beatsAt string // the subject of its heartbeats
}

// in reports whether it is none that was put out.
func (r *record) in() bool { return r.state == route.StateApproved || r.state == route.StatePending }

// invite is a paste that was handed out.
type invite struct {
	key     string
	service string
	yes     bool // approves by itself who comes
	by      capabilities.PrincipalID
	created time.Time
	expires time.Time
	usedBy  capabilities.NodeID
	client  uint64 // of the server in this process; under Bus.mu
}

func (i *invite) open(now time.Time) bool { return i.usedBy == "" && now.Before(i.expires) }

func (b *Bus) load(ctx context.Context) error {
	roster, invites, err := b.read(ctx)
	if err != nil {
		return err
	}
	for _, s := range roster {
		b.put(s)
	}
	b.invites = invites
	return nil
}

// read returns satellites and invitations as the store has them.
func (b *Bus) read(ctx context.Context) (roster []*satellite, invites map[string]*invite, err error) {
	rows, err := b.opts.Store.Read().QueryContext(ctx,
		`SELECT satellite_id, service, public_key, state, profile, invite, joined_at, decided_at, decided_by, reason FROM satellite`)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		s := &satellite{}
		var profile string
		var joined, decided int64
		if err := rows.Scan(&s.id, &s.service, &s.key, &s.state, &profile, &s.invite, &joined, &decided, &s.decidedBy, &s.reason); err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal([]byte(profile), &s.profile); err != nil {
			return nil, nil, err
		}
		s.joinedAt, s.decidedAt = moment(joined), moment(decided)
		roster = append(roster, s)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, err
	}
	found, err := b.opts.Store.Read().QueryContext(ctx,
		`SELECT public_key, service, approves, created_by, created_at, expires_at, used_by FROM satellite_invite`)
	if err != nil {
		return nil, nil, err
	}
	defer found.Close()
	invites = map[string]*invite{}
	for found.Next() {
		i := &invite{}
		var created, expires int64
		if err := found.Scan(&i.key, &i.service, &i.yes, &i.by, &created, &expires, &i.usedBy); err != nil {
			return nil, nil, err
		}
		i.created, i.expires = moment(created), moment(expires)
		invites[i.key] = i
	}
	return roster, invites, found.Err()
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// put adds a satellite to the maps.
func (b *Bus) put(s *satellite) {
	s.life.lost, s.beatsAt = make(chan struct{}), remote.Heartbeats(s.service, string(s.id))
	b.roster[s.id], b.byKey[s.key] = s, s
}

// Invited is what Invite returns.
type Invited struct {
	Paste   string
	Service string
	Expires time.Time
}

// Invite makes a paste for one satellite of a service; it starts the bus. yes approves whoever
// proves it. CodeInvalidRequest and CodeConflict for a name that cannot be had.
func (b *Bus) Invite(ctx context.Context, by capabilities.PrincipalID, service string, yes bool, ttl time.Duration) (Invited, error) {
	p := tools.Provider{Name: service, Kind: tools.KindSatellite}
	if err := p.Validate(); err != nil {
		return Invited{}, err
	}
	if err := b.opts.Free(service); err != nil {
		return Invited{}, err
	}
	if ttl == 0 {
		ttl = inviteTTL
	}
	if ttl < time.Second || ttl > 30*24*time.Hour {
		return Invited{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "ttl_s: 1 second to 30 days")
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		return Invited{}, err
	}
	key, err := pair.PublicKey()
	if err != nil {
		return Invited{}, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return Invited{}, err
	}
	defer pair.Wipe()
	b.changing.Lock()
	defer b.changing.Unlock()
	now := b.opts.Now().UTC().Truncate(time.Millisecond)
	i := &invite{key: key, service: service, yes: yes, by: by, created: now, expires: now.Add(ttl)}
	err = b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`DELETE FROM satellite_invite WHERE expires_at < $1`, now.Add(-24*time.Hour).UnixMilli()); err != nil {
			return err
		}
		var count int
		if err := tx.QueryRow(`SELECT COUNT(*) FROM satellite_invite`).Scan(&count); err != nil {
			return err
		}
		if count >= maxInvites {
			return capabilities.Errorf(capabilities.CodeOverloaded, "there are %d invitations already", count)
		}
		if _, err := tx.Exec(
			`INSERT INTO satellite_invite (public_key, service, approves, created_by, created_at, expires_at, used_by) VALUES ($1, $2, $3, $4, $5, $6, '')`,
			key, service, yes, string(by), now.UnixMilli(), i.expires.UnixMilli()); err != nil {
			return err
		}
		return b.opts.Record(tx, kindInvited, by, packet.SatelliteInvited{Service: service, Invite: key, AutoApprove: yes, ExpiresAt: i.expires})
	})
	if err != nil {
		return Invited{}, capabilities.AsError(err)
	}
	b.mu.Lock()
	b.invites[key] = i
	b.mu.Unlock()
	if err := b.start(ctx); err != nil {
		return Invited{}, err
	}
	paste := remote.Paste{Seed: string(seed), Name: service, Addrs: b.advertised(), Sum: b.sum}
	return Invited{Paste: paste.Encode(), Service: service, Expires: i.expires}, nil
}

// Decide approves, denies or revokes a satellite. One that is revoked is cut off before this
// returns. CodeNotFound, and CodeConflict where the step is none.
func (b *Bus) Decide(ctx context.Context, by capabilities.PrincipalID, id capabilities.NodeID, state, reason string) (View, error) {
	done, err := b.decides(ctx)
	if err != nil {
		return View{}, err
	}
	defer done()
	b.mu.Lock()
	s := b.roster[id]
	var r record
	if s != nil {
		r = s.record
	}
	b.mu.Unlock()
	switch {
	case s == nil:
		return View{}, missing(id)
	case len(reason) > 200:
		return View{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "reason: at most 200 bytes")
	case r.state == state:
		return b.View(id)
	case state == route.StateApproved && r.state == route.StatePending:
		if err := b.alone(&r); err != nil {
			return View{}, err
		}
	case state == route.StateDenied && r.state == route.StatePending, state == route.StateRevoked && r.state == route.StateApproved,
		state == route.StateRevoked && r.state == route.StatePending:
	default:
		return View{}, capabilities.Errorf(capabilities.CodeConflict, "a satellite that is %s does not become %s", r.state, state).
			WithAction(capabilities.Action{Key: capabilities.ActionAddSatellite, Name: r.service}, "Invite a new one.")
	}
	r.state, r.decidedBy, r.decidedAt, r.reason = state, by, b.opts.Now().UTC(), capabilities.Printable(reason)
	err = b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`UPDATE satellite SET state = $1, decided_by = $2, decided_at = $3, reason = $4 WHERE satellite_id = $5`,
			r.state, string(by), r.decidedAt.UnixMilli(), r.reason, string(id)); err != nil {
			return err
		}
		return b.opts.Record(tx, kindDecided, by, packet.SatelliteDecided{ID: id, Service: r.service, State: state, Reason: r.reason})
	})
	if err != nil {
		return View{}, capabilities.AsError(err)
	}
	b.mu.Lock()
	// All else of a record is read without the lock, and stays as it was.
	s.state, s.decidedBy, s.decidedAt, s.reason = r.state, r.decidedBy, r.decidedAt, r.reason
	if !r.in() {
		s.drop()
	}
	b.mu.Unlock()
	if !r.in() {
		b.kick(s)
	}
	b.changed()
	return b.View(id)
}

// decides takes the turn to change the roster, here and among the gateways of the site; done ends
// it.
func (b *Bus) decides(ctx context.Context) (done func(), err error) {
	b.changing.Lock()
	waiting, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	pass, err := b.opts.Store.Turn(waiting, "satellite")
	if err != nil {
		b.changing.Unlock()
		return nil, err
	}
	return func() {
		pass()
		b.changing.Unlock()
	}, nil
}

// alone refuses a second satellite of a service, unless a person approved that any of several
// serves a call as well. A satellite's own word on that is no approval.
func (b *Bus) alone(r *record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.roster {
		if o.id == r.id || o.service != r.service || o.state != route.StateApproved {
			continue
		}
		if b.opts.Interchangeable == nil || !b.opts.Interchangeable(r.service) {
			return capabilities.Errorf(capabilities.CodeConflict,
				"%s has the satellite %s already, and nobody approved a manifest that says interchangeable", r.service, o.id).
				WithAction(capabilities.Action{Key: capabilities.ActionRevokeSatellite, Node: o.id}, "Put that one out first.")
		}
	}
	return nil
}

func missing(id capabilities.NodeID) error {
	return capabilities.Errorf(capabilities.CodeNotFound, "there is no satellite %.64q", id).
		WithAction(capabilities.Action{Key: capabilities.ActionListSatellites}, "Check its name.")
}

// View is a satellite as surfaces get it.
type View struct {
	ID        capabilities.NodeID
	Service   string
	State     string
	Profile   Profile
	Key       string
	JoinedAt  time.Time
	DecidedAt time.Time
	DecidedBy capabilities.PrincipalID
	Reason    string
	Health    Health
	Why       string // of the health
	Seen      time.Time
	Active    int
	Load      float64
	UptimeS   int64
	Manifest  string // hash
	Problem   string // why its tools are not taken
	Refused   uint64 // heartbeats at its subject that were refused
	Keyed     bool   // its last heartbeat had a MAC in place of a signature
	Breaker   bool   // calls go to others for a moment
}

// Views returns every satellite, by service and ID.
func (b *Bus) Views() []View {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]View, 0, len(b.roster))
	for _, s := range b.roster {
		list = append(list, b.viewLocked(s))
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.ID, b.ID)) < 0
	})
	return list
}

// View returns one: CodeNotFound.
func (b *Bus) View(id capabilities.NodeID) (View, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.roster[id]; s != nil {
		return b.viewLocked(s), nil
	}
	return View{}, missing(id)
}

func (b *Bus) viewLocked(s *satellite) View {
	now := b.opts.Now()
	h, why := s.health(now)
	last := Presence{Seen: s.seen, Active: s.last.Active, Load: s.last.Load, UptimeS: s.last.UptimeS, Manifest: s.last.Manifest}
	if f := b.farLocked(s, now); f != nil {
		h, why, last = f.Health, f.Why, f.Presence
	}
	if s.state != route.StateApproved {
		h, why = HealthGone, ""
	}
	return View{
		ID: s.id, Service: s.service, State: s.state, Profile: s.profile, Key: s.key, JoinedAt: s.joinedAt, DecidedAt: s.decidedAt,
		DecidedBy: s.decidedBy, Reason: s.reason, Health: h, Why: why, Seen: last.Seen, Active: last.Active, Load: last.Load,
		UptimeS: last.UptimeS, Manifest: last.Manifest, Problem: s.problem, Refused: s.refused, Keyed: s.keyed,
		Breaker: now.Before(s.openUntil),
	}
}

// Has reports whether an ID is a satellite's.
func (b *Bus) Has(id capabilities.NodeID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.roster[id] != nil
}

// Of returns the approved satellites of a service, by ID.
func (b *Bus) Of(service string) []capabilities.NodeID {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []capabilities.NodeID
	for _, s := range b.roster {
		if s.service == service && s.state == route.StateApproved {
			ids = append(ids, s.id)
		}
	}
	slices.Sort(ids)
	return ids
}

var errUsed = errors.New("invitation used")
