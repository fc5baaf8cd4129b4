package front

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/gateway/principal"
)

const (
	// MaxConnections is how many connections are open at once where nothing else is said.
	MaxConnections = 4096
	minConnections = 64
	// addressShare is how many connections without a token one address has at most. On
	// loopback all programs of the machine are one address, so there it is all the room.
	addressShare = 128
	// strangerIdle is how long a connection without a token may say nothing.
	strangerIdle = 15 * time.Second
)

// room is a part of the connections. One that is full takes nothing from the others.
type room int

const (
	strangers room = iota // no request on it has shown a token or a session yet
	callers               // agents' tokens, and trusted proxies
	people                // everybody else's: those who stop and answer
	rooms
)

// connections is the listener of the server. It never refuses a connection: where there
// is no room left, it closes one instead, of the holder that has the most of that room,
// and of those one that nothing is under way on, the longest silent first. So connections
// in any number keep nobody out who comes and says at once what they want.
type connections struct {
	net.Listener
	most    [rooms]int
	share   int
	idle    time.Duration
	trusted func(netip.Addr) bool // proxies

	mu   sync.Mutex
	in   [rooms]*list.List  // of *connection, the longest silent first
	held [rooms]map[any]int // how many each holder has
	tidy *time.Timer        // closes strangers who say nothing; nil while there is none
}

// connection is one of them. Its class may change with each request on it.
type connection struct {
	net.Conn
	of   *connections
	once sync.Once

	// Guarded by of.mu.
	room   room
	holder any // netip.Prefix or capabilities.PrincipalID
	at     *list.Element
	spoke  time.Time
	busy   bool // a request is under way
}

// listen makes the room for most connections: a quarter for strangers, half for callers.
func listen(l net.Listener, most int, idle time.Duration, trusted func(netip.Addr) bool) *connections {
	c := &connections{Listener: l, most: [rooms]int{strangers: most / 4, callers: most / 2, people: most / 4}, idle: idle, trusted: trusted}
	c.share = min(addressShare, c.most[strangers])
	for r := range c.in {
		c.in[r], c.held[r] = list.New(), map[any]int{}
	}
	return c
}

// Accept takes a connection in, and another out if that is needed.
func (c *connections) Accept() (net.Conn, error) {
	raw, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return c.take(raw), nil
}

// otherDoor is a second listener of the server, whose connections have the same room.
type otherDoor struct {
	net.Listener
	of *connections
}

// Accept takes a connection in as the first listener does.
func (d otherDoor) Accept() (net.Conn, error) {
	raw, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return d.of.take(raw), nil
}

// take takes a connection in, and another out if that is needed.
func (c *connections) take(raw net.Conn) net.Conn {
	conn, share := &connection{Conn: raw, of: c, holder: clientKey(raw.RemoteAddr().String())}, c.share
	if from, err := netip.ParseAddrPort(raw.RemoteAddr().String()); err == nil {
		switch at := canonical(from.Addr()); {
		case c.trusted(at):
			conn.room, share = callers, c.most[callers] // it keeps them for those who come next
		case at.IsLoopback():
			conn.holder, share = netip.Prefix{}, c.most[strangers]
		}
	}
	c.mu.Lock()
	out := c.enterLocked(conn, share)
	c.mu.Unlock()
	if out != nil {
		_ = out.Close()
	}
	return conn
}

// enterLocked puts conn into its room, and returns the one that has to leave for it.
func (c *connections) enterLocked(conn *connection, share int) (out *connection) {
	r := conn.room
	switch {
	case c.held[r][conn.holder] >= share:
		out = c.longestSilentLocked(r, conn.holder)
	case c.in[r].Len() >= c.most[r]:
		out = c.longestSilentLocked(r, c.largestLocked(r))
	}
	if out != nil {
		c.leaveLocked(out)
	}
	conn.spoke = time.Now()
	conn.at = c.in[r].PushBack(conn)
	c.held[r][conn.holder]++
	if r == strangers && c.tidy == nil {
		c.tidy = time.AfterFunc(c.idle, c.closeSilent)
	}
	return out
}

