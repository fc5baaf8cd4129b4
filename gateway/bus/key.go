package bus

import (
	"context"
	"errors"
	"time"

	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
)

// keying is how the agreement on a key with a satellite stands; under Bus.mu.
type keying struct {
	asking bool
	asked  time.Time
	signs  time.Time // until then it is not asked again: it signs each heartbeat
}

// signsFor is how long one that knows no keys is left to sign.
const signsFor = 10 * time.Minute

// keyLocked asks a satellite for a key, once each Period at most: it signed although there is one
// to be had, or lost says that its MAC is of none that we know.
func (b *Bus) keyLocked(s *satellite, lost bool, now time.Time) {
	k := &s.keying
	if b.closed || k.asking || now.Sub(k.asked) < remote.Period || now.Before(k.signs) && !lost {
		return
	}
	k.asking, k.asked = true, now
	b.works.Go(func() { b.key(s) })
}

// key agrees on a key with a satellite. Without one its heartbeats count as long as it signs them.
func (b *Bus) key(s *satellite) {
	ctx, cancel := context.WithTimeout(b.running, 10*time.Second)
	defer cancel()
	mac, signs, err := b.agree(ctx, s)
	b.mu.Lock()
	s.keying.asking = false
	if mac != nil {
		s.mac = mac
	}
	if signs || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		s.keying.signs = b.opts.Now().Add(signsFor)
	}
	b.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		b.opts.Log.Warn("satellite.key", "satellite", s.id, "service", s.service, "err", err)
	}
}

// agree returns the key; signs: the satellite knows none.
func (b *Bus) agree(ctx context.Context, s *satellite) (_ *remote.Key, signs bool, err error) {
	a, err := remote.NewAgreement(string(s.id))
	if err != nil {
		return nil, false, err
	}
	r, err := b.once(ctx, s, a.Request())
	if err != nil || r.Key == nil {
		return nil, err == nil, err
	}
	mac, err := a.Take(*r.Key, func(data, sig []byte) error { return verify(s.record.key, data, sig) })
	return mac, false, err
}

// once sends a request that has one reply.
func (b *Bus) once(ctx context.Context, s *satellite, q remote.Request) (remote.Reply, error) {
	x, end, err := b.send(s, q)
	if err != nil {
		return remote.Reply{}, err
	}
	defer end()
	data, err := x.next(ctx, nil)
	if err != nil {
		return remote.Reply{}, err
	}
	return remote.ReadReply(data)
}
