package runner

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Scene says what a call would meet here, as far as its handler can tell. It carries nothing
// out. Whether anything may be said is the caller's to judge.
func (r *Runner) Scene(ctx context.Context, ask *wire.SceneAsk) wire.Scene {
	h, ok := r.handlers[ask.Capability].(capabilities.Describer)
	d, known := r.tool(ask.Tool)
	if !ok || !known || d.Capability != ask.Capability {
		return wire.Scene{}
	}
	defer func() {
		if p := recover(); p != nil {
			r.opts.Log.Error("scene.panic", "tool", ask.Tool, "panic", p)
		}
	}()
	s, err := h.Describe(ctx, capabilities.Invocation{
		Capability: ask.Capability, Lane: ask.Lane, Args: ask.Args,
		Progress: func(capabilities.Progress) {}, Observe: func(string, string) {},
	})
	if err != nil {
		return wire.Scene{}
	}
	scene := wire.Scene{App: s.App, Window: s.Window, Field: s.Field, Password: s.Password, Role: s.Role, Address: s.Address}
	for _, e := range s.Elements {
		scene.Elements = append(scene.Elements, wire.SceneElement(e))
	}
	return scene
}
