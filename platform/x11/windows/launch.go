package windows

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/apps"
)

// Launch starts an application, found in this order: a path (of a program or a
// desktop file), a desktop file's ID, a name in the menus, a program. No shell
// reads any of it.
func (w *Windows) Launch(ctx context.Context, app string, args []string) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	argv, dir, err := apps.Find(app, args, os.Getenv)
	if err != nil {
		return 0, err
	}
	if dir == "" {
		dir, _ = os.UserHomeDir()
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	for _, e := range os.Environ() {
		// Variables that are set for this program are no business of the applications.
		if !strings.HasPrefix(e, "HANDRAIL_") && !strings.HasPrefix(e, "DISPLAY=") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "DISPLAY="+w.c.Name)
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return 0, &platform.MissingError{
			What: fmt.Sprintf("%s cannot be started: %v.", argv[0], err), Fix: "Check that it is installed and may be run.",
		}
	}
	go func() { _ = cmd.Wait() }() // or it stays as a zombie
	return cmd.Process.Pid, nil
}
