package agent

import (
	"context"
	"path/filepath"

	"github.com/handrail-dev/handrail/agent/notice"
	"github.com/handrail-dev/handrail/agent/runner"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// StatusFile is where a running node says what is in use, in its folder.
const StatusFile = "status.json"

// openBoard makes what the person sees while a capability is in use.
func (a *Agent) openBoard() *notice.Board {
	return notice.New(notice.Options{
		Path: filepath.Join(a.opts.Dir, StatusFile), Notifier: a.opts.Notifier, HotKey: a.opts.HotKey, Stop: a.Halt, Log: a.opts.Log,
		Node: func() notice.Node {
			var n notice.Node
			if s := a.linked.Load(); s != nil {
				n.Connected, n.Gateway = s.Connected, s.Gateway
			}
			if a.stop != nil {
				_, n.Stopped = a.stop.State()
				_, n.SiteStopped = a.stop.Site()
			}
			return n
		},
	})
}

// shownJournal is the journal of calls that tells the board of each: what it records as
// started is about to run, and nothing runs that it does not.
type shownJournal struct {
	runner.Journal
	board *notice.Board
}

// Started records the call, then shows it.
func (j shownJournal) Started(ctx context.Context, t *wire.Ticket) error {
	if err := j.Journal.Started(ctx, t); err != nil {
		return err
	}
	j.board.Begin(t)
	return nil
}

// Finished records the end and takes the call off the board.
func (j shownJournal) Finished(call capabilities.CallID, answer *wire.Answer) error {
	j.board.End(call)
	return j.Journal.Finished(call, answer)
}
