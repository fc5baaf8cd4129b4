package bus

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

// joinTime is how long one that joins may wait for a person, from the paste's end on.
const joinTime = time.Hour

// joining answers one who holds a paste. The server let them in by the paste's key alone, and to
// this subject only.
func (b *Bus) joining(m *nats.Msg) {
	if m.Reply == "" || len(m.Data) > remote.MaxHeartbeat {
		return
	}
	v, err := b.join(b.running, remote.JoinKey(m.Subject), m.Data)
	if err != nil {
		e := capabilities.AsError(err)
		b.opts.Log.Warn("satellite.join_refused", "code", e.Code, "err", err)
		v = remote.Verdict{Code: e.Code, Message: e.PublicMessage()}
	}
	if data, err := remote.Write(v); err == nil {
		_ = m.Respond(data) // who does not hear it asks again
	}
}

// join lets one wait for a person's decision: the paste is spent and the satellite enters the
// roster in one commit. The same satellite again hears how it stands.
func (b *Bus) join(ctx context.Context, key string, data []byte) (remote.Verdict, error) {
	a, err := remote.ReadAsk(data)
	if err != nil {
		return remote.Verdict{}, err
	}
	if err := proves(a.Key, key, a.Sig); err != nil {
		return remote.Verdict{}, err
	}
	done, err := b.decides(ctx)
	if err != nil {
		return remote.Verdict{}, err
	}
	defer done()
	b.mu.Lock()
	i, known := b.invites[key], b.byKey[a.Key]
	var at invite
	var r record
	if i != nil {
		at = *i
	}
	if known != nil {
		r = known.record
	}
	pending := 0
	for _, s := range b.roster {
		if s.state == route.StatePending {
			pending++
		}
	}
	count := len(b.roster)
	b.mu.Unlock()
	now := b.opts.Now().UTC().Truncate(time.Millisecond)
	switch {
	case i == nil:
		return remote.Verdict{}, capabilities.Errorf(capabilities.CodePasteInvalid, "This site has made no such code.")
	case known != nil && r.invite == key:
		return b.verdict(&r), nil
	case known != nil:
		return remote.Verdict{}, capabilities.Errorf(capabilities.CodeConflict, "This key is satellite %s already.", r.id)
	case at.usedBy != "":
		return remote.Verdict{}, capabilities.Errorf(capabilities.CodePasteUsed, "The code was used already, by satellite %s.", at.usedBy)
	case !at.open(now):
		return remote.Verdict{}, capabilities.Errorf(capabilities.CodePasteExpired, "The code expired at %s.",
			at.expires.Format("2006-01-02 15:04:05 MST"))
	case count >= maxSatellites || pending >= maxPending:
		return remote.Verdict{}, capabilities.Errorf(capabilities.CodeOverloaded, "The site has %d satellites, %d of them waiting for approval.",
			count, pending)
	}
	r = record{
		id: pairing.NewSatelliteID(), service: at.service, key: a.Key, state: route.StatePending, invite: key, joinedAt: now,
		profile: Profile{Host: a.Host, Platform: a.Platform, Agent: a.Agent},
	}
	if at.yes && b.alone(&r) == nil {
		r.state, r.decidedBy, r.decidedAt = route.StateApproved, at.by, now
	}
	profile, err := json.Marshal(r.profile)
	if err != nil {
		return remote.Verdict{}, err
	}
	err = b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		spent, err := tx.Exec(`UPDATE satellite_invite SET used_by = $1 WHERE public_key = $2 AND used_by = '' AND expires_at > $3`, string(r.id),
			key, now.UnixMilli())
		if err != nil {
			return err
		}
		if spent == 0 {
			return errUsed
		}
		decided := int64(0)
		if !r.decidedAt.IsZero() {
			decided = r.decidedAt.UnixMilli()
		}
		if _, err := tx.Exec(
			`INSERT INTO satellite (satellite_id, service, public_key, state, profile, invite, joined_at, decided_at, decided_by, reason) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, '')`,
			string(r.id), r.service, r.key, r.state, string(profile), key, now.UnixMilli(), decided, string(r.decidedBy)); err != nil {
			return err
		}
		return b.opts.Record(tx, kindJoined, "", packet.SatelliteJoined{
			ID: r.id, Service: r.service, Key: r.key, State: r.state, Host: r.profile.Host, Platform: r.profile.Platform, Invite: key,
		})
	})
	if errors.Is(err, errUsed) {
		return remote.Verdict{}, capabilities.Errorf(capabilities.CodePasteUsed, "The code was used already.")
	}
	if err != nil {
		return remote.Verdict{}, err
	}
	b.mu.Lock()
	i.usedBy = r.id
	b.put(&satellite{record: r})
	b.mu.Unlock()
	b.opts.Log.Info("satellite.joined", "satellite", r.id, "service", r.service, "state", r.state, "host", r.profile.Host, "key", r.key)
	b.changed()
	return b.verdict(&r), nil
}

func (b *Bus) verdict(r *record) remote.Verdict {
	return remote.Verdict{Satellite: string(r.id), Service: r.service, State: r.state, Site: b.opts.Site, Message: r.reason}
}

// proves checks that whoever joins holds the key that they name.
func proves(key, over, sig string) error {
	raw, err := base64.RawURLEncoding.DecodeString(sig)
	if err == nil {
		err = verify(key, []byte(over), raw)
	}
	if err != nil {
		return capabilities.Wrap(capabilities.CodePasteInvalid, err, "The key is not that of who signed.")
	}
	return nil
}

// verify checks a signature of a user nkey.
func verify(key string, data, sig []byte) error {
	pub, err := nkeys.FromPublicKey(key)
	if err != nil {
		return err
	}
	if !nkeys.IsValidPublicUserKey(key) {
		return nkeys.ErrInvalidPublicKey
	}
	return pub.Verify(data, sig)
}
