package bus

import (
	"bytes"
	"context"
	"slices"
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
	beats   allowance        // of heartbeats that count
	spared  time.Time        // when one that names it was last read although its service was crowded
	seen    time.Time        // when that came
	was     Health           // at the last look
	refused uint64           // heartbeats of its
	said    *said            // what it says of its tools; nil: not asked yet
	asking  bool
	asked   time.Time
	problem string // why its tools are not taken
	client  uint64 // of the server in this process
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

// Bounds of heartbeats. A few in a row are said by one that starts, connects and looks at what
// stands behind it.
const (
	beatsInARow  = 4 // of one satellite; then one each second
	beatsOfOther = 4 // of a service each second, beside those of its satellites
)

// allowance is how much somebody may do: a number at once, and one more each second.
type allowance struct {
	used  float64
	until time.Time // used is as of then
}

// left reports whether there is one of most left at a time.
func (a *allowance) left(now time.Time, most float64) bool {
	if d := now.Sub(a.until); d > 0 {
		a.used, a.until = max(a.used-d.Seconds(), 0), now
	}
	return a.used+1 <= most
}

// share is what was heard at the subject of a service within a second: all of its satellites
// publish there, and which of them did only a signature says.
type share struct {
	since time.Time
	left  int
	due   []*satellite // of whom one more is read
}

// crowded reports whether a message at the subject of a service is more than its satellites have to
// say. It is asked before anything is decoded, so that one that floods costs the others nothing.
// A message that names a satellite is read all the same, once each Period for each: one that floods
// silences no other of its service.
func (b *Bus) crowded(subject string, data []byte) bool {
	now := b.opts.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shares[subject]
	if s == nil || now.Sub(s.since) >= time.Second || now.Before(s.since) {
		in := 0
		s = &share{since: now}
		for _, o := range b.roster {
			if o.state != route.StateApproved || subject != remote.Heartbeats(o.service) {
				continue
			}
			in++
			if d := now.Sub(o.spared); d < 0 || d >= remote.Period {
				s.due = append(s.due, o)
			}
		}
		if in == 0 {
			delete(b.shares, subject)
			return false // nobody of ours: it is refused as unknown
		}
		s.left = beatsOfOther + beatsInARow*in
		b.shares[subject] = s
	}
	s.left--
	if s.left >= 0 {
		return false
	}
	if len(data) > remote.MaxHeartbeat {
		return true
	}
	for i, o := range s.due {
		if bytes.Contains(data, []byte(o.id)) {
			o.spared = now
			s.due = slices.Delete(s.due, i, i+1)
			return false
		}
	}
	return true
}

// drop has the calls that run there end as lost.
func (l *life) drop() {
	close(l.lost)
	l.lost = make(chan struct{})
}

// beat takes a heartbeat. One that is malformed, is not signed by the satellite it names, or came
// before, changes nothing but a count.
func (b *Bus) beat(m *nats.Msg) {
	if !remote.IsHeartbeat(m.Subject) {
		return // another gateway's request
	}
	why := "too_many"
	if !b.crowded(m.Subject, m.Data) {
		why = b.takeBeat(m.Subject, m.Data)
	}
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

// takeBeat returns why a heartbeat is refused; "" for one that counts.
func (b *Bus) takeBeat(subject string, data []byte) string {
	h, signed, sig, err := remote.ReadHeartbeat(data)
	if err != nil {
		return "malformed"
	}
	b.mu.Lock()
	s := b.roster[capabilities.NodeID(h.Satellite)]
	if s == nil || s.state != route.StateApproved {
		b.mu.Unlock()
		return "unknown"
	}
	key, service, last := s.key, s.service, s.last.Seq
	now := b.opts.Now()
	often := !s.beats.left(now, beatsInARow)
	b.mu.Unlock()
	why := ""
	switch {
	case h.Service != service || subject != remote.Heartbeats(service):
		why = "other_service"
	case h.Seq <= last:
		why = "repeated" // or out of order
	case h.Time().Before(now.Add(-remote.Skew)) || h.Time().After(now.Add(remote.Skew)):
		why = "clock"
	case often:
		why = "too_often"
	case verify(key, signed, sig) != nil:
		why = "forged"
	}
	b.mu.Lock()
	if why == "" && h.Seq <= s.last.Seq {
		why = "repeated"
	}
	if why != "" {
		if why != "forged" { // whose it is, is not known then
			s.refused++
		}
		if why == "clock" {
			s.problem = "Its clock and the gateway's are more than a minute apart."
		}
		b.mu.Unlock()
		return why
	}
	restarted := !s.seen.IsZero() && h.UptimeS < s.last.UptimeS
	before, had := s.was, s.said
	s.last, s.seen = h, now
	s.beats.used++
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
	s.said, s.problem = one, ""
	by := s.decidedBy
	b.mu.Unlock()
	if b.opts.Attached == nil {
		return nil
	}
	return b.opts.Attached(b.running, s.id, by, m)
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
