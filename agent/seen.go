package agent

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/agent/notice"
	"github.com/handrail-dev/handrail/agent/runner"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// StatusFile is where a running node says what is in use, in its folder.
const StatusFile = "status.json"

// openBoard makes what the person sees while a capability is in use.
func (a *Agent) openBoard() *notice.Board {
	return notice.New(notice.Options{
		Path: filepath.Join(a.opts.Dir, StatusFile), Notifier: a.opts.Notifier, HotKey: a.opts.HotKey, Yes: a.opts.Yes, No: a.opts.No,
		Stop: a.Halt, Log: a.opts.Log,
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
	runs  callLog
}

// Started records the call, then shows it.
func (j shownJournal) Started(ctx context.Context, t *wire.Ticket) error {
	if err := j.Journal.Started(ctx, t); err != nil {
		return err
	}
	j.board.Begin(t)
	j.runs.began(t)
	if !slices.ContainsFunc(t.Grants, captures) {
		return nil
	}
	// Nothing is recorded that the person could not know of.
	ctx, cancel := context.WithTimeout(ctx, showTime)
	defer cancel()
	if err := j.board.AwaitShown(ctx); err != nil {
		e := capabilities.Wrap(capabilities.CodeSensorRefused, err, "The device could not show its person that it is recorded, so it was not.").
			WithHint("Look whether the node's folder can be written, then call again.")
		a := wire.Answer{
			Status: capabilities.StatusError, Code: e.Code, Message: e.PublicMessage(), Hint: e.PublicHint(), Action: e.PublicAction(),
		}
		return errors.Join(e, j.Finished(t.Call, &a))
	}
	return nil
}

// showTime bounds the wait for the indicator before a capture: a file is written.
const showTime = 5 * time.Second

// captures reports whether a key lets a call watch or listen.
func captures(key string) bool { return strings.HasPrefix(key, "data.capture.") }

// Finished records the end and takes the call off the board.
func (j shownJournal) Finished(call capabilities.CallID, answer *wire.Answer) error {
	j.board.End(call)
	j.runs.ended(call, answer)
	return j.Journal.Finished(call, answer)
}

// callLog tells the handlers that want to know what the node does.
type callLog struct {
	tool func(capabilities.ToolID) (*catalog.Descriptor, bool)
	tell []capabilities.CallWatcher
}

func watchersOf(o Options) callLog {
	l := callLog{tool: o.tool}
	for _, h := range o.Handlers {
		if w, ok := h.(capabilities.CallWatcher); ok {
			l.tell = append(l.tell, w)
		}
	}
	return l
}

func (l callLog) began(t *wire.Ticket) {
	for _, w := range l.tell {
		w.CallBegan(t.Call, t.Lane, t.Tool, func() map[string]any {
			d, ok := l.tool(t.Tool)
			if !ok {
				return nil
			}
			return d.EvidenceArgs(t.Args)
		})
	}
}

func (l callLog) ended(call capabilities.CallID, a *wire.Answer) {
	outcome := string(a.Status)
	switch {
	case a.Code != "":
		outcome += " " + string(a.Code)
	case a.Effect != "" && a.Effect != capabilities.EffectConfirmed:
		outcome += ", " + string(a.Effect)
	}
	for _, w := range l.tell {
		w.CallEnded(call, outcome)
	}
}
