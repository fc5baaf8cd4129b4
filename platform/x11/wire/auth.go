package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// address is a DISPLAY taken apart: "[host]:number[.screen]", or a socket's path
// before the colon.
type address struct {
	host   string // "" for this machine's socket
	socket string
	number int
	screen int
}

var errDisplay = errors.New("not of the form host:number")

func parseDisplay(s string) (address, error) {
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return address{}, errDisplay
	}
	var a address
	switch host := s[:colon]; {
	case strings.HasPrefix(host, "/"):
		a.socket = s
		if dot := strings.LastIndexByte(s, '.'); dot > colon {
			a.socket = s[:dot]
		}
	case host != "unix":
		a.host = strings.TrimPrefix(host, "tcp/")
	}
	number, screen, hasScreen := strings.Cut(s[colon+1:], ".")
	var err error
	if a.number, err = strconv.Atoi(number); err != nil || a.number < 0 || a.number > 59535 {
		return address{}, errDisplay
	}
	if hasScreen {
		if a.screen, err = strconv.Atoi(screen); err != nil || a.screen < 0 {
			return address{}, errDisplay
		}
	}
	return a, nil
}

// dial connects the socket. The abstract one comes last: it is there even where /tmp is a
// private one, but any account can take its name where the server has none. Neither is
// spoken to before it is known whose the server is: with the cookie goes the desktop.
func (a address) dial(ctx context.Context, authority string) (net.Conn, error) {
	var d net.Dialer
	if a.host != "" {
		return d.DialContext(ctx, "tcp", net.JoinHostPort(a.host, strconv.Itoa(6000+a.number)))
	}
	paths := []string{a.socket}
	if a.socket == "" {
		path := "/tmp/.X11-unix/X" + strconv.Itoa(a.number)
		paths = []string{path, "@" + path}
	}
	var first error
	for _, path := range paths {
		c, err := d.DialContext(ctx, "unix", path)
		if err == nil {
			if err = ours(c.(*net.UnixConn), authority); err == nil {
				return c, nil
			}
			_ = c.Close()
		}
		if _, foreign := errors.AsType[*foreignError](err); first == nil || foreign {
			first = err
		}
	}
	return nil, first
}

// foreignError is a server that runs as an account which has nothing to do with this one.
type foreignError struct{ uid uint32 }

func (e *foreignError) Error() string {
	return "it runs as another account (uid " + strconv.FormatUint(uint64(e.uid), 10) + ")"
}

// ours returns an error unless the server at the other end runs as root, as this process, or
// as the owner of the authority file, who knows the cookie already.
func ours(c *net.UnixConn, authority string) error {
	uid, err := peer(c)
	if err != nil {
		return err
	}
	if uid == 0 || uid == uint32(os.Geteuid()) || owns(uid, authority) {
		return nil
	}
	return &foreignError{uid}
}

// setupRequest is the first thing a client says:
//
//	'l' (little endian), 0, 11:2, 0:2, len(name):2, len(data):2, 0:2, name, data (each padded to 4)
func setupRequest(name string, data []byte) []byte {
	b := []byte{'l', 0, 11, 0, 0, 0}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(name)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(data)))
	b = append(b, 0, 0)
	pad := func(s []byte) {
		b = append(b, s...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
	}
	pad([]byte(name))
	pad(data)
	return b
}

// authorityFile is where the cookie is; "" where that is not known.
func authorityFile(named string) string {
	if named != "" {
		return named
	}
	if named = os.Getenv("XAUTHORITY"); named != "" {
		return named
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".Xauthority")
}

const magicCookie = "MIT-MAGIC-COOKIE-1"

// authority finds the cookie for a in the file; none is no error: many servers
// know their users by the socket.
func (a address) authority(file string) (name string, data []byte) {
	raw, err := os.ReadFile(file)
	if err != nil || len(raw) > 1<<20 {
		return "", nil
	}
	host, _ := os.Hostname()
	if a.host != "" && a.host != "localhost" {
		host = a.host
	}
	return findCookie(raw, host, strconv.Itoa(a.number))
}

// findCookie reads entries of
//
//	family:2, address, number, name, data (each with a length:2), big endian
//
// and returns the first that fits; a malformed end of the file is its end.
func findCookie(raw []byte, host, number string) (name string, data []byte) {
	const familyLocal, familyWild = 256, 65535
	r := bytes.NewReader(raw)
	field := func() ([]byte, bool) {
		var n uint16
		if binary.Read(r, binary.BigEndian, &n) != nil {
			return nil, false
		}
		b := make([]byte, n)
		_, err := io.ReadFull(r, b)
		return b, err == nil
	}
	for {
		var family uint16
		if binary.Read(r, binary.BigEndian, &family) != nil {
			return "", nil
		}
		var f [4][]byte
		for i := range f {
			b, ok := field()
			if !ok {
				return "", nil
			}
			f[i] = b
		}
		here := family == familyWild || family == familyLocal && string(f[0]) == host
		if here && (len(f[1]) == 0 || string(f[1]) == number) && string(f[2]) == magicCookie {
			return magicCookie, f[3]
		}
	}
}

// ByHost reports whether the server was named with a host, which may be another machine.
func (c *Conn) ByHost() bool {
	a, err := parseDisplay(c.Name)
	return err != nil || a.host != ""
}

// ByUsualPath reports whether the server is reached where every program looks for it.
func (c *Conn) ByUsualPath() bool {
	a, err := parseDisplay(c.Name)
	at, unix := c.stream.RemoteAddr().(*net.UnixAddr)
	return err == nil && unix && at.Name == "/tmp/.X11-unix/X"+strconv.Itoa(a.number)
}
