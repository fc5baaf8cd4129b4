package media

import (
	"fmt"
	"io"
	"maps"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/webrtc/v4"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// gate is a way by TCP that takes nothing more once it is shut.
type gate struct {
	listener net.Listener
	to       string
	shut     chan struct{}
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: l, to: to, shut: make(chan struct{})}
	g.wg.Go(func() {
		for {
			viewer, err := l.Accept()
			if err != nil {
				return
			}
			node, err := net.Dial("tcp", g.to)
			if err != nil {
				_ = viewer.Close()
				continue
			}
			_ = node.(*net.TCPConn).SetReadBuffer(4 << 10)
			g.mu.Lock()
			g.conns = append(g.conns, viewer, node)
			g.mu.Unlock()
			g.wg.Go(func() { _, _ = io.Copy(node, viewer) })
			g.wg.Go(func() {
				b := make([]byte, 1<<10)
				for {
					select {
					case <-g.shut:
						return
					default:
					}
					n, err := node.Read(b)
					if err != nil {
						return
					}
					if _, err := viewer.Write(b[:n]); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		g.mu.Lock()
		for _, c := range g.conns {
			_ = c.Close()
		}
		g.mu.Unlock()
		g.wg.Wait()
	})
	return g
}

var passiveCandidate = regexp.MustCompile(`(?m)^a=candidate:\S+ 1 tcp \d+ 127\.0\.0\.1 (\d+) typ host tcptype passive`)

// only puts one candidate in place of an answer's.
func only(answer, candidate string) string {
	var b strings.Builder
	for line := range strings.Lines(answer) {
		switch {
		case strings.HasPrefix(line, "a=end-of-candidates"):
			b.WriteString("a=candidate:" + candidate + "\r\n" + line)
		case !strings.HasPrefix(line, "a=candidate:"):
			b.WriteString(line)
		}
	}
	return b.String()
}

// watchByTCP is watch by a viewer whose only way is one that can be shut.
func watchByTCP(t *testing.T, h *Handler) (*watching, *gate) {
	t.Helper()
	var way *gate
	w := watchBy(t, h, newViewer(t, webrtc.NetworkTypeTCP4), func(answer string) string {
		m := passiveCandidate.FindStringSubmatch(answer)
		if m == nil {
			t.Fatalf("no candidate by TCP:\n%s", answer)
		}
		way = newGate(t, net.JoinHostPort("127.0.0.1", m[1]))
		return only(answer, fmt.Sprintf("1 1 tcp 1671430143 127.0.0.1 %d typ host tcptype passive", way.listener.Addr().(*net.TCPAddr).Port))
	})
	await(t, "first frame by TCP", w.frames)
	return w, way
}

// draw changes the screen until the test ends.
func draw(t *testing.T, desk *still) {
	over := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				desk.change()
			case <-over:
				return
			}
		}
	})
	t.Cleanup(func() { close(over); drawing.Wait() })
}

// viewersOf are those who watch the screen now.
func viewersOf(h *Handler) map[*viewer]bool {
	h.mu.Lock()
	src := h.sources[""]
	h.mu.Unlock()
	src.mu.Lock()
	defer src.mu.Unlock()
	return maps.Clone(src.viewers)
}

// The end of a session waits for nobody who takes nothing, though the viewer is to be told.
func TestEndOfAStalledViewer(t *testing.T) {
	desk := &still{news: make(chan platform.Rect, 1), noise: true}
	h, err := New(Options{Opener: desk})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	stuck, way := watchByTCP(t, h)
	all := viewersOf(h)
	draw(t, desk)
	close(way.shut)
	for v := range all {
		// A frame that does not leave for so long is stuck.
		for shown, since := int64(-1), time.Now(); time.Since(since) < frameShare; {
			if n := v.shown.Load(); n != shown || v.free() {
				shown, since = n, time.Now()
			}
			if err := capabilities.Sleep(t.Context(), time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	asked := time.Now()
	stuck.cancel()
	await(t, "end", stuck.end)
	if took := time.Since(asked); took > farewellTime+2*stalled {
		t.Errorf("it took %v", took)
	}
}

// A viewer by TCP that takes nothing any more holds up nobody: the other sees on, and
// the stalled one is let go, as too slow.
func TestStalledViewer(t *testing.T) {
	desk := &still{news: make(chan platform.Rect, 1), noise: true}
	h, err := New(Options{Opener: desk})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	healthy := watch(t, h)
	await(t, "first frame", healthy.frames)
	first := viewersOf(h)
	stuck, way := watchByTCP(t, h)
	late := viewersOf(h)
	maps.DeleteFunc(late, func(v *viewer, _ bool) bool { return first[v] })
	draw(t, desk)
	close(way.shut)
	if err := await(t, "end of the stalled one", stuck.end); err != nil {
		t.Fatal(err)
	}
	if got := stuck.out.(result).End; got != "too_slow" {
		t.Errorf("it ended as %s", got)
	}
	for v := range late {
		v.mu.Lock()
		missed := v.missed
		v.mu.Unlock()
		if !missed {
			t.Error("nobody saw more until the stalled one was let go")
		}
	}
	if len(late) != 1 {
		t.Errorf("%d came late", len(late))
	}
	for len(healthy.frames) > 0 {
		<-healthy.frames
	}
	await(t, "frame after the stalled one", healthy.frames)
	healthy.cancel()
	await(t, "end", healthy.end)
}
