package win32

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/handrail-dev/handrail/platform"
)

// Launch starts a program by its full path, its name in PATH or its registered
// name (App Paths). Never a script: those would need a shell.
func (Windows) Launch(_ context.Context, app string, args []string) (int, error) {
	path, err := find(app)
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = filepath.Dir(path)
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, windows.ERROR_ELEVATION_REQUIRED) {
			return 0, &platform.MissingError{What: "That application runs only with higher rights.", Fix: "A person has to start it."}
		}
		return 0, fmt.Errorf("win32: the application does not start: %w", err)
	}
	pid := cmd.Process.Pid
	go cmd.Wait() // it outlives the call; its handle must not
	return pid, nil
}

func find(app string) (string, error) {
	if strings.ContainsAny(app, "\x00\"") || app == "" {
		return "", platform.ErrNoApp
	}
	path := app
	if !filepath.IsAbs(app) {
		if strings.ContainsAny(app, `\/:`) {
			return "", platform.ErrNoApp
		}
		var err error
		if path, err = exec.LookPath(app); err != nil {
			if path = registered(app); path == "" {
				return "", platform.ErrNoApp
			}
		}
	}
	if ext := strings.ToLower(filepath.Ext(path)); ext != ".exe" && ext != ".com" {
		return "", platform.ErrNoApp
	}
	if !filepath.IsAbs(path) {
		return "", platform.ErrNoApp
	}
	return path, nil
}

// registered looks a name up where installers register programs.
func registered(app string) string {
	if filepath.Ext(app) == "" {
		app += ".exe"
	}
	for _, root := range []registry.Key{registry.CURRENT_USER, registry.LOCAL_MACHINE} {
		k, err := registry.OpenKey(root, `Software\Microsoft\Windows\CurrentVersion\App Paths\`+app, registry.QUERY_VALUE)
		if err != nil {
			continue
		}
		path, _, err := k.GetStringValue("")
		k.Close()
		if path = strings.Trim(path, `"`); err == nil && path != "" {
			if full, err := registry.ExpandString(path); err == nil {
				return full
			}
		}
	}
	return ""
}

// onThread runs f on a thread of its own, which some calls are bound to.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		done <- f()
	}()
	return <-done
}
