package workers

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/worker/hook"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

// hooksFile is where a data directory has its worker's hooks.
const hooksFile = "hooks.json"

// readHooks reads the person's hooks; nil: there are none. A file that others may write is refused:
// its commands run as this user.
func readHooks(cmd *cobra.Command, file string) (*hook.Hooks, error) {
	named := file != ""
	if !named {
		dir, err := datadir.Of(cmd)
		if err != nil {
			return nil, nil // no data directory, and so no file in it
		}
		file = filepath.Join(string(dir), hooksFile)
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, nil
	}
	if err != nil {
		return nil, terminal.UsageError("the hooks cannot be read: %v", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, terminal.UsageError("the hooks cannot be read: %v", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		return nil, terminal.UsageHint("Take the right to write from group and others.",
			"%s can be written by others, and its commands would run as you", file)
	}
	data, err := io.ReadAll(io.LimitReader(f, hook.MaxFile+1))
	if err != nil {
		return nil, terminal.UsageError("the hooks cannot be read: %v", err)
	}
	h, err := hook.Read(data)
	if err != nil {
		return nil, terminal.UsageError("%s: %v", file, err)
	}
	return h, nil
}
