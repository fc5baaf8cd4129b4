package record

import (
	"errors"
	"io/fs"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
)

// NodeChain returns the name of this device's log and where it is.
func NodeChain(data datadir.Dir) (name, dir string, err error) {
	id, err := link.LoadIdentity(data.Node())
	if err == nil && id.Node != "" {
		return string(id.Node), journal.Dir(data.Node(), string(id.Node)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	all, err := journal.Dirs(data.Node())
	if err != nil {
		return "", "", err
	}
	if len(all) != 1 {
		return "", "", capabilities.Errorf(capabilities.CodeNotFound, "there is no node's log below %s", data.Node()).
			WithHint("The node writes one when it runs; name its data directory with --data.")
	}
	return all[0], journal.Dir(data.Node(), all[0]), nil
}
