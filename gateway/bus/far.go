package bus

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Of several gateways each has a bus of its own. A satellite is connected to one of them, which
// hears its heartbeats and tells the others how it is: they list it, and have that one make its
// calls.

// Peers are the other gateways of the site.
type Peers interface {
	// Tell has all of them Hear how the satellites are that are connected here, as far as they
	// answer soon.
	Tell(here []Presence)
	// Call, Ask and Manifest are Dispatch, Ask and Manifest at another gateway.
	Call(ctx context.Context, member string, id capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress)) (wire.Answer,
		[]capabilities.Blob, error)
	Ask(ctx context.Context, member string, id capabilities.NodeID, calls []capabilities.CallID) ([]wire.JournalState, error)
	Manifest(ctx context.Context, member string, id capabilities.NodeID) (tools.ToolManifest, error)
}

// Presence is how a satellite is at the gateway that it is connected to.
type Presence struct {
	ID       capabilities.NodeID `json:"id"`
	Health   Health              `json:"health"`
	Why      string              `json:"why,omitempty"`
	Manifest string              `json:"manifest,omitempty"` // hash of what it says of its tools
	Seen     time.Time           `json:"seen"`
	Active   int                 `json:"active,omitempty"`
	Load     float64             `json:"load,omitempty"`
	UptimeS  int64               `json:"uptime_s,omitempty"`
}

// far is a satellite at another gateway; under Bus.mu.
type far struct {
	Presence
	member string
	heard  time.Time
	said   *said // nil: what it says of its tools is not known here yet
	asking bool
}

// farFor is how long a word of another gateway is good: it says one each remote.Period.
const farFor = remote.Stale

// Tables are those that the room keeps in memory, and reads again once another gateway wrote them.
var Tables = []string{"satellite", "satellite_invite"}

// Again reads the roster as it stands now. Satellites that another gateway put out are cut off. The
// store's writer calls it, so it waits for nobody.
func (b *Bus) Again(ctx context.Context) error {
	roster, invites, err := b.read(ctx)
	if err != nil {
		return err
	}
	var out []*satellite
	services := map[string]bool{}
	b.mu.Lock()
	for _, now := range roster {
		s := b.roster[now.id]
		switch {
		case s == nil:
			b.put(now)
			services[now.service] = true
		case s.state != now.state:
			s.state, s.decidedBy, s.decidedAt, s.reason = now.state, now.decidedBy, now.decidedAt, now.reason
			services[now.service] = true
			if !s.in() {
				s.drop()
				out = append(out, s)
			}
		}
	}
	for key, i := range invites {
		if had := b.invites[key]; had != nil {
			had.usedBy = i.usedBy
			continue
		}
		b.invites[key] = i
	}
	b.mu.Unlock()
	for _, s := range out {
		go b.kick(s) // it waits for the bus
	}
	if len(services) > 0 {
		b.changed()
		b.opts.Rostered(services)
	}
	if b.wanted() && b.running.Err() == nil {
		go func() {
			if err := b.start(b.running); err != nil && b.running.Err() == nil {
				b.opts.Log.Warn("bus.start", "err", err)
			}
		}()
	}
	return nil
}

// Holds reports whether a satellite is connected here, as far as its heartbeats of late say.
func (b *Bus) Holds(id capabilities.NodeID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.roster[id]
	return s != nil && b.hereLocked(s, b.opts.Now())
}

func (b *Bus) hereLocked(s *satellite, now time.Time) bool {
	h, _ := s.health(now)
	return h == HealthReady || h == HealthNotReady
}

// farLocked returns the satellite as another gateway told of it; nil: it is here, or nowhere.
func (b *Bus) farLocked(s *satellite, now time.Time) *far {
	f := b.far[s.id]
	if f == nil || now.Sub(f.heard) > farFor || f.Health == HealthGone || b.hereLocked(s, now) {
		return nil
	}
	return f
}

// here is how the satellites are that are connected here, for others.
func (b *Bus) here() []Presence {
	now := b.opts.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []Presence{}
	for _, s := range b.roster {
		h, why := s.health(now)
		if s.state != route.StateApproved || h == HealthGone {
			continue
		}
		p := Presence{ID: s.id, Health: h, Why: why, Seen: s.seen, Active: s.last.Active, Load: s.last.Load, UptimeS: s.last.UptimeS}
		if s.said != nil {
			p.Manifest = s.said.hash
		}
		list = append(list, p)
	}
	return list
}

