package live

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// lasting is one call that goes on after whoever began it has their answer: a view, a
// take-over, a recording.
type lasting struct {
	caller  dispatch.Caller
	tool    capabilities.ToolID
	args    map[string]any
	surface string
	// enter lets it be found, and ended by its cancel, from now on; Sessions.mu is held.
	enter func(life context.Context, cancel context.CancelCauseFunc)
	// allow returns the person's word for it, and takes it back after the call; nil: none
	// is needed.
	allow func(life context.Context) (takeBack func(), err error)
	// heard is told each word of the call's progress, and reports whether with it the
	// call has begun.
	heard func(word json.RawMessage) bool
	// leave is called once, after the call has ended and before it is said to have; with
	// nil if it never was made.
	leave func(*capabilities.Result)
}

// begin has a lasting call made, and returns nil, nil once it has begun, or how it ended
// before it did. waiting bounds how long the caller waits for that; life is the context
// that the call lives in, and release is called once it ended. Errors: CodeOverloaded,
// CodeCancelled if waiting ended first, those of allow.
func (s *Sessions) begin(waiting, life context.Context, release func(), l lasting) (*capabilities.Result, error) {
	args, err := canonical.Marshal(l.args)
	if err != nil {
		release()
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(life)
	s.mu.Lock()
	if err = s.countLocked(); err == nil {
		l.enter(ctx, cancel)
	}
	s.mu.Unlock()
	if err != nil {
		cancel(nil)
		release()
		return nil, err
	}
	began := make(chan struct{}, 1)
	ended := make(chan *capabilities.Result, 1)
	failed := make(chan error, 1)
	go func() {
		defer s.calls.Done()
		defer release()
		defer cancel(nil)
		takeBack := func() {}
		if l.allow != nil {
			var err error
			if takeBack, err = l.allow(ctx); err != nil {
				l.leave(nil)
				failed <- err
				return
			}
		}
		result := s.opts.Calls.Call(ctx,
			dispatch.Request{Caller: l.caller, Tool: l.tool, Args: args, Surface: l.surface, Inside: true, Progress: func(p capabilities.Progress) {
				if len(p.Data) == 0 || !l.heard(p.Data) {
					return
				}
				select {
				case began <- struct{}{}:
				default:
				}
			}})
		takeBack()
		l.leave(&result)
		ended <- &result
	}()
	select {
	case <-began:
		return nil, nil
	case err := <-failed:
		return nil, err
	case result := <-ended:
		return result, nil
	case <-waiting.Done():
		gone := &capabilities.Error{Code: capabilities.CodeCancelled}
		cancel(&dispatch.Ended{By: packet.ByCaller, Err: gone})
		return nil, gone
	}
}

// over is the cause by which a person ends what they began.
func over(words string) error {
	return &dispatch.Ended{By: packet.ByCaller, Err: capabilities.Errorf(capabilities.CodeCancelled, "%s", words)}
}

// word has a person's press count as their word: a grant like any other, for these tools of theirs
// on that node, which is taken back when the function that it returns is called.
func (s *Sessions) word(ctx context.Context, caller dispatch.Caller, node capabilities.NodeID, lasts time.Duration, why string,
	tools ...capabilities.ToolID) (takeBack func(), err error) {
	names := make([]string, len(tools))
	for i, id := range tools {
		names[i] = string(id)
	}
	grant, err := s.opts.Grants.Grant(ctx, consent.Spec{
		Principal: caller.Principal, Tools: names, Node: node, Lane: caller.Lane, For: lasts, Approver: caller.Principal, Reason: why, Hand: true,
	})
	if err != nil {
		return nil, err
	}
	return func() {
		err := s.opts.Grants.Revoke(context.WithoutCancel(ctx), grant.ID, caller.Principal)
		if err != nil && capabilities.CodeOf(err) != capabilities.CodeNotFound && !errors.Is(err, context.Canceled) {
			s.opts.Log.Error("live.grant.revoke", "grant", grant.ID, "tool", tools[0], "err", err)
		}
	}, nil
}

// later is the caller of what follows by itself from what a person did.
func later(caller dispatch.Caller) dispatch.Caller {
	caller.Self = ""
	return caller
}
