package gateway

import (
	"context"
	"crypto/subtle"
	"slices"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/consent"
)

// askEvery is how often it is looked who has hands where while something waits: hands end
// by themselves.
const askEvery = time.Second

// askDevices tells each node what the person there may answer by the keys of the device,
// until ctx ends: while an agent has its hands on it, and nothing else.
func (g *Gateway) askDevices(ctx context.Context) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	told := map[capabilities.NodeID]bool{}
	for {
		news, nodes := g.Consent.Changed(), g.Nodes.Changed()
		waiting := g.asked.Approvals()
		if len(waiting) > 0 || len(told) > 0 {
			g.putQuestions(waiting, told)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-news:
		case <-nodes:
		case <-tick.C:
		}
	}
}

// putQuestions tells the nodes side by side; told are those that have questions.
func (g *Gateway) putQuestions(waiting []consent.Approval, told map[capabilities.NodeID]bool) {
	hands := g.handsOn()
	lists := map[capabilities.NodeID][]wire.Question{}
	for id := range told {
		lists[id] = nil
	}
	for _, a := range waiting {
		if a.AtDevice(a.Node) != nil || !slices.Contains(hands, a.Node) || len(lists[a.Node]) == wire.MaxQuestions {
			continue
		}
		if q, ok := g.atDevice(a); ok {
			lists[a.Node] = append(lists[a.Node], q)
		}
	}
	var telling sync.WaitGroup
	defer telling.Wait()
	for id, list := range lists {
		if told[id] = len(list) > 0; !told[id] {
			delete(told, id)
		}
		telling.Go(func() { g.Nodes.Put(id, list) })
	}
}

// handsSoon bounds the wait for other gateways where a list is made anew again and again.
const handsSoon = 2 * time.Second

// handsOn returns the nodes on which an agent has its hands, by calls of any gateway.
func (g *Gateway) handsOn() []capabilities.NodeID {
	ctx, cancel := context.WithTimeout(context.Background(), handsSoon)
	defer cancel()
	hands, err := g.asked.HandsThere(ctx)
	if err != nil {
		g.log.Warn("gateway.hands", "err", err)
		return nil
	}
	nodes := make([]capabilities.NodeID, 0, len(hands))
	for _, h := range hands {
		nodes = append(nodes, h.Node)
	}
	return nodes
}

// atDevice makes a question as its device shows it; false if it is over.
func (g *Gateway) atDevice(a consent.Approval) (wire.Question, bool) {
	t, open := g.asked.Told(a.ID, false)
	if !open {
		return wire.Question{}, false
	}
	n := t.Notice(&a)
	return wire.Question{ID: a.ID, Who: n.Who, What: n.What, Lines: n.Lines, NoOnly: !n.Whole, Expires: a.Expires.UnixMilli()}, true
}

// verdict judges what the person at a device answered by its keys: it is to the question as
// it stands now or to none.
func (g *Gateway) verdict(node capabilities.NodeID, v wire.Verdict) error {
	a, err := g.asked.Approval(v.ID)
	if err != nil {
		return err
	}
	if err := a.AtDevice(node); err != nil {
		return err
	}
	if a.State == consent.StatePending { // else Answer says what became of it
		q, open := g.atDevice(a)
		now := q.Digest()
		switch {
		case !open || subtle.ConstantTimeCompare(now[:], v.Digest[:]) != 1:
			return capabilities.Errorf(capabilities.CodeConflict, "the question has changed since it was shown, so nothing was answered")
		case v.Allow && q.NoOnly:
			return capabilities.Errorf(capabilities.CodeForbidden, "the device cannot show all of this question, so it is not allowed there")
		case v.Allow && !slices.Contains(g.handsOn(), node):
			return capabilities.Errorf(capabilities.CodeConflict,
				"no agent has its hands on this device any more, so it is allowed in the console again")
		}
	}
	// Its own time: the connection may end with the answer on its way.
	_, err = g.asked.Answer(context.Background(), v.ID,
		consent.Answer{Allow: v.Allow, By: consent.DeviceOwner(node), Via: consent.ViaDevice, Device: node})
	return err
}
