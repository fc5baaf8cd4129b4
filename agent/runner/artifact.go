package runner

import (
	"slices"

	"github.com/handrail-dev/handrail/agent/spool"
	"github.com/handrail-dev/handrail/agent/withhold"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// sensors are the keys of what looks at the room and not at the device: a secret in
// the clipboard is in none of it.
var sensors = []string{"data.capture.camera", "data.capture.audio"}

func sensing(d *catalog.Descriptor) bool {
	return slices.ContainsFunc(d.Manifest.Keys(), func(key string) bool { return slices.Contains(sensors, key) })
}

// heldBack says that no file may leave: a secret lies where the tool looks, and files
// are read by nobody here.
func heldBack(seen *withhold.Call, d *catalog.Descriptor, shown func(capabilities.Place) bool) error {
	if sensing(d) {
		return nil
	}
	return coded(seen.Refuses(shown))
}

// settle keeps what an answer names in the spool and drops all else. Only a call that
// did what was asked leaves artifacts.
func settle(left *spool.Call, answer *wire.Answer, named []capabilities.Artifact) *capabilities.Error {
	if answer.Status != capabilities.StatusOK {
		named = nil
	}
	if left == nil {
		if len(named) > 0 {
			return capabilities.Errorf(capabilities.CodeInternal, "the tool names a file that it did not commit")
		}
		return nil
	}
	if err := left.Settle(named); err != nil {
		return capabilities.AsError(err)
	}
	for _, a := range named {
		sum, err := a.ID.Sum()
		if err != nil {
			return capabilities.AsError(err)
		}
		answer.Artifacts = append(answer.Artifacts, wire.ArtifactHead{ID: sum, Name: a.Name, MIME: a.MIME, Size: uint64(a.Size), Field: a.Field})
	}
	return nil
}
