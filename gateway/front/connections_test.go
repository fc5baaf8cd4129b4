package front

import (
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/principal"
)

// arrivals is a listener whose connections come from whatever address a test says.
type arrivals struct{ next chan net.Conn }

func (a arrivals) Accept() (net.Conn, error) { return <-a.next, nil }
func (a arrivals) Close() error              { return nil }
func (a arrivals) Addr() net.Addr            { return nil }

// comer is the gateway's end of a connection; closed is told.
type comer struct {
	net.Conn
	from   string
	closed chan struct{}
}

func (c *comer) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.from))
}

func (c *comer) Close() error {
	close(c.closed)
	return c.Conn.Close()
}

func (c *comer) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

type crowd struct {
	t    *testing.T
	in   arrivals
	of   *connections
	all  []*comer
	ends []net.Conn
}

const roomFor = 1024

func gather(t *testing.T, idle time.Duration) *crowd {
	c := &crowd{t: t, in: arrivals{make(chan net.Conn, 1)}}
	proxy := netip.MustParseAddr("10.0.0.1")
	c.of = listen(c.in, roomFor, idle, func(a netip.Addr) bool { return a == proxy })
	t.Cleanup(func() {
		_ = c.of.Close()
		for _, end := range c.ends {
			_ = end.Close()
		}
	})
	return c
}

// comes takes one more in.
func (c *crowd) comes(from string) (*connection, *comer) {
	c.t.Helper()
	end, ours := net.Pipe()
	at := &comer{Conn: ours, from: from, closed: make(chan struct{})}
	c.in.next <- at
	got, err := c.of.Accept()
	if err != nil {
		c.t.Fatal(err)
	}
	c.all, c.ends = append(c.all, at), append(c.ends, end)
	return got.(*connection), at
}

func shown(conn *connection, who principal.Identity) {
	known((&http.Request{}).WithContext(withConnection((&http.Request{}).Context(), conn)), who)
}

func open(of []*comer) (n int) {
	for _, c := range of {
		if !c.isClosed() {
			n++
		}
	}
	return n
}

// One address has its share, and its own connections make room for its next ones; on
// loopback the share is all the room, whichever of its addresses a program uses.
func TestAnAddressHasItsShare(t *testing.T) {
	for name, at := range map[string]struct {
		from func(i int) string
		most int
	}{
		"IPv4":            {func(int) string { return "192.0.2.7:1000" }, addressShare},
		"IPv4 in IPv6":    {func(i int) string { return []string{"192.0.2.7:1000", "[::ffff:192.0.2.7]:1000"}[i%2] }, addressShare},
		"one IPv6 /64":    {func(i int) string { return []string{"[2001:db8::1]:1", "[2001:db8::ffff:1]:1"}[i%2] }, addressShare},
		"loopback":        {func(i int) string { return []string{"127.0.0.1:1", "127.0.0.9:1", "[::1]:1"}[i%3] }, roomFor / 4},
		"a trusted proxy": {func(int) string { return "10.0.0.1:1" }, roomFor / 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := gather(t, time.Hour)
			_, other := c.comes("198.51.100.1:1")
			for i := range at.most + 50 {
				c.comes(at.from(i))
			}
			if n := open(c.all[1:]); n < at.most-1 || n > at.most { // the other one has a place of the room
				t.Errorf("%d connections are open, not %d", n, at.most)
			}
			if open(c.all[1:50]) > 0 || open(c.all[len(c.all)-50:]) < 50 {
				t.Error("a newer one was closed for an older one")
			}
			if other.isClosed() {
				t.Error("somebody of another address was closed")
			}
		})
	}
}

// Where all the room is taken the address that has most of it makes room, not everybody.
func TestAFullRoomIsMadeByWhoeverHasMost(t *testing.T) {
	c := gather(t, time.Hour)
	_, quiet := c.comes("198.51.100.1:1")
	for i := range roomFor / 4 {
		c.comes([]string{"192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"}[i%3])
	}
	if quiet.isClosed() {
		t.Error("an address with one connection made room for those with many")
	}
	if n := open(c.all); n != roomFor/4 {
		t.Errorf("%d are open", n)
	}
}

// The connection that has spoken last stays; a token takes its holder out of the strangers' room
// for good.
func TestATokenTakesAConnectionOutOfTheCrowd(t *testing.T) {
	c := gather(t, time.Hour)
	person, one := c.comes("127.0.0.1:1")
	agent, two := c.comes("127.0.0.1:1")
	talker, three := c.comes("127.0.0.1:1")
	shown(person, principal.Identity{Principal: "anna", Role: principal.RoleOperator})
	shown(agent, principal.Identity{Principal: "bot", Role: principal.RoleAgent})
	said := make(chan error, 1)
	for range roomFor {
		c.comes("127.0.0.1:1")
		go func() { _, err := c.ends[2].Write([]byte("x")); said <- err }()
		if _, err := talker.Read(make([]byte, 1)); err != nil || <-said != nil {
			t.Fatal("the one that talks was closed")
		}
	}
	if one.isClosed() || two.isClosed() || three.isClosed() {
		t.Error("strangers pushed a token's connection out")
	}
	// An agent with any number of connections takes none of a person's, nor of another agent's.
	other, four := c.comes("127.0.0.1:1")
	shown(other, principal.Identity{Principal: "other", Role: principal.RoleAgent})
	for range roomFor {
		conn, _ := c.comes("127.0.0.1:1")
		shown(conn, principal.Identity{Principal: "bot", Role: principal.RoleAgent})
	}
	if one.isClosed() || four.isClosed() {
		t.Error("an agent pushed others out")
	}
	if !two.isClosed() {
		t.Error("the agent's own oldest connection did not make room")
	}
	if err := person.Close(); err != nil {
		t.Fatal(err)
	}
	if n := c.of.in[people].Len() + len(c.of.held[people]); n != 0 {
		t.Errorf("%d places stay taken", n)
	}
}

// Connections with a request under way go last, for those who showed a token.
func TestWhatIsUnderWayGoesLast(t *testing.T) {
	c := gather(t, time.Hour)
	bot := principal.Identity{Principal: "bot", Role: principal.RoleAgent}
	busy, one := c.comes("127.0.0.1:1")
	shown(busy, bot)
	turned(busy, http.StateActive)
	for range roomFor/2 + 5 {
		conn, _ := c.comes("127.0.0.1:1")
		shown(conn, bot)
		turned(conn, http.StateActive)
		turned(conn, http.StateIdle)
	}
	if one.isClosed() {
		t.Error("a connection with a call under way was closed for an idle one")
	}
}

// Strangers who say nothing are shown out early; a token's connection is not.
func TestSilentStrangersAreShownOut(t *testing.T) {
	c := gather(t, 20*time.Millisecond)
	person, one := c.comes("127.0.0.1:1")
	shown(person, principal.Identity{Principal: "anna", Role: principal.RoleOperator})
	for range 3 { // again after the crowd was gone
		_, silent := c.comes("192.0.2.1:1")
		select {
		case <-silent.closed:
		case <-time.After(10 * time.Second):
			t.Fatal("a silent stranger stays")
		}
	}
	if one.isClosed() {
		t.Error("a token's connection was closed as a stranger's")
	}
}
