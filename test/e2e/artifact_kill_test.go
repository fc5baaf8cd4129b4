package e2e

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/test/site"
)

// rough is a UDP way that holds packets up and loses some of them.
type rough struct {
	front  net.PacketConn
	target *net.UDPAddr
	delay  atomic.Int64 // nanoseconds
	loss   atomic.Int64 // of 10,000

	mu    sync.Mutex
	peers map[string]*net.UDPConn
	wg    sync.WaitGroup
}

func newRough(t *testing.T, target string) *rough {
	t.Helper()
	front, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	addr, err := net.ResolveUDPAddr("udp", target)
	must(t, err)
	w := &rough{front: front, target: addr, peers: map[string]*net.UDPConn{}}
	w.wg.Go(w.forward)
	t.Cleanup(func() {
		_ = front.Close()
		w.mu.Lock()
		for _, c := range w.peers {
			_ = c.Close()
		}
		w.mu.Unlock()
		w.wg.Wait()
	})
	return w
}

// pass sends a packet on its way, late or never.
func (w *rough) pass(p []byte, send func([]byte)) {
	if rand.Int64N(10_000) < w.loss.Load() {
		return
	}
	late := time.Duration(w.delay.Load())
	if late < time.Millisecond {
		send(p)
		return
	}
	data := bytes.Clone(p)
	w.wg.Add(1)
	time.AfterFunc(late, func() { defer w.wg.Done(); send(data) })
}

func (w *rough) forward() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := w.front.ReadFrom(buf)
		if err != nil {
			return
		}
		w.mu.Lock()
		back := w.peers[from.String()]
		if back == nil {
			if back, err = net.DialUDP("udp", nil, w.target); err != nil {
				w.mu.Unlock()
				return
			}
			w.peers[from.String()] = back
			w.wg.Go(func() { w.backward(back, from) })
		}
		w.mu.Unlock()
		w.pass(buf[:n], func(p []byte) { _, _ = back.Write(p) })
	}
}

func (w *rough) backward(back *net.UDPConn, to net.Addr) {
	buf := make([]byte, 64<<10)
	for {
		n, err := back.Read(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			w.pass(buf[:n], func(p []byte) { _, _ = w.front.WriteTo(p, to) })
		}
	}
}

// HANDRAIL_KILLS is how often the long run kills; HANDRAIL_SEED begins another one.
func fromEnv(t *testing.T, name string, fallback int) int {
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// Gateway and node are killed at random moments while files are on their way, over a
// way that delays and loses. Every file ends whole and verified, or its call says that
// it is not there.
func TestArtifactsSurviveKills(t *testing.T) {
	t.Parallel()
	kills := fromEnv(t, "HANDRAIL_KILLS", 6)
	rng := rand.New(rand.NewPCG(7, uint64(fromEnv(t, "HANDRAIL_SEED", 1))))
	s := startStation(t, t.TempDir())
	way := newRough(t, s.o.QUIC)
	dir, id := s.join()
	node := startChild(t, childOptions{Role: "node", Dir: dir, QUIC: way.front.LocalAddr().String(), Witness: s.witness})
	s.awaitNode(id)

	type told struct {
		size   int64
		result capabilities.Result
	}
	var stop atomic.Bool
	var mu sync.Mutex
	all := map[string]told{}
	var working sync.WaitGroup
	for i := range 3 {
		working.Go(func() {
			sizes := rand.New(rand.NewPCG(uint64(i), 5))
			for n := 0; !stop.Load(); n++ {
				name, size := fmt.Sprintf("file-%d-%d", i, n), sizes.Int64N(1<<20)
				r := s.persist(site.ToolCapture, fmt.Sprintf(`{"text":%q,"size":%d}`, name, size), name)
				mu.Lock()
				all[name] = told{size, r}
				mu.Unlock()
				if didNotRun[r.Code] {
					time.Sleep(10 * time.Millisecond) // the node is away: nothing to hammer on
				}
			}
		})
	}
	for range kills {
		way.delay.Store(rng.Int64N(int64(100 * time.Millisecond)))
		way.loss.Store(rng.Int64N(200))
		s.awaitNode(id)
		time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Second)))) // at any moment of a file's way
		if rng.IntN(2) == 0 {
			node.kill()
			node = startChild(t, node.o)
		} else {
			s.child.kill()
			s.restart()
		}
	}
	way.delay.Store(0)
	way.loss.Store(0)
	s.awaitNode(id)
	stop.Store(true)
	working.Wait()

	// In calm, everything goes through.
	last := s.persist(site.ToolCapture, `{"text":"last","size":3000000}`, "last")
	if last.Status != capabilities.StatusOK {
		t.Errorf("afterwards: %+v", last)
	}
	all["last"] = told{3_000_000, last}

	token, err := os.ReadFile(s.o.Dir + "/agent.token")
	must(t, err)
	c, err := client.New(s.o.HTTP, client.NewToken(string(token)))
	must(t, err)
	whole, codes := 0, map[capabilities.Code]int{}
	for name, a := range all {
		want := sha256.New()
		_, _ = io.Copy(want, site.Content(name, a.size))
		sum := capabilities.ArtifactIDOf([32]byte(want.Sum(nil)))
		if a.result.Status == capabilities.StatusOK {
			if len(a.result.Artifacts) != 1 || a.result.Artifacts[0].ID != sum || a.result.Artifacts[0].Code != "" || a.result.Artifacts[0].Size != a.size {
				t.Errorf("%s was told %+v", name, a.result)
				continue
			}
			if err := c.FetchArtifact(ctx(), sum, io.Discard); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			whole++
			continue
		}
		if a.result.Code == "" {
			t.Errorf("%s ended %s without a code", name, a.result.Status)
		}
		codes[a.result.Code]++
	}
	// A listed artifact is whole, whatever its call was told.
	list, err := c.Artifacts(ctx(), "", 1000)
	must(t, err)
	for _, a := range list {
		if err := c.FetchArtifact(ctx(), a.ID, io.Discard); err != nil {
			t.Errorf("listed %s: %v", a.ID, err)
		}
	}
	if status, body := s.admin.do(http.MethodGet, "/healthz", ""); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	s.check()
	t.Logf("%d kills: %d files whole, %d listed, the others reported: %v", kills, whole, len(list), codes)
}
