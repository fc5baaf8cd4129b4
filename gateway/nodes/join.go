package nodes

import (
	"context"
	"sort"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/pairing"
)

// waiter is a device whose connection waits for a person's decision.
type waiter struct {
	conn    *quic.Conn
	decided chan *record // takes one
}

// join serves a device that showed a self-signed certificate: one offer, one
// verdict, then, once it is approved, its certificate. It can do nothing else.
func (n *Nodes) join(conn *quic.Conn, peer pairing.Peer, known func()) wire.CloseCode {
	ctx, cancel := context.WithTimeout(conn.Context(), helloTimeout)
	defer cancel()
	stream, err := conn.AcceptStream(ctx)
	if err != nil {
		return wire.CloseProtocol
	}
	_ = stream.SetDeadline(time.Now().Add(helloTimeout))
	session, err := pairingSession(conn, peer)
	if err != nil {
		return wire.CloseInternal
	}
	var r *record
	var wait *waiter
	answered := false
	_, err = pairing.Answer(stream, session,
		func(o *pairing.Offer, proved func(pairing.ProofKey) bool) (*pairing.Verdict, pairing.ProofKey, error) {
			answered = true
			var key pairing.ProofKey
			var err error
			if r, key, err = n.admit(ctx, o, peer.Key, proved); err != nil {
				return nil, key, err
			}
			// Waiting begins before the verdict leaves, so that no decision is missed.
			r, wait = n.await(r.id, conn)
			return &pairing.Verdict{State: r.state, Node: r.id}, key, nil
		})
	if wait != nil {
		defer n.leave(r.id, wait)
	}
	if err != nil {
		n.log.Warn("node.join_refused", "remote", conn.RemoteAddr().
			String(), "key", pairing.Fingerprint(peer.Key), "code", capabilities.CodeOf(err), "err", err)
		if !answered {
			return wire.CloseProtocol // that was no offer
		}
		// The refusal is on its way: the device closes once it has read it.
		n.awaitClose(conn)
		return wire.CloseDone
	}
	known()
	for r.state == pairing.StatePending {
		select {
		case <-conn.Context().Done():
			return wire.CloseDone
		case r = <-wait.decided:
		}
	}
	switch r.state {
	case pairing.StateDenied:
		return wire.CloseDenied
	case pairing.StateRevoked:
		return wire.CloseRevoked
	}
	cert, err := n.opts.Site.CertifyNode(r.id, peer.Key, n.opts.Now())
	if err != nil {
		return wire.CloseInternal
	}
	_ = stream.SetDeadline(time.Now().Add(helloTimeout))
	if err := wire.Write(stream, &wire.Approved{Node: r.id, Cert: cert.Raw, Trust: r.trust, Label: r.label, Allow: r.allow}); err != nil {
		return wire.CloseDone
	}
	n.awaitClose(conn)
	return wire.CloseJoined
}

func pairingSession(conn *quic.Conn, peer pairing.Peer) (pairing.Session, error) {
	tls := conn.ConnectionState().TLS
	binding, err := tls.ExportKeyingMaterial(pairing.ExporterLabel, nil, 32)
	return pairing.Session{Binding: binding, Node: peer.Key}, err
}

// awaitClose returns the device time to read the last word and close, because
// closing first would throw away what is on its way.
func (n *Nodes) awaitClose(conn *quic.Conn) {
	timer := time.NewTimer(helloTimeout)
	defer timer.Stop()
	select {
	case <-conn.Context().Done():
	case <-timer.C:
	}
}

// await registers the connection as the one that waits for a decision on the node, and returns the
// record as it is now.
func (n *Nodes) await(id capabilities.NodeID, conn *quic.Conn) (*record, *waiter) {
	w := &waiter{conn: conn, decided: make(chan *record, 1)}
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := n.waiting[id]; old != nil {
		go closeWith(old.conn, wire.CloseTakenOver)
	}
	n.waiting[id] = w
	return n.roster[id], w
}

func (n *Nodes) leave(id capabilities.NodeID, w *waiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting[id] == w {
		delete(n.waiting, id)
	}
}

// tellWaiting hands a decision to the device, if it waits.
func (n *Nodes) tellWaiting(r *record) {
	n.mu.RLock()
	w := n.waiting[r.id]
	n.mu.RUnlock()
	if w != nil {
		select {
		case w.decided <- r:
		default:
		}
	}
}

func sortUses(uses []InviteUse) {
	sort.Slice(uses, func(i, j int) bool { return uses[j].At.Before(uses[i].At) })
}
