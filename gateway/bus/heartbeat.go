package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
	"github.com/handrail-dev/handrail/gateway/route"
)

// Health is how a satellite is, by its heartbeats.
type Health string

// The healths, from the best.
const (
	HealthReady    Health = "ready"
	HealthNotReady Health = "not_ready" // it is there, and what stands behind it does not answer
	HealthStale    Health = "stale"     // no heartbeat for 15 s
	HealthGone     Health = "gone"      // none for 30 s, or none yet
)

// life is what is known of a satellite now; under Bus.mu.
type life struct {
	last    remote.Heartbeat // zero: none yet
	beats   allowance        // of heartbeats
	seen    time.Time        // when the last one that counted came
	mac     *remote.Key      // by which its heartbeats have MACs; nil: each is signed
	keying  keying
	was     Health // at the last look
	refused uint64 // heartbeats of its
	said    *said  // what it says of its tools; nil: not asked yet
	keyed   bool   // the last heartbeat had a MAC
	asking  bool
	asked   time.Time
	problem string // why its tools are not taken
	server  string // elsewhere, that has its connection
	client  uint64 // its connection there, or at the server in this process
	// lost is closed when the calls under way there are lost, and made anew.
	lost chan struct{}

	running   int    // calls that this gateway sent and that run
	turn      uint64 // when it came first in an order last
	fails     int    // in a row
	openUntil time.Time
}

// said is a manifest, shared by all satellites that say the same.
type said struct {
	hash     string
	manifest *tools.ToolManifest
	tools    map[capabilities.CapabilityID]words
}

// words are one tool of a manifest.
type words struct {
	upstream, hash string
}

// health says how it is at a time, and why, for people.
func (l *life) health(now time.Time) (Health, string) {
	switch age := now.Sub(l.seen); {
	case l.seen.IsZero():
		return HealthGone, "No heartbeat yet."
	case age > remote.Gone:
		return HealthGone, "No heartbeat for more than 30 seconds."
	case age > remote.Stale:
		return HealthStale, "No heartbeat for more than 15 seconds."
	case !l.last.Ready:
		return HealthNotReady, capabilities.Printable(l.last.Reason)
	}
	return HealthReady, ""
}

// beatsInARow is how many heartbeats one satellite may say at once, and one more each second: one
// that starts, connects and looks at what stands behind it says a few in a row. All that comes at
// its subject counts, before anything is decoded: one that floods costs the others nothing, and
// spends what is its own.
const beatsInARow = 4

// allowance is how much somebody may do: a number at once, and one more each second.
type allowance struct {
	used  float64
	until time.Time // used is as of then
}

// take takes one of most at a time, if there is one left.
func (a *allowance) take(now time.Time, most float64) bool {
	if d := now.Sub(a.until); d > 0 {
		a.used, a.until = max(a.used-d.Seconds(), 0), now
	}
	if a.used+1 > most {
		return false
	}
	a.used++
	return true
}

// drop has the calls that run there end as lost.
func (l *life) drop() {
	close(l.lost)
	l.lost = make(chan struct{})
}

// beat takes a heartbeat. One that is malformed, is not of the satellite it names, or came before,
// changes nothing but a count.
func (b *Bus) beat(m *nats.Msg) {
	id := remote.HeartbeatOf(m.Subject)
	if id == "" {
		return // another gateway's request
	}
	why := b.takeBeat(capabilities.NodeID(id), m.Subject, m.Data)
	if why != "" {
		b.mu.Lock()
		first := b.refused[why] == 0
		b.refused[why]++
		b.mu.Unlock()
		if first {
			b.opts.Log.Warn("satellite.heartbeat_refused", "why", why, "subject", capabilities.Clip(m.Subject, 100))
		}
	}
}

// Refused counts the heartbeats that were refused, by why.
func (b *Bus) Refused() map[string]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]uint64, len(b.refused))
	for k, n := range b.refused {
		all[k] = n
	}
	return all
}

// takeBeat returns why a heartbeat at the subject of a satellite is refused; "" for one that
// counts. The subject alone proves nothing: a server elsewhere is somebody else's.
func (b *Bus) takeBeat(id capabilities.NodeID, subject string, data []byte) string {
	now := b.opts.Now()
	b.mu.Lock()
	s := b.roster[id]
	if s == nil || s.state != route.StateApproved || subject != s.beatsAt {
		b.mu.Unlock()
		return "unknown"
	}
	mac, last := s.mac, s.last.Seq
	room := s.beats.take(now, beatsInARow)
	b.mu.Unlock()
	why, h, signed := "too_many", remote.Heartbeat{}, false
	if room {
		why, h, signed = s.reads(data, mac, last)
	}
	late := h.Time().Before(now.Add(-remote.Skew)) || h.Time().After(now.Add(remote.Skew))
	if why == "" && late {
		why = "clock"
	}
	b.mu.Lock()
	if why == "" && h.Seq <= s.last.Seq {
		why = "repeated"
	}
	if why != "" {
		s.refused++
		switch why {
		case "clock":
			s.problem = "Its clock and the gateway's are more than a minute apart."
		case "unkeyed", "forged":
			b.keyLocked(s, true, now) // it may have another key than we, after a restart
		}
		b.mu.Unlock()
		return why
	}
	if signed {
		b.keyLocked(s, false, now)
	}
	restarted := !s.seen.IsZero() && h.UptimeS < s.last.UptimeS
	before, had := s.was, s.said
	s.last, s.seen, s.keyed = h, now, !signed
	s.was, _ = s.health(now)
	if restarted {
		s.drop() // what ran there ended with it; it says what it knows
	}
	if had == nil || had.hash != h.Manifest {
		if known := b.manifests[h.Manifest]; known != nil && (had == nil || had.hash != h.Manifest) {
			s.said = known
		}
		// One question at a time, and no more than one each Period of one that does not answer.
		if !b.closed && !s.asking && now.Sub(s.asked) >= remote.Period {
			s.asking, s.asked = true, now
			b.works.Go(func() { b.fetch(s, h.Manifest) })
		}
	}
	if had == nil && s.said != nil || s.said != nil && s.said != had {
		before = ""
	}
	changed := before != s.was
	b.mu.Unlock()
	if changed {
		b.changed()
	}
	return ""
}

