package api

import (
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Watcher is somebody who watches a node live.
type Watcher struct {
	ID        string                   `json:"session_id"`
	Node      capabilities.NodeID      `json:"node_id"`
	Source    string                   `json:"source"` // screen, camera or microphone
	Principal capabilities.PrincipalID `json:"principal"`
	Since     time.Time                `json:"since"`
}

// Control is a take-over of a node.
type Control struct {
	ID        string                   `json:"session_id,omitempty"` // for its owner alone
	Node      capabilities.NodeID      `json:"node_id"`
	Principal capabilities.PrincipalID `json:"principal"`
	Since     time.Time                `json:"since"`
	Paused    bool                     `json:"paused"`          // mouse and keyboard rest: agents wait, and that is all
	Frame     *ControlFrame            `json:"frame,omitempty"` // of the display as it is now; nil while paused
}

// ControlFrame is the picture that a person's mouse works in.
type ControlFrame struct {
	ID     string `json:"frame_id"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

// Recording is a recording of a lane.
type Recording struct {
	ID        string                   `json:"recording_id"`
	Lane      capabilities.LaneID      `json:"lane"`
	Node      capabilities.NodeID      `json:"node_id"`
	Principal capabilities.PrincipalID `json:"principal"`
	Since     time.Time                `json:"since"`
	Until     time.Time                `json:"until"`            // at the latest
	Result    *capabilities.Result     `json:"result,omitempty"` // how it ended; nil while it runs
}

// Marks are the places where calls act on what one watcher sees, the newest last.
type Marks struct {
	Node    capabilities.NodeID `json:"node_id"`
	Session string              `json:"session_id"`
	Marks   []capabilities.Mark `json:"marks"`
}

// TakeOver asks for a node.
type TakeOver struct {
	Pause bool `json:"pause,omitempty"`
}

// UseControl is what is done with mouse or keyboard: the arguments of that tool.
type UseControl struct {
	Args json.RawMessage `json:"args"`
}

// WatcherList is those who watch a node.
type WatcherList struct {
	Watching []Watcher `json:"watching"`
	// Taken is who keeps the node: they have taken it over, or have agents wait.
	Taken []Control `json:"taken"`
}

// StartRecording asks for a recording.
type StartRecording struct {
	Lane capabilities.LaneID `json:"lane"`
	// Node is where; default: the one node that is attached to the lane.
	Node       capabilities.NodeID `json:"node_id,omitempty"`
	Display    string              `json:"display,omitempty"`
	DurationMS int64               `json:"duration_ms,omitempty"` // 1000 to 840000; default 300000
}

// RecordingList is the recordings that run, and the latest that are over.
type RecordingList struct {
	Recordings []Recording `json:"recordings"`
}
