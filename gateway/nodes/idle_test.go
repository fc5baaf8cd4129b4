package nodes

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/pairing"
)

const (
	idleNodes = 1000
	crowdEnv  = "HANDRAIL_TEST_CROWD"
)

// BenchmarkIdleNodes tells what a connected, idle node costs the gateway. The
// nodes are in a child process, so that only the gateway's side is measured.
func BenchmarkIdleNodes(b *testing.B) {
	p := newPlane(b, func(o *Options) { o.Heartbeat = 10 * time.Second })
	inv, _, err := p.Invite(context.Background(), InviteSpec{AutoApprove: true, Uses: idleNodes, Allow: []string{"*"}})
	must(b, err)
	var crowd strings.Builder
	fmt.Fprintln(&crowd, p.addr)
	ids := make([]capabilities.NodeID, idleNodes)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			r, err := p.enrol(context.Background(), &inv, pairing.Profile{Host: "desk", Platform: "linux"}, crowdKey(i).Public().(ed25519.PublicKey))
			if err != nil {
				b.Error(err)
				return
			}
			ids[i] = r.id
		})
	}
	wg.Wait()
	for i, id := range ids {
		cert, err := p.site.CertifyNode(id, crowdKey(i).Public().(ed25519.PublicKey), time.Now())
		must(b, err)
		fmt.Fprintln(&crowd, id, hex.EncodeToString(cert.Raw))
	}
	base := measure()
	for b.Loop() {
		child := exec.Command(os.Args[0], "-test.run=^TestCrowdChild$")
		child.Env = append(os.Environ(), crowdEnv+"=1")
		child.Stderr = os.Stderr
		in, err := child.StdinPipe()
		must(b, err)
		must(b, child.Start())
		began := time.Now()
		_, err = in.Write([]byte(crowd.String()))
		must(b, err)
		for _, id := range ids {
			p.awaitConnected(id)
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "connect-ms")
		peak := rss()
		m := measure()
		b.ReportMetric(float64(m.heap-base.heap)/idleNodes/1024, "heap-KiB/node")
		b.ReportMetric(float64(m.stack-base.stack)/idleNodes/1024, "stack-KiB/node")
		b.ReportMetric(float64(m.goroutines-base.goroutines)/idleNodes, "goroutines/node")
		b.ReportMetric(float64(peak)/1024, "rss-MiB")
		debug.FreeOSMemory()
		b.ReportMetric(float64(rss())/1024, "rss-settled-MiB")
		_ = in.Close() // the crowd goes home
		_ = child.Wait()
		for _, id := range ids {
			p.awaitGone(id)
		}
	}
}

type usage struct {
	heap, stack uint64
	goroutines  int
}

func measure() usage {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{m.HeapAlloc, m.StackInuse, runtime.NumGoroutine()}
}

// rss returns this process's resident memory in KiB, 0 where that is not known.
func rss() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	var kib int
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			_, _ = fmt.Sscan(rest, &kib)
		}
	}
	return kib
}

func crowdKey(i int) ed25519.PrivateKey {
	seed := sha256.Sum256(fmt.Appendf(nil, "crowd %d", i))
	return ed25519.NewKeyFromSeed(seed[:])
}

// TestCrowdChild is the crowd, in a process of its own; run by itself it is nothing.
func TestCrowdChild(t *testing.T) {
	if os.Getenv(crowdEnv) == "" {
		t.Skip("it is the child of BenchmarkIdleNodes")
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	in.Scan()
	addr, err := net.ResolveUDPAddr("udp", in.Text())
	must(t, err)
	udp, err := net.ListenUDP("udp", nil)
	must(t, err)
	transport := &quic.Transport{Conn: udp}
	slots := make(chan struct{}, 16)
	conns := make([]*quic.Conn, idleNodes)
	var wg sync.WaitGroup
	for i := range idleNodes {
		in.Scan()
		id, certHex, _ := strings.Cut(in.Text(), " ")
		cert, err := hex.DecodeString(certHex)
		must(t, err)
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			// A dial that succeeded may still be refused; a gateway that is gone ends it.
			for tries := 0; conns[i] == nil && tries < 20; tries++ {
				conns[i] = appear(transport, addr, capabilities.NodeID(id), crowdKey(i), cert)
			}
		})
	}
	wg.Wait()
	for in.Scan() { // until the parent closes
	}
	for _, c := range conns {
		if c != nil {
			_ = c.CloseWithError(0, "")
		}
	}
	_ = transport.Close()
	_ = udp.Close()
}

// appear is one node that says hello, nine capabilities and a heartbeat.
func appear(tr *quic.Transport, addr net.Addr, id capabilities.NodeID, key ed25519.PrivateKey, cert []byte) *quic.Conn {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := tr.Dial(ctx, addr, &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{wire.ALPN}, MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}},
	}, &quic.Config{MaxIncomingStreams: 1000, KeepAlivePeriod: 10 * time.Second})
	if err != nil {
		return nil
	}
	control, err := conn.OpenStreamSync(ctx)
	if err != nil || wire.Write(control, &wire.Hello{Version: 1, MinVersion: 1, Node: id, Host: "desk", Platform: "linux"}) != nil {
		return nil
	}
	if _, err := wire.NewReader(control, wire.KindHelloAck).Next(); err != nil {
		return nil
	}
	var ready wire.Readiness
	for _, name := range []string{"launch", "navigate", "snapshot", "click", "type", "screenshot", "evaluate", "tabs", "close"} {
		ready.Capabilities = append(ready.Capabilities, capabilities.Readiness{
			Capability: capabilities.CapabilityID("tyrum.browser." + name), Isolation: capabilities.ClassT2, Backend: "chromium 156.0.8078.73",
		})
	}
	if wire.Write(control, &ready) != nil || wire.Write(control, &wire.Heartbeat{Seq: 1}) != nil {
		return nil
	}
	return conn
}