func (c *connections) leaveLocked(conn *connection) {
	if conn.at == nil {
		return
	}
	c.in[conn.room].Remove(conn.at)
	conn.at = nil
	if c.held[conn.room][conn.holder]--; c.held[conn.room][conn.holder] == 0 {
		delete(c.held[conn.room], conn.holder)
	}
}

// largestLocked returns the holder of most connections of a room; of several, the one
// whose connection has been silent the longest.
func (c *connections) largestLocked(r room) any {
	most := 0
	for _, n := range c.held[r] {
		most = max(most, n)
	}
	for e := c.in[r].Front(); e != nil; e = e.Next() {
		if holder := e.Value.(*connection).holder; c.held[r][holder] == most {
			return holder
		}
	}
	return nil
}

func (c *connections) longestSilentLocked(r room, holder any) *connection {
	var busy *connection
	for e := c.in[r].Front(); e != nil; e = e.Next() {
		switch conn := e.Value.(*connection); {
		case conn.holder != holder:
		case !conn.busy || r == strangers: // a stranger's request may be one that never ends
			return conn
		case busy == nil:
			busy = conn
		}
	}
	return busy
}

// closeSilent closes the strangers who have said nothing for too long. Requests under way have
// deadlines of their own.
func (c *connections) closeSilent() {
	var out []*connection
	c.mu.Lock()
	now, next := time.Now(), time.Time{}
	for e := c.in[strangers].Front(); e != nil; e = e.Next() {
		conn := e.Value.(*connection)
		if until := conn.spoke.Add(c.idle); until.After(now) {
			next = until
			break
		}
		if conn.busy {
			next = now.Add(c.idle)
			continue
		}
		out = append(out, conn)
	}
	for _, conn := range out {
		c.leaveLocked(conn)
	}
	if c.tidy = nil; !next.IsZero() {
		c.tidy = time.AfterFunc(next.Sub(now), c.closeSilent)
	}
	c.mu.Unlock()
	for _, conn := range out {
		_ = conn.Close()
	}
}

// Close stops listening; connections that are open stay.
func (c *connections) Close() error {
	c.mu.Lock()
	if c.tidy != nil {
		c.tidy.Stop()
		c.tidy = nil
	}
	c.mu.Unlock()
	return c.Listener.Close()
}

// Read notes that something came.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.of.mu.Lock()
		c.spokeLocked()
		c.of.mu.Unlock()
	}
	return n, err
}

func (c *connection) spokeLocked() {
	if c.at != nil {
		c.spoke = time.Now()
		c.of.in[c.room].MoveToBack(c.at)
	}
}

// Close returns the room back.
func (c *connection) Close() error {
	c.once.Do(func() {
		c.of.mu.Lock()
		c.of.leaveLocked(c)
		c.of.mu.Unlock()
	})
	return c.Conn.Close()
}

// turned notes whether a request is under way.
func turned(conn net.Conn, state http.ConnState) {
	c := connectionOf(conn)
	if c == nil || state != http.StateActive && state != http.StateIdle {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.busy = state == http.StateActive
	c.spokeLocked()
}

func connectionOf(conn net.Conn) *connection {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	c, _ := conn.(*connection)
	return c
}

type connectionKey struct{}

func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if c := connectionOf(conn); c != nil {
		return context.WithValue(ctx, connectionKey{}, c)
	}
	return ctx
}

// known notes whose token or session came with r: its connection is no stranger's now.
// One that people use stays theirs, and a proxy's is everybody's.
func known(r *http.Request, who principal.Identity) {
	conn, _ := r.Context().Value(connectionKey{}).(*connection)
	if conn == nil {
		return
	}
	to := people
	if who.Role == principal.RoleAgent {
		to = callers
	}
	if out := conn.of.move(conn, to, who); out != nil {
		_ = out.Close()
	}
}

func (c *connections) move(conn *connection, to room, who principal.Identity) (out *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.at == nil || conn.room >= to {
		return nil
	}
	if _, proxy := conn.holder.(netip.Prefix); proxy && conn.room == callers {
		return nil
	}
	c.leaveLocked(conn)
	conn.room, conn.holder = to, who.Principal
	return c.enterLocked(conn, c.most[to])
}
