package bus

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Bounds of strangers: connections at the server in this process that have not proved a key. It
// counts all connections alike, so whoever opens many of them would keep satellites out.
const (
	maxStrangers   = 256             // in all
	strangersOfOne = 64              // of one address, or of one /64 of IPv6; on this machine all
	strangerTime   = 3 * time.Second // for TLS, and again for the proof of a key
	// strangersRoom is how many connections may come from one look at them to the next.
	strangersRoom = 4096
	strangersLook = 100 * time.Millisecond
)

// strangers sends those away who are too many: the oldest ones of the address that has the most.
// A connection that proves a key at once is never among them. A look costs nothing unless more are
// connected than proved a key.
//
// All methods are safe for concurrent use.
type strangers struct {
	srv *server.Server
	log *slog.Logger

	mu    sync.Mutex
	known map[uint64]struct{} // connections that proved a key; some may have ended since the last look
	away  uint64              // how many were sent away
}

// prove takes over that somebody on a connection proved a key.
func (s *strangers) prove(client uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[client] = struct{}{}
}

// run looks until ctx ends.
func (s *strangers) run(ctx context.Context) {
	tick := time.NewTicker(strangersLook)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.mu.Lock()
			known := len(s.known)
			s.mu.Unlock()
			// Connections that ended are still counted as known: so it looks now and then.
			if s.srv.NumClients() > known+strangersOfOne || n%100 == 0 {
				s.look()
			}
		}
	}
}

// stranger is one connection without a key.
type stranger struct {
	client uint64
	from   netip.Prefix
}

// look sends those away who are too many now.
func (s *strangers) look() {
	all, err := s.srv.Connz(&server.ConnzOptions{Limit: 1 << 20}) // the oldest first
	if err != nil {
		s.log.Error("bus.strangers", "err", err)
		return
	}
	s.mu.Lock()
	here := make(map[uint64]struct{}, len(s.known))
	var list []stranger
	for _, c := range all.Conns {
		if _, ok := s.known[c.Cid]; ok {
			here[c.Cid] = struct{}{}
		} else {
			list = append(list, stranger{c.Cid, holderOf(c.IP)})
		}
	}
	last := uint64(0)
	if n := len(all.Conns); n > 0 {
		last = all.Conns[n-1].Cid
	}
	for c := range s.known { // those who came since the list was made
		if c > last {
			here[c] = struct{}{}
		}
	}
	s.known = here
	s.mu.Unlock()
	for _, c := range tooMany(list) {
		s.mu.Lock()
		_, known := s.known[c.client] // meanwhile
		if !known {
			s.away++
			if s.away&(s.away-1) == 0 { // 1, 2, 4, 8 …
				s.log.Warn("bus.strangers", "sent_away", s.away, "from", c.from)
			}
		}
		s.mu.Unlock()
		if !known {
			_ = s.srv.DisconnectClientByID(c.client) // it may be gone
		}
	}
}

// tooMany returns those of a list, the oldest first, who have to leave so that no address has more
// than its share and all together are no more than there may be.
func tooMany(list []stranger) (out []stranger) {
	held := map[netip.Prefix]int{}
	for _, c := range list {
		held[c.from]++
	}
	// Of whoever has the most so many leave that the rest is even.
	share, left := strangersOfOne, 0
	for ; share > 1; share-- {
		left = 0
		for from, n := range held {
			left += min(n, shareOf(from, share))
		}
		if left <= maxStrangers {
			break
		}
	}
	for _, c := range list {
		if held[c.from] > shareOf(c.from, share) {
			held[c.from]--
			out = append(out, c)
		}
	}
	return out
}

// shareOf is the share of one: programs of this machine are one address, and have several.
func shareOf(from netip.Prefix, share int) int {
	if from == (netip.Prefix{}) {
		return share * (maxStrangers / strangersOfOne)
	}
	return share
}

// holderOf is whose a connection is, as far as anybody can tell; the zero value stands for this
// machine.
func holderOf(ip string) netip.Prefix {
	at, err := netip.ParseAddr(ip)
	if err != nil {
		return netip.Prefix{}
	}
	at = at.Unmap().WithZone("")
	bits := at.BitLen()
	if at.Is6() {
		bits = 64
	}
	p, err := at.Prefix(bits)
	if err != nil || at.IsLoopback() {
		return netip.Prefix{}
	}
	return p
}
