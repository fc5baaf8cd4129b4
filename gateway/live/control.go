package live

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sort"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
)

// Grants is what people allow; gateway/consent implements it.
type Grants interface {
	Grant(context.Context, consent.Spec) (consent.Grant, error)
	Revoke(ctx context.Context, id string, by capabilities.PrincipalID) error
}

// The tools of somebody who has taken over.
const (
	toolControl  = capabilities.ToolID("tool.live.control")
	toolMouse    = capabilities.ToolID("tool.desktop.mouse")
	toolKeyboard = capabilities.ToolID("tool.desktop.keyboard")
)

// controlLease is how long the grant of a take-over is good: as long as its call may
// last, and then some for the last gesture.
const controlLease = 16 * time.Minute

// Frame is the picture that a person's mouse works in.
type Frame struct {
	ID     string
	Width  int
	Height int
}

// Control is one take-over, as others may see it.
type Control struct {
	ID        string
	Node      capabilities.NodeID
	Principal capabilities.PrincipalID
	Since     time.Time
	// Paused says that mouse and keyboard rest: agents wait, and that is all.
	Paused bool
	// Frame is of the display as it is now; nil while paused.
	Frame *Frame
}

type control struct {
	Control // Frame belongs to Sessions.mu
	caller  dispatch.Caller
	//lint:ignore containedctx the life of the session
	life    context.Context
	cancel  context.CancelCauseFunc
	silence *time.Timer
	end     chan struct{} // closed when its call has ended
}

// Take has the gateway keep a node to its caller: mouse and keyboard are theirs, or,
// with pause, nobody's. The press of a person who may answer for calls is their word,
// for these tools on this node as long as it lasts: it is a grant like any other, made
// before the call and revoked after it. waiting bounds how long the caller waits; life
// is the context that the take-over lives in, and release is called once it ended.
func (s *Sessions) Take(waiting, life context.Context, release func(), caller dispatch.Caller, node capabilities.NodeID,
	pause bool) (Control, error) {
	if s.opts.Grants == nil {
		release()
		return Control{}, capabilities.Errorf(capabilities.CodeNotSupported, "nothing can be taken over through this gateway")
	}
	one := &control{
		Control: Control{ID: rand.Text(), Node: node, Principal: caller.Principal, Since: time.Now().UTC(), Paused: pause},
		caller:  caller, end: make(chan struct{}),
	}
	result, err := s.begin(waiting, life, release, lasting{
		caller: caller, tool: toolControl, args: map[string]any{"node_id": node, "pause": pause}, surface: "live",
		enter: func(life context.Context, cancel context.CancelCauseFunc) {
			one.life, one.cancel = life, cancel
			s.taken[one.ID] = one
		},
		allow: func(life context.Context) (takeBack func(), err error) {
			tools := []capabilities.ToolID{toolControl}
			if !pause {
				tools = append(tools, toolMouse, toolKeyboard)
			}
			return s.word(life, caller, node, controlLease, "taken over by hand", tools...)
		},
		heard: func(data json.RawMessage) bool {
			var word struct {
				Taken  bool   `json:"taken"`
				Frame  string `json:"frame_id"`
				Width  int    `json:"width"`
				Height int    `json:"height"`
			}
			if json.Unmarshal(data, &word) != nil || !word.Taken {
				return false
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if word.Frame != "" {
				one.Frame = &Frame{ID: word.Frame, Width: word.Width, Height: word.Height}
			}
			return true
		},
		leave: func(*capabilities.Result) { s.leaveControl(one) },
	})
	switch {
	case err != nil:
		return Control{}, err
	case result != nil:
		return Control{}, failure(*result)
	}
	return s.listen(one), nil
}

func (s *Sessions) leaveControl(one *control) {
	s.mu.Lock()
	if one.silence != nil {
		one.silence.Stop()
	}
	delete(s.taken, one.ID)
	s.mu.Unlock()
	close(one.end)
}

// listen has the console listened for from now on: a person may have been asked before.
func (s *Sessions) listen(one *control) Control {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.silence = time.AfterFunc(s.opts.Silence, func() {
		one.cancel(capabilities.Errorf(capabilities.CodeCancelled, "The console was not heard of for %s.", s.opts.Silence))
	})
	return one.Control
}

// shown returns what others may see of it now.
func (s *Sessions) shown(one *control) Control {
	s.mu.Lock()
	defer s.mu.Unlock()
	return one.Control
}

// heard finds a principal's take-over and notes that its console is there.
func (s *Sessions) heard(who capabilities.PrincipalID, node capabilities.NodeID, id string) (*control, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.taken[id]
	if one == nil || one.silence == nil || one.Principal != who || one.Node != node {
		return nil, capabilities.Errorf(capabilities.CodeNotFound, "that was handed back, or never taken over")
	}
	one.silence.Reset(s.opts.Silence)
	return one, nil
}

// Hold says that the console is still there. Errors: CodeNotFound once it is over, also
// for another's.
func (s *Sessions) Hold(who capabilities.PrincipalID, node capabilities.NodeID, id string) (Control, error) {
	one, err := s.heard(who, node, id)
	if err != nil {
		return Control{}, err
	}
	return s.shown(one), nil
}

// Input makes one call of mouse or keyboard for whoever has taken over. It ends with
// the take-over.
func (s *Sessions) Input(ctx context.Context, who capabilities.PrincipalID, node capabilities.NodeID, id, with string,
	args json.RawMessage) (capabilities.Result, error) {
	tools := map[string]capabilities.ToolID{"mouse": toolMouse, "keyboard": toolKeyboard}
	tool, ok := tools[with]
	if !ok {
		return capabilities.Result{}, capabilities.Errorf(capabilities.CodeNotFound, "there is no %.40q to use", with).
			WithHint("It is mouse or keyboard.")
	}
	one, err := s.heard(who, node, id)
	if err != nil {
		return capabilities.Result{}, err
	}
	if one.Paused {
		return capabilities.Result{}, capabilities.Errorf(capabilities.CodeConflict, "agents are paused there, and nobody has taken over").
			WithHint("Take over first.")
	}
	args, err = onNode(args, node)
	if err != nil {
		return capabilities.Result{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(one.life, func() { cancel(context.Cause(one.life)) })()
	return s.opts.Calls.Call(ctx, dispatch.Request{Caller: one.caller, Tool: tool, Args: args, Surface: "live", Inside: true}), nil
}

// onNode names the node in a call's arguments; another one there is refused.
func onNode(args json.RawMessage, node capabilities.NodeID) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(args, &fields); err != nil || fields == nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the arguments must be a JSON object")
	}
	if _, named := fields["node_id"]; named {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the node is that which was taken over")
	}
	name, err := json.Marshal(node)
	if err != nil {
		return nil, err
	}
	fields["node_id"] = name
	return json.Marshal(fields)
}

// HandBack ends a principal's take-over and returns once its call has ended, or ctx.
func (s *Sessions) HandBack(ctx context.Context, who capabilities.PrincipalID, node capabilities.NodeID, id string) error {
	one, err := s.heard(who, node, id)
	if err != nil {
		return err
	}
	one.cancel(over("Handed back."))
	select {
	case <-one.end:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Taken returns who has taken a node over, the longest first; usually nobody or one.
func (s *Sessions) Taken(node capabilities.NodeID) []Control {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []Control{}
	for _, one := range s.taken {
		if one.Node == node {
			all = append(all, one.Control)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Since.Before(all[j].Since) })
	return all
}
