package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/store"
)

// placeTable says which of several gateways holds a node, and what that node said last. The epoch
// is another each time that a node connects: a ticket for an earlier one is not passed on. rev
// grows with every change, so that others read what is new to them.
const placeTable = `
CREATE TABLE node_place (
	node_id TEXT PRIMARY KEY,
	member  TEXT NOT NULL,
	epoch   INTEGER NOT NULL,
	rev     INTEGER NOT NULL,
	said    TEXT NOT NULL
);
CREATE UNIQUE INDEX node_place_rev ON node_place (rev)`

// PlaceTable is read again by AgainPlaces.
const PlaceTable = "node_place"

// farPlace is where a node is that another gateway holds.
type farPlace struct {
	member string
	at     string // where that gateway is reached
	epoch  int64
	over   tunnel.Transport // which carries its connection there
	peer   netip.Addr       // from which it speaks there
}

// said is what others know of a node by its place.
type said struct {
	Readiness   []capabilities.Readiness `json:"readiness"`
	Known       bool                     `json:"known"` // it said what it offers
	StopEpoch   uint64                   `json:"stop_epoch"`
	Stopped     bool                     `json:"stopped,omitempty"`
	SiteEpoch   uint64                   `json:"site_epoch"`
	SiteStopped bool                     `json:"site_stopped,omitempty"`
	Skew        bool                     `json:"skew,omitempty"`
	Steps       bool                     `json:"steps,omitempty"`
	Elicits     bool                     `json:"elicits,omitempty"`
	AsksHosts   bool                     `json:"asks_hosts,omitempty"`
	Traces      bool                     `json:"traces,omitempty"`
	Recall      string                   `json:"recall,omitempty"`
	Addrs       []netip.Addr             `json:"addrs,omitempty"`
	Transport   tunnel.Transport         `json:"transport,omitempty"`
	Peer        netip.Addr               `json:"peer,omitzero"`
}

// floor is below the sequences of a new connection. They grow with the time, so that those of a
// gateway that began earlier are not below those of another that held the node before.
func (n *Nodes) floor() uint64 {
	if n.opts.Store.Member() == "" {
		return n.sequence.Load()
	}
	for now := uint64(n.opts.Now().UnixMicro()); ; {
		at := n.sequence.Load()
		if at >= now || n.sequence.CompareAndSwap(at, now) {
			return max(at, now)
		}
	}
}

// takePlace makes this gateway the one that holds a node, before the node hears that it is
// connected.
func (n *Nodes) takePlace(ctx context.Context, s *session, hello *wire.Hello) error {
	member := n.opts.Store.Member()
	if member == "" {
		return nil
	}
	text, err := json.Marshal(said{
		StopEpoch: hello.StopEpoch, Stopped: hello.Stopped, SiteEpoch: hello.SiteEpoch, SiteStopped: hello.SiteStopped, Steps: s.steps,
		Elicits: s.elicits, AsksHosts: s.asksHosts, Traces: s.traces, Recall: s.recall, Transport: s.over(),
		Peer: tunnel.PeerOf(s.conn.RemoteAddr()),
	})
	if err != nil {
		return err
	}
	var epoch int64
	err = n.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`INSERT INTO node_place (node_id, member, epoch, rev, said)
			SELECT $1, $2, 1, COALESCE(MAX(rev), 0) + 1, $3 FROM node_place WHERE 1 = 1
			ON CONFLICT (node_id) DO UPDATE SET member = excluded.member, epoch = node_place.epoch + 1, rev = excluded.rev, said = excluded.said`,
			string(s.node), member, string(text)); err != nil {
			return err
		}
		return tx.QueryRow(`SELECT epoch FROM node_place WHERE node_id = $1`, string(s.node)).Scan(&epoch)
	})
	s.place.Store(epoch)
	return err
}

// leavePlace says that nobody holds the node, if nobody took it meanwhile.
func (n *Nodes) leavePlace(ctx context.Context, s *session) error {
	if s.place.Load() == 0 {
		return nil
	}
	return n.opts.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE node_place SET member = '', rev = (SELECT MAX(rev) + 1 FROM node_place)
			WHERE node_id = $1 AND epoch = $2`, string(s.node), s.place.Load())
		return err
	})
}

// tellPlace has the others know what a node says now. It does not block.
func (n *Nodes) tellPlace(s *session) {
	if s.place.Load() == 0 {
		return
	}
	go func() {
		s.saving.Lock()
		defer s.saving.Unlock()
		ctx, cancel := context.WithTimeout(s.conn.Context(), writeTimeout)
		defer cancel()
		if err := n.savePlace(ctx, s); err != nil && ctx.Err() == nil {
			n.log.Warn("node.place", "node", s.node, "err", err)
		}
	}()
}

func (n *Nodes) savePlace(ctx context.Context, s *session) error {
	n.mu.RLock()
	p, mine := n.presence[s.node], n.sessions[s.node] == s
	n.mu.RUnlock()
	if !mine {
		return nil
	}
	now := said{
		Known: p.readiness != nil, StopEpoch: p.stopEpoch, Stopped: p.stopped, SiteEpoch: p.site.epoch, SiteStopped: p.site.on, Skew: p.skew,
		Steps: s.steps, Elicits: s.elicits, AsksHosts: s.asksHosts, Traces: s.traces, Recall: s.recall, Transport: s.over(),
		Peer: tunnel.PeerOf(s.conn.RemoteAddr()),
	}
	for _, r := range p.readiness {
		now.Readiness = append(now.Readiness, r)
	}
	if own := s.addrs.Load(); own != nil {
		now.Addrs = *own
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return n.opts.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE node_place SET said = $1, rev = (SELECT MAX(rev) + 1 FROM node_place) WHERE node_id = $2 AND epoch = $3`,
			string(text), string(s.node), s.place.Load())
		return err
	})
}

