package site

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front/rest"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/pairing"
)

// Within bounds every wait in these tests; it is never what a test measures.
const Within = 60 * time.Second

// Site is one gateway with its nodes.
type Site struct {
	T   testing.TB
	Dir string
	Log *slog.Logger
	*gateway.Gateway
	stop func()
	http string
	quic string
	wait time.Duration
	logs rest.NodeLogs
	door func(*gateway.Options)

	Drifts bool // the test has calls do what they are not granted
}

// Options of Start. The zero value is a gateway with the fixture family permitted.
type Options struct {
	Rules string // Cedar text beside the default; default Rules
	// ApprovalWait is how long a call waits for a person; default: nobody is asked.
	ApprovalWait time.Duration
	Log          *slog.Logger // default: warnings go to the test
	// Default is Cedar text in place of the shipped policy.
	Default string
	// NodeLogs reads logs of nodes for comparisons; default: nothing does.
	NodeLogs rest.NodeLogs
	// Door changes how the gateway is reached; default: HTTP on loopback.
	Door func(*gateway.Options)
}

// Start runs a gateway until the test ends.
func Start(t testing.TB, o Options) *Site {
	t.Helper()
	s := &Site{
		T: t, Dir: t.TempDir(), wait: o.ApprovalWait, door: o.Door, logs: o.NodeLogs,
		Log: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if o.Log != nil {
		s.Log = o.Log
	}
	if o.Rules == "" {
		o.Rules = Rules
	}
	if o.Default == "" {
		o.Default = string(policy.DefaultSource())
	}
	rules := filepath.Join(s.Dir, "policy")
	must(t, os.MkdirAll(rules, 0o700))
	must(t, os.WriteFile(filepath.Join(rules, "default.cedar"), []byte(o.Default), 0o600))
	must(t, os.WriteFile(filepath.Join(rules, "test.cedar"), []byte(o.Rules), 0o600))
	s.http, s.quic = "127.0.0.1:0", "127.0.0.1:0"
	s.open()
	t.Cleanup(func() {
		s.driftless()
		s.stop()
	})
	return s
}

// driftless fails a test in which a call did what it was not granted, unless it is about that
// (S1-43): the tests are the corpus in which nothing drifts.
func (s *Site) driftless() {
	if s.Drifts || s.T.Failed() || s.Gateway == nil {
		return
	}
	for _, kind := range []ledger.Kind{
		ledger.KindDrift, ledger.KindDriftUncounted, ledger.KindQuarantined, ledger.KindRestricted,
	} {
		packets, err := s.Gateway.Ledger.Packets(context.Background(), ledger.Query{Kind: kind})
		if err != nil { // the test broke the store
			return
		}
		for _, p := range packets {
			s.T.Errorf("%s of %s: %s", kind, p.Tool, p.Body)
		}
	}
}

func (s *Site) open() {
	s.T.Helper()
	cat, err := Catalog()
	must(s.T, err)
	o := gateway.Options{
		Dir: s.Dir, HTTP: s.http, QUIC: s.quic, Catalog: cat, Version: "test", Log: s.Log,
		ApprovalWait: s.wait, NodeLogs: s.logs,
	}
	if s.door != nil {
		s.door(&o)
	}
	g, err := gateway.Open(context.Background(), o)
	must(s.T, err)
	s.Gateway = g
	s.http, s.quic = g.HTTPAddr().String(), g.QUICAddr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-done; err != nil {
			s.T.Errorf("gateway: %v", err)
		}
		g.Close()
		s.stop = func() {}
	}
}

// Restart stops the gateway in good order and starts it again at the same
// addresses.
func (s *Site) Restart() {
	s.T.Helper()
	s.stop()
	s.open()
}

// URL is the base address of the HTTP surfaces.
func (s *Site) URL() string {
	if s.Certificate() != nil {
		return "https://" + s.http
	}
	return "http://" + s.http
}

// MustToken makes a token and returns its secret.
func (s *Site) MustToken(p capabilities.PrincipalID, role principal.Role) string {
	s.T.Helper()
	_, secret, err := s.Tokens.Create(context.Background(), principal.Site,
		principal.Spec{Principal: p, Role: role, Lane: capabilities.LaneID(p)})
	must(s.T, err)
	return secret.Reveal()
}

// Grant returns what policy asks a person about, for an hour: those tools on the
// node, in any lane of the principal's.
func (s *Site) Grant(p capabilities.PrincipalID, n *Node, tools ...string) {
	s.T.Helper()
	_, err := s.Consent.Grant(context.Background(), consent.Spec{
		Principal: p, Tools: tools, Node: n.ID, AnyLane: true, For: consent.MaxLease, Approver: "admin",
	})
	must(s.T, err)
}

// Node is one node agent of a Site.
type Node struct {
	*agent.Agent
	ID   capabilities.NodeID
	Dir  string
	Warm bool // from the next Start on
	// More changes what the agent is made with, from the next Start on.
	More func(*agent.Options)
	site *Site
	hs   []capabilities.Handler
	stop func()
}

