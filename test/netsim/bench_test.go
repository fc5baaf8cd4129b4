package netsim

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/pairing"
)

// BenchmarkDispatch compares a ticket and its answer with a bare echo of as many
// bytes on a stream of its own, in the same run.
func BenchmarkDispatch(b *testing.B) {
	args := `{"x":"` + strings.Repeat("y", 240) + `"}`
	b.Run("floor", func(b *testing.B) {
		conn := bareEcho(b)
		frame, err := wire.Encode(ticket("n", args))
		must(b, err)
		reply := make([]byte, len(frame))
		b.Run("one", func(b *testing.B) {
			for b.Loop() {
				must(b, exchange(conn, frame, reply))
			}
		})
		b.Run("64", func(b *testing.B) {
			b.SetParallelism(32) // times GOMAXPROCS
			b.RunParallel(func(pb *testing.PB) {
				reply := make([]byte, len(frame))
				for pb.Next() {
					if err := exchange(conn, frame, reply); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	})
	for _, over := range []tunnel.Transport{tunnel.QUIC, tunnel.TCP, tunnel.WebSocket} {
		benchDispatch(b, over, args)
	}
}

func benchDispatch(b *testing.B, over tunnel.Transport, args string) {
	by = over
	defer func() { by = tunnel.QUIC }()
	b.Run("dispatch/"+string(over), func(b *testing.B) {
		g := newGateway(b, func(o *nodes.Options) { o.Heartbeat = 10 * time.Second })
		n := g.pair(answerEcho)
		b.Run("one", func(b *testing.B) {
			for b.Loop() {
				t := *ticket(n.id, args)
				if _, _, err := g.nodes.Dispatch(context.Background(), n.id, &t, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("64", func(b *testing.B) {
			t := *ticket(n.id, args)
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					t := t
					if _, _, err := g.nodes.Dispatch(context.Background(), n.id, &t, nil); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	})
}

func exchange(conn *quic.Conn, frame, reply []byte) error {
	s, err := conn.OpenStreamSync(context.Background())
	if err != nil {
		return err
	}
	if _, err := s.Write(frame); err != nil {
		return err
	}
	_ = s.Close()
	if _, err := io.ReadFull(s, reply); err != nil {
		return err
	}
	if n, err := s.Read(reply[:1]); err != io.EOF {
		return fmt.Errorf("%d bytes more, %v", n, err)
	}
	return nil
}

// bareEcho is a pair of plain QUIC ends with the same kind of certificates.
func bareEcho(b *testing.B) *quic.Conn {
	siteKey, err := pairing.NewKey()
	must(b, err)
	cert, err := pairing.SelfSigned(siteKey, time.Now())
	must(b, err)
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(b, err)
	tr := &quic.Transport{Conn: udp}
	conf := &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: siteKey}}, NextProtos: []string{"echo"},
		InsecureSkipVerify: true, ClientAuth: tls.RequireAnyClientCert,
	}
	qc := &quic.Config{MaxIncomingStreams: 1024}
	ln, err := tr.Listen(conf, qc)
	must(b, err)
	dialled := make(chan *quic.Conn, 1)
	go func() {
		c, err := quic.DialAddr(context.Background(), udp.LocalAddr().String(), conf, qc)
		if err != nil {
			b.Error(err)
		}
		dialled <- c
	}()
	server, err := ln.Accept(context.Background())
	must(b, err)
	client := <-dialled
	go func() { // the client's end answers, as a node does
		for {
			s, err := client.AcceptStream(context.Background())
			if err != nil {
				return
			}
			go func() {
				buf := make([]byte, 4096)
				n := 0
				for {
					read, err := s.Read(buf[n:])
					n += read
					if err != nil {
						break
					}
				}
				_, _ = s.Write(buf[:n])
				_ = s.Close()
			}()
		}
	}()
	b.Cleanup(func() {
		_ = server.CloseWithError(0, "")
		_ = client.CloseWithError(0, "")
		_ = ln.Close()
		_ = tr.Close()
		_ = udp.Close()
	})
	return server
}
