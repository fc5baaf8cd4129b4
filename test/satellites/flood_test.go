package satellites

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
	"github.com/handrail-dev/handrail/satellite"
)

// Joining outlasts a bus that lets nobody in for a while, and says so once. It does not outlast its
// patience, nor another certificate than the code names.
func TestJoiningIsTriedAgain(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	paste := h.invite("voice")
	p, err := remote.ParsePaste(paste)
	must(t, err)
	bus := h.Gateway.Bus.Listening()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var works sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); works.Wait() })
	works.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if n < 3 { // full
				_ = c.Close()
				continue
			}
			to, err := net.Dial("tcp", bus)
			if err != nil {
				_ = c.Close()
				continue
			}
			works.Go(func() { _, _ = io.Copy(to, c); _ = to.Close() })
			works.Go(func() { _, _ = io.Copy(c, to); _ = c.Close() })
		}
	})
	p.Addrs = []string{l.Addr().String()}
	told := 0
	id, err := satellite.Join(t.Context(), p.Encode(), t.TempDir(), "voice", satellite.JoinOptions{Away: func(err error) {
		if told++; capabilities.CodeOf(err) != capabilities.CodeNodeDisconnected {
			t.Error(err)
		}
	}})
	if err != nil || id.Satellite == "" || told != 1 {
		t.Errorf("%+v %v, told %d times", id, err, told)
	}

	p.Sum = strings.Repeat("00", 32)
	if _, err := satellite.Join(t.Context(), p.Encode(), t.TempDir(), "voice", satellite.JoinOptions{Patience: time.Hour}); err == nil || !strings.Contains(err.Error(), "another certificate") {
		t.Errorf("another certificate: %v", err)
	}
	p.Addrs = []string{freePort(t)}
	if _, err := satellite.Join(t.Context(), p.Encode(), t.TempDir(), "voice", satellite.JoinOptions{Patience: time.Second}); capabilities.CodeOf(err) != capabilities.CodeNodeDisconnected {
		t.Errorf("nobody listens: %v", err)
	}
}

// Ten thousand connections that prove no key, however they begin, keep no satellite out: beside
// them one that was let in connects and answers, another one joins, and those that stay are few.
// It runs beside no other test: the flood is all that this machine can do.
func TestAFloodOfStrangers(t *testing.T) {
	h := start(t, nil)
	e, dir := &echo{}, t.TempDir()
	r := run(t, satellite.Options{Name: "voice", Dir: dir, Paste: h.invite("voice"), Tools: []satellite.Tool{e.tool()}})
	h.approve("voice")
	h.callable("tool.voice.say")
	r.end()

	paste, at := h.invite("late"), h.Gateway.Bus.Listening()
	over := make(chan struct{})
	var works sync.WaitGroup
	var came, open atomic.Int64
	for i := range 2000 { // each place is taken again once its connection is ended
		works.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				c, err := net.DialTimeout("tcp", at, 5*time.Second)
				if err != nil {
					time.Sleep(50 * time.Millisecond) // no room to listen at: it comes again
					continue
				}
				came.Add(1)
				open.Add(1)
				intrudes(c, i%4, over)
				open.Add(-1)
				select {
				case <-over:
				case <-time.After(500 * time.Millisecond):
				}
			}
		})
	}
	t.Cleanup(func() { close(over); works.Wait() })
	within(t, "the flood", func() bool { return came.Load() >= 2000 })
	run(t, satellite.Options{Name: "voice", Dir: dir, Tools: []satellite.Tool{e.tool()}})
	run(t, satellite.Options{Name: "late", Dir: t.TempDir(), Paste: paste, Tools: []satellite.Tool{e.tool()}})
	within(t, "the one that was let in", func() bool {
		return h.call("tool.voice.say", `{"text":"beside them"}`, "").Status == capabilities.StatusOK
	})
	h.approve("late")
	within(t, "the one that joins", func() bool {
		return h.call("tool.late.say", `{"text":"beside them"}`, "").Status == capabilities.StatusOK
	})
	within(t, "ten thousand", func() bool { return came.Load() >= 10_000 })
	want(t, h.call("tool.voice.say", `{"text":"after them"}`, ""), capabilities.StatusOK, "")
	within(t, "few to stay", func() bool { return open.Load() < 600 })
}

// intrudes opens a connection in one of several ways, and waits until it is ended.
func intrudes(c net.Conn, how int, over <-chan struct{}) {
	ctx, done := context.WithCancel(context.Background())
	defer done()
	go func() {
		select {
		case <-over:
		case <-ctx.Done():
		}
		_ = c.Close()
	}()
	switch how {
	case 1: // words of no protocol
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
	case 2: // TLS, and then nothing
		if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
			_ = tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake()
		}
	case 3: // half of a handshake
		_, _ = c.Write([]byte{0x16, 3, 1, 2, 0})
	}
	_, _ = io.Copy(io.Discard, c)
}
