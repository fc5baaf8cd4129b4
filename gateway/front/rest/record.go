package rest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/lane"
	"github.com/handrail-dev/handrail/gateway/live"
	"github.com/handrail-dev/handrail/gateway/route"
)

// handLane is the lane of what a person does by hand at a surface.
func handLane(c *visit) capabilities.LaneID {
	return capabilities.LaneID(fmt.Sprintf("live-%s", c.who.Principal))
}

// record begins a recording. It outlives the request, but not the token.
func (s *Server) record(c *visit, in api.StartRecording) (api.Recording, error) {
	if !slices.ContainsFunc(s.opts.Lanes.List(""), func(l lane.Lane) bool { return l.Lane == in.Lane }) {
		return api.Recording{}, capabilities.Errorf(capabilities.CodeNotFound, "there is no lane %.128q", in.Lane).
			WithAction(capabilities.Action{Key: capabilities.ActionListLanes}, "Name one of the lanes that there are.")
	}
	if in.Node == "" {
		node, err := s.screenOf(in.Lane)
		if err != nil {
			return api.Recording{}, err
		}
		in.Node = node
	}
	if in.DurationMS < 0 || in.DurationMS > live.MaxFilm.Milliseconds() {
		return api.Recording{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "duration_ms: a recording lasts 1 s to %s",
			capabilities.Spoken(live.MaxFilm))
	}
	own := handLane(c)
	if err := s.opts.Lanes.Enter(c.r.Context(), c.who, own); err != nil {
		return api.Recording{}, err
	}
	life, release := s.held.hold(context.WithoutCancel(c.r.Context()), c.who.TokenID, s.opts.Tokens.Valid)
	return shownRecording(s.opts.Live.Record(c.r.Context(), life, release, s.hands(c, own),
		live.Order{Lane: in.Lane, Node: in.Node, Display: in.Display, Duration: time.Duration(in.DurationMS) * time.Millisecond}))
}

// screenOf returns the node whose screen a lane works on: the one that is attached to it, or,
// where none ever was, the only one there is. Several are listed and none is chosen.
func (s *Server) screenOf(of capabilities.LaneID) (capabilities.NodeID, error) {
	roster := s.opts.Roster.Snapshot()
	attached := s.opts.Lanes.Attached(of)
	standing := route.Standing(attached, roster)
	if len(attached) == 0 {
		for _, n := range roster {
			if n.Paired == route.StateApproved && !n.Revoked {
				standing = append(standing, n.ID)
			}
		}
	}
	if len(standing) == 1 {
		return standing[0], nil
	}
	var names []string
	for _, n := range roster {
		if slices.Contains(standing, n.ID) {
			names = append(names, fmt.Sprintf("%s (%s)", n.ID, n.Summary.Label))
		}
	}
	switch {
	case len(names) > 0:
		return "", capabilities.Errorf(capabilities.CodeInvalidRequest, "node_id is needed: the lane may work on any of %d nodes", len(names)).
			WithHint("Name one: " + strings.Join(names[:min(len(names), 8)], ", ") + ".")
	case len(attached) > 0:
		return "", capabilities.Errorf(capabilities.CodeInvalidRequest, "the node that the lane was attached to is gone").
			WithHint("Attach another one, or name node_id.")
	}
	return "", capabilities.Errorf(capabilities.CodeInvalidRequest, "no node is paired").
		WithAction(capabilities.Action{Key: capabilities.ActionPairNode}, "Have one paired.")
}

func (s *Server) recordings(*visit, none) (api.RecordingList, error) {
	all := s.opts.Live.Recordings()
	list := api.RecordingList{Recordings: make([]api.Recording, 0, len(all))}
	for i := range all {
		list.Recordings = append(list.Recordings, front.ViewRecording(&all[i]))
	}
	return list, nil
}

func (s *Server) recording(c *visit, _ none) (api.Recording, error) {
	return shownRecording(s.opts.Live.Recording(c.r.PathValue("recording")))
}

func (s *Server) stopRecording(c *visit, _ none) (api.Recording, error) {
	own := handLane(c)
	if err := s.opts.Lanes.Enter(c.r.Context(), c.who, own); err != nil {
		return api.Recording{}, err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), endTime)
	defer cancel()
	return shownRecording(s.opts.Live.StopRecording(ctx, front.Caller(c.who, own), c.r.PathValue("recording")))
}

func shownRecording(r live.Recording, err error) (api.Recording, error) {
	return front.ViewRecording(&r), err
}

// Record refuses.
func (dark) Record(_, _ context.Context, release func(), _ dispatch.Caller, _ live.Order) (live.Recording, error) {
	release()
	return live.Recording{}, noLive()
}

// Recordings is empty.
func (dark) Recordings() []live.Recording { return []live.Recording{} }

// Recording finds nothing.
func (dark) Recording(string) (live.Recording, error) { return live.Recording{}, noLive() }

// StopRecording finds nothing.
func (dark) StopRecording(context.Context, dispatch.Caller, string) (live.Recording, error) {
	return live.Recording{}, noLive()
}
