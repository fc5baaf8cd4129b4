package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/live"
	"github.com/handrail-dev/handrail/gateway/principal"
)

const (
	maxStreams   = 32   // per token or session
	maxEach      = 128  // per principal, however many tokens it has
	maxInAll     = 2048 // of this gateway: half of its connections stay free for calls
	heartbeat    = 15 * time.Second
	eventBatch   = 256
	maxEventNode = 1000 // presence changes in one go
)

// events streams packets as they become durable, the coming and going of nodes, and
// where calls act on the pictures that the caller watches. The ledger is read by number,
// so a slow reader falls behind but loses nothing, and Last-Event-ID resumes exactly; of
// the rest it gets the newest.
func (s *Server) events(c *visit) error {
	tip, _ := s.opts.Ledger.Tip()
	after, err := c.number("after", tip, math.MaxInt64)
	if err != nil {
		return err
	}
	if id := c.r.Header.Get("Last-Event-ID"); id != "" {
		if after, err = strconv.ParseUint(id, 10, 63); err != nil {
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "Last-Event-ID must be a ledger sequence number")
		}
	}
	if err := s.streams.open(c.who); err != nil {
		return err
	}
	defer s.streams.close(c.who)

	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy that buffers would hold events back
	c.began = true
	out := &patient{w: c.w, control: http.NewResponseController(c.w)}
	defer out.done()
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	ctx, known := c.r.Context(), map[capabilities.NodeID]api.Presence{}
	s.presences(known) // what is so already is no event
	told := map[string]uint64{}
	var buf bytes.Buffer
	buf.WriteString(": handrail events\n\n")
	for {
		// Taken before reading, so that nothing is missed between the two.
		packets, roster := s.opts.Ledger.Changed(), s.opts.Roster.Changed()
		// Before the packets, so that a call is known before where it acts.
		marks, marked := s.opts.Live.Marks(c.who.Principal)
		more, err := s.appendPackets(ctx, &buf, &after)
		if err != nil {
			return err
		}
		for _, p := range s.presences(known) {
			appendEvent(&buf, "", "node", p)
		}
		if !more {
			told = appendMarks(&buf, marks, told)
		}
		if buf.Len() > 0 {
			if _, err := out.Write(buf.Bytes()); err != nil {
				return nil // the client went away
			}
			if err := out.control.Flush(); err != nil {
				return nil
			}
			buf.Reset()
		}
		if !s.opts.Tokens.Valid(c.who.TokenID) {
			return nil // revoked or expired while the stream was open
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-front.Draining(ctx):
			return nil
		case <-packets:
		case <-roster:
		case <-marked:
		case <-tick.C:
			buf.WriteString(": still here\n\n")
		}
	}
}

// appendPackets appends what came after *after; more says that there is more.
func (s *Server) appendPackets(ctx context.Context, buf *bytes.Buffer, after *uint64) (more bool, err error) {
	list, err := s.opts.Ledger.Packets(ctx, ledger.Query{After: *after, Limit: eventBatch})
	if err != nil {
		if ctx.Err() != nil {
			return false, nil
		}
		return false, err
	}
	for i := range list {
		p := &list[i]
		name := "packet"
		switch {
		case strings.HasPrefix(string(p.Kind), "tool.call."):
			name = "call"
		case strings.HasPrefix(string(p.Kind), "gateway.approval."):
			name = "approval"
		case strings.HasPrefix(string(p.Kind), "gateway.grant."):
			name = "grant"
		case strings.HasPrefix(string(p.Kind), "node."):
			name = "node"
		}
		appendEvent(buf, strconv.FormatUint(p.Seq, 10), name, front.ViewPacket(p))
		*after = p.Seq
	}
	return len(list) == eventBatch, nil
}

// presences returns the nodes that differ from known, and brings known up to date.
func (s *Server) presences(known map[capabilities.NodeID]api.Presence) []api.Presence {
	var changed []api.Presence
	for _, v := range s.opts.Roster.Views() {
		p := api.Presence{Node: v.ID, Label: v.Label, State: string(v.State), Connected: v.Connected}
		if known[v.ID] != p && len(changed) < maxEventNode {
			known[v.ID] = p
			changed = append(changed, p)
		}
	}
	return changed
}

// appendMarks appends what was not told yet, and returns what is told now: which version of each
// session's.
func appendMarks(buf *bytes.Buffer, all []live.Marks, told map[string]uint64) map[string]uint64 {
	now := make(map[string]uint64, len(all))
	for i := range all {
		m := &all[i]
		// A listener that was told nothing need not hear that there is none.
		if now[m.Session] = m.Version; told[m.Session] != m.Version && (told[m.Session] > 0 || len(m.Marks) > 0) {
			appendEvent(buf, "", "mark", front.ViewMarks(m))
		}
	}
	return now
}

// appendEvent appends one event; JSON in one line has no newline to break it.
func appendEvent(buf *bytes.Buffer, id, name string, data any) {
	start := buf.Len()
	if id != "" {
		fmt.Fprintf(buf, "id: %s\n", id)
	}
	fmt.Fprintf(buf, "event: %s\ndata: ", name)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(data); err != nil { // ends with a newline
		buf.Truncate(start)
		return
	}
	buf.WriteByte('\n')
}

// streams counts the event streams that are open.
type streams struct {
	mu   sync.Mutex
	all  int
	each map[string]int // by token ID, and by principal after "principal "
}

// open counts one more, or refuses it.
func (s *streams) open(who principal.Identity) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, person := who.TokenID, "principal "+string(who.Principal)
	refused := func(whose string, most int) error {
		return capabilities.Errorf(capabilities.CodeOverloaded, "%s has %d event streams open, and may not have more", whose, most).
			WithHint("Close some; a page that nobody looks at closes its own.")
	}
	switch {
	case s.each[token] >= maxStreams:
		return refused("this token or session", maxStreams)
	case s.each[person] >= maxEach:
		return refused("this principal", maxEach)
	case s.all >= maxInAll:
		return refused("this gateway", maxInAll)
	}
	s.all++
	s.each[token]++
	s.each[person]++
	return nil
}

func (s *streams) close(who principal.Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	for _, key := range []string{who.TokenID, "principal " + string(who.Principal)} {
		if s.each[key]--; s.each[key] == 0 {
			delete(s.each, key)
		}
	}
}
