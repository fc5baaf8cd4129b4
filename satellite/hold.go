package satellite

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/handrail-dev/handrail/capabilities"
)

// errHeld says that another process holds the file.
var errHeld = errors.New("another process holds it")

// hold has the identity in dir be this process's alone until the file is closed, or the process
// ends in whatever way. The gateway has one connection of each identity: two processes would take
// it from each other again and again, and end each other's calls.
func hold(dir, name string) (*os.File, error) {
	f, err := holdFile(filepath.Join(dir, name+".lock"))
	if errors.Is(err, errHeld) {
		return nil, capabilities.Wrap(capabilities.CodeConflict, err, "This satellite runs already, in another process of this machine.").
			WithHint("End that one first. Another satellite of the same name joins by a code of its own, with another data directory.")
	}
	return f, err
}
