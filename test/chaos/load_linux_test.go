package chaos

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/client"
)

// load is agents that make calls at any gateway, and a person who answers questions.
type load struct {
	*fleet
	over     chan struct{} // nothing new is begun
	deadline atomic.Int64  // when those who still try give up; 0: not yet known
	next     atomic.Int64

	mu    sync.Mutex
	told  []Told
	ends  map[string]int
	asks  atomic.Int64
	works atomic.Int64 // pieces of admin work that were answered
}

// agent is one principal, at each gateway.
type agent struct {
	name capabilities.PrincipalID
	at   []*client.Client
}

func newLoad(f *fleet) *load {
	return &load{fleet: f, over: make(chan struct{}), ends: map[string]int{}}
}

func (l *load) agent(rng *rand.Rand, name string) *agent {
	for range 20 {
		g := l.gateways[rng.IntN(len(l.gateways))]
		ctx, cancel := context.WithTimeout(context.Background(), 5*seconds)
		_, token, err := g.admin.CreateToken(ctx, capabilities.PrincipalID(name), "agent", "", 0)
		cancel()
		if err != nil {
			pause(rng, 300*time.Millisecond)
			continue
		}
		a := &agent{name: capabilities.PrincipalID(name)}
		for i := range l.gateways {
			a.at = append(a.at, l.fleet.at(i, token))
		}
		return a
	}
	return nil // there is too much chaos just now
}

func pause(rng *rand.Rand, most time.Duration) { time.Sleep(below(rng, most)) }

func (l *load) isOver() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// run makes calls until it is over, then waits for those under way.
func (l *load) run(o options) {
	var working, answering sync.WaitGroup
	for i := range o.callers {
		working.Go(func() { l.calls(i, rand.New(rand.NewPCG(o.seed, uint64(i)+100))) })
	}
	for i := range o.clerks {
		working.Go(func() { l.administers(rand.New(rand.NewPCG(o.seed, uint64(i)+60))) })
	}
	working.Go(func() { l.grants(rand.New(rand.NewPCG(o.seed, 50))) })
	done := make(chan struct{})
	answering.Go(func() { l.answers(rand.New(rand.NewPCG(o.seed, 51)), done) })
	working.Wait()
	close(done)
	answering.Wait()
}

func (l *load) answered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.told)
}

// calls makes one call after the other.
func (l *load) calls(i int, rng *rand.Rand) {
	var a *agent
	for a == nil && !l.isOver() {
		a = l.agent(rng, fmt.Sprintf("agent%d", i))
	}
	for !l.isOver() {
		lane := capabilities.LaneID(fmt.Sprintf("free-%d", i))
		if rng.IntN(40) == 0 {
			lane = capabilities.LaneID(fmt.Sprintf("asked-%d", i))
		}
		l.request(rng, a, lane, l.nodes[rng.IntN(len(l.nodes))], 1+rng.IntN(8)/7)
		pause(rng, 100*time.Millisecond)
	}
}

// request is one call, made at several gateways at once where times is more than one.
func (l *load) request(rng *rand.Rand, a *agent, lane capabilities.LaneID, n *node, times int) {
	request := capabilities.RequestID(fmt.Sprintf("r%d", l.next.Add(1)))
	command := fmt.Sprintf("echo $EPOCHREALTIME >> effects/%s", request)
	if rng.IntN(4) == 0 {
		command += fmt.Sprintf("; sleep 0.%d", 1+rng.IntN(9))
	}
	call := client.Call{Tool: bash, Lane: lane, RequestID: request, Args: map[string]any{
		"command": command, "timeout_ms": 5000, "node_id": string(n.id),
	}}
	var all sync.WaitGroup
	for range times {
		own := rand.New(rand.NewPCG(rng.Uint64(), 3))
		all.Go(func() { l.carry(own, a, call) })
	}
	all.Wait()
}

// patience is how long a caller repeats one request.
const patience = 40 * time.Second

