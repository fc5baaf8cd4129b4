package agent

import (
	"context"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
)

// warm has handlers start what their first call would wait for, where one of their
// tools could be called: not while the node is stopped, nor what the owner switched off.
func (a *Agent) warm(ctx context.Context) {
	for _, h := range a.opts.Handlers {
		w, ok := h.(capabilities.Warmer)
		if ok && !a.stop.Stopped() && slices.ContainsFunc(a.owned(h.Readiness(ctx)), capabilities.Readiness.Ready) {
			w.Warm(ctx)
		}
	}
}
