package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/handrail-dev/handrail/gateway/client"
)

// storm carries a schedule out.
type storm struct {
	*fleet
	plan     []Fault
	database sync.Mutex
	stopping sync.Mutex   // one stop at a time
	calm     sync.RWMutex // a stop in calm times has it alone
	links    []sync.Mutex // of each gateway's relay

	mu    sync.Mutex
	halts []Halt
	did   map[Kind]int
}

func newStorm(f *fleet, o options) *storm {
	s := &storm{fleet: f, links: make([]sync.Mutex, len(f.gateways)), did: map[Kind]int{}}
	has := s.has
	if len(o.only) > 0 {
		has = func(k Kind) bool { return slices.Contains(o.only, k) && s.has(k) }
	}
	s.plan = Plan(o.seed, o.length, len(f.gateways), len(f.nodes), has, o.long)
	return s
}

// has reports whether this machine lets a kind of fault be made.
func (s *storm) has(k Kind) bool {
	switch k {
	case SplitGateways:
		return s.net.apart
	case FillNode:
		return s.mounts
	}
	return true
}

// run breaks things until the schedule is over and all is mended.
func (s *storm) run() {
	var going sync.WaitGroup
	defer going.Wait()
	began := time.Now()
	for _, f := range s.plan {
		time.Sleep(time.Until(began.Add(f.At)))
		going.Go(func() {
			if f.Kind == CalmStop {
				s.calm.Lock()
				defer s.calm.Unlock()
			} else {
				s.calm.RLock()
				defer s.calm.RUnlock()
			}
			s.t.Logf("%6.1fs %s", time.Since(began).Seconds(), f)
			s.mu.Lock()
			s.did[f.Kind]++
			s.mu.Unlock()
			s.fault(f)
		})
	}
}

func (s *storm) fault(f Fault) {
	first := s.gateways[f.First%len(s.gateways)]
	switch f.Kind {
	case KillGateway, EndGateway, FreezeGateway:
		s.process(first.process, f)
	case KillNode, FreezeNode:
		s.process(s.nodes[f.First].process, f)
	case StartBeside:
		s.beside(f)
	case SplitGateways:
		s.net.part(f.First, f.Second, true)
		time.Sleep(f.Lasts)
		s.net.part(f.First, f.Second, false)
	case CutDatabase:
		first.way.Set(true)
		time.Sleep(f.Lasts)
		first.way.Set(false)
	case CutNodes:
		s.weather(f, Weather{Cut: f.Share})
	case Lossy:
		s.weather(f, Weather{Loss: f.Share, Delay: 120 * time.Millisecond})
	case FillNode:
		s.fill(s.nodes[f.First], f.Lasts)
	case EndDatabase, KillDatabase:
		s.database.Lock()
		defer s.database.Unlock()
		if f.Kind == KillDatabase {
			s.server.Kill()
		} else {
			s.server.Stop()
		}
		time.Sleep(f.Lasts)
		s.server.Go()
	case StopAll, CalmStop:
		s.halt(f)
	}
}

func (s *storm) process(p *process, f Fault) {
	p.busy.Lock()
	defer p.busy.Unlock()
	switch f.Kind {
	case FreezeGateway, FreezeNode:
		p.signal(syscall.SIGSTOP)
		time.Sleep(f.Lasts)
		p.signal(syscall.SIGCONT)
	case EndGateway:
		p.down(syscall.SIGTERM, f.Lasts)
	default:
		p.down(syscall.SIGKILL, f.Lasts)
	}
}

// beside kills a gateway, and has another stand still while that one starts: what the other has
// begun is open then, and it goes on with it later.
func (s *storm) beside(f Fault) {
	first, second := s.gateways[f.First].process, s.gateways[f.Second].process
	for i, g := range s.gateways { // in one order, since two may overlap
		if i == f.First || i == f.Second {
			g.busy.Lock()
			defer g.busy.Unlock()
		}
	}
	first.down(syscall.SIGKILL, 0)
	second.signal(syscall.SIGSTOP)
	time.Sleep(f.Lasts)
	second.signal(syscall.SIGCONT)
}

func (s *storm) weather(f Fault, w Weather) {
	s.links[f.First].Lock()
	defer s.links[f.First].Unlock()
	s.gateways[f.First].relay.Set(w)
	time.Sleep(f.Lasts)
	s.gateways[f.First].relay.Set(Weather{})
}

// fill leaves a node no room on its disk for a while.
func (s *storm) fill(n *node, lasts time.Duration) {
	n.busy.Lock()
	defer n.busy.Unlock()
	at := filepath.Join(n.data, "filler")
	file, err := os.Create(at)
	if err != nil {
		s.t.Error(err)
		return
	}
	block := make([]byte, 64<<10)
	for size := len(block); size > 0; {
		if _, err := file.Write(block[:size]); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			s.t.Error(err)
			break
		}
	}
	time.Sleep(lasts)
	_ = file.Close()
	if err := os.Remove(at); err != nil {
		s.t.Error(err)
	}
}

// settled is how long everything is left alone before a stop in calm times.
const settled = 12 * time.Second

// halt stops everything at one gateway, waits, and has it go on at another, where the first try may
// find nobody.
func (s *storm) halt(f Fault) {
	s.stopping.Lock()
	defer s.stopping.Unlock()
	if f.Kind == CalmStop {
		time.Sleep(settled)
	}
	h := Halt{Calm: f.Kind == CalmStop}
	if !s.turn(f.First, func(ctx context.Context, c *client.Client) error {
		_, err := c.Stop(ctx, "chaos")
		return err
	}) {
		h.Calm = false
	}
	h.Said = time.Now()
	time.Sleep(max(f.Lasts, 2*grace))
	h.Resumed = time.Now()
	if !s.turn(f.Second, func(ctx context.Context, c *client.Client) error {
		_, err := c.Resume(ctx, "chaos")
		return err
	}) {
		s.t.Error("nothing goes on after a stop: no gateway takes it back")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halts = append(s.halts, h)
}

// turn asks one gateway after the other until one has turned the switch.
func (s *storm) turn(from int, ask func(context.Context, *client.Client) error) bool {
	for until := time.Now().Add(within); time.Now().Before(until); from++ {
		ctx, cancel := context.WithTimeout(context.Background(), 3*seconds)
		err := ask(ctx, s.gateways[from%len(s.gateways)].admin)
		cancel()
		if err == nil {
			return true
		}
		time.Sleep(rand.N(200 * time.Millisecond))
	}
	return false
}

// summary is how often each kind of fault was made.
func (s *storm) summary() string {
	out := ""
	for _, w := range weights {
		if n := s.did[w.kind]; n > 0 {
			out += fmt.Sprintf("%d x %s, ", n, w.kind)
		} else if !s.has(w.kind) {
			out += fmt.Sprintf("not to be had here: %s, ", w.kind)
		}
	}
	return out
}
