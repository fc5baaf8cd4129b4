package main

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/fs"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// openFiles makes the handler of files over the workspace, which may be none.
func openFiles(workspace string, check func(path string) *capabilities.Error, launcher platform.Launcher) (*fs.Handler, error) {
	return fs.New(fs.Options{Workspace: workspace, Check: check, Start: shell{sandbox.New(launcher)}})
}

// filesOffered lists the file family, for a device that is about to join.
func filesOffered() []capabilities.CapabilityID { return (&fs.Handler{}).Capabilities() }

// shell starts commands in this system's sandbox.
type shell struct{ box *sandbox.Sandbox }

// Start starts a command that may write one folder.
func (s shell) Start(ctx context.Context, argv []string, dir string) (fs.Process, error) {
	child, err := s.box.Start(ctx, sandbox.Program{Argv: argv, Write: []string{dir}})
	if err != nil {
		return nil, err
	}
	return child, nil
}

// Class is what commands get.
func (s shell) Class() (capabilities.IsolationClass, error) { return s.box.Class() }