// spread tells the other gateways how the satellites are, until ctx ends: when that changes, and
// each remote.Period.
func (b *Bus) spread(ctx context.Context) {
	tick := time.NewTicker(remote.Period)
	defer tick.Stop()
	told := false
	for {
		if list := b.here(); len(list) > 0 || told {
			b.opts.Peers.Tell(list)
			told = len(list) > 0
		}
		b.forgetFar()
		select {
		case <-ctx.Done():
			return
		case <-b.news:
		case <-tick.C:
		}
	}
}

// forgetFar has everybody look anew once a gateway told nothing of a satellite for long.
func (b *Bus) forgetFar() {
	now, over := b.opts.Now(), false
	b.mu.Lock()
	for id, f := range b.far {
		if now.Sub(f.heard) > farFor {
			delete(b.far, id)
			over = true
		}
	}
	b.mu.Unlock()
	if over {
		b.changed()
	}
}

// Hear takes over how the satellites are that are connected to another gateway.
func (b *Bus) Hear(member string, there []Presence) {
	now := b.opts.Now()
	changed := false
	named := map[capabilities.NodeID]bool{}
	b.mu.Lock()
	for _, p := range there {
		named[p.ID] = true
		f := b.far[p.ID]
		if f == nil || f.member != member {
			f, changed = &far{member: member}, true
			b.far[p.ID] = f
		}
		changed = changed || f.Health != p.Health || f.Manifest != p.Manifest
		f.Presence, f.heard = p, now
		if f.said == nil || f.said.hash != p.Manifest {
			if known := b.manifests[p.Manifest]; known != nil {
				f.said, changed = known, true
			} else if !f.asking && !b.closed && p.Manifest != "" {
				f.asking = true
				b.works.Go(func() { b.fetchFar(f, member, p) })
			}
		}
	}
	for id, f := range b.far {
		if f.member == member && !named[id] {
			delete(b.far, id)
			changed = true
		}
	}
	b.mu.Unlock()
	if changed {
		b.changed()
	}
}

// fetchFar asks another gateway what a satellite there says of its tools.
func (b *Bus) fetchFar(f *far, member string, p Presence) {
	ctx, cancel := context.WithTimeout(b.running, 10*time.Second)
	defer cancel()
	m, err := b.opts.Peers.Manifest(ctx, member, p.ID)
	if err == nil && m.Hash() != p.Manifest {
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "its manifest is not the one that its gateway names")
	}
	var one *said
	if err == nil {
		one = b.keepManifest(m.Provider, &m)
	} else if ctx.Err() == nil {
		b.opts.Log.Warn("satellite.manifest", "satellite", p.ID, "gateway", member, "err", err)
	}
	b.mu.Lock()
	f.asking = false
	if one != nil {
		f.said = one
	}
	b.mu.Unlock()
	b.changed()
}

// GoneIn forgets the satellites of a gateway that was put out: they are nowhere until they connect.
func (b *Bus) GoneIn(tx *store.Tx, member string) error {
	tx.OnCommit(func() { go b.Hear(member, nil) })
	return nil
}

// elsewhereAt returns the gateway that a satellite is connected to; "": this one, or none.
func (b *Bus) elsewhereAt(id capabilities.NodeID) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.roster[id]; s != nil {
		if f := b.farLocked(s, b.opts.Now()); f != nil {
			return f.member
		}
	}
	return ""
}

// dispatchFar has the gateway that a satellite is connected to make a call.
func (b *Bus) dispatchFar(ctx context.Context, member string, id capabilities.NodeID, t *wire.Ticket,
	progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	b.mu.Lock()
	s := b.roster[id]
	s.running++
	b.mu.Unlock()
	a, blobs, err := b.opts.Peers.Call(ctx, member, id, t, progress)
	if err != nil && ctx.Err() != nil {
		err = ending(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.running--
	s.ended(err, b.opts.Now())
	return a, blobs, err
}
