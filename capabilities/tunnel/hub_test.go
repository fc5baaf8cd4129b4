package tunnel

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pair returns two hubs with a TCP connection between them.
func pair(t *testing.T) (a, b *Hub, toB, toA *Addr, ended chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	far, err := l.Accept()
	must(t, err)
	a, b, toB, toA = NewHub(), NewHub(), &Addr{Over: TCP}, &Addr{Over: TCP}
	runA, runB := a.Attach(near, toB), b.Attach(far, toA)
	ended = make(chan error, 2)
	done := make(chan struct{}, 2)
	go func() { ended <- runA(); done <- struct{}{} }()
	go func() { ended <- runB(); done <- struct{}{} }()
	t.Cleanup(func() {
		_, _ = a.Close(), b.Close()
		<-done
		<-done
	})
	return a, b, toB, toA, ended
}

func TestPacketsArriveWholeAndInOrder(t *testing.T) {
	a, b, toB, toA, _ := pair(t)
	const many = 2000
	waiting := make(chan struct{}, backlog/MaxPacket/2) // never so many that one would be dropped
	go func() {
		for i := range many {
			waiting <- struct{}{}
			p := bytes.Repeat([]byte{byte(i)}, 1+i%MaxPacket)
			if _, err := a.WriteTo(p, toB); err != nil {
				t.Error(err)
			}
		}
	}()
	buf := make([]byte, 2*MaxPacket)
	for i := range many {
		n, from, err := b.ReadFrom(buf)
		must(t, err)
		<-waiting
		if from != toA || n != 1+i%MaxPacket || !bytes.Equal(buf[:n], bytes.Repeat([]byte{byte(i)}, n)) {
			t.Fatalf("packet %d: %d bytes from %v", i, n, from)
		}
	}
}

// All that was written before the end arrives, and both sides end.
func TestFinishWritesWhatWaits(t *testing.T) {
	a, b, toB, _, ended := pair(t)
	for i := range 40 {
		_, err := a.WriteTo(bytes.Repeat([]byte{byte(i)}, 1000), toB)
		must(t, err)
	}
	finished := make(chan struct{})
	go func() { a.Finish(toB); close(finished) }()
	buf := make([]byte, MaxPacket)
	for i := range 40 {
		n, _, err := b.ReadFrom(buf)
		must(t, err)
		if n != 1000 || buf[0] != byte(i) {
			t.Fatalf("packet %d: %d bytes of %d", i, n, buf[0])
		}
	}
	<-finished
	<-ended
	<-ended
	if _, err := a.WriteTo([]byte{1}, toB); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("after the end: %v", err)
	}
}

// A stream that takes nothing has packets dropped, holds nobody up, and another goes on.
func TestFullStreamDrops(t *testing.T) {
	a, b, toB, toA, _ := pair(t)
	stuck, far := net.Pipe()
	defer far.Close()
	toStuck := &Addr{Over: TCP, Peer: netip.MustParseAddrPort("192.0.2.1:1")}
	run := a.Attach(stuck, toStuck)
	done := make(chan struct{})
	go func() { _ = run(); close(done) }()
	for range 3 + 2*backlog/MaxPacket { // more than can wait
		n, err := a.WriteTo(make([]byte, MaxPacket), toStuck)
		if n != MaxPacket || err != nil {
			t.Fatal(n, err)
		}
	}
	_, err := a.WriteTo([]byte("on"), toB)
	must(t, err)
	buf := make([]byte, MaxPacket)
	n, from, err := b.ReadFrom(buf)
	if err != nil || from != toA || string(buf[:n]) != "on" {
		t.Fatalf("%q from %v: %v", buf[:n], from, err)
	}
	_ = far.Close()
	<-done
}

// Bytes that are no packets end their stream, and no other.
func TestGarbageEndsItsStream(t *testing.T) {
	for _, garbage := range [][]byte{[]byte("GET / HTTP/1.1\r\n"), {0xff, 0xff}, {0, 9, 1}} {
		t.Run(fmt.Sprintf("%x", garbage), func(t *testing.T) {
			a, b, toB, _, _ := pair(t)
			near, far := net.Pipe()
			addr := &Addr{Over: TCP}
			ended := make(chan error, 1)
			go func() { ended <- b.Carry(far, addr) }()
			_, _ = near.Write(garbage)
			_ = near.Close()
			if err := <-ended; err == nil {
				t.Fatal("the stream went on")
			}
			_, err := a.WriteTo([]byte("on"), toB)
			must(t, err)
			buf := make([]byte, MaxPacket)
			if n, _, err := b.ReadFrom(buf); err != nil || string(buf[:n]) != "on" {
				t.Fatalf("%q %v", buf[:n], err)
			}
		})
	}
}

func TestReadDeadline(t *testing.T) {
	h := NewHub()
	defer h.Close()
	must(t, h.SetReadDeadline(time.Now()))
	if _, _, err := h.ReadFrom(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	must(t, h.SetReadDeadline(time.Now().Add(time.Millisecond)))
	if _, _, err := h.ReadFrom(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	must(t, h.SetReadDeadline(time.Time{}))
	got := make(chan error, 1)
	go func() { _, _, err := h.ReadFrom(make([]byte, 1)); got <- err }()
	must(t, h.Close())
	if err := <-got; !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}