// reads reads a heartbeat of a satellite: whether a MAC or a signature is over it, and why it is
// none of its; last is the number of the last one.
func (r *record) reads(data []byte, mac *remote.Key, last uint64) (why string, h remote.Heartbeat, signed bool) {
	h, over, sig, err := remote.ReadHeartbeat(data)
	switch {
	case err != nil:
		return "malformed", h, false
	case h.Satellite != string(r.id) || h.Service != r.service:
		return "other", h, false
	case h.Seq <= last:
		return "repeated", h, false // or out of order
	case len(sig) != remote.MACSize:
		if verify(r.key, over, sig) != nil {
			return "forged", h, true
		}
		return "", h, true
	case mac == nil:
		return "unkeyed", h, false
	case !mac.Made(over, sig):
		return "forged", h, false
	}
	return "", h, false
}

// fetch asks a satellite what it says of its tools, until ctx ends.
func (b *Bus) fetch(s *satellite, hash string) {
	ctx, cancel := context.WithTimeout(b.running, 10*time.Second)
	defer cancel()
	m, err := b.ask(ctx, s)
	if err == nil && m.Hash() != hash {
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "its manifest is not the one that its heartbeat names")
	}
	if err == nil {
		err = b.takes(s, m)
	}
	b.mu.Lock()
	s.asking = false
	if err != nil {
		s.problem = capabilities.Clip(capabilities.AsError(err).PublicMessage(), 300)
	}
	b.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		b.opts.Log.Warn("satellite.manifest", "satellite", s.id, "service", s.service, "err", err)
	}
	b.changed()
}

// takes takes a manifest over and tells whoever keeps providers.
func (b *Bus) takes(s *satellite, m *tools.ToolManifest) error {
	if m.Provider != s.service {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "its manifest is of %.32q, not of %s", m.Provider, s.service)
	}
	if len(m.Tools) == 0 || len(m.Tools) > maxTools {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "a satellite has 1 to %d tools", maxTools)
	}
	one := b.keepManifest(s.service, m)
	b.mu.Lock()
	before := s.said
	s.said, s.problem = one, ""
	by := s.decidedBy
	b.mu.Unlock()
	if b.opts.Attached == nil {
		return nil
	}
	err := b.opts.Attached(b.running, s.id, by, m)
	if code := capabilities.CodeOf(err); code == capabilities.CodeOverloaded || code == capabilities.CodeLedgerUnavailable {
		b.mu.Lock() // a later heartbeat has it asked again
		s.said = before
		b.mu.Unlock()
	}
	return err
}

// maxTools is how many a satellite has at most.
const maxTools = 200

// keepManifest returns the one copy of a manifest. Those that nobody says any more are forgotten.
func (b *Bus) keepManifest(service string, m *tools.ToolManifest) *said {
	hash := m.Hash()
	p := tools.Provider{Name: service, Kind: tools.KindSatellite}
	list, _ := tools.Describe(&p, m)
	one := &said{hash: hash, manifest: m, tools: make(map[capabilities.CapabilityID]words, len(list))}
	for _, d := range list {
		one.tools[d.Capability] = words{d.Upstream, d.Hash}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.manifests[hash]; known != nil {
		return known
	}
	used := map[*said]bool{}
	for _, s := range b.roster {
		used[s.said] = true
	}
	for _, f := range b.far {
		used[f.said] = true
	}
	for h, o := range b.manifests {
		if !used[o] {
			delete(b.manifests, h)
		}
	}
	b.manifests[hash] = one
	return one
}

// watch looks every second who fell silent, until ctx ends.
func (b *Bus) watch(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			b.look(b.opts.Now())
			b.endAsks()
		}
	}
}

// look takes over how everybody is at a time.
func (b *Bus) look(now time.Time) {
	changed := false
	b.mu.Lock()
	for _, s := range b.roster {
		h, _ := s.health(now)
		if h == s.was || s.state != route.StateApproved {
			continue
		}
		if h == HealthGone && s.was != "" {
			s.drop()
		}
		s.was, changed = h, true
	}
	b.mu.Unlock()
	if changed {
		b.changed()
	}
}

// cut takes over that the connection to the bus is gone: nobody knows how anybody is.
func (b *Bus) cut(err error) {
	if b.running.Err() != nil {
		return
	}
	b.opts.Log.Warn("bus.cut", "err", err)
	b.mu.Lock()
	for _, s := range b.roster {
		s.seen, s.was = time.Time{}, HealthGone
		s.drop()
	}
	b.mu.Unlock()
	b.changed()
}
