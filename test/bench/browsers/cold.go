package main

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/handrail-dev/handrail/test/bench/figures"
)

// starter starts something from nothing and returns the ms until its first page was there.
type starter struct {
	called string
	start  func(view int) (float64, error)
	took   []float64
	fault  error
}

// cold measures from the start of the process to the first page's load.
func (b *bench) cold() error {
	data := filepath.Join(b.dir, "up")
	if err := b.h.policies(data); err != nil {
		return err
	}
	// Paired and with its keys made, as on every day but the first.
	up, err := b.startUp(data)
	if err != nil {
		return err
	}
	if err := up.end(); err != nil {
		return err
	}
	in, err := b.h.install("cold")
	if err != nil {
		return err
	}
	defer in.end()
	all := []*starter{
		{called: "Handrail", start: func(view int) (float64, error) { return b.coldUp(data, view) }},
		{called: "its node and Chrome alone", start: func(view int) (float64, error) { return b.coldNode(in, view) }},
		{called: "raw CDP", start: b.coldBare},
	}
	for _, p := range b.found {
		all = append(all, &starter{called: p.called, start: func(view int) (float64, error) {
			began := time.Now()
			s, err := startPeer(p, b.o.peers, b.dir, b.browser)
			if err != nil {
				return 0, err
			}
			took, err := b.firstPage(s, p.words, began, view)
			return took, errors.Join(err, p.end(s))
		}})
	}
	for round := range b.rounds {
		for i := range all {
			s := all[i]
			if round%2 == 1 {
				s = all[len(all)-1-i]
			}
			if s.fault != nil {
				continue
			}
			took, err := s.start(round + 1)
			if err != nil {
				s.fault = err
				b.say("cold start of %s: %v", s.called, err)
				continue
			}
			s.took = append(s.took, took)
		}
	}
	b.report.cold(all)
	return nil
}

func since(began time.Time) float64 { return float64(time.Since(began).Microseconds()) / 1000 }

// firstPage opens the conversation and the first page.
func (b *bench) firstPage(s *server, words dialect, began time.Time, view int) (float64, error) {
	if err := s.initialize(); err != nil {
		return 0, err
	}
	open := words.navigate(b.site.url("small", view))
	if _, err := s.call(open.tool, open.args); err != nil {
		return 0, err
	}
	took := since(began)
	look := words.evaluate("state()")
	a, err := s.call(look.tool, look.args)
	if err != nil {
		return 0, err
	}
	after, err := readCounts(a.text)
	if err != nil {
		return 0, err
	}
	if err := proven(opNavigate, nil, after, 1, view); err != nil {
		return 0, noEffectError{err}
	}
	return took, nil
}

func (b *bench) startUp(data string) (*process, error) {
	p, err := b.h.start(
		"up", append([]string{"up", "--no-task", "--data", data, "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0"}, b.h.nodeFlags()...)...)
	if err != nil {
		return nil, err
	}
	return p, p.await("ready")
}

// coldUp starts gateway and node by `handrail up`, then a client's `handrail mcp`.
func (b *bench) coldUp(data string, view int) (float64, error) {
	began := time.Now()
	up, err := b.startUp(data)
	if err != nil {
		return 0, err
	}
	s, err := b.h.client(data, "cold-mcp")
	if err != nil {
		return 0, errors.Join(err, up.end())
	}
	took, err := b.firstPage(s, ours, began, view)
	return took, errors.Join(err, s.end(), up.end())
}

// coldNode starts a client where gateway and node run and Chrome does not.
func (b *bench) coldNode(in *installation, view int) (float64, error) {
	if err := in.node.end(); err != nil {
		return 0, err
	}
	if err := in.startNode(); err != nil {
		return 0, err
	}
	// The gateway knows what the node can do once this answers; no Chrome starts.
	probe, waited, err := in.subject()
	if err != nil {
		return 0, err
	}
	_ = waited
	if err := probe.end(); err != nil {
		return 0, err
	}
	began := time.Now()
	s, err := in.h.client(in.data, "cold-mcp")
	if err != nil {
		return 0, err
	}
	took, err := b.firstPage(s, ours, began, view)
	return took, errors.Join(err, s.end())
}

// coldBare starts Chrome and opens the page.
func (b *bench) coldBare(view int) (float64, error) {
	began := time.Now()
	c, err := startBare(b.browser, os.TempDir())
	if err != nil {
		return 0, err
	}
	err = c.navigate(b.site.url("small", view))
	took := since(began)
	return took, errors.Join(err, c.end())
}

func (s *starter) median() float64 { return figures.Median(s.took) }
