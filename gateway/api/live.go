package api

import (
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
