package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Install writes the plan's files and switches the service on. One that is ours already is written
// anew. If it cannot be switched on, the files go again.
func (p Plan) Install(ctx context.Context) error {
	for _, f := range p.Files {
		if old, err := os.ReadFile(f.Path); err == nil && !strings.Contains(string(old), mark) {
			return capabilities.Errorf(capabilities.CodeConflict, "%s is there and was written by somebody else.", f.Path).
				WithHint("Look at it, and remove it first.")
		}
	}
	for _, f := range p.Files {
		err := os.MkdirAll(filepath.Dir(f.Path), 0o755)
		if err == nil {
			err = os.WriteFile(f.Path, []byte(f.Text), 0o644)
		}
		if errors.Is(err, fs.ErrPermission) {
			err = capabilities.Wrap(capabilities.CodeForbidden, err, fmt.Sprintf("%s may not be written by this account.", f.Path)).
				WithHint("Do it as the administrator of this machine (sudo).")
		}
		if err != nil {
			return errors.Join(err, p.remove())
		}
	}
	for _, argv := range p.On {
		if err := carryOut(ctx, argv); err != nil {
			return errors.Join(err, p.remove())
		}
	}
	return nil
}

// Installed reports whether the service's files are there. On a system where it takes none the
// answer is that of Runs.
func (p Plan) Installed(ctx context.Context) bool {
	if len(p.Files) == 0 {
		return p.Runs(ctx)
	}
	for _, f := range p.Files {
		if _, err := os.Stat(f.Path); err != nil {
			return false
		}
	}
	return true
}

// Runs reports whether it runs now.
func (p Plan) Runs(ctx context.Context) bool {
	return len(p.Running) > 0 && exec.CommandContext(ctx, p.Running[0], p.Running[1:]...).Run() == nil
}

// Uninstall switches the service off and removes its files. The data directory stays.
func (p Plan) Uninstall(ctx context.Context) error {
	if !p.Installed(ctx) {
		return capabilities.Errorf(capabilities.CodeNotFound, "There is no service %s here.", p.Name)
	}
	for _, argv := range p.Off {
		if err := carryOut(ctx, argv); err != nil {
			return err
		}
	}
	if err := p.remove(); err != nil {
		return err
	}
	for _, argv := range p.Gone {
		if err := carryOut(ctx, argv); err != nil {
			return err
		}
	}
	return nil
}

func (p Plan) remove() error {
	var all []error
	for _, f := range p.Files {
		if err := os.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// carryOut runs a command of the system.
func carryOut(ctx context.Context, argv []string) error {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	switch said := strings.TrimSpace(string(out)); {
	case errors.Is(err, exec.ErrNotFound):
		return capabilities.Wrap(capabilities.CodeNotSupported, err, fmt.Sprintf("This system has no %s, which keeps services.", argv[0])).
			WithHint("Have the system start the program by its own means.")
	case err != nil:
		return capabilities.Wrap(capabilities.CodeExecutionFailed, err,
			fmt.Sprintf("%s failed: %.500s", strings.Join(argv[:min(3, len(argv))], " "), capabilities.Printable(said))).
			WithHint("See that this system is run by systemd, launchd or its task scheduler, and that you may change its services.")
	}
	return nil
}
