package bus

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
	"github.com/handrail-dev/handrail/gateway/route"
)

// serve starts the server in this process, with starting held.
func (b *Bus) serve() error {
	own, err := nkeys.CreateUser() // for the life of this process
	if err != nil {
		return err
	}
	if b.id, err = own.PublicKey(); err != nil {
		return err
	}
	b.own = own
	host, port, err := net.SplitHostPort(b.opts.Listen)
	if err != nil {
		return fmt.Errorf("the address of the bus: %w", err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("the port of the bus: %w", err)
	}
	if number == 0 {
		number = server.RANDOM_PORT
	}
	if host == "" {
		host = "0.0.0.0"
	}
	cert, sum, err := b.opts.Certificate()
	if err != nil {
		return err
	}
	b.sum = sum
	srv, err := server.NewServer(&server.Options{
		ServerName: "handrail", Host: host, Port: number, NoSigs: true, NoLog: true, NoSystemAccount: true,
		MaxPayload: remote.MaxPayload, MaxPending: 256 << 20, MaxControlLine: 1024, MaxConn: 2*maxSatellites + maxInvites + strangersRoom,
		MaxSubs: 64, MaxClosedClients: 64, AuthTimeout: strangerTime.Seconds(), TLSTimeout: strangerTime.Seconds(),
		PingInterval: 20 * time.Second, MaxPingsOut: 2, WriteDeadline: 10 * time.Second, AlwaysEnableNonce: true,
		CustomClientAuthentication: door{b}, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13},
	})
	if err != nil {
		return err
	}
	b.srv = srv
	strangers := &strangers{srv: srv, log: b.opts.Log, known: map[uint64]struct{}{}}
	b.strangers.Store(strangers)
	srv.Start()
	if !srv.ReadyForConnections(5 * time.Second) {
		return fmt.Errorf("nobody can connect at %s", b.opts.Listen)
	}
	b.works.Go(func() { strangers.run(b.running) })
	return nil
}

func (b *Bus) advertised() []string {
	b.starting.Lock()
	at := b.listening()
	b.starting.Unlock()
	if b.opts.URL != "" {
		return []string{hostOf(b.opts.URL)}
	}
	return b.opts.Advertise(at)
}

// door is who may connect to the server in this process, and what they may say and hear there.
type door struct{ b *Bus }

// Check lets in who proves a key that is known: the gateway itself, an approved satellite, or
// who holds a paste.
func (d door) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	sig, err := base64.RawURLEncoding.DecodeString(o.Sig)
	if err != nil {
		if sig, err = base64.StdEncoding.DecodeString(o.Sig); err != nil {
			return false
		}
	}
	if o.Nkey == "" || verify(o.Nkey, c.GetNonce(), sig) != nil {
		return false
	}
	p, ok := d.b.admit(o.Nkey)
	if !ok {
		return false
	}
	user := &server.User{Username: o.Nkey, ConnectionDeadline: p.until}
	if !p.all {
		user.Permissions = &server.Permissions{
			Publish: &server.SubjectPermission{Allow: p.publish}, Subscribe: &server.SubjectPermission{Allow: p.hear},
		}
	}
	c.RegisterUser(user)
	id := c.GetID()
	if s := d.b.strangers.Load(); s != nil {
		s.prove(id)
	}
	return p.all || d.b.work(func() {
		switch {
		case p.of != nil:
			d.b.entered(p.of, id)
		case p.worker != "":
			if before := d.b.askers.entered(p.worker, "", id); before != 0 && before != id {
				d.b.disconnect(before)
			}
		default:
			d.b.holds(p.by, id)
		}
	})
}

// work runs f as one of the works that Close waits for; false: the bus is closed, and nothing more
// begins.
func (b *Bus) work(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.works.Go(f)
	return true
}

// pass is what somebody may do on the bus.
type pass struct {
	all           bool // the gateway
	publish, hear []string
	until         time.Time // zero: as long as it lasts
	of            *satellite
	by            *invite // who holds a paste
	worker        string  // of another machine
}

// admit says what the holder of a key may do; false: nothing.
func (b *Bus) admit(key string) (pass, bool) {
	if key == b.id {
		return pass{all: true}, true
	}
	if p, ok := b.admitWorker(key); ok {
		return p, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.byKey[key]; s != nil {
		if s.state != route.StateApproved {
			return pass{}, false
		}
		id := string(s.id)
		return pass{
			publish: []string{remote.Heartbeats(s.service, id), remote.Inbox(id) + ".>"}, hear: []string{remote.Own(s.service, id)}, of: s,
		}, true
	}
	i := b.invites[key]
	if i == nil {
		return pass{}, false
	}
	now := b.opts.Now()
	until := i.expires
	if i.usedBy != "" { // whoever used it hears the decision by it
		s := b.roster[i.usedBy]
		if s == nil {
			return pass{}, false
		}
		until = s.joinedAt.Add(joinTime)
	}
	if !now.Before(until) {
		return pass{}, false
	}
	return pass{publish: []string{remote.Join(key)}, hear: []string{remote.Inbox(key) + ".>"}, until: until.Add(joinTime), by: i}, true
}

// admitWorker says what a worker may do that is let in: ask, and hear its own answers.
func (b *Bus) admitWorker(key string) (pass, bool) {
	raw, err := nkeys.Decode(nkeys.PrefixByteUser, []byte(key))
	if err != nil || b.opts.Worker == nil {
		return pass{}, false
	}
	id, ok := b.opts.Worker(b.running, raw)
	if !ok {
		return pass{}, false
	}
	return pass{publish: remote.AllAsks(id), hear: []string{remote.Inbox(id) + ".>"}, worker: id}, true
}

// entered takes over that a satellite connected. There is one connection of each: who comes later
// takes the place.
func (b *Bus) entered(s *satellite, client uint64) {
	b.mu.Lock()
	before := s.client
	s.client = client
	if before != 0 {
		s.drop() // what it answered in between went nowhere: it is asked
	}
	out := s.state != route.StateApproved // decided meanwhile
	b.mu.Unlock()
	if before != 0 && before != client {
		b.disconnect(before)
	}
	if out {
		b.disconnect(client)
	}
}

// holds takes over that who holds a paste connected: there is one connection of each paste, too.
func (b *Bus) holds(i *invite, client uint64) {
	b.mu.Lock()
	before := i.client
	i.client = client
	b.mu.Unlock()
	if before != 0 && before != client {
		b.disconnect(before)
	}
}

// kick ends the connection of a satellite.
func (b *Bus) kick(s *satellite) {
	b.mu.Lock()
	server, client := s.server, s.client
	b.mu.Unlock()
	if client == 0 {
		return
	}
	if b.opts.URL == "" {
		b.disconnect(client)
		return
	}
	if err := b.kickElsewhere(server, client); err != nil {
		b.opts.Log.Warn("bus.kick", "satellite", s.id, "err", err, "ends_within", passTime)
	}
}

func (b *Bus) disconnect(client uint64) {
	b.starting.Lock()
	srv := b.srv
	b.starting.Unlock()
	if srv != nil {
		_ = srv.DisconnectClientByID(client) // it may be gone
	}
}
