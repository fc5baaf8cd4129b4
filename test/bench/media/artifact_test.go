//go:build unix

package media

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"math/big"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/agent/spool"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/test/bench/figures"
	"github.com/handrail-dev/handrail/test/site"
)

var (
	measure = flag.Bool("figures", false, "measure; without it the test only tries that measuring works")
	out     = flag.String("out", "", "document to put the table into, between its marks")
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bareCopy is the floor: one QUIC stream over loopback, its bytes thrown away.
func bareCopy(t *testing.T, size int64) time.Duration {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	must(t, err)
	listener, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"floor"},
	}, nil)
	must(t, err)
	defer listener.Close()
	ctx := context.Background()
	sent := make(chan error, 1)
	go func() {
		conn, err := quic.DialAddr(ctx, listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"floor"}}, nil)
		if err == nil {
			var stream *quic.SendStream
			if stream, err = conn.OpenUniStreamSync(ctx); err == nil {
				chunk := make([]byte, 256<<10)
				for left := size; left > 0 && err == nil; left -= int64(len(chunk)) {
					_, err = stream.Write(chunk[:min(left, int64(len(chunk)))])
				}
				_ = stream.Close()
			}
		}
		sent <- err
	}()
	conn, err := listener.Accept(ctx)
	must(t, err)
	stream, err := conn.AcceptUniStream(ctx)
	must(t, err)
	began := time.Now()
	n, err := io.Copy(io.Discard, stream)
	took := time.Since(began)
	must(t, err)
	must(t, <-sent)
	_ = conn.CloseWithError(0, "")
	if n != size {
		t.Fatalf("%d bytes arrived", n)
	}
	return took
}

// peak watches the resident memory of this process until it is asked.
func peak() func() int64 {
	most, ended, told := int64(0), make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, figures.Resident(os.Getpid()))
			select {
			case <-tick.C:
			case <-ended:
				told <- most
				return
			}
		}
	}()
	return func() int64 { close(ended); return <-told }
}

// processor is the processor time that this process has taken.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestArtifactFigures moves one artifact from a node to its gateway, which checks,
// seals and keeps it. Both are in this process, so its memory is that of both.
func TestArtifactFigures(t *testing.T) {
	size := int64(8 << 20)
	if *measure {
		size = 1 << 30
	}
	s := site.Start(t, site.Options{})
	n := s.AddNode("one", site.NewHandler())
	mine, err := spool.Open(spool.At(n.Dir))
	must(t, err)
	defer mine.Close()
	leave := func(call capabilities.CallID) capabilities.Artifact {
		c := mine.For(call, size)
		w, err := c.Create(capabilities.ArtifactSpec{Name: "a.bin", MIME: "application/octet-stream"})
		must(t, err)
		_, err = io.Copy(w, site.Content(string(call), size))
		must(t, err)
		a, err := w.Commit()
		must(t, err)
		must(t, c.Settle([]capabilities.Artifact{a}))
		return a
	}
	bring := func(call capabilities.CallID, a capabilities.Artifact) time.Duration {
		id, err := a.ID.Sum()
		must(t, err)
		in, err := s.Artifacts.Receive(t.Context(), outcome.Kept{Artifact: a, Call: call, Principal: "p", Node: n.ID})
		must(t, err)
		defer in.Close(true)
		began := time.Now()
		must(t, s.Nodes.Fetch(t.Context(), n.ID, call, id, in))
		return time.Since(began)
	}
	rounds := 1
	if *measure {
		rounds = 3
	}
	var took, floor, work, bare time.Duration
	var above int64
	for i := range rounds {
		call := capabilities.CallID(fmt.Sprint("c", i))
		a := leave(call)
		debug.FreeOSMemory()
		idle := figures.Resident(os.Getpid())
		stop := peak()
		before := processor()
		d := bring(call, a)
		between := processor()
		above = max(above, stop()-idle)
		f := bareCopy(t, size)
		after := processor()
		if work == 0 || between-before < work {
			work = between - before
		}
		if bare == 0 || after-between < bare {
			bare = after - between
		}
		if took == 0 || d < took {
			took = d
		}
		if floor == 0 || f < floor {
			floor = f
		}
	}
	rate := func(d time.Duration) float64 { return float64(size) / 1e6 / d.Seconds() }
	if !*measure {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "```\n%s, %d cores, %s\n%s; best of %d rounds; load average %s; gateway and node in one process.\n\n",
		figures.Machine(), runtime.NumCPU(), runtime.Version(), time.Now().Format(time.DateOnly), rounds, figures.Load())
	line := func(what string, value float64, unit, target string, met bool, beside string) {
		verdict := map[bool]string{true: "met", false: "missed"}[met]
		fmt.Fprintf(&b, "%-58s %7.0f %-5s %-7s %-7s %s\n", what, value, unit, target, verdict, beside)
	}
	line("artifact of 1 GiB, verified, sealed and on the disk", rate(took), "MB/s", "≥ 150", rate(took) >= 150, fmt.Sprintf("bare QUIC stream %.0f MB/s (%.2f of it)", rate(floor), rate(took)/rate(floor)))
	perGB := func(d time.Duration) float64 { return float64(d.Milliseconds()) / (float64(size) / 1e9) }
	fmt.Fprintf(&b, "%-58s %7.0f %-21s %s\n", "processor time of that, both sides, for each GB", perGB(work), "ms", fmt.Sprintf("bare QUIC stream %.0f ms", perGB(bare)))
	line("memory above idle meanwhile, both sides", float64(above)/1e6, "MB", "≤ 32", above <= 32<<20, "")
	b.WriteString("```")
	t.Log("\n" + b.String())
	if *out != "" {
		must(t, figures.Save(*out, "<!-- figures of artifacts: written by test/bench/media -->", "<!-- end of the figures of artifacts -->", []byte(b.String())))
	}
}
