package relay

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
)

// Programs behind a relay reach the door and nothing else, many at a time, each both ways, and hear
// of the end that the other side makes.
func TestRelay(t *testing.T) {
	door, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	var mu sync.Mutex
	var announced, came []netip.AddrPort
	go func() { // it says everything back once it has heard all, or "end"
		for {
			c, err := door.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			came = append(came, c.RemoteAddr().(*net.TCPAddr).AddrPort())
			mu.Unlock()
			go func() {
				defer c.Close()
				first := make([]byte, 3)
				_, _ = io.ReadFull(c, first)
				if string(first) != "end" {
					rest, _ := io.ReadAll(c)
					first = append(first, rest...)
				}
				_, _ = c.Write(first)
			}()
		}
	}()
	r1, w1, err1 := os.Pipe()
	r2, w2, err2 := os.Pipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	over := make(chan error, 1)
	go func() { over <- Serve(Pipe{r1, w2}) }()
	to := door.Addr().(*net.TCPAddr).AddrPort()
	runner := Pipe{r2, w1}
	at, err := Carry(runner, to, func(from uint16, is netip.AddrPort) error {
		mu.Lock()
		defer mu.Unlock()
		announced = append(announced, netip.AddrPortFrom(to.Addr(), from))
		if is != to {
			t.Errorf("a connection to %s", is)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			c, err := net.Dial("tcp4", at.String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			sent := make([]byte, 1<<20)
			_, _ = rand.Read(sent)
			if _, err := c.Write(sent); err != nil {
				t.Error(err)
			}
			_ = c.(*net.TCPConn).CloseWrite()
			if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d of %d bytes came back: %v", len(got), len(sent), err)
			}
		})
	}
	all.Wait()
	short, err := net.Dial("tcp4", at.String()) // its door has the last word
	if err != nil {
		t.Fatal(err)
	}
	if _, err := short.Write([]byte("end")); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(short); err != nil || string(got) != "end" {
		t.Errorf("%q %v", got, err)
	}
	_ = short.Close()
	mu.Lock()
	if len(came) != 9 || slices.ContainsFunc(came, func(from netip.AddrPort) bool { return !slices.Contains(announced, from) }) {
		t.Errorf("%v came, and %v were announced", came, announced)
	}
	mu.Unlock()
	_ = runner.Close()
	if err := <-over; err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp4", at.String()); err == nil {
		_ = c.Close()
		t.Error("the relay goes on without its pipe")
	}
	if got := Through([]string{"http_proxy=http://" + to.String(), "A=b"}, to, at); !slices.Equal(got, []string{"http_proxy=http://" + at.String(), "A=b"}) {
		t.Error(got)
	}
}
