package runner

import "github.com/handrail-dev/handrail/capabilities"

// Pause pauses what goes on between calls in every handler, or lets it go on.
func (r *Runner) Pause(on bool) {
	for _, h := range r.opts.Handlers {
		if p, ok := h.(capabilities.Pauser); ok {
			p.Pause(on)
		}
	}
}
