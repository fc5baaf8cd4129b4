package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"
)

// alwaysLogged are the events that a gateway's log has without --verbose (S4-45). A gateway runs
// unattended: what it registered, selected and dispatched is to be found in its log.
var alwaysLogged = map[string]bool{
	"tools.registered": true, "tools.select.started": true, "tools.select.completed": true,
	"tools.dispatch.started": true, "tools.dispatch.decision": true, "tools.dispatch.completed": true, "tools.dispatch.failed": true,
}

// gatewayLog leaves out of the events below warnings those that have no fixed name.
type gatewayLog struct{ slog.Handler }

// newGatewayLog is newLog with the events of alwaysLogged.
func newGatewayLog(cmd *cobra.Command, verbose bool) *slog.Logger {
	h := logHandler(cmd, verbose, slog.LevelInfo)
	if !verbose {
		h = gatewayLog{h}
	}
	return slog.New(newQuiet(h))
}

// Handle leaves out what has no fixed name.
func (g gatewayLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn && !alwaysLogged[r.Message] {
		return nil
	}
	return g.Handler.Handle(ctx, r)
}

// WithAttrs keeps the choice.
func (g gatewayLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return gatewayLog{g.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the choice.
func (g gatewayLog) WithGroup(name string) slog.Handler { return gatewayLog{g.Handler.WithGroup(name)} }
