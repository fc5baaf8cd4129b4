//go:build linux

package console

import (
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	x "github.com/handrail-dev/handrail/test/desk"
)

// relay stands between a viewer and a node's media port: what it is told to, it holds
// up or loses.
type relay struct {
	conn *net.UDPConn
	node *net.UDPAddr
	dark atomic.Bool
	mu   sync.Mutex // above what follows
	rnd  *rand.Rand
	loss float64
	hold time.Duration           // at least
	more time.Duration           // and by chance as much more, so that one overtakes another
	ways map[string]*net.UDPConn // by the viewer's address
	// moves counts how often the viewer's address changed, overtaken the packets that one
	// behind them overtook.
	moves, overtaken int
	sent, passed     int64 // the numbers of packets
	wg               sync.WaitGroup
}

var hostCandidate = regexp.MustCompile(`(?m)^a=candidate:(\S+) 1 udp (\d+) (\d+\.\d+\.\d+\.\d+) (\d+) typ host.*\r?\n`)

// startRelay puts one into an answer: it returns the answer as the viewer is to see it.
func startRelay(t *testing.T, answer string) (*relay, string) {
	t.Helper()
	var ip, port string
	for _, m := range hostCandidate.FindAllStringSubmatch(answer, -1) {
		if ip == "" || strings.HasPrefix(ip, "127.") {
			ip, port = m[3], m[4]
		}
	}
	if ip == "" {
		t.Fatalf("the answer has no candidate by UDP:\n%s", answer)
	}
	node, err := net.ResolveUDPAddr("udp4", net.JoinHostPort(ip, port))
	must(t, err)
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: node.IP})
	must(t, err)
	r := &relay{conn: conn, node: node, rnd: rand.New(rand.NewPCG(1, 2)), ways: map[string]*net.UDPConn{}}
	r.wg.Go(r.run)
	t.Cleanup(func() {
		_ = conn.Close()
		r.mu.Lock()
		for _, way := range r.ways {
			_ = way.Close()
		}
		r.mu.Unlock()
		r.wg.Wait()
	})
	var lines []string
	for line := range strings.Lines(answer) {
		if !strings.HasPrefix(line, "a=candidate:") {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "")
	candidate := fmt.Sprintf("a=candidate:1 1 udp 2130706431 %s %d typ host\r\n", ip, conn.LocalAddr().(*net.UDPAddr).Port)
	return r, strings.Replace(text, "a=end-of-candidates", candidate+"a=end-of-candidates", 1)
}

// tune sets what is lost and how long the rest is held up, each way: at least hold, and
// by chance as much as more longer.
func (r *relay) tune(loss float64, hold, more time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loss, r.hold, r.more = loss, hold, more
}

// move has the viewer come from another address from now on, as one does that changes
// its network or whose router forgot it.
func (r *relay) move() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, way := range r.ways {
		_ = way.Close()
	}
	clear(r.ways)
	r.moves++
}

func (r *relay) run() {
	buf := make([]byte, 2048)
	for {
		n, from, err := r.conn.ReadFromUDP(buf)
		if err != nil {
			return
		}
		r.mu.Lock()
		way := r.ways[from.String()]
		if way == nil {
			if way, err = net.DialUDP("udp4", nil, r.node); err != nil {
				r.mu.Unlock()
				continue
			}
			r.ways[from.String()] = way
			r.wg.Go(func() { r.back(way, from) })
		}
		r.mu.Unlock()
		r.pass(buf[:n], func(b []byte) { _, _ = way.Write(b) })
	}
}

func (r *relay) back(way *net.UDPConn, to *net.UDPAddr) {
	buf := make([]byte, 2048)
	for {
		n, err := way.Read(buf)
		if err != nil {
			return
		}
		r.pass(buf[:n], func(b []byte) { _, _ = r.conn.WriteToUDP(b, to) })
	}
}

