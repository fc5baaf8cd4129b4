package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"
)

// alwaysLogged are the events that logs have without --verbose. A gateway runs unattended: what it
// registered, selected and dispatched is to be found in its log (S4-45); so does a satellite, whose
// log says when it is connected again.
var alwaysLogged = map[string]bool{
	"tools.registered": true, "tools.select.started": true, "tools.select.completed": true,
	"tools.dispatch.started": true, "tools.dispatch.decision": true, "tools.dispatch.completed": true, "tools.dispatch.failed": true,
	"satellite.connected": true,
}

// eventLog leaves out of the events below warnings those that have no fixed name.
type eventLog struct{ slog.Handler }

// newEventLog is newLog with the events of alwaysLogged.
func newEventLog(cmd *cobra.Command, verbose bool) *slog.Logger {
	h := logHandler(cmd, verbose, slog.LevelInfo)
	if !verbose {
		h = eventLog{h}
	}
	return slog.New(newQuiet(h))
}

// Handle leaves out what has no fixed name.
func (g eventLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn && !alwaysLogged[r.Message] {
		return nil
	}
	return g.Handler.Handle(ctx, r)
}

// WithAttrs keeps the choice.
func (g eventLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return eventLog{g.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the choice.
func (g eventLog) WithGroup(name string) slog.Handler { return eventLog{g.Handler.WithGroup(name)} }
