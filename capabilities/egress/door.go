package egress

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Door is one program's only way to the network: a proxy on a loopback port for requests
// (plain HTTP and CONNECT), and for connections that the program made to an address. It serves
// connections that were announced by Expect and drops all others: what was named for this
// program is for no other one of the machine.
type Door struct {
	way       *Way
	listener  net.Listener
	addr      netip.AddrPort
	server    *http.Server
	transport *http.Transport
	requests  *queue // connections that speak to the proxy
	served    sync.WaitGroup
	left      atomic.Int64 // bytes that may still pass
	stop      context.CancelFunc
	//lint:ignore containedctx the life of the door
	stopped context.Context

	mu       sync.Mutex
	closed   bool
	expected map[netip.AddrPort]expectation // by the program's own end
	arrived  map[netip.AddrPort]chan netip.AddrPort
	conns    map[net.Conn]bool
	waiting  int // connections that nobody announced yet
}

type expectation struct {
	to netip.AddrPort
	at time.Time
}

// Bounds of a Door.
const (
	maxDoorConns  = 128     // open at once, both ends counted
	maxWaiting    = 64      // that nobody announced yet
	maxExpected   = 1024    // announced, and not there yet
	maxDoorBytes  = 4 << 30 // in both directions together, in the life of a program
	expectTime    = 5 * time.Second
	doorIdle      = 10 * time.Minute // of a tunnel in which nothing moves
	doorHeaderMax = 64 << 10
)

// Nowhere reports whether its way leads nowhere.
func (d *Door) Nowhere() bool { return d.way.Empty() }

// Open opens a door for one program; the caller closes it when the program has ended.
func (w *Way) Open() (*Door, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &Door{
		way: w, listener: listener, addr: listener.Addr().(*net.TCPAddr).AddrPort(), requests: newQueue(listener.Addr()),
		expected: map[netip.AddrPort]expectation{}, arrived: map[netip.AddrPort]chan netip.AddrPort{}, conns: map[net.Conn]bool{},
	}
	d.left.Store(maxDoorBytes)
	d.stopped, d.stop = context.WithCancel(context.Background())
	d.transport = &http.Transport{
		DialContext: d.dial, DisableCompression: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second,
		ResponseHeaderTimeout: 5 * time.Minute, MaxResponseHeaderBytes: doorHeaderMax,
	}
	d.server = &http.Server{
		Handler: http.HandlerFunc(d.serve), ReadHeaderTimeout: 30 * time.Second, IdleTimeout: doorIdle, MaxHeaderBytes: doorHeaderMax,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return d.stopped },
	}
	d.served.Go(func() { _ = d.server.Serve(d.requests) })
	d.served.Go(d.accept)
	w.serve(d, true)
	return d, nil
}

// Addr is where the program finds it, on loopback.
func (d *Door) Addr() netip.AddrPort { return d.addr }

// Direct are the addresses to which a program that takes no proxy is let, too: those that were
// named with their ports, and those of Names.
func (d *Door) Direct() []netip.AddrPort {
	var all []netip.AddrPort
	for i, h := range d.way.hosts {
		addr, err := netip.ParseAddr(h.name)
		switch own := h.own(i); {
		case h.name == "localhost":
			addr, err = netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
		case own.IsValid() && h.port == "":
			all = append(all, netip.AddrPortFrom(own, 80), netip.AddrPortFrom(own, 443))
			continue
		case own.IsValid():
			addr, err = own, nil
		}
		port, _ := strconv.ParseUint(h.port, 10, 16)
		if err == nil && addr.Is4() && port > 0 && !h.wild {
			all = append(all, netip.AddrPortFrom(addr, uint16(port)))
		}
	}
	return all
}

// Names are the hosts that were named, each with an address that is nobody's: a program that takes
// no proxy and finds it for the name connects there, and is led to the host.
func (d *Door) Names() map[string]netip.Addr {
	all := map[string]netip.Addr{}
	for i, h := range d.way.hosts {
		if own := h.own(i); own.IsValid() {
			all[h.name] = own
		}
	}
	return all
}

