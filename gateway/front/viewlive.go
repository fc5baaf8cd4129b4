package front

import (
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/live"
)

// ViewWatchers are those who watch a node.
func ViewWatchers(all []live.View) []api.Watcher {
	list := make([]api.Watcher, 0, len(all))
	for _, v := range all {
		list = append(list, api.Watcher(v))
	}
	return list
}

// ViewControl is a take-over.
func ViewControl(c *live.Control) api.Control {
	v := api.Control{ID: c.ID, Node: c.Node, Principal: c.Principal, Since: c.Since, Paused: c.Paused}
	if c.Frame != nil {
		frame := api.ControlFrame(*c.Frame)
		v.Frame = &frame
	}
	return v
}

// ViewRecording is a recording.
func ViewRecording(r *live.Recording) api.Recording { return api.Recording(*r) }

// ViewMarks are the places where calls act.
func ViewMarks(m *live.Marks) api.Marks {
	return api.Marks{Node: m.Node, Session: m.Session, Marks: m.Marks}
}
