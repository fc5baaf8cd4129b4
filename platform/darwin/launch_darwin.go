package darwin

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/handrail-dev/handrail/platform"
)

// Launch starts an application that is installed. macOS does not tell its process
// here: 0.
func (w *Windows) Launch(ctx context.Context, app string, args []string) (int, error) {
	list, err := openArguments(app, args)
	if err != nil {
		return 0, err
	}
	err = exec.CommandContext(ctx, "/usr/bin/open", list...).Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.As(err, &exit):
		return 0, platform.ErrNoApp // what open says of it is in the system's language
	case err != nil:
		return 0, fmt.Errorf("darwin: open: %w", err)
	}
	return 0, nil
}
