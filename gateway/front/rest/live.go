package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/live"
)

// Live is those who watch; gateway/live implements it.
type Live interface {
	Open(waiting, life context.Context, release func(), caller dispatch.Caller, node capabilities.NodeID,
		source, offer string) (live.View, string, error)
	Get(who capabilities.PrincipalID, node capabilities.NodeID, source, id string) (live.View, error)
	Servers(capabilities.PrincipalID) []live.Server
	Trickle(ctx context.Context, who capabilities.PrincipalID, node capabilities.NodeID, source, id, fragment string) error
	End(ctx context.Context, who capabilities.PrincipalID, node capabilities.NodeID, source, id string) error
	Watching(capabilities.NodeID) []live.View
	Marks(capabilities.PrincipalID) ([]live.Marks, <-chan struct{})
	Take(waiting, life context.Context, release func(), caller dispatch.Caller, node capabilities.NodeID, pause bool) (live.Control, error)
	Hold(who capabilities.PrincipalID, node capabilities.NodeID, id string) (live.Control, error)
	Input(ctx context.Context, who capabilities.PrincipalID, node capabilities.NodeID, id, with string,
		args json.RawMessage) (capabilities.Result, error)
	HandBack(ctx context.Context, who capabilities.PrincipalID, node capabilities.NodeID, id string) error
	Taken(capabilities.NodeID) []live.Control
	Record(waiting, life context.Context, release func(), caller dispatch.Caller, o live.Order) (live.Recording, error)
	Recordings() []live.Recording
	Recording(id string) (live.Recording, error)
	StopRecording(ctx context.Context, caller dispatch.Caller, id string) (live.Recording, error)
}

const (
	sdpType = "application/sdp"
	// endTime bounds how long the end of a session waits for its call's.
	endTime = 10 * time.Second
)

// watch is WHEP's beginning (draft-ietf-wish-whep): an offer comes, an answer goes,
// and the session has an address. The answer holds every candidate of the node, and
// the servers by which a viewer may find others of its own.
func (s *Server) watch(c *visit) error {
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != sdpType {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "the body has to be an SDP offer, Content-Type %s", sdpType)
	}
	offer, err := io.ReadAll(io.LimitReader(c.r.Body, live.MaxOffer+1))
	if err != nil {
		return front.BodyError(err)
	}
	if len(offer) == 0 || len(offer) > live.MaxOffer {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "an offer has 1 to %d bytes", live.MaxOffer)
	}
	node, source := capabilities.NodeID(c.r.PathValue("node")), c.r.PathValue("source")
	lane := c.who.Lane
	if lane == "" { // a session of the console has none
		lane = capabilities.LaneID("live-" + string(c.who.Principal))
	}
	if err := s.opts.Lanes.Enter(c.r.Context(), c.who, lane); err != nil {
		return err
	}
	// The session outlives the request, but not the token.
	life, release := s.held.hold(context.WithoutCancel(c.r.Context()), c.who.TokenID, s.opts.Tokens.Valid)
	view, answer, err := s.opts.Live.Open(c.r.Context(), life, release, s.hands(c, lane), node, source, string(offer))
	if err != nil {
		return err
	}
	c.began = true
	h := c.w.Header()
	h.Set("Content-Type", sdpType)
	h.Set("Cache-Control", "no-store")
	h.Set("Location", fmt.Sprintf("/v1/live/%s/%s/whep/%s", url.PathEscape(string(node)), url.PathEscape(source), view.ID))
	h.Set("ETag", `"`+view.ID+`"`)
	for _, server := range s.opts.Live.Servers(c.who.Principal) {
		h.Add("Link", server.Link())
	}
	c.w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(c.w, answer) // the client went away: its session ends by itself
	return nil
}

