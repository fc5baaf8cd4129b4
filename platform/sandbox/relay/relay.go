package relay

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
)

// Serve serves the pipe's side of a program until the pipe ends. It says its port first, in two
// bytes.
func Serve(pipe net.Conn) error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := pipe.Write(binary.BigEndian.AppendUint16(nil, uint16(l.Addr().(*net.TCPAddr).Port))); err != nil {
		return err
	}
	over := &watched{Conn: pipe, ended: make(chan struct{})}
	given := make(chan net.Conn, 1)
	given <- over
	t := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	t.DialContext = func(context.Context, string, string) (net.Conn, error) {
		select {
		case c := <-given:
			return c, nil
		default:
			return nil, net.ErrClosed // there is one pipe
		}
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	defer t.CloseIdleConnections()
	go func() {
		<-over.ended
		_ = l.Close()
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return nil // the pipe has ended
		}
		go func() {
			defer c.Close()
			r, err := http.NewRequest(http.MethodPost, "http://door/", io.NopCloser(c))
			if err != nil {
				return
			}
			answer, err := t.RoundTrip(r)
			if err != nil {
				return
			}
			defer answer.Body.Close()
			_, _ = io.Copy(c, answer.Body)
			_ = c.Close() // the stream waits for what it reads
		}()
	}
}

// watched says when a connection has ended.
type watched struct {
	net.Conn
	once  sync.Once
	ended chan struct{}
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil {
		w.once.Do(func() { close(w.ended) })
	}
	return n, err
}

func (w *watched) Close() error {
	w.once.Do(func() { close(w.ended) })
	return w.Conn.Close()
}

// Carry serves the runner's side: it returns the relay's address, and carries each of its
// connections to the door until the pipe ends. announce hears of a connection before it is made.
func Carry(pipe net.Conn, door netip.AddrPort, announce func(from uint16, to netip.AddrPort) error) (netip.AddrPort, error) {
	var port [2]byte
	if _, err := io.ReadFull(pipe, port[:]); err != nil {
		return netip.AddrPort{}, err
	}
	s := &http.Server{Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := toDoor(r.Context(), door, announce)
		if err != nil {
			http.Error(w, "the door is shut", http.StatusBadGateway)
			return
		}
		defer c.Close()
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		go func() {
			_, _ = io.Copy(c, r.Body)
			_ = c.CloseWrite()
		}()
		_, _ = io.Copy(flushed{w}, c)
	})
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(&single{conn: pipe, ended: make(chan struct{})}) }()
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), binary.BigEndian.Uint16(port[:])), nil
}

// toDoor makes a connection to the door, from a port that was announced.
func toDoor(ctx context.Context, door netip.AddrPort, announce func(from uint16, to netip.AddrPort) error) (*net.TCPConn, error) {
	var all error
	for range 5 { // another program may take the port meanwhile
		free, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		from := free.Addr().(*net.TCPAddr)
		_ = free.Close()
		if err := announce(uint16(from.Port), door); err != nil {
			return nil, err
		}
		c, err := (&net.Dialer{LocalAddr: from}).DialContext(ctx, "tcp4", door.String())
		if err == nil {
			return c.(*net.TCPConn), nil
		}
		all = errors.Join(all, err)
	}
	return nil, all
}

// flushed sends each piece on as it comes.
type flushed struct{ w http.ResponseWriter }

func (f flushed) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil {
		err = http.NewResponseController(f.w).Flush()
	}
	return n, err
}

// single is a listener of one connection.
type single struct {
	conn  net.Conn
	taken bool
	ended chan struct{}
}

func (s *single) Accept() (net.Conn, error) {
	if s.taken {
		<-s.ended
		return nil, net.ErrClosed
	}
	s.taken = true
	return &watched{Conn: s.conn, ended: s.ended}, nil
}

func (s *single) Close() error   { return nil }
func (s *single) Addr() net.Addr { return pipeAddr{} }

// Pipe is a pair of pipes as a connection.
type Pipe struct {
	In, Out *os.File
}

func (p Pipe) Read(b []byte) (int, error)       { return p.In.Read(b) }
func (p Pipe) Write(b []byte) (int, error)      { return p.Out.Write(b) }
func (p Pipe) Close() error                     { return errors.Join(p.In.Close(), p.Out.Close()) }
func (p Pipe) LocalAddr() net.Addr              { return pipeAddr{} }
func (p Pipe) RemoteAddr() net.Addr             { return pipeAddr{} }
func (p Pipe) SetDeadline(time.Time) error      { return nil }
func (p Pipe) SetReadDeadline(time.Time) error  { return nil }
func (p Pipe) SetWriteDeadline(time.Time) error { return nil }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// Through returns variables that name the relay where they named the door.
func Through(env []string, door, relay netip.AddrPort) []string {
	var all []string
	for _, e := range env {
		all = append(all, strings.ReplaceAll(e, door.String(), relay.String()))
	}
	return all
}