// own is the address that stands for the host of that number behind doors: one of those that are
// for measurements and belong to no host (RFC 2544). Invalid: it needs none.
func (h namedHost) own(number int) netip.Addr {
	if _, err := netip.ParseAddr(h.name); err == nil || h.wild || h.name == "localhost" || number >= 1<<16-1 {
		return netip.Addr{}
	}
	number++
	return netip.AddrFrom4([4]byte{198, 18, byte(number >> 8), byte(number)})
}

// target is where a connection to an address is meant to go.
func (d *Door) target(to netip.AddrPort) (host, port string) {
	host, port = to.Addr().String(), strconv.Itoa(int(to.Port()))
	if _, named := d.way.named(host, port); named {
		return host, port
	}
	for i, h := range d.way.hosts {
		if h.own(i) == to.Addr() {
			return h.name, port
		}
	}
	return host, port
}

// Tried records that the program tried to connect to an address without the proxy.
func (d *Door) Tried(to netip.AddrPort) {
	host, port := d.target(to)
	if d.way.Check(host, port) == nil {
		_ = d.way.refuse(host, port, "the program goes round its proxy")
	}
}

// Expect announces a connection of the program's, by its own end, before it is made; to is what
// the program wanted to connect to: the door itself, or an address.
func (d *Door) Expect(from, to netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	if there := d.arrived[from]; there != nil {
		delete(d.arrived, from)
		there <- to // it has room for one
		return
	}
	if len(d.expected) >= maxExpected {
		for at, e := range d.expected {
			if time.Since(e.at) > expectTime {
				delete(d.expected, at)
			}
		}
	}
	if len(d.expected) < maxExpected {
		d.expected[from] = expectation{to, time.Now()}
	}
}

// wanted waits until a connection was announced.
func (d *Door) wanted(from netip.AddrPort) (to netip.AddrPort, ok bool) {
	d.mu.Lock()
	if e, known := d.expected[from]; known {
		delete(d.expected, from)
		d.mu.Unlock()
		return e.to, time.Since(e.at) < expectTime
	}
	if d.closed || d.waiting >= maxWaiting {
		d.mu.Unlock()
		return to, false
	}
	there := make(chan netip.AddrPort, 1)
	d.arrived[from] = there
	d.waiting++
	d.mu.Unlock()
	timer := time.NewTimer(expectTime)
	defer timer.Stop()
	select {
	case to, ok = <-there:
	case <-timer.C:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting--; d.arrived[from] == there {
		delete(d.arrived, from)
	}
	return to, ok
}

func (d *Door) accept() {
	for {
		c, err := d.listener.Accept()
		if err != nil {
			return
		}
		if !d.track(c) {
			_ = c.Close()
			continue
		}
		d.served.Go(func() { d.admit(c) })
	}
}

// admit hands an announced connection on.
func (d *Door) admit(c net.Conn) {
	from, err := netip.ParseAddrPort(c.RemoteAddr().String())
	to, ok := d.wanted(from)
	counted := &countedConn{Conn: c, door: d}
	switch {
	case err != nil || !ok:
		_ = counted.Close()
	case to == d.addr:
		d.requests.put(counted)
	default: // a program that takes no proxy: the same rules
		target := net.JoinHostPort(d.target(to))
		out, err := d.dial(d.stopped, "tcp", target)
		if err != nil {
			_ = counted.Close()
			return
		}
		d.join(target, counted, counted, out)
	}
}

// dial connects within the door's bounds. The time that a person takes to answer is beside them.
func (d *Door) dial(ctx context.Context, network, target string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "")
	}
	if err := d.way.Admits(ctx, host, port, nil); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := d.way.Dial(ctx, network, target)
	if err != nil {
		return nil, err
	}
	if !d.track(out) {
		_ = out.Close()
		return nil, errBusy
	}
	return &countedConn{Conn: out, door: d}, nil
}

var errBusy = errors.New("too many connections")

func (d *Door) track(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || len(d.conns) >= maxDoorConns {
		return false
	}
	d.conns[c] = true
	return true
}

// serve handles one request of the program.
func (d *Door) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		d.tunnel(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		d.forward(w, r)
	default:
		http.Error(w, "this is the egress proxy of a program", http.StatusBadRequest)
	}
}