// AddNode pairs a node with those handlers and runs it until the test ends.
func (s *Site) AddNode(label string, hs ...capabilities.Handler) *Node {
	s.T.Helper()
	return s.AddNodeWith(label, nil, hs...)
}

// AddNodeWith is AddNode for an agent that is made with more.
func (s *Site) AddNodeWith(label string, more func(*agent.Options), hs ...capabilities.Handler) *Node {
	s.T.Helper()
	_, paste, err := s.Nodes.Invite(context.Background(),
		nodes.InviteSpec{By: "admin", Label: label, Trust: "test", AutoApprove: true, Allow: []string{"*"}})
	must(s.T, err)
	paste.Addrs = []string{s.quic}
	n := &Node{Dir: s.T.TempDir(), More: more, site: s, hs: hs}
	must(s.T, os.Chmod(n.Dir, 0o700))
	id, err := link.Join(context.Background(), paste,
		link.JoinOptions{Dir: n.Dir, Profile: pairing.Profile{Host: label, Offers: agent.Offers(hs)}})
	must(s.T, err)
	n.ID = id.Node
	n.Start()
	s.T.Cleanup(n.Stop)
	return n
}

// Start runs the node and waits until the gateway knows what it can do.
func (n *Node) Start() {
	n.site.T.Helper()
	cat, err := Catalog()
	must(n.site.T, err)
	o := agent.Options{
		Dir: n.Dir, Handlers: n.hs, Catalog: cat, Addrs: []string{n.site.quic}, Version: "test", Warm: n.Warm, Log: n.site.Log,
	}
	if n.More != nil {
		n.More(&o)
	}
	n.Agent, err = agent.New(o)
	must(n.site.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Agent.Run(ctx) }()
	n.stop = func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, &capabilities.Error{Code: capabilities.CodeNodeRevoked}) {
			n.site.T.Errorf("node: %v", err)
		}
		n.stop = nil
	}
	n.AwaitReady()
}

// Offer has the next start of the node agent offer these: the last ones were closed with it.
func (n *Node) Offer(hs ...capabilities.Handler) { n.hs = hs }

// Stop ends the node agent; it stays paired.
func (n *Node) Stop() {
	if n.stop != nil {
		n.stop()
	}
}

// AwaitReady waits until the gateway sees the node connected and knows its readiness;
// and until these capabilities of it are ready: a desktop opens in its own time, and is
// said to be missing until then.
func (n *Node) AwaitReady(these ...capabilities.CapabilityID) {
	n.site.T.Helper()
	n.site.Await("node "+string(n.ID)+" to be ready", func() bool {
		for _, r := range n.site.Nodes.Snapshot() {
			if r.ID == n.ID {
				return r.Connected && len(r.Readiness) > 0 && !slices.ContainsFunc(these, func(c capabilities.CapabilityID) bool {
					is, told := r.Readiness[c]
					return !told || !is.Ready()
				})
			}
		}
		return false
	})
}

// AwaitGone waits until the gateway sees the node disconnected.
func (n *Node) AwaitGone() {
	n.site.T.Helper()
	n.site.Await("node "+string(n.ID)+" to be gone", func() bool {
		for _, r := range n.site.Nodes.Snapshot() {
			if r.ID == n.ID {
				return !r.Connected
			}
		}
		return true
	})
}

// Await waits until ok holds, asking at every change of the roster.
func (s *Site) Await(what string, ok func() bool) {
	s.T.Helper()
	deadline := time.After(Within)
	for {
		changed := s.Nodes.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			s.T.Fatalf("slow: waited in vain for %s", what)
		}
	}
}

// Call makes one call as an agent in its own lane.
func (s *Site) Call(ctx context.Context, tool capabilities.ToolID, args string, request capabilities.RequestID) capabilities.Result {
	return s.Dispatcher.Call(ctx, dispatch.Request{
		Caller: dispatch.Caller{Principal: "agent", Role: "agent", Lane: "main"},
		Tool:   tool, Args: []byte(args), RequestID: request, Surface: "test",
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// testWriter sends log lines to the test they belong to.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// Move stops the gateway in good order, and goes on with another folder of one at the same
// addresses: a copy that was made of this site.
func (s *Site) Move(dir string) {
	s.T.Helper()
	s.stop()
	s.Dir = dir
	s.open()
}

// Stray stops the gateway in good order and runs the one of another folder at its addresses until
// that ends by itself. It returns why, and leaves no gateway.
func (s *Site) Stray(dir string) error {
	s.T.Helper()
	s.stop()
	cat, err := Catalog()
	must(s.T, err)
	g, err := gateway.Open(context.Background(), gateway.Options{
		Dir: dir, HTTP: s.http, QUIC: s.quic, Catalog: cat, Version: "test", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer g.Close()
	ctx, cancel := context.WithTimeout(context.Background(), Within)
	defer cancel()
	return g.Run(ctx)
}