func (r *relay) pass(b []byte, on func([]byte)) {
	r.mu.Lock()
	lost, hold := r.rnd.Float64() < r.loss, r.hold
	if r.more > 0 {
		hold += time.Duration(r.rnd.Int64N(int64(r.more)))
	}
	r.sent++
	number := r.sent
	r.mu.Unlock()
	switch {
	case lost || r.dark.Load():
	case hold > 0:
		b = append([]byte(nil), b...)
		time.AfterFunc(hold, func() {
			r.mu.Lock()
			if number < r.passed {
				r.overtaken++
			}
			r.passed = max(r.passed, number)
			r.mu.Unlock()
			on(b)
		})
	default:
		on(b)
	}
}

// clockBits are the bits of a clock's milliseconds, one square each.
const (
	clockBits = 20
	clockSide = 24
)

// startClock shows the time on the screen in Gray code, from its upper left corner on,
// anew every so often; stop ends it.
func startClock(t *testing.T, d *x.Desk, every time.Duration) (stop func()) {
	t.Helper()
	t.Setenv("XAUTHORITY", d.Getenv("XAUTHORITY"))
	c, err := xgb.NewConnDisplay(d.Display)
	must(t, err)
	screen := xproto.Setup(c).DefaultScreen(c)
	w, err := xproto.NewWindowId(c)
	must(t, err)
	must(t, xproto.CreateWindowChecked(c, screen.RootDepth, w, screen.Root, 0, 0, clockBits*clockSide, clockSide, 0, xproto.WindowClassInputOutput, screen.RootVisual,
		xproto.CwBackPixel|xproto.CwOverrideRedirect, []uint32{screen.BlackPixel, 1}).Check())
	must(t, xproto.MapWindowChecked(c, w).Check())
	var pens [2]xproto.Gcontext
	for i, pixel := range []uint32{screen.BlackPixel, screen.WhitePixel} {
		pens[i], err = xproto.NewGcontextId(c)
		must(t, err)
		must(t, xproto.CreateGCChecked(c, pens[i], xproto.Drawable(w), xproto.GcForeground, []uint32{pixel}).Check())
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer c.Close()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			n := time.Now().UnixMilli() & (1<<clockBits - 1)
			n ^= n >> 1
			var squares [2][]xproto.Rectangle
			for i := range clockBits {
				bit := n >> i & 1
				squares[bit] = append(squares[bit], xproto.Rectangle{X: int16(i * clockSide), Width: clockSide, Height: clockSide})
			}
			for i, list := range squares {
				if len(list) > 0 {
					xproto.PolyFillRectangle(c, xproto.Drawable(w), pens[i], list)
				}
			}
			c.Sync()
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	}()
	stop = sync.OnceFunc(func() { close(end); <-ended })
	t.Cleanup(stop)
	return stop
}

// clockReader has the page read the clock from each frame it shows: ages are how old
// each was then, in ms, and latest the time that the last one showed.
var clockReader = fmt.Sprintf(`window.clock = { ages: [], latest: 0, frames: 0, start() {
  const v = whep.video, c = document.createElement("canvas");
  c.width = %[1]d; c.height = 1;
  const g = c.getContext("2d", { willReadFrequently: true }), span = 1 << %[1]d;
  const next = (now, frame) => {
    g.drawImage(v, 0, %[2]d / 2 - 1, %[1]d * %[2]d, 2, 0, 0, %[1]d, 1);
    const d = g.getImageData(0, 0, %[1]d, 1).data;
    let n = 0, b = 0;
    for (let i = %[1]d - 1; i >= 0; i--) { b ^= d[i * 4] > 127 ? 1 : 0; n = n * 2 + b; }
    const shown = performance.timeOrigin + Math.max(now, frame.expectedDisplayTime), at = Math.floor(shown) %% span;
    let age = at - n; if (age < -span / 2) age += span; if (age > span / 2) age -= span;
    this.ages.push(age); this.latest = shown - age; this.frames++;
    v.requestVideoFrameCallback(next);
  };
  v.requestVideoFrameCallback(next);
} }; clock.start(); true`, clockBits, clockSide)
