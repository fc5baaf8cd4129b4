package site

import (
	"context"

	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Lie has a program that runs nothing take the node's place: it says that it is as ready as the
// node was, and answers each ticket as it is told to. It is what a gateway has to expect of a
// device that somebody took over.
func (n *Node) Lie(answer func(*wire.Ticket) wire.Answer) {
	n.LieBy(func(_ context.Context, t *wire.Ticket, s link.Sink) { s.Answer(answer(t), nil) })
}

// LieBy is Lie for a program that does more in a call than to answer it, such as taking steps.
func (n *Node) LieBy(serve func(context.Context, *wire.Ticket, link.Sink)) {
	n.site.T.Helper()
	var ready []capabilities.Readiness
	for _, one := range n.site.Gateway.Nodes.Snapshot() {
		for _, r := range one.Readiness {
			if one.ID == n.ID && r.Reason != capabilities.ReasonNotAdvertised {
				ready = append(ready, r)
			}
		}
	}
	n.Stop()
	n.AwaitGone()
	l, err := link.New(link.Options{
		Dir: n.Dir, Addrs: []string{n.site.quic},
		Serve:     serve,
		Journal:   func(context.Context, *wire.JournalAsk) []wire.JournalState { return nil },
		Hello:     func() wire.Hello { return wire.Hello{Agent: "liar", Platform: "linux", Arch: "amd64"} },
		Readiness: func(context.Context) []capabilities.Readiness { return ready },
	})
	must(n.site.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	n.stop = func() {
		cancel()
		<-done
		n.stop = nil
	}
	n.AwaitReady()
}
