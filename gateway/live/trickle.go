package live

import (
	"context"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/gateway/dispatch"
)

const (
	toolTrickle = capabilities.ToolID("tool.live.trickle")
	// maxTrickles bounds how often a session is told candidates.
	maxTrickles = 64
	// watchLease is how long the word for a session's candidates is good: as long as
	// its call may last.
	watchLease = 16 * time.Minute
)

// ErrRestart says that candidates are of a new ICE session, which there cannot be.
var ErrRestart = capabilities.Errorf(capabilities.CodeNotSupported, "a session does not restart ICE").WithHint("Watch anew.")

// Trickle hands the candidates of a fragment on to the node of a principal's session.
// They are a call of their own, so policy and ledger see them; who was let in to watch
// may say from where, which is a grant for this tool alone that ends with the session.
// Errors: CodeNotFound, CodeInvalidRequest, ErrRestart, those of the call.
func (s *Sessions) Trickle(ctx context.Context, who capabilities.PrincipalID, node capabilities.NodeID, source, id, text string) error {
	one, err := s.find(who, node, source, id)
	if err != nil {
		return err
	}
	f, err := parseFragment(text)
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInvalidRequest, err, "the candidates cannot be read: they are a fragment of SDP")
	}
	for _, u := range f.ufrags {
		if !slices.Contains(one.ufrags, u) {
			return ErrRestart
		}
	}
	if len(f.candidates) == 0 { // the node needs no word that there are no more
		return nil
	}
	args, err := canonical.Marshal(map[string]any{"session": id, "candidates": f.candidates, "node_id": node})
	if err != nil {
		return err
	}
	one.telling.Lock()
	defer one.telling.Unlock()
	if one.told++; one.told > maxTrickles {
		return capabilities.Errorf(capabilities.CodeOverloaded, "candidates come %d times at most", maxTrickles)
	}
	if one.takeBack == nil && s.opts.Grants != nil {
		if one.takeBack, err = s.word(one.life, one.caller, node, watchLease, "of a view that was let through", toolTrickle); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(one.life, func() { cancel(context.Cause(one.life)) })()
	r := s.opts.Calls.Call(ctx, dispatch.Request{Caller: one.caller, Tool: toolTrickle, Args: args, Surface: "whep", Inside: true})
	if r.Status != capabilities.StatusOK {
		return failure(r)
	}
	return nil
}

// retract takes the word for a session's candidates back.
func (s *Sessions) retract(one *session) {
	one.telling.Lock()
	defer one.telling.Unlock()
	one.told = maxTrickles
	if one.takeBack != nil {
		one.takeBack()
	}
}
