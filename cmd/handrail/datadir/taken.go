package datadir

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/gateway/client"
)

// probeFor is how long whoever listens at an address has to say who it is.
const probeFor = time.Second

// Free reports why a gateway of data cannot be started at the two addresses: one is up
// already, or something else listens there. It is asked before anything is written.
func (d Dir) Free(ctx context.Context, http, quic string) error {
	if err := d.up(ctx); err != nil {
		return err
	}
	l, err := net.Listen("tcp", http)
	if err != nil {
		return cannotListen(ctx, "--http", http, err)
	}
	_ = l.Close()
	p, err := net.ListenPacket("udp", quic)
	if err != nil {
		return cannotListen(ctx, "--quic", quic, err)
	}
	return p.Close()
}

// Up reports whether the gateway that gateway.json names answers: one that was killed leaves the
// file.
func (d Dir) Up(ctx context.Context) bool {
	r, err := d.ReadRunning()
	if err != nil {
		return false // none, or none that says where
	}
	base, pin, err := r.Place()
	return err == nil && answers(ctx, base, pin)
}

// up reports a gateway that runs on the data directory already: where, and which process.
func (d Dir) up(ctx context.Context) error {
	if !d.Up(ctx) {
		return nil
	}
	r, err := d.ReadRunning()
	if err != nil {
		return nil // it ended meanwhile
	}
	return command.Advise(capabilities.Errorf(capabilities.CodeConflict, "it is up already: %s/console/ (process %d, data directory %s)",
		r.Page(Reach{}), r.PID, d),
		command.Here("status"),
		" says more. To start it anew, end that process first; to run a second one, give it --data, --http and --quic of its own.")
}

// answers reports whether a Handrail gateway answers at base.
func answers(ctx context.Context, base *url.URL, pin client.Pin) bool {
	ctx, done := context.WithTimeout(ctx, probeFor)
	defer done()
	h, err := client.At(base, client.NewToken(""), pin).Health(ctx)
	return err == nil && h.Ours()
}

// cannotListen says in words why an address cannot be listened at.
func cannotListen(ctx context.Context, flag, addr string, err error) error {
	var system *os.SyscallError
	why := err.Error()
	if errors.As(err, &system) {
		why = system.Err.Error()
	}
	e := capabilities.Errorf(capabilities.CodeConflict, "cannot listen at %s: %s", addr, why)
	switch {
	case !errors.Is(err, syscall.EADDRINUSE):
		return e.WithHint(fmt.Sprintf("Give another address with %s.", flag))
	case flag == "--http" && handrailAt(ctx, addr):
		return e.WithHint("Another Handrail listens there, with another data directory. Give this one another port with --http, or end that one.")
	}
	return e.WithHint(fmt.Sprintf("Another program listens there. Give another port with %s, or end that program.", flag))
}

// handrailAt reports whether a Handrail gateway answers at a TCP address, by plain HTTP.
func handrailAt(ctx context.Context, addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return answers(ctx, &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}, client.Pin{})
}