// AgainPlaces reads which nodes other gateways hold now. A node that another has taken loses its
// connection here.
func (n *Nodes) AgainPlaces(ctx context.Context) error {
	n.mu.RLock()
	from := n.places
	n.mu.RUnlock()
	type row struct {
		node   capabilities.NodeID
		member string
		epoch  int64
		said
	}
	at, err := n.opts.Store.Reached(ctx)
	if err != nil {
		return err
	}
	rows, err := n.opts.Store.Read().QueryContext(ctx, `SELECT node_id, member, epoch, rev, said FROM node_place WHERE rev > $1 ORDER BY rev`,
		from)
	if err != nil {
		return err
	}
	defer rows.Close()
	var news []row
	for rows.Next() {
		var r row
		var text string
		if err := rows.Scan(&r.node, &r.member, &r.epoch, &from, &text); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(text), &r.said); err != nil {
			return fmt.Errorf("nodes: the place of %s: %w", r.node, err)
		}
		news = append(news, r)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	me := n.opts.Store.Member()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.places = from
	for _, r := range news {
		if s := n.sessions[r.node]; s != nil && s.place.Load() != 0 && r.epoch > s.place.Load() && r.member != me {
			n.log.Warn("node.taken_over", "node", r.node, "by", r.member)
			go closeWith(s.conn, wire.CloseTakenOver) // it waits for the connection
			delete(n.sessions, r.node)
		}
		if n.sessions[r.node] != nil {
			continue
		}
		if r.member == "" || r.member == me {
			delete(n.elsewhere, r.node)
			continue
		}
		n.elsewhere[r.node] = r.far(at[r.member], r.member, r.epoch, r.node)
		n.presence[r.node] = r.presence()
	}
	for id, s := range n.elsewhere {
		if at[s.far.member] == "" { // it was put out
			delete(n.elsewhere, id)
		}
	}
	n.notifyLocked()
	return nil
}

func (s *said) far(at, member string, epoch int64, node capabilities.NodeID) *session {
	f := &session{
		node: node, epoch: uint64(epoch), steps: s.Steps, elicits: s.Elicits, asksHosts: s.AsksHosts, traces: s.Traces, recall: s.Recall,
		far: &farPlace{member, at, epoch, s.Transport, s.Peer},
	}
	f.stopEpoch.Store(s.StopEpoch)
	f.addrs.Store(&s.Addrs)
	return f
}

// over returns what carries the node's connection, to whichever gateway that is.
func (s *session) over() tunnel.Transport {
	if s.far != nil {
		return s.far.over
	}
	return tunnel.Of(s.conn.RemoteAddr())
}

func (s *said) presence() presence {
	p := presence{stopEpoch: s.StopEpoch, stopped: s.Stopped, site: siteStop{s.SiteEpoch, s.SiteStopped}, skew: s.Skew}
	if s.Known {
		p.readiness = make(readinessSet, len(s.Readiness))
		for _, r := range s.Readiness {
			p.readiness[r.Capability] = r
		}
	}
	return p
}

// GoneIn says, as part of tx, that nobody holds the nodes of a gateway that was put out.
func (n *Nodes) GoneIn(tx *store.Tx, member string) error {
	rows, err := tx.Query(`SELECT node_id FROM node_place WHERE member = $1`, member)
	if err != nil {
		return err
	}
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return errors.Join(err, rows.Close())
		}
		ids = append(ids, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, id := range ids { // each has a rev of its own
		if _, err := tx.Exec(`UPDATE node_place SET member = '', rev = (SELECT MAX(rev) + 1 FROM node_place) WHERE node_id = $1`, id); err != nil {
			return err
		}
	}
	tx.OnCommit(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for id, s := range n.elsewhere {
			if s.far.member == member {
				delete(n.elsewhere, id)
			}
		}
		n.notifyLocked()
	})
	return nil
}
