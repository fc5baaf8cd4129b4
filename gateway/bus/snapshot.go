package bus

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/route"
)

// Snapshot returns the approved satellites as routing sees them, by ID: what each offers and
// whether it can be called. It is made once after each change and shared.
func (b *Bus) Snapshot() []route.Node {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.snapshot != nil {
		return b.snapshot
	}
	now := b.opts.Now()
	list := make([]route.Node, 0, len(b.roster))
	for _, s := range b.roster {
		if s.state != route.StateApproved {
			continue
		}
		h, why := s.health(now)
		words := s.said
		if f := b.farLocked(s, now); f != nil {
			h, why, words = f.Health, f.Why, f.said
		}
		n := route.Node{
			ID: s.id, Serves: s.service, Paired: route.StateApproved, Connected: h != HealthGone && words != nil,
			Summary: capabilities.NodeSummary{Label: s.service + "@" + s.profile.Host, Platform: s.profile.Platform},
			Allow:   route.AllowPatterns("tyrum." + s.service + ".*"),
		}
		if words != nil {
			n.Readiness = b.readinessLocked(s, words, h, why)
		}
		list = append(list, n)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].ID < list[j].ID })
	b.snapshot = list
	return list
}

// readinessLocked says of each tool whether it can be called there.
func (b *Bus) readinessLocked(s *satellite, said *said, h Health, why string) map[capabilities.CapabilityID]capabilities.Readiness {
	all := make(map[capabilities.CapabilityID]capabilities.Readiness, len(said.tools))
	for c, w := range said.tools {
		// Nothing of it runs with us. Our own client goes to that one process and nowhere else.
		r := capabilities.Readiness{Capability: c, Backend: "satellite", Isolation: capabilities.ClassT2}
		switch {
		case h == HealthStale:
			r.Reason, r.Fix = capabilities.ReasonHeartbeatLate, "It has not been heard of for 15 seconds. Look at its process."
			r.Action = capabilities.Action{Key: capabilities.ActionShowSatellite, Node: s.id}
		case h == HealthNotReady:
			r.Reason, r.Fix = capabilities.ReasonBackendFailing, cmp.Or(why, "The service behind the satellite does not answer.")
		case b.otherWords(c, w.hash):
			r.Reason, r.Fix = capabilities.ReasonManifestChanged, "An admin has to look at the change."
			r.Action = capabilities.Action{Key: capabilities.ActionReviewTool, Tool: c.Tool()}
		}
		all[c] = r
	}
	return all
}

// otherWords reports whether a person approved other words of a tool than those.
func (b *Bus) otherWords(c capabilities.CapabilityID, hash string) bool {
	if b.opts.Approved == nil {
		return false
	}
	approved, ok := b.opts.Approved(c)
	return ok && approved != hash
}

// A satellite that fails so often in a row is left alone for a moment, where another can serve.
const (
	breakAfter  = 3
	breakFor    = 5 * time.Second
	breakAtMost = time.Minute
)

// Order returns satellites in the order in which a call tries them: the least busy first, and
// those that failed lately last. Any other hosts stay as they are.
func (b *Bus) Order(hosts []capabilities.NodeID) []capabilities.NodeID {
	if len(hosts) < 2 {
		return hosts
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.roster[hosts[0]] == nil {
		return hosts
	}
	now := b.opts.Now()
	type place struct {
		id     capabilities.NodeID
		broken bool
		busy   float64
		turn   uint64 // when it came first last
	}
	places := make([]place, 0, len(hosts))
	for _, id := range hosts {
		p := place{id: id}
		if s := b.roster[id]; s != nil {
			// Its own count is up to a Period old; ours is of this moment.
			p.broken, p.busy = now.Before(s.openUntil), float64(max(s.running, s.last.Active))+s.last.Load
			if f := b.farLocked(s, now); f != nil {
				p.busy = float64(max(s.running, f.Active)) + f.Load
			}
			p.turn = s.turn
		}
		places = append(places, p)
	}
	slices.SortStableFunc(places, func(a, b place) int {
		if a.broken != b.broken {
			if a.broken {
				return 1
			}
			return -1
		}
		if c := cmp.Compare(a.busy, b.busy); c != 0 {
			return c
		}
		return cmp.Compare(a.turn, b.turn)
	})
	if s := b.roster[places[0].id]; s != nil {
		b.turn++
		s.turn = b.turn
	}
	order := make([]capabilities.NodeID, len(places))
	for i, p := range places {
		order[i] = p.id
	}
	return order
}

// ended takes over how a call ended there: a satellite that is lost, silent or away several times
// in a row has its calls go to others for a moment, then one more tries it.
func (s *satellite) ended(err error, now time.Time) {
	switch capabilities.CodeOf(err) {
	case capabilities.CodeUnknownOutcome, capabilities.CodeNodeDisconnected, capabilities.CodeDeadlineExceeded:
		s.fails++
		if s.fails >= breakAfter {
			s.openUntil = now.Add(min(breakFor<<min(s.fails-breakAfter, 4), breakAtMost))
		}
	case capabilities.CodeCancelled:
	default:
		s.fails, s.openUntil = 0, time.Time{}
	}
}