// carry makes a call and repeats it elsewhere until it has an end that stays.
func (l *load) carry(rng *rand.Rand, a *agent, call client.Call) {
	until := time.Now().Add(patience)
	for time.Now().Before(until) {
		if d := l.deadline.Load(); d != 0 && time.Now().UnixNano() > d {
			return
		}
		i := rng.IntN(len(a.at))
		wait := 8 * time.Second
		if rng.IntN(12) == 0 { // a caller that does not wait
			wait = below(rng, 300*time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		r, err := a.at[i].Call(ctx, call)
		cancel()
		if err != nil {
			pause(rng, 300*time.Millisecond)
			continue
		}
		l.mu.Lock()
		l.told = append(l.told, Told{Request: call.RequestID, Call: r.Call, Status: r.Status, Code: r.Code, Gateway: i})
		l.ends[string(r.Status)+" "+string(r.Code)]++
		l.mu.Unlock()
		switch {
		case r.Status == capabilities.StatusOK:
			return
		case r.Code == capabilities.CodeStopped: // a person has to act
			pause(rng, 2*time.Second)
		case !r.Retryable && r.Code != capabilities.CodeCancelled && r.Code != capabilities.CodeConflict:
			return
		}
		pause(rng, 500*time.Millisecond)
	}
}

// administers makes a token and revokes it, one after the other, at any gateway.
func (l *load) administers(rng *rand.Rand) {
	for !l.isOver() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*seconds)
		made, _, err := l.gateways[rng.IntN(len(l.gateways))].admin.CreateToken(ctx, "clerk", "agent", "", time.Hour)
		if err == nil {
			l.works.Add(1)
			_, err = l.gateways[rng.IntN(len(l.gateways))].admin.RevokeToken(ctx, made.ID)
		}
		cancel()
		if err != nil {
			pause(rng, 300*time.Millisecond)
			continue
		}
		l.works.Add(1)
		pause(rng, 100*time.Millisecond)
	}
}

// grants lets an agent of its own each time use a tool a few times, and has it want more than that
// at once, at all gateways.
func (l *load) grants(rng *rand.Rand) {
	for k := 0; !l.isOver(); k++ {
		name := fmt.Sprintf("lent%d", k)
		a, n := l.agent(rng, name), l.nodes[rng.IntN(len(l.nodes))]
		if a == nil {
			continue
		}
		uses := 1 + rng.IntN(4)
		ctx, cancel := context.WithTimeout(context.Background(), 5*seconds)
		_, err := l.gateways[rng.IntN(len(l.gateways))].admin.Give(ctx, client.Lease{
			Principal: a.name, Tools: []string{string(bash)}, Node: n.id, AnyLane: true, For: 2 * time.Minute, MaxUses: uses,
		})
		cancel()
		if err != nil {
			pause(rng, time.Second)
			continue
		}
		var all sync.WaitGroup
		for range uses + 1 + rng.IntN(4) {
			own := rand.New(rand.NewPCG(rng.Uint64(), 4))
			all.Go(func() { l.request(own, a, "", n, 1+own.IntN(2)) })
		}
		all.Wait()
	}
}

// answers is the person who is asked: most questions are denied, some get a yes for one call, some
// a grant of a few uses.
func (l *load) answers(rng *rand.Rand, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(200 * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*seconds)
		all, err := l.gateways[rng.IntN(len(l.gateways))].admin.Approvals(ctx)
		for _, q := range all {
			if err != nil || q.State != "pending" {
				continue
			}
			answer := client.Answer{Reason: "no"}
			switch rng.IntN(5) {
			case 0, 1:
				answer = client.Answer{Allow: true, Acknowledged: true}
			case 2:
				answer = client.Answer{Allow: true, Acknowledged: true, Kind: "lease", For: time.Minute, MaxUses: 1 + rng.IntN(2)}
			}
			if _, err := l.gateways[rng.IntN(len(l.gateways))].admin.Answer(ctx, q.ID, answer); err == nil {
				l.asks.Add(1)
			}
		}
		cancel()
	}
}

// effects reads what calls wrote.
func (l *load) effects() (map[capabilities.RequestID][]Effect, error) {
	all := map[capabilities.RequestID][]Effect{}
	for _, n := range l.nodes {
		dir := filepath.Join(n.files, "effects")
		files, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				return nil, err
			}
			lines := bufio.NewScanner(strings.NewReader(string(text)))
			for lines.Scan() {
				whole, part, _ := strings.Cut(lines.Text(), ".")
				us, err := strconv.ParseInt(whole+part, 10, 64)
				if err != nil || len(part) != 6 {
					return nil, fmt.Errorf("%s/%s has the line %q", n.label, f.Name(), lines.Text())
				}
				id := capabilities.RequestID(f.Name())
				all[id] = append(all[id], Effect{Node: n.id, At: time.UnixMicro(us)})
			}
		}
	}
	return all, nil
}
