package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"
)

// Many hosts answer at one address, and which one a client means stands in its first TLS message
// (RFC 6066, 3). A tunnel to one host is a tunnel to no other: that message goes on only when it
// names the host that the tunnel was opened to.

// bound is what a client sends through a tunnel to host. Where it begins TLS for another one,
// nothing goes on, and refused is told whom it names; "": nobody, or in a way that cannot be read.
type bound struct {
	host    string
	from    io.Reader
	refused func(name string) error
	rest    io.Reader // nil: its beginning has not been looked at
}

func newBound(host string, from io.Reader, refused func(name string) error) *bound {
	return &bound{host: plainAddr(host), from: from, refused: refused}
}

// Read reads what goes on; the error of a refused stream is that of refused.
func (b *bound) Read(p []byte) (int, error) {
	if err := b.look(); err != nil {
		return 0, err
	}
	return b.rest.Read(p)
}

// WriteTo hands the stream on, which can then be spliced.
func (b *bound) WriteTo(w io.Writer) (int64, error) {
	if err := b.look(); err != nil {
		return 0, err
	}
	return io.Copy(w, b.rest)
}

// recordHandshake begins a TLS connection (RFC 8446, 5.1).
const recordHandshake = 22

// look reads the beginning, once.
func (b *bound) look() error {
	if b.rest != nil {
		return nil
	}
	var first [1]byte
	if _, err := io.ReadFull(b.from, first[:]); err != nil {
		return err
	}
	begin := io.MultiReader(bytes.NewReader(first[:]), b.from)
	if first[0] != recordHandshake {
		b.rest = begin
		return nil
	}
	name, seen, err := helloOf(begin)
	if err == nil && meant(b.host, name) {
		b.rest = io.MultiReader(bytes.NewReader(seen), b.from)
		return nil
	}
	err = b.refused(name)
	b.rest = failing{err}
	return err
}

// meant reports whether a client that names a server means host. An address has no name, and
// clients leave out those of the house, which have no dot.
func meant(host, name string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return plainHost(name) == host || name == "" && !strings.Contains(host, ".")
}

// errSeen ends the handshake of helloOf.
var errSeen = errors.New("the client's first message was read")

// helloOf reads the first TLS message of a client: whom it names, and all that was read.
func helloOf(from io.Reader) (name string, seen []byte, err error) {
	var all bytes.Buffer
	err = errors.New("no TLS message that can be read")
	_ = tls.Server(heard{io.TeeReader(from, &all)}, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			name, err = h.ServerName, nil
			return nil, errSeen
		},
	}).Handshake()
	return name, all.Bytes(), err
}

// heard is a connection that is only listened to.
type heard struct{ io.Reader }

func (heard) Write(p []byte) (int, error)      { return len(p), nil }
func (heard) Close() error                     { return nil }
func (heard) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (heard) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (heard) SetDeadline(time.Time) error      { return nil }
func (heard) SetReadDeadline(time.Time) error  { return nil }
func (heard) SetWriteDeadline(time.Time) error { return nil }

// failing is a stream that was refused.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// otherName says why a tunnel to target was ended.
func otherName(target, name string) string {
	if name == "" {
		return fmt.Sprintf("its TLS does not name %.260s", target)
	}
	return fmt.Sprintf("a tunnel to %.260s asked for it by TLS", target)
}