// refused answers a program that asked for what it may not reach, or for what does not answer.
func refused(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if errors.Is(err, &capabilities.Error{Code: capabilities.CodeURLBlocked}) {
		status = http.StatusForbidden
	}
	e := capabilities.AsError(err)
	http.Error(w, "handrail: "+e.PublicMessage()+" "+e.PublicHint(), status)
}

func (d *Door) forward(w http.ResponseWriter, r *http.Request) {
	out := r.Clone(r.Context())
	out.RequestURI = ""
	for _, name := range hopHeaders {
		out.Header.Del(name)
	}
	// Connections are used again, so the host is looked at for each request.
	err := d.way.Admits(r.Context(), r.URL.Hostname(), portOf(r.URL), nil)
	var res *http.Response
	if err == nil {
		res, err = d.transport.RoundTrip(out)
	}
	if err != nil {
		refused(w, err)
		return
	}
	relay(w, res)
}

func (d *Door) tunnel(w http.ResponseWriter, r *http.Request) {
	out, err := d.dial(r.Context(), "tcp", r.Host)
	if err != nil {
		refused(w, err)
		return
	}
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = out.Close()
		return
	}
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = in.Close()
		_ = out.Close()
		return
	}
	d.join(r.Host, in, bufferedFirst(buffered.Reader, in), out)
}

// join passes both directions of a tunnel to target until both have ended, and closes it.
func (d *Door) join(target string, in net.Conn, from io.Reader, out net.Conn) {
	defer in.Close()
	defer out.Close()
	for _, c := range []net.Conn{in, out} {
		if c, ok := c.(*countedConn); ok {
			_ = c.SetDeadline(time.Time{})
			c.tunnel.Store(true)
		}
	}
	host, port, _ := net.SplitHostPort(target) // it was dialled
	first := newBound(host, from, func(name string) error {
		err := d.way.refuse(cmp.Or(name, host), port, otherName(target, name))
		_ = out.Close() // and so both directions end, once that is on record
		return err
	})
	var both sync.WaitGroup
	both.Go(func() { pass(out, first) })
	both.Go(func() { pass(in, out) })
	both.Wait()
}

// countedConn is one end of a connection through a door: what passes is counted, and one in
// which nothing moves ends.
type countedConn struct {
	net.Conn
	door   *Door
	tunnel atomic.Bool // nobody else sets its deadlines
	once   sync.Once
}

func (c *countedConn) Read(p []byte) (int, error) {
	if c.door.left.Load() <= 0 {
		return 0, errTooLong
	}
	if c.tunnel.Load() {
		_ = c.Conn.SetReadDeadline(time.Now().Add(doorIdle))
	}
	n, err := c.Conn.Read(p)
	c.door.left.Add(-int64(n))
	return n, err
}

// CloseWrite ends one direction.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.door.mu.Lock()
		delete(c.door.conns, c.Conn)
		c.door.mu.Unlock()
	})
	return c.Conn.Close()
}

// cut ends every connection.
func (d *Door) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		_ = c.Close()
	}
}

// Close ends the door and every connection through it. Idempotent.
func (d *Door) Close() error {
	d.mu.Lock()
	closed := d.closed
	d.closed = true
	for from, there := range d.arrived {
		delete(d.arrived, from)
		close(there)
	}
	d.mu.Unlock()
	if closed {
		return nil
	}
	d.way.serve(d, false)
	d.stop()
	_ = d.listener.Close()
	d.requests.Close()
	_ = d.server.Close()
	d.cut()
	d.transport.CloseIdleConnections()
	d.served.Wait()
	return nil
}

// queue is a listener whose connections are put into it.
type queue struct {
	addr net.Addr
	in   chan net.Conn
	over chan struct{}
	once sync.Once
}

func newQueue(addr net.Addr) *queue {
	return &queue{addr: addr, in: make(chan net.Conn), over: make(chan struct{})}
}

func (q *queue) put(c net.Conn) {
	select {
	case q.in <- c:
	case <-q.over:
		_ = c.Close()
	}
}

// Accept returns the next connection.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.in:
		return c, nil
	case <-q.over:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. Idempotent.
func (q *queue) Close() error {
	q.once.Do(func() { close(q.over) })
	return nil
}

// Addr is where the connections came in.
func (q *queue) Addr() net.Addr { return q.addr }
