package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Artifact is a file that a call made, without its bytes.
type Artifact struct {
	ID        capabilities.ArtifactID  `json:"artifact_id"` // SHA-256 of the bytes
	Name      string                   `json:"name"`
	MIME      string                   `json:"mime"`
	Size      int64                    `json:"size"`
	Call      capabilities.CallID      `json:"call_id"`
	Tool      capabilities.ToolID      `json:"tool_id"`
	Node      capabilities.NodeID      `json:"node_id,omitempty"`
	Principal capabilities.PrincipalID `json:"principal"`
	Lane      capabilities.LaneID      `json:"lane"`
	CreatedAt time.Time                `json:"created_at"`
	ExpiresAt time.Time                `json:"expires_at"`
	Retention string                   `json:"retention"` // standard, or extended by data.retention.extended
}

// ArtifactList is the files that calls made.
type ArtifactList struct {
	Artifacts []Artifact `json:"artifacts"`
}

// RemovedArtifact names the file that was removed.
type RemovedArtifact struct {
	Artifact capabilities.ArtifactID `json:"artifact_id"`
}
