//go:build linux

package wayland

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/handrail-dev/handrail/platform"
)

// WindowsOptions say how windows are found and programs started.
type WindowsOptions struct {
	Options
	// Getenv reads the environment that tells which session this is. Required.
	Getenv func(name string) string
	// Find returns the command of an installed application, and the folder that it
	// asks to be started in. Required.
	Find func(app string, args []string, getenv func(string) string) (argv []string, dir string, err error)
}

// Windows lists and arranges the windows. Under Sway that is asked for over its
// own socket; elsewhere by wlr-foreign-toplevel, which tells neither where a window
// is nor whose.
type Windows struct {
	o       WindowsOptions
	outputs *Outputs
	sway    *sway
	tops    *toplevels // nil under Sway
	own     int        // this process
}

var _ platform.Windows = (*Windows)(nil)

// NewWindows prepares the list, over the connection of outputs. An error is a
// *platform.MissingError that names the protocol, or that of ctx.
func NewWindows(ctx context.Context, o WindowsOptions, outputs *Outputs) (*Windows, error) {
	w := &Windows{o: o, outputs: outputs, own: os.Getpid()}
	if w.sway = findSway(ctx, o.Getenv, o.Runtime); w.sway != nil {
		return w, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var err error
	if w.tops, err = newToplevels(ctx, outputs.c); err != nil {
		return nil, err
	}
	return w, nil
}

const swayRef = "sway:"

// id returns Sway's number of a window.
func (w *Windows) id(ref string) (int64, error) {
	digits, ok := strings.CutPrefix(ref, swayRef)
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n <= 0 {
		return 0, platform.ErrGone
	}
	return n, nil
}

// List returns the windows, the topmost first. One that is on a workspace which is
// not shown counts as minimized: it has to be activated to be seen.
func (w *Windows) List(ctx context.Context) ([]platform.Window, error) {
	if w.sway == nil {
		return w.tops.list(ctx)
	}
	views, err := w.sway.views(ctx)
	if err != nil {
		return nil, err
	}
	_, places := w.outputs.known()
	list := make([]platform.Window, 0, len(views))
	for _, v := range views {
		list = append(list, platform.Window{
			Ref: swayRef + strconv.FormatInt(v.ID, 10), Title: v.Name, App: v.app(), PID: v.PID,
			Bounds: physical(places, v.bounds), Content: physical(places, v.content),
			Focused: v.Focused, Minimized: v.hidden, Z: len(list), Own: v.PID == w.own,
		})
	}
	return list, nil
}

// Activate returns a window the keyboard, on whatever workspace it is.
func (w *Windows) Activate(ctx context.Context, ref string) error {
	if w.sway == nil {
		return w.tops.do(ctx, ref, toplevelActivate)
	}
	id, err := w.id(ref)
	if err != nil {
		return err
	}
	return w.sway.command(ctx, id, "focus")
}

// Place moves and resizes. A tiled window has no place of its own: it floats from
// then on.
func (w *Windows) Place(ctx context.Context, ref string, to platform.Rect) error {
	if w.sway == nil {
		return fmt.Errorf("no protocol of this compositor moves windows: %w", platform.ErrCannot)
	}
	id, err := w.id(ref)
	if err != nil {
		return err
	}
	_, places := w.outputs.known()
	r := units(places, to)
	// A program that draws once more at its old size while it begins to float has Sway
	// give it that size back; it floats by then, so the second time holds.
	for range 3 {
		if err := w.sway.command(ctx, id, "fullscreen disable", "floating enable",
			fmt.Sprintf("resize set width %d px height %d px", r.Width, r.Height),
			fmt.Sprintf("move absolute position %d px %d px", r.X, r.Y)); err != nil {
			return err
		}
		if now, err := w.sway.shown(ctx, id); err != nil || now == r {
			return err
		}
	}
	return nil
}

// Minimize hides a window; under Sway, whose windows have no such state, in the
// scratchpad.
func (w *Windows) Minimize(ctx context.Context, ref string) error {
	if w.sway == nil {
		return w.tops.do(ctx, ref, toplevelMinimize)
	}
	id, err := w.id(ref)
	if err != nil {
		return err
	}
	return w.sway.command(ctx, id, "move scratchpad")
}

// Close asks the window to close.
func (w *Windows) Close(ctx context.Context, ref string) error {
	if w.sway == nil {
		return w.tops.do(ctx, ref, toplevelClose)
	}
	id, err := w.id(ref)
	if err != nil {
		return err
	}
	return w.sway.command(ctx, id, "kill")
}

// Changes delivers that the list changed.
func (w *Windows) Changes(ctx context.Context) (<-chan struct{}, error) {
	out := make(chan struct{}, 1)
	changed := func() {
		select {
		case out <- struct{}{}:
		default:
		}
	}
	if w.sway == nil {
		return out, w.tops.follow(ctx, changed)
	}
	return out, w.sway.follow(ctx, changed)
}

// Launch starts an application, without a shell; it outlives the call.
func (w *Windows) Launch(ctx context.Context, app string, args []string) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	argv, dir, err := w.o.Find(app, args, os.Getenv)
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
		if !strings.HasPrefix(e, "HANDRAIL_") && !strings.HasPrefix(e, "WAYLAND_DISPLAY=") && !strings.HasPrefix(e, "XDG_RUNTIME_DIR=") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "WAYLAND_DISPLAY="+w.o.Display, "XDG_RUNTIME_DIR="+w.o.Runtime)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what ends this session does not reach it
	if err := cmd.Start(); err != nil {
		return 0, &platform.MissingError{
			What: fmt.Sprintf("%s cannot be started: %v.", argv[0], err), Fix: "Check that it is installed and may be run.",
		}
	}
	go func() { _ = cmd.Wait() }() // or it stays as a zombie
	return cmd.Process.Pid, nil
}