// trickle takes candidates that a viewer found after its offer (RFC 8840, as WHEP has
// it): which session they are for is said twice, by the address and by the entity tag.
// A restart of ICE needs a new session.
func (s *Server) trickle(c *visit) error {
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != "application/trickle-ice-sdpfrag" {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "the body has to be candidates, Content-Type application/trickle-ice-sdpfrag")
	}
	text, err := io.ReadAll(io.LimitReader(c.r.Body, live.MaxFragment+1))
	if err != nil {
		return front.BodyError(err)
	}
	node, source, id := capabilities.NodeID(c.r.PathValue("node")), c.r.PathValue("source"), c.r.PathValue("session")
	view, err := s.opts.Live.Get(c.who.Principal, node, source, id)
	if err != nil {
		return err
	}
	switch match := c.r.Header.Get("If-Match"); {
	case match == "":
		return c.refuse(http.StatusPreconditionRequired, capabilities.Errorf(capabilities.CodeInvalidRequest,
			"the session's entity tag is missing").WithHint("Send the ETag of the answer as If-Match."))
	case !matches(match, `"`+view.ID+`"`):
		return c.refuse(http.StatusPreconditionFailed, capabilities.Errorf(capabilities.CodeConflict, "the entity tag is of another session"))
	}
	switch err := s.opts.Live.Trickle(c.r.Context(), c.who.Principal, node, source, id, string(text)); {
	case errors.Is(err, live.ErrRestart):
		return c.refuse(http.StatusUnprocessableEntity, err)
	case err != nil:
		return err
	}
	c.began = true
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// matches compares an If-Match header with an entity tag (RFC 9110 section 13.1.1). The
// WHEP draft's examples have the asterisk in quotes, too.
func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one == tag || one == "*" || one == `"*"` {
			return true
		}
	}
	return false
}

// refuse answers with an error under a status that its code alone does not have.
func (c *visit) refuse(status int, err error) error {
	c.began = true
	c.w.Header().Set("Cache-Control", "no-store")
	writeJSON(c.w, status, map[string]api.Error{"error": front.ViewError(err)})
	return nil
}

// unwatch is WHEP's end.
func (s *Server) unwatch(c *visit) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), endTime)
	defer cancel()
	if err := s.opts.Live.End(ctx, c.who.Principal, capabilities.NodeID(c.r.PathValue("node")), c.r.PathValue("source"),
		c.r.PathValue("session")); err != nil {
		return err
	}
	c.began = true
	c.w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) watching(c *visit, _ none) (api.WatcherList, error) {
	node := capabilities.NodeID(c.r.PathValue("node"))
	list := api.WatcherList{Watching: front.ViewWatchers(s.opts.Live.Watching(node)), Taken: []api.Control{}}
	for _, c := range s.opts.Live.Taken(node) {
		c.ID = "" // it is its owner's to use
		list.Taken = append(list.Taken, front.ViewControl(&c))
	}
	return list, nil
}

// dark is a gateway on which nobody can watch.
type dark struct{}

func noLive() error {
	return capabilities.Errorf(capabilities.CodeNotSupported, "nothing can be watched through this gateway")
}

// Open refuses.
func (dark) Open(_, _ context.Context, release func(), _ dispatch.Caller, _ capabilities.NodeID, _, _ string) (live.View, string, error) {
	release()
	return live.View{}, "", noLive()
}

// Get finds nothing.
func (dark) Get(capabilities.PrincipalID, capabilities.NodeID, string, string) (live.View, error) {
	return live.View{}, noLive()
}

// Servers returns none.
func (dark) Servers(capabilities.PrincipalID) []live.Server { return nil }

// Trickle finds nothing.
func (dark) Trickle(context.Context, capabilities.PrincipalID, capabilities.NodeID, string, string, string) error {
	return noLive()
}

// End finds nothing.
func (dark) End(context.Context, capabilities.PrincipalID, capabilities.NodeID, string, string) error {
	return noLive()
}

// Watching is empty.
func (dark) Watching(capabilities.NodeID) []live.View { return []live.View{} }

// Marks are none.
func (dark) Marks(capabilities.PrincipalID) ([]live.Marks, <-chan struct{}) { return nil, nil }
