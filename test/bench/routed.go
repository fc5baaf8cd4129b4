package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/test/bench/figures"
)

// plant is a gateway and a node that run, a caller, and the floors.
type plant struct {
	gateway, node, caller, floor *child
	at                           gatewayReady
	floors                       floorReady
}

func (p *plant) end() {
	for _, c := range []*child{p.caller, p.node, p.gateway, p.floor} {
		if c != nil {
			c.end()
		}
	}
}

func (b *bench) plant(name string) (*plant, error) {
	dir, err := b.sub(name)
	if err != nil {
		return nil, err
	}
	p := &plant{}
	nodeDir, err := b.sub(name + "-node")
	if err == nil {
		p.gateway, err = spawn("gateway", gatewayConfig{Dir: dir}, &p.at)
	}
	if err == nil {
		p.node, err = spawn("node", nodeConfig{Dir: nodeDir, Paste: p.at.Paste}, nil)
	}
	if err == nil {
		p.floor, err = spawn("floor", nil, &p.floors)
	}
	if err == nil {
		p.caller, err = spawn("caller", nil, nil)
	}
	if err == nil {
		err = p.awaitReady()
	}
	if err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

func (p *plant) rest() target {
	return target{Kind: "rest", URL: p.at.HTTP + "/v1/calls", Token: p.at.Token}
}

// awaitReady calls until the gateway knows what the node can do.
func (p *plant) awaitReady() error {
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := p.caller.ask(measure{Callers: 1, MS: 100, Target: p.rest()}, nil)
		if err == nil || !strings.Contains(err.Error(), "ambiguous_node_selection") || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Sizes of what travels, for the echoes to carry as much: a ticket with its
// envelope and a no-op's answer; the REST result.
const (
	ticketBytes = 1080
	answerBytes = 100
	resultBytes = 320
)

// routed measures a no-op call from REST to the node and back, beside its parts.
func (b *bench) routed() error {
	p, err := b.plant("routed")
	if err != nil {
		return err
	}
	defer p.end()
	var packets []packet
	if err := p.gateway.ask(order{Do: "packets"}, &packets); err != nil {
		return err
	}
	dir, err := b.sub("commits")
	if err != nil {
		return err
	}
	commits, err := spawn("commits", commitsConfig{Dir: dir, Packets: packets}, nil)
	if err != nil {
		return err
	}
	defer commits.end()

	web := target{Kind: "http", URL: p.floors.HTTP, Receive: resultBytes}
	quic := target{Kind: "quic", URL: p.floors.QUIC, Send: ticketBytes, Receive: answerBytes}
	of := func(by *child, callers int, t target) *subject {
		return &subject{by: by, measure: measure{Callers: callers, MS: b.ms, Target: t}}
	}
	one, http1, quic1, commit1 := of(p.caller, 1, p.rest()), of(p.caller, 1, web), of(p.caller, 1, quic), of(commits, 1, target{})
	if err := b.alternate(one, http1, quic1, commit1); err != nil {
		return err
	}
	apart := []*subject{of(p.caller, 1, p.rest()), of(p.caller, 1, web), of(p.caller, 1, quic), of(commits, 1, target{})}
	together, ok, err := spread([]*child{p.gateway, p.floor, commits}, []*child{p.node, p.caller})
	if err != nil {
		return err
	}
	if ok {
		if err := errors.Join(b.alternate(apart...), together()); err != nil {
			return err
		}
	}
	some := of(p.caller, 16, p.rest())
	many, http64, quic64, commit64 := of(p.caller, 64, p.rest()), of(p.caller, 64, web), of(p.caller, 64, quic), of(commits, 64, target{})
	if err := b.alternate(some, many, http64, quic64, commit64); err != nil {
		return err
	}
	cpu1, err := b.cpuPerCall(p, one)
	if err != nil {
		return err
	}
	cpu, err := b.cpuPerCall(p, many)
	if err != nil {
		return err
	}

	const part = "Routed no-op call: REST, policy, ledger, QUIC, node, journal, and back"
	ms := func(s *subject, get func(sample) float64) float64 { return figures.Median(s.rounds.of(get)) / 1000 }
	floors := func(s []*subject) (over float64, note string) {
		sum := ms(s[1], p50) + ms(s[2], p50) + ms(s[3], p50)
		over = figures.Median(ratios(s[0].rounds.of(p50), s[1].rounds.of(p50), s[2].rounds.of(p50), s[3].rounds.of(p50)))
		return over, fmt.Sprintf("%.2f ms = HTTP echo %.2f + QUIC echo %.2f + commits %.2f", sum, ms(s[1], p50), ms(s[2], p50), ms(s[3], p50))
	}
	if ok {
		over, note := floors(apart)
		const cores = "1 caller, the gateway and the node on cores of their own"
		b.report.add(
			row{Part: part, What: cores + ", p50", Value: ms(apart[0], p50), Unit: "ms"},
			row{Part: part, What: cores + ", p50, over the sum of the floors' p50", Value: over, Unit: "×", Limit: 1.7, Note: note},
		)
	}
	over, note := floors([]*subject{one, http1, quic1, commit1})
	b.report.add(
		row{Part: part, What: "1 caller, p50", Value: ms(one, p50), Unit: "ms"},
		row{Part: part, What: "1 caller, p50, over the sum of the floors' p50", Value: over, Unit: "×", Limit: 1.7, Note: note},
		row{
			Part: part, What: "1 caller, p99", Value: ms(one, p99), Unit: "ms",
			Note: fmt.Sprintf("HTTP echo %.2f, QUIC echo %.2f, commits %.2f", ms(http1, p99), ms(quic1, p99), ms(commit1, p99)),
		},
		row{Part: part, What: "1 caller", Value: figures.Median(one.rounds.of(rate)), Unit: "calls/s",
			Note: fmt.Sprintf("processor time per call: gateway %.0f, node %.0f, caller %.0f µs", cpu1[0], cpu1[1], cpu1[2])},
		row{
			Part: part, What: "16 callers", Value: figures.Median(some.rounds.of(rate)), Unit: "calls/s",
			Note: fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", ms(some, p50), ms(some, p99)),
		},
		row{Part: part, What: "64 callers", Value: figures.Median(many.rounds.of(rate)), Unit: "calls/s", Limit: 4000, Least: true,
			Note: fmt.Sprintf("p50 %.1f ms, p99 %.1f ms; HTTP echo %.0f/s, QUIC echo %.0f/s, commits %.0f/s", ms(many, p50), ms(many, p99),
				figures.Median(http64.rounds.of(rate)), figures.Median(quic64.rounds.of(rate)), figures.Median(commit64.rounds.of(rate)))},
		row{
			Part: part, What: "64 callers, time per call over the sum of the floors'",
			Value: figures.Median(ratios(many.rounds.of(per), http64.rounds.of(per), quic64.rounds.of(per), commit64.rounds.of(per))), Unit: "×",
		},
		row{Part: part, What: "64 callers, processor time per call", Value: cpu[0] + cpu[1] + cpu[2], Unit: "µs",
			Note: fmt.Sprintf("gateway %.0f, node %.0f, caller %.0f", cpu[0], cpu[1], cpu[2])},
	)
	return nil
}

// per is the time one call takes of the machine, in µs.
func per(s sample) float64 { return 1e6 / s.Rate }

// cpuPerCall makes one more measurement of s and returns the processor time in µs that gateway,
// node and caller used for each call of it.
func (b *bench) cpuPerCall(p *plant, s *subject) ([3]float64, error) {
	var used [3]float64
	who := [3]*child{p.gateway, p.node, p.caller}
	if err := b.profiling(p, "profile", s.measure.Callers); err != nil {
		return used, err
	}
	var before [3]time.Duration
	for i, c := range who {
		before[i] = cpuTime(c.pid())
	}
	again := &subject{by: s.by, measure: s.measure}
	again.measure.MS *= 3
	if err := again.once(); err != nil {
		return used, err
	}
	// The warm-up's calls were paid for, too.
	calls := float64(again.rounds[0].N) * (1 + 1.0/warmup)
	for i, c := range who {
		used[i] = float64((cpuTime(c.pid()) - before[i]).Microseconds()) / calls
	}
	return used, b.profiling(p, "profiled", s.measure.Callers)
}

func (b *bench) profiling(p *plant, do string, callers int) error {
	if b.profile == "" {
		return nil
	}
	for name, c := range map[string]*child{"gateway": p.gateway, "node": p.node} {
		if err := c.ask(order{Do: do, File: filepath.Join(b.profile, fmt.Sprint(name, "-", callers, ".prof"))}, nil); err != nil {
			return err
		}
	}
	return nil
}
