package rest

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger"
)

const maxPackets = 1000

func (s *Server) packets(c *visit, _ none) (api.PacketList, error) {
	q := ledger.Query{
		Call: capabilities.CallID(c.param("call")), Kind: ledger.Kind(c.param("kind")), Lane: capabilities.LaneID(c.param("lane")),
	}
	limit, err := c.number("limit", 100, maxPackets)
	if err != nil {
		return api.PacketList{}, err
	}
	q.Limit = int(limit)
	if q.After, err = c.number("after", 0, math.MaxInt64); err != nil {
		return api.PacketList{}, err
	}
	if q.Before, err = c.number("before", 0, math.MaxInt64); err != nil {
		return api.PacketList{}, err
	}
	newest, err := c.flag("newest")
	if err != nil {
		return api.PacketList{}, err
	}
	q.Newest = newest || !c.r.URL.Query().Has("after") && q.Call == ""
	all, err := s.opts.Ledger.Packets(c.r.Context(), q)
	if err != nil {
		return api.PacketList{}, err
	}
	if q.Newest {
		slices.Reverse(all)
	}
	list := api.PacketList{Packets: make([]api.Packet, 0, len(all))}
	for i := range all {
		list.Packets = append(list.Packets, front.ViewPacket(&all[i]))
	}
	return list, nil
}

func (s *Server) head(*visit, none) (chain.Head, error) { return s.opts.Ledger.Head(), nil }

func (s *Server) checkpoint(c *visit, _ none) (api.Checkpoint, error) {
	since, err := c.number("since", 0, math.MaxInt64)
	if err != nil {
		return api.Checkpoint{}, err
	}
	made, err := s.opts.Ledger.Checkpoint(c.r.Context(), since)
	if err != nil {
		return api.Checkpoint{}, err
	}
	out := api.Checkpoint{Checkpoint: made.Text, Key: made.Key, Size: made.Size, Root: made.Root.String(), Consistency: []string{}}
	for _, h := range made.Consistency {
		out.Consistency = append(out.Consistency, h.String())
	}
	return out, nil
}

func (s *Server) proof(c *visit, _ none) (api.Proof, error) {
	text := c.r.PathValue("packet")
	seq, err := strconv.ParseUint(text, 10, 63)
	if err != nil || seq == 0 {
		return api.Proof{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "%q is no packet's sequence number", text)
	}
	proof, err := s.opts.Ledger.Prove(c.r.Context(), seq)
	if err != nil {
		return api.Proof{}, err
	}
	return api.Proof{Seq: seq, Proof: proof.String()}, nil
}

// export streams the whole ledger. A failure midway breaks the connection off,
// so that a cut export does not look like a whole one.
func (s *Server) export(c *visit) error {
	h := c.w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Disposition", `attachment; filename="handrail-ledger.ndjson"`)
	out := &patient{w: c.w, control: http.NewResponseController(c.w)}
	defer out.done()
	err := s.opts.Ledger.Export(c.r.Context(), out)
	if err != nil && out.wrote {
		if !out.lost && !left(c.r.Context(), err) {
			s.opts.Log.Error("rest.export.broken", "err", err)
		}
		panic(http.ErrAbortHandler)
	}
	c.began = out.wrote
	return err
}

// writeTime is how long a client may take to read what it was sent.
const writeTime = 30 * time.Second

// patient writes to a client that reads slowly, but not to one that has stopped.
type patient struct {
	w       http.ResponseWriter
	control *http.ResponseController
	wrote   bool
	lost    bool // it takes nothing any more
}

// Write returns the client writeTime for p.
func (p *patient) Write(b []byte) (int, error) {
	p.wrote = true
	_ = p.control.SetWriteDeadline(time.Now().Add(writeTime))
	n, err := p.w.Write(b)
	p.lost = p.lost || err != nil
	return n, err
}

// done lifts the deadline: the connection may serve another request.
func (p *patient) done() { _ = p.control.SetWriteDeadline(time.Time{}) }
